//! Rebuild: reads the log of a store under other rules into a second store.

use std::path::PathBuf;
use std::sync::Arc;

use super::ingest::{IngestRequest, ingest};
use super::{InvalidRequest, SignalListener};
use crate::log::copy::CopyRequest;
use crate::log::{Log, ReadProgress};
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::model::time::format_duration;
use crate::pipeline::daemon::OnEvent;
use crate::pipeline::processor::SampleCounts;
use crate::store::AnyStore;

/// Reads the log of a store into a new one, by the rules that its settings give.
///
/// # Errors
/// Those of [`Log::copy`], or the rules contradict each other.
pub async fn rebuild(
    (old, log): (&Arc<AnyStore>, &Log),
    request: CopyRequest<'_>,
    listen: SignalListener<'_>,
    progress: &mut dyn ReadProgress,
    on_event: OnEvent,
) -> anyhow::Result<SampleCounts> {
    let settings = request.settings;
    let rules = other_rules(&settings.rules_request(), &log.rules()?)?;
    let read_files = async |files: Vec<PathBuf>| {
        let request = IngestRequest { files: &files, rules: &rules.clone().into(), settings };
        ingest(request, listen, &mut *progress).await?.into_counts()
    };
    log.copy((old, request), &rules, read_files, listen, on_event).await
}

/// The rules given, and those of the source store for the others.
fn other_rules(given: &RulesRequest, source: &Rules) -> Result<Rules, InvalidRequest> {
    let rules = given.over(source);
    if rules.max_gap_ms <= rules.max_duration_ms {
        return Ok(rules);
    }
    Err(InvalidRequest(format!(
        "max_gap ({}) must not be longer than max_duration ({}); what is not given is that of the \
         store",
        format_duration(rules.max_gap_ms),
        format_duration(rules.max_duration_ms)
    )))
}
