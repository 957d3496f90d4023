//! The use cases behind the commands and the HTTP API.

pub mod explain;
pub mod intake;
pub mod retry;
pub mod verify;
