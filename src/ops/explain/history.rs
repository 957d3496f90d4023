//! The history of a trip: replays the records of its device to find the effect of each sample.
//!
//! The timeline repeats its decisions with the samples of some days around the trip: what was one
//! with it and is another trip or stop now touches two days at most, and what decided about that
//! lies within a day of it. These samples are also the evidence of the trip.

use serde::Serialize;
use tstar_core::evidence::{Evidence, EvidenceRecord, REACH_MS};

use crate::log::device::RecordsRead;
use crate::model::failure::PreconditionFailed;
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::model::time::format_time;
use crate::model::units::seconds;
use crate::segment::{Arrival, Outcome, Segment, Timeline};
use crate::source::{Batch, Control, DecodedSample, Entry};
use crate::store::TripRow;
use crate::telemetry::counts::DUPLICATE;
use crate::timeline::Sample;
use crate::views::text_id;

/// A sample of a trip and its effect. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, Serialize)]
pub struct RecordExplanation {
    /// Partition number, from 0; null for files.
    pub partition: Option<i32>,
    /// Offset of the record; for files, the number of the record, from 0.
    pub offset: Offset,
    /// Index in a record that is an array.
    pub element: Option<u32>,
    /// Path of the file; null for a topic.
    pub file: Option<String>,
    /// Line of the file, from 1; null for a topic.
    pub line: Option<u64>,
    /// Log timestamp.
    pub log_time: String,
    /// Device time.
    pub time: String,
    /// Log timestamp minus device time, s.
    pub late_s: f64,
    /// How far the device time is behind the latest one of the trip up to then, s.
    pub behind_s: f64,
    /// Its arrival kind, or that a sample of the same time was kept before.
    pub effect: &'static str,
    /// Whether it is a duplicate that differs from the kept sample.
    pub conflicting: bool,
    /// Text id of the trip after the sample.
    pub trip: String,
    /// Text id that the sample retired, that of the later of two merged trips; null if none.
    pub retired: Option<String>,
}

/// The history of a trip, up to the record that was read last.
pub(crate) struct TripHistory<'a> {
    row: &'a TripRow,
    timeline: Timeline,
    /// The rules of the records, which are the same in every epoch.
    rules: Option<Rules>,
    latest_ms: Option<DeviceTime>,
    /// Samples before this device time are erased, ms.
    floor_ms: DeviceTime,
    limit: usize,
    is_of_files: bool,
    /// The first samples of the trip in log order, up to the limit.
    pub records: Vec<RecordExplanation>,
    /// Number of samples, including those over the limit.
    pub total: u64,
    /// The records that the trip follows from, if they are wanted.
    evidence: Option<Vec<EvidenceRecord>>,
    /// Maximum number of them.
    max_evidence: usize,
}

impl<'a> TripHistory<'a> {
    /// An empty history that keeps at most `limit` records, which are of files or of a topic, and
    /// at most `evidence` records as evidence, if that is wanted.
    #[must_use]
    pub(crate) fn new(
        row: &'a TripRow,
        limit: usize,
        is_of_files: bool,
        evidence: Option<usize>,
    ) -> Self {
        Self {
            row,
            timeline: Timeline::in_memory(),
            rules: None,
            latest_ms: None,
            floor_ms: DeviceTime::MIN,
            limit,
            is_of_files,
            records: Vec::new(),
            total: 0,
            evidence: evidence.map(|_| Vec::new()),
            max_evidence: evidence.unwrap_or_default(),
        }
    }

    /// Whether the records that were read give exactly the trip in the store.
    #[must_use]
    pub(crate) fn is_whole(&self) -> bool {
        let Some(trip) = self.timeline.covering(self.row.start_ms) else { return false };
        let partition = self.row.partition;
        let legs = self.rules.as_ref().map(Rules::legs).unwrap_or_default();
        let built = TripRow::from_segment(&self.row.device_id, trip, legs);
        TripRow { partition, ..built } == *self.row
    }

    /// The evidence of the trip, if it is wanted.
    #[must_use]
    pub(crate) fn take_evidence(&mut self) -> Option<Evidence> {
        let (mut records, rules) = (self.evidence.take()?, self.rules.as_ref()?);
        // Records that a file has again are at the positions of the first time.
        records.sort_by_key(|record| record.version);
        Some(Evidence::new(rules, self.row, records))
    }

    /// Adds a record to the evidence, if that is wanted and the row is not older.
    ///
    /// # Errors
    /// It would be one too many.
    fn witness(
        &mut self,
        record: impl FnOnce() -> EvidenceRecord,
        version: Version,
    ) -> anyhow::Result<()> {
        let Some(evidence) = self.evidence.as_mut().filter(|_| version <= self.row.version) else {
            return Ok(());
        };
        if evidence.len() == self.max_evidence {
            return Err(PreconditionFailed(format!(
                "the evidence of trip `{}` would have more than {} records, those of its device \
                 within two days of it, and tstar verify-trip reads no more; leave out --evidence \
                 to print its history, and check the store with tstar verify",
                text_id(&self.row.device_id, self.row.t_star_ms)?,
                self.max_evidence
            ))
            .into());
        }
        evidence.push(record());
        Ok(())
    }

