//! A dead letter is tried again.
//!
//! What a log holds is decoded by the rules of its store, always. So a letter goes back as it came
//! where those rules take it now; where only a fix (names of fields, units) makes a sample of it,
//! what goes back is a record that states that sample in the form of those rules.

use std::collections::BTreeMap;

use crate::kafka::control::CONTROL_HEADER;
use crate::kafka::record::{Record, RecordReader};
use crate::model::reason::DeadReason;
use crate::model::rules::{Rules, SpeedUnit, TimeUnit};
use crate::pipeline::processor::{says_of_array, wrong_clock};
use crate::source::{Batch, Decoder, Entry, MapError, SampleError};
use crate::store::DeadLetter;
use crate::timeline::ClockGuard;

/// What is decoded in another way than the rules of the store say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeOverrides {
    /// Names, or JSON Pointers, by canonical name, over those of the rules.
    pub fields: BTreeMap<String, String>,
    /// Unit of integer times.
    pub time_unit: Option<TimeUnit>,
    /// Unit of speeds.
    pub speed_unit: Option<SpeedUnit>,
}

impl DecodeOverrides {
    /// The rules with the fix over them.
    #[must_use]
    pub fn over(&self, rules: &Rules) -> Rules {
        let mut fixed = rules.clone();
        fixed.fields.extend(self.fields.clone());
        fixed.time_unit = self.time_unit.unwrap_or(fixed.time_unit);
        fixed.speed_unit = self.speed_unit.unwrap_or(fixed.speed_unit);
        fixed
    }
}

/// Which log the letters come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Files: records have no keys.
    Files,
    /// A topic.
    Topic,
}

/// What becomes of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It can be used: this is the record to put into the log.
    Good {
        /// Its key, where the log has keys.
        key: Option<Vec<u8>>,
        /// Its value.
        value: Vec<u8>,
    },
    /// It cannot be used, for the reason that it has.
    AsBefore,
    /// It cannot be used, for another reason, or with another message.
    Otherwise {
        /// Why.
        reason: DeadReason,
        /// What failed, with the value.
        message: String,
    },
    /// It can never be used.
    Never(Unrecoverable),
}

/// Why a letter can never be used, as things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unrecoverable {
    /// Its head alone was kept.
    Cut,
    /// It is a control record, which goes into a log by `tstar forget` alone.
    Control,
    /// It is a row of a table, whose header was not kept.
    Row,
    /// It stands for a batch that could not be unpacked: nothing of that was kept.
    Unreadable,
    /// The log, or the client, takes no record as large as it would be.
    TooLarge,
}

impl Unrecoverable {
    /// The name in summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Control => "control_record",
            Self::Row => "csv_row",
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too_large",
        }
    }
}

/// Stands for the key where a log has none, or where it is to be found.
const NO_KEY: &[u8] = b"-";

/// Reads records by one set of rules.
struct Form {
    /// As the log is read.
    exact: RecordReader,
    /// Whatever the key.
    any_key: RecordReader,
}

impl Form {
    fn new(rules: &Rules, key_is_device: bool) -> Result<Self, MapError> {
        let reader = |key_is_device| Ok(RecordReader::new(Decoder::new(rules)?, key_is_device));
        Ok(Self { exact: reader(key_is_device)?, any_key: reader(false)? })
    }
}

/// What a letter gives under one set of rules.
struct Redecoded {
    batch: Batch,
    /// The key that it has to have.
    key: Option<Vec<u8>>,
}

/// Tries letters again.
pub struct Redecoder {
    origin: Origin,
    key_is_device: bool,
    guard: ClockGuard,
    /// By the rules of the store.
    plain: Form,
    /// By the fix, where there is one.
    fixed: Option<Form>,
    /// States samples in the form of the store's rules.
    writer: Decoder,
    /// Stands in for the timestamps of the log, ms since 1970.
    now_ms: Option<i64>,
}

