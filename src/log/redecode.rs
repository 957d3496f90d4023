//! Decodes a dead letter again.
//!
//! A log is always decoded by the rules of its store. So a letter that those rules accept now is
//! replayed unchanged. A letter that decodes only with overrides (names of fields, units) is
//! replayed as a record that encodes the same sample as those rules expect it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::letters::letter_context;
use crate::identity::DeviceId;
use crate::kafka::control::CONTROL_HEADER;
use crate::kafka::record::{Record, RecordReader};
use crate::model::epoch::LogKind;
use crate::model::reason::DeadReason;
use crate::model::rules::{AmbiguousTime, Rules, SpeedUnit, TimeUnit};
use crate::model::scalar::LogTime;
use crate::model::schema::{SchemaId, SchemaVerdict};
use crate::source::{Batch, Decoder, DecoderError, Entry, NoSample, RecordContext, ZONE_TABLES};
use crate::store::DeadLetter;
use crate::timeline::ClockGuard;

/// Overrides of the rules of a store, for decoding dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeOverrides {
    /// Names, or JSON Pointers, by canonical name; fields not listed keep those of the rules.
    pub fields: BTreeMap<String, String>,
    /// Unit of integer times; `None`: that of the rules.
    pub time_unit: Option<TimeUnit>,
    /// Unit of speeds; `None`: that of the rules.
    pub speed_unit: Option<SpeedUnit>,
    /// Zone of local times; `None`: that of the rules.
    pub time_zone: Option<String>,
    /// Format of times that are text; `None`: that of the rules.
    pub time_format: Option<String>,
    /// How local times are read that occur twice; `None`: by the rules.
    pub time_ambiguous: Option<AmbiguousTime>,
}

impl DecodeOverrides {
    /// The rules with these overrides.
    #[must_use]
    pub fn over(&self, rules: &Rules) -> Rules {
        let mut rules = rules.clone();
        rules.fields.extend(self.fields.clone());
        rules.time_unit = self.time_unit.unwrap_or(rules.time_unit);
        rules.speed_unit = self.speed_unit.unwrap_or(rules.speed_unit);
        if self.time_zone.is_some() {
            (rules.time_zone, rules.zone_tables) =
                (self.time_zone.clone(), Some(ZONE_TABLES.to_owned()));
        }
        if self.time_format.is_some() {
            rules.time_format = self.time_format.clone();
        }
        rules.time_ambiguous = self.time_ambiguous.or(rules.time_ambiguous);
        rules
    }
}

/// What redecoding a letter gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redecoded {
    /// Usable: the record to add to the log.
    Usable {
        /// Key of the record; `None` in a log of files.
        key: Option<Vec<u8>>,
        /// Value of the record.
        value: Vec<u8>,
    },
    /// It still fails, for this reason.
    Failing(DeadReason),
    /// It cannot be replayed.
    Never(Unrecoverable),
}

/// Why a letter cannot be replayed, whatever the rules and overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unrecoverable {
    /// Its value, key or headers were truncated when it was stored.
    Cut,
    /// It is a control record: only `tstar forget` sends those.
    Control,
    /// It is a row of a CSV file, whose header line was not stored.
    Row,
    /// It is a batch that could not be decompressed; its content was not stored.
    Unreadable,
    /// Its record is too large for the log or the client.
    TooLarge,
}

impl Unrecoverable {
    /// Name in the JSON of a replay.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Control => "control_record",
            Self::Row => "csv_row",
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too_large",
        }
    }
}

/// The samples of a letter under one set of rules.
struct DecodedLetter {
    batch: Batch,
    /// Key of the record to replay.
    key: Option<Vec<u8>>,
}

/// Decodes dead letters again.
pub struct Redecoder {
    log: LogKind,
    key_is_device: bool,
    guard: ClockGuard,
    /// Reads by the rules of the store.
    by_rules: RecordReader,
    /// Reads by the rules with the overrides; `None` if those change nothing.
    by_overrides: Option<RecordReader>,
    /// Replaces the log timestamps of the letters, ms since 1970.
    now_ms: Option<i64>,
}

