//! `verify`: compares a store with its log.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::flags::{Context, Format, LogFlags, ValueOutputFlags, WorkspaceFlags};
use super::print::Printer;
use super::progress::{self, FileProgress};
use super::usage::at_least;
use super::{exit, stop};
use crate::identity::DeviceId;
use crate::log::Log;
use crate::log::reference::Workspace;
use crate::ops::verify::{DifferenceKind, VerifyReport, VerifyRequest, open_store, verify};

const EXAMPLES: &str = "\
Examples:
  tstar verify day1.ndjson.gz
  tstar verify --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092
  tstar verify --store sqlite:live.db --brokers 127.0.0.1:9092 --device truck-17 --repair

Rebuilds the trips from the log (the imported files, or the topic) and compares every row, both
ways. Exits 0 if nothing differs, 1 if something does.
Differences: missing, extra, different (with the columns), overlapping, no_version (another program
wrote it), copy (one day's copy of a trip), unlisted (a day missing in a day index).";

/// Default maximum number of differences in a report.
const MAX_SHOWN: usize = 100;

/// Flags of `verify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// All the files that were imported; none for a store of a topic
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Compare this device only
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Repair rows that differ
    #[arg(long)]
    pub repair: bool,
    /// Show at most N differences
    #[arg(long, value_name = "N", default_value_t = MAX_SHOWN, value_parser = at_least(0_usize))]
    pub limit: usize,
    #[command(flatten)]
    pub workspace: WorkspaceFlags,
    #[command(flatten)]
    pub output: ValueOutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
}

/// Compares a store with its log.
pub(crate) async fn run(
    args: &VerifyArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.log.0, &args.workspace.memory.0])?;
    let format = printer.format(&args.output);
    let device = args.device.as_deref().map(DeviceId::new).transpose()?;
    let store = Arc::new(open_store(&settings, args.repair).await?);
    let request = VerifyRequest {
        store: &settings.store,
        device_id: device.as_ref(),
        repair: args.repair,
        limit: args.limit,
        workspace: Workspace { folder: &args.workspace.work_dir, memory: settings.memory },
    };
    let interrupted = |error| exit::interrupted(request.partial_result(), error);
    let log = Log::open(&store, &args.files, &settings).await;
    let log = log.map_err(interrupted)?;
    let progress = &mut FileProgress::default();
    let events = progress::notify_warnings();
    let report = verify((&store, &log), &request, &stop::on_signals, progress, events).await;
    let report = report.map_err(interrupted)?;
    match format {
        Format::Table => printer.line(&table(&report))?,
        _ => printer.json(&report)?,
    }
    report.check(args.repair)?;
    let repaired = report.comparison.count();
    if args.repair && repaired > 0 {
        exit::print_status(&format!("{repaired} differences were repaired"));
    }
    Ok(())
}

fn table(report: &VerifyReport) -> String {
    let comparison = &report.comparison;
    let ahead = match comparison.ahead {
        0 => String::new(),
        ahead => format!(", {ahead} newer than what was read"),
    };
    let mut lines = vec![format!(
        "{} samples read, {} trips rebuilt; {} device days compared, {} rows equal{ahead}",
        report.records, report.trips_rebuilt, comparison.days, comparison.same,
    )];
    for example in &report.examples {
        let note = if example.is_repaired { " (repaired)" } else { "" };
        lines.push(format!("{}{note}", example.difference.line()));
    }
    let more = comparison.count().saturating_sub(report.examples.len() as u64);
    if more > 0 {
        lines.push(format!("and {more} more: --limit shows them"));
    }
    let totals = DifferenceKind::ALL.iter().filter_map(|kind| {
        comparison.differences.get(kind).map(|count| format!("{} {count}", kind.name()))
    });
    let totals: Vec<_> = totals.collect();
    lines.push(match totals.as_slice() {
        [] => "nothing differs".to_owned(),
        totals => format!("differences: {}", totals.join(", ")),
    });
    lines.join("\n")
}
