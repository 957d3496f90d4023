//! Ingests the samples of a request into the log of a store.
//!
//! A store of files appends them to its log as records, and responds once they are durable. For a
//! store of a topic they are sent to the topic, and the daemon builds the trips.

mod records;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

pub use records::Records;
use records::too_many;

use crate::kafka::producer::{Producer, ProducerRecord};
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::model::scalar::{LogTime, Offset};
use crate::pipeline::processor::{EntryOutcome, Processor, ProcessorConfig};
use crate::source::{
    Batch, Decoder, DecoderError, Entry, HTTP_ORIGIN, JsonTemplate, NoSample, RawJson,
    RecordContext, RecordPosition,
};
use crate::store::EmbeddedStore;
use crate::store::StoreError;
use crate::telemetry::counts::{DEAD, DROPPED, SKIPPED};

/// Maximum number of samples in a request.
pub const MAX_SAMPLES: usize = 100_000;

/// Maximum number of messages in a response. Further rejected samples have only a reason.
const MAX_MESSAGES: usize = 1000;

/// Number of records that are sent together.
const SEND_BATCH: usize = 1000;

/// Time limit for the brokers to acknowledge the records of a request.
const ACK_TIMEOUT: Duration = Duration::from_secs(20);

/// Status of a sample that was sent to a topic.
const SENT: &str = "sent";

/// Status of a sample that was not sent to a topic.
const REFUSED: &str = "refused";

/// Why a record with samples of several devices is not sent.
const SEVERAL_DEVICES: &str = "the record holds samples of several devices, and a record of a \
                               topic has one key; send a record for each device";

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
    /// The records hold too many samples.
    #[error("{}", too_many())]
    TooMany,
    /// The field map of the store's rules is invalid.
    #[error(transparent)]
    Map(#[from] DecoderError),
}

/// Result of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SampleResult {
    /// `new`, `end`, `inside`, `beginning`, `merge`, `duplicate`, `dropped`, `skipped` or `dead`;
    /// for a topic `sent`, `dropped`, `skipped` or `refused`.
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

    fn push(&mut self, mut result: SampleResult, count: u64) -> Result<(), IngestError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        // A record may hold several samples.
        if count > MAX_SAMPLES.saturating_sub(self.list.len()) {
            return Err(IngestError::TooMany);
        }
        if result.message.is_some() {
            self.messages += 1;
            result.message.take_if(|_| self.messages > MAX_MESSAGES);
        }
        self.list.extend(std::iter::repeat_n(result, count));
        Ok(())
    }

    /// Adds the bad samples of a record that have no entry; they follow those that have one.
    fn push_others(&mut self, batch: &Batch, status: &'static str) -> Result<(), IngestError> {
        for (reason, count) in batch.arrays.values().flat_map(|array| &array.more) {
            let reason = Some(reason.name());
            self.push(SampleResult { status, reason, message: None }, *count)?;
        }
        Ok(())
    }
}

impl SampleResult {
    fn accepted(status: &'static str) -> Self {
        Self { status, reason: None, message: None }
    }

    /// Whether the sample was accepted. A dropped or skipped sample counts as accepted.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        !matches!(self.status, DEAD | REFUSED)
    }
}

/// The destination of samples.
pub enum SampleSink {
    /// The log of a file.
    File(Box<FileSink>),
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
    let (mut template, headers) = (JsonTemplate::default(), records.named_headers(&decoder));
    let mut processor = Processor::new(store, rules, ProcessorConfig::default()).await?;
    let first = processor.position().delivered;
    let mut results = Results::new(records.len());
    for (nth, offset) in (0..records.len()).zip(first.get()..) {
        let mut batch = Batch { origin: HTTP_ORIGIN.into(), ..Batch::default() };
        let position =
            RecordPosition { offset: Offset(offset), log_time_ms, ..RecordPosition::default() };
        batch.keep_headers(position.offset, &headers);
        let context = RecordContext { headers: &headers, ..RecordContext::default() };
        let json = raw_json(&decoder, records.get(nth), context);
        decoder.split(&mut template, &json, &position, &mut batch);
        for outcome in processor.absorb_traced(&batch).await? {
            let (result, count) = stored_result(outcome);
            results.push(result, count)?;
        }
        results.push_others(&batch, DEAD)?;
    }
    processor.flush().await?;
    Ok(results.list)
}

