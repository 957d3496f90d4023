//! `run`: the daemon, a topic to a store.

use std::sync::Arc;
use std::time::Duration;
use tstar::ops::{Cancel, InvalidRequest, PartialResult, Stopped};

use anyhow::Context as _;
use clap::Args;
use tstar::http::Readiness;
use tstar::kafka::KafkaError;
use tstar::kafka::client::Brokers;
use tstar::kafka::consumer::{Assignment, ConsumerConfig, DrainResult};
use tstar::kafka::journal::OutputTopics;
use tstar::kafka::topic::{StartFrom, Topics};
use tstar::model::control::ControlKeys;
use tstar::model::epoch::Epoch;
use tstar::model::time::parse_time;
use tstar::pipeline::daemon::{
    self, DaemonError, DaemonEvent, OnEvent, Options, PartitionStores, ScyllaStores, SqliteStores,
    preflight, topic_replay,
};
use tstar::settings::{Origin, Settings};
use tstar::store::{Access, AnyStore, AskKeys, EpochStore, KeyStore, StoreUrl, ask_keys};
use tstar::telemetry;

use super::exit;
use super::flags::{Context, EntryFlags, HttpFlags, RuleFlags, ServerFlags, TopicFlags};
use super::print::Printer;
use super::progress::notify;
use super::report::RunSummary;
use super::stop;
use super::{keys, logging, open, serve};

const EXAMPLES: &str = "\
Examples:
  tstar run --brokers 127.0.0.1:9092 --topic samples --from earliest
  tstar run --store scylla://127.0.0.1:9042/fleet --create-topics --create-schema
  tstar run --store sqlite:trips.db --topic samples --from 2026-11-20T00:00:00Z

Reads records keyed by device id: a sample as a JSON object, or an array of samples.
SIGTERM stores what was read, commits, and ends with 0; a second signal ends at once.";

/// Flags of `run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Where to begin where nothing was read before: earliest, latest, or a time
    #[arg(long, value_name = "WHERE")]
    pub from: Option<String>,
    /// Make the topics of changes and dead letters where they are not there
    #[arg(long)]
    pub create_topics: bool,
    /// Make the tables where they are not there
    #[arg(long)]
    pub create_schema: bool,
    #[command(flatten)]
    pub topic: TopicFlags,
    #[command(flatten)]
    pub server: ServerFlags,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub entries: EntryFlags,
    #[command(flatten)]
    pub http: HttpFlags,
}

/// How long between two questions to brokers that do not answer.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Where a first start begins.
pub fn parse_from(text: &str) -> Result<StartFrom, InvalidRequest> {
    match text {
        "earliest" => Ok(StartFrom::Earliest),
        "latest" => Ok(StartFrom::Latest),
        time => parse_time(time).map(StartFrom::Time).map_err(|error| {
            InvalidRequest(format!(
                "--from {time}: neither `earliest`, nor `latest`, nor a time: {error}"
            ))
        }),
    }
}

