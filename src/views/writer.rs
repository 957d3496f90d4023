//! Writes trips one after another in an output format.

use std::io::Write;

use super::form::{Frame, Layout, PathRule, PointText, PointView, TripText, TripView};
use super::parquet::{PointTable, TripTable};
use super::trip_json::{Answer, read_path, text_id};
use super::{Detail, Extras, Form, TripJson, ViewError};
use crate::codec::trip_row::TripRow;
use crate::model::zone::Zone;

/// Writes trips in an output format, or their samples; holds one trip at a time.
pub struct TripWriter<W: Write> {
    sink: Sink<W>,
    detail: Detail,
    /// Fields of the answers that have columns without a trip, too.
    expected: Extras,
    /// Zone of the times of CSV.
    zone: Zone,
    /// Trips written so far.
    trips: u64,
}

/// What is written, and where.
enum Sink<W: Write> {
    /// A text for each trip.
    Trips(TextOut<W>, TripText),
    /// A text for each sample.
    Points(TextOut<W>, PointText),
    /// A row of a Parquet file for each trip.
    TripTable(Box<TripTable<W>>),
    /// A row of a Parquet file for each sample.
    PointTable(Box<PointTable<W>>),
}

impl<W: Write> TripWriter<W> {
    /// A writer of trips. The path is added where [`PathRule::OnRequest`] allows it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(out: W, form: Form, mut detail: Detail) -> Result<Self, ViewError> {
        let spec = form.spec();
        detail.path &= spec.path == PathRule::OnRequest;
        let sink = match &spec.trips {
            Layout::Text(frame, text) => Sink::Trips(TextOut { out, frame, written: 0 }, *text),
            Layout::Table => Sink::TripTable(Box::new(TripTable::new(out)?)),
        };
        Ok(Self::to(sink, detail))
    }

    /// A writer of the samples of trips.
    ///
    /// # Errors
    /// The format cannot hold them.
    pub fn points(out: W, form: Form) -> Result<Self, ViewError> {
        let layout = form.spec().points.as_ref();
        let sink = match layout.ok_or(ViewError::NoPoints(form.spec().name))? {
            Layout::Text(frame, text) => Sink::Points(TextOut { out, frame, written: 0 }, *text),
            Layout::Table => Sink::PointTable(Box::new(PointTable::new(out)?)),
        };
        Ok(Self::to(sink, Detail::default()))
    }

    fn to(sink: Sink<W>, detail: Detail) -> Self {
        Self { sink, detail, expected: Extras::default(), zone: Zone::UTC, trips: 0 }
    }

    /// Writes the times of CSV in a zone. Those of all other formats are UTC.
    #[must_use]
    pub fn in_zone(mut self, zone: Zone) -> Self {
        self.zone = zone;
        self
    }

    /// Sets the fields that every answer will have: a table without a trip has their columns, too.
    #[must_use]
    pub fn expecting(mut self, extras: Extras) -> Self {
        self.expected = extras;
        self
    }

    /// Writes a trip.
    ///
    /// # Errors
    /// The trip cannot be shown in this format, or the output cannot be written.
    pub fn write(&mut self, row: &TripRow, extras: &Extras) -> Result<(), ViewError> {
        let (tolerance_m, zone) = (self.detail.simplify_m, self.zone);
        match &mut self.sink {
            Sink::Trips(out, text) => {
                let trip = TripJson::detailed(row, self.detail)?;
                let view = TripView { row, answer: Answer { trip, extras }, tolerance_m, zone };
                out.write(&text(&view)?, extras)?;
            }
            Sink::Points(out, text) => {
                let trip_id = &text_id(&row.device_id, row.t_star_ms)?;
                for sample in read_path(row, trip_id, tolerance_m)?.iter() {
                    let device_id = &row.device_id;
                    let view = PointView { trip_id, device_id, sample, zone };
                    out.write(&text(&view), extras)?;
                }
            }
            Sink::TripTable(table) => {
                let trip = TripJson::from_row(row)?;
                let path = read_path(row, &trip.id, tolerance_m)?;
                table.write(row, &Answer { trip, extras }, &path)?;
            }
            Sink::PointTable(table) => {
                let trip_id = &text_id(&row.device_id, row.t_star_ms)?;
                table.write(trip_id, &row.device_id, &read_path(row, trip_id, tolerance_m)?)?;
            }
        }
        self.trips += 1;
        Ok(())
    }

    /// Writes the end of the format, flushes the output and returns the number of trips. Without a
    /// trip the output is still valid: an empty array, a header alone.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> Result<u64, ViewError> {
        match self.sink {
            Sink::Trips(out, _) | Sink::Points(out, _) => out.finish(&self.expected)?,
            Sink::TripTable(table) => table.finish()?,
            Sink::PointTable(table) => table.finish()?,
        }
        Ok(self.trips)
    }
}

/// Texts one after another, in their frame.
struct TextOut<W: Write> {
    out: W,
    frame: &'static Frame,
    /// Texts written so far.
    written: u64,
}

impl<W: Write> TextOut<W> {
    fn write(&mut self, text: &str, extras: &Extras) -> Result<(), ViewError> {
        if self.written == 0 {
            self.write_start(extras)?;
        }
        let [before_first, between] = self.frame.separators;
        let separator = if self.written == 0 { before_first } else { between };
        self.out.write_all(separator.as_bytes())?;
        self.out.write_all(text.as_bytes())?;
        self.written += 1;
        Ok(())
    }

    fn finish(mut self, expected: &Extras) -> Result<(), ViewError> {
        if self.written == 0 {
            self.write_start(expected)?;
        }
        let [without_rows, after_rows] = self.frame.ends;
        let end = if self.written == 0 { without_rows } else { after_rows };
        self.out.write_all(end.as_bytes())?;
        Ok(self.out.flush()?)
    }

    fn write_start(&mut self, extras: &Extras) -> Result<(), ViewError> {
        Ok(self.out.write_all((self.frame.start)(extras).as_bytes())?)
    }
}

#[cfg(test)]
mod tests;