impl Redecoder {
    /// A try under the rules of the store and a fix. With `now_ms` device times are judged by that
    /// clock in place of the timestamp that the letter has.
    ///
    /// # Errors
    /// A field map that cannot be used.
    pub fn new(
        origin: Origin,
        rules: &Rules,
        fix: &DecodeOverrides,
        now_ms: Option<i64>,
    ) -> Result<Self, MapError> {
        let key_is_device = origin == Origin::Topic && rules.key == "device_id";
        let fixed = fix.over(rules);
        let fixed = (fixed != *rules).then(|| Form::new(&fixed, key_is_device)).transpose()?;
        Ok(Self {
            origin,
            key_is_device,
            guard: rules.guard(),
            plain: Form::new(rules, key_is_device)?,
            fixed,
            writer: Decoder::new(rules)?,
            now_ms,
        })
    }

    /// The timestamp that the record of a letter gets, ms since 1970.
    #[must_use]
    pub fn log_time_ms(&self, letter: &DeadLetter) -> i64 {
        self.now_ms.unwrap_or(letter.log_time_ms)
    }

    /// Tries a letter.
    pub fn redecode(&mut self, letter: &DeadLetter) -> Outcome {
        // It never comes to life again by itself, whoever signed it.
        if letter.headers.iter().any(|(name, _)| name == CONTROL_HEADER) {
            return Outcome::Never(Unrecoverable::Control);
        }
        if letter.is_cut() {
            return Outcome::Never(Unrecoverable::Cut);
        }
        if letter.reason == DeadReason::BadRecord {
            return Outcome::Never(Unrecoverable::Unreadable);
        }
        if self.is_row(letter) {
            return Outcome::Never(Unrecoverable::Row);
        }
        // An array inside of an array, or on a line of a file, is no record however it is read.
        let is_one = self.origin == Origin::Files || letter.element.is_some();
        if is_one && letter.value.trim_ascii_start().first() == Some(&b'[') {
            return Outcome::AsBefore;
        }
        let plain = self.by_the_rules(letter);
        let fault = match plain {
            Ok(good) => return good,
            Err(fault) => fault,
        };
        match self.by_the_fix(letter) {
            Some(Ok(good)) => good,
            // Of two faults the one that lies deeper tells more.
            Some(Err(other)) if depth(other.reason) > depth(fault.reason) => {
                self.judged(letter, *other)
            }
            _ => self.judged(letter, *fault),
        }
    }

    /// A line of a table: nothing else has such a reason and is no object.
    fn is_row(&self, letter: &DeadLetter) -> bool {
        let no_object = letter.value.trim_ascii_start().first() != Some(&b'{');
        let says_nothing = matches!(
            letter.reason,
            DeadReason::BadJson | DeadReason::BadUtf8 | DeadReason::TruncatedInput
        );
        self.origin == Origin::Files && no_object && !says_nothing
    }

    fn by_the_rules(&mut self, letter: &DeadLetter) -> Result<Outcome, Box<SampleError>> {
        let tried = self.tried(letter, false)?;
        let judged = tried.batch.entries.iter().map(|entry| self.judge(letter, entry));
        let judged: Vec<_> = judged.collect();
        let good = judged.iter().any(Result::is_ok);
        // Bad ones among good ones become letters of their own once the record is read.
        match judged.into_iter().find_map(Result::err) {
            Some(fault) if !good => Err(fault),
            None if !good => Err(unchanged(letter)),
            _ => Ok(Outcome::Good { key: tried.key, value: letter.value.clone() }),
        }
    }

    fn by_the_fix(&mut self, letter: &DeadLetter) -> Option<Result<Outcome, Box<SampleError>>> {
        self.fixed.as_ref()?;
        Some(self.tried(letter, true).and_then(|tried| self.restated(letter, tried)))
    }

    fn restated(&self, letter: &DeadLetter, tried: Redecoded) -> Result<Outcome, Box<SampleError>> {
        let mut records = Vec::with_capacity(tried.batch.entries.len());
        for entry in &tried.batch.entries {
            self.judge(letter, entry)?;
            let decoded = entry.content.as_ref().map_err(Clone::clone)?;
            let record = self.writer.restate(decoded, &tried.batch.text).map_err(|why| {
                let message = format!(
                    "the fix makes a sample of it, which the rules of the store cannot say: {why}"
                );
                Box::new(SampleError::new(letter.reason, message))
            })?;
            records.push(record);
        }
        let value = match &tried.batch.entries[..] {
            [] => return Err(unchanged(letter)),
            [entry] if entry.element.is_none() => records.concat(),
            _ => format!("[{}]", records.join(",")),
        };
        Ok(Outcome::Good { key: tried.key, value: value.into_bytes() })
    }