    /// Reads the next records of one partition.
    ///
    /// # Errors
    /// An id of the trip has no text form, or its evidence would be too large.
    pub(crate) fn read(&mut self, records: RecordsRead<'_>) -> anyhow::Result<()> {
        let RecordsRead { rules, partition, versions, batch } = records;
        self.rules.get_or_insert_with(|| rules.clone());
        for entry in &batch.entries {
            let Ok(decoded) = &entry.content else { continue };
            if batch.text(&decoded.device) == self.row.device_id {
                let version = versions.version_at(entry.offset);
                self.absorb(rules, (partition, version), batch, (entry, decoded))?;
            }
        }
        if let Some(Control::Forget { device_id, before_ms, offset, .. }) = &batch.control
            && device_id.as_str() == self.row.device_id
        {
            let version = versions.version_at(*offset);
            self.witness(|| EvidenceRecord::of_forget(version, *before_ms), version)?;
            self.floor_ms = self.floor_ms.max(*before_ms);
            self.timeline.forget(*before_ms);
        }
        Ok(())
    }

    fn absorb(
        &mut self,
        rules: &Rules,
        (partition, version): (i32, Version),
        batch: &Batch,
        (entry, decoded): (&Entry, &DecodedSample),
    ) -> anyhow::Result<()> {
        let (sample, row) = (Sample { version, ..decoded.sample }, self.row);
        let time_ms = sample.time_ms;
        let is_near = time_ms >= row.start_ms.saturating_sub(REACH_MS)
            && time_ms <= row.end_ms.saturating_add(REACH_MS)
            && time_ms >= self.floor_ms
            && rules.guard().judge(time_ms, entry.log_time_ms).is_ok()
            && rules.fixes().judge(&sample).is_ok();
        let is_kept = || self.timeline.kept(time_ms).is_some();
        // Changes of the trip after the row was read are not part of the row's history.
        if !is_near || (version > row.version && !is_kept()) {
            return Ok(());
        }
        let driver = decoded.driver.as_ref().map(|driver| batch.text(driver));
        let log_time_ms = Some(entry.log_time_ms);
        self.witness(|| EvidenceRecord::of_sample(&sample, driver, log_time_ms), version)?;
        let outcome = self.timeline.absorb(&rules.segments(), sample, driver);
        let (effect, conflicting) = match outcome {
            Outcome::Applied(arrival) => (arrival.name(), false),
            Outcome::Duplicate { conflict } => (DUPLICATE, conflict.is_some()),
            Outcome::Full => return Ok(()),
        };
        if !(row.start_ms..=row.end_ms).contains(&time_ms) {
            return Ok(());
        }
        let segment = self.timeline.covering(time_ms);
        let retired = segment.filter(|_| effect == Arrival::Merge.name());
        let retired = retired.and_then(|it| it.outline().points.retired_at(version).last());
        let t_star_ms = segment.map_or(time_ms, Segment::t_star_ms);
        let latest_ms = self.latest_ms.map_or(time_ms, |latest| latest.max(time_ms));
        self.latest_ms = Some(latest_ms);
        self.total += 1;
        if self.records.len() < self.limit {
            let is_of_files = self.is_of_files;
            let log_time_ms = entry.log_time_ms.ms();
            let text_id = |t_star_ms| text_id(&row.device_id, t_star_ms);
            self.records.push(RecordExplanation {
                partition: (!is_of_files).then_some(partition),
                offset: entry.offset,
                element: entry.element,
                file: is_of_files.then(|| batch.origin.to_string()),
                line: is_of_files.then_some(entry.line),
                log_time: format_time(log_time_ms),
                time: format_time(time_ms.ms()),
                late_s: seconds(log_time_ms - time_ms.ms()),
                behind_s: seconds(latest_ms - time_ms),
                effect,
                conflicting,
                trip: text_id(t_star_ms)?,
                retired: retired.map(text_id).transpose()?,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::DeviceId;
    use crate::model::epoch::Versions;
    use crate::segment::MintPoints;
    use crate::timeline::{LegFilter, Path, RawSample};

    #[test]
    fn evidence_has_at_most_so_many_records() {
        let time_ms = DeviceTime(1_795_204_800_000);
        let sample = Sample::quantised(&RawSample { time_ms, ..RawSample::default() }).unwrap();
        let path = Path::from_sorted([sample]).unwrap();
        let points = MintPoints::new(time_ms, Version(0));
        let version = Version(100);
        let row = TripRow::from_path("van", &path, (&points, version), LegFilter::default());
        let (rules, versions) = (Rules::default(), Versions::of_files());
        let forget = |offset| Batch {
            control: Some(Control::Forget {
                offset: Offset(offset),
                device_id: DeviceId::new("van").unwrap(),
                before_ms: DeviceTime(0),
                key: None,
            }),
            ..Batch::default()
        };
        let read = |evidence, offsets: &[i64]| {
            let mut history = TripHistory::new(&row, 0, true, evidence);
            offsets.iter().try_for_each(|&offset| {
                let (versions, batch) = (&versions, &forget(offset));
                history.read(RecordsRead { rules: &rules, partition: 0, versions, batch })
            })
        };
        read(Some(3), &[0, 1, 2]).unwrap();
        // Those after the row are not of it.
        read(Some(3), &[0, 1, 2, 51]).unwrap();
        read(None, &[0, 1, 2, 3]).unwrap();
        let refused = read(Some(3), &[0, 1, 2, 3]).unwrap_err();
        assert!(refused.is::<PreconditionFailed>());
        let message = refused.to_string();
        for part in ["van~20261120T200000.000Z", "more than 3 records", "leave out --evidence"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
