//! Evidence of a trip: what it is said to be, the rules, and the records that it follows from.
//!
//! [`Evidence::verify`] decides whether it does, without the store and the log that it came from.
//! It knows the records that it is given: one that was left out may have made another trip.
//!
//! ```
//! use tstar_core::evidence::{Evidence, EvidenceRecord};
//! use tstar_core::{DeviceTime, Fleet, RawSample, Record, Rules, Sample, Version};
//!
//! let rules = Rules::default();
//! let (mut fleet, mut records) = (Fleet::new(&rules), Vec::new());
//! for (minute, version) in [10, 12, 0, 2, 6].into_iter().zip((0..).step_by(2)) {
//!     let time_ms = DeviceTime(1_795_204_800_000) + minute * 60_000;
//!     let raw = RawSample { time_ms, lat: 52.5, lon: 13.4, ..RawSample::default() };
//!     fleet.absorb(&Record::new("truck-17", raw));
//!     let sample = Sample { version: Version(version), ..Sample::quantised(&raw)? };
//!     records.push(EvidenceRecord::of_sample(&sample, None, None));
//! }
//! let (device_id, trip) = fleet.segments().next().ok_or("there is a trip")?;
//! let evidence = Evidence::new(&rules, &fleet.row(device_id, trip), records);
//!
//! let read = Evidence::from_json(&evidence.to_json())?;
//! assert!(read.verify()?.follows());
//! let mut other = read;
//! other.rules.max_gap_ms = 60_000;
//! assert!(!other.verify()?.follows());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod facts;
mod record;
#[cfg(test)]
mod tests;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

pub use facts::{Difference, TripFacts};
pub use record::EvidenceRecord;

use crate::codec::trip_row::TripRow;
use crate::identity::{IdError, check_device_id};
use crate::model::rules::Rules;
use crate::model::scalar::Version;
use crate::segment::{Outcome, Timeline};
use record::Event;

/// The format of evidence, as its documents name it.
const FORMAT: &str = "tstar-trip/1";

/// Maximum number of records.
pub const MAX_RECORDS: usize = 1_000_000;

/// How far around a trip its evidence has to have all records of the device, ms. What was one with
/// it and is another trip or stop now touches two days at most, and what decided about that lies
/// within a day of it.
pub const REACH_MS: i64 = 172_800_000;

/// What a trip or stop is said to be, the rules, and the records of its device within
/// [`REACH_MS`] of it, in the order of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The format.
    format: String,
    /// The trip or stop.
    pub trip: TripFacts,
    /// The rules.
    pub rules: Rules,
    /// The records.
    #[serde(deserialize_with = "read_records")]
    pub records: Vec<EvidenceRecord>,
}

