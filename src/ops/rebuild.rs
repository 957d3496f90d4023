//! Rebuild: reads the log of a store under other rules into a second store, and compares the trips
//! and ids of both.

use std::path::PathBuf;
use std::sync::Arc;

use super::ingest::{IngestRequest, ingest};
use super::tags::{self, CopiedTags};
use super::verify::ids::{self, Ids};
use super::{InvalidRequest, SignalListener};
use crate::log::copy::CopyRequest;
use crate::log::{Log, ReadProgress};
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::model::tag::Tag;
use crate::model::time::format_duration;
use crate::pipeline::daemon::OnEvent;
use crate::pipeline::processor::SampleCounts;
use crate::settings::Settings;
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

/// Compares the trips and ids of the old store with those of the new one.
///
/// # Errors
/// One of the stores cannot be read.
pub async fn compare_ids(old: &AnyStore, new: &Settings) -> anyhow::Result<Ids> {
    Ok(ids::compare(old, &new.reader().await?).await?)
}

/// Copies the tags of the old store to the new one. `on_uncovered` hears of each that no trip there
/// covers.
///
/// # Errors
/// One of the stores cannot be read, or the new one cannot be written.
pub async fn copy_tags(
    old: &AnyStore,
    new: &Settings,
    on_uncovered: impl FnMut(&str, &Tag),
) -> anyhow::Result<CopiedTags> {
    Ok(tags::copy(old, &new.reader().await?, on_uncovered).await?)
}
