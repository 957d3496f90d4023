//! Explain: how a trip was built, from its row and on request from the log.
//!
//! | file | what it does |
//! |---|---|
//! | `history` | repeats the decisions, and records the effect of each sample of the trip |
//! | `record` | converts entries of the history for output |

mod history;
mod record;

use std::path::PathBuf;

use serde::Serialize;

use self::history::TripHistory;
pub use self::record::RecordExplanation;
use super::{InvalidRequest, PreconditionFailed};
use crate::log::Log;
use crate::log::topic::OpenLog;
use crate::model::epoch::Epoch;
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

    /// Adds the explanation from the log of the store: `files` are all files that it was built
    /// from, and `access` is asked for if it was built from a topic.
    ///
    /// # Errors
    /// Those of [`Log::open`], or the log does not give the trip.
    pub async fn read_log(&mut self, files: &[PathBuf], access: OpenLog<'_>) -> anyhow::Result<()> {
        let ExplainRequest { store: name, row, limit, .. } = self.request;
        if !(self.is_of_files() || files.is_empty()) {
            let problem = format!("store `{name}` was built from a topic: --log reads it again");
            return Err(InvalidRequest(problem).into());
        }
        let log = Log::open(self.store, files, name, access).await?;
        let mut history = TripHistory::new(row, limit);
        log.read_device(row, |records| history.read(records)).await?;
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
