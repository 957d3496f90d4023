//! A fleet in random device order. The simulated fleet sends bursts of one device, which is easy
//! for a program with only a part of the devices in memory. Here any device may follow any other.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use tstar::internals::simulate::{Event, Fleet, FleetSettings, REFERENCE_MIX};

/// Number of arrivals in the pool to draw from. Bursts have at most 20 arrivals, so those of one
/// burst end up thousands of lines apart.
const WAITING: usize = 1_000_000;

/// Writes the samples of a fleet of seed 1: those of a device in order, the devices shuffled.
///
/// # Errors
/// The disk fails.
pub fn write(file: &Path, devices: u32, samples: u64) -> anyhow::Result<()> {
    let mix = Some(REFERENCE_MIX);
    let settings = FleetSettings { devices, samples, mix, ..FleetSettings::default() };
    let mut fleet = Fleet::new(&settings)?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut waiting: Vec<VecDeque<Event>> = Vec::new();
    waiting.resize_with(devices as usize, VecDeque::new);
    // One ticket per waiting arrival: drawing it sends the oldest arrival of its device.
    let mut tickets: Vec<u32> = Vec::with_capacity(WAITING);
    loop {
        while tickets.len() < WAITING {
            let Some(event) = fleet.next() else { break };
            tickets.push(event.device);
            waiting[event.device as usize - 1].push_back(event);
        }
        if tickets.is_empty() {
            break;
        }
        let ticket = below(&mut random, tickets.len());
        let device = tickets.swap_remove(ticket);
        let event = waiting[device as usize - 1].pop_front();
        event.expect("each ticket has an arrival").write_line(&mut out)?;
    }
    Ok(out.flush()?)
}

/// A random number below `bound`.
#[expect(clippy::cast_possible_truncation, reason = "below a usize")]
pub fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    ((u128::from(random.next_u64()) * bound as u128) >> 64) as usize
}
