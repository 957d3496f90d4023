//! `explain`: how a trip came to be.

use std::path::PathBuf;
use tstar::ops::{InvalidRequest, PartialResult, PreconditionFailed};

use clap::Args;
use serde::Serialize;
use tstar::identity::TripId;
use tstar::model::epoch::{Epoch, Versions};
use tstar::model::time::format_time;
use tstar::ops::explain::{Effect, HistoryEntry, TripHistory};
use tstar::settings::Settings;
use tstar::store::{AnyStore, EpochStore, TripRow};
use tstar::views::{Explanation, LogPosition};

use super::exit;
use super::flags::{Context, Format, LogFlags, OutputFlags, ServerFlags};
use super::lookup;
use super::open;
use super::print::Printer;
use super::table;
use tstar::ops::topic_log::{self, TopicLog};

const EXAMPLES: &str = "\
Examples:
  tstar explain truck-17~20261120T213800.123Z
  tstar explain truck-17~20261120T213800.123Z day1.ndjson.gz
  tstar explain truck-17~20261120T213800.123Z --log --brokers 127.0.0.1:9092

From the row alone: which sample minted the trip, and which ids it absorbed, each with its place in
the log. With the log at hand, by --log or by all the files that were imported, also each record of
it: how late it was, and what it did (new, end, beginning, inside, merge, duplicate). `late` is the
log's timestamp less the device time (of files the clock of their import stands in for it), `behind`
how far the sample lay behind the latest device time that had come of the trip until then.";

/// Flags of `explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Trip id: text, bytes (base32hex) or UUID
    pub id: String,
    /// The files that the store was built from, all of them
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the topic that the store was built from
    #[arg(long = "log", conflicts_with = "files")]
    pub read_log: bool,
    /// Tell of so many records at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

#[derive(Debug, Serialize)]
struct RecordJson {
    partition: Option<i32>,
    offset: i64,
    element: Option<u32>,
    file: Option<String>,
    line: Option<u64>,
    log_time: String,
    time: String,
    late_s: f64,
    behind_s: f64,
    did: &'static str,
    /// Of a duplicate: whether it differs from the kept one.
    conflicting: bool,
    /// The trip that it is in, as that was then.
    trip: String,
    /// The id that it retired.
    retired: Option<String>,
}

/// What the log tells.
#[derive(Debug, Serialize)]
struct LogJson {
    records: Vec<RecordJson>,
    more: u64,
}

/// How a trip came to be, by its row and by the log. Others parse it: names and order are fixed.
#[derive(Debug, Serialize)]
struct ExplainJson {
    #[serde(flatten)]
    row: Explanation,
    log: Option<LogJson>,
}

/// Prints how a trip came to be.
pub async fn run(
    args: &ExplainArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.log.0[..], &args.server.0].concat())?.0;
    let format = printer.format(&args.output);
    if !matches!(format, Format::Table | Format::Json | Format::Ndjson) {
        return Err(InvalidRequest("an explanation comes as table, ndjson or json".into()).into());
    }
    let reader = open::reader(&settings, context).await?;
    let found = lookup::find(&reader, &args.id).await?;
    let epochs = reader.epochs().await?;
    let row = Explanation::from_row(&found.row, &args.id, found.t_star_ms, &epochs)?;
    let mut explained = ExplainJson { row, log: None };
    let mut story = TripHistory::new(&found.row, args.limit);
    if read(args, &settings, &reader, (&found.row, &epochs), &mut story).await? {
        let of_files = epochs.is_empty();
        let (notes, all) = story.notes();
        let told = notes.iter().map(|note| record(&found.row.device_id, note, of_files));
        let records = told.collect::<anyhow::Result<Vec<_>>>()?;
        let more = all - notes.len() as u64;
        explained.log = Some(LogJson { records, more });
    }
    if format != Format::Table {
        return Ok(printer.line(&serde_json::to_string(&explained)?)?);
    }
    print(&explained, epochs.is_empty(), printer)
}

/// Reads the log where it was asked for; tells whether it was.
async fn read(
    args: &ExplainArgs,
    settings: &Settings,
    reader: &AnyStore,
    (row, epochs): (&TripRow, &[Epoch]),
    story: &mut TripHistory<'_>,
) -> anyhow::Result<bool> {
    let store = &settings.store;
    match (reader.embedded(), args.files.is_empty()) {
        (_, true) if !args.read_log => return Ok(false),
        (_, true) if epochs.is_empty() => return Err(topic_log::no_files(reader, &settings.store)),
        (_, true) => {
            let read = read_topic(settings, reader, row, story).await;
            read.map_err(|error| exit::interrupted(PartialResult::Nothing, error))?;
        }
        (Some(kept), false) if epochs.is_empty() => {
            story.read_files(kept, &args.files).await?;
        }
        (_, false) => {
            let problem = format!("store `{store}` was built from a topic: --log reads it again");
            return Err(InvalidRequest(problem).into());
        }
    }
    if story.is_whole() {
        return Ok(true);
    }
    Err(PreconditionFailed(format!(
        "the log of store `{store}`, as it is now, does not give this trip: records of it are gone \
         (retention, or a topic that was made anew), or the store is not what its log says (tstar \
         verify tells); without the log, the row alone explains it"
    ))
    .into())
}

