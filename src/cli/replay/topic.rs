//! `replay topic`: the records of the topic into a store again.

use std::sync::Arc;

use clap::Args;
use tstar::kafka::topic::StartFrom;
use tstar::model::time::parse_time;
use tstar::ops::replay::topic::{ReplayStart, ReplayTarget, TopicReplayJob, TopicReplayRequest};
use tstar::ops::verify::reference::Workspace;
use tstar::ops::{InvalidRequest, PartialResult};
use tstar::store::StoreUrl;

use crate::cli::exit;
use crate::cli::flags::{Context, LogFlags, RoomFlags, ServerFlags};
use crate::cli::open;
use crate::cli::print::Printer;
use crate::cli::progress;
use crate::cli::stop;

pub const EXAMPLES: &str = "\
Examples:
  tstar replay topic --from earliest --store scylla://127.0.0.1:9042/fleet
  tstar replay topic --from 2026-11-01T00:00:00Z --device truck-17 --apply
  tstar replay topic --from earliest --apply --store sqlite:other.db

Says which rows it would write that differ from those that are there; --apply writes them. Into a
store of the same epoch that has it all nothing differs; into an empty one (tstar epoch import) it
writes all, byte for byte. May run beside `tstar run` on a keyspace; a file has one writer.";

/// Flags of `replay topic`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopicArgs {
    /// Where to begin: earliest, offset:N (in each partition), or a time of the log
    #[arg(long, value_name = "WHERE")]
    pub from: String,
    /// One device alone
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Write; else it is only told what would change
    #[arg(long)]
    pub apply: bool,
    /// Send the changes to the feed once more
    #[arg(long, requires = "apply")]
    pub announce: bool,
    #[command(flatten)]
    pub room: RoomFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Parses the value of `--from`.
fn parse_start(text: &str) -> Result<ReplayStart, InvalidRequest> {
    let invalid = |problem: &str| {
        InvalidRequest(format!(
            "--from {text}: neither `earliest`, nor offset:N, nor a time: {problem}"
        ))
    };
    if text == "earliest" {
        return Ok(ReplayStart::Log(StartFrom::Earliest));
    }
    if let Some(offset) = text.strip_prefix("offset:") {
        let offset = offset.parse().ok().filter(|offset| *offset >= 0);
        return offset.map(ReplayStart::Offset).ok_or_else(|| invalid("N is not a valid offset"));
    }
    parse_time(text)
        .map(|ms| ReplayStart::Log(StartFrom::Time(ms)))
        .map_err(|error| invalid(&error.to_string()))
}

/// Replays the topic.
pub async fn run(
    args: &TopicArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let flags = [&args.log.0[..], &args.server.0, &args.room.memory.0].concat();
    let settings = context.settings(&flags)?.0;
    let (from, device) = (parse_start(&args.from)?, args.device.clone());
    let store = Arc::new(open::reader(&settings, context).await?);
    let access = open::log_access(&settings)?;
    let request = TopicReplayRequest { from, device };
    let job = TopicReplayJob::open(&store, &access, request).await?;
    let partial = if args.apply { PartialResult::Read } else { PartialResult::Nothing };
    let mut cancel = stop::on_signals(partial)?;
    let replayed = if args.apply {
        // A file has one writer.
        drop(store);
        let target = ReplayTarget {
            url: StoreUrl::parse(&settings.store)?,
            options: open::options(&settings, context)?,
            config: open::processor_config(&settings),
            announce: args.announce,
        };
        job.apply(target, progress::trouble(), &mut cancel).await
    } else {
        let workspace = Workspace { folder: &args.room.work_dir, memory: settings.memory };
        job.preview(&store, workspace, progress::trouble(), &mut cancel).await
    };
    let outcome = replayed.map_err(|error| exit::interrupted(partial, error))?;
    printer.line(&serde_json::to_string(&outcome)?)?;
    exit::print_status(&match (args.apply, outcome.rows_that_differ) {
        (_, 0) => "0 rows differ: the store has it all".to_owned(),
        (true, count) => format!("{count} missing or different rows were written"),
        (false, count) => format!(
            "{count} missing or different rows would be written; pass --apply to write them"
        ),
    });
    Ok(())
}
