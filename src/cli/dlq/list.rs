//! `dlq ls` and `dlq show`.

use crate::ops::InvalidRequest;
use crate::ops::dlq::{LetterFilter, LetterJson, Letters, StoredLetter};

use crate::cli::flags::{Format, OutputFlags};
use crate::cli::print::Printer;
use crate::cli::table;

/// Maximum rows of one printed table.
const ROWS: usize = 1000;

/// Prints the dead letters that match a filter, at most `limit`.
pub fn list(
    letters: &Letters,
    filter: &LetterFilter,
    limit: u64,
    format: Format,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    if !matches!(format, Format::Table | Format::Ndjson | Format::Json) {
        return Err(InvalidRequest("--format must be table, ndjson or json".into()).into());
    }
    let (mut rows, mut printed) = (Vec::new(), 0_u64);
    let mut reader = letters.read(filter)?;
    while printed < limit {
        let Some(stored) = reader.next_letter()? else { break };
        if format == Format::Table {
            rows.push(row(&stored));
            if rows.len() == ROWS {
                printer.line(&table::dead_letters(&std::mem::take(&mut rows)))?;
            }
        } else {
            let object = serde_json::to_string(&LetterJson::from(stored))?;
            let separator = match (format, printed) {
                (Format::Json, 0) => "[\n",
                (Format::Json, _) => ",\n",
                (_, 0) => "",
                _ => "\n",
            };
            printer.write(format!("{separator}{object}").as_bytes())?;
        }
        printed += 1;
    }
    match (format, printed) {
        (Format::Json, 0) => printer.line("[]")?,
        (Format::Json, _) => printer.line("\n]")?,
        (Format::Ndjson, 1..) => printer.line("")?,
        _ if !rows.is_empty() => printer.line(&table::dead_letters(&rows))?,
        _ => (),
    }
    Ok(())
}

fn row(StoredLetter { id, letter }: &StoredLetter) -> [String; 4] {
    let position = match letter.line {
        0 => format!("{}:{}:{}", letter.origin, letter.partition, letter.offset),
        line => format!("{}:{line}", letter.origin),
    };
    [id.to_string(), letter.reason.name().into(), position, letter.message.clone()]
}

/// Prints one dead letter; `raw`: its original bytes only.
pub fn show(
    stored: StoredLetter,
    raw: bool,
    output: &OutputFlags,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    if raw {
        return Ok(printer.write(&stored.letter.value)?);
    }
    let object = serde_json::to_value(LetterJson::from(stored))?;
    match printer.format(output) {
        Format::Table => {
            let fields: Vec<_> = object.as_object().into_iter().flatten().collect();
            let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
            Ok(printer.line(&table::fields(&object, &names))?)
        }
        Format::Json | Format::Ndjson => Ok(printer.line(&object.to_string())?),
        _ => Err(InvalidRequest("--format must be table, ndjson or json".into()).into()),
    }
}
