//! A store of files.

use serde_json::{Value, json};
use tstar::internals::model::rules::Rules;
use tstar::internals::store::sqlite::SqliteStore;

use super::{LATER, count, devices, fleet, ids, is_gone, lines_of, others, samples_of, shuffled};
use crate::cli::{Folder, Ran, minutes, number, sum};

const STORE: &str = "sqlite:t.db";
const DEVICE: &str = "truck-7";

#[test]
fn a_device_goes_and_no_import_brings_it_back() {
    let mut folder = Folder::new();
    folder.env("USER", "ada");
    let log = fleet(&folder, 8000);
    folder.write("all.ndjson", &log);
    folder.write("shuffled.ndjson", shuffled(&log));
    folder.ingest(&format!("all.ndjson --store {STORE}"));
    let (kept, erased) = (others(&folder, STORE, &[DEVICE]), ids(&folder, STORE, DEVICE));
    assert!(!erased.is_empty() && kept.len() > 30);
    let uuid = folder.text(&format!("id decode {} --json", erased[0]));
    let uuid = serde_json::from_str::<Value>(&uuid).unwrap()["uuid"].as_str().unwrap().to_owned();

    let words = format!("forget {DEVICE} --before {LATER} --yes --store {STORE}");
    let ran = folder.run(&words).ends(0).says(&["devices erased: 1", "VACUUM"]);
    let line = ran.json();
    let expected = format!(
        "{{\"forgot\":\"{DEVICE}\",\"before\":\"{LATER}\",\"partition\":0,\"offset\":8000,\
         \"version\":16000,\"at\":{},\"by\":\"ada\"}}\n",
        line["at"]
    );
    assert_eq!(ran.text(), expected);
    is_gone(&folder, STORE, DEVICE, &erased);
    folder.run(&format!("trip {uuid} --store {STORE}")).ends(1).says(&["no trip has the id"]);
    assert_eq!(others(&folder, STORE, &[]), kept);
    let place = folder.path("t.db");
    for table in ["trips", "device_days", "days_of_device"] {
        let query = format!("SELECT count(*) FROM {table} WHERE device_id = '{DEVICE}'");
        assert_eq!(count(&place, &query), 0, "{table}");
    }
    let event = "SELECT count(*) FROM changes WHERE version = 16000
         AND seq = (SELECT max(seq) FROM changes) AND event LIKE '{\"type\":\"forgotten\"%'";
    assert_eq!(count(&place, event), 1);
    assert_eq!(count(&place, "SELECT delivered FROM log"), 8001);
    folder.run(&words).ends(1).prints_nothing().says(&["there are no trips of device `truck-7`"]);

    let samples = samples_of(&folder, &log, DEVICE);
    // The same file counts as the same records, a shuffled copy as new ones.
    for name in ["all.ndjson", "shuffled.ndjson", "all.ndjson", "shuffled.ndjson"] {
        let summary = folder.ingest(&format!("{name} --store {STORE}"));
        assert_eq!(number(&summary["delivered"]), 8000);
        assert_eq!(number(&summary["applied"]), 0, "{summary}");
        assert_eq!(summary["dropped"], json!({ "forgotten": samples }), "{name}");
        let dead = sum(&summary["dead_letters"]);
        let forgotten = number(&summary["dropped"]["forgotten"]);
        assert_eq!(number(&summary["duplicates"]), 8000 - dead - forgotten);
        assert_eq!(others(&folder, STORE, &[]), kept, "{name}");
    }
    is_gone(&folder, STORE, DEVICE, &erased);
}

#[test]
fn the_only_device_stays_away_too() {
    let folder = Folder::with("one.ndjson", minutes("truck-1", &[1, 2, 30]));
    folder.write("more.ndjson", minutes("truck-1", &[30, 3, 2, 50, 1]));
    folder.ingest(&format!("one.ndjson --store {STORE}"));
    folder.run(&format!("forget truck-1 --yes --store {STORE}")).ends(0);
    assert_eq!(devices(&folder, STORE), [""; 0]);
    for (name, samples) in [("one", 3), ("more", 5)] {
        let summary = folder.ingest(&format!("{name}.ndjson --store {STORE}"));
        assert_eq!(summary["dropped"], json!({ "forgotten": samples }), "{name}");
        assert_eq!(folder.trips("t.db"), [] as [Value; 0]);
    }
}

