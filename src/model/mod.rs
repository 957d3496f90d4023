//! Types and rules that all layers share: pure, without a clock and without I/O.

pub(crate) mod column;
pub mod control;
pub mod epoch;
pub mod limits;
pub mod moment;
pub mod part;
pub mod partitioner;
pub mod reason;
pub mod rules;
pub mod sample;
pub mod visible;
