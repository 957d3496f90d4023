//! The log under other rules: the report's numbers, checked by an independent count.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Site;
use crate::cli::{Folder, minutes, number, sum};
use crate::topic::{drain, start};

/// Trips with their samples, without versions, which differ between stores.
pub fn spans(folder: &Folder, store: &str) -> Vec<Value> {
    let mut trips = folder.run(&format!("export --path --store {store}")).ends(0).objects();
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips
}

/// A trip as exported: all texts, which sort like their values.
struct ExportedTrip {
    start: String,
    end: String,
    id: String,
    absorbed: BTreeSet<String>,
}

impl ExportedTrip {
    fn overlaps(&self, other: &Self) -> bool {
        !(self.end < other.start || other.end < self.start)
    }

    /// Whether the trip covers the time of an id: `20250101T000000.000Z` as
    /// `2025-01-01T00:00:00.000Z`.
    fn covers(&self, id: &str) -> bool {
        let (_, time) = id.rsplit_once('~').unwrap();
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let at = digits(time);
        digits(&self.start) <= at && at <= digits(&self.end)
    }
}

fn exported(folder: &Folder, store: &str) -> BTreeMap<String, Vec<ExportedTrip>> {
    let mut devices: BTreeMap<String, Vec<ExportedTrip>> = BTreeMap::new();
    for trip in folder.run(&format!("export --store {store}")).ends(0).objects() {
        let text = |name: &str| trip[name].as_str().unwrap().to_owned();
        let absorbed = trip["absorbed"].as_array().unwrap().iter();
        let absorbed = absorbed.map(|id| id.as_str().unwrap().to_owned()).collect();
        let found = ExportedTrip {
            start: text("start_time"),
            end: text("end_time"),
            id: text("id"),
            absorbed,
        };
        devices.entry(text("device_id")).or_default().push(found);
    }
    devices
}

/// The counts of trips and ids that a rebuild reports.
fn counted(
    old: &BTreeMap<String, Vec<ExportedTrip>>,
    new: &BTreeMap<String, Vec<ExportedTrip>>,
) -> Map<String, Value> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for name in [
        "devices",
        "old_trips",
        "equal",
        "split",
        "joined",
        "changed",
        "gone",
        "new_trips",
        "ids_kept",
        "ids_retired",
        "ids_unminted",
        "ids_revived",
        "ids_minted",
        "old_ids",
        "old_ids_found",
    ] {
        counts.insert(name, 0);
    }
    let devices: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let none = Vec::new();
    for device in devices {
        let (old, new) = (old.get(device).unwrap_or(&none), new.get(device).unwrap_or(&none));
        let mut add = |name, count: usize| *counts.get_mut(name).unwrap() += count as u64;
        add("devices", 1);
        add("old_trips", old.len());
        add("new_trips", new.len());
        let all = |trips: &[ExportedTrip]| -> BTreeSet<String> {
            trips.iter().flat_map(|it| it.absorbed.iter().chain([&it.id]).cloned()).collect()
        };
        let current: BTreeSet<_> = new.iter().map(|it| &it.id).collect();
        let retired: BTreeSet<_> = new.iter().flat_map(|it| &it.absorbed).collect();
        for trip in old {
            let met: Vec<_> = new.iter().filter(|it| it.overlaps(trip)).collect();
            let kind = if met.is_empty() {
                "gone"
            } else if met.len() > 1 {
                "split"
            } else if met[0].start == trip.start && met[0].end == trip.end {
                "equal"
            } else if old.iter().filter(|it| it.overlaps(met[0])).count() > 1 {
                "joined"
            } else {
                "changed"
            };
            add(kind, 1);
            add("ids_kept", usize::from(current.contains(&trip.id)));
            add("ids_retired", usize::from(retired.contains(&trip.id)));
            let is_known = current.contains(&trip.id) || retired.contains(&trip.id);
            add("ids_unminted", usize::from(!is_known));
        }
        let retired: BTreeSet<_> = old.iter().flat_map(|it| &it.absorbed).collect();
        add("ids_revived", new.iter().filter(|it| retired.contains(&it.id)).count());
        let ids = all(old);
        add("ids_minted", new.iter().filter(|it| !ids.contains(&it.id)).count());
        add("old_ids", ids.len());
        add("old_ids_found", ids.iter().filter(|id| new.iter().any(|it| it.covers(id))).count());
    }
    counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
}

#[track_caller]
fn is_counted(folder: &Folder, report: &Value, old: &str, new: &str) {
    for (name, count) in counted(&exported(folder, old), &exported(folder, new)) {
        assert_eq!(report[&name], count, "{name}: {report}");
    }
    let share = report["share_of_old_ids_found"].as_f64().unwrap();
    let found = number(&report["old_ids_found"]) as f64 / number(&report["old_ids"]) as f64;
    assert!((share - found).abs() < 1e-9, "{share} {found}");
}

/// The counts of samples in a report.
pub const BECAME: [&str; 7] =
    ["records", "applied", "duplicates", "conflicting", "skipped", "dropped", "dead_letters"];

