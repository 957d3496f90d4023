//! Trips for maps: GeoJSON features and GPX tracks.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;

use super::trip_json::{Answer, read_path};
use super::{SurfaceError, TripJson};
use crate::model::time::format_time;
use crate::store::TripRow;
use crate::timeline::{Path, Sample};

/// A trip as a GeoJSON feature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Feature {
    /// Always `Feature`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Text id.
    pub id: String,
    /// West, south, east, north, degrees.
    pub bbox: [f64; 4],
    /// The path.
    pub geometry: Geometry,
    /// The trip without what the geometry says.
    pub properties: serde_json::Value,
}

/// A path as a GeoJSON geometry; positions are longitude, latitude and, where reported, altitude.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", content = "coordinates")]
pub enum Geometry {
    /// A path of one sample.
    Point(Vec<f64>),
    /// A longer one.
    LineString(Vec<Vec<f64>>),
}

fn altitude_m(sample: &Sample) -> Option<f64> {
    sample.altitude_dm.get().map(|decimetres| f64::from(decimetres) / 10.0)
}

impl Geometry {
    /// The geometry of a path.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        let position = |sample: &Sample| {
            let mut position = vec![sample.lon(), sample.lat()];
            position.extend(altitude_m(sample));
            position
        };
        match path.len() {
            1 => Self::Point(position(path.first())),
            _ => Self::LineString(path.iter().map(|sample| position(&sample)).collect()),
        }
    }
}

impl Feature {
    /// The feature of a row and its answer, its path simplified where a tolerance, m, is given.
    ///
    /// # Errors
    /// The path cannot be read.
    pub fn from_row(
        row: &TripRow,
        answer: &Answer<'_>,
        tolerance_m: Option<f64>,
    ) -> Result<Self, SurfaceError> {
        let trip = &answer.trip;
        let geometry = Geometry::from_path(&read_path(row, &trip.id, tolerance_m)?);
        let mut properties = serde_json::to_value(answer).expect("an answer is plain data");
        if let serde_json::Value::Object(fields) = &mut properties {
            for said_by_geometry in ["start", "end", "bbox", "path"] {
                fields.remove(said_by_geometry);
            }
        }
        let (id, bbox) = (trip.id.clone(), trip.bbox);
        Ok(Self { kind: "Feature", id, bbox, geometry, properties })
    }
}

/// What a GPX file begins with.
pub(super) const GPX_HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <gpx version=\"1.1\" creator=\"tstar\" xmlns=\"http://www.topografix.com/GPX/1/1\">\n";

/// What it ends with.
pub(super) const GPX_TAIL: &str = "</gpx>\n";

/// A trip as a GPX track: its id as the name, its device as the source; its path simplified where
/// a tolerance, m, is given.
pub(super) fn gpx_track(
    row: &TripRow,
    trip: &TripJson,
    tolerance_m: Option<f64>,
) -> Result<String, SurfaceError> {
    let path = read_path(row, &trip.id, tolerance_m)?;
    let mut track = format!("<trk>\n<name>{}</name>\n", escaped(&trip.id));
    let mut add = |text: std::fmt::Arguments<'_>| {
        track.write_fmt(text).expect("a String takes every text");
    };
    // GPX fixes the order of these elements.
    if let Some(driver) = &trip.driver {
        add(format_args!("<desc>driver {}</desc>\n", escaped(driver)));
    }
    add(format_args!("<src>{}</src>\n<trkseg>\n", escaped(&trip.device_id)));
    for sample in path.iter() {
        add(format_args!("<trkpt lat=\"{}\" lon=\"{}\">", sample.lat(), sample.lon()));
        if let Some(altitude_m) = altitude_m(&sample) {
            add(format_args!("<ele>{altitude_m}</ele>"));
        }
        add(format_args!("<time>{}</time></trkpt>\n", format_time(sample.time_ms)));
    }
    add(format_args!("</trkseg>\n</trk>\n"));
    Ok(track)
}

/// Text for XML 1.0, which cannot hold most control characters at all: they become U+FFFD.
fn escaped(text: &str) -> Cow<'_, str> {
    let plain = |character: char| {
        !matches!(character, '&' | '<' | '>' | '"' | '\'' | '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}')
    };
    if text.chars().all(plain) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            // As a reference, or a reader would fold them into spaces.
            '\t' | '\n' | '\r' => safe.push_str(&format!("&#{};", u32::from(character))),
            other if plain(other) => safe.push(other),
            _ => safe.push('\u{fffd}'),
        }
    }
    safe.into()
}
