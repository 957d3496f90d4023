//! Samples that come by a request, into the log of a store.
//!
//! A store of files takes them as further records of its log, and answers once they are durable; a
//! store of a topic takes nothing itself: they go to the topic, and the daemon builds the trips.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::kafka::producer::{Producer, ProducerRecord};
use crate::model::rules::Rules;
use crate::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use crate::source::{Batch, Decoder, Entry, MapError, span};
use crate::store::EmbeddedStore;
use crate::store::StoreError;

/// Most samples of one request.
pub const MOST_SAMPLES: usize = 100_000;

/// Samples of one request that could not be used and are told why in words.
const MAX_MESSAGES: usize = 1000;

/// Records of one request that are sent at once.
const SENT_AT_ONCE: usize = 1000;

/// Longest wait for the topic's brokers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where samples come from, in dead letters.
const ORIGIN: &str = "http";

/// Samples cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process writes to the file.
    #[error("the store is locked by another writer")]
    Busy,
    /// The client cannot be made, or the topic refuses.
    #[error("topic `{topic}` takes no records")]
    Log {
        /// The topic.
        topic: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The brokers did not answer in time. What was sent may be in the topic all the same: sent
    /// again it is a duplicate, which does no harm.
    #[error("topic `{topic}`: its brokers did not acknowledge within {} s", PATIENCE.as_secs())]
    Slow {
        /// The topic.
        topic: String,
    },
    /// The rules of the store name fields that there are not.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// What became of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SampleResult {
    /// `new`, `end`, `inside`, `beginning`, `merge`, `duplicate`, `dropped`, `dead`; of a topic
    /// `sent` or `refused`.
    status: &'static str,
    /// Why it was dropped or could not be used.
    reason: Option<&'static str>,
    /// The same for a person, of the first 1000 that could not be used.
    message: Option<String>,
}

/// What became of the samples so far.
struct Verdicts {
    list: Vec<SampleResult>,
    messages: usize,
}

impl Verdicts {
    fn new(samples: usize) -> Self {
        Self { list: Vec::with_capacity(samples), messages: 0 }
    }

    fn push(&mut self, mut verdict: SampleResult) {
        if verdict.message.is_some() {
            self.messages += 1;
            verdict.message.take_if(|_| self.messages > MAX_MESSAGES);
        }
        self.list.push(verdict);
    }
}

impl SampleResult {
    fn taken(status: &'static str) -> Self {
        Self { status, reason: None, message: None }
    }

    /// Whether it could be used; one that the rules drop could.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        !matches!(self.status, "dead" | "refused")
    }
}

/// The records of a request, as ranges of its body.
pub struct Records {
    body: Vec<u8>,
    ranges: Vec<Range<u32>>,
    /// Lives as long as they do.
    _guard: Box<dyn Any + Send + Sync>,
}

impl Records {
    /// JSON values, one a line, or the elements of one array.
    ///
    /// # Errors
    /// What is wrong with the body as a whole.
    pub fn from_body(body: Vec<u8>) -> Result<Self, String> {
        let is_array = body.trim_ascii_start().first() == Some(&b'[');
        let ranges = if is_array { elements(&body) } else { lines(&body) }?;
        if ranges.is_empty() && !is_array {
            return Err("it holds no sample".to_owned());
        }
        Ok(Self { body, ranges, _guard: Box::new(()) })
    }

    /// The same; `guard` is dropped once nobody needs them any more.
    #[must_use]
    pub fn guarded(self, guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Box::new(guard), ..self }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn get(&self, nth: usize) -> &[u8] {
        let Range { start, end } = self.ranges[nth];
        &self.body[start as usize..end as usize]
    }
}

/// The range of a part of a body.
fn range_in(body: &[u8], part: &[u8]) -> Result<Range<u32>, String> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    let range = u32::try_from(start).ok().zip(u32::try_from(start + part.len()).ok());
    range.map(|(start, end)| start..end).ok_or_else(|| "it is larger than 4 GiB".to_owned())
}

fn too_many() -> String {
    format!("it holds more than {MOST_SAMPLES} samples; send them in parts")
}

fn lines(body: &[u8]) -> Result<Vec<Range<u32>>, String> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut ranges = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if ranges.len() == MOST_SAMPLES {
            return Err(too_many());
        }
        ranges.push(range_in(body, line)?);
    }
    Ok(ranges)
}