impl Redecoder {
    /// Decodes by the rules of a store and by overrides of them. `now_ms` replaces the log
    /// timestamps of the letters: device times are checked against it.
    ///
    /// # Errors
    /// The overrides map fields in an invalid way.
    pub fn new(
        log: LogKind,
        rules: &Rules,
        overrides: &DecodeOverrides,
        now_ms: Option<i64>,
    ) -> Result<Self, DecoderError> {
        let key_is_device = log == LogKind::Topic && rules.is_keyed_by_device();
        let overridden = overrides.over(rules);
        let reader = |rules: &Rules| {
            Decoder::new(rules).map(|decoder| RecordReader::new(decoder, key_is_device))
        };
        let by_rules = reader(rules)?;
        let by_overrides = (overridden != *rules).then(|| reader(&overridden)).transpose()?;
        Ok(Self { log, key_is_device, guard: rules.guard(), by_rules, by_overrides, now_ms })
    }

    /// Adds a schema that records name. A record that was read before its schema was known can be
    /// read now.
    pub fn add_schema(&mut self, id: SchemaId, verdict: &SchemaVerdict) {
        for reader in std::iter::once(&self.by_rules).chain(&self.by_overrides) {
            reader.add_schema(id, verdict);
        }
    }

    /// The schema without which a letter cannot be read.
    pub(crate) fn missing_schema(&mut self, letter: &DeadLetter) -> Option<SchemaId> {
        let is_of_schema = letter.reason == DeadReason::BadSchema;
        is_of_schema.then(|| self.decode(letter, false).batch.needs_schema()).flatten()
    }

    /// Timestamp of the record that replays a letter, ms since 1970.
    #[must_use]
    pub fn log_time_ms(&self, letter: &DeadLetter) -> LogTime {
        self.now_ms.map_or(letter.log_time_ms, LogTime)
    }

    /// Decodes a letter again.
    pub(crate) fn redecode(&mut self, letter: &DeadLetter) -> Redecoded {
        // A replay never sends a control record, even a signed one.
        if letter.headers.iter().any(|(name, _)| name == CONTROL_HEADER) {
            return Redecoded::Never(Unrecoverable::Control);
        }
        if letter.is_cut() {
            return Redecoded::Never(Unrecoverable::Cut);
        }
        // The content of a batch was not stored; that of a single record was.
        if letter.reason == DeadReason::BadRecord && letter.value.is_empty() {
            return Redecoded::Never(Unrecoverable::Unreadable);
        }
        if self.is_csv_row(letter) {
            return Redecoded::Never(Unrecoverable::Row);
        }
        // An array is invalid inside an array, whatever the rules.
        if letter.element.is_some() && letter.value.trim_ascii_start().first() == Some(&b'[') {
            return Redecoded::Failing(letter.reason);
        }
        let reason = match self.decode_by_rules(letter) {
            Ok(usable) => return usable,
            Err(reason) => reason,
        };
        let by_overrides = self.by_overrides.is_some().then(|| {
            let decoded = self.decode(letter, true);
            self.reencode(letter, decoded)
        });
        match by_overrides {
            Some(Ok(usable)) => usable,
            // The truncated input explains any other reason.
            _ if letter.reason == DeadReason::TruncatedInput => Redecoded::Failing(letter.reason),
            // The reason of the attempt that got further is reported.
            Some(Err(other)) if other.stage() > reason.stage() => Redecoded::Failing(other),
            _ => Redecoded::Failing(reason),
        }
    }

    /// Whether a letter is a row of a CSV file. A line of NDJSON that is not an object fails only
    /// for the reasons below.
    fn is_csv_row(&self, letter: &DeadLetter) -> bool {
        let is_object = letter.value.trim_ascii_start().first() == Some(&b'{');
        let is_of_any_format = matches!(
            letter.reason,
            DeadReason::BadJson | DeadReason::BadUtf8 | DeadReason::TruncatedInput
        );
        self.log == LogKind::Files && !is_object && !is_of_any_format
    }

