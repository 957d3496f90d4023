//! `ingest`: builds trips from files.

use std::path::PathBuf;

use clap::Args;

use super::flags::{Context, ImportFlags, RuleFlags};
use super::print::Printer;
use super::progress::FileProgress;
use super::report::{Summary, SummaryFormat};
use super::{exit, stop};
use crate::ops::ingest::{FirstLetter, ImportProblem, IngestOutcome, IngestRequest, ingest};
use crate::settings::Settings;
use crate::source::SourceError;

const EXAMPLES: &str = "\
Examples:
  tstar ingest day1.ndjson.gz
  tstar ingest day1.csv --map device_id=vehicle --speed-unit kmh --store sqlite:fleet.db
  tstar ingest - --json --strict

Field names: device_id (deviceId, device), time (ts, timestamp), lat (latitude), lon (longitude,
lng), speed, heading (bearing, course), altitude, accuracy, driver, ignition.
Samples that cannot be used become dead letters: see `tstar dlq ls`.
Exits 65 if the input is truncated, and under --strict if there is any dead letter.
Rerun a stopped import to continue it: files are recognised by their content.";

/// Flags of `ingest`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IngestArgs {
    /// NDJSON, CSV, GPX or NMEA; plain, .gz or .zst; - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Exit 65 if this run finds any dead letter
    #[arg(long)]
    pub strict: bool,
    /// Output format of the summary [default: table on a terminal, else json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<SummaryFormat>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub import: ImportFlags,
}

/// Builds the trips of the files and prints the summary.
pub(crate) async fn run(
    args: &IngestArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.rules.0, &args.import.0])?;
    let outcome = import(&args.files, &settings).await?;
    let format = if args.json { Some(SummaryFormat::Json) } else { args.format };
    printer.summary(&Summary::of_import(&outcome), format)?;
    print_hints(&outcome, &settings);
    outcome.check(args.strict)
}

/// Reads files into the store of the settings, with a progress bar.
pub(crate) async fn import(
    files: &[PathBuf],
    settings: &Settings,
) -> anyhow::Result<IngestOutcome> {
    let request = IngestRequest { files, rules: &settings.rules_request(), settings };
    ingest(request, &stop::on_signals, &mut FileProgress::default()).await
}

/// Prints the hints that follow from the counts.
fn print_hints(outcome: &IngestOutcome, settings: &Settings) {
    let counts = &outcome.counts;
    if outcome.dead_letters_removed > 0 {
        exit::print_status(&format!(
            "the store had no sample yet: {} dead letters of earlier tries were removed",
            outcome.dead_letters_removed
        ));
    }
    for ImportProblem { reason, count, first } in &outcome.problems {
        let FirstLetter { origin, line, message, preset } = first;
        exit::print_status(&format!(
            "{reason} ({count} samples), first {origin}:{line}: {message}"
        ));
        // With a preset given, it may be a bad record of that one.
        if let (Some(preset), None) = (preset, settings.preset) {
            exit::print_status(&format!("hint: --preset {preset} reads this record"));
        }
    }
    let stopped = outcome.stopped.as_ref().and_then(|error| error.downcast_ref());
    if let Some(SourceError::Header { origin, problem }) = stopped
        && problem.starts_with("read as CSV")
    {
        let line = format!("hint: `tstar inspect {origin}` looks for the fields in its columns");
        exit::print_status(&line);
    }
    if outcome.lacks_fields_of_store() {
        exit::print_status(
            "hint: a store keeps the field map of its first import; import files with other field \
             names into another store, such as --store sqlite:other.db",
        );
    }
    for warning in &outcome.warnings {
        exit::print_status(&format!("warning: {}", warning.message));
    }
    let (seconds, dead) = (counts.looks_like_seconds, counts.dead());
    if seconds > 0 {
        exit::print_status(&format!(
            "hint: {seconds} times before --min-time would be valid in seconds: try --time-unit s"
        ));
    }
    if dead > 0 {
        let store = &settings.store;
        exit::print_status(&format!(
            "{dead} samples became dead letters: see tstar dlq ls --store {store}"
        ));
    }
}
