//! Reads the topic of dead letters, and marks letters in it.
//!
//! Records of a topic cannot be changed. A *fate record*, later in the partition of the letter,
//! marks a letter as resolved: header `tstar-fate` gives its fate, `tstar-fate-of` names it as
//! `partition:offset`. All calls that read block.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::KafkaError;
use super::client::Brokers;
use super::control::{CONTROL_HEADER, SIGNATURE_HEADER};
use super::letter_record;
use super::producer::{Producer, ProducerRecord};
use super::record::Record;
use super::scan::Scan;
use super::topic_names::dlq_topic;
use super::topics::{OffsetRange, Topics};
use crate::model::reason::DeadReason;
use crate::model::scalar::{LogTime, Offset};
use crate::source::{Cut, Headers};
use crate::store::DeadLetter;

/// Header of a fate record: the fate.
const FATE: &str = "tstar-fate";

/// Header of a fate record: the letter, as `partition:offset`.
const FATE_OF: &str = "tstar-fate-of";

/// Header of a replayed record: its earlier position, as `topic:partition:offset`, or
/// `topic:partition:offset:element` for an element of an array.
pub const ORIGIN: &str = "tstar-dlq-origin";

/// Header of a replayed record: the reason why it was a dead letter.
pub(crate) const ORIGIN_REASON: &str = "tstar-dlq-reason";

/// How a letter was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Replayed: sent to the log again.
    Replayed,
    /// Deleted by `purge`.
    Purged,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Purged => "purged",
        }
    }

    /// The fate record of a letter.
    fn record(self, partition: i32, offset: Offset) -> ProducerRecord {
        let position = format!("{partition}:{offset}").into_bytes();
        let headers =
            vec![(FATE.into(), Some(self.name().into())), (FATE_OF.into(), Some(position))];
        ProducerRecord { headers, partition: Some(partition), ..ProducerRecord::default() }
    }
}

/// A record of the dead letter topic.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DlqRecord {
    /// A dead letter.
    Letter(Box<DeadLetter>),
    /// A fate record for the letter at this offset of the same partition.
    FateOf(i64),
    /// Not written by tstar.
    Foreign,
}

/// Partition and offset of a record, and what it is.
type RecordAt<T> = Result<(i32, Offset, T), KafkaError>;

/// Set of resolved letters: a bitmap over the offsets, in pages that exist only where a bit is set.
#[derive(Debug, Default)]
struct Fates(BTreeMap<(i32, i64), Box<[u64; 64]>>);

impl Fates {
    fn decode_offset(offset: Offset) -> (i64, usize, u32) {
        let within = usize::try_from(offset.get().rem_euclid(4096)).unwrap_or(0);
        (offset.get().div_euclid(4096), within / 64, (within % 64) as u32)
    }

    fn record_offset(&mut self, partition: i32, offset: Offset) {
        let (page, word, bit) = Self::decode_offset(offset);
        self.0.entry((partition, page)).or_insert_with(|| Box::new([0; 64]))[word] |= 1 << bit;
    }

    /// Whether the letter was resolved.
    fn has(&self, partition: i32, offset: Offset) -> bool {
        let (page, word, bit) = Self::decode_offset(offset);
        self.0.get(&(partition, page)).is_some_and(|page| page[word] & (1 << bit) != 0)
    }
}

/// The dead letter topic of a log, with the offset ranges that it had when it was opened.
pub(crate) struct LetterTopic {
    brokers: Brokers,
    name: String,
    extents: Vec<OffsetRange>,
}

impl LetterTopic {
    /// Opens the dead letter topic of the log `input`.
    ///
    /// # Errors
    /// No broker responds, or the topic does not exist.
    pub(crate) fn open(brokers: &Brokers, input: &str) -> Result<Self, KafkaError> {
        let topics = Topics::new(brokers)?;
        let name = dlq_topic(input);
        let Some(partitions) = topics.partitions(&name)? else {
            return Err(KafkaError::NoOutput { topic: name, lack: "there are no dead letters" });
        };
        let extents = topics.extents(&name, partitions)?;
        Ok(Self { brokers: brokers.clone(), name, extents })
    }

