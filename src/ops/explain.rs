//! How a trip came to be: the records of its device once more, as far as they are in it.
//!
//! The timeline that decided once decides again. Only samples within the span of the trip, as it is
//! now, are handed to it: trips are disjoint and never shrink, so what lies outside belongs to
//! others, and those never had a say: where one had been near enough to take a sample, and had had
//! room for it, it would be a part of this trip. So one trip is in memory, and no more.

use std::path::PathBuf;
use std::sync::Arc;

use crate::kafka::record::{Record, RecordContent};
use crate::kafka::scan::Scan;
use crate::kafka::topic::OffsetRange;
use crate::model::epoch::Versions;
use crate::model::rules::Rules;
use crate::ops::verify::reference::{AnewError, ImportedFiles};
use crate::pipeline::daemon::DaemonError;
use crate::pipeline::daemon::topic_replay::{TopicReplay, by_epoch};
use crate::source::{Batch, Control, DecodedSample, Entry, Source};
use crate::store::EmbeddedStore;
use crate::store::TripRow;
use crate::timeline::{Arrival, Outcome, Timeline};

/// What a sample of a trip did when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is kept, and arrived there.
    Arrived(Arrival),
    /// It is kept, and joined two trips: the later one's `t_star` is retired, ms.
    Merged {
        /// That `t_star`.
        retired_ms: i64,
    },
    /// Another one of its time was kept before.
    Duplicate {
        /// It differs from that.
        conflicting: bool,
    },
}

impl Effect {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrived(Arrival::New) => "new",
            Self::Arrived(Arrival::End) => "end",
            Self::Arrived(Arrival::Inside) => "inside",
            Self::Arrived(Arrival::Beginning) => "beginning",
            Self::Arrived(Arrival::Merge) | Self::Merged { .. } => "merge",
            Self::Duplicate { .. } => "duplicate",
        }
    }
}

/// A sample of a trip, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Partition of its record; 0 for files.
    pub partition: i32,
    /// Place of its record in the log.
    pub offset: i64,
    /// Which element of a record that is an array.
    pub element: Option<u32>,
    /// Path of the file, or name of the topic.
    pub origin: Arc<str>,
    /// Line of the file, from 1; 0 where the source has no lines.
    pub line: u64,
    /// The log's own timestamp, ms since 1970.
    pub log_time_ms: i64,
    /// Device time, ms since 1970.
    pub time_ms: i64,
    /// How far it lay behind the latest device time that had come of the trip until then, ms; 0
    /// where it was the latest itself.
    pub behind_ms: i64,
    /// What it did.
    pub did: Effect,
    /// The `t_star` of the trip that it is in, as that was then, ms.
    pub t_star_ms: i64,
}

/// How a trip came to be, as far as it was read.
pub struct TripHistory<'a> {
    row: &'a TripRow,
    timeline: Timeline,
    latest_ms: Option<i64>,
    /// Samples before it are erased, ms.
    floor_ms: i64,
    limit: usize,
    notes: Vec<HistoryEntry>,
    noted: u64,
}

impl<'a> TripHistory<'a> {
    /// Nothing is read yet of the story of this trip; of the samples so many are remembered.
    #[must_use]
    pub fn new(row: &'a TripRow, limit: usize) -> Self {
        let (timeline, latest_ms, floor_ms) = (Timeline::default(), None, i64::MIN);
        Self { row, timeline, latest_ms, floor_ms, limit, notes: Vec::new(), noted: 0 }
    }

    /// What the samples did, in the order of the log, up to the limit; and how many there are.
    #[must_use]
    pub fn notes(&self) -> (&[HistoryEntry], u64) {
        (&self.notes, self.noted)
    }

