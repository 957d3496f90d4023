//! The summary of an import.

use std::collections::BTreeMap;

use serde::Serialize;
use tstar::pipeline::processor::SampleCounts;

use super::table;

/// The summary as JSON. Clients parse it: names and order are fixed.
#[derive(Debug, Serialize)]
pub struct Summary {
    delivered: u64,
    #[serde(flatten)]
    samples: SampleSummary,
    arrivals: ArrivalReport,
    trips: Option<u64>,
    ids_retired: u64,
    key_changes: KeyChanges,
}

/// The summary of `tstar run` as JSON: that of an import, and the writes.
#[derive(Debug, Serialize)]
pub struct RunSummary {
    #[serde(flatten)]
    summary: Summary,
    trips_written: u64,
    flushes: u64,
}

impl RunSummary {
    /// The summary of a run. The store's total is unknown: other instances write to it, too.
    pub fn new(counts: &SampleCounts) -> Self {
        let summary = Summary::new(counts, None);
        Self { summary, trips_written: counts.trips_written, flushes: counts.flushes }
    }
}

#[derive(Debug, Serialize)]
struct ArrivalReport {
    new: u64,
    end: u64,
    inside: u64,
    beginning: u64,
    merge: u64,
}

#[derive(Debug, Serialize)]
struct KeyChanges {
    t_star: u64,
    start: u64,
    end: u64,
    start_end: u64,
}

/// Counts of samples by result as JSON, without counts of trips.
#[derive(Debug, Serialize)]
pub struct SampleSummary {
    applied: u64,
    duplicates: u64,
    conflicting: u64,
    dropped: BTreeMap<&'static str, u64>,
    dead_letters: BTreeMap<&'static str, u64>,
}

impl SampleSummary {
    /// The counts of a run.
    pub fn new(counts: &SampleCounts) -> Self {
        Self {
            applied: counts.applied,
            duplicates: counts.duplicates,
            conflicting: counts.conflicting,
            dropped: counts.dropped.iter().map(|(reason, n)| (reason.name(), *n)).collect(),
            dead_letters: counts
                .dead_letters
                .iter()
                .map(|(reason, n)| (reason.name(), *n))
                .collect(),
        }
    }

    /// Name and value of each line of the table.
    pub fn pairs(&self) -> [(&'static str, String); 4] {
        [
            ("  applied", self.applied.to_string()),
            ("  duplicates", format!("{} ({} conflicting)", self.duplicates, self.conflicting)),
            ("  dropped", by_reason(&self.dropped)),
            ("  dead letters", by_reason(&self.dead_letters)),
        ]
    }
}

impl Summary {
    /// The summary of a run; `trips` is the store's total, if known.
    pub fn new(counts: &SampleCounts, trips: Option<u64>) -> Self {
        let (arrivals, keys) = (counts.arrivals, counts.arrivals.key_changes());
        Self {
            delivered: counts.delivered,
            samples: SampleSummary::new(counts),
            arrivals: ArrivalReport {
                new: arrivals.new,
                end: arrivals.end,
                inside: arrivals.inside,
                beginning: arrivals.beginning,
                merge: arrivals.merge,
            },
            trips,
            ids_retired: arrivals.merge,
            key_changes: KeyChanges {
                t_star: keys.t_star,
                start: keys.start,
                end: keys.end,
                start_end: keys.start_end,
            },
        }
    }

    /// The summary as a table.
    pub fn table(&self) -> String {
        let trips = self.trips.map_or_else(|| "-".into(), |count| count.to_string());
        let mut pairs = vec![("samples delivered", self.delivered.to_string())];
        pairs.extend(self.samples.pairs());
        pairs
            .extend([("trips in the store", trips), ("ids retired", self.ids_retired.to_string())]);
        let mut text = table::pairs(&pairs);
        let joined = self.arrivals.end
            + self.arrivals.inside
            + self.arrivals.beginning
            + self.arrivals.merge;
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
        text += "\n\nSamples that joined a trip:\n";
        let arrivals = [
            ("extended its end", self.arrivals.end),
            ("fell inside", self.arrivals.inside),
            ("extended its beginning", self.arrivals.beginning),
            ("joined two trips", self.arrivals.merge),
        ];
        text += &table::counts("arrival", &rows(&arrivals));
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

fn by_reason(counts: &BTreeMap<&'static str, u64>) -> String {
    if counts.is_empty() {
        return "0".into();
    }
    let each: Vec<_> = counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    format!("{} ({})", counts.values().sum::<u64>(), each.join(", "))
}
