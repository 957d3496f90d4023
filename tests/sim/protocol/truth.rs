//! The result of an undisturbed run, by the literal model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use tstar::internals::model::scalar::{DeviceTime, Offset, Version};
use tstar::internals::segment::{Kind, MintPoints};
use tstar::internals::store::TripRow;
use tstar::internals::timeline::{LegFilter, Path, Sample};

use super::log::{CONTESTED, PARTITION, Record, Script, name, sample};
use super::world::{Device, Homes, Place};
use crate::model::Fix;
use crate::model::literal::{self, Did};

/// Device, `t_star`, version.
pub type Named = (Device, DeviceTime, i64);

#[derive(Default)]
pub struct Truth {
    /// Per partition, its trips after each number of records.
    pub states: Vec<Vec<Vec<Arc<TripRow>>>>,
    /// Every row that was ever correct.
    pub ever: BTreeMap<Named, Arc<TripRow>>,
    /// Retired `t_star`s, with the version of the merge, and the index of its log.
    pub merges: BTreeMap<Named, usize>,
    /// `t_star`s that a trip took back, with the version at which it did.
    pub revivals: BTreeSet<Named>,
    /// Samples that divided a trip or stop.
    pub splits: u64,
    /// Samples that made a stop of a trip, or a trip of a stop.
    pub turns: u64,
    pub dead: BTreeSet<Place>,
    /// The time before which a device is erased in the end.
    pub gone: BTreeMap<Device, DeviceTime>,
    devices: BTreeMap<Device, literal::Device>,
}

/// Per partition, the records that expire before anyone reads them.
pub type Skips = Vec<Range<usize>>;

pub fn device_of(row: &TripRow) -> Device {
    row.device_id.as_bytes()[0]
}

/// Whether a device belongs to a partition. Before that is decided, nothing is built.
pub fn is_own(homes: &Homes, device: Device, epoch: i32, partition: i32) -> bool {
    let undecided = device < CONTESTED || partition == PARTITION;
    homes.get(&(device, epoch)).map_or(undecided, |home| *home == partition)
}

impl Truth {
    /// `homes` maps devices to partitions. Epochs follow each other; within one, a device concerns
    /// one partition only.
    pub fn new(scripts: &[Arc<Script>], homes: &Homes, skips: &[Range<usize>]) -> Self {
        let states = vec![vec![Vec::new()]; scripts.len()];
        let mut truth = Self { states, ..Self::default() };
        for epoch in 1..=scripts[0].starts.len() {
            for (lane, script) in scripts.iter().enumerate() {
                for nth in script.starts[epoch - 1]..script.upto(epoch) {
                    if !skips[lane].contains(&nth) {
                        truth.apply(script, nth, homes);
                    }
                    truth.record_state(lane, script, script.offsets[nth], homes);
                }
            }
        }
        truth
    }

    fn apply(&mut self, script: &Script, nth: usize, homes: &Homes) {
        let offset = script.offsets[nth];
        let (partition, epoch) = (script.log.partition, script.epoch_of(offset));
        let is_own = |device: &Device| is_own(homes, *device, epoch, partition);
        match &script.records[nth] {
            Record::Forget(id, before_ms) if is_own(id) => {
                let floor = self.gone.entry(*id).or_insert(*before_ms);
                *floor = (*floor).max(*before_ms);
                if let Some(device) = self.devices.get_mut(id) {
                    device.trips.retain(|trip| DeviceTime(trip.end()) >= *before_ms);
                }
            }
            Record::Forget(..) | Record::Forged(..) | Record::Hostile(..) => {
                self.dead.insert((partition, offset, 0));
            }
            Record::Samples(id, fixes) => {
                let is_own = is_own(id);
                for (fix, element) in fixes.iter().zip(0..) {
                    let is_dead = match fix {
                        Some(fix) if is_own => self.is_refused(script, offset, *id, fix),
                        _ => true,
                    };
                    if is_dead {
                        self.dead.insert((partition, offset, element));
                    }
                }
            }
        }
    }