    /// The device of all samples of a letter's record, as far as they can be read.
    pub fn device_of(&mut self, letter: &DeadLetter) -> Option<String> {
        let is_fixed = self.fixed.is_some();
        self.tried(letter, is_fixed).ok().and_then(|tried| only_device(&tried.batch))
    }

    fn tried(&mut self, letter: &DeadLetter, fixed: bool) -> Result<Redecoded, Box<SampleError>> {
        let log_time_ms = self.log_time_ms(letter);
        let form = if fixed { self.fixed.as_mut().expect("there is one") } else { &mut self.plain };
        let value = Some(&letter.value[..]);
        let record = |key| Record { log_time_ms, key, value, ..Record::default() };
        let mut batch = Batch::default();
        let key = letter.key.as_deref().filter(|key| !key.is_empty());
        if self.origin == Origin::Files {
            form.exact.read(&record(Some(NO_KEY)), &mut batch);
            return Ok(Redecoded { batch, key: None });
        }
        if key.is_none() && self.key_is_device {
            form.any_key.read(&record(Some(NO_KEY)), &mut batch);
            if let Some(device) = only_device(&batch) {
                return Ok(Redecoded { batch, key: Some(device.into_bytes()) });
            }
            batch = Batch::default();
        }
        form.exact.read(&record(key), &mut batch);
        Ok(Redecoded { batch, key: key.map(<[u8]>::to_vec) })
    }

    fn judge(&self, letter: &DeadLetter, entry: &Entry) -> Result<(), Box<SampleError>> {
        let decoded = entry.content.as_ref().map_err(Clone::clone)?;
        let (time_ms, log_time_ms) = (decoded.sample.time_ms, self.log_time_ms(letter));
        self.guard
            .judge(time_ms, log_time_ms)
            .map_err(|wrong| Box::new(wrong_clock(&self.guard, wrong, time_ms, log_time_ms)))
    }

    fn judged(&self, letter: &DeadLetter, fault: SampleError) -> Outcome {
        let same = fault.reason == letter.reason
            // The clock goes on: that alone is no news.
            && (fault.message == letter.message
                || says_of_array(&letter.message, &fault.message)
                || self.now_ms.is_some());
        // The end of the input is the better reason for what is cut there.
        if same || letter.reason == DeadReason::TruncatedInput {
            return Outcome::AsBefore;
        }
        Outcome::Otherwise { reason: fault.reason, message: fault.message }
    }
}

/// The device of every sample of a record, where it is one.
fn only_device(batch: &Batch) -> Option<String> {
    let decoded = batch.entries.iter().filter_map(|entry| entry.content.as_ref().ok());
    let mut devices = decoded.map(|decoded| batch.text(&decoded.device));
    let first = devices.next()?;
    devices.all(|other| other == first).then(|| first.to_owned())
}

fn unchanged(letter: &DeadLetter) -> Box<SampleError> {
    Box::new(SampleError::new(letter.reason, letter.message.clone()))
}

/// How far a record gets before it is refused.
fn depth(reason: DeadReason) -> u8 {
    match reason {
        DeadReason::BadUtf8
        | DeadReason::BadJson
        | DeadReason::BadCsv
        | DeadReason::Oversize
        | DeadReason::NoKey
        | DeadReason::TruncatedInput
        | DeadReason::BadRecord => 0,
        DeadReason::MissingField | DeadReason::AmbiguousField => 1,
        DeadReason::BadType
        | DeadReason::OutOfRange
        | DeadReason::BadTime
        | DeadReason::BadDeviceId => 2,
        DeadReason::TimeBeforeMin
        | DeadReason::TimeInFuture
        | DeadReason::KeyMismatch
        | DeadReason::NotAuthorised
        | DeadReason::TripFull
        | DeadReason::OtherPartition => 3,
    }
}

#[cfg(test)]
#[path = "redecode_tests.rs"]
mod tests;
