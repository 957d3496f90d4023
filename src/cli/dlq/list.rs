//! `dlq ls` and `dlq show`.

use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;
use tstar::model::time::format_time;
use tstar::ops::InvalidRequest;
use tstar::source::Cut;

use super::letters::{Filter, Id, Letters, StoredLetter};
use crate::cli::flags::{Format, OutputFlags};
use crate::cli::print::Printer;
use crate::cli::table;

/// Rows of a table that are printed at once.
const ROWS: usize = 1000;

#[derive(Serialize)]
struct LetterJson {
    id: Id,
    reason: &'static str,
    message: String,
    file: String,
    line: u64,
    partition: i32,
    offset: i64,
    element: Option<u32>,
    key: Option<String>,
    key_bytes: Option<u64>,
    key_sha256: Option<String>,
    headers: Vec<(String, Option<String>)>,
    headers_bytes: Option<u64>,
    headers_sha256: Option<String>,
    log_time: String,
    value: Option<String>,
    value_base64: Option<String>,
    value_bytes: u64,
    sha256: Option<String>,
}

impl LetterJson {
    fn from_letter(kept: StoredLetter) -> Self {
        let letter = kept.letter;
        // Bytes that are no text are given in base64, so that nothing of them is lost.
        let (value, value_base64) = match String::from_utf8(letter.value) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(BASE64.encode(error.as_bytes()))),
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let headers = letter.headers.iter().cloned();
        let hash = |cut: &Option<Cut>| cut.as_ref().map(|cut| HEXLOWER.encode(&cut.sha256));
        let bytes = |cut: &Option<Cut>| cut.as_ref().map(|cut| cut.bytes);
        Self {
            id: kept.id,
            reason: letter.reason.name(),
            message: letter.message,
            file: letter.origin,
            line: letter.line,
            partition: letter.partition,
            offset: letter.offset,
            element: letter.element,
            key: letter.key.map(|key| text(key.to_vec())),
            key_bytes: bytes(&letter.key_cut),
            key_sha256: hash(&letter.key_cut),
            headers: headers.map(|(name, value)| (name, value.map(text))).collect(),
            headers_bytes: bytes(&letter.headers_cut),
            headers_sha256: hash(&letter.headers_cut),
            log_time: format_time(letter.log_time_ms),
            value,
            value_base64,
            value_bytes: letter.value_bytes,
            sha256: letter.sha256.map(|hash| HEXLOWER.encode(&hash)),
        }
    }
}

/// Prints the letters that are meant.
pub fn list(
    letters: &Letters,
    filter: &Filter,
    limit: u64,
    format: Format,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    if !matches!(format, Format::Table | Format::Ndjson | Format::Json) {
        return Err(InvalidRequest("dead letters come as table, ndjson or json".into()).into());
    }
    let (mut rows, mut printed) = (Vec::new(), 0_u64);
    let mut reading = letters.read(filter)?;
    while printed < limit {
        let Some(kept) = reading.next()? else { break };
        if format == Format::Table {
            rows.push(row(&kept));
            if rows.len() == ROWS {
                printer.line(&table::dead_letters(&std::mem::take(&mut rows)))?;
            }
        } else {
            let object = serde_json::to_string(&LetterJson::from_letter(kept))?;
            let before = match (format, printed) {
                (Format::Json, 0) => "[\n",
                (Format::Json, _) => ",\n",
                (_, 0) => "",
                _ => "\n",
            };
            printer.write(format!("{before}{object}").as_bytes())?;
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

fn row(kept: &StoredLetter) -> [String; 4] {
    let letter = &kept.letter;
    let place = match letter.line {
        0 => format!("{}:{}:{}", letter.origin, letter.partition, letter.offset),
        line => format!("{}:{line}", letter.origin),
    };
    [kept.id.to_string(), letter.reason.name().into(), place, letter.message.clone()]
}

/// Prints one letter.
pub fn show(
    letters: &Letters,
    id: &str,
    raw: bool,
    output: &OutputFlags,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let kept = letters.find(id)?;
    if raw {
        return Ok(printer.write(&kept.letter.value)?);
    }
    let object = serde_json::to_value(LetterJson::from_letter(kept))?;
    match printer.format(output) {
        Format::Table => {
            let order: Vec<_> = object.as_object().into_iter().flatten().collect();
            let names: Vec<_> = order.iter().map(|(name, _)| name.as_str()).collect();
            Ok(printer.line(&table::fields(&object, &names))?)
        }
        Format::Json | Format::Ndjson => Ok(printer.line(&object.to_string())?),
        _ => Err(InvalidRequest("a dead letter comes as table, ndjson or json".into()).into()),
    }
}
