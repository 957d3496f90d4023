//! Types and rules shared by all layers, besides those of `tstar-core`. Pure: no clock, no I/O.

pub mod change;
pub mod control;
pub mod epoch;
pub mod failure;
pub(crate) mod input_format;
pub(crate) mod input_part;
pub mod nearest;
pub mod partitioner;
pub mod preset;
pub(crate) mod rules_request;
pub mod schema;
pub mod stats;
pub mod tag;
pub(crate) mod text_encoding;
pub mod visible;
pub mod zone;

pub use tstar_core::model::{limits, named, reading, reason, rules, sample, scalar, time, units};
