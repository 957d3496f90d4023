//! Types and rules that all modules share.

pub mod change;
pub mod class;
pub(crate) mod column;
pub mod limits;
pub mod named;
pub mod reading;
pub mod reason;
pub mod rules;
pub mod sample;
pub mod scalar;
pub mod schema;
pub mod time;
pub mod units;
