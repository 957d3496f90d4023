//! `replay files`: sends late or historic samples in files to the topic.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::flags::{
    BrokerFlags, Context, InputFormatFlag, OverrideFlags, ServerFlags, WorkspaceFlags,
};
use crate::cli::print::Printer;
use crate::cli::progress::FileProgress;
use crate::cli::{exit, report, stop};
use crate::log::reference::Workspace;
use crate::log::target::TargetTopic;
use crate::ops::BadData;
use crate::ops::replay::TripChanges;
use crate::ops::replay::files::{FileReplayJob, FileReplayOutcome, FileReplayRequest, LeftOut};

const EXAMPLES: &str = "\
Examples:
  tstar replay files late.ndjson.gz --brokers 127.0.0.1:9092 --store scylla://127.0.0.1:9042/fleet
  tstar replay files late.ndjson.gz --apply --brokers 127.0.0.1:9092
  tstar replay files may.csv --map device_id=vehicle --speed-unit kmh --apply --strict

Without --apply nothing is sent: the report says what the samples would change in the store if they
arrived now, in this order. With --apply, a line that the rules of the log decode to the same sample
is sent as it is; any other sample is re-encoded. Records are keyed by device id and go to the
device's partition; their log timestamp is the time of sending. Malformed lines are never sent.
--state records the progress by file content, cluster, topic and decoding rules. Rerun a stopped or
killed replay to continue it; lines appended to a file since are sent, too. Samples that were sent
but not recorded (at most one chunk) are sent again, as duplicates, which change nothing. Progress
on standard input (-) is not recorded. Exits 65 under --strict if a line is malformed.";

/// Flags of `replay files`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FilesArgs {
    /// NDJSON or CSV, plain, .gz or .zst; - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Send the samples
    #[arg(long)]
    pub apply: bool,
    /// Exit 65 if a line is malformed
    #[arg(long)]
    pub strict: bool,
    /// File that records what was sent
    #[arg(long, value_name = "FILE", default_value = "tstar-replay.ndjson")]
    pub state: PathBuf,
    #[command(flatten)]
    pub overrides: OverrideFlags,
    #[command(flatten)]
    pub input: InputFormatFlag,
    #[command(flatten)]
    pub workspace: WorkspaceFlags,
    #[command(flatten)]
    pub topic: BrokerFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// The outcome as JSON. Clients parse it: names and order are fixed.
#[derive(Debug, Serialize)]
struct Summary {
    applied: bool,
    topic: String,
    samples: u64,
    #[serde(flatten)]
    left_out: LeftOut,
    lines_before: u64,
    /// The summary that `tstar run` would print of the samples; null if they were sent.
    expected: Option<report::Summary>,
    #[serde(flatten)]
    changes: Option<TripChanges>,
}

impl Summary {
    fn new(outcome: FileReplayOutcome) -> Self {
        let FileReplayOutcome { topic, samples, left_out, lines_before, preview } = outcome;
        let expected = preview.as_ref().map(|(counts, _)| report::Summary::new(counts, None));
        let changes = preview.as_ref().map(|(_, changes)| *changes);
        let applied = preview.is_none();
        Self { applied, topic, samples, left_out, lines_before, expected, changes }
    }
}

/// Sends the samples of files, or previews what they would change.
pub(crate) async fn run(
    args: &FilesArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let flags = [&args.topic.0, &args.workspace.memory.0, &args.input.0, &args.server.0];
    let settings = context.settings(&flags)?;
    let overrides = args.overrides.read(context)?;
    // Sending needs a store only if one is named or the default one exists.
    let is_optional = args.apply && !settings.is_given("store");
    let store = match settings.url()?.path() {
        Some(path) if is_optional && !path.exists() => None,
        _ => Some(settings.reader().await?),
    };
    let target = match &store {
        Some(store) => TargetTopic::of_store(store, &settings).await?,
        None => TargetTopic::without_store(&settings).await?,
    };
    let request = FileReplayRequest { files: &args.files, settings: &settings, overrides, target };
    let job = FileReplayJob::open(request)?;
    let progress = &mut FileProgress::default();
    let outcome = if args.apply {
        job.send(&args.state, &stop::on_signals, progress).await?
    } else {
        let workspace = Workspace { folder: &args.workspace.work_dir, memory: settings.memory };
        let outcome = job.preview(workspace, progress).await?;
        exit::print_status("nothing was sent; pass --apply to send");
        outcome
    };
    let bad_lines = outcome.left_out.bad_lines();
    printer.json(&Summary::new(outcome))?;
    printer.flush()?;
    if args.strict && bad_lines > 0 {
        let problem = format!("{bad_lines} lines are malformed, and --strict is set");
        return Err(BadData(problem).into());
    }
    Ok(())
}