async fn read_topic(
    settings: &Settings,
    reader: &AnyStore,
    row: &TripRow,
    story: &mut TripHistory<'_>,
) -> anyhow::Result<()> {
    let log = TopicLog::open(reader, &open::log_access(settings)?).await?;
    let log = log.ok_or_else(|| topic_log::no_epoch(&settings.store))?;
    let newest = log.epochs.last().expect("there is an epoch");
    let stays = log.epochs.iter().all(|epoch| epoch.partitions == newest.partitions);
    let last = Versions::of_partition(&log.epochs, row.partition).offset_of(row.version);
    let mut spans = log.all_stored();
    for ((partition, span), extent) in (0..).zip(&mut spans).zip(&log.extents) {
        // A row may be ahead of what the store is sure to have.
        if partition == row.partition && row.version >= newest.base {
            span.end = span.end.max(last + 1).min(extent.next);
        }
        // What expired need not have been of this trip: that shows when all is read.
        span.start = span.start.max(extent.first);
        // While there are as many partitions, a device stays in its own.
        if (stays && partition != row.partition) || span.end < span.start {
            span.end = span.start;
        }
    }
    let reread = log.reread(spans, Some(row.device_id.clone()))?;
    Ok(story.read_topic(&reread)?)
}

#[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

fn record(device_id: &str, note: &HistoryEntry, of_files: bool) -> anyhow::Result<RecordJson> {
    let id = |t_star_ms| TripId::new(device_id, t_star_ms)?.text();
    Ok(RecordJson {
        partition: (!of_files).then_some(note.partition),
        offset: note.offset,
        element: note.element,
        file: of_files.then(|| note.origin.to_string()),
        line: of_files.then_some(note.line),
        log_time: format_time(note.log_time_ms),
        time: format_time(note.time_ms),
        late_s: seconds(note.log_time_ms - note.time_ms),
        behind_s: seconds(note.behind_ms),
        did: note.did.name(),
        conflicting: note.did == Effect::Duplicate { conflicting: true },
        trip: id(note.t_star_ms)?,
        retired: match note.did {
            Effect::Merged { retired_ms } => Some(id(retired_ms)?),
            _ => None,
        },
    })
}

/// A place for a person.
fn place_text(place: &LogPosition, of_files: bool) -> String {
    match (place.epoch, place.partition, place.offset) {
        (_, _, Some(offset)) if of_files => format!("record {offset} of the files"),
        (Some(epoch), Some(partition), Some(offset)) => {
            format!("partition {partition}, offset {offset} (epoch {epoch})")
        }
        (Some(epoch), None, Some(offset)) => {
            format!("offset {offset} of another partition (epoch {epoch})")
        }
        _ => format!("version {}, of an epoch that the store does not know", place.version),
    }
}

fn print(explained: &ExplainJson, of_files: bool, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let ExplainJson { row: explained, log } = explained;
    let at = |place: &LogPosition| place_text(place, of_files);
    let mut pairs = vec![
        ("id", explained.id.clone()),
        ("requested_id", explained.requested_id.clone()),
        ("match", explained.matched.name().to_owned()),
    ];
    if let Some(retired) = &explained.retired {
        pairs.push(("retired", format!("by a merge into the id above, at {}", at(retired))));
    }
    let minted = &explained.minted;
    pairs.extend([
        ("device_id", explained.device_id.clone()),
        ("start_time", explained.start_time.clone()),
        ("end_time", explained.end_time.clone()),
        ("samples", explained.samples.to_string()),
        ("minted", format!("by the sample of {}, at {}", minted.time, at(&minted.place))),
    ]);
    for absorbed in &explained.absorbed {
        pairs.push(("absorbed", format!("{} at {}", absorbed.id, at(&absorbed.place))));
    }
    pairs.push(("last_change", at(&explained.last_change)));
    printer.line(&table::pairs(&pairs))?;
    let Some(log) = log else { return Ok(()) };
    let rows: Vec<[String; 7]> = log.records.iter().map(cells).collect();
    printer.line(&table::records(&rows))?;
    if log.more > 0 {
        printer.line(&format!("and {} more: --limit shows them", log.more))?;
    }
    Ok(())
}

/// A time span for a person, as 26h47m9.162s.
fn span_text(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    #[expect(clippy::cast_possible_truncation, reason = "it was whole milliseconds")]
    let ms = (seconds.abs() * 1e3).round() as i64;
    let (hours, minutes, rest) = (ms / 3_600_000, ms / 60_000 % 60, ms % 60_000);
    let rest = match rest % 1000 {
        0 => format!("{}s", rest / 1000),
        ms => format!("{}.{ms:03}s", rest / 1000),
    };
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}"),
        (0, _) => format!("{sign}{minutes}m{rest}"),
        _ => format!("{sign}{hours}h{minutes}m{rest}"),
    }
}

/// A record as a line of a table.
fn cells(record: &RecordJson) -> [String; 7] {
    let element = record.element.map_or_else(String::new, |nth| format!("[{nth}]"));
    let place = match (record.partition, &record.file, record.line) {
        (Some(partition), ..) => format!("{partition}:{}{element}", record.offset),
        (None, Some(file), Some(line)) => format!("{}, {file}:{line}", record.offset),
        _ => record.offset.to_string(),
    };
    let did = match &record.retired {
        Some(retired) => format!("merge, retires {retired}"),
        None if record.conflicting => "duplicate, conflicting".to_owned(),
        None => record.did.to_owned(),
    };
    let (late, behind) = (span_text(record.late_s), span_text(record.behind_s));
    let (log_time, time) = (record.log_time.clone(), record.time.clone());
    [place, log_time, time, late, behind, did, record.trip.clone()]
}
