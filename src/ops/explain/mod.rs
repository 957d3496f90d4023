//! Explain: how a trip was built, from its row and on request from the log.
//!
//! | file | what it does |
//! |---|---|
//! | `history` | replays the log and records the effect of each sample of the trip |
//! | `record` | converts entries of the history for output |

mod history;
mod record;

use std::path::PathBuf;

use serde::Serialize;

use self::history::TripHistory;
pub use self::record::RecordExplanation;
use super::{InvalidRequest, PreconditionFailed};
use crate::identity::DeviceId;
use crate::log::no_files;
use crate::log::topic::{LogAccess, TopicLog};
use crate::model::epoch::{Epoch, Versions, with_other_partition_count};
use crate::model::scalar::DeviceTime;
use crate::store::{AnyStore, EpochStore, TripRow};
use crate::views::Explanation;

/// Which trip to explain.
#[derive(Clone, Copy, Debug)]
pub struct ExplainRequest<'a> {
    /// The store as messages name it.
    pub store: &'a str,
    /// The trip.
    pub row: &'a TripRow,
    /// The id as the client wrote it.
    pub requested_id: &'a str,
    /// The time of that id, ms since 1970.
    pub t_star_ms: DeviceTime,
    /// Maximum number of records in the explanation.
    pub limit: usize,
}

/// The samples of a trip as the log has them. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, Serialize)]
pub struct LogExplanation {
    /// The first samples of the trip in log order.
    pub records: Vec<RecordExplanation>,
    /// Number of samples over the limit of the request.
    pub more: u64,
}

/// How a trip was built. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, Serialize)]
pub struct TripExplanation {
    /// The explanation from the row.
    #[serde(flatten)]
    pub row: Explanation,
    /// The explanation from the log; `None` if the log was not read.
    pub log: Option<LogExplanation>,
}

/// Explains one trip.
pub struct Explainer<'a> {
    request: ExplainRequest<'a>,
    store: &'a AnyStore,
    epochs: Vec<Epoch>,
    explanation: TripExplanation,
}

impl<'a> Explainer<'a> {
    /// Explains the trip from its row alone.
    ///
    /// # Errors
    /// The store cannot be read, or an id of the trip has no text form.
    pub async fn new(request: ExplainRequest<'a>, store: &'a AnyStore) -> anyhow::Result<Self> {
        let epochs = store.epochs().await?;
        let ExplainRequest { row, requested_id, t_star_ms, .. } = request;
        let row = Explanation::from_row(row, requested_id, t_star_ms, &epochs)?;
        Ok(Self { request, store, epochs, explanation: TripExplanation { row, log: None } })
    }

    /// Whether the store was built from files.
    #[must_use]
    pub fn is_of_files(&self) -> bool {
        self.epochs.is_empty()
    }

    /// The explanation, with the log if it was read.
    #[must_use]
    pub fn into_explanation(self) -> TripExplanation {
        self.explanation
    }

    /// Adds the explanation from the topic of the store. Calls `access` if the store has a topic.
    ///
    /// # Errors
    /// The store was built from files, brokers do not respond, or the log does not give the trip.
    pub async fn read_topic(
        &mut self,
        access: impl FnOnce() -> anyhow::Result<LogAccess>,
    ) -> anyhow::Result<()> {
        let ExplainRequest { store: name, row, limit, .. } = self.request;
        if self.epochs.is_empty() {
            return Err(no_files(self.store, name));
        }
        let log = TopicLog::open(self.store, &access()?).await?;
        let replay = log
            .reread(device_spans(&log, row), Some(DeviceId::from_store(row.device_id.as_str())))?;
        let mut history = TripHistory::new(row, limit);
        history.read_topic(&replay)?;
        self.add_history(&history)
    }

    /// Adds the explanation from the files that the store was built from.
    ///
    /// # Errors
    /// The store was built from a topic, the files are not all that it was built from, or they do
    /// not give the trip.
    pub async fn read_files(&mut self, files: &[PathBuf]) -> anyhow::Result<()> {
        let ExplainRequest { store: name, row, limit, .. } = self.request;
        let Some(imported) = self.store.embedded().filter(|_| self.epochs.is_empty()) else {
            let problem = format!("store `{name}` was built from a topic: --log reads it again");
            return Err(InvalidRequest(problem).into());
        };
        let mut history = TripHistory::new(row, limit);
        history.read_files(imported, files).await?;
        self.add_history(&history)
    }

    fn add_history(&mut self, history: &TripHistory<'_>) -> anyhow::Result<()> {
        let ExplainRequest { store: name, row, .. } = self.request;
        if !history.is_whole() {
            return Err(PreconditionFailed(format!(
                "the log of store `{name}`, as it is now, does not give this trip: records of it \
                 are gone (retention, or a recreated topic), or the store differs from its log \
                 (check with tstar verify); without the log, the row alone explains it"
            ))
            .into());
        }
        let (entries, total) = history.entries();
        let is_of_files = self.is_of_files();
        let records = entries
            .iter()
            .map(|entry| RecordExplanation::new(&row.device_id, entry, is_of_files))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let more = total - records.len() as u64;
        self.explanation.log = Some(LogExplanation { records, more });
        Ok(())
    }
}

/// The offsets, by partition, that may hold samples of the device of a row.
fn device_spans(log: &TopicLog, row: &TripRow) -> Vec<std::ops::Range<i64>> {
    let newest = log.epochs.last().expect("there is an epoch");
    let has_one_count = with_other_partition_count(&log.epochs, newest.partitions).is_none();
    let last = Versions::of_partition(&log.epochs, row.partition).offset_of(row.version);
    let mut spans = log.all_stored();
    for ((partition, span), range) in (0..).zip(&mut spans).zip(&log.extents) {
        // A row may be ahead of the committed offset.
        if partition == row.partition && row.version >= newest.base {
            span.end = span.end.max((last + 1).get()).min(range.next);
        }
        // Expired records may belong to other trips; `is_whole` detects if they do not.
        span.start = span.start.max(range.first);
        // A device stays in its partition as long as the partition count does not change.
        if (has_one_count && partition != row.partition) || span.end < span.start {
            span.end = span.start;
        }
    }
    spans
}
