//! `dlq ls` and `dlq show`.

use crate::cli::flags::{Format, ValueOutputFlags};
use crate::cli::print::{JsonList, Printer};
use crate::cli::table;
use crate::log::letters::{Letters, StoredLetter};
use crate::ops::dlq::LetterJson;
use crate::store::LetterFilter;

/// Maximum rows of one printed table.
const ROWS: usize = 1000;

/// Prints the dead letters that match a filter, at most `limit`.
pub fn list(
    letters: &Letters,
    filter: &LetterFilter,
    limit: u64,
    output: &ValueOutputFlags,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let format = printer.value_format(output);
    let (mut rows, mut objects) = (Vec::new(), JsonList::new(format));
    let mut reader = letters.read(filter)?;
    for _ in 0..limit {
        let Some(stored) = reader.next().transpose()? else { break };
        if format == Format::Table {
            rows.push(row(&stored));
            if rows.len() == ROWS {
                print_table(&mut rows, printer)?;
            }
        } else {
            objects.print(&LetterJson::from(stored), printer)?;
        }
    }
    if !rows.is_empty() {
        print_table(&mut rows, printer)?;
    }
    objects.finish(printer)
}

fn print_table(rows: &mut Vec<[String; 4]>, printer: &mut Printer) -> anyhow::Result<()> {
    let columns = ["id", "reason", "place", "message"];
    Ok(printer.line(&table::rows(columns, &[], &std::mem::take(rows)))?)
}

fn row(StoredLetter { id, letter }: &StoredLetter) -> [String; 4] {
    let position = match letter.line {
        0 => format!("{}:{}:{}", letter.origin, letter.partition, letter.offset),
        line => format!("{}:{line}", letter.origin),
    };
    let message = match letter.count {
        1 => letter.message.clone(),
        count => format!("{} ({count} times in a row)", letter.message),
    };
    [id.to_string(), letter.reason.name().into(), position, message]
}

/// Prints one dead letter; `raw`: its original bytes only.
pub fn show(
    stored: StoredLetter,
    raw: bool,
    output: &ValueOutputFlags,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    if raw {
        return Ok(printer.write(&stored.letter.value)?);
    }
    let object = serde_json::to_value(LetterJson::from(stored))?;
    let fields = object.as_object().into_iter().flatten();
    let names: Vec<_> = fields.map(|(name, _)| name.as_str()).collect();
    printer.object(&object, &names, printer.value_format(output))
}
