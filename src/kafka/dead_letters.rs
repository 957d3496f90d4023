//! The topic of dead letters, seen from outside: what stands in it, and what became of it.
//!
//! Nothing in a topic can be changed. That a letter was dealt with is told by a *fate record* in
//! its partition, behind it: header `tstar-fate` says what became of it, `tstar-fate-of` names it
//! as `partition:offset`. Its calls block.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::message::Message;

use super::KafkaError;
use super::client::Brokers;
use super::control::{CONTROL_HEADER, SIGNATURE_HEADER};
use super::letter_limit;
use super::producer::ProducerRecord;
use super::record::Record;
use super::scan::Scan;
use super::topic::{OffsetRange, Topics};
use super::transactions::TransactionRecord;
use crate::model::reason::DeadReason;
use crate::source::{Cut, Headers};
use crate::store::DeadLetter;

/// What the name of the topic beside a log ends with.
pub(super) const LETTERS: &str = ".dlq";

/// Header of a fate record.
const FATE: &str = "tstar-fate";

/// Header that names the letter of a fate record.
const FATE_OF: &str = "tstar-fate-of";

/// Header of a record that went back to the log: where it stood before, as
/// `topic:partition:offset`, with `:element` where it was one of an array.
pub const ORIGIN: &str = "tstar-dlq-origin";

/// Header of such a record: why it was a letter.
pub const ORIGIN_REASON: &str = "tstar-dlq-reason";

/// Whether a letter is a record that went back to the log and came here again for the same reason:
/// sent once more it would come again, each time as a letter more.
#[must_use]
pub fn came_again(letter: &DeadLetter) -> bool {
    let reason = letter.headers.iter().rfind(|(name, _)| name == ORIGIN_REASON);
    reason.is_some_and(|(_, reason)| reason.as_deref() == Some(letter.reason.name().as_bytes()))
}

/// What became of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It went back to the log.
    Replayed,
    /// Somebody threw it away.
    Purged,
    /// It still fails, for another reason: a newer letter stands for it.
    Replaced,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Purged => "purged",
            Self::Replaced => "replaced",
        }
    }
}

/// A record of the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DlqRecord {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// What it is.
    pub what: DlqRecordKind,
}

/// What a record of the topic is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DlqRecordKind {
    /// A dead letter.
    Letter(Box<DeadLetter>),
    /// The end of the letter that stands at an offset of the same partition.
    FateOf(i64),
    /// Nothing of this program.
    Foreign,
}

/// Letters that were dealt with: a bit for each offset, in pages of those alone that have any.
#[derive(Debug, Default)]
pub struct Fates(BTreeMap<(i32, i64), Box<[u64; 64]>>);

impl Fates {
    fn decode_offset(offset: i64) -> (i64, usize, u32) {
        let within = usize::try_from(offset.rem_euclid(4096)).unwrap_or(0);
        (offset.div_euclid(4096), within / 64, (within % 64) as u32)
    }

    fn record_offset(&mut self, partition: i32, offset: i64) {
        let (page, word, bit) = Self::decode_offset(offset);
        self.0.entry((partition, page)).or_insert_with(|| Box::new([0; 64]))[word] |= 1 << bit;
    }

    /// Whether the letter was dealt with.
    #[must_use]
    pub fn has(&self, partition: i32, offset: i64) -> bool {
        let (page, word, bit) = Self::decode_offset(offset);
        self.0.get(&(partition, page)).is_some_and(|page| page[word] & (1 << bit) != 0)
    }
}

/// The topic of dead letters beside a log, as it stands when it is opened.
pub struct LetterTopic {
    brokers: Brokers,
    /// Topic of the log.
    input: String,
    name: String,
    extents: Vec<OffsetRange>,
}

impl LetterTopic {
    /// Looks at the topic beside the log `input`.
    ///
    /// # Errors
    /// No broker answers, or there is no such topic.
    pub fn open(brokers: &Brokers, input: &str) -> Result<Self, KafkaError> {
        let topics = Topics::new(brokers)?;
        let name = Self::name_beside(input);
        let Some(partitions) = topics.partitions(&name)? else {
            return Err(KafkaError::NoDlqTopic { topic: name });
        };
        let extents = topics.extents(&name, partitions)?;
        Ok(Self { brokers: brokers.clone(), input: input.to_owned(), name, extents })
    }

