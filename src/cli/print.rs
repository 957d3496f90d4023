//! Prints the results of commands, in any output format.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use super::flags::{Format, Output, PathFlag};
use super::report::{Counts, SummaryFormat};
use super::table;
use crate::model::zone::Zone;
use crate::ops::InvalidRequest;
use crate::store::TripRow;
use crate::views::{Extras, Form, TripJson, TripWriter};

/// The output, and whether it is a terminal.
pub(crate) struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Printer {
    /// Prints to stdout.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout().lock();
        let terminal = stdout.is_terminal();
        Self { out: BufWriter::with_capacity(1 << 16, stdout), terminal }
    }

    /// Whether the output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The output format: a table on a terminal, else NDJSON, unless a flag names another.
    pub(crate) fn format<const FORMATS: usize>(&self, flags: &Output<FORMATS>) -> Format {
        flags.format(if self.terminal { Format::Table } else { Format::Ndjson })
    }

    /// The underlying writer.
    pub(crate) fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Writes bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Writes a value as JSON, on a line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.line(&serde_json::to_string(value)?)?)
    }

    /// Writes values as one array on a line, or as NDJSON.
    pub(crate) fn values(
        &mut self,
        values: &[impl Serialize],
        format: Format,
    ) -> anyhow::Result<()> {
        match format {
            Format::Json => self.json(&values),
            _ => values.iter().try_for_each(|value| self.json(value)),
        }
    }

    /// Writes values as a table, a row for each, or as JSON.
    pub(crate) fn rows<T: Serialize, const N: usize>(
        &mut self,
        values: &[T],
        format: Format,
        columns: [&str; N],
        cells: impl Fn(&T) -> [String; N],
    ) -> anyhow::Result<()> {
        if format != Format::Table {
            return self.values(values, format);
        }
        let rows: Vec<_> = values.iter().map(cells).collect();
        Ok(self.line(&table::rows(columns, &[], &rows))?)
    }

    /// Writes an object as a table of these fields, or as JSON on a line.
    pub(crate) fn object(
        &mut self,
        object: &serde_json::Value,
        fields: &[&str],
        format: Format,
    ) -> anyhow::Result<()> {
        match format {
            Format::Table => Ok(self.line(&table::fields(object, fields))?),
            _ => self.json(object),
        }
    }

    /// Prints counts: as a table on a terminal, else as JSON, unless a flag names a format.
    pub(crate) fn summary(
        &mut self,
        counts: &impl Counts,
        format: Option<SummaryFormat>,
    ) -> anyhow::Result<()> {
        let default = if self.terminal { SummaryFormat::Table } else { SummaryFormat::Json };
        match format.unwrap_or(default) {
            SummaryFormat::Table => self.line(&counts.table())?,
            SummaryFormat::Json => self.json(counts)?,
        }
        Ok(self.flush()?)
    }

    /// Flushes the buffer.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The output for a format for programs.
    ///
    /// # Errors
    /// The format is not text, and the output is a terminal.
    pub(crate) fn data(&mut self, form: Form) -> Result<&mut dyn Write, InvalidRequest> {
        if self.terminal && form.spec().is_binary() {
            let problem = format!("{} is not text; redirect the output", form.spec().name);
            return Err(InvalidRequest(problem));
        }
        Ok(&mut self.out)
    }

    /// A writer of trips in a format for programs.
    fn writer(
        &mut self,
        form: Form,
        flag: &PathFlag,
    ) -> anyhow::Result<TripWriter<&mut dyn Write>> {
        Ok(TripWriter::new(self.data(form)?, form, flag.detail())?)
    }

    /// Prints one trip; as JSON it is one object, not an array.
    pub(crate) fn answer(
        &mut self,
        row: &TripRow,
        extras: &Extras,
        format: Format,
        (flag, zone): (&PathFlag, Zone),
    ) -> anyhow::Result<()> {
        let Some(form) = format.form() else {
            return Ok(self.line(&table::answer(&TripJson::in_zone(row, zone)?, extras))?);
        };
        let form = if form == Form::Json { Form::Ndjson } else { form };
        let mut writer = self.writer(form, flag)?.in_zone(zone);
        writer.write(row, extras)?;
        writer.finish()?;
        Ok(())
    }

    /// Prints a list of trips, whose fields are the expected ones.
    pub(crate) fn list<'a>(
        &mut self,
        rows: &'a [(TripRow, Extras)],
        expected: Extras,
        format: Format,
        (flag, zone): (&PathFlag, Zone),
    ) -> anyhow::Result<()> {
        let Some(form) = format.form() else {
            let trip = |(row, extras): &'a (TripRow, Extras)| {
                TripJson::in_zone(row, zone).map(|trip| (trip, extras))
            };
            let trips = rows.iter().map(trip).collect::<Result<Vec<_>, _>>()?;
            return Ok(self.line(&table::list(&trips))?);
        };
        let writer = self.writer(form, flag)?.in_zone(zone);
        let mut writer = writer.expecting(expected);
        for (row, extras) in rows {
            writer.write(row, extras)?;
        }
        writer.finish()?;
        Ok(())
    }
}

