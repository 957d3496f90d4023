//! Why most of an import could not be used: the first dead letter of each reason.

use serde::Serialize;

use crate::model::reason::DeadReason;
use crate::source::{RecordContext, suggest};
use crate::store::{DeadLetter, StoreError};
use crate::telemetry::counts::SampleCounts;

/// Number of reasons that an import reports.
const MAX_PROBLEMS: usize = 3;

/// A reason why samples could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportProblem {
    /// The reason.
    pub reason: &'static str,
    /// Number of samples.
    pub count: u64,
    /// The first of them.
    pub first: FirstLetter,
}

/// The first dead letter of a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstLetter {
    /// Path of the file.
    pub origin: String,
    /// Line of the file, from 1.
    pub line: u64,
    /// What failed, with the value.
    pub message: String,
    /// Name of the preset that would read it, if there is one.
    pub preset: Option<&'static str>,
}

/// The most frequent reasons, if more than half of the samples could not be used; else none.
/// `first_of` finds the first dead letter of a reason.
///
/// # Errors
/// The letters cannot be read.
pub(super) fn problems(
    counts: &SampleCounts,
    first_of: impl Fn(DeadReason) -> Result<Option<DeadLetter>, StoreError>,
) -> Result<Vec<ImportProblem>, StoreError> {
    if counts.dead() * 2 <= counts.delivered {
        return Ok(Vec::new());
    }
    let mut reasons: Vec<(DeadReason, u64)> =
        counts.dead_letters.iter().map(|(reason, count)| (*reason, *count)).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut problems = Vec::new();
    for (reason, count) in reasons.into_iter().take(MAX_PROBLEMS) {
        // Purged by another command: nothing to show.
        let Some(first) = first_of(reason)? else { continue };
        let DeadLetter { origin, line, message, value, .. } = first;
        let preset = suggest(&value, &RecordContext::of_file(&origin)).map(|preset| preset.name);
        let first = FirstLetter { origin, line, message, preset };
        problems.push(ImportProblem { reason: reason.name(), count, first });
    }
    Ok(problems)
}