fn raw_json<'a>(decoder: &Decoder, value: &'a [u8], context: RecordContext<'a>) -> RawJson<'a> {
    let may_be_list = decoder.reads_lists();
    RawJson { value, context, may_be_list, schema_id: None, check: &|_| Ok(()) }
}

/// The result of the samples of an entry, and their number.
fn stored_result(outcome: EntryOutcome) -> (SampleResult, u64) {
    match outcome {
        EntryOutcome::Counted(status, count) => (SampleResult::accepted(status), count),
        EntryOutcome::Dropped(reason, count) => {
            let reason = Some(reason.name());
            (SampleResult { status: DROPPED, reason, message: None }, count)
        }
        EntryOutcome::Dead(reason, message) => {
            let (reason, message) = (Some(reason.name()), Some(message));
            (SampleResult { status: DEAD, reason, message }, 1)
        }
    }
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
            let topic = self.topic.clone();
            let work = move || decode(&decoder, &shared, range, &topic);
            // On its own thread: decoding must not block other requests.
            let (batch, decoded) =
                tokio::task::spawn_blocking(work).await.expect("the work does not panic");
            for (result, count) in decoded {
                results.push(result, count)?;
            }
            self.producer.send(&self.topic, &batch).await.map_err(|error| IngestError::Log {
                topic: self.topic.clone(),
                source: error.into(),
            })?;
        }
        Ok(results.list)
    }
}

/// Results, each with its number of samples.
type SentResults = Vec<(SampleResult, u64)>;

/// Decodes a range of records. Returns those with valid samples, keyed by device, and the results
/// of their samples.
fn decode(
    decoder: &Decoder,
    records: &Records,
    range: Range<usize>,
    topic: &str,
) -> (Vec<ProducerRecord>, SentResults) {
    let (mut out, mut results) = (Vec::new(), Vec::new());
    let (mut template, headers) = (JsonTemplate::default(), records.named_headers(decoder));
    for nth in range {
        let record = records.get(nth);
        let mut batch = Batch::default();
        let context =
            RecordContext { headers: &headers, topic: Some(topic), ..RecordContext::default() };
        let json = raw_json(decoder, record, context);
        decoder.split(&mut template, &json, &RecordPosition::default(), &mut batch);
        let device = |entry: &Entry| {
            let decoded = entry.content.as_ref().ok()?;
            Some(batch.text(&decoded.device).to_owned())
        };
        let samples = || batch.entries.iter().filter_map(|entry| Some((entry, device(entry)?)));
        let send = |(value, device): (&[u8], String)| {
            let (key, value) = (Some(device.into_bytes()), value.to_vec());
            ProducerRecord { key, value, headers: headers.clone(), ..ProducerRecord::default() }
        };
        let devices: BTreeSet<_> = samples().map(|(_, device)| device).collect();
        let mut problem = None;
        match decoder.needs_whole_records() {
            false => out.extend(samples().map(|(entry, device)| send((batch.raw(entry), device)))),
            true if devices.len() > 1 => {
                problem = Some(SEVERAL_DEVICES);
            }
            true => out.extend(devices.into_iter().map(|device| send((record, device)))),
        }
        results.extend(batch.entries.iter().map(|entry| sent_result(entry, problem)));
        for (reason, count) in batch.arrays.values().flat_map(|array| &array.more) {
            let reason = Some(reason.name());
            results.push((SampleResult { status: REFUSED, reason, message: None }, *count));
        }
    }
    (out, results)
}

/// The result of the samples of an entry, and their number; `problem` is why they were not sent.
fn sent_result(entry: &Entry, problem: Option<&str>) -> (SampleResult, u64) {
    let refused = |reason: DeadReason, message: &str| {
        let (reason, message) = (Some(reason.name()), Some(message.to_owned()));
        (SampleResult { status: REFUSED, reason, message }, 1)
    };
    match (&entry.content, problem) {
        (Ok(_), None) => (SampleResult::accepted(SENT), 1),
        (Ok(_), Some(problem)) => refused(DeadReason::KeyMismatch, problem),
        (Err(NoSample::Dead(error)), _) => refused(error.reason, &error.message),
        (Err(NoSample::Skipped(count)), _) => (SampleResult::accepted(SKIPPED), u64::from(*count)),
        (Err(NoSample::Dropped(reason, count)), _) => {
            let reason = Some(reason.name());
            (SampleResult { status: DROPPED, reason, message: None }, u64::from(*count))
        }
    }
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