/// Maximum rows of one printed table, so that memory holds no more.
const ROWS: usize = 1000;

/// Prints values one at a time: as tables, as CSV, as an array with a value on each line, or as
/// NDJSON.
pub(crate) struct ListPrinter<const N: usize> {
    format: Format,
    columns: [&'static str; N],
    rows: Vec<[String; N]>,
    is_empty: bool,
    /// Whether tables leave out the last column if it is empty.
    hides_empty: bool,
}

impl<const N: usize> ListPrinter<N> {
    /// A list in this format; rows of tables and of CSV have these columns.
    pub(crate) fn new(format: Format, columns: [&'static str; N]) -> Self {
        Self { format, columns, rows: Vec::new(), is_empty: true, hides_empty: false }
    }

    /// A list whose tables leave out the last column if it is empty.
    pub(crate) fn hiding_empty(self) -> Self {
        Self { hides_empty: true, ..self }
    }

    /// Prints the next value.
    pub(crate) fn print<T: Serialize + From<V>, V>(
        &mut self,
        value: V,
        cells: impl Fn(&V) -> [String; N],
        printer: &mut Printer,
    ) -> anyhow::Result<()> {
        let is_first = std::mem::take(&mut self.is_empty);
        match self.format {
            Format::Table => {
                self.rows.push(cells(&value));
                if self.rows.len() == ROWS { self.print_table(printer) } else { Ok(()) }
            }
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(printer.out());
                if is_first {
                    writer.write_record(self.columns)?;
                }
                writer.write_record(cells(&value))?;
                Ok(writer.flush()?)
            }
            Format::Json => {
                printer.write(if is_first { b"[\n" } else { b",\n" })?;
                Ok(printer.write(&serde_json::to_vec(&T::from(value))?)?)
            }
            _ => printer.json(&T::from(value)),
        }
    }

    /// Prints the header of a list without values, which is nothing in NDJSON.
    pub(crate) fn print_header(&mut self, printer: &mut Printer) -> anyhow::Result<()> {
        match self.format {
            Format::Table if self.is_empty => self.print_table(printer),
            Format::Csv if self.is_empty => Ok(printer.line(&self.columns.join(","))?),
            _ => Ok(()),
        }
    }

    fn print_table(&mut self, printer: &mut Printer) -> anyhow::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let is_hidden = self.hides_empty && rows.iter().all(|row| row[N - 1].is_empty());
        let count = N - usize::from(is_hidden);
        let rows: Vec<_> = rows.iter().map(|row| &row[..count]).collect();
        Ok(printer.line(&table::rows(self.columns[..count].iter().copied(), &[], &rows))?)
    }

    /// Prints the end of the list.
    pub(crate) fn finish(mut self, printer: &mut Printer) -> anyhow::Result<()> {
        match (self.format, self.is_empty) {
            (Format::Table, _) if !self.rows.is_empty() => self.print_table(printer)?,
            (Format::Json, true) => printer.line("[]")?,
            (Format::Json, false) => printer.line("\n]")?,
            _ => (),
        }
        Ok(())
    }
}
