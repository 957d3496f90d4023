//! `rebuild`: the log under other rules into another store, and what that does to trips and ids.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use tstar::ops::{Cancel, InvalidRequest, PartialResult, PreconditionFailed, Stopped};

use clap::Args;
use serde::Serialize;
use tstar::kafka::group::Group;
use tstar::model::epoch::Epoch;
use tstar::model::partitioner::Partitioner;
use tstar::ops::verify::ids::{self, Ids};
use tstar::ops::verify::reference::{self, ImportStep};
use tstar::pipeline::daemon::topic_replay::{TopicReplay, first_offsets};
use tstar::pipeline::daemon::{GuidedOwners, Report, ScyllaStores, SqliteStores, preflight};
use tstar::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use tstar::settings::Settings;
use tstar::source::{Batch, Control};
use tstar::store::{
    Access, AnyStore, EmbeddedStore, EpochStore, Forget, Guide, KeyStore, StoreUrl, TripStore,
};

use super::exit;
use super::flags::{Context, Format, ImportFlags, LogFlags, OutputFlags, RuleFlags, ServerFlags};
use super::open;
use super::print::Printer;
use super::progress;
use super::report::SampleSummary;
use super::stop;
use super::{ingest, table};
use tstar::ops::topic_log::{self, TopicLog};

const EXAMPLES: &str = "\
Examples:
  tstar rebuild --into sqlite:ten.db --max-gap 10m day1.ndjson.gz
  tstar rebuild --store sqlite:live.db --into sqlite:ten.db --max-gap 10m --brokers 127.0.0.1:9092
  tstar rebuild --into scylla://127.0.0.1:9042/ten --into-group ten --brokers 127.0.0.1:9092

The report tells what became of the samples that were read, and of the trips and ids of the store.
The store is only read. To switch, point readers at the new one, and `tstar run` with the new rules
(and --group where it is a keyspace). Stopped, and started again, it goes on, or does it over.";

/// Devices that are erased in one transaction, at most.
const ERASED_TOGETHER: usize = 256;

/// Flags of `rebuild`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RebuildArgs {
    /// The files that were imported; none for a store of a topic
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The store to build, another one
    #[arg(long, value_name = "URL")]
    pub into: String,
    /// The consumer group that goes on from where this ends, where it is a keyspace
    #[arg(long, value_name = "NAME")]
    pub into_group: Option<String>,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub import: ImportFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// What came out, as JSON.
#[derive(Debug, Serialize)]
struct ReportJson {
    store: String,
    into: String,
    records: u64,
    #[serde(flatten)]
    became: SampleSummary,
    #[serde(flatten)]
    ids: Ids,
    share_of_old_ids_found: Option<f64>,
}

/// Builds the other store, and compares.
pub async fn run(
    args: &RebuildArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let flags = [&args.rules.0[..], &args.import.0, &args.log.0, &args.server.0].concat();
    let settings = context.settings(&flags)?.0;
    let format = printer.format(&args.output);
    if !matches!(format, Format::Table | Format::Json | Format::Ndjson) {
        return Err(InvalidRequest("a report comes as table, ndjson or json".into()).into());
    }
    if StoreUrl::parse(&args.into)? == StoreUrl::parse(&settings.store)? {
        return Err(InvalidRequest("--into names the store itself; name another one".into()).into());
    }
    let old = Arc::new(open::reader(&settings, context).await?);
    let into = Settings { store: args.into.clone(), ..settings.clone() };
    let of_topic = !old.epochs().await?.is_empty();
    let counts = match (of_topic, args.files.is_empty()) {
        (true, true) => {
            let log = TopicLog::open(&old, &open::log_access(&settings)?).await?;
            let log = log.ok_or_else(|| topic_log::no_epoch(&settings.store))?;
            log.is_whole()?;
            log.has_one_partition_count()?;
            let read = RebuildJob { args, into: &into, context, old: Arc::clone(&old), log }
                .read_topic()
                .await;
            read.map_err(|error| exit::interrupted(PartialResult::Read, error))?
        }
        (false, false) => {
            let Some(old) = old.embedded() else {
                return Err(PreconditionFailed("no files go into a keyspace".to_owned()).into());
            };
            read_files(old, &args.files, &into, context).await?
        }
        (true, false) => {
            let problem = "the store was built from a topic, which is read again; name no files";
            return Err(InvalidRequest(problem.into()).into());
        }
        (false, true) => return Err(topic_log::no_files(&old, &settings.store)),
    };
    let new = open::reader(&into, context).await?;
    let found = ids::compare(&*old, &new).await?;
    print(&found, &counts, (&settings.store, &args.into), format, printer)
}

