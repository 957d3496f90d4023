//! Types and rules shared by all layers. Pure: no clock, no I/O.

pub mod change;
pub(crate) mod column;
pub mod control;
pub mod epoch;
pub mod input_format;
pub mod input_part;
pub mod limits;
pub(crate) mod named;
pub mod nearest;
pub mod partitioner;
pub mod preset;
pub mod reading;
pub mod reason;
pub mod rules;
pub mod rules_request;
pub mod sample;
pub mod scalar;
pub mod schema;
pub mod stats;
pub mod tag;
pub mod time;
pub mod visible;
