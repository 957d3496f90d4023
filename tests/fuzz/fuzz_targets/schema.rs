#![no_main]

// Each target uses one of the bodies only.
#[allow(dead_code)]
#[path = "../bodies.rs"]
mod bodies;
#[allow(dead_code)]
#[path = "../records.rs"]
mod records;
#[path = "../schemas.rs"]
mod schemas;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    schemas::schema(data);
});