    fn decode_by_rules(&mut self, letter: &DeadLetter) -> Result<Redecoded, DeadReason> {
        let decoded = self.decode(letter, false);
        let checks = decoded.batch.entries.iter().map(|entry| self.check_entry(letter, entry));
        let checks: Vec<_> = checks.collect();
        // The letter of a record whose samples are not letters of their own comes again if one of
        // them still fails.
        let needs_all = self.by_rules.decoder().needs_whole_records() && letter.element.is_none();
        let is_usable = match needs_all {
            true => !checks.is_empty() && checks.iter().all(Result::is_ok),
            false => checks.iter().any(Result::is_ok),
        };
        // Bad elements among usable ones become letters of their own when the record is read.
        match checks.into_iter().find_map(Result::err) {
            Some(reason) if !is_usable => Err(reason),
            None if !is_usable => Err(letter.reason),
            _ => Ok(Redecoded::Usable { key: decoded.key, value: letter.value.clone() }),
        }
    }

    fn reencode(
        &self,
        letter: &DeadLetter,
        decoded: DecodedLetter,
    ) -> Result<Redecoded, DeadReason> {
        let mut records = Vec::with_capacity(decoded.batch.entries.len());
        let context = RecordContext { key: decoded.key.as_deref(), ..letter_context(letter) };
        for entry in &decoded.batch.entries {
            self.check_entry(letter, entry)?;
            let Ok(sample) = &entry.content else { continue };
            let sample = (sample, decoded.batch.text.as_str());
            // The store's rules may not be able to express it.
            let record =
                self.by_rules.decoder().restate(sample, &context).map_err(|_| letter.reason)?;
            records.push(record);
        }
        let value = match &decoded.batch.entries[..] {
            _ if records.is_empty() => return Err(letter.reason),
            [entry] if entry.element.is_none() => records.concat(),
            _ => format!("[{}]", records.join(",")),
        };
        Ok(Redecoded::Usable { key: decoded.key, value: value.into_bytes() })
    }

    /// The device of all samples of a letter that can be decoded; `None` if they differ.
    pub fn device_of(&mut self, letter: &DeadLetter) -> Option<DeviceId> {
        let with_overrides = self.by_overrides.is_some();
        only_device(&self.decode(letter, with_overrides).batch)
    }

    fn decode(&mut self, letter: &DeadLetter, with_overrides: bool) -> DecodedLetter {
        let log_time_ms = self.log_time_ms(letter);
        let reader = match &mut self.by_overrides {
            Some(reader) if with_overrides => reader,
            _ => &mut self.by_rules,
        };
        let value = Some(&letter.value[..]);
        let headers = || (*letter.headers).clone();
        let record =
            |key| Record { log_time_ms, key, value, headers: headers(), ..Record::default() };
        let origin: Arc<str> = letter.origin.as_str().into();
        let new_batch = || Batch { origin: Arc::clone(&origin), ..Batch::default() };
        let mut batch = new_batch();
        let key = letter.key.as_deref().filter(|key| !key.is_empty());
        let context = letter_context(letter);
        if self.log == LogKind::Files {
            reader.read_in(&record(None), context, &mut batch);
            return DecodedLetter { batch, key: None };
        }
        if key.is_none() && self.key_is_device {
            reader.read_in(&record(None), context, &mut batch);
            if let Some(device) = only_device(&batch) {
                return DecodedLetter { batch, key: Some(device.into_string().into_bytes()) };
            }
            batch = new_batch();
        }
        reader.read(&record(key), &mut batch);
        DecodedLetter { batch, key: key.map(<[u8]>::to_vec) }
    }

    fn check_entry(&self, letter: &DeadLetter, entry: &Entry) -> Result<(), DeadReason> {
        let decoded = match &entry.content {
            Ok(decoded) => decoded,
            Err(NoSample::Dead(error)) => return Err(error.reason),
            // It is counted when the record is read again.
            Err(NoSample::Skipped(_) | NoSample::Dropped(..)) => return Ok(()),
        };
        let checked = self.guard.judge(decoded.sample.time_ms, self.log_time_ms(letter));
        checked.map_err(DeadReason::from)
    }
}

/// The device of all decoded samples of a record; `None` if they differ, or there are none.
fn only_device(batch: &Batch) -> Option<DeviceId> {
    let decoded = batch.entries.iter().filter_map(|entry| entry.content.as_ref().ok());
    let mut devices = decoded.map(|decoded| batch.text(&decoded.device));
    let first = devices.next()?;
    let is_only = devices.all(|other| other == first);
    is_only.then(|| DeviceId::new(first).ok())?
}

#[cfg(test)]
#[path = "redecode_tests.rs"]
mod tests;
