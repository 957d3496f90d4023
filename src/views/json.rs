//! Trips and samples as JSON.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::fields::{Kind, POINT_COLUMNS};
use super::form::{FormSpec, Frame, Layout, PathRule, PointView};
use crate::model::zone::Zone;

const LINES: Frame = Frame { start: |_| String::new(), separators: ["", ""], ends: ["", ""] };

const ARRAY: Frame =
    Frame { start: |_| "[".to_owned(), separators: ["\n", ",\n"], ends: ["]\n", "\n]\n"] };

/// One object per line.
pub(super) static NDJSON: FormSpec = FormSpec {
    name: "ndjson",
    suffixes: &["ndjson", "jsonl"],
    help: "One JSON object per line",
    media_type: None,
    list_type: Some("application/x-ndjson"),
    path: PathRule::OnRequest,
    trips: Layout::Text(LINES, |trip| Ok(json(&trip.answer) + "\n")),
    points: Some(Layout::Text(LINES, |point| json(&PointJson(point)) + "\n")),
};

/// One array.
pub(super) static JSON: FormSpec = FormSpec {
    name: "json",
    suffixes: &["json"],
    help: "One JSON value",
    media_type: None,
    list_type: None,
    path: PathRule::OnRequest,
    trips: Layout::Text(ARRAY, |trip| Ok(json(&trip.answer))),
    points: Some(Layout::Text(ARRAY, |point| json(&PointJson(point)))),
};

/// A sample of a trip.
struct PointJson<'a>(&'a PointView<'a>);

impl Serialize for PointJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(POINT_COLUMNS.len()))?;
        for column in &POINT_COLUMNS {
            match (column.read)(self.0) {
                Some(time) if column.kind == Kind::Time => {
                    map.serialize_entry(column.name, &column.text(&time, Zone::UTC))?;
                }
                value => map.serialize_entry(column.name, &value)?,
            }
        }
        map.end()
    }
}

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("an answer is plain data")
}
