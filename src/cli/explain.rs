//! `explain`: prints the history of a trip.

use std::path::PathBuf;

use clap::Args;

use super::flags::{Context, Format, LogFlags, ValueOutputFlags};
use super::print::Printer;
use super::table;
use super::usage::at_least;
use crate::ops::explain::{ExplainRequest, RecordExplanation, TripExplanation, explain};
use crate::ops::lookup;
use crate::store::Kinds;
use crate::views::LogPosition;

const EXAMPLES: &str = "\
Examples:
  tstar explain truck-17~20261120T213800.123Z
  tstar explain truck-17~20261120T213800.123Z day1.ndjson.gz
  tstar explain truck-17~20261120T213800.123Z --log --brokers 127.0.0.1:9092
  tstar explain truck-17~20261120T213800.123Z day1.ndjson.gz --evidence

From the row alone: which sample minted the trip, and which ids it absorbed, each with its log
position. With --log, or with all the files that were imported, also each record of the trip: how
late it was, and its effect (new, end, beginning, inside, merge, duplicate). `late` is the log
timestamp minus the device time (the log timestamp of files is the time of their import); `behind`
is how far the device time was behind the latest one of the trip so far. --evidence > trip.json
is for tstar verify-trip trip.json, without store or log: at most 1000000 records, else it fails.";

/// Flags of `explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Trip id: text, bytes (base32hex) or UUID
    pub id: String,
    /// All the files that the store was built from
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the topic that the store was built from
    #[arg(long = "log", conflicts_with = "files")]
    pub read_log: bool,
    /// Print what the trip follows from, instead: the rules, and all records within two days of it
    #[arg(long, conflicts_with_all = ["limit", "format", "json"])]
    pub evidence: bool,
    /// Print at most N records
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least(0_usize))]
    pub limit: usize,
    #[command(flatten)]
    pub output: ValueOutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
}

/// Prints the history of a trip.
pub(crate) async fn run(
    args: &ExplainArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.log.0])?;
    let format = printer.format(&args.output);
    let store = settings.reader().await?;
    let found = lookup::by_id(&store, &args.id, Kinds::Trips).await?;
    let request = ExplainRequest {
        settings: &settings,
        row: &found.row,
        requested_id: &args.id,
        t_star_ms: found.t_star_ms,
        limit: args.limit,
        evidence: args.evidence,
    };
    let reads_log = args.read_log || !args.files.is_empty();
    let explanation = explain(request, &store, reads_log.then_some(&args.files)).await?;
    if let Some(evidence) = &explanation.evidence {
        return Ok(printer.write(evidence.to_json().as_bytes())?);
    }
    match format {
        Format::Table => print(&explanation, printer),
        _ => printer.json(&explanation),
    }
}

/// A log position as text.
fn position_text(position: &LogPosition, is_of_files: bool) -> String {
    match (position.epoch, position.partition, position.offset) {
        (_, _, Some(offset)) if is_of_files => format!("record {offset} of the files"),
        (Some(epoch), Some(partition), Some(offset)) => {
            format!("partition {partition}, offset {offset} (epoch {epoch})")
        }
        (Some(epoch), None, Some(offset)) => {
            format!("offset {offset} of another partition (epoch {epoch})")
        }
        _ => format!("version {}, of an epoch unknown to the store", position.version),
    }
}

fn print(explanation: &TripExplanation, printer: &mut Printer) -> anyhow::Result<()> {
    let TripExplanation { row: trip, log, is_of_files, .. } = explanation;
    let at = |position: &LogPosition| position_text(position, *is_of_files);
    let mut pairs = vec![
        ("id", trip.id.clone()),
        ("requested_id", trip.requested_id.clone()),
        ("match", trip.matched.name().to_owned()),
    ];
    if let Some(retired) = &trip.retired {
        pairs.push(("retired", format!("by a merge into the id above, at {}", at(retired))));
    }
    let minted = &trip.minted;
    pairs.extend([
        ("device_id", trip.device_id.clone()),
        ("start_time", trip.start_time.clone()),
        ("end_time", trip.end_time.clone()),
        ("samples", trip.samples.to_string()),
        ("minted", format!("by the sample of {}, at {}", minted.time, at(&minted.log_position))),
    ]);
    for absorbed in &trip.absorbed {
        pairs.push(("absorbed", format!("{} at {}", absorbed.id, at(&absorbed.log_position))));
    }
    pairs.push(("last_change", at(&trip.last_change)));
    printer.line(&table::pairs(&pairs))?;
    let Some(log) = log else { return Ok(()) };
    let rows: Vec<[String; 7]> = log.records.iter().map(cells).collect();
    let columns = ["place", "log_time", "time", "late", "behind", "effect", "trip"];
    printer.line(&table::rows(columns, &[3, 4], &rows))?;
    if log.more > 0 {
        printer.line(&format!("and {} more: --limit shows them", log.more))?;
    }
    Ok(())
}

/// The cells of a record's table row.
fn cells(record: &RecordExplanation) -> [String; 7] {
    let element = record.element.map_or_else(String::new, |nth| format!("[{nth}]"));
    let position = match (record.partition, &record.file, record.line) {
        (Some(partition), ..) => format!("{partition}:{}{element}", record.offset),
        (None, Some(file), Some(line)) => format!("{}, {file}:{line}", record.offset),
        _ => record.offset.to_string(),
    };
    let effect = match &record.retired {
        Some(retired) => format!("merge, retires {retired}"),
        None if record.conflicting => "duplicate, conflicting".to_owned(),
        None => record.effect.to_owned(),
    };
    let (late, behind) = (table::duration(record.late_s), table::duration(record.behind_s));
    let (log_time, time) = (record.log_time.clone(), record.time.clone());
    [position, log_time, time, late, behind, effect, record.trip.clone()]
}