    /// The name of the topic beside a log.
    #[must_use]
    pub fn name_beside(input: &str) -> String {
        format!("{input}{LETTERS}")
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The topic of the log.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.input
    }

    /// The offset behind the last record of each partition that a [`LetterScan`] comes to.
    #[must_use]
    pub fn ends(&self) -> BTreeMap<i32, i64> {
        (0..).zip(&self.extents).map(|(partition, extent)| (partition, extent.next)).collect()
    }

    /// Which letters were dealt with: reads the whole topic.
    ///
    /// # Errors
    /// No broker answers, or the client cannot go on.
    pub fn fates(&self) -> Result<Fates, KafkaError> {
        let (mut fates, mut scan) = (Fates::default(), self.scan()?);
        while let Some(found) = scan.next_found()? {
            if let DlqRecordKind::FateOf(offset) = found.what {
                fates.record_offset(found.partition, offset);
            }
        }
        Ok(fates)
    }

    /// Reads every record, partition by partition, oldest first.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn scan(&self) -> Result<LetterScan, KafkaError> {
        let parts = (0..).zip(self.extents.iter().copied()).collect();
        Ok(LetterScan(Scan::new(&self.brokers, &self.name, parts)?))
    }

    /// The letter at a place, unless it was dealt with.
    ///
    /// # Errors
    /// No broker answers, or the client cannot go on.
    pub fn find(&self, partition: i32, offset: i64) -> Result<Option<DeadLetter>, KafkaError> {
        let extent = usize::try_from(partition).ok().and_then(|at| self.extents.get(at));
        let Some(extent) = extent.filter(|it| (it.first..it.next).contains(&offset)) else {
            return Ok(None);
        };
        let rest = vec![(partition, OffsetRange { first: offset, ..*extent })];
        let mut scan = LetterScan(Scan::new(&self.brokers, &self.name, rest)?);
        let letter = match scan.next_found()? {
            Some(DlqRecord { offset: at, what: DlqRecordKind::Letter(letter), .. })
                if at == offset =>
            {
                *letter
            }
            _ => return Ok(None),
        };
        while let Some(found) = scan.next_found()? {
            if found.what == DlqRecordKind::FateOf(offset) {
                return Ok(None);
            }
        }
        Ok(Some(letter))
    }

    /// The record that tells what became of a letter.
    #[must_use]
    pub fn fate(&self, partition: i32, offset: i64, fate: Fate) -> TransactionRecord {
        let of = format!("{partition}:{offset}").into_bytes();
        let headers = vec![(FATE.into(), Some(fate.name().into())), (FATE_OF.into(), Some(of))];
        let record = ProducerRecord { headers, ..ProducerRecord::default() };
        TransactionRecord { topic: self.name.clone(), partition: Some(partition), record }
    }

    /// A letter that takes the place of another one of that partition.
    #[must_use]
    pub fn instead(&self, partition: i32, letter: &DeadLetter) -> TransactionRecord {
        let record = letter_limit::whole(&self.input, letter);
        TransactionRecord { topic: self.name.clone(), partition: Some(partition), record }
    }
}

/// A letter as a record of the log `input` again, under a key, with a value and a timestamp. It
/// keeps its headers, but for those of a control record, and names where it stood and why;
/// `partition` is where it has to go, where not its key tells.
#[must_use]
pub fn replay_record(
    input: &str,
    letter: &DeadLetter,
    (key, value): (Option<Vec<u8>>, Vec<u8>),
    log_time_ms: i64,
    partition: Option<i32>,
) -> TransactionRecord {
    // What makes a record an order never goes back, whoever wrote it into the letter.
    let is_left_out =
        |name: &str| [ORIGIN, ORIGIN_REASON, CONTROL_HEADER, SIGNATURE_HEADER].contains(&name);
    let kept = letter.headers.iter().filter(|(name, _)| !is_left_out(name));
    let mut headers: Headers = kept.cloned().collect();
    let element = letter.element.map_or_else(String::new, |element| format!(":{element}"));
    let origin = format!("{input}:{}:{}{element}", letter.partition, letter.offset);
    headers.push((ORIGIN.into(), Some(origin.into_bytes())));
    headers.push((ORIGIN_REASON.into(), Some(letter.reason.name().into())));
    let timestamp_ms = Some(log_time_ms).filter(|time_ms| *time_ms > 0);
    TransactionRecord {
        topic: input.to_owned(),
        partition,
        record: ProducerRecord { key, value, headers, timestamp_ms },
    }
}

