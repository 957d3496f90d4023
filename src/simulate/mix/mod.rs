//! A fleet whose samples arrive with a given arrival mix.
//!
//! Each arrival kind is drawn with a weight that corrects the mix so far, over the whole fleet.
//! From about 500 samples per device, the mix that `timeline` counts is within one percentage
//! point of the given one. In smaller runs new trips distort it: the first arrivals of a device
//! can hardly lie inside a trip. A mix without ends and beginnings cannot be met: nothing lies
//! inside a trip that does not grow.
//!
//! A device needs about 20,000 samples or more to cover a day, so several million samples of one
//! device may reach into the future, where the clock guard rejects them: use more devices then.

mod device;
mod route;

pub(super) use device::Device;
#[cfg(test)]
pub(super) use route::Drive;

use super::random::Random;
use super::{Event, malformed};

/// Maximum consecutive arrivals of one device.
const MAX_BURST: u64 = 20;

/// Number of arrivals over which the mix is corrected: few enough to stay within a percentage point
/// in a run of 5,000, enough that the kinds do not alternate regularly.
const HORIZON: f64 = 60.0;

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

/// The fleet: an endless iterator over its arrivals. It uses less than a kilobyte of memory per
/// device.
#[derive(Debug)]
pub(super) struct MixFleet {
    random: Random,
    ledger: Ledger,
    pub(super) devices: Vec<Device>,
    /// Share of malformed lines.
    bad: f64,
    /// Index of the current device.
    turn: usize,
    /// Arrivals left in its burst.
    burst: u64,
}

impl MixFleet {
    /// Creates the fleet. The weights of the mix need not add up to 1.
    pub(super) fn new(devices: u32, seed: u64, mix: [f64; 4], bad: f64) -> Self {
        let mut random = Random::new(seed);
        let devices = (0..devices).map(|device| Device::new(device, &mut random)).collect();
        let sum: f64 = mix.iter().sum();
        let ledger = Ledger { mix: mix.map(|weight| weight / sum), sent: [0; 4] };
        Self { random, ledger, devices, bad, turn: 0, burst: 0 }
    }

    /// Picks a device at the end of each burst.
    fn next_turn(&mut self) {
        if self.burst == 0 {
            self.turn = self.random.index(self.devices.len());
            self.burst = 1 + self.random.below(MAX_BURST);
        }
        self.burst -= 1;
    }

    /// The next arrival.
    pub(super) fn next(&mut self) -> Event {
        self.next_turn();
        let device = &mut self.devices[self.turn];
        if self.bad > 0.0 && self.random.unit() < self.bad {
            let reason = malformed::REASONS[self.random.index(malformed::REASONS.len())];
            return device.malformed(reason, &mut self.random);
        }
        device.next(&mut self.ledger, &mut self.random)
    }
}
