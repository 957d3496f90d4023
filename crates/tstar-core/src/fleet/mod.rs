//! The trips and stops of many devices in memory, from their samples in the order of arrival.
//!
//! [`Fleet::absorb`] decides each sample as tstar does, [`Fleet::segments`] has the trips and stops
//! at any time, and [`Fleet::take_changes`] what to write since the last call.
//!
//! ```
//! use tstar_core::fleet::{Fleet, Record};
//! use tstar_core::identity::TripId;
//! use tstar_core::segment::ChangeKind;
//! use tstar_core::{DeviceTime, RawSample, Rules};
//!
//! let mut fleet = Fleet::new(&Rules::default());
//! // Minutes after 20:00, in the order of arrival: the last one joins two trips.
//! let mut effects = Vec::new();
//! for minute in [10, 12, 0, 2, 6] {
//!     let time_ms = DeviceTime(1_795_204_800_000) + minute * 60_000;
//!     let sample = RawSample { time_ms, lat: 52.5, lon: 13.4, ..RawSample::default() };
//!     effects.push(fleet.absorb(&Record::new("truck-17", sample)).name());
//! }
//! assert_eq!(effects, ["new", "end", "new", "end", "merge"]);
//!
//! let (device_id, trip) = fleet.segments().next().ok_or("there is a trip")?;
//! let id = TripId::new(device_id, trip.t_star_ms())?.text()?;
//! assert_eq!((&*id, trip.samples()), ("truck-17~20261120T200000.000Z", 5));
//!
//! let changes = fleet.take_changes();
//! let change = &changes[0].segments[0];
//! assert_eq!(change.event.kind, ChangeKind::Merged);
//! let retired = TripId::new("truck-17", change.event.retired[0])?.text()?;
//! assert_eq!(retired, "truck-17~20261120T201000.000Z");
//! assert!(fleet.take_changes().is_empty());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod changes;
mod record;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

pub use changes::{ChangeGroup, SegmentChange};
pub use record::{Effect, Record, Refusal};

use crate::codec::trip_row::TripRow;
use crate::identity::check_device_id;
use crate::model::limits::{ClockGuard, FixFilter, LegFilter, SegmentRules};
use crate::model::reading::ReadingKind;
use crate::model::rules::Rules;
use crate::model::sample::{RawSample, Sample, is_driver};
use crate::model::scalar::{LogTime, Version};
use crate::segment::{Outcome, Segment, Timeline};

/// A device and its trips and stops.
#[derive(Clone, Debug)]
struct Device {
    id: Arc<str>,
    timeline: Timeline,
    /// Whether it is in the list of dirty devices.
    is_dirty: bool,
}

/// The trips and stops of many devices in memory, under fixed rules.
#[derive(Clone, Debug)]
pub struct Fleet {
    rules: SegmentRules,
    guard: ClockGuard,
    fixes: FixFilter,
    legs: LegFilter,
    slots: HashMap<Arc<str>, usize>,
    /// The devices, in the order of their first kept samples.
    devices: Vec<Device>,
    /// Slot of the previous sample's device: samples come in bursts.
    latest: usize,
    /// Slots of the devices with changes that were not taken.
    dirty: Vec<usize>,
    /// Version of the next record.
    next: Version,
}

impl Fleet {
    /// A fleet without devices. Of the rules, those count that decide about samples: how records
    /// are decoded is the caller's.
    #[must_use]
    pub fn new(rules: &Rules) -> Self {
        Self {
            rules: rules.segments(),
            guard: rules.guard(),
            fixes: rules.fixes(),
            legs: rules.legs(),
            slots: HashMap::new(),
            devices: Vec::new(),
            latest: 0,
            dirty: Vec::new(),
            next: Version(0),
        }
    }

    /// Applies the next record of the log: its version is twice the number of records before it, as
    /// in a store that tstar built from files.
    pub fn absorb(&mut self, record: &Record<'_>) -> Effect {
        self.absorb_at(self.next, record)
    }