    /// Name of this topic.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// End offset of each partition when this topic was opened.
    #[must_use]
    pub(crate) fn ends(&self) -> BTreeMap<i32, i64> {
        (0..).zip(&self.extents).map(|(partition, extent)| (partition, extent.next)).collect()
    }

    /// Reads the letters that are not resolved, partition by partition, oldest first. `None`: the
    /// record is not a letter; another program wrote it. Before that, reads the whole topic.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub(crate) fn unresolved(
        &self,
    ) -> Result<impl Iterator<Item = RecordAt<Option<DeadLetter>>> + use<>, KafkaError> {
        let all = || (0..).zip(self.extents.iter().copied()).collect();
        let mut fates = Fates::default();
        for record in self.records(all())? {
            if let (partition, _, DlqRecord::FateOf(offset)) = record? {
                fates.record_offset(partition, Offset(offset));
            }
        }
        Ok(self.records(all())?.filter_map(move |record| match record {
            Ok((partition, offset, DlqRecord::Letter(letter))) => {
                (!fates.has(partition, offset)).then(|| Ok((partition, offset, Some(*letter))))
            }
            Ok((partition, offset, DlqRecord::Foreign)) => Some(Ok((partition, offset, None))),
            Ok((_, _, DlqRecord::FateOf(_))) => None,
            Err(error) => Some(Err(error)),
        }))
    }

    /// Reads every record of offset ranges.
    fn records(
        &self,
        extents: Vec<(i32, OffsetRange)>,
    ) -> Result<impl Iterator<Item = RecordAt<DlqRecord>> + use<>, KafkaError> {
        let mut scan = Scan::new(&self.brokers, &self.name, extents)?.of_letters();
        Ok(std::iter::from_fn(move || {
            let record = scan.next_record().transpose()?;
            Some(record.map(|it| (it.partition, it.offset, classify(&it.record()))))
        }))
    }

    /// Reads the letter at a position; `None` if there is none, or it was resolved.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub(crate) fn find(
        &self,
        partition: i32,
        offset: Offset,
    ) -> Result<Option<DeadLetter>, KafkaError> {
        let extent = usize::try_from(partition).ok().and_then(|at| self.extents.get(at));
        let Some(extent) = extent.filter(|it| (it.first..it.next).contains(&offset.get())) else {
            return Ok(None);
        };
        let rest = vec![(partition, OffsetRange { first: offset.get(), ..*extent })];
        let mut records = self.records(rest)?;
        let letter = match records.next().transpose()? {
            Some((_, at, DlqRecord::Letter(letter))) if at == offset => *letter,
            _ => return Ok(None),
        };
        for record in records {
            if record?.2 == DlqRecord::FateOf(offset.get()) {
                return Ok(None);
            }
        }
        Ok(Some(letter))
    }

    /// Marks letters as resolved. Of two marks of a letter the second changes nothing.
    ///
    /// # Errors
    /// Brokers do not respond, or refuse. Some of the letters may be marked.
    pub(crate) async fn resolve(
        &self,
        producer: &Producer,
        letters: &[(i32, Offset)],
        fate: Fate,
    ) -> Result<(), KafkaError> {
        let fates = letters.iter().map(|(partition, offset)| fate.record(*partition, *offset));
        let sent = producer.send(&self.name, &fates.collect::<Vec<_>>()).await;
        sent.map(drop).map_err(producer.failed("marking dead letters", &self.name))
    }
}

