//! Appends the samples of a request to the log of a store.
//!
//! A store of files appends them to its log as records, and responds once they are durable. For a
//! store of a topic they are sent to the topic, and the daemon builds the trips.

mod reader;
mod records;
mod send;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use reader::Reader;
pub use records::Records;
use records::too_many;
pub(crate) use send::TopicSink;
use send::{ACK_TIMEOUT, REFUSED};
use turns::Turns;

use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::model::scalar::{LogTime, Offset};
use crate::pipeline::processor::{EntryOutcome, Processor, ProcessorConfig};
use crate::settings::Settings;
use crate::source::{Batch, Decoder, DecoderError, HTTP_ORIGIN, RecordContext, RecordPosition};
use crate::store::{EmbeddedStore, FileId, StoreError};
use crate::telemetry::clock_ms;
use crate::telemetry::counts::{DEAD, DROPPED};

/// Maximum number of samples in a request.
pub const MAX_SAMPLES: usize = 100_000;

/// Maximum number of messages in a response. Further rejected samples have only a reason.
const MAX_MESSAGES: usize = 1000;

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
    /// A record of the samples is larger than the topic accepts.
    #[error("topic `{topic}` accepts no record of this size; send fewer samples at once")]
    TooLarge {
        /// Name of the topic.
        topic: String,
    },
    /// The rules of the store cannot express the samples of a preset. None was ingested.
    #[error(
        "the field map of the store cannot express samples of {preset}: {problem}; send them to a \
         store without such a map, or with --preset {preset}"
    )]
    NotExpressible {
        /// Name of the preset.
        preset: &'static str,
        /// Why not.
        problem: String,
    },
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

    /// How many more samples the request may hold.
    fn left(&self) -> usize {
        MAX_SAMPLES.saturating_sub(self.list.len())
    }

    fn push(&mut self, mut result: SampleResult, count: u64) -> Result<(), IngestError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        // A record may hold several samples.
        if count > self.left() {
            return Err(IngestError::TooMany);
        }
        if result.message.is_some() {
            self.messages += 1;
            result.message.take_if(|_| self.messages > MAX_MESSAGES);
        }
        self.list.extend(std::iter::repeat_n(result, count));
        Ok(())
    }
}

/// The results of the bad samples of a record that have no entry; they follow those that have one.
fn other_results(batch: &Batch, status: &'static str) -> impl Iterator<Item = (SampleResult, u64)> {
    let others = batch.arrays.values().flat_map(|array| &array.more);
    others.map(move |(reason, count)| (SampleResult::of_reason(status, reason.name()), *count))
}

impl SampleResult {
    fn accepted(status: &'static str) -> Self {
        Self { status, reason: None, message: None }
    }

    fn of_reason(status: &'static str, reason: &'static str) -> Self {
        Self { status, reason: Some(reason), message: None }
    }

    /// What became of the sample.
    #[must_use]
    pub fn status(&self) -> &'static str {
        self.status
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
    Topic(Box<TopicSink>),
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
    /// The store that is served: no other file takes its place.
    served: (PathBuf, FileId),
    /// Rules for a store that has none yet.
    rules: RulesRequest,
    settings: Settings,
    turns: Turns,
}

impl FileSink {
    /// A sink for a store, which keeps as many changes and dead letters as the settings say.
    #[must_use]
    pub fn new(served: (PathBuf, FileId), rules: RulesRequest, settings: Settings) -> Self {
        Self { served, rules, settings, turns: Turns::default() }
    }

    async fn ingest(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        // Work continues, and holds its turn, even if the request is cancelled.
        let turn = self.turns.wait(records.sender()).await;
        let ((path, id), rules) = (self.served.clone(), self.rules.clone());
        let Settings { keep_changes, max_dead_letters, .. } = self.settings;
        let log_time_ms = clock_ms();
        let work = move || -> Result<Vec<SampleResult>, IngestError> {
            let _turn = turn;
            let opened = EmbeddedStore::open_again(&path, &rules, keep_changes, id);
            let (mut store, rules) = match opened {
                Err(StoreError::Locked { .. } | StoreError::OtherName { .. }) => {
                    return Err(IngestError::Busy);
                }
                opened => opened?,
            };
            store.bound_letters(max_dead_letters, Some(records.sender()));
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
    let reader = Reader::new(rules, Arc::new(Decoder::new(rules)?), records.preset())?;
    let headers = records.named_headers(&reader);
    let mut processor = Processor::new(store, rules, ProcessorConfig::default()).await?;
    let first = processor.position().delivered;
    let mut results = Results::new(records.len());
    for (nth, offset) in (0..records.len()).zip(first.get()..) {
        let mut batch = Batch { origin: HTTP_ORIGIN.into(), ..Batch::default() };
        let position =
            RecordPosition { offset: Offset(offset), log_time_ms, ..RecordPosition::default() };
        batch.keep_headers(position.offset, &headers);
        let context = RecordContext { headers: &headers, ..RecordContext::default() };
        let record = records.get(nth);
        let place = (&position, results.left());
        reader.split((record, &context), place, &mut batch)?;
        let outcomes = processor.absorb_traced(&batch).await?.into_iter().map(stored_result);
        for (result, count) in outcomes.chain(other_results(&batch, DEAD)) {
            results.push(result, count)?;
        }
    }
    processor.flush().await?;
    Ok(results.list)
}

/// The result of the samples of an entry, and their number.
fn stored_result(outcome: EntryOutcome) -> (SampleResult, u64) {
    match outcome {
        EntryOutcome::Counted(status, count) => (SampleResult::accepted(status), count),
        EntryOutcome::Dropped(reason, count) => {
            (SampleResult::of_reason(DROPPED, reason.name()), count)
        }
        EntryOutcome::Dead(reason, message) => {
            let result = SampleResult::of_reason(DEAD, reason.name());
            (SampleResult { message: Some(message), ..result }, 1)
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
