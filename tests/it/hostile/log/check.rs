//! The expected results of a run: the trips of the literal model, each bad sample among the dead
//! letters, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use chrono::DateTime;
use rusqlite::Connection;
use serde_json::Value;
use tstar::internals::identity::TripId;

use super::site::{FILE, Sent, Site};
use crate::cli::{number, sum};
use tstar_sim::model::literal::{Device, Did, Limits, Trip};
use tstar_sim::model::{Class, Fix};

/// The defaults of the program.
const LIMITS: Limits = Limits { max_gap: 300_000, min_stop: Some(300_000), max_samples: 100_000 };

/// A record with more bad elements than this may have one dead letter for all of them.
const ALONE: usize = 100;

/// A trip in a form that both sides have: device, span, `t_star`, version, retired `t_star`s, time
/// and latitude of each sample.
type TripSummary = (String, i64, i64, i64, i64, BTreeSet<i64>, Vec<(i64, i32)>);

/// The trips that the literal model builds from the good samples.
#[derive(Default)]
pub struct Model {
    trips: BTreeMap<String, (i32, Device)>,
    applied: u64,
    duplicates: u64,
}

impl Model {
    pub fn from_site(site: &Site) -> Self {
        let mut model = Self::default();
        for (partition, sent) in &site.sent {
            for Sent { offset, made } in sent {
                for good in &made.good {
                    let device = model.trips.entry(good.device.clone());
                    let (of, device) = device.or_insert_with(|| (*partition, Device::new(LIMITS)));
                    assert_eq!(of, partition, "the generator moved {}", good.device);
                    let (time, class) = (good.time_ms, Class::Moving);
                    let fix = Fix { time, place: good.lat_e7, driver: None, class };
                    match device.arrive(*offset, fix) {
                        Did::Duplicate { .. } => model.duplicates += 1,
                        Did::TripFull => panic!("no trip is that long"),
                        _ => model.applied += 1,
                    }
                }
            }
        }
        model
    }

    fn trips(&self, base: i64) -> BTreeSet<TripSummary> {
        let summary = |device: &str, trip: &Trip| {
            let mut path: Vec<_> = trip.kept.iter().map(|fix| (fix.time, fix.place)).collect();
            path.sort_unstable();
            let version = base + 2 * trip.version;
            let retired = trip.absorbed().iter().map(|(t_star, _)| *t_star).collect();
            (device.to_owned(), trip.start(), trip.end(), trip.t_star(), version, retired, path)
        };
        let summaries = |(name, (_, device)): (&String, &(i32, Device))| {
            device.trips.iter().map(|trip| summary(name, trip)).collect::<Vec<_>>()
        };
        self.trips.iter().flat_map(summaries).collect()
    }
}

fn time_ms(value: &Value) -> i64 {
    DateTime::parse_from_rfc3339(value.as_str().unwrap()).unwrap().timestamp_millis()
}

/// Every trip of the store.
fn stored(site: &Site) -> BTreeSet<TripSummary> {
    let exported = site.folder.run(&format!("export --path --store {}", site.store())).ends(0);
    let summary = |trip: Value| {
        let (times, places) = (&trip["path"]["times"], &trip["path"]["coordinates"]);
        let place = |place: &Value| (place[1].as_f64().unwrap() * 1e7).round() as i32;
        let times = times.as_array().unwrap().iter().map(time_ms);
        let path: Vec<_> = times.zip(places.as_array().unwrap().iter().map(place)).collect();
        assert_eq!(number(&trip["samples"]), path.len() as u64, "{}", trip["id"]);
        let retired = trip["absorbed"].as_array().unwrap().iter();
        let retired =
            retired.map(|id| TripId::parse_text(id.as_str().unwrap()).unwrap().t_star_ms.ms());
        (
            trip["device_id"].as_str().unwrap().to_owned(),
            time_ms(&trip["start_time"]),
            time_ms(&trip["end_time"]),
            time_ms(&trip["t_star"]),
            trip["version"].as_i64().unwrap(),
            retired.collect(),
            path,
        )
    };
    exported.objects().into_iter().map(summary).collect()
}

