//! A seeded fleet whose samples arrive out of order, with a given arrival mix.
//!
//! The same settings give the same bytes on every host: `ChaCha` makes the random numbers, libm the
//! trigonometry, and everything else is integer sums and plain IEEE arithmetic. Memory grows with
//! the number of devices, not of samples.
//!
//! Each arrival kind is drawn with a weight that corrects the mix so far, over the whole fleet.
//! From about 500 samples per device, the mix that `timeline` counts is within one percentage
//! point of the given one. In smaller runs new trips distort it: the first arrivals of a device
//! can hardly lie inside a trip. A mix without ends and beginnings cannot be met: nothing lies
//! inside a trip that does not grow.
//!
//! Device times start at 2025-01-01T00:00:00Z. A device needs about 20,000 samples or more to cover
//! a day, so several million samples of one device may reach into the future, where the clock guard
//! rejects them: use more devices then.

mod device;
mod line;
mod malformed;
mod random;
mod route;

#[cfg(test)]
mod tests;

#[cfg(feature = "internals")]
pub use line::Content;
pub use line::Event;

use crate::model::reason::DeadReason;
use crate::model::scalar::DeviceTime;
use device::Device;
use random::Random;

/// First device time of the fleet: 2025-01-01T00:00:00Z, ms since 1970.
pub const START_MS: DeviceTime = DeviceTime(1_735_689_600_000);

/// Maximum consecutive arrivals of one device.
const MAX_BURST: u64 = 20;

/// Number of arrivals over which the mix is corrected: few enough to stay within a percentage point
/// in a run of 5,000, enough that the kinds do not alternate regularly.
const HORIZON: f64 = 60.0;

/// Settings of a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetSettings {
    /// Number of devices (`truck-1`, `truck-2`, ...), at least 1.
    pub devices: u32,
    /// Number of lines, including malformed ones.
    pub samples: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Weights of end, inside, beginning and merge among the arrivals that are neither new nor
    /// duplicates. They need not add up to 1.
    pub mix: [f64; 4],
    /// Share of malformed lines, 0 to 1.
    pub bad: f64,
}

impl Default for FleetSettings {
    /// Ten devices, 100,000 samples, the arrival mix of the contract, no malformed lines.
    fn default() -> Self {
        Self { devices: 10, samples: 100_000, seed: 1, mix: [46.0, 34.0, 19.0, 1.0], bad: 0.0 }
    }
}

/// Settings that no fleet can meet.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// Zero devices.
    #[error("a fleet of 0 devices sends no samples; give at least 1")]
    NoDevices,
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

/// The target mix and the arrivals sent so far, over the whole fleet.
#[derive(Debug)]
struct Ledger {
    /// Target shares of end, inside, beginning, merge; they add up to 1.
    mix: [f64; 4],
    /// Arrivals sent of each kind; a merge counts as soon as its second trip starts.
    sent: [u64; 4],
}

impl Ledger {
    /// Arrivals missing of each kind for the mix to be right after [`HORIZON`] more arrivals.
    fn missing(&self) -> [f64; 4] {
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let sent = self.sent.map(|count| count as f64);
        let ahead = sent.iter().sum::<f64>() + HORIZON;
        std::array::from_fn(|kind| (self.mix[kind] * ahead - sent[kind]).max(0.0))
    }
}

/// A seeded fleet: an iterator over its arrivals.
#[derive(Debug)]
pub struct Fleet {
    random: Random,
    ledger: Ledger,
    devices: Vec<Device>,
    /// Share of malformed lines.
    bad: f64,
    /// Lines still to come.
    left: u64,
    /// Index of the current device.
    turn: usize,
    /// Arrivals left in its burst.
    burst: u64,
}

impl Fleet {
    /// Creates the fleet. It uses less than a kilobyte of memory per device.
    ///
    /// # Errors
    /// Settings that no fleet can meet.
    pub fn new(settings: &FleetSettings) -> Result<Self, FleetError> {
        let FleetSettings { devices, samples, seed, mix, bad } = *settings;
        if devices == 0 {
            return Err(FleetError::NoDevices);
        }
        let sum: f64 = mix.iter().sum();
        if mix.iter().any(|weight| !(0.0..=1e100).contains(weight)) || sum <= 0.0 {
            return Err(FleetError::Mix(mix));
        }
        if !(0.0..=1.0).contains(&bad) {
            return Err(FleetError::Bad(bad));
        }
        let mut random = Random::new(seed);
        let devices = (0..devices).map(|device| Device::new(device, &mut random)).collect();
        let ledger = Ledger { mix: mix.map(|weight| weight / sum), sent: [0; 4] };
        Ok(Self { random, ledger, devices, bad, left: samples, turn: 0, burst: 0 })
    }

    /// Picks a device at the end of each burst.
    fn next_turn(&mut self) {
        if self.burst == 0 {
            self.turn = self.random.index(self.devices.len());
            self.burst = 1 + self.random.below(MAX_BURST);
        }
        self.burst -= 1;
    }
}

impl Iterator for Fleet {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.left = self.left.checked_sub(1)?;
        self.next_turn();
        let device = &mut self.devices[self.turn];
        if self.bad > 0.0 && self.random.unit() < self.bad {
            let reason = malformed::REASONS[self.random.index(malformed::REASONS.len())];
            return Some(device.malformed(reason, &mut self.random));
        }
        Some(device.next(&mut self.ledger, &mut self.random))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}
