//! `replay topic`: replays the records of the topic into a store.

use std::sync::Arc;

use crate::identity::DeviceId;
use crate::kafka::topics::StartFrom;
use crate::log::reference::Workspace;
use crate::model::time::parse_time;
use crate::ops::replay::into_store::{ReplayStart, TopicReplayJob};
use crate::ops::{InvalidRequest, PartialResult};
use clap::Args;

use crate::cli::flags::{Context, LogFlags, WorkspaceFlags};
use crate::cli::print::Printer;
use crate::cli::times::check_unit;
use crate::cli::{exit, progress, stop};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tstar replay topic --from earliest --store scylla://127.0.0.1:9042/fleet
  tstar replay topic --from 2026-11-01T00:00:00Z --device truck-17 --apply
  tstar replay topic --from earliest --apply --store sqlite:other.db

Reports which rows of the store are missing or different; --apply writes them. In a complete store
of the same epoch nothing differs; into an empty one (tstar epoch import) it writes every row, byte
for byte. A keyspace may have a `tstar run` at the same time; a file has one writer.";

/// Flags of `replay topic`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopicArgs {
    /// Start: earliest, offset:N (in each partition), or a log timestamp
    #[arg(long, value_name = "WHERE")]
    pub from: String,
    /// Replay this device only
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Write the rows; unset: only report what would change
    #[arg(long)]
    pub apply: bool,
    /// Send the changes to the change feed again
    #[arg(long, requires = "apply")]
    pub announce: bool,
    #[command(flatten)]
    pub workspace: WorkspaceFlags,
    #[command(flatten)]
    pub log: LogFlags,
}

/// Parses the value of `--from`.
fn parse_start(text: &str) -> Result<ReplayStart, InvalidRequest> {
    let invalid = |problem: &str| {
        InvalidRequest(format!("--from {text} is not earliest, offset:N or a time: {problem}"))
    };
    if text == "earliest" {
        return Ok(ReplayStart::Log(StartFrom::Earliest));
    }
    if let Some(offset) = text.strip_prefix("offset:") {
        let offset = offset.parse().ok().filter(|offset| *offset >= 0);
        return offset.map(ReplayStart::Offset).ok_or_else(|| invalid("N is not a valid offset"));
    }
    let time_ms = parse_time(text).map_err(|error| invalid(&error.to_string()))?;
    check_unit("--from", text)?;
    Ok(ReplayStart::Log(StartFrom::Time(time_ms)))
}

/// Replays the topic.
pub(crate) async fn run(
    args: &TopicArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.log.0, &args.workspace.memory.0])?;
    let from = parse_start(&args.from)?;
    let device = args.device.as_deref().map(DeviceId::new).transpose()?;
    let store = Arc::new(settings.reader().await?);
    let job = TopicReplayJob::open(&store, &settings, (from, device)).await?;
    let partial = if args.apply { PartialResult::Read } else { PartialResult::Nothing };
    let mut cancel = stop::on_signals(partial)?;
    let replayed = if args.apply {
        // A file has one writer: close it before the target opens it.
        drop(store);
        let target = (&settings, args.announce);
        job.apply(target, progress::notify_warnings(), &cancel).await
    } else {
        let workspace = Workspace { folder: &args.workspace.work_dir, memory: settings.memory };
        job.preview(&store, workspace, progress::notify_warnings(), &mut cancel).await
    };
    let outcome = replayed.map_err(|error| exit::interrupted(partial, error))?;
    printer.json(&outcome)?;
    exit::print_status(&match (args.apply, outcome.rows_that_differ) {
        (_, 0) => "0 rows differ: the store has it all".to_owned(),
        (true, count) => format!("{count} missing or different rows were written"),
        (false, count) => format!(
            "{count} missing or different rows would be written; pass --apply to write them"
        ),
    });
    Ok(())
}