fn elements(body: &[u8]) -> Result<Vec<Range<u32>>, String> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let ranges = reader.deserialize_seq(Elements(body)).and_then(|ranges| {
        reader.end()?;
        Ok(ranges)
    });
    ranges.map_err(|error| format!("it is no JSON array of samples: {error}"))
}

/// Reads an array as the ranges of its elements, and no further than may be.
struct Elements<'a>(&'a [u8]);

impl<'de> Visitor<'de> for Elements<'de> {
    type Value = Vec<Range<u32>>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut ranges = Vec::new();
        while let Some(element) = array.next_element::<&RawValue>()? {
            if ranges.len() == MOST_SAMPLES {
                return Err(A::Error::custom(too_many()));
            }
            let range = range_in(self.0, element.get().as_bytes());
            ranges.push(range.map_err(A::Error::custom)?);
        }
        Ok(ranges)
    }
}

/// What takes samples.
pub enum SampleSink {
    /// The log of a file.
    File(FileSink),
    /// A topic.
    Topic(TopicIntake),
}

impl SampleSink {
    /// Takes records, and says what became of each once they are durable.
    ///
    /// # Errors
    /// [`IntakeError`]: some may have been taken; the same ones again do no harm.
    pub async fn ingest(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        match self {
            Self::File(file) => file.ingest(records).await,
            Self::Topic(topic) => topic.take(records).await,
        }
    }
}

/// Takes samples into a store of files.
pub struct FileSink {
    path: PathBuf,
    rules: Rules,
    keep_changes: u64,
    clock: fn() -> i64,
    /// Requests take turns: the file has one writer.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl FileSink {
    /// An intake into the file at a path; `clock` tells ms since 1970.
    #[must_use]
    pub fn new(path: PathBuf, rules: Rules, keep_changes: u64, clock: fn() -> i64) -> Self {
        Self { path, rules, keep_changes, clock, turn: Arc::default() }
    }

    async fn ingest(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        // Work that nobody waits for any more goes on, and its turn with it.
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (path, rules, keep) = (self.path.clone(), self.rules.clone(), self.keep_changes);
        let log_time_ms = (self.clock)();
        let work = move || -> Result<Vec<SampleResult>, IngestError> {
            let _turn = turn;
            let store = match EmbeddedStore::open_writer(&path, &rules, keep) {
                Err(StoreError::Locked { .. }) => return Err(IngestError::Busy),
                opened => opened?,
            };
            let handle = tokio::runtime::Handle::current();
            handle.block_on(into_file(&store, &rules, &records, log_time_ms))
        };
        // The file waits for the disk, and other requests do not.
        tokio::task::spawn_blocking(work).await.expect("the work does not panic")
    }
}

async fn into_file(
    store: &EmbeddedStore,
    rules: &Rules,
    records: &Records,
    log_time_ms: i64,
) -> Result<Vec<SampleResult>, IngestError> {
    let decoder = Decoder::new(rules)?;
    let mut processor = Processor::new(store, rules, ProcessorConfig::default()).await?;
    let first = processor.position().delivered;
    let mut verdicts = Verdicts::new(records.len());
    for (nth, offset) in (0..records.len()).zip(first..) {
        let record = records.get(nth);
        let mut batch = Batch { origin: ORIGIN.into(), ..Batch::default() };
        let content = decoder.json(record, &mut batch.text);
        let message = content.as_ref().err().map(|fault| fault.message.clone());
        batch.raw.extend_from_slice(record);
        batch.entries.push(Entry {
            offset,
            element: None,
            line: 0,
            log_time_ms,
            again: false,
            raw: span(0, record.len()),
            key: None,
            content,
        });
        let before = processor.counts().clone();
        processor.absorb(&batch).await?;
        verdicts.push(verdict(&before, processor.counts(), message));
    }
    processor.flush().await?;
    Ok(verdicts.list)
}

/// What one sample changed in the counts.
fn verdict(before: &SampleCounts, after: &SampleCounts, message: Option<String>) -> SampleResult {
    let (was, is) = (before.arrivals, after.arrivals);
    let positions = [
        ("new", was.new, is.new),
        ("end", was.end, is.end),
        ("inside", was.inside, is.inside),
        ("beginning", was.beginning, is.beginning),
        ("merge", was.merge, is.merge),
        ("duplicate", before.duplicates, after.duplicates),
    ];
    if let Some((status, ..)) = positions.iter().find(|(_, was, is)| is > was) {
        return SampleResult::taken(status);
    }
    for (reason, count) in &after.dropped {
        if before.dropped.get(reason) != Some(count) {
            let reason = Some(reason.name());
            return SampleResult { status: "dropped", reason, message: None };
        }
    }
    let dead = after.dead_letters.iter();
    let mut dead = dead.filter(|(reason, count)| before.dead_letters.get(reason) != Some(count));
    let reason = dead.next().map(|(reason, _)| reason.name());
    SampleResult { status: "dead", reason, message }
}

