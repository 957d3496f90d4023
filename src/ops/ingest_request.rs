//! Ingests the samples of a request into the log of a store.
//!
//! A store of files appends them to its log as records, and responds once they are durable. For a
//! store of a topic they are sent to the topic, and the daemon builds the trips.

use std::any::Any;
use std::collections::BTreeMap;
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
use crate::model::reason::{DeadReason, DropReason};
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::model::scalar::{LogTime, Offset};
use crate::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use crate::source::{Batch, Decoder, DecoderError, Entry, span};
use crate::store::EmbeddedStore;
use crate::store::StoreError;
use crate::telemetry::counts::{DEAD, DROPPED};

/// Maximum number of samples in a request.
pub const MAX_SAMPLES: usize = 100_000;

/// Maximum number of messages in a response. Further rejected samples have only a reason.
const MAX_MESSAGES: usize = 1000;

/// Number of records that are sent together.
const SEND_BATCH: usize = 1000;

/// Time limit for the brokers to acknowledge the records of a request.
const ACK_TIMEOUT: Duration = Duration::from_secs(20);

/// Origin of the samples in dead letters.
const ORIGIN: &str = "http";

/// Why samples cannot be ingested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process writes to the file.
    #[error("the store is locked by another writer")]
    Busy,
    /// The producer cannot be created, or the brokers rejected a record.
    #[error("topic `{topic}` cannot be written")]
    Log {
        /// Name of the topic.
        topic: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The brokers did not respond in time. The samples may be in the topic nevertheless. Sending
    /// them again is safe: they are duplicates then.
    #[error("topic `{topic}`: its brokers did not acknowledge within {} s", ACK_TIMEOUT.as_secs())]
    Slow {
        /// Name of the topic.
        topic: String,
    },
    /// The field map of the store's rules is invalid.
    #[error(transparent)]
    Map(#[from] DecoderError),
}

/// Result of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SampleResult {
    /// `new`, `end`, `inside`, `beginning`, `merge`, `duplicate`, `dropped` or `dead`; for a topic
    /// `sent` or `refused`.
    status: &'static str,
    /// Why the sample was dropped or rejected.
    reason: Option<&'static str>,
    /// The reason in words; only for the first 1000 rejected samples.
    message: Option<String>,
}

/// The results of a request's samples so far.
struct Results {
    list: Vec<SampleResult>,
    /// Number of samples with a message.
    messages: usize,
}

impl Results {
    fn new(samples: usize) -> Self {
        Self { list: Vec::with_capacity(samples), messages: 0 }
    }

    fn push(&mut self, mut result: SampleResult) {
        if result.message.is_some() {
            self.messages += 1;
            result.message.take_if(|_| self.messages > MAX_MESSAGES);
        }
        self.list.push(result);
    }
}

impl SampleResult {
    fn accepted(status: &'static str) -> Self {
        Self { status, reason: None, message: None }
    }

    /// Whether the sample was accepted. A dropped sample counts as accepted.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        !matches!(self.status, DEAD | "refused")
    }
}

/// The records of a request, as ranges of its body.
pub struct Records {
    body: Vec<u8>,
    ranges: Vec<Range<u32>>,
    /// Dropped with the records.
    _guard: Box<dyn Any + Send + Sync>,
}

impl Records {
    /// Splits a body: JSON values, one per line, or the elements of one array.
    ///
    /// # Errors
    /// The body has no sample or too many, or is not a valid array.
    pub fn from_body(body: Vec<u8>) -> Result<Self, String> {
        let is_array = body.trim_ascii_start().first() == Some(&b'[');
        let ranges = if is_array { elements(&body) } else { lines(&body) }?;
        if ranges.is_empty() && !is_array {
            return Err("it holds no sample".to_owned());
        }
        Ok(Self { body, ranges, _guard: Box::new(()) })
    }

    /// Ties `guard` to the records: it is dropped with them.
    #[must_use]
    pub fn guarded(self, guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Box::new(guard), ..self }
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    fn get(&self, nth: usize) -> &[u8] {
        let Range { start, end } = self.ranges[nth];
        &self.body[start as usize..end as usize]
    }
}