#[test]
fn other_rules_give_what_a_daemon_under_them_gives_and_the_report_counts_right() {
    let Some(site) = Site::new(8000) else { return };
    site.run_file("live.db", "");
    let words = format!("run {} --store sqlite:live.db", site.topic.flags());
    let running = start(&site.folder, &words);
    let before = spans(&site.folder, "sqlite:live.db");
    let flags = site.flags("sqlite:live.db", true);
    // A wider gap, the same, and one so narrow that trips split.
    for (gap, samples) in [("10m", 8000), ("5m", 8000), ("30s", 8000)] {
        let (into, by_run) = (format!("sqlite:into-{gap}.db"), format!("run-{gap}.db"));
        let rebuild = format!("rebuild {flags} --into {into} --max-gap {gap} --json");
        let report = site.folder.run(&rebuild).ends(0).json();
        assert_eq!(number(&report["records"]), samples);
        let [duplicates, applied] = ["duplicates", "applied"].map(|name| number(&report[name]));
        let (dropped, dead) = (sum(&report["dropped"]), sum(&report["dead_letters"]));
        assert_eq!(applied + duplicates + dropped + dead, samples, "{report}");
        assert_eq!(site.count(&format!("into-{gap}.db"), "dead_letters") as u64, dead);
        assert!(dead > 0, "{report}");
        is_counted(&site.folder, &report, "sqlite:live.db", &into);
        site.run_file(&by_run, &format!("--max-gap {gap}"));
        assert!(spans(&site.folder, &into) == spans(&site.folder, &format!("sqlite:{by_run}")));
        println!("rebuild, gap {gap}: {report}");
        // A second run finds everything done, and reports the same.
        let mut again = site.folder.run(&rebuild).ends(0).json();
        assert_eq!(number(&again["records"]), 0);
        for of_this_run in BECAME {
            again[of_this_run] = report[of_this_run].clone();
        }
        assert_eq!(again, report);
        let verify = format!("verify {} --json", site.flags(&into, true));
        site.folder.run(&verify).ends(0);
    }
    drain(running, &words).ends(0);
    assert!(spans(&site.folder, "sqlite:live.db") == before, "the old store is only read");
    let of_other = format!("rebuild {flags} --into sqlite:into-10m.db --max-gap 7m");
    site.folder.run(&of_other).ends(78).prints_nothing().says(&["max_gap"]);
    site.folder.run(&format!("rebuild {flags} --into sqlite:live.db")).ends(2);
}

#[test]
fn files_are_read_in_the_order_of_their_import_and_what_was_erased_stays_away() {
    let folder = Folder::new();
    let log = folder
        .run("simulate --mix 46,34,19,1 --devices 12 --samples 6000 --seed 21")
        .ends(0)
        .text();
    let lines: Vec<&str> = log.lines().collect();
    for (nth, part) in lines.chunks(2000).enumerate() {
        // Trips that a wider gap joins.
        let wide = minutes(&format!("wide-{nth}"), &[0, 7, 30]);
        folder.write(&format!("{nth}.ndjson"), part.join("\n") + "\n" + &wide);
    }
    folder.ingest("0.ndjson 1.ndjson --store sqlite:old.db");
    let forget = "forget truck-7 --before 2025-03-01T00:00:00Z --yes --store sqlite:old.db";
    folder.run(forget).ends(0);
    folder.ingest("2.ndjson --store sqlite:old.db");
    let rebuild = "rebuild 2.ndjson 0.ndjson 1.ndjson --store sqlite:old.db --json";

    // Under the same rules the result is identical, in whatever order the files are named.
    let report = folder.run(&format!("{rebuild} --into sqlite:same.db")).ends(0).json();
    assert_eq!((&report["equal"], &report["ids_minted"]), (&report["old_trips"], &json!(0)));
    let export = |store: &str| folder.run(&format!("export --path --store sqlite:{store}")).ends(0);
    assert!(export("same.db").stdout == export("old.db").stdout);

    let ten = format!("{rebuild} --into sqlite:ten.db --max-gap 10m");
    let report = folder.run(&ten).ends(0).json();
    is_counted(&folder, &report, "sqlite:old.db", "sqlite:ten.db");
    assert!(number(&report["joined"]) >= 6, "{report}");
    let devices = folder.run("devices --store sqlite:ten.db").ends(0).objects();
    assert!(!devices.iter().any(|it| it["device_id"] == "truck-7"), "what was erased came back");
    // A second run finds everything done.
    let again = folder.run(&ten).ends(0).json();
    assert_eq!((&again["joined"], &again["new_trips"]), (&report["joined"], &report["new_trips"]));

    folder.write("no.ndjson", minutes("truck-1", &[1]));
    let other = "rebuild no.ndjson --store sqlite:old.db --into sqlite:no.db";
    folder.run(other).ends(65).prints_nothing().says(&["no.ndjson", "were not imported"]);
    // Nothing is built from a part of the files.
    let few = "rebuild 0.ndjson 1.ndjson --store sqlite:old.db --into sqlite:no.db";
    folder.run(few).ends(65).prints_nothing().says(&["name every file", "records"]);
    assert!(!folder.has("no.db"));
}