    /// Applies a record at a version. Versions do not decrease from record to record; samples of
    /// one record share a version. A record that is read again changes nothing.
    pub fn absorb_at(&mut self, version: Version, record: &Record<'_>) -> Effect {
        self.next = self.next.max(version.saturating_add(2));
        let sample = match self.accepted(record) {
            Ok(sample) => Sample { version, ..sample },
            Err(effect) => return effect,
        };
        let slot = self.slot_of(record.device_id);
        let device = &mut self.devices[slot];
        let driver = record.driver.filter(|name| !name.is_empty());
        match device.timeline.absorb(&self.rules, sample, driver) {
            Outcome::Applied(arrival) => {
                if !std::mem::replace(&mut device.is_dirty, true) {
                    self.dirty.push(slot);
                }
                Effect::Applied(arrival)
            }
            Outcome::Duplicate { conflict } => Effect::Duplicate { conflict },
            Outcome::Full => Effect::Refused(Refusal::TripFull),
        }
    }

    /// The sample of a record, unless it is refused or dropped by itself.
    fn accepted(&self, record: &Record<'_>) -> Result<Sample, Effect> {
        let sample = quantised(record).map_err(Effect::Refused)?;
        let log_time_ms = record.log_time_ms.unwrap_or(LogTime::MAX);
        let judged = self.guard.judge(sample.time_ms, log_time_ms);
        judged.map_err(|violation| Effect::Refused(violation.into()))?;
        self.fixes.judge(&sample).map_err(|reason| Effect::Dropped(reason.into()))?;
        Ok(sample)
    }

    #[inline]
    fn slot_of(&mut self, device_id: &str) -> usize {
        if self.devices.get(self.latest).is_some_and(|device| &*device.id == device_id) {
            return self.latest;
        }
        self.latest = match self.slots.get(device_id) {
            Some(&slot) => slot,
            None => {
                let id = Arc::<str>::from(device_id);
                self.slots.insert(Arc::clone(&id), self.devices.len());
                let timeline = Timeline::in_memory();
                self.devices.push(Device { id, timeline, is_dirty: false });
                self.devices.len() - 1
            }
        };
        self.latest
    }

    /// The trips and stops of a device; `None` if no sample of it was accepted.
    #[must_use]
    pub fn device(&self, device_id: &str) -> Option<&Timeline> {
        self.slots.get(device_id).map(|&slot| &self.devices[slot].timeline)
    }

    /// The devices, in the order of their first accepted samples, with their trips and stops.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = (&str, &Timeline)> {
        self.devices.iter().map(|device| (&*device.id, &device.timeline))
    }

    /// All trips and stops with their devices: in the order of devices, and by time.
    pub fn segments(&self) -> impl Iterator<Item = (&str, &Segment)> {
        self.devices().flat_map(|(id, timeline)| timeline.segments().map(move |it| (id, it)))
    }

    /// Which legs count for the length of a path, by the rules.
    #[must_use]
    pub fn legs(&self) -> LegFilter {
        self.legs
    }

    /// The row of a trip or stop: all columns, with its encoded path.
    #[must_use]
    pub fn row(&self, device_id: &str, segment: &Segment) -> TripRow {
        TripRow::from_segment(device_id, segment, self.legs)
    }

    /// Takes what changed since the last call, or since the beginning: what to write and to delete,
    /// in the order of devices.
    pub fn take_changes(&mut self) -> Vec<ChangeGroup<'_>> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        let (mut taken, mut rest, mut before) = (Vec::new(), &mut self.devices[..], 0);
        for slot in dirty {
            let (_, from_it) = std::mem::take(&mut rest).split_at_mut(slot - before);
            let Some((device, later)) = from_it.split_first_mut() else { break };
            (rest, before) = (later, slot + 1);
            device.is_dirty = false;
            let groups = device.timeline.take_groups(true).into_iter();
            taken.extend(groups.map(|group| ChangeGroup::new(&device.id, group)));
        }
        taken
    }
}

/// The sample of a record, in the order of tstar's checks.
fn quantised(record: &Record<'_>) -> Result<Sample, Refusal> {
    check_device_id(record.device_id)?;
    if let Some(driver) = record.driver.filter(|driver| !is_driver(driver)) {
        return Err(Refusal::Driver { bytes: driver.len() });
    }
    let mut raw: RawSample = record.sample;
    for kind in ReadingKind::ALL {
        let reading = raw.reading_mut(kind);
        *reading = reading.filter(|&value| !kind.is_unknown(value));
    }
    Ok(Sample::quantised(&raw)?)
}