#[test]
fn a_trip_that_reaches_past_the_time_stays_whole() {
    let lines = minutes("truck-1", &[1, 2, 20, 22, 40]) + &minutes("truck-2", &[1]);
    let folder = Folder::with("a.ndjson", lines);
    folder.ingest(&format!("a.ndjson --store {STORE}"));
    let before = folder.trips("t.db");
    let words = format!("--before 2024-05-01T08:22:00Z --yes --store {STORE}");
    folder.run(&format!("forget truck-1 {words}")).ends(0);
    assert_eq!(folder.trips("t.db"), before[1..]);
    let at = |time| folder.run(&format!("lookup truck-1 2024-05-01T08:{time}:00Z --store {STORE}"));
    at("02").ends(1).says(&["gone: "]);
    at("21").ends(0);
    at("30").ends(1).says(&["no trip of device"]);
    // A sample before the time is dropped, whatever it would join; the others are applied as usual.
    folder.write("late.ndjson", minutes("truck-1", &[21, 24, 3]));
    let summary = folder.ingest(&format!("late.ndjson --store {STORE}"));
    assert_eq!((&summary["applied"], &summary["dropped"]["forgotten"]), (&1.into(), &2.into()));
    let trip = at("20").ends(0).json();
    assert_eq!((&trip["samples"], &trip["version"]), (&3.into(), &16.into()));
    // Once the whole trip is older, it is erased.
    let words = format!("--before 2024-05-01T08:25:00Z --yes --store {STORE}");
    folder.run(&format!("forget truck-1 {words}")).ends(0);
    assert_eq!(folder.trips("t.db"), before[2..]);
    at("20").ends(1).says(&["before 2024-05-01T08:25:00.000Z were erased"]);
}

/// Trips without their versions: a forget in between takes an offset of the log.
fn without_versions(folder: &Folder, store: &str, without: &str) -> Vec<Value> {
    let mut trips = folder.trips(store);
    trips.retain(|trip| trip["device_id"] != without);
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips
}

#[test]
fn a_line_feed_in_a_device_id_begins_no_line_of_its_own() {
    let folder = Folder::with("in.ndjson", minutes("a\\ntstar: erased", &[0]));
    folder.ingest(&format!("in.ndjson --store {STORE}"));
    let mut command = folder.command(&format!("forget --yes --store {STORE} --"));
    let ran = Ran::run("forget", command.arg("a\ntstar: erased")).ends(0);
    ran.says(&["device `a\\ntstar: erased`", "devices erased: 1"]);
}

#[test]
fn an_import_that_was_stopped_resumes_after_a_forget() {
    let folder = Folder::new();
    let log = fleet(&folder, 20_000);
    folder.write("all.ndjson", &log);
    folder.ingest("all.ndjson --store sqlite:whole.db");
    let expected = without_versions(&folder, "whole.db", DEVICE);
    let import = format!(
        "ingest all.ndjson --json --flush-interval 1ms --max-staleness 1ms --store {STORE}"
    );
    let stopped = folder.command(&import).env("TSTAR_TEST_ABORT", "after:2").output().unwrap();
    assert_eq!(stopped.status.code(), None, "it did not abort");
    let place = folder.path("t.db");
    let before = count(&place, "SELECT delivered FROM log");
    assert!(before > 0 && before < 20_000, "{before}");
    let erased = ids(&folder, STORE, DEVICE);
    let words = format!("forget {DEVICE} --before {LATER} --yes --store {STORE}");
    assert_eq!(folder.run(&words).ends(0).json()["offset"], before);

    let rest = folder.run(&import).ends(0).json();
    assert_eq!(number(&rest["delivered"]), 20_000 - before.unsigned_abs());
    assert!(number(&rest["dropped"]["forgotten"]) > 0, "{rest}");
    is_gone(&folder, STORE, DEVICE, &erased);
    assert_eq!(count(&place, "SELECT delivered FROM log"), 20_001);
    assert_eq!(without_versions(&folder, "t.db", "none"), expected);
    // All its parts are recognised: each record comes again at its own offset.
    let kept = others(&folder, STORE, &[]);
    let again = folder.run(&import).ends(0).json();
    assert_eq!((number(&again["applied"]), number(&again["delivered"])), (0, 20_000));
    assert_eq!(number(&again["dropped"]["forgotten"]), samples_of(&folder, &log, DEVICE));
    assert_eq!(count(&place, "SELECT delivered FROM log"), 20_001);
    assert_eq!(others(&folder, STORE, &[]), kept);
}

