//! The memory of a process, as its HTTP server asks for it, and what a lookup saw of it.

use std::sync::{Arc, Mutex};

use tstar::internals::model::scalar::Version;
use tstar::internals::pipeline::daemon::LiveWorkers;
use tstar::internals::store::TripRow;
use tstar::internals::store::fresh::{MemoryAnswer, MemoryQuestion, OwnerMemory};

use super::process::Process;
use super::truth::{Truth, is_own};
use super::world::{Device, World};

/// The workers of a process, asked for one lookup.
#[derive(Clone)]
pub struct Memory {
    pub process: usize,
    live: Arc<LiveWorkers>,
    asked: Arc<Mutex<Reads>>,
}

/// What a lookup saw of the memory that it asked.
#[derive(Debug, Default)]
pub struct Reads {
    pub questions: usize,
    pub answers: usize,
    /// All rows that came.
    pub rows: Vec<TripRow>,
    /// Whether the device was in memory at the first read, and after the last.
    pub is_resident: [bool; 2],
}

impl Memory {
    pub fn new(process: &Process) -> Self {
        let (live, asked) = (process.live(), Arc::default());
        Self { process: process.id, live, asked }
    }

    pub fn asked(&self) -> std::sync::MutexGuard<'_, Reads> {
        self.asked.lock().expect("no holder of the lock panics")
    }

    /// Asks after the reads of a lookup whether the device is still in memory.
    pub async fn ask_after(&self, device_id: &str) {
        let (from_ms, upto_ms) = Default::default();
        let (device_id, order) = (device_id.to_owned(), Default::default());
        let question = MemoryQuestion { device_id, from_ms, upto_ms, order, limit: 1 };
        let is_resident = self.live.answer(question).await.is_none_or(|answer| answer.is_resident);
        self.asked().is_resident[1] = is_resident;
    }
}

impl OwnerMemory for Memory {
    async fn answer(&self, question: MemoryQuestion) -> Option<MemoryAnswer> {
        let answer = self.live.answer(question).await;
        let mut asked = self.asked();
        asked.questions += 1;
        if let Some(answer) = &answer {
            asked.answers += 1;
            asked.rows.extend_from_slice(&answer.rows);
            asked.is_resident[0] |= answer.is_resident;
        }
        answer
    }
}

/// The trips of a device after the records before a version, of the partition that it belongs to.
pub fn state_before(
    world: &World,
    truth: &Truth,
    device: Device,
    before: Version,
) -> Vec<Arc<TripRow>> {
    let mut state = Vec::new();
    for (lane, script) in world.scripts.iter().enumerate() {
        let offset = script.log.versions.offset_of(before).get();
        // The offset alone does not say it: an epoch without records starts where the next does.
        let begun = script.epochs.iter().rev().find(|epoch| epoch.base <= before);
        let epoch = begun.expect("versions are of an epoch").epoch;
        let partition = script.log.partition;
        if world.homes.contains_key(&(device, epoch))
            && is_own(&world.homes, device, epoch, partition)
        {
            let rows = truth.state(lane, script.before(offset)).iter();
            state.extend(rows.filter(|row| row.device_id.as_bytes()[0] == device).cloned());
        }
    }
    state
}
