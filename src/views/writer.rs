//! Writes trips one after another in an output format.

use std::io::Write;

use super::form::{Form, Frame, Layout, PathRule, PointText, PointView, TripText, TripView};
use super::parquet::{PointTable, TripTable};
use super::trip_json::{Answer, read_path, text_id};
use super::{Extras, TripJson, ViewError};
use crate::codec::trip_row::TripRow;
use crate::timeline::StopRule;

/// Writes trips in an output format, or their samples; holds one trip at a time.
pub struct TripWriter<W: Write> {
    sink: Sink<W>,
    /// Tolerance of [`simplify`](super::simplify()), m; `None`: complete paths.
    tolerance_m: Option<f64>,
    /// What counts as a stop; `None`: trips are without their stops.
    stops: Option<StopRule>,
    /// Fields of the answers that have columns without a trip, too.
    expected: Extras,
    /// Trips written so far.
    trips: u64,
}

/// What is written, and where.
enum Sink<W: Write> {
    /// A text for each trip, and whether it gets the samples.
    Trips(TextOut<W>, TripText, bool),
    /// A text for each sample.
    Points(TextOut<W>, PointText),
    /// A row of a Parquet file for each trip.
    TripTable(Box<TripTable<W>>),
    /// A row of a Parquet file for each sample.
    PointTable(Box<PointTable<W>>),
}

impl<W: Write> TripWriter<W> {
    /// A writer of trips. `with_path` adds the samples where [`PathRule::OnRequest`] allows it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(out: W, form: Form, with_path: bool) -> Result<Self, ViewError> {
        let spec = form.spec();
        let with_path = with_path && spec.path == PathRule::OnRequest;
        let sink = match &spec.trips {
            Layout::Text(frame, text) => {
                Sink::Trips(TextOut { out, frame, written: 0 }, *text, with_path)
            }
            Layout::Table => Sink::TripTable(Box::new(TripTable::new(out)?)),
        };
        Ok(Self::from_sink(sink))
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
        Ok(Self::from_sink(sink))
    }

    fn from_sink(sink: Sink<W>) -> Self {
        Self { sink, tolerance_m: None, stops: None, expected: Extras::default(), trips: 0 }
    }

    /// Sets the fields that every answer will have: a table without a trip has their columns, too.
    #[must_use]
    pub fn expecting(mut self, extras: Extras) -> Self {
        self.expected = extras;
        self
    }

    /// Simplifies paths: omits samples within `tolerance_m`, in metres, of the line through the
    /// others.
    #[must_use]
    pub fn simplified(mut self, tolerance_m: Option<f64>) -> Self {
        self.tolerance_m = tolerance_m;
        self
    }

    /// Adds the stops of trips, where the format can hold them: JSON and NDJSON.
    #[must_use]
    pub fn with_stops(mut self, stops: Option<StopRule>) -> Self {
        self.stops = stops;
        self
    }

    /// Writes a trip.
    ///
    /// # Errors
    /// The trip cannot be shown in this format, or the output cannot be written.
    pub fn write(&mut self, row: &TripRow, extras: &Extras) -> Result<(), ViewError> {
        let tolerance_m = self.tolerance_m;
        match &mut self.sink {
            Sink::Trips(out, text, with_path) => {
                let mut trip = TripJson::from_row(row)?;
                if *with_path {
                    trip = trip.with_path(row, tolerance_m)?;
                }
                if let Some(rule) = self.stops {
                    trip = trip.with_stops(row, rule)?;
                }
                let view = TripView { row, answer: Answer { trip, extras }, tolerance_m };
                out.write(&text(&view)?, extras)?;
            }
            Sink::Points(out, text) => {
                let trip_id = &text_id(&row.device_id, row.t_star_ms)?;
                for sample in read_path(row, trip_id, tolerance_m)?.iter() {
                    let view = PointView { trip_id, device_id: &row.device_id, sample };
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
            Sink::Trips(out, ..) | Sink::Points(out, _) => out.finish(&self.expected)?,
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
