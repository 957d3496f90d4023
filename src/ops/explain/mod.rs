//! Explain: how a trip was built, from its row and on request from the log.

mod history;

use std::path::PathBuf;

use serde::Serialize;
use tstar_core::evidence::{Evidence, MAX_RECORDS};

pub(crate) use self::history::RecordExplanation;
use self::history::TripHistory;
use super::{InvalidRequest, PreconditionFailed};
use crate::log::Log;
use crate::model::scalar::DeviceTime;
use crate::settings::Settings;
use crate::store::{AnyStore, SideTables, TripRow};
use crate::views::Explanation;

/// Which trip to explain.
#[derive(Clone, Copy, Debug)]
pub struct ExplainRequest<'a> {
    /// The store, and how to reach its topic.
    pub settings: &'a Settings,
    /// The trip.
    pub row: &'a TripRow,
    /// The id as the client wrote it.
    pub requested_id: &'a str,
    /// The time of that id, ms since 1970.
    pub t_star_ms: DeviceTime,
    /// Maximum number of records in the explanation.
    pub limit: usize,
    /// Whether the evidence of the trip is wanted, which needs the log: at most [`MAX_RECORDS`].
    pub evidence: bool,
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
    /// Whether the store was built from files.
    #[serde(skip)]
    pub is_of_files: bool,
    /// What the trip follows from, if the request wants it.
    #[serde(skip)]
    pub evidence: Option<Evidence>,
}

/// Explains a trip from its row, and from the log if `files` are given: all files that the store
/// was built from, none for a topic.
///
/// # Errors
/// The store cannot be read, an id of the trip has no text form, those of [`Log::open`], or the log
/// does not give the trip.
pub async fn explain(
    request: ExplainRequest<'_>,
    store: &AnyStore,
    files: Option<&[PathBuf]>,
) -> anyhow::Result<TripExplanation> {
    let ExplainRequest { row, requested_id, t_star_ms, .. } = request;
    let epochs = store.epochs().await?;
    let is_of_files = epochs.is_empty();
    let of_row = Explanation::from_row(row, requested_id, t_star_ms, &epochs)?;
    let (log, evidence) = match files {
        Some(files) => {
            let (log, evidence) = explain_log(request, store, files, is_of_files).await?;
            (Some(log), evidence)
        }
        None if request.evidence => {
            let problem = "--evidence has the records of the trip: name all files that the store \
                           was built from, or pass --log for a topic";
            return Err(InvalidRequest(problem.into()).into());
        }
        None => (None, None),
    };
    Ok(TripExplanation { row: of_row, log, is_of_files, evidence })
}

async fn explain_log(
    request: ExplainRequest<'_>,
    store: &AnyStore,
    files: &[PathBuf],
    is_of_files: bool,
) -> anyhow::Result<(LogExplanation, Option<Evidence>)> {
    let ExplainRequest { settings, row, limit, evidence, .. } = request;
    let name = &settings.store;
    if !(is_of_files || files.is_empty()) {
        let problem = format!("store `{name}` was built from a topic: --log reads it again");
        return Err(InvalidRequest(problem).into());
    }
    let log = Log::open(store, files, settings).await?;
    let mut history = TripHistory::new(row, limit, is_of_files, evidence.then_some(MAX_RECORDS));
    log.read_device(row, |records| history.read(records)).await?;
    if !history.is_whole() {
        return Err(PreconditionFailed(format!(
            "the log of store `{name}`, as it is now, does not give this trip: records of it are \
             gone (retention, or a recreated topic), or the store differs from its log (check with \
             tstar verify); without the log, the row alone explains it"
        ))
        .into());
    }
    let evidence = history.take_evidence();
    let TripHistory { records, total, .. } = history;
    let more = total - records.len() as u64;
    Ok((LogExplanation { records, more }, evidence))
}
