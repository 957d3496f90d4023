//! `dlq ls` and `dlq show`.

use crate::cli::flags::ValueOutputFlags;
use crate::cli::print::{ListPrinter, Printer};
use crate::log::letters::{Letters, StoredLetter};
use crate::ops::dlq::LetterJson;
use crate::store::LetterFilter;

/// Prints the dead letters that match a filter, at most `limit`.
pub(crate) fn list(
    letters: &Letters,
    filter: &LetterFilter,
    limit: u64,
    output: &ValueOutputFlags,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let columns = ["id", "reason", "place", "message"];
    let mut list = ListPrinter::new(printer.format(output), columns);
    let mut reader = letters.read(filter)?;
    for _ in 0..limit {
        let Some(stored) = reader.next().transpose()? else { break };
        list.print::<LetterJson, _>(stored, row, printer)?;
    }
    list.finish(printer)
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
pub(crate) fn show(
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
    printer.object(&object, &names, printer.format(output))
}
