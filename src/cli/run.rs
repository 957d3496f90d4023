//! `run`: the daemon, a topic to a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use tokio::task::JoinSet;

use super::flags::{Context, EntryFlags, HttpFlags, RuleFlags, ServerFlags, TopicFlags};
use super::print::Printer;
use super::progress::{is_shown, notify};
use super::report::RunSummary;
use super::run_progress::RunProgress;
use super::serve::Reading;
use super::times::check_unit;
use super::{exit, serve, stop};
use crate::kafka::consumer::DrainResult;
use crate::kafka::topics::StartFrom;
use crate::model::time::parse_time;
use crate::ops::readiness::Readiness;
use crate::ops::run::{self, RunRequest};
use crate::ops::{InvalidRequest, Notify, PartialResult, Stopped};
use crate::pipeline::daemon::{OnEvent, Owners};
use crate::settings::Settings;
use crate::telemetry::{self, counts::SampleCounts};

const EXAMPLES: &str = "\
Examples:
  tstar run --brokers 127.0.0.1:9092 --topic samples --from earliest
  tstar run --store scylla://127.0.0.1:9042/fleet --create-topics --create-schema
  tstar run --store sqlite:trips.db --topic samples --from 2026-11-20T00:00:00Z

Reads records keyed by device id: a sample as a JSON object, or an array of samples.
SIGTERM stores what was read, commits and exits with 0; a second signal exits at once.";

/// Flags of `run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// Start on the first run: earliest, latest or a time
    #[arg(long, value_name = "WHERE")]
    pub from: Option<String>,
    /// Continue as another consumer group than the one that read the topic into the store
    #[arg(long)]
    pub group_change: bool,
    /// Create the topics of the change feed and the dead letters if they do not exist
    #[arg(long)]
    pub create_topics: bool,
    /// Create the tables if they do not exist
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

/// Parses `--from`: where reading starts on the first run.
pub(crate) fn parse_from(text: &str) -> Result<StartFrom, InvalidRequest> {
    match text {
        "earliest" => Ok(StartFrom::Earliest),
        "latest" => Ok(StartFrom::Latest),
        time => {
            let time_ms = parse_time(time).map_err(|error| {
                InvalidRequest(format!(
                    "--from {time}: neither `earliest`, nor `latest`, nor a time: {error}"
                ))
            })?;
            check_unit("--from", time)?;
            Ok(StartFrom::Time(time_ms))
        }
    }
}

/// Builds trips from the topic until a signal comes.
pub(crate) async fn run(
    args: &RunArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let (topic, server, http) = (&args.topic.0, &args.server.0, &args.http.0);
    let flags = [&args.rules.0, topic, server, &args.entries.0, http];
    let settings = context.start_daemon(&flags)?;
    let from = args.from.as_deref().map(parse_from).transpose()?;
    let mut options = settings.kafka.clone();
    let owners = owners(&settings, &mut options)?;
    let brokers = settings.daemon_brokers(options)?;
    let mut cancel = stop::on_signals(PartialResult::Read)?;
    let readiness = Readiness::not_yet("the topic is not read yet");
    let live = Arc::default();
    let reading =
        Reading { log: readiness.clone(), live: Arc::clone(&live), owners: owners.clone() };
    let server = serve::serve_alongside(&settings, reading, &cancel).await?;
    let request = RunRequest {
        settings: &settings,
        brokers,
        group_change: args.group_change,
        from,
        create_topics: args.create_topics,
        create_schema: args.create_schema,
        live,
        owners,
    };
    let print_note: Notify = Arc::new(exit::print_status);
    let progress = is_shown().then(|| Arc::new(RunProgress::start()));
    let showing = show(progress.clone());
    let on_event = on_event(readiness, progress);
    let report = run::run(&request, on_event, &print_note, &mut cancel).await?;
    drop(showing);
    if let Some(server) = server {
        server.ended().await;
    }
    let nothing = SampleCounts::default();
    let counts = report.as_ref().map_or(&nothing, |report| &report.counts);
    let summary = RunSummary::new(counts);
    printer.summary(&summary, None)?;
    for warning in summary.warnings() {
        exit::print_status(&format!("warning: {}", warning.message));
    }
    match (report.map(|report| report.drained), cancel.signal()) {
        (Some(result @ (DrainResult::NotInTime | DrainResult::Interrupted)), Some(signal)) => {
            let seconds = settings.member.drain_timeout.as_secs();
            let why = match result {
                DrainResult::NotInTime => format!("within --drain-timeout, {seconds} s"),
                _ => "before partitions stopped, or other instances took them over".into(),
            };
            exit::print_status(&format!(
                "not all that was read could be stored {why}; the next start reads it again"
            ));
            Err(Stopped { signal, partial: PartialResult::Part }.into())
        }
        _ => Ok(()),
    }
}

/// The other instances, if this one shares a keyspace with them, answers requests, and has a name:
/// its client id, which is that of the group unless the options set one.
fn owners(
    settings: &Settings,
    options: &mut BTreeMap<String, String>,
) -> anyhow::Result<Option<Arc<Owners>>> {
    if let Some(id) = &settings.member.instance_id {
        options.entry("client.id".into()).or_insert_with(|| id.clone());
    }
    let is_file = settings.url()?.path().is_some();
    let name = options.get("client.id").filter(|_| !is_file && settings.http.listen.is_some());
    Ok(name.map(|name| Arc::new(Owners::new(name.clone()))))
}

/// Logs events, and updates readiness and progress by them.
fn on_event(readiness: Readiness, progress: Option<Arc<RunProgress>>) -> OnEvent {
    let print = notify();
    Arc::new(move |event| {
        readiness.hear(&event);
        if let Some(progress) = &progress {
            progress.hear(&event);
        }
        print(event);
    })
}

/// Shows progress until the returned set is dropped, in a task of its own: the start may block.
fn show(progress: Option<Arc<RunProgress>>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if let Some((progress, metrics)) = progress.zip(telemetry::handle()) {
        let show = async move { progress.show(|| metrics.log_status(), exit::print_status).await };
        tasks.spawn(show);
    }
    tasks
}