/// Builds the record that replays a letter to the log `input`, with a key, a value and a timestamp.
/// It keeps the headers of the letter, except those of a control record, and adds its position and
/// reason.
#[must_use]
pub(crate) fn replay_record(
    input: &str,
    letter: &DeadLetter,
    (key, value): (Option<Vec<u8>>, Vec<u8>),
    log_time_ms: LogTime,
) -> ProducerRecord {
    // A replay never carries out a command, whoever put it into the letter.
    let is_removed =
        |name: &str| [ORIGIN, ORIGIN_REASON, CONTROL_HEADER, SIGNATURE_HEADER].contains(&name);
    let kept = letter.headers.iter().filter(|(name, _)| !is_removed(name));
    let mut headers: Headers = kept.cloned().collect();
    let element = letter.element.map_or_else(String::new, |element| format!(":{element}"));
    let origin = format!("{input}:{}:{}{element}", letter.partition, letter.offset);
    headers.push((ORIGIN.into(), Some(origin.into_bytes())));
    headers.push((ORIGIN_REASON.into(), Some(letter.reason.name().into())));
    let timestamp_ms = Some(log_time_ms).filter(|time_ms| *time_ms > LogTime(0));
    let timestamp_ms = timestamp_ms.map(LogTime::ms);
    ProducerRecord { key, value, headers, timestamp_ms, partition: None }
}

fn classify(record: &Record<'_>) -> DlqRecord {
    let headers = &record.headers;
    if let Some(letter) = parse_letter(record) {
        return DlqRecord::Letter(Box::new(letter));
    }
    // A record with a sample may contain these headers too, but then it has further headers after
    // them.
    let letter_position = match &headers[..] {
        [(fate, Some(_)), (fate_of, Some(position))] if fate == FATE && fate_of == FATE_OF => {
            position
        }
        _ => return DlqRecord::Foreign,
    };
    let position = std::str::from_utf8(letter_position).ok();
    let offset = position.and_then(|position| position.split_once(':')?.1.parse().ok());
    offset.map_or(DlqRecord::Foreign, DlqRecord::FateOf)
}

/// Decodes a dead letter: the inverse of [`letter_record::fitting_record`], where nothing was cut.
fn parse_letter(record: &Record<'_>) -> Option<DeadLetter> {
    // The original record may have headers of the same names; the letter's own come after them.
    let start = record.headers.iter().rposition(|(name, _)| name == letter_record::TOPIC)?;
    let (original, ours) = record.headers.split_at(start);
    let text = |name: &str| {
        let (_, value) = ours.iter().find(|(header, _)| header == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    };
    if text(letter_record::CONNECTOR)? != letter_record::TSTAR {
        return None;
    }
    let value = record.value.unwrap_or_default().to_vec();
    // `Some(None)` for a part that is whole, `None` for an invalid header.
    let cut = |[length, hash]: [&str; 2]| -> Option<Option<Cut>> {
        let (Some(length), Some(hash)) = (text(length), text(hash)) else { return Some(None) };
        let sha256 = data_encoding::HEXLOWER.decode(hash.as_bytes()).ok()?.try_into().ok()?;
        Some(Some(Cut { bytes: length.parse().ok()?, sha256 }))
    };
    let value_cut = cut(letter_record::VALUE_CUT)?;
    let element = text(letter_record::ELEMENT).map(str::parse).transpose().ok()?;
    let log_time_ms = text(letter_record::LOG_TIME).map(str::parse).transpose().ok()?.map(LogTime);
    Some(DeadLetter {
        partition: text(letter_record::PARTITION)?.parse().ok()?,
        offset: Offset(text(letter_record::OFFSET)?.parse().ok()?),
        element,
        count: 1,
        reason: DeadReason::from_name(text(letter_record::REASON)?)?,
        message: text(letter_record::MESSAGE)?.to_owned(),
        origin: text(letter_record::TOPIC)?.to_owned(),
        line: 0,
        log_time_ms: log_time_ms.unwrap_or(record.log_time_ms),
        key: record.key.map(Arc::from),
        key_cut: cut(letter_record::KEY_CUT)?,
        headers: Arc::new(original.to_vec()),
        headers_cut: cut(letter_record::HEADERS_CUT)?,
        value_bytes: value_cut.as_ref().map_or(value.len() as u64, |cut| cut.bytes),
        value,
        sha256: value_cut.map(|cut| cut.sha256),
    })
}

#[cfg(test)]
#[path = "dead_letters_tests.rs"]
mod tests;
