//! Trips for maps: GeoJSON features and GPX tracks.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;

use super::ViewError;
use super::form::{FormSpec, Frame, Layout, PathRule, TripView};
use super::json::json;
use super::trip_json::{Answer, read_path};
use crate::codec::trip_row::TripRow;
use crate::model::time::format_time;
use crate::timeline::{Path, ReadingKind, Sample};

/// The members of a `FeatureCollection`.
const COLLECTION: Frame = Frame {
    start: |_| "{\"type\":\"FeatureCollection\",\"features\":[".to_owned(),
    separators: ["\n", ",\n"],
    ends: ["]}\n", "\n]}\n"],
};

/// One `FeatureCollection` with a feature for each trip.
pub(super) static GEOJSON: FormSpec = FormSpec {
    name: "geojson",
    help: "One FeatureCollection",
    media_type: Some("application/geo+json"),
    path: PathRule::Always,
    trips: Layout::Text(COLLECTION, |trip| {
        Ok(json(&Feature::from_row(trip.row, &trip.answer, trip.tolerance_m)?))
    }),
    points: None,
};

/// One GPX 1.1 file with a track for each trip.
pub(super) static GPX: FormSpec = FormSpec {
    name: "gpx",
    help: "One GPX 1.1 file",
    media_type: Some("application/gpx+xml"),
    path: PathRule::Always,
    trips: Layout::Text(
        Frame { start: |_| GPX_HEAD.to_owned(), separators: ["", ""], ends: [GPX_TAIL, GPX_TAIL] },
        gpx_track,
    ),
    points: None,
};

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
    /// The path of the trip.
    pub geometry: Geometry,
    /// The fields of the trip, without those that the geometry and the bbox already hold.
    pub properties: serde_json::Value,
}

/// A path as a GeoJSON geometry; positions are longitude, latitude and, where reported, altitude.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", content = "coordinates")]
pub enum Geometry {
    /// A path of one sample.
    Point(Vec<f64>),
    /// A path of two or more samples.
    LineString(Vec<Vec<f64>>),
}

fn altitude_m(sample: &Sample) -> Option<f64> {
    sample.altitude_dm.get().map(|quanta| ReadingKind::Altitude.in_units(quanta))
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
    /// The feature of a row and its answer. `tolerance_m`, in metres, simplifies the path.
    ///
    /// # Errors
    /// The path cannot be read.
    pub fn from_row(
        row: &TripRow,
        answer: &Answer<'_>,
        tolerance_m: Option<f64>,
    ) -> Result<Self, ViewError> {
        let trip = &answer.trip;
        let geometry = Geometry::from_path(&read_path(row, &trip.id, tolerance_m)?);
        let mut properties = serde_json::to_value(answer).expect("an answer is plain data");
        if let serde_json::Value::Object(fields) = &mut properties {
            for field_of_geometry in ["start", "end", "bbox", "path"] {
                fields.remove(field_of_geometry);
            }
        }
        let (id, bbox) = (trip.id.clone(), trip.bbox);
        Ok(Self { kind: "Feature", id, bbox, geometry, properties })
    }
}

/// Start of a GPX file.
const GPX_HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <gpx version=\"1.1\" creator=\"tstar\" xmlns=\"http://www.topografix.com/GPX/1/1\">\n";

/// End of a GPX file.
const GPX_TAIL: &str = "</gpx>\n";

/// A trip as a GPX track: the id is its name, the device its source.
fn gpx_track(view: &TripView<'_>) -> Result<String, ViewError> {
    let trip = &view.answer.trip;
    let path = read_path(view.row, &trip.id, view.tolerance_m)?;
    let mut track = format!("<trk>\n<name>{}</name>\n", escaped(&trip.id));
    let mut add = |text: std::fmt::Arguments<'_>| {
        track.write_fmt(text).expect("writing to a String cannot fail");
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
        add(format_args!("<time>{}</time></trkpt>\n", format_time(sample.time_ms.ms())));
    }
    add(format_args!("</trkseg>\n</trk>\n"));
    Ok(track)
}

/// Escapes text for XML 1.0. XML cannot hold most control characters: they become U+FFFD.
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
            // As character references: parsers turn literal ones into spaces.
            '\t' | '\n' | '\r' => safe.push_str(&format!("&#{};", u32::from(character))),
            other if plain(other) => safe.push(other),
            _ => safe.push('\u{fffd}'),
        }
    }
    safe.into()
}
