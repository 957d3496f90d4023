//! Trips as JSON.

use super::form::{FormSpec, PathRule, TripView};

/// One object per line.
pub(super) static NDJSON: FormSpec = FormSpec {
    name: "ndjson",
    help: "One JSON object per line",
    media_type: None,
    path: PathRule::OnRequest,
    start: |_| String::new(),
    trip: |trip| Ok(json(&trip.answer) + "\n"),
    separators: ["", ""],
    ends: ["", ""],
};

/// One array.
pub(super) static JSON: FormSpec = FormSpec {
    name: "json",
    help: "One JSON value",
    media_type: None,
    path: PathRule::OnRequest,
    start: |_| "[".to_owned(),
    trip: |trip: &TripView<'_>| Ok(json(&trip.answer)),
    separators: ["\n", ",\n"],
    ends: ["]\n", "\n]\n"],
};

/// A value as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("an answer is plain data")
}