    /// Applies a sample. Returns whether its trip is full.
    fn is_refused(&mut self, script: &Script, offset: i64, id: Device, fix: &Fix) -> bool {
        if self.gone.get(&id).is_some_and(|gone| DeviceTime(fix.time) < *gone) {
            return false;
        }
        let limits = literal::Limits {
            max_gap: script.rules.max_gap_ms,
            min_stop: script.rules.min_stop_ms,
            max_samples: script.rules.max_samples as usize,
        };
        let device = self.devices.entry(id).or_insert_with(|| literal::Device::new(limits));
        let did = device.arrive(script.log.versions.version_at(Offset(offset)).get(), *fix);
        self.splits += u64::from(did == Did::Split);
        self.turns += u64::from(did == Did::Turn);
        did == Did::TripFull
    }

    /// Records the trips of a partition after a record of it.
    fn record_state(&mut self, lane: usize, script: &Script, offset: i64, homes: &Homes) {
        let (partition, epoch) = (script.log.partition, script.epoch_of(offset));
        let mut state = Vec::new();
        for (&id, device) in &self.devices {
            if !script.devices.contains(&id) || !is_own(homes, id, epoch, partition) {
                continue;
            }
            for trip in &device.trips {
                for (t_star, version) in trip.absorbed() {
                    self.merges.entry((id, DeviceTime(t_star), version)).or_insert(lane);
                }
                for (&t_star, history) in &trip.ids {
                    let revived = history.iter().skip(2).step_by(2);
                    let named = revived.map(|&version| (id, DeviceTime(t_star), version));
                    self.revivals.extend(named);
                }
                let named = (id, DeviceTime(trip.t_star()), trip.version);
                let row = self.ever.entry(named);
                let row = row.or_insert_with(|| Arc::new(row_of(id, trip, partition)));
                state.push(Arc::clone(row));
            }
        }
        self.states[lane].push(state);
    }

    /// Whether a retired id lives again before a version: a flush of both has nothing to announce.
    pub fn is_revived(&self, &(device, t_star, retired): &Named, upto: i64) -> bool {
        let since = (device, t_star, retired);
        self.revivals.range(since..(device, t_star, upto.max(retired))).next().is_some()
    }

    /// Whether a sample that was kept at a time is kept in the end: no record of the log erases it.
    pub fn stays(&self, device: Device, time_ms: DeviceTime) -> bool {
        let covers = |trip: &literal::Trip| (trip.start()..=trip.end()).contains(&time_ms.ms());
        time_ms >= self.floor(device)
            || self.devices.get(&device).is_some_and(|it| it.trips.iter().any(covers))
    }

    /// Whether a list may lack a part of a trip while a change is on its way to two days.
    pub fn may_be_cut(&self, row: &TripRow) -> bool {
        let is_cut = self.devices.get(&device_of(row)).is_some_and(|it| it.met_a_cut);
        is_cut && row.days().count() > 1
    }

    /// The time before which any record of the log erases a device.
    pub fn floor(&self, device: Device) -> DeviceTime {
        self.gone.get(&device).copied().unwrap_or(DeviceTime::MIN)
    }

    /// The trips of a partition after this number of records.
    pub fn state(&self, lane: usize, records: usize) -> &[Arc<TripRow>] {
        &self.states[lane][records]
    }

    /// All trips at the end.
    pub fn end(&self) -> Vec<Arc<TripRow>> {
        let trips =
            self.devices.iter().flat_map(|(&id, of)| of.trips.iter().map(move |it| (id, it)));
        trips
            .map(|(id, it)| Arc::clone(&self.ever[&(id, DeviceTime(it.t_star()), it.version)]))
            .collect()
    }
}

pub fn row_of(device: Device, trip: &literal::Trip, partition: i32) -> TripRow {
    let kept = &trip.kept;
    let version = |fix: &Fix| Version(trip.arrived[&fix.time]);
    let samples = kept.iter().map(|fix| Sample { version: version(fix), ..sample(fix) });
    let mut path = Path::from_sorted(samples).expect("times differ");
    for fix in kept {
        path.name_driver(DeviceTime(fix.time), fix.driver);
    }
    let histories = trip.ids.iter().map(|(&time, history)| {
        (DeviceTime(time), history.iter().map(|&version| Version(version)).collect())
    });
    let ids = (&histories.collect::<MintPoints>(), Version(trip.version));
    let row = TripRow::from_path(&name(device), &path, ids, LegFilter::default());
    let kind = if trip.is_stop { Kind::Stop } else { Kind::Trip };
    TripRow { partition, kind, ..row }
}
