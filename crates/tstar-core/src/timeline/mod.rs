//! Paths: the samples of a trip or stop in time order, what follows from them, and the days of a
//! device that are in memory.
//!
//! Pure: no clock, no I/O, no async, no serialisation (`tests/tidy` checks the imports).

mod cost;
mod days;
mod derived;
mod drivers;
mod packed;
mod parts;
mod path;

pub use derived::{Jumps, PathStats, great_circle_m};
pub use parts::{Part, distance_dm, parts};
pub use path::Path;

pub use crate::model::limits::{ClockGuard, ClockViolation, FixFilter, Leg, LegFilter};
pub use crate::model::reading::{READINGS, Reading, ReadingKind};
pub use crate::model::sample::{OutOfRange, RawSample, Sample};
pub use crate::model::time::{DAY_MS, day_of};

pub(crate) use days::Days;
pub(crate) use drivers::Run;
