//! Prints the results of commands, in any output format.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::store::TripRow;
use crate::views::{Extras, Form, TripJson, TripWriter};

use super::flags::{Format, OutputFlags};
use super::table;

/// The output, and whether it is a terminal.
pub struct Printer<'a> {
    out: Box<dyn Write + 'a>,
    terminal: bool,
}

impl<'a> Printer<'a> {
    /// Prints to stdout.
    pub fn stdout() -> Self {
        let stdout = io::stdout().lock();
        let terminal = stdout.is_terminal();
        Self { out: Box::new(BufWriter::with_capacity(1 << 16, stdout)), terminal }
    }

    /// Prints into a writer, as if into a pipe.
    #[cfg(test)]
    pub fn into(out: impl Write + 'a) -> Self {
        Self { out: Box::new(out), terminal: false }
    }

    /// Whether the output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The output format: a table on a terminal, else NDJSON, unless a flag names another.
    pub fn format(&self, flags: &OutputFlags) -> Format {
        flags.format(if self.terminal { Format::Table } else { Format::Ndjson })
    }

    /// The underlying writer.
    pub fn out(&mut self) -> &mut dyn Write {
        self.out.as_mut()
    }

    /// Writes bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Writes a line.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A writer of trips in a format for programs.
    pub fn writer(&mut self, form: Form, with_path: bool) -> TripWriter<&mut dyn Write> {
        TripWriter::new(self.out.as_mut(), form, with_path)
    }

    /// Prints one trip; as JSON it is one object, not an array.
    pub fn answer(
        &mut self,
        row: &TripRow,
        extras: &Extras,
        format: Format,
        with_path: bool,
    ) -> anyhow::Result<()> {
        let Some(form) = format.form() else {
            return Ok(self.line(&table::answer(&TripJson::from_row(row)?, extras))?);
        };
        let form = if form == Form::Json { Form::Ndjson } else { form };
        let mut writer = self.writer(form, with_path);
        writer.write(row, extras)?;
        writer.finish()?;
        Ok(())
    }

    /// Prints a list of trips.
    pub fn list(
        &mut self,
        rows: &[TripRow],
        format: Format,
        with_path: bool,
    ) -> anyhow::Result<()> {
        let Some(form) = format.form() else {
            let trips = rows.iter().map(TripJson::from_row).collect::<Result<Vec<_>, _>>()?;
            return Ok(self.line(&table::list(&trips))?);
        };
        let mut writer = self.writer(form, with_path);
        for row in rows {
            writer.write(row, &Extras::default())?;
        }
        writer.finish()?;
        Ok(())
    }
}
