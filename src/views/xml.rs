//! Trips as XML: GPX and KML tracks.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use serde_json::Value;

use super::form::{FormSpec, Frame, Layout, PathRule, TripView};
use super::geo::properties;
use super::trip_json::{read_path, reading};
use super::{Extras, ViewError};
use crate::model::time::format_time;
use crate::timeline::ReadingKind;

/// One GPX 1.1 file with a track for each trip. Speed and course are in the extension that most
/// programs read, Garmin's.
pub(super) static GPX: FormSpec = FormSpec {
    name: "gpx",
    suffixes: &["gpx"],
    help: "One GPX 1.1 file",
    media_type: Some("application/gpx+xml"),
    list_type: Some("application/gpx+xml"),
    path: PathRule::Always,
    trips: Layout::Text(document(|_| GPX_HEAD.to_owned(), GPX_TAIL), gpx_track),
    points: None,
};

/// One KML 2.2 file with a track for each trip, which Google Earth animates.
pub(super) static KML: FormSpec = FormSpec {
    name: "kml",
    suffixes: &["kml"],
    help: "One KML 2.2 file",
    media_type: None,
    list_type: None,
    path: PathRule::Always,
    trips: Layout::Text(document(|_| KML_HEAD.to_owned(), KML_TAIL), kml_placemark),
    points: None,
};

const fn document(start: fn(&Extras) -> String, end: &'static str) -> Frame {
    Frame { start, separators: ["", ""], ends: [end, end] }
}

/// Start of a GPX file. GPX 1.1 itself has neither speed nor course.
const GPX_HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <gpx version=\"1.1\" creator=\"tstar\" xmlns=\"http://www.topografix.com/GPX/1/1\" \
    xmlns:gpxtpx=\"http://www.garmin.com/xmlschemas/TrackPointExtension/v2\">\n";

/// End of a GPX file.
const GPX_TAIL: &str = "</gpx>\n";

/// A trip as a GPX track: the id is its name, the device its source.
fn gpx_track(view: &TripView<'_>) -> Result<String, ViewError> {
    let trip = &view.answer.trip;
    let path = read_path(view.row, &trip.id, view.tolerance_m)?;
    let mut track = format!("<trk>\n<name>{}</name>\n", escaped(&trip.id));
    // GPX fixes the order of these elements.
    if let Some(driver) = &trip.driver {
        track += &format!("<desc>driver {}</desc>\n", escaped(driver));
    }
    track += &format!("<src>{}</src>\n<trkseg>\n", escaped(&trip.device_id));
    for sample in path.iter() {
        track += &format!("<trkpt lat=\"{}\" lon=\"{}\">", sample.lat(), sample.lon());
        add_element(&mut track, "ele", reading(ReadingKind::Altitude, &sample));
        add_element(&mut track, "time", Some(format_time(sample.time_ms.ms())));
        let speed_mps = reading(ReadingKind::Speed, &sample);
        let heading_deg = reading(ReadingKind::Heading, &sample);
        if speed_mps.is_some() || heading_deg.is_some() {
            track += "<extensions><gpxtpx:TrackPointExtension>";
            add_element(&mut track, "gpxtpx:speed", speed_mps);
            add_element(&mut track, "gpxtpx:course", heading_deg);
            track += "</gpxtpx:TrackPointExtension></extensions>";
        }
        track += "</trkpt>\n";
    }
    Ok(track + "</trkseg>\n</trk>\n")
}

/// Adds an element without attributes, if there is a value; it must not need to be escaped.
fn add_element(text: &mut String, name: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        write!(text, "<{name}>{value}</{name}>").expect("writing to a String cannot fail");
    }
}

/// Start of a KML file.
const KML_HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <kml xmlns=\"http://www.opengis.net/kml/2.2\" \
    xmlns:gx=\"http://www.google.com/kml/ext/2.2\">\n<Document>\n";

/// End of a KML file.
const KML_TAIL: &str = "</Document>\n</kml>\n";

/// A trip as a KML placemark with a track: the id is its name, its other fields are data of it.
fn kml_placemark(view: &TripView<'_>) -> Result<String, ViewError> {
    let answer = &view.answer;
    let path = read_path(view.row, &answer.trip.id, view.tolerance_m)?;
    let mut mark = format!("<Placemark>\n<name>{}</name>\n", escaped(&answer.trip.id));
    mark += "<ExtendedData>\n";
    for (name, value) in properties(answer) {
        let value = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Array(ids) => ids.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            other => other.to_string(),
        };
        let value = escaped(&value);
        mark += &format!("<Data name=\"{name}\"><value>{value}</value></Data>\n");
    }
    mark += "</ExtendedData>\n<gx:Track>\n";
    for sample in path.iter() {
        mark += &format!("<when>{}</when>\n", format_time(sample.time_ms.ms()));
    }
    for sample in path.iter() {
        let altitude_m = reading(ReadingKind::Altitude, &sample).unwrap_or(0.0);
        let (lon, lat) = (sample.lon(), sample.lat());
        mark += &format!("<gx:coord>{lon} {lat} {altitude_m}</gx:coord>\n");
    }
    Ok(mark + "</gx:Track>\n</Placemark>\n")
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