/// Does to the new store what was done to the old one, in the same order: the same ids come out
/// where the rules are the same, and what was erased is erased.
async fn read_files(
    old: &EmbeddedStore,
    files: &[PathBuf],
    into: &Settings,
    context: &Context,
) -> anyhow::Result<SampleCounts> {
    // Before anything is built: what these files lack would be missed in silence.
    reference::is_all(old, files).await?;
    let mut counts = SampleCounts::default();
    for past in reference::past(old, files).await? {
        match past {
            ImportStep::Files(files) => {
                let done = ingest::import(&files, into, context).await?;
                if let Some(error) = done.stopped {
                    return Err(error);
                }
                counts.add(&done.counts);
            }
            ImportStep::Forgets(forgets) => erase_again(forgets, into).await?,
        }
    }
    Ok(counts)
}

/// Erases from the new store what was erased from the old one, unless an earlier run did.
async fn erase_again(forgets: Vec<(String, Forget)>, into: &Settings) -> anyhow::Result<()> {
    let path = open::file_path(&into.store, "it is no file")?;
    let rules = into.rules();
    let store = EmbeddedStore::open_writer(&path, &rules, into.keep_changes)?;
    let mut processor = Processor::new(&store, &rules, ProcessorConfig::default()).await?;
    let mut unwritten = BTreeSet::new();
    for (device_id, Forget { before_ms, .. }) in forgets {
        // What the store says of a device has to be all that was done to it.
        if unwritten.len() == ERASED_TOGETHER || unwritten.contains(&device_id) {
            processor.flush().await?;
            unwritten.clear();
        }
        if store.erased(&device_id).await?.is_some_and(|done| done.before_ms >= before_ms) {
            continue;
        }
        unwritten.insert(device_id.clone());
        let offset = processor.position().delivered;
        let control = Some(Control::Forget { offset, device_id, before_ms });
        processor.absorb(&Batch { control, ..Batch::default() }).await?;
    }
    Ok(processor.flush().await?)
}

struct RebuildJob<'a> {
    args: &'a RebuildArgs,
    into: &'a Settings,
    context: &'a Context,
    old: Arc<AnyStore>,
    log: TopicLog,
}

