//! A seeded fleet whose samples arrive late, in bursts, out of order and twice.
//!
//! It is that of a town: vans, buses and trucks that drive along its streets, stop with the
//! ignition on and off, and whose trackers lose the network. Or, for measurements, one whose
//! samples arrive with a given mix of arrival kinds.
//!
//! The same settings give the same bytes on every host: `ChaCha` makes the random numbers, libm the
//! trigonometry, and everything else is integer sums and plain IEEE arithmetic. Memory grows with
//! the number of devices, not of samples. Device times start at 2025-01-01T00:00:00Z.

mod line;
mod malformed;
mod mix;
mod random;
mod town;

#[cfg(test)]
mod tests;

pub use line::{Content, Event};

use crate::model::reason::DeadReason;
use crate::model::scalar::DeviceTime;
use mix::MixFleet;
use town::TownFleet;

/// First device time of the fleet: 2025-01-01T00:00:00Z, ms since 1970.
pub const START_MS: DeviceTime = DeviceTime(1_735_689_600_000);

/// Length of a degree of latitude, m, on the sphere that distances are computed on.
const METRES_PER_DEGREE: f64 = 111_195.08;

/// The arrival mix for which ids were designed: end, inside, beginning, merge.
#[cfg(any(test, feature = "internals"))]
pub const REFERENCE_MIX: [f64; 4] = [46.0, 34.0, 19.0, 1.0];

/// Settings of a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetSettings {
    /// Number of devices, at least 1. Each has a number from 1: `van-1`, `bus-5`, `truck-7`.
    pub devices: u32,
    /// Number of lines, including malformed ones.
    pub samples: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Weights of end, inside, beginning and merge among the arrivals that are neither new nor
    /// duplicates, of trucks that know neither streets nor stops. They need not add up to 1.
    /// `None`: the vehicles of a town, with whatever their trackers make of it.
    pub mix: Option<[f64; 4]>,
    /// Share of malformed lines, 0 to 1.
    pub bad: f64,
}

impl Default for FleetSettings {
    /// Ten devices of a town, 100,000 samples, no malformed lines.
    fn default() -> Self {
        Self { devices: 10, samples: 100_000, seed: 1, mix: None, bad: 0.0 }
    }
}

impl FleetSettings {
    /// Checks that a fleet can meet them.
    fn check(&self) -> Result<(), FleetError> {
        if self.devices == 0 {
            return Err(FleetError::NoDevices);
        }
        let is_mix = |mix: &[f64; 4]| {
            mix.iter().all(|weight| (0.0..=1e100).contains(weight)) && mix.iter().sum::<f64>() > 0.0
        };
        if let Some(mix) = self.mix.filter(|mix| !is_mix(mix)) {
            return Err(FleetError::Mix(mix));
        }
        if !(0.0..=1.0).contains(&self.bad) {
            return Err(FleetError::Bad(self.bad));
        }
        Ok(())
    }
}

/// Settings that no fleet can meet.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// Zero devices.
    #[error("a fleet of 0 devices sends no samples; give at least 1")]
    NoDevices,
    /// Weights where the vehicles are those of a town.
    #[error("{0:?} is a mix of arrivals, and the vehicles of a town have their own; leave it out")]
    MixOfTown([f64; 4]),
    /// Weights that do not form a mix.
    #[error(
        "{0:?} is not a valid mix; give four weights (end, inside, beginning, merge), none \
         negative, not all 0, like 46,34,19,1"
    )]
    Mix([f64; 4]),
    /// A share outside of 0 to 1.
    #[error("{0} is not a valid share of malformed lines; give 0 to 1, like 0.01")]
    Bad(f64),
}

/// A street of the town of a fleet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Street {
    /// `highway`, `major_road` or `minor_road`.
    pub kind: &'static str,
    /// Latitude and longitude, degrees.
    pub points: Vec<[f64; 2]>,
}

/// What makes the arrivals.
#[derive(Debug)]
enum Source {
    Mix(Box<MixFleet>),
    Town(Box<TownFleet>),
}

/// A seeded fleet: an iterator over its arrivals.
#[derive(Debug)]
pub struct Fleet {
    source: Source,
    /// Lines still to come.
    left: u64,
}

impl Fleet {
    /// Creates the fleet.
    ///
    /// # Errors
    /// Settings that no fleet can meet.
    pub fn new(settings: &FleetSettings) -> Result<Self, FleetError> {
        settings.check()?;
        let FleetSettings { devices, samples, seed, mix, bad } = *settings;
        let source = match mix {
            Some(mix) => Source::Mix(Box::new(MixFleet::new(devices, seed, mix, bad))),
            None => Source::Town(Box::new(TownFleet::new(devices, seed, bad, START_MS))),
        };
        Ok(Self { source, left: samples })
    }

    /// The vehicles of a town by these settings, which start at a device time and never stop. The
    /// same settings give the same lines, but for the time.
    ///
    /// # Errors
    /// Settings that no fleet can meet, or with a mix.
    pub(crate) fn town(settings: &FleetSettings, start_ms: DeviceTime) -> Result<Self, FleetError> {
        settings.check()?;
        let FleetSettings { devices, seed, mix, bad, .. } = *settings;
        if let Some(mix) = mix {
            return Err(FleetError::MixOfTown(mix));
        }
        let fleet = TownFleet::new(devices, seed, bad, start_ms);
        Ok(Self { source: Source::Town(Box::new(fleet)), left: u64::MAX })
    }

    /// When the last line arrived; the first device time of a fleet of a mix, which knows no
    /// arrival times.
    pub(crate) fn arrived_ms(&self) -> DeviceTime {
        match &self.source {
            Source::Mix(_) => START_MS,
            Source::Town(fleet) => fleet.arrived_ms(),
        }
    }

    /// The streets of its town; a fleet of a mix has none.
    pub(crate) fn streets(&self) -> Vec<Street> {
        match &self.source {
            Source::Mix(_) => Vec::new(),
            Source::Town(fleet) => fleet.streets(),
        }
    }
}

impl Iterator for Fleet {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.left = self.left.checked_sub(1)?;
        Some(match &mut self.source {
            Source::Mix(fleet) => fleet.next(),
            Source::Town(fleet) => fleet.next(),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}