/// The trips are those of the model, to the version.
#[track_caller]
pub fn trips(site: &Site, model: &Model) {
    let epochs = site.folder.run(&format!("epoch show --store {}", site.store())).ends(0).objects();
    let base = epochs.last().unwrap()["base"].as_i64().unwrap();
    let (expected, found) = (model.trips(base), stored(site));
    let name = |trip: &TripSummary| {
        format!(
            "{:?} from {} to {} of {} samples, version {} (offset {})",
            trip.0,
            trip.1,
            trip.2,
            trip.6.len(),
            trip.4,
            (trip.4 - base) / 2
        )
    };
    let list = |all: &BTreeSet<TripSummary>, not: &BTreeSet<TripSummary>| {
        all.difference(not).take(10).map(name).collect::<Vec<_>>().join("\n  ")
    };
    assert!(
        expected == found,
        "missing of {} trips\n  {}\nunexpected of {}\n  {}",
        expected.len(),
        list(&expected, &found),
        found.len(),
        list(&found, &expected)
    );
}

/// Element and reason of each dead letter of a record.
type Letters = BTreeMap<(i32, i64), Vec<(Option<u32>, String)>>;

fn letters(site: &Site) -> Letters {
    let mut letters = Letters::new();
    let mut note = |partition, offset, element, reason| {
        letters.entry((partition, offset)).or_default().push((element, reason));
    };
    if site.keyspace.is_none() {
        let file = Connection::open(site.folder.path(FILE)).unwrap();
        let select = "SELECT partition, log_offset, element, reason FROM dead_letters";
        let mut select = file.prepare(select).unwrap();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let at = (row.get(0).unwrap(), row.get(1).unwrap());
            note(at.0, at.1, row.get(2).unwrap(), row.get(3).unwrap());
        }
        return letters;
    }
    // A record's own headers may have the names of ours: the program distinguishes them.
    let brokers = &site.topic.brokers;
    let words = format!("dlq ls --limit 10000000 --brokers {brokers} --store {}", site.store());
    for letter in site.folder.run(&words).ends(0).objects() {
        let partition = i32::try_from(letter["partition"].as_i64().unwrap()).unwrap();
        let element = letter["element"].as_u64().map(|element| u32::try_from(element).unwrap());
        let reason = letter["reason"].as_str().unwrap().to_owned();
        note(partition, letter["offset"].as_i64().unwrap(), element, reason);
    }
    letters
}

/// Each bad sample has its dead letter, with the right reason; no good one has.
#[track_caller]
pub fn dead_letters(site: &Site) {
    let (mut letters, mut faults) = (letters(site), Vec::new());
    for (partition, sent) in &site.sent {
        for Sent { offset, made } in sent {
            let mut found = letters.remove(&(*partition, *offset)).unwrap_or_default();
            // Delivery is at least once.
            found.sort_unstable();
            found.dedup();
            let is_known = |(_, reason): &(_, String)| made.why.contains(reason.as_str());
            let is_enough = match made.bad {
                0 => found.is_empty(),
                bad if made.whole || bad > ALONE => !found.is_empty() && found.len() <= bad,
                // One dead letter may represent the whole record, where that is smaller.
                bad => found.len() == bad || matches!(found[..], [(None, _)]),
            };
            if !(is_enough && found.iter().all(is_known)) {
                let reasons: BTreeSet<_> = found.iter().map(|(_, reason)| reason).collect();
                faults.push(format!(
                    "offset {offset} of partition {partition} has {} letters {reasons:?}, \
                     not {} of {:?}: {}",
                    found.len(),
                    made.bad,
                    made.why,
                    made.what
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} records:\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
    assert!(letters.is_empty(), "dead letters without a record: {:?}", letters.keys().next());
}

/// Every sample is counted once, by its result, both in the summary and in the metrics.
#[track_caller]
pub fn counts(model: &Model, summary: &Value, metrics: &BTreeMap<&'static str, u64>) {
    let (dead, dropped) = (sum(&summary["dead_letters"]), sum(&summary["dropped"]));
    let (applied, duplicates) = (number(&summary["applied"]), number(&summary["duplicates"]));
    assert_eq!(number(&summary["delivered"]), applied + duplicates + dropped + dead, "{summary}");
    assert_eq!((applied, duplicates), (model.applied, model.duplicates), "{summary}");
    assert_eq!(dropped, 0, "nothing was forgotten: {summary}");
    assert_eq!(metrics["dead"], dead, "{metrics:?}");
    assert_eq!(metrics["dead letters"], dead, "{metrics:?}");
    assert_eq!(metrics["duplicate"], duplicates, "{metrics:?}");
    assert_eq!(metrics["all"], applied + duplicates + dead, "{metrics:?}");
}
