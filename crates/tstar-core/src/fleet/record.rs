//! A sample as it arrives, and what it did.

use crate::identity::IdError;
use crate::model::limits::ClockViolation;
use crate::model::reason::{DeadReason, DropReason};
use crate::model::sample::{OutOfRange, RawSample, Sample};
use crate::model::scalar::LogTime;
use crate::segment::Arrival;

/// A sample of a device, as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Device id: 1 to 256 bytes without NUL.
    pub device_id: &'a str,
    /// The sample.
    pub sample: RawSample,
    /// Who drove: at most 256 bytes without NUL; an empty name is none.
    pub driver: Option<&'a str>,
    /// When the log received it. Unset: no device time is too far in the future.
    pub log_time_ms: Option<LogTime>,
}

impl<'a> Record<'a> {
    /// A sample without driver and log timestamp.
    #[must_use]
    pub fn new(device_id: &'a str, sample: RawSample) -> Self {
        Self { device_id, sample, driver: None, log_time_ms: None }
    }
}

/// What a sample did.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// It is kept.
    Applied(Arrival),
    /// A sample of this device time is kept. Nothing changed.
    Duplicate {
        /// The kept sample, if it was measured differently.
        conflict: Option<Sample>,
    },
    /// The rules filter it.
    Dropped(DropReason),
    /// It cannot be used: tstar makes a dead letter of it.
    Refused(Refusal),
}

impl Effect {
    /// The name of a duplicate.
    pub const DUPLICATE: &'static str = "duplicate";

    /// Its name: the arrival kind, `duplicate`, or the reason.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Applied(arrival) => arrival.name(),
            Self::Duplicate { .. } => Self::DUPLICATE,
            Self::Dropped(reason) => reason.name(),
            Self::Refused(refusal) => refusal.reason().name(),
        }
    }
}

/// Why a sample cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The device id is not valid.
    #[error(transparent)]
    Device(#[from] IdError),
    /// The name of the driver is not valid.
    #[error("the driver's name has {bytes} bytes; it needs at most 256, none of them NUL")]
    Driver {
        /// Its length.
        bytes: usize,
    },
    /// A value is out of range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
    /// The device time is before `min_time_ms` of the rules.
    #[error("the device time is before rule min_time")]
    BeforeMin,
    /// The device time is further past the log timestamp than `max_future_ms` of the rules.
    #[error("the device time is more than rule max_future past the log timestamp")]
    InFuture,
    /// It would make a trip or stop of more than `max_samples`.
    #[error("it lies inside a trip that holds as many samples as rule max_samples allows")]
    TripFull,
}

impl Refusal {
    /// The reason, as dead letters have it.
    #[must_use]
    pub fn reason(&self) -> DeadReason {
        match self {
            Self::Device(_) => DeadReason::BadDeviceId,
            Self::Driver { .. } => DeadReason::BadType,
            Self::Range(_) => DeadReason::OutOfRange,
            Self::BeforeMin => DeadReason::TimeBeforeMin,
            Self::InFuture => DeadReason::TimeInFuture,
            Self::TripFull => DeadReason::TripFull,
        }
    }
}

impl From<ClockViolation> for Refusal {
    fn from(violation: ClockViolation) -> Self {
        match violation {
            ClockViolation::BeforeMin => Self::BeforeMin,
            ClockViolation::InFuture => Self::InFuture,
        }
    }
}
