//! `rebuild`: reads the log under other rules into another store, and reports what that changes.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::flags::{
    Context, Format, ImportFlags, LogFlags, RegistryFlags, RuleFlags, ValueOutputFlags,
};
use super::print::Printer;
use super::progress::{self, FileProgress};
use super::report::SampleSummary;
use super::{exit, stop, table};
use crate::log::Log;
use crate::log::copy::CopyRequest;
use crate::model::tag::Tag;
use crate::model::time::format_time;
use crate::ops::rebuild::rebuild;
use crate::ops::tags::{self, CopiedTags};
use crate::ops::verify::ids::{self, Ids};
use crate::ops::{InvalidRequest, PartialResult};
use crate::pipeline::processor::SampleCounts;
use crate::settings::Settings;
use crate::store::StoreUrl;

const EXAMPLES: &str = "\
Examples:
  tstar rebuild --into sqlite:ten.db --max-gap 10m day1.ndjson.gz
  tstar rebuild --store sqlite:live.db --into sqlite:ten.db --max-gap 10m --brokers 127.0.0.1:9092
  tstar rebuild --into scylla://127.0.0.1:9042/ten --into-group ten --brokers 127.0.0.1:9092

The report counts the samples by result, and compares the trips and ids of both stores. Tags are
copied last; those that no trip of the new store covers are listed.
The store is only read. To switch, point readers at the new one, and `tstar run` with the new rules
(and --group if it is a keyspace). Rerun a stopped rebuild to continue it or to start it over.";

/// Flags of `rebuild`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RebuildArgs {
    /// The files that were imported; none for a store of a topic
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// URL of the new store
    #[arg(long, value_name = "URL")]
    pub into: String,
    /// Consumer group that continues from the end of this rebuild; required for a new keyspace
    #[arg(long, value_name = "NAME")]
    pub into_group: Option<String>,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub import: ImportFlags,
    #[command(flatten)]
    pub output: ValueOutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub registry: RegistryFlags,
}

/// The report as JSON. Clients parse it: names and order are fixed.
#[derive(Debug, Serialize)]
struct ReportJson {
    store: String,
    into: String,
    records: u64,
    #[serde(flatten)]
    samples: SampleSummary,
    #[serde(flatten)]
    ids: Ids,
    share_of_old_ids_found: Option<f64>,
    tags_copied: u64,
    tags_uncovered: u64,
}

/// Builds the other store and compares both.
pub(crate) async fn run(
    args: &RebuildArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let flags = [&args.rules.0, &args.import.0, &args.log.0, &args.registry.0];
    let settings = context.settings(&flags)?;
    let format = printer.format(&args.output);
    let store = StoreUrl::parse(&args.into)?;
    if store == settings.url()? {
        return Err(InvalidRequest("--into names the store itself; name another one".into()).into());
    }
    let old = Arc::new(settings.reader().await?);
    let into = Settings { store: args.into.clone(), ..settings.clone() };
    if into.rules_request().is_empty() {
        let (new, old) = (&args.into, &settings.store);
        exit::print_status(&format!("no rule is given, so `{new}` gets those of `{old}`"));
    }
    let interrupted = |error| exit::interrupted(PartialResult::Read, error);
    let log = Log::open(&old, &args.files, &settings).await.map_err(interrupted)?;
    let request = CopyRequest { settings: &into, group: args.into_group.as_deref() };
    let (progress, events) = (&mut FileProgress::default(), progress::notify_warnings());
    let read = rebuild((&old, &log), request, &stop::on_signals, progress, events);
    let counts = read.await.map_err(interrupted)?;
    let new = into.reader().await?;
    let ids = ids::compare(&*old, &new).await?;
    let tags = tags::copy(&*old, &new, report_uncovered).await?;
    print((&ids, &tags), &counts, (&settings.store, &args.into), format, printer)
}

/// Reports a tag that no trip of the new store covers, or whose device it does not have.
fn report_uncovered(device_id: &str, tag: &Tag) {
    let (key, value) = (&tag.key, tag.value.as_str());
    let why = match tag.is_of_device() {
        true => ": the new store has no trip or stop of it; the tag".to_owned(),
        false => {
            let time = format_time(tag.t_star_ms.ms());
            format!(" at {time}: no trip of the new store covers this time; it")
        }
    };
    exit::print_status(&format!(
        "tag {key}={value} of {device_id}{why} is kept, and shows again when one does"
    ));
}

fn print(
    (ids, tags): (&Ids, &CopiedTags),
    counts: &SampleCounts,
    (store, into): (&str, &str),
    format: Format,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let share = ids.share_of_old_ids_found();
    if format != Format::Table {
        let report = ReportJson {
            store: store.to_owned(),
            into: into.to_owned(),
            records: counts.delivered,
            samples: SampleSummary::new(counts),
            ids: *ids,
            share_of_old_ids_found: share,
            tags_copied: tags.copied,
            tags_uncovered: tags.uncovered,
        };
        return printer.json(&report);
    }
    let found_share = share.map_or_else(String::new, |share| format!(" ({:.2} %)", share * 100.0));
    let mut pairs = vec![("samples read", counts.delivered.to_string())];
    let samples = SampleSummary::new(counts);
    pairs.extend(samples.pairs());
    pairs.extend([
        ("devices", ids.devices.to_string()),
        ("old trips", ids.old_trips.to_string()),
        ("  equal", ids.equal.to_string()),
        ("  split", ids.split.to_string()),
        ("  joined", ids.joined.to_string()),
        ("  of another span", ids.changed.to_string()),
        ("  gone", ids.gone.to_string()),
        ("new trips", ids.new_trips.to_string()),
        ("ids of old trips", ids.old_trips.to_string()),
        ("  kept", ids.ids_kept.to_string()),
        ("  retired", ids.ids_retired.to_string()),
        ("  not minted again", ids.ids_unminted.to_string()),
        ("other ids of new trips", (ids.ids_revived + ids.ids_minted).to_string()),
        ("  retired before", ids.ids_revived.to_string()),
        ("  minted", ids.ids_minted.to_string()),
        (
            "old ids that find a trip",
            format!("{} of {}{found_share}", ids.old_ids_found, ids.old_ids),
        ),
        ("tags copied", tags.copied.to_string()),
        ("  without a new trip", tags.uncovered.to_string()),
    ]);
    Ok(printer.line(&table::pairs(&pairs))?)
}