/// Builds trips from the topic until a signal comes.
pub async fn run(
    args: &RunArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let (topic, server, http) = (&args.topic.0, &args.server.0, &args.http.0);
    let flags = [&args.rules.0[..], topic, server, &args.entries.0, http].concat();
    let settings = context.settings(&flags);
    logging::init_logging(settings.as_ref().map_or_else(|_| <_>::default(), |it| it.0.log_format));
    context.warn();
    let (settings, origins) = settings?;
    telemetry::install().context("metrics cannot be recorded")?;
    let from = args.from.as_deref().map(parse_from).transpose()?;
    let brokers = Brokers::new(&settings.brokers, settings.kafka.clone())?;
    let mut stop = stop::on_signals(PartialResult::Read)?;
    let readiness = Readiness::default();
    readiness.set_unmet("the topic is not read yet");
    let is_asked = origins.get("listen").is_some_and(|origin| *origin != Origin::Default);
    let surface = serve::serve_alongside(&settings, context, is_asked, &readiness, &stop).await?;
    let keys = keys::read(&settings)?;
    let job = RunJob { args, settings: &settings, context, brokers, from, keys, readiness };
    let ended = match StoreUrl::parse(&settings.store)? {
        url if url.path().is_some() => job.to_file(&url, &mut stop).await,
        url => job.to_keyspace(&url, &mut stop).await,
    };
    let ended = ended?;
    if let Some(surface) = surface {
        surface.ended().await;
    }
    let Some(report) = ended else { return Ok(()) };
    printer.line(&serde_json::to_string(&RunSummary::new(&report.counts))?)?;
    printer.flush()?;
    match (report.drained, stop.signal()) {
        (DrainResult::NotInTime, Some(signal)) => {
            let limit = Duration::from_millis(settings.drain_timeout_ms.unsigned_abs());
            exit::print_status(&format!(
                "not all that was read could be stored within --drain-timeout, {} s; the next \
                 start reads it again",
                limit.as_secs()
            ));
            Err(Stopped { signal, partial: PartialResult::Part }.into())
        }
        _ => Ok(()),
    }
}

/// What a run is to do.
struct RunJob<'a> {
    args: &'a RunArgs,
    settings: &'a Settings,
    context: &'a Context,
    brokers: Brokers,
    from: Option<StartFrom>,
    keys: ControlKeys,
    readiness: Readiness,
}

