//! Join: samples that come by a request, into the log of a store.
//!
//! A store of files takes them as further records of its log, and answers once they are durable; a
//! store of a topic takes nothing itself: they go to the topic, and the daemon builds the trips.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::kafka::producer::{Out, Producer};
use crate::processor::{Counts, Pace, Processor};
use crate::rules::Rules;
use crate::source::{Batch, Decoder, Entry, MapError, span};
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;

/// Most samples of one request.
pub const MOST_SAMPLES: usize = 100_000;

/// Longest wait for the topic's brokers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where samples come from, in dead letters.
const ORIGIN: &str = "http";

/// Samples cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntakeError {
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
pub struct Verdict {
    /// `new`, `end`, `inside`, `beginning`, `merge`, `duplicate`, `dropped`, `dead`; of a topic
    /// `sent` or `refused`.
    status: &'static str,
    /// Why it was dropped or could not be used.
    reason: Option<&'static str>,
    /// The same for a person.
    message: Option<String>,
}

impl Verdict {
    fn taken(status: &'static str) -> Self {
        Self { status, reason: None, message: None }
    }

    /// Whether it could be used; one that the rules drop could.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        !matches!(self.status, "dead" | "refused")
    }
}

/// The records of a request: JSON values, one a line, or the elements of one array.
///
/// # Errors
/// What is wrong with it as a whole.
pub fn split(body: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let is_array = body.trim_ascii_start().first() == Some(&b'[');
    let records: Vec<Vec<u8>> = if is_array {
        let elements: Result<Vec<&RawValue>, _> = serde_json::from_slice(body);
        let elements = elements.map_err(|error| format!("it is no JSON array: {error}"))?;
        elements.into_iter().map(|it| it.get().as_bytes().to_vec()).collect()
    } else {
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    };
    if records.is_empty() && !is_array {
        return Err("it holds no sample".to_owned());
    }
    if records.len() > MOST_SAMPLES {
        let count = records.len();
        return Err(format!("{count} samples are more than {MOST_SAMPLES}; send them in parts"));
    }
    Ok(records)
}

/// What takes samples.
pub enum Intake {
    /// The log of a file.
    File(FileIntake),
    /// A topic.
    Topic(TopicIntake),
}

impl Intake {
    /// Takes records, and says what became of each once they are durable.
    ///
    /// # Errors
    /// [`IntakeError`]: some may have been taken; the same ones again do no harm.
    pub async fn take(&self, records: Vec<Vec<u8>>) -> Result<Vec<Verdict>, IntakeError> {
        match self {
            Self::File(file) => file.take(records).await,
            Self::Topic(topic) => topic.take(records).await,
        }
    }
}

/// Takes samples into a store of files.
pub struct FileIntake {
    path: PathBuf,
    rules: Rules,
    keep_changes: u64,
    clock: fn() -> i64,
    /// Requests take turns: the file has one writer.
    turn: tokio::sync::Mutex<()>,
}

impl FileIntake {
    /// An intake into the file at a path; `clock` tells ms since 1970.
    #[must_use]
    pub fn new(path: PathBuf, rules: Rules, keep_changes: u64, clock: fn() -> i64) -> Self {
        Self { path, rules, keep_changes, clock, turn: tokio::sync::Mutex::default() }
    }

    async fn take(&self, records: Vec<Vec<u8>>) -> Result<Vec<Verdict>, IntakeError> {
        let _turn = self.turn.lock().await;
        let (path, rules, keep) = (self.path.clone(), self.rules.clone(), self.keep_changes);
        let log_time_ms = (self.clock)();
        let work = move || -> Result<Vec<Verdict>, IntakeError> {
            let store = match SqliteStore::open_writer(&path, &rules, keep) {
                Err(StoreError::Locked { .. }) => return Err(IntakeError::Busy),
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
    store: &SqliteStore,
    rules: &Rules,
    records: &[Vec<u8>],
    log_time_ms: i64,
) -> Result<Vec<Verdict>, IntakeError> {
    let decoder = Decoder::new(rules)?;
    let mut processor = Processor::new(store, rules, Pace::default()).await?;
    let first = processor.position().delivered;
    let mut verdicts = Vec::with_capacity(records.len());
    for (record, offset) in records.iter().zip(first..) {
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
    Ok(verdicts)
}

/// What one sample changed in the counts.
fn verdict(before: &Counts, after: &Counts, message: Option<String>) -> Verdict {
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
        return Verdict::taken(status);
    }
    for (reason, count) in &after.dropped {
        if before.dropped.get(reason) != Some(count) {
            let reason = Some(reason.name());
            return Verdict { status: "dropped", reason, message: None };
        }
    }
    let dead = after.dead_letters.iter();
    let mut dead = dead.filter(|(reason, count)| before.dead_letters.get(reason) != Some(count));
    let reason = dead.next().map(|(reason, _)| reason.name());
    Verdict { status: "dead", reason, message }
}

/// Takes samples into a topic.
pub struct TopicIntake {
    producer: Producer,
    topic: String,
    decoder: Decoder,
}

impl TopicIntake {
    /// An intake into the topic of an epoch, by its rules.
    ///
    /// # Errors
    /// The rules name fields that there are not.
    pub fn new(producer: Producer, topic: String, rules: &Rules) -> Result<Self, IntakeError> {
        Ok(Self { producer, topic, decoder: Decoder::new(rules)? })
    }

    async fn take(&self, records: Vec<Vec<u8>>) -> Result<Vec<Verdict>, IntakeError> {
        let (mut verdicts, mut out) = (Vec::with_capacity(records.len()), Vec::new());
        let mut text = String::new();
        for record in records {
            text.clear();
            match self.decoder.json(&record, &mut text) {
                Ok(decoded) => {
                    let device = &decoded.device;
                    let key = &text.as_bytes()[device.start as usize..device.end as usize];
                    out.push(Out { key: Some(key.to_vec()), value: record, ..Out::default() });
                    verdicts.push(Verdict::taken("sent"));
                }
                Err(fault) => {
                    let (reason, message) = (Some(fault.reason.name()), Some(fault.message));
                    verdicts.push(Verdict { status: "refused", reason, message });
                }
            }
        }
        let sent = tokio::time::timeout(PATIENCE, self.producer.send(&self.topic, &out)).await;
        match sent {
            Ok(Ok(())) => Ok(verdicts),
            Ok(Err(error)) => {
                Err(IntakeError::Log { topic: self.topic.clone(), source: error.into() })
            }
            Err(_) => Err(IntakeError::Slow { topic: self.topic.clone() }),
        }
    }
}
