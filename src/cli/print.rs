//! Prints the results of commands, in any output format.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use super::flags::{Format, OutputFlags, PathFlag, ValueOutputFlags};
use super::report::{Counts, SummaryFormat};
use super::table;
use crate::ops::InvalidRequest;
use crate::store::TripRow;
use crate::views::{Extras, Form, TagValues, TripJson, TripWriter};

/// The output, and whether it is a terminal.
pub struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Printer {
    /// Prints to stdout.
    pub fn stdout() -> Self {
        let stdout = io::stdout().lock();
        let terminal = stdout.is_terminal();
        Self { out: BufWriter::with_capacity(1 << 16, stdout), terminal }
    }

    /// Whether the output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The output format: a table on a terminal, else NDJSON, unless a flag names another.
    pub fn format(&self, flags: &OutputFlags) -> Format {
        flags.format(self.default_format())
    }

    /// The output format of a result that is not a trip.
    pub fn value_format(&self, flags: &ValueOutputFlags) -> Format {
        flags.format(self.default_format())
    }

    /// The output format that no flag names.
    pub fn default_format(&self) -> Format {
        if self.terminal { Format::Table } else { Format::Ndjson }
    }

    /// The underlying writer.
    pub fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Writes bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Writes a line.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Writes a value as JSON, on a line.
    pub fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.line(&serde_json::to_string(value)?)?)
    }

    /// Writes values as one array on a line, or as NDJSON.
    pub fn values(&mut self, values: &[impl Serialize], format: Format) -> anyhow::Result<()> {
        match format {
            Format::Json => self.json(&values),
            _ => values.iter().try_for_each(|value| self.json(value)),
        }
    }

    /// Writes an object as a table of these fields, or as JSON on a line.
    pub fn object(
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
    pub fn summary(
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
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The output for a format for programs.
    ///
    /// # Errors
    /// The format is not text, and the output is a terminal.
    pub fn data(&mut self, form: Form) -> Result<&mut dyn Write, InvalidRequest> {
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
        let writer = TripWriter::new(self.data(form)?, form, flag.path)?;
        Ok(writer.with_stops(flag.stop_rule()))
    }

    /// Prints one trip; as JSON it is one object, not an array.
    pub fn answer(
        &mut self,
        row: &TripRow,
        extras: &Extras,
        format: Format,
        flag: &PathFlag,
    ) -> anyhow::Result<()> {
        let Some(form) = format.form() else {
            return Ok(self.line(&table::answer(&TripJson::from_row(row)?, extras))?);
        };
        let form = if form == Form::Json { Form::Ndjson } else { form };
        let mut writer = self.writer(form, flag)?;
        writer.write(row, extras)?;
        writer.finish()?;
        Ok(())
    }

    /// Prints a list of trips.
    pub fn list(
        &mut self,
        rows: &[(TripRow, Extras)],
        format: Format,
        flag: &PathFlag,
    ) -> anyhow::Result<()> {
        let Some(form) = format.form() else {
            let trips = rows.iter().map(|(row, _)| TripJson::from_row(row));
            let trips = trips.collect::<Result<Vec<_>, _>>()?;
            return Ok(self.line(&table::list(&trips))?);
        };
        let writer = self.writer(form, flag)?;
        let mut writer = writer.expecting(Extras::tagged(TagValues::new()));
        for (row, extras) in rows {
            writer.write(row, extras)?;
        }
        writer.finish()?;
        Ok(())
    }
}

/// Prints JSON values one at a time: an array with a value on each line, or NDJSON.
pub struct JsonList {
    is_array: bool,
    is_empty: bool,
}

impl JsonList {
    /// A list in this format. Other formats than JSON and NDJSON stay empty.
    pub fn new(format: Format) -> Self {
        Self { is_array: format == Format::Json, is_empty: true }
    }

    /// Prints the next value.
    pub fn print(&mut self, value: &impl Serialize, printer: &mut Printer) -> anyhow::Result<()> {
        if !self.is_array {
            return printer.json(value);
        }
        let separator = if std::mem::take(&mut self.is_empty) { "[\n" } else { ",\n" };
        printer.write(separator.as_bytes())?;
        Ok(printer.write(&serde_json::to_vec(value)?)?)
    }

    /// Prints the end of the list.
    pub fn finish(self, printer: &mut Printer) -> anyhow::Result<()> {
        match (self.is_array, self.is_empty) {
            (true, true) => printer.line("[]")?,
            (true, false) => printer.line("\n]")?,
            (false, _) => (),
        }
        Ok(())
    }
}