impl RebuildJob<'_> {
    async fn read_topic(&self) -> anyhow::Result<SampleCounts> {
        let mut stop = stop::on_signals(PartialResult::Read)?;
        let report = match StoreUrl::parse(&self.into.store)?.path() {
            Some(_) => self.to_file(&mut stop).await?,
            None => self.to_keyspace(&mut stop).await?,
        };
        match (report.stopped, stop.signal()) {
            (true, Some(signal)) => Err(Stopped { signal, partial: PartialResult::Read }.into()),
            _ => Ok(report.counts),
        }
    }

    /// The epoch of the new store: the one that it has, or one from the beginning of the log.
    async fn epoch(&self, store: &(impl EpochStore + KeyStore)) -> anyhow::Result<Epoch> {
        let old = self.log.epochs.last().expect("there is an epoch");
        let rules = tstar::model::rules::Rules { key: old.rules.key.clone(), ..self.into.rules() };
        let start_offsets = (0..).zip(first_offsets(&self.log.epochs)).collect();
        let base = self.context.now_ms.saturating_mul(1000);
        let (topic, partitions) = (old.topic.clone(), old.partitions);
        // Records are where they are, whatever they are built into.
        let partitioner = Some(old.partitioner.unwrap_or(Partitioner::None));
        let asked = Epoch { epoch: 1, topic, partitions, start_offsets, base, rules, partitioner };
        store.add_epoch(&asked).await?;
        let [found] = <[Epoch; 1]>::try_from(store.epochs().await?).map_err(|epochs| {
            PreconditionFailed(format!(
                "store `{}` has {} epochs of its own",
                self.args.into,
                epochs.len()
            ))
        })?;
        preflight::check_origin(&found, &asked.topic, &asked.rules, &self.args.into)?;
        // Those that count in the old store, and no others: the log says the same in both.
        preflight::control_keys(store, &self.log.keys, &self.args.into).await?;
        Ok(found)
    }

    /// What is to be read; `from` is where each partition begins.
    fn reread(&self, epoch: Epoch, from: Vec<i64>) -> anyhow::Result<TopicReplay> {
        let ends = self.log.extents.iter().map(|extent| extent.next);
        let spans = from.into_iter().zip(ends).map(|(from, next)| from..next.max(from)).collect();
        Ok(TopicReplay { epochs: vec![epoch], ..self.log.reread(spans, None)? })
    }

    /// A device belongs where the old store has it.
    fn guide(&self) -> Guide<AnyStore> {
        Guide::new(Arc::clone(&self.old), &self.log.epochs).merged()
    }

    async fn open(&self) -> anyhow::Result<AnyStore> {
        open::open(self.into, self.context, Access::WriteTopic(&self.into.rules())).await
    }

    async fn to_file(&self, stop: &mut Cancel) -> anyhow::Result<Report> {
        let store = self.open().await?;
        let store = store.embedded().expect("the store is a file");
        let epoch = self.epoch(&**store).await?;
        let mut from = Vec::new();
        for (&partition, &first) in &epoch.start_offsets {
            let position = store.position_of(partition)?.unwrap_or(first);
            store.set_position(partition, position)?;
            from.push(position);
        }
        let guide = self.guide();
        let owners =
            || GuidedOwners { owners: SqliteStores(Arc::clone(store)), guide: guide.clone() };
        let work = (open::processor_config(self.into), progress::trouble());
        Ok(self.reread(epoch, from)?.run(owners, work, stop.wait()).await?)
    }

    async fn to_keyspace(&self, stop: &mut Cancel) -> anyhow::Result<Report> {
        let Some(name) = &self.args.into_group else {
            let problem = "a keyspace keeps no offsets: name with --into-group the consumer group \
                 that `tstar run` is to go on with";
            return Err(InvalidRequest(problem.into()).into());
        };
        let group = Group::new(self.log.brokers(), name)?;
        let members = group.members()?;
        if members > 0 {
            let problem = format!("group `{name}` has {members} members; stop them first");
            return Err(PreconditionFailed(problem).into());
        }
        let store = self.open().await?;
        let epoch = self.epoch(&store).await?;
        let outputs = self.log.outputs(false)?;
        let guide = self.guide();
        let owners = || {
            let (store, outputs) = (store.for_worker(), Arc::clone(&outputs));
            let owners = ScyllaStores { owner: move || store.for_worker(), outputs };
            GuidedOwners { owners, guide: guide.clone() }
        };
        let from = epoch.start_offsets.values().copied().collect();
        let reread = self.reread(epoch, from)?;
        let work = (open::processor_config(self.into), progress::trouble());
        let report = reread.run(owners, work, stop.wait()).await?;
        if !report.stopped {
            let ends = (0..).zip(reread.spans.iter().map(|span| span.end)).collect();
            group.set(self.log.topic(), &ends)?;
        }
        Ok(report)
    }
}

fn print(
    found: &Ids,
    counts: &SampleCounts,
    (store, into): (&str, &str),
    format: Format,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let share = (found.old_ids > 0).then(|| found.old_ids_found as f64 / found.old_ids as f64);
    if format != Format::Table {
        let report = ReportJson {
            store: store.to_owned(),
            into: into.to_owned(),
            records: counts.delivered,
            became: SampleSummary::new(counts),
            ids: *found,
            share_of_old_ids_found: share,
        };
        return Ok(printer.line(&serde_json::to_string(&report)?)?);
    }
    let found_share = share.map_or_else(String::new, |share| format!(" ({:.2} %)", share * 100.0));
    let mut pairs = vec![("samples read", counts.delivered.to_string())];
    pairs.extend(SampleSummary::new(counts).pairs());
    pairs.extend([
        ("devices", found.devices.to_string()),
        ("old trips", found.old_trips.to_string()),
        ("  equal", found.equal.to_string()),
        ("  split", found.split.to_string()),
        ("  joined", found.joined.to_string()),
        ("  of another span", found.changed.to_string()),
        ("  gone", found.gone.to_string()),
        ("new trips", found.new_trips.to_string()),
        ("ids kept", found.ids_kept.to_string()),
        ("ids retired", found.ids_retired.to_string()),
        ("ids minted", found.ids_minted.to_string()),
        (
            "old ids that find a trip",
            format!("{} of {}{found_share}", found.old_ids_found, found.old_ids),
        ),
    ]);
    Ok(printer.line(&table::pairs(&pairs))?)
}
