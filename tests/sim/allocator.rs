//! The allocator of the tests: random logs and schedules allocate a lot. A daemon that a test
//! starts has its own.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