/// Takes samples into a topic.
pub struct TopicIntake {
    producer: Producer,
    topic: String,
    decoder: Arc<Decoder>,
}

impl TopicIntake {
    /// An intake into the topic of an epoch, by its rules.
    ///
    /// # Errors
    /// The rules name fields that there are not.
    pub fn new(producer: Producer, topic: String, rules: &Rules) -> Result<Self, IngestError> {
        Ok(Self { producer, topic, decoder: Arc::new(Decoder::new(rules)?) })
    }

    async fn take(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        let sent = tokio::time::timeout(PATIENCE, self.send(records)).await;
        sent.unwrap_or_else(|_| Err(IngestError::Slow { topic: self.topic.clone() }))
    }

    /// Sends records, so many at once: no more are there a second time.
    async fn send(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        let mut verdicts = Verdicts::new(records.len());
        let records = Arc::new(records);
        for start in (0..records.len()).step_by(SENT_AT_ONCE) {
            let (decoder, part) = (Arc::clone(&self.decoder), Arc::clone(&records));
            let range = start..records.len().min(start + SENT_AT_ONCE);
            let work = move || decode(&decoder, &part, range);
            // Decoding takes the processor, and other requests do not wait for it.
            let (out, decoded) =
                tokio::task::spawn_blocking(work).await.expect("the work does not panic");
            decoded.into_iter().for_each(|verdict| verdicts.push(verdict));
            self.producer.send(&self.topic, &out).await.map_err(|error| IngestError::Log {
                topic: self.topic.clone(),
                source: error.into(),
            })?;
        }
        Ok(verdicts.list)
    }
}

/// The records of a range that can be used, each keyed by its device, and what becomes of each.
fn decode(
    decoder: &Decoder,
    records: &Records,
    range: Range<usize>,
) -> (Vec<ProducerRecord>, Vec<SampleResult>) {
    let (mut out, mut verdicts, mut text) = (Vec::new(), Vec::new(), String::new());
    for nth in range {
        text.clear();
        let record = records.get(nth);
        match decoder.json(record, &mut text) {
            Ok(decoded) => {
                let device = &decoded.device;
                let key = &text.as_bytes()[device.start as usize..device.end as usize];
                let (key, value) = (Some(key.to_vec()), record.to_vec());
                out.push(ProducerRecord { key, value, ..ProducerRecord::default() });
                verdicts.push(SampleResult::taken("sent"));
            }
            Err(fault) => {
                let (reason, message) = (Some(fault.reason.name()), Some(fault.message));
                verdicts.push(SampleResult { status: "refused", reason, message });
            }
        }
    }
    (out, verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(body: &str) -> Result<Vec<String>, String> {
        let records = Records::from_body(body.into())?;
        let text = |nth| String::from_utf8(records.get(nth).to_vec()).unwrap();
        Ok((0..records.len()).map(text).collect())
    }

    #[test]
    fn a_body_is_lines_or_one_array() {
        assert_eq!(split("{}\r\n\n [1] \nx").unwrap(), ["{}", "[1]", "x"]);
        assert_eq!(split(" [ {\"a\": [1, 2]},\n3 ] ").unwrap(), ["{\"a\": [1, 2]}", "3"]);
        assert_eq!(split("[]").unwrap(), <[String; 0]>::default());
        for (wrong, why) in [
            ("", "no sample"),
            (" \n", "no sample"),
            ("[1,", "no JSON array"),
            ("[1] x", "no JSON array"),
            ("[1,]", "no JSON array"),
        ] {
            let error = split(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn no_more_samples_are_split_off_than_may_be() {
        for (one, [before, between, after]) in [("7", ["", "\n", ""]), ("7", ["[", ",", "]"])] {
            let body = |count| format!("{before}{}{after}", vec![one; count].join(between));
            assert_eq!(split(&body(MOST_SAMPLES)).unwrap().len(), MOST_SAMPLES);
            let error = split(&body(MOST_SAMPLES + 1)).unwrap_err();
            assert!(error.contains("more than 100000 samples"), "{error}");
        }
    }
}
