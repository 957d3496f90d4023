//! The log that all schemes name trips on: the simulated fleet with the reference arrival mix,
//! under a clock of arrival.
//!
//! The fleet tells the order of one device's arrivals, and no clock. Here a sample arrives when its
//! device's clock stands at the latest time that it has recorded so far; devices are merged by
//! that. So a trip is minted on the day on which it is driven, as it would be by a live consumer,
//! and each device's own arrivals keep their order, and so the mix.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use anyhow::{Context as _, ensure};
use tstar::simulate::{Content, Fleet, FleetSettings};
use tstar::timeline::Sample;

/// One arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Which device, from 1.
    pub device: u32,
    /// What it sent.
    pub sample: Sample,
    /// When it arrived, ms since 1970; never falls.
    pub clock_ms: i64,
}

/// The log: an endless iterator.
pub struct Log {
    fleet: Fleet,
    /// Of each device: arrivals that wait for their turn, and its clock.
    devices: Vec<(VecDeque<Arrived>, i64)>,
    /// When the first that waits arrives, of each device that has one.
    next: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Log {
    /// A log of seed 1.
    ///
    /// # Errors
    /// There is no such fleet.
    pub fn new(devices: u32) -> anyhow::Result<Self> {
        let settings = FleetSettings { devices, samples: u64::MAX, ..FleetSettings::default() };
        let queues = (0..devices).map(|_| (VecDeque::new(), i64::MIN)).collect();
        Ok(Self { fleet: Fleet::new(&settings)?, devices: queues, next: BinaryHeap::new() })
    }

    /// The next arrival.
    ///
    /// # Errors
    /// The fleet sends something else than samples.
    pub fn arrival(&mut self) -> anyhow::Result<Arrived> {
        // Whose turn it is can be said once every device has something to send.
        while self.next.len() < self.devices.len() {
            let event = self.fleet.next().context("the fleet has no end")?;
            let Content::Good { sample, .. } = event.content else {
                anyhow::bail!("a fleet without malformed lines sent one");
            };
            let (queue, clock_ms) = &mut self.devices[place(event.device)];
            *clock_ms = sample.time_ms.max(*clock_ms);
            let arrived = Arrived { device: event.device, sample, clock_ms: *clock_ms };
            if queue.is_empty() {
                self.next.push(Reverse((arrived.clock_ms, arrived.device)));
            }
            queue.push_back(arrived);
        }
        let Reverse((_, device)) = self.next.pop().context("every device waits")?;
        let queue = &mut self.devices[place(device)].0;
        let arrived = queue.pop_front().context("the device waits")?;
        if let Some(following) = queue.front() {
            ensure!(following.clock_ms >= arrived.clock_ms, "the clock of device {device} fell");
            self.next.push(Reverse((following.clock_ms, device)));
        }
        Ok(arrived)
    }
}

/// The place of a device in a list.
pub fn place(device: u32) -> usize {
    device as usize - 1
}

/// The name of a device, as the fleet has it.
pub fn device_id(device: u32) -> String {
    format!("truck-{device}")
}