/// The topic's records, one after the other.
pub struct LetterScan(Scan);

impl LetterScan {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// No broker answers, or the client cannot go on.
    pub fn next_found(&mut self) -> Result<Option<DlqRecord>, KafkaError> {
        let Some(message) = self.0.next_message()? else { return Ok(None) };
        let what = found(&Record::of_letter(&message));
        Ok(Some(DlqRecord { partition: message.partition(), offset: message.offset(), what }))
    }
}

fn found(record: &Record<'_>) -> DlqRecordKind {
    let headers = &record.headers;
    if let Some(letter) = letter(record) {
        return DlqRecordKind::Letter(Box::new(letter));
    }
    // Headers that came with a sample are those of a letter, which has others behind them.
    let of = match &headers[..] {
        [(fate, Some(_)), (of, Some(place))] if fate == FATE && of == FATE_OF => place,
        _ => return DlqRecordKind::Foreign,
    };
    let offset =
        std::str::from_utf8(of).ok().and_then(|place| place.split_once(':')?.1.parse().ok());
    offset.map_or(DlqRecordKind::Foreign, DlqRecordKind::FateOf)
}

/// The dead letter that a record is: the counterpart of [`fit::whole`].
fn letter(record: &Record<'_>) -> Option<DeadLetter> {
    // Those that the record came with may have the same names; ours stand behind them.
    let at = record.headers.iter().rposition(|(name, _)| name == letter_limit::TOPIC)?;
    let (came, ours) = record.headers.split_at(at);
    let text = |name: &str| {
        let (_, value) = ours.iter().find(|(known, _)| known == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    };
    if text(letter_limit::CONNECTOR)? != letter_limit::TSTAR {
        return None;
    }
    let value = record.value.unwrap_or_default().to_vec();
    // Nothing of a part that is whole; `None` of what cannot be read.
    let cut = |[length, hash]: [&str; 2]| -> Option<Option<Cut>> {
        let (Some(length), Some(hash)) = (text(length), text(hash)) else { return Some(None) };
        let sha256 = data_encoding::HEXLOWER.decode(hash.as_bytes()).ok()?.try_into().ok()?;
        Some(Some(Cut { bytes: length.parse().ok()?, sha256 }))
    };
    let value_cut = cut(letter_limit::VALUE_CUT)?;
    let element = text(letter_limit::ELEMENT).map(str::parse).transpose().ok()?;
    let log_time_ms = text(letter_limit::LOG_TIME).map(str::parse).transpose().ok()?;
    Some(DeadLetter {
        partition: text(letter_limit::PARTITION)?.parse().ok()?,
        offset: text(letter_limit::OFFSET)?.parse().ok()?,
        element,
        reason: DeadReason::from_name(text(letter_limit::REASON)?)?,
        message: text(letter_limit::MESSAGE)?.to_owned(),
        origin: text(letter_limit::TOPIC)?.to_owned(),
        line: 0,
        log_time_ms: log_time_ms.unwrap_or(record.log_time_ms),
        key: record.key.map(Arc::from),
        key_cut: cut(letter_limit::KEY_CUT)?,
        headers: Arc::new(came.to_vec()),
        headers_cut: cut(letter_limit::HEADERS_CUT)?,
        value_bytes: value_cut.as_ref().map_or(value.len() as u64, |cut| cut.bytes),
        value,
        sha256: value_cut.map(|cut| cut.sha256),
    })
}

#[cfg(test)]
#[path = "dead_letters_tests.rs"]
mod tests;
