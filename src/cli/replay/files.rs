//! `replay files`: late or historic samples in files into the topic.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tstar::ops::{BadData, InvalidRequest, PartialResult, PreconditionFailed, Stopped};

use clap::Args;
use serde::Serialize;
use tstar::kafka::KafkaError;
use tstar::kafka::client::Brokers;
use tstar::kafka::producer::Producer;
use tstar::kafka::topic::{OffsetRange, Topics};
use tstar::model::epoch::Epoch;
use tstar::model::rules::Rules;
use tstar::ops::verify::reference::Workspace;
use tstar::pipeline::daemon::preflight;
use tstar::pipeline::processor::SampleCounts;
use tstar::settings::{KeyRule, Origin, Origins, Settings};
use tstar::source::Decoder;
use tstar::source::file::{FileSource, Options};
use tstar::store::{AnyStore, EpochStore, StoreUrl};

use super::file_records::{Chunk, Lines};
use super::preview::{self, Change};
use super::state::State;
use crate::cli::exit;
use crate::cli::flags::{BrokerFlags, Context, FixFlags, FormFlag, RoomFlags, ServerFlags};
use crate::cli::open;
use crate::cli::print::Printer;
use crate::cli::progress::Progress;
use crate::cli::report;
use crate::cli::stop;
use tstar::ops::device_partition::PartitionFinder;
use tstar::ops::topic_log;

const EXAMPLES: &str = "\
Examples:
  tstar replay files late.ndjson.gz --brokers 127.0.0.1:9092 --store scylla://127.0.0.1:9042/fleet
  tstar replay files late.ndjson.gz --apply --brokers 127.0.0.1:9092
  tstar replay files may.csv --map device_id=vehicle --speed-unit kmh --apply --strict

Without --apply nothing is sent: the store tells what the samples would change if they came now, one
after the other. With it, a line that states its sample in the form in which the log is read goes as
it is, any other one as a record that states the sample so. Records are keyed by the device id and
go where those of the device are; their timestamp is the clock when they are sent. Lines that are no
samples are never sent.
How far it came stands in --state, by the content of the files, cluster, topic, and form: stopped or
killed, and run again, it goes on there, and with what a file has more since. What was sent and not
noted then goes twice, at most a chunk: duplicates, which change nothing. Standard input (-) has no
such place. Exits 65 under --strict where a line is no sample.";

/// Flags of `replay files`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FilesArgs {
    /// NDJSON or CSV, plain, .gz or .zst; - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Send the samples
    #[arg(long)]
    pub apply: bool,
    /// Exit 65 where a line is no sample
    #[arg(long)]
    pub strict: bool,
    /// The file that tells what was sent
    #[arg(long, value_name = "FILE", default_value = "tstar-replay.ndjson")]
    pub state: PathBuf,
    #[command(flatten)]
    pub fix: FixFlags,
    #[command(flatten)]
    pub form: FormFlag,
    #[command(flatten)]
    pub room: RoomFlags,
    #[command(flatten)]
    pub topic: BrokerFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// What was sent, or would be. Others parse it: names and order are fixed.
#[derive(Debug, Default, Serialize)]
struct Summary {
    applied: bool,
    topic: String,
    /// Samples that were sent, or would be.
    samples: u64,
    /// Lines that are no samples, by reason.
    bad: BTreeMap<&'static str, u64>,
    /// Lines that an earlier run has dealt with.
    lines_before: u64,
    /// What `tstar run` would tell of the samples; null where they were sent.
    would: Option<report::Summary>,
    #[serde(flatten)]
    change: Option<Change>,
}

/// Where the samples go.
struct Target {
    brokers: Brokers,
    topics: Arc<Topics>,
    topic: String,
    extents: Vec<OffsetRange>,
    /// How the log is read.
    rules: Rules,
    /// Empty where no store tells.
    epochs: Vec<Epoch>,
}

/// The store that tells of the topic: none where nobody names one and the usual one is not there.
async fn store(
    settings: &Settings,
    origins: &Origins,
    (apply, context): (bool, &Context),
) -> anyhow::Result<Option<AnyStore>> {
    let is_named = origins["store"] != Origin::Default;
    if let Some(path) = StoreUrl::parse(&settings.store)?.path()
        && apply
        && !is_named
        && !path.exists()
    {
        return Ok(None);
    }
    Ok(Some(open::reader(settings, context).await?))
}

impl Target {
    async fn find(
        settings: &Settings,
        origins: &Origins,
        (store, context): (Option<&AnyStore>, &Context),
    ) -> anyhow::Result<Self> {
        let brokers = open::brokers(settings)?;
        let topics = Arc::new(Topics::new(&brokers)?);
        let Some(store) = store else {
            if settings.key != KeyRule::DeviceId {
                let problem = "under --key any a store tells where the records of a device go: \
                     name it with --store";
                return Err(InvalidRequest(problem.into()).into());
            }
            let topic = settings.topic.clone();
            let extents = preflight::inspect(&topics, &topic).await?.extents;
            let (rules, epochs) = (settings.rules(), Vec::new());
            return Ok(Self { brokers, topics, topic, extents, rules, epochs });
        };
        let found = store.epochs().await?;
        let Some(newest) = found.last() else {
            let problem = format!(
                "store `{}` has no epoch: it was built from files, or from nothing yet; `tstar \
                 run` makes one, and `tstar ingest` takes files into a store of files",
                settings.store
            );
            return Err(PreconditionFailed(problem).into());
        };
        let request = open::topic_request(settings, origins, context);
        let (topic, extents, epochs) =
            topic_log::topic_of(store, &topics, newest, &request).await?;
        let rules = newest.rules.clone();
        Ok(Self { brokers, topics, topic, extents, rules, epochs })
    }
}

