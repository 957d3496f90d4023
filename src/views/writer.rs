//! Writes trips one after another in an output format.

use std::io::Write;

use super::form::{Form, PathRule, TripView};
use super::trip_json::Answer;
use super::{Extras, TripJson, ViewError};
use crate::codec::trip_row::TripRow;

/// Writes trips in an output format; holds one at a time.
pub struct TripWriter<W: Write> {
    out: W,
    form: Form,
    with_path: bool,
    /// Tolerance of [`simplify`](super::simplify()), m; `None`: complete paths.
    tolerance_m: Option<f64>,
    /// Trips written so far.
    written: u64,
}

impl<W: Write> TripWriter<W> {
    /// A writer of `form`. `with_path` adds the samples where [`PathRule::OnRequest`] allows it.
    pub fn new(out: W, form: Form, with_path: bool) -> Self {
        Self { out, form, with_path, tolerance_m: None, written: 0 }
    }

    /// Simplifies paths: omits samples within `tolerance_m`, in metres, of the line through the
    /// others.
    #[must_use]
    pub fn simplified(mut self, tolerance_m: Option<f64>) -> Self {
        self.tolerance_m = tolerance_m;
        self
    }

    /// Writes a trip.
    ///
    /// # Errors
    /// The trip cannot be shown in this format, or the output cannot be written.
    pub fn write(&mut self, row: &TripRow, extras: &Extras) -> Result<(), ViewError> {
        let (spec, tolerance_m) = (self.form.spec(), self.tolerance_m);
        let mut trip = TripJson::from_row(row)?;
        if self.with_path && spec.path == PathRule::OnRequest {
            trip = trip.with_path(row, tolerance_m)?;
        }
        let text = (spec.trip)(&TripView { row, answer: Answer { trip, extras }, tolerance_m })?;
        if self.written == 0 {
            self.write_start(extras)?;
        }
        let [before_first, between] = spec.separators;
        let separator = if self.written == 0 { before_first } else { between };
        self.out.write_all(separator.as_bytes())?;
        self.out.write_all(text.as_bytes())?;
        self.written += 1;
        Ok(())
    }

    /// Writes the end of the format, flushes the output and returns the number of trips. Without a
    /// trip the output is still valid: an empty array, a header alone.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(mut self) -> Result<u64, ViewError> {
        if self.written == 0 {
            self.write_start(&Extras::default())?;
        }
        let [without_trips, after_trips] = self.form.spec().ends;
        let end = if self.written == 0 { without_trips } else { after_trips };
        self.out.write_all(end.as_bytes())?;
        self.out.flush()?;
        Ok(self.written)
    }

    fn write_start(&mut self, extras: &Extras) -> Result<(), ViewError> {
        let start = (self.form.spec().start)(extras);
        self.out.write_all(start.as_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
