//! How output formats are described.

use super::trip_json::Answer;
use super::{Extras, Form, ViewError};
use crate::codec::trip_row::TripRow;
use crate::model::zone::Zone;
use crate::timeline::Sample;

impl Form {
    /// The names of the formats with a property.
    #[must_use]
    pub fn names(has: impl Fn(&FormSpec) -> bool) -> Vec<&'static str> {
        let specs = Self::ALL.into_iter().map(Self::spec).filter(|spec| has(spec));
        specs.map(|spec| spec.name).collect()
    }

    /// The format of a file by the suffix of its name; `None` if no format has it.
    #[must_use]
    pub(crate) fn of_suffix(suffix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.spec().has_suffix(suffix))
    }
}

/// A list in a sentence, such as `a, b or c`.
#[must_use]
pub(crate) fn enumerated<T: AsRef<str>>(items: &[T], word: &str) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} {word} {last}", others.join(", "))
        }
        _ => items.concat(),
    }
}

/// Whether a format has the samples of its trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRule {
    /// It cannot hold samples.
    Never,
    /// If they are asked for.
    OnRequest,
    /// The format consists of them.
    Always,
}

/// How a format is called, and how it is written.
#[derive(Debug)]
pub struct FormSpec {
    /// Name in `--format`; with a dot before it, the suffix that selects the format in a URL.
    pub name: &'static str,
    /// Suffixes of files in it, without the dot. A suffix selects the first format that has it.
    pub suffixes: &'static [&'static str],
    /// What it is, in one line.
    pub help: &'static str,
    /// Media type, if the HTTP API serves a single trip in this format.
    pub media_type: Option<&'static str>,
    /// Media type, if the HTTP API serves lists in this format besides JSON.
    pub list_type: Option<&'static str>,
    /// Whether it has the samples.
    pub path: PathRule,
    /// How a row for each trip is written.
    pub(super) trips: Layout<TripText>,
    /// How a row for each sample is written, if it can hold samples without a trip around them.
    pub(super) points: Option<Layout<PointText>>,
}

impl FormSpec {
    /// Whether a row of it can be a sample.
    #[must_use]
    pub(crate) fn has_points(&self) -> bool {
        self.points.is_some()
    }

    /// Whether a file in it may have this suffix.
    #[must_use]
    pub(crate) fn has_suffix(&self, suffix: &str) -> bool {
        self.suffixes.iter().any(|own| own.eq_ignore_ascii_case(suffix))
    }

    /// Whether it is not text.
    #[must_use]
    pub(crate) fn is_binary(&self) -> bool {
        matches!(self.trips, Layout::Table)
    }
}

/// The text of a trip.
pub(super) type TripText = fn(&TripView<'_>) -> Result<String, ViewError>;

/// The text of a sample.
pub(super) type PointText = fn(&PointView<'_>) -> String;

/// How rows are written.
#[derive(Debug)]
pub(super) enum Layout<T> {
    /// As text, one after another.
    Text(Frame, T),
    /// As columns of a Parquet file.
    Table,
}

/// The text around rows.
#[derive(Debug)]
pub(super) struct Frame {
    /// The text before the first row.
    pub start: fn(&Extras) -> String,
    /// What comes before the first row, and before every other.
    pub separators: [&'static str; 2],
    /// What comes at the end without any row, and after rows.
    pub ends: [&'static str; 2],
}

/// A trip to be written.
pub(super) struct TripView<'a> {
    /// Its row.
    pub row: &'a TripRow,
    /// The trip as an answer; with samples if the format may have them and they were asked for.
    pub answer: Answer<'a>,
    /// Tolerance of [`simplify`](super::simplify()), m; `None`: complete paths.
    pub tolerance_m: Option<f64>,
    /// Zone of times, in a format that has them in one.
    pub zone: Zone,
}

/// A sample to be written.
#[derive(Clone, Copy)]
pub(super) struct PointView<'a> {
    /// Text id of its trip.
    pub trip_id: &'a str,
    /// Device id.
    pub device_id: &'a str,
    /// The sample.
    pub sample: Sample,
    /// Zone of times, in a format that has them in one.
    pub zone: Zone,
}
