//! The log for all schemes: the simulated fleet with the reference arrival mix, and a clock of
//! arrival.
//!
//! The fleet gives the arrival order of each device, but no clock. Here the arrival time of a
//! sample is the latest device time of its device so far, and devices are interleaved by it. So a
//! trip is minted on the day of the drive, as by a live consumer, and the arrivals of each device
//! keep their order and the mix.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use anyhow::{Context as _, ensure};
use tstar::internals::simulate::{Content, Fleet, FleetSettings, REFERENCE_MIX};
use tstar::internals::timeline::Sample;

/// One arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Number of the device, from 1.
    pub device: u32,
    /// The sample.
    pub sample: Sample,
    /// Arrival time, ms since 1970; never decreases.
    pub clock_ms: i64,
}

/// An endless log.
pub struct Log {
    fleet: Fleet,
    /// Queued arrivals and clock of each device.
    devices: Vec<(VecDeque<Arrived>, i64)>,
    /// Time of the first queued arrival of each device that has one.
    next: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Log {
    /// A log of seed 1.
    ///
    /// # Errors
    /// The settings of the fleet are not valid.
    pub fn new(devices: u32) -> anyhow::Result<Self> {
        let (samples, mix) = (u64::MAX, Some(REFERENCE_MIX));
        let settings = FleetSettings { devices, samples, mix, ..FleetSettings::default() };
        let queues = (0..devices).map(|_| (VecDeque::new(), i64::MIN)).collect();
        Ok(Self { fleet: Fleet::new(&settings)?, devices: queues, next: BinaryHeap::new() })
    }

    /// The next arrival.
    ///
    /// # Errors
    /// The fleet sends something other than samples.
    pub fn arrival(&mut self) -> anyhow::Result<Arrived> {
        // The next device is known once every device has a queued arrival.
        while self.next.len() < self.devices.len() {
            let event = self.fleet.next().context("the fleet has no end")?;
            let Content::Good { sample, .. } = event.content else {
                anyhow::bail!("a fleet without malformed lines sent one");
            };
            let (queue, clock_ms) = &mut self.devices[slot_of(event.device)];
            *clock_ms = sample.time_ms.ms().max(*clock_ms);
            let arrived = Arrived { device: event.device, sample, clock_ms: *clock_ms };
            if queue.is_empty() {
                self.next.push(Reverse((arrived.clock_ms, arrived.device)));
            }
            queue.push_back(arrived);
        }
        let Reverse((_, device)) = self.next.pop().context("every device has a queued arrival")?;
        let queue = &mut self.devices[slot_of(device)].0;
        let arrived = queue.pop_front().context("the device has a queued arrival")?;
        if let Some(following) = queue.front() {
            ensure!(following.clock_ms >= arrived.clock_ms, "the clock of device {device} fell");
            self.next.push(Reverse((following.clock_ms, device)));
        }
        Ok(arrived)
    }
}

/// Index of a device in a list.
pub fn slot_of(device: u32) -> usize {
    device as usize - 1
}

/// Device id in the fleet.
pub fn device_id(device: u32) -> String {
    format!("truck-{device}")
}
