//! What an undisturbed run gives, by the literal model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tstar::store::TripRow;
use tstar::timeline::{Driver, Path, Trip};

use super::log::{PARTITION, Record, Script, name, sample};
use super::world::{Device, Place};
use crate::model::literal::{self, Did};

/// Device, `t_star`, version.
pub type Named = (Device, i64, i64);

#[derive(Default)]
pub struct Truth {
    /// Trips after so many records.
    pub states: Vec<Vec<Arc<TripRow>>>,
    /// Every row that ever was true.
    pub ever: BTreeMap<Named, Arc<TripRow>>,
    /// Retired `t_star`s, with the version of the merge.
    pub merges: BTreeSet<Named>,
    pub dead: BTreeSet<Place>,
    /// Before which time a device is forgotten in the end.
    pub gone: BTreeMap<Device, i64>,
}

pub fn device_of(row: &TripRow) -> Device {
    row.device_id.as_bytes()[0]
}

impl Truth {
    /// `foreign` are devices that belong to another partition, with the epoch in which they do.
    pub fn of(script: &Script, foreign: &BTreeSet<(Device, i32)>) -> Self {
        let mut truth = Self { states: vec![Vec::new()], ..Self::default() };
        let limits = literal::Limits {
            max_gap: script.rules.max_gap_ms,
            max_duration: script.rules.max_duration_ms,
            max_samples: script.rules.max_samples as usize,
        };
        let mut devices: BTreeMap<Device, literal::Device> = BTreeMap::new();
        for (record, offset) in script.records.iter().zip(0..) {
            let version = script.log.versions.of(offset);
            match record {
                Record::Forget(id, before_ms) => {
                    let floor = truth.gone.entry(*id).or_insert(*before_ms);
                    *floor = (*floor).max(*before_ms);
                    if let Some(device) = devices.get_mut(id) {
                        device.trips.retain(|trip| trip.end() >= *before_ms);
                    }
                }
                Record::Forged(..) => {
                    truth.dead.insert((offset, 0));
                }
                Record::Samples(id, fixes) if foreign.contains(&(*id, script.epoch_of(offset))) => {
                    truth.dead.extend((0..fixes.len() as u32).map(|element| (offset, element)));
                }
                Record::Samples(id, fixes) => {
                    let device = devices.entry(*id).or_insert_with(|| literal::Device::new(limits));
                    for (fix, element) in fixes.iter().zip(0..) {
                        let is_dead = match fix {
                            None => true,
                            Some(fix)
                                if truth.gone.get(id).is_some_and(|gone| fix.time < *gone) =>
                            {
                                false
                            }
                            Some(fix) => device.arrive(version, *fix) == Did::TripFull,
                        };
                        if is_dead {
                            truth.dead.insert((offset, element));
                        }
                    }
                }
            }
            truth.note(&devices);
        }
        truth
    }

    /// Takes note of the trips after a record.
    fn note(&mut self, devices: &BTreeMap<Device, literal::Device>) {
        let mut state = Vec::new();
        for (&id, trip) in devices.iter().flat_map(|(id, of)| of.trips.iter().map(move |t| (id, t)))
        {
            let merges = trip.absorbed.iter().map(|&(t_star, version)| (id, t_star, version));
            self.merges.extend(merges);
            let named = (id, trip.t_star, trip.version);
            let row = self.ever.entry(named).or_insert_with(|| Arc::new(row(id, trip)));
            state.push(Arc::clone(row));
        }
        self.states.push(state);
    }

    /// Before which time a device is forgotten by any record of the log.
    pub fn floor(&self, device: Device) -> i64 {
        self.gone.get(&device).copied().unwrap_or(i64::MIN)
    }

    pub fn end(&self) -> &[Arc<TripRow>] {
        self.states.last().expect("there is the state before the first record")
    }
}

fn row(device: Device, trip: &literal::Trip) -> TripRow {
    let mut kept = trip.kept.clone();
    kept.sort_by_key(|fix| fix.time);
    let path = Path::from_sorted(kept.iter().map(sample)).expect("times differ");
    let driver = trip.driver().map(|(name, time_ms)| Driver { name: name.into(), time_ms });
    let absorbed = trip.absorbed.iter().copied().collect();
    let trip = Trip::loaded(trip.t_star, trip.minted, trip.version, absorbed, driver, path);
    TripRow { partition: PARTITION, ..TripRow::of(&name(device), &trip) }
}
