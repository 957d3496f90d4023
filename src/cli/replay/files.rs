//! `replay files`: late or historic samples in files into the topic.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tstar::ops::replay::TripChanges;
use tstar::ops::replay::files::{
    FileReplayJob, FileReplayOutcome, FileReplayProgress, FileReplayRequest, TargetLog,
};
use tstar::ops::verify::reference::Workspace;
use tstar::ops::{BadData, PartialResult};
use tstar::settings::{Origin, Origins, Settings};
use tstar::store::{AnyStore, StoreUrl};

use crate::cli::exit;
use crate::cli::flags::{
    BrokerFlags, Context, FixFlags, FormFlag, RoomFlags, ServerFlags, clock_ms,
};
use crate::cli::open;
use crate::cli::print::Printer;
use crate::cli::progress::Progress;
use crate::cli::report;
use crate::cli::stop;

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

/// The outcome as JSON. Others parse it: names and order are fixed.
#[derive(Debug, Serialize)]
struct Summary {
    applied: bool,
    topic: String,
    samples: u64,
    bad: BTreeMap<&'static str, u64>,
    lines_before: u64,
    /// What `tstar run` would print of the samples; null if they were sent.
    expected: Option<report::Summary>,
    #[serde(flatten)]
    changes: Option<TripChanges>,
}

impl Summary {
    fn new(outcome: FileReplayOutcome) -> Self {
        let FileReplayOutcome { topic, samples, bad, lines_before, preview } = outcome;
        let expected = preview.as_ref().map(|it| report::Summary::new(&it.counts, None));
        let changes = preview.as_ref().map(|it| it.changes);
        let applied = preview.is_none();
        Self { applied, topic, samples, bad, lines_before, expected, changes }
    }
}

/// Opens the store of the topic: none if no store is named, the default one does not exist, and
/// the samples are to be sent.
async fn open_store(
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

/// Sends the samples of files, or previews what they would change.
pub async fn run(
    args: &FilesArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let flags = [&args.topic.0[..], &args.room.memory.0, &args.form.0, &args.server.0].concat();
    let (settings, origins) = context.settings(&flags)?;
    let overrides = args.fix.read(context)?;
    let store = open_store(&settings, &origins, (args.apply, context)).await?;
    let rules = settings.rules();
    let log = match &store {
        Some(store) => {
            let request = open::topic_request(&settings, &origins, context);
            TargetLog::Store { store, request }
        }
        None => TargetLog::Topic { topic: &settings.topic, rules: &rules },
    };
    let request = FileReplayRequest {
        files: &args.files,
        format: settings.input_format,
        overrides,
        brokers: open::brokers(&settings)?,
        log,
        now_ms: context.now_ms,
        clock_ms,
        notify: Arc::new(exit::print_status),
    };
    let job = FileReplayJob::open(request).await?;
    let mut progress = None;
    let outcome = if args.apply {
        let sender = job.sender(&args.state)?;
        let mut cancel = stop::on_signals(PartialResult::Sent)?;
        sender.send(&mut cancel, &mut |event| show(&mut progress, event)).await?
    } else {
        let workspace = Workspace { folder: &args.room.work_dir, memory: settings.memory };
        let outcome = job.preview(workspace, &mut |event| show(&mut progress, event)).await?;
        exit::print_status("nothing was sent; pass --apply to send");
        outcome
    };
    let bad_lines = outcome.bad_lines();
    printer.line(&serde_json::to_string(&Summary::new(outcome))?)?;
    printer.flush()?;
    if args.strict && bad_lines > 0 {
        let problem = format!("{bad_lines} lines are not samples, and --strict is set");
        return Err(BadData(problem).into());
    }
    Ok(())
}

/// Draws the progress bar.
fn show(progress: &mut Option<Progress>, event: FileReplayProgress<'_>) {
    match (event, progress) {
        (FileReplayProgress::Started { total_bytes }, progress) => {
            *progress = Some(Progress::new(total_bytes));
        }
        (FileReplayProgress::Read { batch, counts }, Some(progress)) => {
            progress.show(batch, counts);
        }
        (FileReplayProgress::Finished, Some(progress)) => progress.finish(),
        (_, None) => (),
    }
}