/// Why a document is not evidence.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// It is not JSON of this format.
    #[error("it is not evidence of a trip, as `tstar explain --evidence` writes it")]
    Json(#[from] serde_json::Error),
    /// It has another format.
    #[error("its format is `{0}`; this version reads `{FORMAT}`")]
    Format(String),
    /// A rule is out of range.
    #[error("its rule {0}")]
    Rules(String),
    /// The device id is not valid.
    #[error("its device: {0}")]
    Device(#[from] IdError),
    /// It has too many records.
    #[error("it has more than {MAX_RECORDS} records")]
    TooMany,
    /// A record cannot be.
    #[error("its record {index}, from 0: {reason}")]
    Record {
        /// Index of the record.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// What follows from records and rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verified {
    /// How the trip differs from what follows; empty: it follows.
    pub differences: Vec<Difference>,
    /// Number of records.
    pub records: usize,
    /// Number of records that are kept samples of the trip.
    pub kept: usize,
    /// Hash of the rules, to be compared with those of a store.
    pub rules_hash: String,
}

impl Verified {
    /// Whether the trip follows from its records and rules.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.differences.is_empty()
    }
}

impl Evidence {
    /// The evidence of a row, whose records are given in the order of the log.
    #[must_use]
    pub fn new(rules: &Rules, row: &TripRow, records: Vec<EvidenceRecord>) -> Self {
        Self {
            format: FORMAT.into(),
            trip: TripFacts::from_row(row),
            rules: rules.clone(),
            records,
        }
    }

    /// Parses a document.
    ///
    /// # Errors
    /// It is not JSON of this format.
    pub fn from_json(json: &str) -> Result<Self, EvidenceError> {
        let evidence: Self = serde_json::from_str(json)?;
        if evidence.format != FORMAT {
            return Err(EvidenceError::Format(evidence.format));
        }
        Ok(evidence)
    }

    /// The document, with a line for each record.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = |value: serde_json::Result<String>| value.expect("evidence is plain data");
        let (trip, rules) = (serde_json::to_string(&self.trip), self.rules.to_json());
        let records = self.records.iter().map(|record| json(serde_json::to_string(record)));
        let records: Vec<String> = records.collect();
        format!(
            "{{\"format\":\"{FORMAT}\",\n\"trip\":{},\n\"rules\":{rules},\n\"records\":[\n{}\n]}}\n",
            json(trip),
            records.join(",\n")
        )
    }

    /// Decides whether the trip follows from its records and rules. Takes microseconds for each
    /// record; up to tenths of a millisecond in a hostile document, whose records cut one another's
    /// phases: limit the time for what strangers send.
    ///
    /// # Errors
    /// It contradicts itself, or is too large.
    pub fn verify(&self) -> Result<Verified, EvidenceError> {
        self.rules.check().map_err(EvidenceError::Rules)?;
        check_device_id(&self.trip.device_id)?;
        if self.records.len() > MAX_RECORDS {
            return Err(EvidenceError::TooMany);
        }
        let timeline = self.replayed()?;
        let found = timeline.covering(self.trip.start_ms);
        let (legs, device_id) = (self.rules.legs(), &self.trip.device_id);
        let found =
            found.map(|it| TripFacts::from_row(&TripRow::from_segment(device_id, it, legs)));
        Ok(Verified {
            differences: self.trip.differences(found.as_ref()),
            records: self.records.len(),
            kept: found.map_or(0, |found| found.samples),
            rules_hash: self.rules.hash(),
        })
    }

    /// The trips and stops of the records.
    fn replayed(&self) -> Result<Timeline, EvidenceError> {
        let (rules, guard, fixes) = (self.rules.segments(), self.rules.guard(), self.rules.fixes());
        let (mut timeline, mut before) = (Timeline::in_memory(), Version(0));
        let mut floor_ms = None;
        for (index, record) in self.records.iter().enumerate() {
            let wrong = |reason: String| EvidenceError::Record { index, reason };
            if record.version < before {
                return Err(wrong(format!(
                    "its version, {}, is below that of the one before it, {before}",
                    record.version
                )));
            }
            if record.version > self.trip.version {
                return Err(wrong(format!(
                    "its version, {}, is past that of the trip, {}",
                    record.version, self.trip.version
                )));
            }
            before = record.version;
            match record.event().map_err(wrong)? {
                Event::Forget(before_ms) => {
                    timeline.forget(before_ms);
                    floor_ms = floor_ms.max(Some(before_ms));
                }
                Event::Sample(sample) => {
                    let is_usable = floor_ms.is_none_or(|floor_ms| sample.time_ms >= floor_ms)
                        && guard.judge(sample.time_ms, record.log_time()).is_ok()
                        && fixes.judge(&sample).is_ok();
                    if is_usable {
                        let driver = record.driver.as_deref();
                        let _: Outcome = timeline.absorb(&rules, sample, driver);
                    }
                }
            }
        }
        Ok(timeline)
    }
}

/// Reads records, at most one more than is verified: a document may have any number.
fn read_records<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<EvidenceRecord>, D::Error> {
    struct Records;

    impl<'de> Visitor<'de> for Records {
        type Value = Vec<EvidenceRecord>;

        fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            text.write_str("an array of records")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut records = Vec::new();
            while records.len() <= MAX_RECORDS {
                let Some(record) = all.next_element()? else { return Ok(records) };
                records.push(record);
            }
            while all.next_element::<IgnoredAny>()?.is_some() {}
            Ok(records)
        }
    }

    input.deserialize_seq(Records)
}