/// Sends the samples of files, or tells what they would change.
pub async fn run(
    args: &FilesArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let flags = [&args.topic.0[..], &args.room.memory.0, &args.form.0, &args.server.0].concat();
    let (settings, origins) = context.settings(&flags)?;
    let fix = args.fix.read(context)?;
    let reader = store(&settings, &origins, (args.apply, context)).await?;
    let target = Target::find(&settings, &origins, (reader.as_ref(), context)).await?;
    let form = fix.over(&target.rules);
    let options = Options {
        format: settings.input_format,
        decoder: Arc::new(Decoder::new(&form)?),
        log_time_ms: context.now_ms,
        first_offset: 0,
        known: Vec::new(),
    };
    FileSource::check(&args.files, &options)?;
    let homes = reader.as_ref().map(|store| PartitionFinder {
        store,
        topic: target.topic.clone(),
        epochs: target.epochs.clone(),
        is_keyed: target.rules.key == "device_id",
    });
    let job = FileReplayJob { args, settings: &settings, target: &target, homes: homes.as_ref() };
    let done = match (args.apply, &reader) {
        (false, Some(reader)) => job.preview(reader, options).await?,
        (_, _) => job.send(options, form.hash()).await?,
    };
    printer.line(&serde_json::to_string(&done)?)?;
    printer.flush()?;
    let bad: u64 = done.bad.values().sum();
    if args.strict && bad > 0 {
        return Err(BadData(format!("{bad} lines are no samples, under --strict")).into());
    }
    Ok(())
}

struct FileReplayJob<'a> {
    args: &'a FilesArgs,
    settings: &'a Settings,
    target: &'a Target,
    homes: Option<&'a PartitionFinder<'a, AnyStore>>,
}

impl FileReplayJob<'_> {
    fn summary(&self, samples: u64, lines: &Lines<'_, AnyStore>) -> Summary {
        let (applied, topic) = (self.args.apply, self.target.topic.clone());
        Summary { applied, topic, samples, bad: lines.bad.clone(), ..Summary::default() }
    }

    async fn preview(&self, store: &AnyStore, options: Options) -> anyhow::Result<Summary> {
        let source = FileSource::open(&self.args.files, options)?;
        let mut progress = Progress::new(source.total_bytes());
        let mut lines = Lines::new(source, &self.target.rules, self.homes)?;
        let room = Workspace { folder: &self.args.room.work_dir, memory: self.settings.memory };
        let log = (&self.target.epochs[..], &self.target.extents[..]);
        let watch = |batch: &_, counts: &_| progress.show(batch, counts);
        let looked = preview::what_would_change(store, log, &mut lines, room, watch).await;
        progress.finish();
        let (counts, change) = looked?;
        let summary = self.summary(counts.delivered, &lines);
        exit::print_status("nothing was sent: --apply does it");
        let would = Some(report::Summary::new(&counts, None));
        Ok(Summary { would, change: Some(change), ..summary })
    }

    async fn send(&self, mut options: Options, form: String) -> anyhow::Result<Summary> {
        let target = self.target;
        let key = format!("{}/{}/{form}", target.topics.cluster()?, target.topic);
        let mut state = State::open(&self.args.state, key)?;
        options.first_offset = state.lines();
        options.known = state.known();
        let source = FileSource::open(&self.args.files, options)?;
        let mut progress = Progress::new(source.total_bytes());
        let mut lines = Lines::new(source, &target.rules, self.homes)?;
        lines.next = state.lines();
        let producer = Producer::new(&target.brokers, Arc::new(exit::print_status))?;
        let mut stop = stop::on_signals(PartialResult::Sent)?;
        let (mut sent, mut before) = (0, 0);
        loop {
            let chunk = tokio::select! {
                biased;
                () = stop.wait() => break,
                chunk = lines.next_chunk() => chunk?,
            };
            let Some(mut chunk) = chunk else { break };
            before += self.tell_known(&mut chunk);
            tokio::select! {
                biased;
                () = stop.wait() => break,
                placed = self.send_chunk(&producer, &chunk) => placed.map_err(|error| {
                    let (state, some) = (self.args.state.display(), chunk.records.len());
                    exit::broke_off(error, &format!(
                        "{sent} samples were sent, and some of the next {some} may be, too; \
                         `{state}` keeps how far it came, the same command goes on from there"
                    ))
                })?,
            }
            sent += chunk.records.len() as u64;
            if let Some(part) = &chunk.batch.part {
                state.record(part, lines.next)?;
            }
            let delivered = sent;
            progress.show(&chunk.batch, &SampleCounts { delivered, ..SampleCounts::default() });
        }
        progress.finish();
        if let Some(signal) = stop.signal() {
            exit::print_status(&format!("sent {sent} samples; the rest was not"));
            return Err(Stopped { signal, partial: PartialResult::Sent }.into());
        }
        Ok(Summary { lines_before: before, ..self.summary(sent, &lines) })
    }

    async fn send_chunk(&self, producer: &Producer, chunk: &Chunk) -> Result<(), KafkaError> {
        let records = chunk.records.iter().map(|(record, partition)| (record, *partition));
        let records: Vec<_> = records.collect();
        let placed = producer.send_to_partition(&self.target.topic, &records).await;
        placed.map(drop).map_err(producer.failed("sending samples"))
    }

    /// Tells of lines that were dealt with before. Returns how many.
    fn tell_known(&self, chunk: &mut Chunk) -> u64 {
        let known = std::mem::take(&mut chunk.batch.lines_known);
        if known > 0 {
            let (file, state) = (&chunk.batch.origin, self.args.state.display());
            exit::print_status(&format!(
                "{file}: {known} lines were dealt with by an earlier run, as `{state}` tells; \
                 going on behind them"
            ));
        }
        known
    }
}
