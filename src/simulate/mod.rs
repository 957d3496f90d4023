//! A seeded fleet whose samples arrive out of order, in a mix that is asked for.
//!
//! Same settings, same bytes, on every host: the random numbers are `ChaCha`'s, the trigonometry is
//! libm's, everything else is sums of integers and plain IEEE arithmetic. Memory grows with the
//! devices, not with the samples.
//!
//! The mix is kept by correction: each arrival is drawn by what is still owed to each kind, over
//! the whole fleet. From about 500 samples a device on, what `timeline` counts is within one
//! percentage point of what was asked. In smaller runs trips that have just begun weigh in: a
//! device's first arrivals can hardly lie inside anything. A mix without ends and beginnings cannot
//! be met: nothing lies inside a trip that does not grow.
//!
//! Device times start at 2025-01-01T00:00:00Z. A device covers a day in some 20,000 samples or
//! more; several million samples of one device may so reach into the reader's future, where the
//! clock guard stops them: ask for more devices.

mod device;
mod line;
mod malformed;
mod random;
mod route;

#[cfg(test)]
mod tests;

pub use line::{Content, Event};

use crate::model::reason::DeadReason;
use device::Device;
use random::Random;

/// First device time of the fleet: 2025-01-01T00:00:00Z, ms since 1970.
pub const START_MS: i64 = 1_735_689_600_000;

/// Longest run of arrivals of one device before another one has its turn.
const MAX_BURST: u64 = 20;

/// How many arrivals ahead the mix is balanced: short enough to stay within a point in a run of
/// 5,000, long enough that arrivals do not alternate like clockwork.
const HORIZON: f64 = 60.0;

/// What a fleet is asked to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetSettings {
    /// How many devices, `truck-1` and on; at least 1.
    pub devices: u32,
    /// How many lines in all, malformed ones included.
    pub samples: u64,
    /// Where the random numbers start.
    pub seed: u64,
    /// Weights of end, inside, beginning and merge, of the arrivals that are neither new nor
    /// duplicates; normalised.
    pub mix: [f64; 4],
    /// Share of malformed lines, 0 to 1.
    pub bad: f64,
}

impl Default for FleetSettings {
    /// Ten devices, 100,000 samples, the arrival mix of the yardstick, nothing malformed.
    fn default() -> Self {
        Self { devices: 10, samples: 100_000, seed: 1, mix: [46.0, 34.0, 19.0, 1.0], bad: 0.0 }
    }
}

/// Why there is no such fleet.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// No device.
    #[error("a fleet of 0 devices sends nothing; ask for at least 1")]
    NoDevices,
    /// Weights that are no mix.
    #[error(
        "the mix {0:?} is none; give four weights (end, inside, beginning, merge), none negative, \
         not all 0, like 46,34,19,1"
    )]
    Mix([f64; 4]),
    /// A share that is none.
    #[error("the share {0} of malformed lines is none; give 0 to 1, like 0.01")]
    Bad(f64),
}

/// The mix asked and what was sent so far, over the whole fleet.
#[derive(Debug)]
struct Ledger {
    /// Shares of end, inside, beginning, merge; they add up to 1.
    mix: [f64; 4],
    /// How many of each were sent; a merge counts as soon as its second trip is begun.
    sent: [u64; 4],
}

impl Ledger {
    /// What is owed to each kind, to be right some arrivals from now.
    fn owed(&self) -> [f64; 4] {
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
    bad: f64,
    left: u64,
    turn: usize,
    burst: u64,
}

impl Fleet {
    /// Sets the fleet up. Memory: less than a kilobyte a device.
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

    /// Moves on to another device when this one's burst is over.
    fn take_turn(&mut self) {
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
        self.take_turn();
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
