//! The history of a trip: replays the records of its device to find the effect of each sample.
//!
//! The timeline repeats its decisions, but receives only samples within the present span of the
//! trip. Trips are disjoint and never shrink, so samples outside of the span belong to other trips.
//! Those had no effect on this trip: a trip that was near enough to take one of its samples, and
//! not full, would be part of it now. So only one trip is in memory.

use std::sync::Arc;

use crate::log::device::RecordsRead;
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, LogTime, Offset, Version};
use crate::source::{Batch, Control, DecodedSample, Entry};
use crate::store::TripRow;
use crate::telemetry::counts::DUPLICATE;
use crate::timeline::{Arrival, LegFilter, Outcome, Timeline};

/// What a sample did to its trip when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It became a kept sample of this arrival kind.
    Arrived(Arrival),
    /// It became a kept sample and merged two trips.
    Merged {
        /// The retired `t_star`, which is that of the later trip, ms.
        retired_ms: DeviceTime,
    },
    /// A sample of the same time was kept before.
    Duplicate {
        /// It differs from the kept sample.
        conflicting: bool,
    },
}

impl Effect {
    /// Name of the effect in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrived(arrival) => arrival.name(),
            Self::Merged { .. } => Arrival::Merge.name(),
            Self::Duplicate { .. } => DUPLICATE,
        }
    }
}

/// A sample of a trip and its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Partition number, from 0; 0 for files.
    pub partition: i32,
    /// Offset of its record.
    pub offset: Offset,
    /// Index in a record that is an array; `None` if it is not one.
    pub element: Option<u32>,
    /// Path of the file, or name of the topic.
    pub origin: Arc<str>,
    /// Line of the file, from 1; 0 if the source has no lines.
    pub line: u64,
    /// Log timestamp, ms since 1970.
    pub log_time_ms: LogTime,
    /// Device time, ms since 1970.
    pub time_ms: DeviceTime,
    /// How far its device time is behind the latest one of the trip up to then, ms; 0 if it is the
    /// latest itself.
    pub behind_ms: i64,
    /// What it did to the trip.
    pub effect: Effect,
    /// The `t_star` that its trip had then, ms.
    pub t_star_ms: DeviceTime,
}

/// The history of a trip, up to the record that was read last.
pub struct TripHistory<'a> {
    row: &'a TripRow,
    timeline: Timeline,
    /// The rules of the records, which are the same in every epoch.
    legs: LegFilter,
    latest_ms: Option<DeviceTime>,
    /// Samples before this device time are erased, ms.
    floor_ms: DeviceTime,
    limit: usize,
    entries: Vec<HistoryEntry>,
    /// Number of entries, including those over the limit.
    total: u64,
}

impl<'a> TripHistory<'a> {
    /// An empty history that keeps at most `limit` entries.
    #[must_use]
    pub fn new(row: &'a TripRow, limit: usize) -> Self {
        Self {
            row,
            timeline: Timeline::default(),
            legs: LegFilter::default(),
            latest_ms: None,
            floor_ms: DeviceTime::MIN,
            limit,
            entries: Vec::new(),
            total: 0,
        }
    }

    /// The first samples of the trip in log order, up to the limit, and the number of all samples.
    #[must_use]
    pub fn entries(&self) -> (&[HistoryEntry], u64) {
        (&self.entries, self.total)
    }

    /// Whether the records that were read give exactly the trip in the store.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let mut trips = self.timeline.trips();
        let (Some(trip), None) = (trips.next(), trips.next()) else { return false };
        let partition = self.row.partition;
        let built = TripRow::from_trip(&self.row.device_id, trip, self.legs);
        TripRow { partition, ..built } == *self.row
    }

    /// Reads the next records of one partition.
    pub fn read(&mut self, records: RecordsRead<'_>) {
        let RecordsRead { rules, partition, versions, batch } = records;
        self.legs = rules.legs();
        for entry in &batch.entries {
            let Ok(decoded) = &entry.content else { continue };
            if batch.text(&decoded.device) == self.row.device_id {
                self.absorb(
                    rules,
                    (partition, versions.version_at(entry.offset)),
                    batch,
                    (entry, decoded),
                );
            }
        }
        if let Some(Control::Forget { device_id, before_ms, .. }) = &batch.control
            && device_id.as_str() == self.row.device_id
        {
            self.floor_ms = self.floor_ms.max(*before_ms);
            self.timeline.forget(*before_ms);
        }
    }

    fn absorb(
        &mut self,
        rules: &Rules,
        (partition, version): (i32, Version),
        batch: &Batch,
        (entry, decoded): (&Entry, &DecodedSample),
    ) {
        let (sample, row) = (decoded.sample, self.row);
        let time_ms = sample.time_ms;
        let is_in_trip = (row.start_ms..=row.end_ms).contains(&time_ms)
            && time_ms >= self.floor_ms
            && rules.guard().judge(time_ms, entry.log_time_ms).is_ok()
            && rules.movement().judge(&sample, decoded.ignition).is_ok();
        let is_kept = || self.timeline.covering(time_ms)?.path().get(time_ms);
        // Changes of the trip after the row was read are not part of the row's history.
        if !is_in_trip || (version > row.version && is_kept().is_none()) {
            return;
        }
        let follows = self.timeline.after(time_ms).map(|trip| trip.t_star_ms);
        let driver = decoded.driver.as_ref().map(|driver| batch.text(driver));
        let effect = match (self.timeline.absorb(&rules.limits(), version, sample, driver), follows)
        {
            (Outcome::Applied(Arrival::Merge), Some(retired_ms)) => Effect::Merged { retired_ms },
            (Outcome::Applied(arrival), _) => Effect::Arrived(arrival),
            (Outcome::Duplicate { conflict }, _) => {
                Effect::Duplicate { conflicting: conflict.is_some() }
            }
            (Outcome::TripFull, _) => return,
        };
        let t_star_ms = self.timeline.covering(time_ms).map_or(time_ms, |trip| trip.t_star_ms);
        let latest_ms = self.latest_ms.map_or(time_ms, |latest| latest.max(time_ms));
        self.latest_ms = Some(latest_ms);
        self.total += 1;
        if self.entries.len() < self.limit {
            self.entries.push(HistoryEntry {
                partition,
                offset: entry.offset,
                element: entry.element,
                origin: Arc::clone(&batch.origin),
                line: entry.line,
                log_time_ms: entry.log_time_ms,
                time_ms,
                behind_ms: latest_ms - time_ms,
                effect,
                t_star_ms,
            });
        }
    }
}
