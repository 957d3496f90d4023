#![doc = include_str!("../README.md")]
//!
//! # Layers
//! The lowest layer comes first: a module uses modules above it only, as in tstar.
//!
//! | module | what it does |
//! |---|---|
//! | `identity` | writes and parses the forms of a trip id |
//! | `model` | types and rules |
//! | `timeline` | paths: samples in time order, and what follows from them |
//! | `segment` | parts the samples of a device into trips and stops |
//! | `advice` | proposes rules by samples |
//! | `codec` | trips as rows, paths as bytes |
//! | `fleet` | the trips of many devices in memory |
//! | `evidence` | whether a trip follows from its records; feature `evidence` |

#![forbid(unsafe_code)]

pub mod advice;
pub mod codec;
#[cfg(feature = "evidence")]
pub mod evidence;
pub mod fleet;
pub mod identity;
pub mod model;
pub mod segment;
pub mod timeline;

pub use fleet::{Effect, Fleet, Record};
pub use model::limits::SegmentRules;
pub use model::reading::{Reading, ReadingKind};
pub use model::rules::Rules;
pub use model::sample::{OutOfRange, RawSample, Sample};
pub use model::scalar::{Day, DeviceTime, LogTime, Version};
pub use segment::{Arrival, Outcome, Segment, Timeline};
pub use timeline::{Path, PathStats};
