//! The summary of an import, and that of a daemon.

use std::collections::BTreeMap;

use clap::ValueEnum;

use crate::ops::ingest::{ImportProblem, IngestOutcome, Warning, conflicting};
use crate::pipeline::processor::{ArrivalCounts, KeyChanges, SampleCounts};
use crate::segment::Arrival;
use crate::telemetry::counts::ReportedCount;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::table;

/// Output format of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummaryFormat {
    /// Human-readable table
    Table,
    /// One JSON object
    Json,
}

/// Counts for people, and as JSON for programs.
pub(crate) trait Counts: Serialize {
    /// The counts as a table.
    fn table(&self) -> String;
}

/// The summary as JSON. Clients parse it: names and order are fixed.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    delivered: u64,
    #[serde(flatten)]
    samples: SampleSummary,
    #[serde(serialize_with = "by_kind")]
    arrivals: ArrivalCounts,
    trips: Option<u64>,
    ids_retired: u64,
    key_changes: KeyChanges,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<ImportProblem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

/// The summary of `tstar run` as JSON: that of an import, and the writes.
#[derive(Debug, Serialize)]
pub(crate) struct RunSummary {
    #[serde(flatten)]
    summary: Summary,
    trips_written: u64,
    flushes: u64,
}

impl RunSummary {
    /// What is hardly meant so.
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.summary.warnings
    }

    /// The summary of a run. The store's total is unknown: other instances write to it, too.
    pub(crate) fn new(counts: &SampleCounts) -> Self {
        let warnings = conflicting(counts).into_iter().collect();
        let summary = Summary { warnings, ..Summary::new(counts, None) };
        Self { summary, trips_written: counts.trips_written, flushes: counts.flushes }
    }
}

impl Counts for RunSummary {
    fn table(&self) -> String {
        let trips = [("trips written", self.trips_written), ("flushes", self.flushes)];
        self.summary.table_with(&trips.map(|(name, count)| (name, count.to_string())))
    }
}

/// Counts of samples by result, without counts of trips.
#[derive(Debug)]
pub(crate) struct SampleSummary {
    /// Each with its heading in tables.
    counts: Vec<(String, ReportedCount)>,
    dropped: BTreeMap<&'static str, u64>,
    dead_letters: BTreeMap<&'static str, u64>,
    /// By reading; shown only if there are any.
    unknown_readings: BTreeMap<&'static str, u64>,
}

impl SampleSummary {
    /// The counts of a run.
    pub(crate) fn new(counts: &SampleCounts) -> Self {
        let with_heading = |it: ReportedCount| (format!("  {}", it.name), it);
        Self {
            counts: counts.reported().into_iter().map(with_heading).collect(),
            dropped: counts.dropped.iter().map(|(reason, n)| (reason.name(), *n)).collect(),
            dead_letters: counts
                .dead_letters
                .iter()
                .map(|(reason, n)| (reason.name(), *n))
                .collect(),
            unknown_readings: counts.unknown_readings.clone(),
        }
    }

    /// Name and value of each line of the table.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, String)> {
        let counts = self.counts.iter().map(|(heading, it)| (heading.as_str(), with_parts(it)));
        let pairs = counts.chain([
            ("  dropped", by_reason(&self.dropped)),
            ("  dead letters", by_reason(&self.dead_letters)),
        ]);
        let unknown = Some(("  unknown readings", by_reason(&self.unknown_readings)));
        pairs.chain(unknown.filter(|_| !self.unknown_readings.is_empty()))
    }
}

impl Serialize for SampleSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (_, it) in &self.counts {
            for (name, count) in [(it.name, it.count)].iter().chain(&it.of_which) {
                map.serialize_entry(name, count)?;
            }
        }
        map.serialize_entry("dropped", &self.dropped)?;
        map.serialize_entry("dead_letters", &self.dead_letters)?;
        if !self.unknown_readings.is_empty() {
            map.serialize_entry("unknown_readings", &self.unknown_readings)?;
        }
        map.end()
    }
}

fn by_kind<S: Serializer>(arrivals: &ArrivalCounts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(arrivals.by_kind().map(|(kind, count)| (kind.name(), count)))
}

impl Summary {
    /// The summary of a run; `trips` is the store's total, if known.
    pub(crate) fn new(counts: &SampleCounts, trips: Option<u64>) -> Self {
        Self {
            delivered: counts.delivered,
            samples: SampleSummary::new(counts),
            arrivals: counts.arrivals,
            trips,
            ids_retired: counts.arrivals.number_of(Arrival::Merge),
            key_changes: counts.arrivals.key_changes(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The summary of an import.
    pub(crate) fn of_import(outcome: &IngestOutcome) -> Self {
        let (problems, warnings) = (outcome.problems.clone(), outcome.warnings.clone());
        Self { problems, warnings, ..Self::new(&outcome.counts, Some(outcome.trips)) }
    }

    /// The table, with these counts of trips.
    fn table_with(&self, trips: &[(&'static str, String)]) -> String {
        let mut pairs = vec![("samples delivered", self.delivered.to_string())];
        pairs.extend(self.samples.pairs());
        pairs.extend_from_slice(trips);
        pairs.push(("ids retired", self.ids_retired.to_string()));
        let mut text = table::pairs(&pairs);
        let joined = self.arrivals.joined();
        let share = |count: u64| {
            #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
            let share = 100.0 * count as f64 / joined.max(1) as f64;
            [count.to_string(), format!("{share:.1} %")]
        };
        let rows = |pairs: &[(&str, u64)]| {
            let row = |&(name, count): &(&str, u64)| {
                let [count, share] = share(count);
                [name.to_owned(), count, share]
            };
            pairs.iter().map(row).collect::<Vec<_>>()
        };
        text += "\n\nSamples that joined a trip or stop, and what each did:\n";
        let arrivals = self.arrivals.by_kind();
        let arrivals = arrivals.filter_map(|(kind, count)| Some((effect_on_trip(kind)?, count)));
        text += &table::counts("arrival", &rows(&arrivals.collect::<Vec<_>>()));
        text += "\n\nArrivals that change a trip's key, by the columns of the key:\n";
        let keys = [
            ("device + t_star", self.key_changes.t_star),
            ("device + start", self.key_changes.start),
            ("device + end", self.key_changes.end),
            ("device + start + end", self.key_changes.start_end),
        ];
        text + &table::counts("key", &rows(&keys))
    }
}

impl Counts for Summary {
    fn table(&self) -> String {
        let trips = self.trips.map_or_else(|| "-".into(), |count| count.to_string());
        self.table_with(&[("trips in the store", trips)])
    }
}

/// What a sample that joined a trip or stop did to it; `None` for one that started one.
fn effect_on_trip(kind: Arrival) -> Option<&'static str> {
    match kind {
        Arrival::New => None,
        Arrival::End => Some("extended its end"),
        Arrival::Inside => Some("fell inside"),
        Arrival::Beginning => Some("extended its beginning"),
        Arrival::Merge => Some("joined it to another"),
        Arrival::Split => Some("divided it"),
        Arrival::Turn => Some("made a stop of it, or of a stop"),
    }
}

/// A count, and how many of it have some property.
fn with_parts(it: &ReportedCount) -> String {
    let parts: Vec<_> = it.of_which.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if parts.is_empty() {
        return it.count.to_string();
    }
    format!("{} ({})", it.count, parts.join(", "))
}

fn by_reason(counts: &BTreeMap<&'static str, u64>) -> String {
    if counts.is_empty() {
        return "0".into();
    }
    let each: Vec<_> = counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    format!("{} ({})", counts.values().sum::<u64>(), each.join(", "))
}