/// The range of `part` in `body`, a slice of which it is.
fn range_in(body: &[u8], part: &[u8]) -> Result<Range<u32>, String> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    let range = u32::try_from(start).ok().zip(u32::try_from(start + part.len()).ok());
    range.map(|(start, end)| start..end).ok_or_else(|| "it is larger than 4 GiB".to_owned())
}

fn too_many() -> String {
    format!("it holds more than {MAX_SAMPLES} samples; send them in parts")
}

fn lines(body: &[u8]) -> Result<Vec<Range<u32>>, String> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut ranges = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if ranges.len() == MAX_SAMPLES {
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
    ranges.map_err(|error| format!("it is not a valid JSON array of samples: {error}"))
}

/// Reads an array as the ranges of its elements; at most [`MAX_SAMPLES`].
struct Elements<'a>(&'a [u8]);

impl<'de> Visitor<'de> for Elements<'de> {
    type Value = Vec<Range<u32>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut ranges = Vec::new();
        while let Some(element) = array.next_element::<&RawValue>()? {
            if ranges.len() == MAX_SAMPLES {
                return Err(A::Error::custom(too_many()));
            }
            let range = range_in(self.0, element.get().as_bytes());
            ranges.push(range.map_err(A::Error::custom)?);
        }
        Ok(ranges)
    }
}

/// The destination of samples.
pub enum SampleSink {
    /// The log of a file.
    File(FileSink),
    /// A topic.
    Topic(TopicSink),
}

impl SampleSink {
    /// Ingests records. Returns the result of each once they are durable.
    ///
    /// # Errors
    /// [`IngestError`]: some records may have been ingested; ingesting them again is safe.
    pub async fn ingest(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        match self {
            Self::File(file) => file.ingest(records).await,
            Self::Topic(topic) => topic.ingest(records).await,
        }
    }
}

/// Appends samples to the log of a store of files.
pub struct FileSink {
    path: PathBuf,
    /// Rules for a store that has none yet.
    rules: RulesRequest,
    keep_changes: u64,
    clock: fn() -> i64,
    /// Requests take turns: the file has one writer.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl FileSink {
    /// A sink for the store at `path`. `clock` returns ms since 1970.
    #[must_use]
    pub fn new(path: PathBuf, rules: RulesRequest, keep_changes: u64, clock: fn() -> i64) -> Self {
        Self { path, rules, keep_changes, clock, turn: Arc::default() }
    }

    async fn ingest(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        // Work continues, and holds its turn, even if the request is cancelled.
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (path, rules, keep_changes) =
            (self.path.clone(), self.rules.clone(), self.keep_changes);
        let log_time_ms = (self.clock)();
        let work = move || -> Result<Vec<SampleResult>, IngestError> {
            let _turn = turn;
            let (store, rules) = match EmbeddedStore::open_files(&path, &rules, keep_changes) {
                Err(StoreError::Locked { .. }) => return Err(IngestError::Busy),
                opened => opened?,
            };
            let handle = tokio::runtime::Handle::current();
            handle.block_on(append_to_file(&store, &rules, &records, LogTime(log_time_ms)))
        };
        // On its own thread: disk I/O must not block other requests.
        tokio::task::spawn_blocking(work).await.expect("the work does not panic")
    }
}

