//! `dlq`: the samples that could not be used.

use clap::{Args, Subcommand};
use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;
use tstar::moment::format_time;
use tstar::reason::DeadReason;
use tstar::store::sqlite::{DeadLetterFilter, KeptDeadLetter, SqliteStore};

use super::exit::{NoResult, Usage};
use super::flags::{Format, OutputFlags};
use super::print::Printer;
use super::table;

const LS_EXAMPLES: &str = "\
Examples:
  tstar dlq ls
  tstar dlq ls --reason bad_json --limit 10 --json";

const SHOW_EXAMPLES: &str = "\
Examples:
  tstar dlq show 1
  tstar dlq show 1 --raw";

/// Dead letters asked for at once.
const PAGE: usize = 1000;

/// Flags of `dlq`.
#[derive(Debug, Args)]
#[command(after_help = LS_EXAMPLES)]
pub struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// List dead letters, oldest first
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        /// Only those of this reason
        #[arg(long)]
        reason: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Show one dead letter with its original bytes
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Its number, as `dlq ls` gives it
        id: i64,
        /// Print the original bytes and nothing else
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        output: OutputFlags,
    },
}

#[derive(Serialize)]
struct LetterJson {
    id: i64,
    reason: &'static str,
    message: String,
    file: String,
    line: u64,
    partition: i32,
    offset: i64,
    element: Option<u32>,
    key: Option<String>,
    headers: Vec<(String, Option<String>)>,
    log_time: String,
    value: Option<String>,
    value_base64: Option<String>,
    value_bytes: u64,
    sha256: Option<String>,
}

impl LetterJson {
    fn of(kept: KeptDeadLetter) -> Self {
        let letter = kept.letter;
        // Bytes that are no text are given in base64, so that nothing of them is lost.
        let (value, value_base64) = match String::from_utf8(letter.value) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(BASE64.encode(error.as_bytes()))),
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let headers = letter.headers.into_iter();
        Self {
            id: kept.id,
            reason: letter.reason.name(),
            message: letter.message,
            file: letter.origin,
            line: letter.line,
            partition: letter.partition,
            offset: letter.offset,
            element: letter.element,
            key: letter.key.map(text),
            headers: headers.map(|(name, value)| (name, value.map(text))).collect(),
            log_time: format_time(letter.log_time_ms),
            value,
            value_base64,
            value_bytes: letter.value_bytes,
            sha256: letter.sha256.map(|hash| HEXLOWER.encode(&hash)),
        }
    }
}

/// Where the dead letters of a keyspace are.
pub const IN_TOPIC: &str = "its log is a topic, and its dead letters are in another beside it: read \
     `<input>.dlq` with any Kafka client";

/// Runs a `dlq` command.
pub fn run(args: &DlqArgs, store: &SqliteStore, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    match &args.command {
        DlqCommand::Ls { reason, limit, output } => {
            let reason = reason.as_deref().map(parse_reason).transpose()?;
            list(store, reason, limit.unwrap_or(u64::MAX), printer.format(output), printer)
        }
        DlqCommand::Show { id, raw, output } => show(store, *id, *raw, output, printer),
    }
}

fn parse_reason(name: &str) -> Result<DeadReason, Usage> {
    DeadReason::from_name(name).ok_or_else(|| {
        let names: Vec<_> = DeadReason::ALL.iter().map(|reason| reason.name()).collect();
        Usage(format!("`{name}` is no reason; the reasons are {}", names.join(", ")))
    })
}

fn list(
    store: &SqliteStore,
    reason: Option<DeadReason>,
    limit: u64,
    format: Format,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    if !matches!(format, Format::Table | Format::Ndjson | Format::Json) {
        return Err(Usage("dead letters come as table, ndjson or json".into()).into());
    }
    let (mut after, mut left, mut printed) = (0, limit, 0_u64);
    loop {
        let page = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        let letters = store.dead_letters(&DeadLetterFilter { reason, after, limit: page })?;
        let Some(last) = letters.last() else { break };
        after = last.id;
        left -= letters.len() as u64;
        if format == Format::Table {
            printer.line(&table::dead_letters(&letters.iter().map(row).collect::<Vec<_>>()))?;
            continue;
        }
        for letter in letters {
            let object = serde_json::to_string(&LetterJson::of(letter))?;
            let before = match (format, printed) {
                (Format::Json, 0) => "[\n",
                (Format::Json, _) => ",\n",
                (_, 0) => "",
                _ => "\n",
            };
            printer.write(format!("{before}{object}").as_bytes())?;
            printed += 1;
        }
    }
    match (format, printed) {
        (Format::Json, 0) => printer.line("[]")?,
        (Format::Json, _) => printer.line("\n]")?,
        (Format::Ndjson, 1..) => printer.line("")?,
        _ => (),
    }
    Ok(())
}

fn row(kept: &KeptDeadLetter) -> [String; 4] {
    let letter = &kept.letter;
    let place = format!("{}:{}", letter.origin, letter.line);
    [kept.id.to_string(), letter.reason.name().into(), place, letter.message.clone()]
}

fn show(
    store: &SqliteStore,
    id: i64,
    raw: bool,
    output: &OutputFlags,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let before = id.saturating_sub(1);
    let filter = DeadLetterFilter { after: before, limit: 1, ..DeadLetterFilter::default() };
    let found = store.dead_letters(&filter)?.pop().filter(|kept| kept.id == id);
    let Some(kept) = found else {
        let reason = format!("there is no dead letter {id}; `tstar dlq ls` lists them");
        return Err(NoResult(reason).into());
    };
    if raw {
        return Ok(printer.write(&kept.letter.value)?);
    }
    let object = serde_json::to_value(LetterJson::of(kept))?;
    match printer.format(output) {
        Format::Table => {
            let order: Vec<_> = object.as_object().into_iter().flatten().collect();
            let names: Vec<_> = order.iter().map(|(name, _)| name.as_str()).collect();
            Ok(printer.line(&table::fields(&object, &names))?)
        }
        Format::Json | Format::Ndjson => Ok(printer.line(&object.to_string())?),
        _ => Err(Usage("a dead letter comes as table, ndjson or json".into()).into()),
    }
}
