//! Writes trips one after another in an output format.

use std::io::Write;

use super::geo::{Feature, GPX_HEAD, GPX_TAIL, gpx_track};
use super::trip_json::Answer;
use super::{Extras, TripJson, ViewError};
use crate::codec::trip_row::TripRow;

/// A machine-readable output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object per line.
    Ndjson,
    /// One JSON array.
    Json,
    /// CSV with a header line.
    Csv,
    /// One GeoJSON `FeatureCollection`.
    GeoJson,
    /// One GPX 1.1 file.
    Gpx,
}

/// CSV columns; those of [`Extras`] that are set follow them.
const COLUMNS: [&str; 21] = [
    "id",
    "device_id",
    "t_star",
    "start_time",
    "end_time",
    "duration_s",
    "samples",
    "distance_m",
    "avg_speed_mps",
    "max_speed_mps",
    "driver",
    "start_lat",
    "start_lon",
    "end_lat",
    "end_lon",
    "bbox_west",
    "bbox_south",
    "bbox_east",
    "bbox_north",
    "absorbed",
    "version",
];

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
    /// A writer of `form`. `with_path` adds the samples to the JSON formats; GeoJSON and GPX always
    /// have them, CSV never.
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
        let mut trip = TripJson::from_row(row)?;
        if self.with_path && matches!(self.form, Form::Ndjson | Form::Json) {
            trip = trip.with_path(row, self.tolerance_m)?;
        }
        let answer = Answer { trip, extras };
        let text = match self.form {
            Form::Ndjson | Form::Json => json(&answer),
            Form::GeoJson => json(&Feature::from_row(row, &answer, self.tolerance_m)?),
            Form::Csv => csv_line(&csv_values(&answer)),
            Form::Gpx => gpx_track(row, &answer.trip, self.tolerance_m)?,
        };
        if self.written == 0 {
            self.write_start(extras)?;
        }
        if matches!(self.form, Form::Json | Form::GeoJson) {
            let separator = if self.written == 0 { "\n" } else { ",\n" };
            self.out.write_all(separator.as_bytes())?;
        }
        self.out.write_all(text.as_bytes())?;
        if self.form == Form::Ndjson {
            self.out.write_all(b"\n")?;
        }
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
        let tail = match self.form {
            Form::Ndjson | Form::Csv => "",
            Form::Json if self.written == 0 => "]\n",
            Form::Json => "\n]\n",
            Form::GeoJson if self.written == 0 => "]}\n",
            Form::GeoJson => "\n]}\n",
            Form::Gpx => GPX_TAIL,
        };
        self.out.write_all(tail.as_bytes())?;
        self.out.flush()?;
        Ok(self.written)
    }

    fn write_start(&mut self, extras: &Extras) -> Result<(), ViewError> {
        let head = match self.form {
            Form::Ndjson => String::new(),
            Form::Json => "[".to_owned(),
            Form::GeoJson => "{\"type\":\"FeatureCollection\",\"features\":[".to_owned(),
            Form::Csv => {
                let columns = COLUMNS.iter().map(|name| (*name).to_owned());
                let extra = extra_values(extras).into_iter().map(|(name, _)| name.to_owned());
                csv_line(&columns.chain(extra).collect::<Vec<_>>())
            }
            Form::Gpx => GPX_HEAD.to_owned(),
        };
        self.out.write_all(head.as_bytes())?;
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("an answer is plain data")
}

fn extra_values(extras: &Extras) -> Vec<(&'static str, String)> {
    let mut values = Vec::new();
    if let Some(open) = extras.open {
        values.push(("open", open.to_string()));
    }
    if let Some(id) = &extras.requested_id {
        values.push(("requested_id", id.clone()));
    }
    if let Some(matched) = extras.matched {
        values.push(("match", matched.name().to_owned()));
    }
    if let Some(merged) = extras.merged {
        values.push(("merged", merged.to_string()));
    }
    values
}

/// The values of [`COLUMNS`] and of the extras; an absent value is empty.
fn csv_values(answer: &Answer<'_>) -> Vec<String> {
    let trip = &answer.trip;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut values = vec![
        trip.id.clone(),
        trip.device_id.clone(),
        trip.t_star.clone(),
        trip.start_time.clone(),
        trip.end_time.clone(),
        trip.duration_s.to_string(),
        trip.samples.to_string(),
        trip.distance_m.to_string(),
        number(trip.avg_speed_mps),
        number(trip.max_speed_mps),
        trip.driver.clone().unwrap_or_default(),
    ];
    let positions = [trip.start.lat, trip.start.lon, trip.end.lat, trip.end.lon];
    values.extend(positions.iter().chain(&trip.bbox).map(f64::to_string));
    values.push(trip.absorbed.join(" "));
    values.push(trip.version.to_string());
    values.extend(extra_values(answer.extras).into_iter().map(|(_, value)| value));
    values
}

/// One line of CSV, quoted where RFC 4180 requires it.
fn csv_line(values: &[String]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(values).expect("writing to a Vec cannot fail");
    let line = writer.into_inner().expect("writing to a Vec cannot fail");
    String::from_utf8(line).expect("the values are UTF-8")
}

#[cfg(test)]
mod tests;