    /// Whether what was read gives the trip as it is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let mut trips = self.timeline.trips();
        let (Some(trip), None) = (trips.next(), trips.next()) else { return false };
        let partition = self.row.partition;
        TripRow { partition, ..TripRow::from_trip(&self.row.device_id, trip) } == *self.row
    }

    /// Reads the next records of one partition, under the rules that they were read by.
    fn read(&mut self, rules: &Rules, (partition, versions): (i32, &Versions), batch: &Batch) {
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
            && *device_id == self.row.device_id
        {
            self.floor_ms = self.floor_ms.max(*before_ms);
            self.timeline.forget(*before_ms);
        }
    }

    fn absorb(
        &mut self,
        rules: &Rules,
        (partition, version): (i32, i64),
        batch: &Batch,
        (entry, decoded): (&Entry, &DecodedSample),
    ) {
        let (sample, row) = (decoded.sample, self.row);
        let time_ms = sample.time_ms;
        let is_of_it = (row.start_ms..=row.end_ms).contains(&time_ms)
            && time_ms >= self.floor_ms
            && rules.guard().judge(time_ms, entry.log_time_ms).is_ok()
            && rules.movement().judge(&sample, decoded.ignition).is_ok();
        let is_kept = || self.timeline.covering(time_ms)?.path().get(time_ms);
        // What changed the trip after the row was read is no part of the row's story.
        if !is_of_it || (version > row.version && is_kept().is_none()) {
            return;
        }
        let follows = self.timeline.after(time_ms).map(|trip| trip.t_star_ms);
        let driver = decoded.driver.as_ref().map(|driver| batch.text(driver));
        let did = match (self.timeline.absorb(&rules.limits(), version, sample, driver), follows) {
            (Outcome::Applied(Arrival::Merge), Some(retired_ms)) => Effect::Merged { retired_ms },
            (Outcome::Applied(arrival), _) => Effect::Arrived(arrival),
            (Outcome::Duplicate { conflicting }, _) => Effect::Duplicate { conflicting },
            (Outcome::TripFull, _) => return,
        };
        let t_star_ms = self.timeline.covering(time_ms).map_or(time_ms, |trip| trip.t_star_ms);
        let latest_ms = self.latest_ms.map_or(time_ms, |latest| latest.max(time_ms));
        self.latest_ms = Some(latest_ms);
        self.noted += 1;
        if self.notes.len() < self.limit {
            self.notes.push(HistoryEntry {
                partition,
                offset: entry.offset,
                element: entry.element,
                origin: Arc::clone(&batch.origin),
                line: entry.line,
                log_time_ms: entry.log_time_ms,
                time_ms,
                behind_ms: latest_ms - time_ms,
                did,
                t_star_ms,
            });
        }
    }

    /// Reads spans of a topic. Its calls block.
    ///
    /// # Errors
    /// No broker answers, or the rules of an epoch cannot be used.
    pub fn read_topic(&mut self, reread: &TopicReplay) -> Result<(), DaemonError> {
        for (nth, spans) in by_epoch(&reread.epochs, &reread.spans) {
            let epoch = &reread.epochs[nth];
            let mut reader = reread.reader(epoch)?.of_device(&self.row.device_id);
            let is_keyed = epoch.rules.key == "device_id";
            let extent =
                |span: std::ops::Range<i64>| OffsetRange { first: span.start, next: span.end };
            let spans = (0..).zip(spans).map(|(partition, span)| (partition, extent(span)));
            let mut scan = Scan::new(&reread.brokers, &epoch.topic, spans.collect())?;
            let origin: Arc<str> = epoch.topic.as_str().into();
            while let Some(message) = scan.next_message()? {
                let record = Record::from_message(&message);
                if is_keyed && record.key != Some(self.row.device_id.as_bytes()) {
                    continue;
                }
                let mut batch = Batch { origin: Arc::clone(&origin), ..Batch::default() };
                if let RecordContent::Control(control) = reader.read(&record, &mut batch) {
                    batch.control = Some(control);
                }
                let partition = record.partition;
                let versions = Versions::of_partition(&reread.epochs[..=nth], partition);
                self.read(&epoch.rules, (partition, &versions), &batch);
            }
        }
        Ok(())
    }

    /// Reads the files that a store was built from.
    ///
    /// # Errors
    /// A file cannot be read, or they are not those.
    pub async fn read_files(
        &mut self,
        store: &EmbeddedStore,
        files: &[PathBuf],
    ) -> Result<(), AnewError> {
        let (mut source, rules) = ImportedFiles::open(store, files).await?;
        let versions = Versions::of_files();
        while let Some(batch) = source.next().await? {
            self.read(&rules, (0, &versions), &batch);
        }
        source.check()
    }
}
