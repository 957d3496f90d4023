//! Rebuild: reads the log of a store under other rules into a second store.

use std::path::PathBuf;
use std::sync::Arc;

use super::SignalListener;
use super::ingest::{IngestRequest, ingest};
use crate::log::copy::CopyRequest;
use crate::log::{Log, ReadProgress};
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
    let rules = settings.rules_request().over(&log.rules()?);
    let read_files = async |files: Vec<PathBuf>| {
        let request = IngestRequest { files: &files, rules: &rules.clone().into(), settings };
        ingest(request, listen, &mut *progress).await?.into_counts()
    };
    log.copy((old, request), &rules, read_files, listen, on_event).await
}
