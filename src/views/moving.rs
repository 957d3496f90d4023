//! Trips as OGC Moving Features JSON (19-045r3).

use serde::Serialize;

use super::form::{FormSpec, Frame, Layout, PathRule};
use super::geo::{Properties, properties};
use super::json::json;
use super::trip_json::{Answer, read_path, reading};
use crate::model::time::format_time;
use crate::timeline::{Path, ReadingKind, Sample};

/// One `FeatureCollection` with a moving point for each trip.
pub(super) static MF_JSON: FormSpec = FormSpec {
    name: "mfjson",
    suffixes: &["mfjson", "geojson", "json"],
    help: "One collection of OGC Moving Features JSON",
    media_type: None,
    list_type: None,
    path: PathRule::Always,
    trips: Layout::Text(
        Frame { start: |_| HEAD.to_owned(), separators: ["\n", ",\n"], ends: ["]}\n", "\n]}\n"] },
        |trip| {
            let path = read_path(trip.row, &trip.answer.trip.id, trip.tolerance_m)?;
            Ok(json(&MovingFeature::new(&trip.answer, &path)))
        },
    ),
    points: None,
};

/// Start of a collection, with the reference systems of the standard.
const HEAD: &str = concat!(
    r#"{"type":"FeatureCollection","crs":{"type":"Name","properties":"#,
    r#"{"name":"urn:ogc:def:crs:OGC:1.3:CRS84"}},"trs":{"type":"Link","properties":"#,
    r#"{"type":"OGCDEF","href":"http://www.opengis.net/def/uom/ISO-8601/0/Gregorian"}},"#,
    r#""features":["#
);

/// A trip.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MovingFeature {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    bbox: [f64; 4],
    /// First and last time.
    time: [String; 2],
    temporal_geometry: MovingPoint,
    temporal_properties: Vec<Properties>,
    properties: Properties,
}

/// The positions of a trip as [longitude, latitude], degrees.
#[derive(Serialize)]
struct MovingPoint {
    #[serde(rename = "type")]
    kind: &'static str,
    datetimes: Vec<String>,
    coordinates: Vec<[f64; 2]>,
    interpolation: &'static str,
}

/// The readings of one kind.
#[derive(Serialize)]
struct Measures {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Unit, by its code in UN/CEFACT's list.
    form: &'static str,
    values: Vec<f64>,
    interpolation: &'static str,
}

impl MovingFeature {
    fn new(answer: &Answer<'_>, path: &Path) -> Self {
        let trip = &answer.trip;
        // A heading passes from 359 to 0 degrees, so nothing lies between two of them.
        let kinds = [
            (ReadingKind::Speed, "MTS", "Linear"),
            (ReadingKind::Heading, "DD", "Discrete"),
            (ReadingKind::Altitude, "MTR", "Linear"),
        ];
        let measured = kinds.into_iter().filter_map(|kind| measures(path, kind));
        Self {
            kind: "Feature",
            id: trip.id.clone(),
            bbox: trip.bbox,
            time: [trip.start_time.clone(), trip.end_time.clone()],
            temporal_geometry: MovingPoint {
                kind: "MovingPoint",
                datetimes: path.iter().map(|sample| format_time(sample.time_ms.ms())).collect(),
                coordinates: path.iter().map(|sample| [sample.lon(), sample.lat()]).collect(),
                interpolation: "Linear",
            },
            temporal_properties: measured.collect(),
            properties: properties(answer),
        }
    }
}

/// The readings of one kind with their times; `None` if no sample has one.
fn measures(
    path: &Path,
    (kind, form, interpolation): (ReadingKind, &'static str, &'static str),
) -> Option<Properties> {
    let read = |sample: Sample| Some((format_time(sample.time_ms.ms()), reading(kind, &sample)?));
    let (times, values): (Vec<String>, Vec<f64>) = path.iter().filter_map(read).unzip();
    if times.is_empty() {
        return None;
    }
    let measures = Measures { kind: "Measure", form, values, interpolation };
    let measures = serde_json::to_value(&measures).expect("it is plain data");
    Some(
        [("datetimes".to_owned(), times.into()), (kind.name().to_owned(), measures)]
            .into_iter()
            .collect(),
    )
}
