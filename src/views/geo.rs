//! Trips as GeoJSON features.

use serde::Serialize;

use super::ViewError;
use super::form::{FormSpec, Frame, Layout, PathRule};
use super::json::json;
use super::trip_json::{Answer, read_path, reading};
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
    suffixes: &["geojson", "json"],
    help: "One FeatureCollection",
    media_type: Some("application/geo+json"),
    list_type: Some("application/geo+json"),
    path: PathRule::Always,
    trips: Layout::Text(COLLECTION, |trip| {
        Ok(json(&Feature::from_row(trip.row, &trip.answer, trip.tolerance_m)?))
    }),
    points: None,
};

/// The same for the trip layer of kepler.gl, which animates positions whose fourth coordinate is a
/// time.
pub(super) static KEPLER: FormSpec = FormSpec {
    name: "kepler",
    suffixes: &["geojson", "json"],
    help: "One FeatureCollection with times as the fourth coordinate",
    media_type: None,
    list_type: None,
    path: PathRule::Always,
    trips: Layout::Text(COLLECTION, |trip| {
        let path = read_path(trip.row, &trip.answer.trip.id, trip.tolerance_m)?;
        let geometry = Geometry::animated(&path);
        Ok(json(&Feature::new(&trip.answer, geometry)))
    }),
    points: None,
};

/// The properties of a feature.
pub(super) type Properties = serde_json::Map<String, serde_json::Value>;

/// A trip as a GeoJSON feature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Feature {
    /// Always `Feature`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Text id.
    pub id: String,
    /// West, south, east, north, degrees.
    pub bbox: [f64; 4],
    /// The path of the trip.
    pub geometry: Geometry,
    /// The fields of the trip, without those that the geometry and the bbox already hold, and
    /// `coordTimes`: the time of each position.
    pub properties: Properties,
}

/// A path as a GeoJSON geometry; positions are longitude, latitude and, where reported, altitude.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", content = "coordinates")]
pub(crate) enum Geometry {
    /// A path of one sample.
    Point(Vec<f64>),
    /// A path of two or more samples.
    LineString(Vec<Vec<f64>>),
}

impl Geometry {
    /// The geometry of a path.
    #[must_use]
    pub(crate) fn from_path(path: &Path) -> Self {
        let position = |sample: &Sample| {
            let mut position = vec![sample.lon(), sample.lat()];
            position.extend(reading(ReadingKind::Altitude, sample));
            position
        };
        match path.len() {
            1 => Self::Point(position(path.first())),
            _ => Self::LineString(path.iter().map(|sample| position(&sample)).collect()),
        }
    }

    /// The geometry of a path for kepler.gl: longitude, latitude, altitude (0 where it is not
    /// reported), ms since 1970. Always a line, since any other geometry in a file keeps it from
    /// being animated: that of one sample has its position twice.
    fn animated(path: &Path) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a time far below 2^53 ms")]
        let position = |sample: &Sample| {
            let altitude_m = reading(ReadingKind::Altitude, sample).unwrap_or(0.0);
            vec![sample.lon(), sample.lat(), altitude_m, sample.time_ms.ms() as f64]
        };
        let mut positions: Vec<_> = path.iter().map(|sample| position(&sample)).collect();
        if let [only] = &positions[..] {
            positions.push(only.clone());
        }
        Self::LineString(positions)
    }
}

impl Feature {
    /// The feature of a row and its answer. `tolerance_m`, in metres, simplifies the path.
    ///
    /// # Errors
    /// The path cannot be read.
    pub(crate) fn from_row(
        row: &TripRow,
        answer: &Answer<'_>,
        tolerance_m: Option<f64>,
    ) -> Result<Self, ViewError> {
        let path = read_path(row, &answer.trip.id, tolerance_m)?;
        let mut feature = Self::new(answer, Geometry::from_path(&path));
        let times = path.iter().map(|sample| format_time(sample.time_ms.ms()).into()).collect();
        feature.properties.insert("coordTimes".into(), serde_json::Value::Array(times));
        Ok(feature)
    }

    fn new(answer: &Answer<'_>, geometry: Geometry) -> Self {
        let (id, bbox) = (answer.trip.id.clone(), answer.trip.bbox);
        Self { kind: "Feature", id, bbox, geometry, properties: properties(answer) }
    }
}

/// The fields of a trip, without those that a geometry and its bbox hold.
pub(super) fn properties(answer: &Answer<'_>) -> Properties {
    let fields = serde_json::to_value(answer).expect("an answer is plain data");
    let serde_json::Value::Object(mut fields) = fields else {
        unreachable!("an answer is an object");
    };
    for field_of_geometry in ["start", "end", "bbox", "path"] {
        fields.remove(field_of_geometry);
    }
    fields
}