#[test]
fn all_devices_up_to_a_time() {
    let folder = Folder::new();
    folder.write("all.ndjson", fleet(&folder, 8000));
    folder.ingest(&format!("all.ndjson --store {STORE}"));
    let all = devices(&folder, STORE);
    assert_eq!(all.len(), 30);
    let trips = folder.trips("t.db");
    let mut ends: Vec<_> = trips.iter().map(|it| it["end_time"].as_str().unwrap()).collect();
    ends.sort_unstable();
    let middle = ends[ends.len() / 2];
    let rest = |trip: &&Value| trip["end_time"].as_str().unwrap() >= middle;
    let rest: Vec<Value> = trips.iter().filter(rest).cloned().collect();
    assert!(!rest.is_empty() && rest.len() < trips.len());
    let words = format!("forget --all-before {middle} --yes --store {STORE}");
    for round in 0..2 {
        let ran = folder.run(&words).ends(0).says(&["devices erased: 30;"]);
        let lines = lines_of(&ran, "forgot");
        let names: Vec<_> = lines.iter().map(|line| line["forgot"].as_str().unwrap()).collect();
        assert_eq!(names, all);
        let offsets: Vec<_> = lines.iter().map(|line| number(&line["offset"])).collect();
        let first = 8000 + 30 * round;
        assert_eq!(offsets, (first..first + 30).collect::<Vec<_>>());
        assert_eq!(folder.trips("t.db"), rest);
    }
    let words = format!("forget --all-before {LATER} --yes --store {STORE}");
    folder.run(&words).ends(0).says(&["devices erased: 30;"]);
    assert_eq!(folder.trips("t.db"), [] as [Value; 0]);
    assert_eq!(devices(&folder, STORE), [""; 0]);
    folder.run(&words).ends(0).prints_nothing().says(&["devices erased: 0;"]);
    assert_eq!(folder.ingest(&format!("all.ndjson --store {STORE}"))["applied"], 0);
    assert_eq!(folder.trips("t.db"), [] as [Value; 0]);
}

#[test]
fn a_time_far_past_the_last_sample_needs_a_flag() {
    let old = minutes("truck-1", &[1, 2]).replace("2024-", "2010-");
    let folder = Folder::with("a.ndjson", old);
    folder.ingest(&format!("a.ndjson --store {STORE}"));
    let words = format!("--yes --store {STORE}");
    let why = "over ten years past the last sample, 2010-05-01T08:02:00.000Z of device `truck-1`";
    for what in ["truck-1", "--all-before 2024-05-01T00:00:00Z"] {
        let refused = folder.run(&format!("forget {what} {words}")).ends(2).prints_nothing();
        refused.says(&[why, "--beyond-data"]);
    }
    folder.run(&format!("forget truck-1 --before 2019-01-01T00:00:00Z {words}")).ends(0);
    // One device that is newer is enough for all of them.
    folder.write("b.ndjson", minutes("truck-2", &[1]));
    folder.write("c.ndjson", minutes("truck-3", &[1]).replace("2024-", "2010-"));
    folder.ingest(&format!("b.ndjson c.ndjson --store {STORE}"));
    folder.run(&format!("forget truck-3 --beyond-data {words}")).ends(0);
    folder.run(&format!("forget --all-before 2024-05-02T00:00:00Z {words}")).ends(0);
    assert_eq!(devices(&folder, STORE), [""; 0]);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let folder = Folder::with("a.ndjson", minutes("truck-1", &[1, 2]));
    folder.ingest(&format!("a.ndjson --store {STORE}"));
    let trips = folder.trips("t.db");
    for (words, code, says) in [
        ("truck-1", 2, "cannot be undone; pass --yes"),
        ("--all-before 2025-01-01T00:00:00Z", 2, "every device that ended before 2025"),
        ("truck-1 --yes --before yesterday", 2, "is not a time"),
        ("truck-1 --yes --before 2100-01-01T00:00:00Z", 2, "more than max_future, 24h, ahead"),
        ("truck-1 --yes --before=-1", 2, "no trip is as old"),
        ("truck-2 --yes", 1, "no trips of device `truck-2`"),
        ("truck-1 --yes --store sqlite:none.db", 74, "does not exist"),
    ] {
        let store = if words.contains("--store") { "" } else { "--store sqlite:t.db" };
        let ran = folder.run(&format!("forget {words} {store}"));
        ran.ends(code).prints_nothing().says(&[says]);
    }
    assert!(!folder.has("none.db"));
    let writer = SqliteStore::open_writer(&folder.path("t.db"), &Rules::default(), 0).unwrap();
    let words = format!("forget truck-1 --yes --store {STORE}");
    folder.run(&words).ends(74).prints_nothing().says(&["locked by another writer"]);
    drop(writer);
    assert_eq!(folder.trips("t.db"), trips);
    folder.run(&words).ends(0);
}