impl RunJob<'_> {
    /// Says what happens, and keeps readiness by it.
    fn notify(&self) -> OnEvent {
        let (say, readiness) = (notify(), self.readiness.clone());
        Arc::new(move |notice| {
            readiness.hear(&notice);
            say(notice);
        })
    }

    /// One instance that reads every partition; positions are kept in the file.
    async fn to_file(
        &self,
        url: &StoreUrl,
        stop: &mut Cancel,
    ) -> anyhow::Result<Option<daemon::Report>> {
        let options = open::options(self.settings, self.context)?;
        let access = Access::WriteTopic(&self.settings.rules());
        let store = AnyStore::open(url, access, options).await?;
        let store = Arc::clone(store.embedded().expect("the store is a file"));
        let started = tokio::select! {
            () = stop.wait() => return Ok(None),
            started = self.start(&*store, &[]) => started?,
        };
        let newest = started.epochs.last().expect("one was made");
        let kept = |partition| store.position_of(partition);
        let (topics, fit, notify) = (&started.topics, &started.fit, self.notify());
        let positions = preflight::positions(topics, fit, newest, self.from, kept, &notify).await?;
        for (&position, partition) in positions.iter().zip(0..) {
            store.set_position(partition, position)?;
        }
        let owners = SqliteStores(Arc::clone(&store));
        let how = (Assignment::All(positions), ask_keys(store));
        self.work(owners, started, how, stop).await.map(Some)
    }

    /// One of any number of instances that share the partitions; positions are the group's.
    async fn to_keyspace(
        &self,
        url: &StoreUrl,
        stop: &mut Cancel,
    ) -> anyhow::Result<Option<daemon::Report>> {
        let prepared = tokio::select! {
            () = stop.wait() => return Ok(None),
            prepared = self.prepare(url) => prepared?,
        };
        let (store, outputs, started) = prepared;
        let ask_keys = ask_keys(Arc::new(store.for_worker()));
        let owner = move || store.for_worker();
        let owners = ScyllaStores { owner, outputs: Arc::new(outputs) };
        let assignment = Assignment::Group { from: self.from };
        self.work(owners, started, (assignment, ask_keys), stop).await.map(Some)
    }

    async fn prepare(&self, url: &StoreUrl) -> anyhow::Result<(AnyStore, OutputTopics, Started)> {
        let settings = self.settings;
        let waiting =
            |notify: OnEvent| move |what: &str| notify(DaemonEvent::Waiting(what.to_owned()));
        let mut options = open::options(settings, self.context)?;
        options.server.patience = None;
        options.server.on_waiting = Arc::new(waiting(self.notify()));
        if self.args.create_schema {
            let notes = AnyStore::create_schema(url, options.server.clone(), None).await?;
            for note in notes.unwrap_or_default() {
                exit::print_status(&format!("note: {note}"));
            }
        }
        let store = AnyStore::open(url, Access::WriteTopic(&settings.rules()), options).await?;
        let feed = (!settings.no_feed).then(|| format!("{}.trips", settings.topic));
        let letters = format!("{}.dlq", settings.topic);
        let names: Vec<_> = feed.iter().chain([&letters]).cloned().collect();
        let started = self.start(&store, &names).await?;
        let on_waiting = Arc::new(waiting(self.notify()));
        let topics = (feed, Some(letters));
        let input = settings.topic.clone();
        let outputs =
            OutputTopics::new(&self.brokers, on_waiting, &started.topics, input, topics).await?;
        Ok((store, outputs, started))
    }

    /// What has to be so before anything is read; `outputs` are the topics that are written to.
    /// Waits for brokers.
    async fn start(
        &self,
        store: &(impl EpochStore + KeyStore),
        outputs: &[String],
    ) -> anyhow::Result<Started> {
        let notify = self.notify();
        loop {
            match self.try_start(store, outputs).await {
                Err(DaemonError::Kafka(error @ KafkaError::Unreachable { .. })) => {
                    notify(DaemonEvent::Waiting(error.to_string()));
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                started => return Ok(started?),
            }
        }
    }

    async fn try_start(
        &self,
        store: &(impl EpochStore + KeyStore),
        outputs: &[String],
    ) -> Result<Started, DaemonError> {
        let topics = Arc::new(Topics::new(&self.brokers)?);
        let fit = preflight::inspect(&topics, &self.settings.topic).await?;
        preflight::outputs(&topics, outputs, fit.partitions, self.args.create_topics).await?;
        let rules = self.settings.rules();
        let asked = preflight::EpochRequest {
            place: &self.settings.store,
            topic: &self.settings.topic,
            rules: &rules,
            partitioner: self.settings.partitioner,
            from: self.from,
            now_us: self.context.now_ms.saturating_mul(1000),
        };
        let epochs = preflight::epochs(store, &topics, &fit, &asked).await?;
        preflight::control_keys(store, &self.keys, &self.settings.store).await?;
        Ok(Started { topics, fit, epochs })
    }

    async fn work(
        &self,
        owners: impl PartitionStores,
        started: Started,
        (assignment, ask_keys): (Assignment, AskKeys),
        stop: &mut Cancel,
    ) -> anyhow::Result<daemon::Report> {
        let settings = self.settings;
        let duration = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        let memory = usize::try_from(settings.memory).unwrap_or(usize::MAX);
        let plan = ConsumerConfig {
            brokers: self.brokers.clone(),
            topic: settings.topic.clone(),
            group: settings.group.clone(),
            instance_id: settings.instance_id.clone(),
            assignment,
            epoch: started.epochs.last().expect("one was made").clone(),
            revoke_timeout: duration(settings.revoke_timeout_ms),
            drain_timeout: duration(settings.drain_timeout_ms),
            // The rest is for trips, and what the client holds.
            memory: memory / 8,
        };
        let pace = open::processor_config(settings);
        let reader = topic_replay::reader(&plan.epoch, &self.keys)?;
        let (notify, ask_keys) = (self.notify(), Some(ask_keys));
        let options = Options { plan, epochs: started.epochs, pace, notify, ask_keys };
        Ok(daemon::run(owners, options, reader, stop.wait()).await?)
    }
}

/// A log that can be read.
struct Started {
    topics: Arc<Topics>,
    fit: preflight::TopicLayout,
    epochs: Vec<Epoch>,
}
