//! The use cases behind the commands and the HTTP API.

pub mod explain;
pub mod ingest_request;
pub mod redecode;
pub mod verify;