async fn append_to_file(
    store: &EmbeddedStore,
    rules: &Rules,
    records: &Records,
    log_time_ms: LogTime,
) -> Result<Vec<SampleResult>, IngestError> {
    let decoder = Decoder::new(rules)?;
    let mut processor = Processor::new(store, rules, ProcessorConfig::default()).await?;
    let first = processor.position().delivered;
    let mut results = Results::new(records.len());
    for (nth, offset) in (0..records.len()).zip(first.get()..) {
        let record = records.get(nth);
        let mut batch = Batch { origin: ORIGIN.into(), ..Batch::default() };
        let content = decoder.json(record, &mut batch.text);
        let message = content.as_ref().err().map(|error| error.message.clone());
        batch.raw.extend_from_slice(record);
        batch.entries.push(Entry {
            offset: Offset(offset),
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
        results.push(sample_result(&before, processor.counts(), message));
    }
    processor.flush().await?;
    Ok(results.list)
}

/// The result of a sample, from the counts before and after it.
fn sample_result(
    before: &SampleCounts,
    after: &SampleCounts,
    message: Option<String>,
) -> SampleResult {
    let rose = after.by_result().zip(before.by_result()).find(|((_, is), (_, was))| is > was);
    let status = rose.map_or(DEAD, |((result, _), _)| result);
    let reason = match status {
        DROPPED => raised(&before.dropped, &after.dropped).map(DropReason::name),
        DEAD => raised(&before.dead_letters, &after.dead_letters).map(DeadReason::name),
        accepted => return SampleResult::accepted(accepted),
    };
    SampleResult { status, reason, message: message.filter(|_| status == DEAD) }
}

/// The first reason whose count differs.
fn raised<R: Copy + Ord>(before: &BTreeMap<R, u64>, after: &BTreeMap<R, u64>) -> Option<R> {
    after.iter().find(|(reason, count)| before.get(reason) != Some(count)).map(|(&it, _)| it)
}

/// Sends samples to a topic.
pub struct TopicSink {
    producer: Producer,
    topic: String,
    decoder: Arc<Decoder>,
}

impl TopicSink {
    /// A sink for the topic of an epoch, which checks samples by the rules of the epoch.
    ///
    /// # Errors
    /// The field map of the rules is invalid.
    pub fn new(producer: Producer, topic: String, rules: &Rules) -> Result<Self, IngestError> {
        Ok(Self { producer, topic, decoder: Arc::new(Decoder::new(rules)?) })
    }

    async fn ingest(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        let sent = tokio::time::timeout(ACK_TIMEOUT, self.send(records)).await;
        sent.unwrap_or_else(|_| Err(IngestError::Slow { topic: self.topic.clone() }))
    }

    /// Sends records in batches, so that only one batch is copied at a time.
    async fn send(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        let mut results = Results::new(records.len());
        let records = Arc::new(records);
        for start in (0..records.len()).step_by(SEND_BATCH) {
            let (decoder, shared) = (Arc::clone(&self.decoder), Arc::clone(&records));
            let range = start..records.len().min(start + SEND_BATCH);
            let work = move || decode(&decoder, &shared, range);
            // On its own thread: decoding must not block other requests.
            let (batch, decoded) =
                tokio::task::spawn_blocking(work).await.expect("the work does not panic");
            decoded.into_iter().for_each(|result| results.push(result));
            self.producer.send(&self.topic, &batch).await.map_err(|error| IngestError::Log {
                topic: self.topic.clone(),
                source: error.into(),
            })?;
        }
        Ok(results.list)
    }
}

/// Decodes a range of records. Returns the valid ones, keyed by device, and the result of each.
fn decode(
    decoder: &Decoder,
    records: &Records,
    range: Range<usize>,
) -> (Vec<ProducerRecord>, Vec<SampleResult>) {
    let (mut out, mut results, mut text) = (Vec::new(), Vec::new(), String::new());
    for nth in range {
        text.clear();
        let record = records.get(nth);
        match decoder.json(record, &mut text) {
            Ok(decoded) => {
                let device = &decoded.device;
                let key = &text.as_bytes()[device.start as usize..device.end as usize];
                let (key, value) = (Some(key.to_vec()), record.to_vec());
                out.push(ProducerRecord { key, value, ..ProducerRecord::default() });
                results.push(SampleResult::accepted("sent"));
            }
            Err(error) => {
                let (reason, message) = (Some(error.reason.name()), Some(error.message));
                results.push(SampleResult { status: "refused", reason, message });
            }
        }
    }
    (out, results)
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
            ("[1,", "not a valid JSON array"),
            ("[1] x", "not a valid JSON array"),
            ("[1,]", "not a valid JSON array"),
        ] {
            let error = split(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_body_has_at_most_max_samples() {
        for [before, between, after] in [["", "\n", ""], ["[", ",", "]"]] {
            let body = |count| format!("{before}{}{after}", vec!["7"; count].join(between));
            assert_eq!(split(&body(MAX_SAMPLES)).unwrap().len(), MAX_SAMPLES);
            let error = split(&body(MAX_SAMPLES + 1)).unwrap_err();
            assert!(error.contains("more than 100000 samples"), "{error}");
        }
    }
}
