//! `replay files`: files into a topic, as the topic's own producers would send them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cli::input::gzip;
use crate::cli::{Folder, minutes, number, sum};
use crate::topic::file::until_read;
use crate::topic::{StoredRecord, Topic, drain, start};

pub const PARTITIONS: i32 = 4;

/// Lines of a fleet.
pub fn fleet(folder: &Folder, samples: usize, seed: u32) -> Vec<u8> {
    let words = format!("simulate --mix 46,34,19,1 --devices 20 --samples {samples} --seed {seed}");
    folder.run(&words).ends(0).stdout
}

pub fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect()
}

/// Reads all of a topic into a file with a daemon; returns its summary.
pub fn read_all(folder: &Folder, topic: &Topic, store: &str) -> Value {
    let words = format!("run {} --store sqlite:{store} --from earliest", topic.flags());
    let running = start(folder, &words);
    until_read(folder, store, topic);
    drain(running, &words).ends(0).json()
}

/// Trips without versions, which differ between logs.
pub fn spans(folder: &Folder, store: &str) -> Vec<Value> {
    let mut trips = folder.trips(store);
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips
}

pub fn sent(topic: &Topic) -> Vec<StoredRecord> {
    topic.records_of(&topic.name)
}

#[test]
fn what_is_sent_are_the_lines_and_a_run_gives_what_an_import_gives() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    let all = fleet(&folder, 20_000, 7);
    let middle =
        1 + all[all.len() / 2..].iter().position(|&byte| byte == b'\n').unwrap() + all.len() / 2;
    let (first, rest) = all.split_at(middle);
    let first = &[first, b"no sample\n"].concat()[..];
    folder.write("1.ndjson.gz", gzip(first));
    folder.write("2.ndjson", rest);
    let words = format!("replay files 1.ndjson.gz 2.ndjson --apply {}", topic.flags());
    let done = folder.run(&words).ends(0).json();
    assert_eq!(done["bad"], json!({"bad_json": 1}));
    assert_eq!((&done["applied"], &done["topic"]), (&json!(true), &json!(topic.name)));
    assert_eq!((number(&done["samples"]), &done["expected"]), (20_000, &Value::Null));
    let records = sent(&topic);
    assert_eq!(records.len() as u64, 20_000);
    let of_files: BTreeSet<&[u8]> = lines(&all).into_iter().collect();
    for kept in &records {
        assert!(of_files.contains(&kept.value[..]));
        let sample: Value = serde_json::from_slice(&kept.value).unwrap();
        assert_eq!(kept.key.as_deref(), sample["device_id"].as_str().map(str::as_bytes));
        assert_eq!(kept.headers, BTreeMap::new());
    }
    // To the partitions to which the fleet's producers would have sent them.
    let Some(other) = Topic::new(PARTITIONS) else { return };
    other.send_lines(rest, "no-device");
    let homes = |records: &[StoredRecord]| -> BTreeSet<(Option<Vec<u8>>, i32)> {
        records.iter().map(|kept| (kept.key.clone(), kept.partition)).collect()
    };
    assert!(homes(&records).is_superset(&homes(&sent(&other)[..5000])));

    let summary = read_all(&folder, &topic, "topic.db");
    let expected = folder.ingest("1.ndjson.gz 2.ndjson --store sqlite:file.db");
    for count in ["applied", "duplicates", "conflicting", "arrivals"] {
        assert_eq!(summary[count], expected[count], "{count}");
    }
    assert_eq!(spans(&folder, "topic.db"), spans(&folder, "file.db"));

    // A line that a crash truncated is ignored.
    let state = [folder.read("tstar-replay.ndjson"), b"{\"log\":\"x".to_vec()].concat();
    folder.write("tstar-replay.ndjson", state);
    // A second run sends nothing, and neither does another name or format of the same content.
    let again = folder.run(&words).ends(0).says(&["were dealt with by an earlier run"]).json();
    assert_eq!((&again["samples"], number(&again["lines_before"])), (&json!(0), 20_001));
    folder.write("same.ndjson", first);
    let same = format!("replay files same.ndjson --apply {}", topic.flags());
    assert_eq!(folder.run(&same).ends(0).json()["samples"], 0);
    // Lines that a file has gained are sent.
    let more = minutes("truck-1", &[1, 2]);
    folder.write("2.ndjson", [rest, more.as_bytes()].concat());
    assert_eq!(folder.run(&words).ends(0).json()["samples"], 2);
    assert_eq!(sent(&topic).len() as u64, 20_002);
    // To another topic everything is sent.
    let elsewhere = format!("replay files 2.ndjson --apply {}", other.flags());
    assert!(number(&folder.run(&elsewhere).ends(0).json()["samples"]) > 9_000);
}

#[test]
fn a_table_in_other_units_goes_in_the_form_of_the_log() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    topic.send_lines(minutes("truck-1", &[1]).as_bytes(), "no-device");
    read_all(&folder, &topic, "t.db");
    let table = "vehicle;when;lat;lon;speed\n\
        truck-1;1714550520;52.5;13.5;36\n\
        truck-2;1714550520;52.5;13.5;\n\
        truck-3;soon;52.5;13.5;1\n\
        truck-4;1;52.5;13.5;1\n\
        truck-5;1714550520;520;13.5;1\n";
    folder.write("may.csv", table);
    let form = "--map device_id=vehicle,time=when --speed-unit kmh";
    let in_ms = format!("replay files may.csv {form} --store sqlite:t.db {}", topic.flags());
    let words = format!("{in_ms} --time-unit s");
    let dry = folder.run(&words).ends(0).says(&[
        "may.csv:4: bad_time",
        "may.csv:5: time_before_min",
        "may.csv:6: out_of_range",
        "nothing was sent",
    ]);
    let dry = dry.json();
    let bad = json!({"bad_time": 1, "time_before_min": 1, "out_of_range": 1});
    assert_eq!((&dry["samples"], &dry["bad"]), (&json!(2), &bad));
    assert_eq!((&dry["trips_new"], &dry["trips_grown"]), (&json!(1), &json!(1)));
    assert_eq!(sent(&topic).len(), 1);
    let strict = format!("{words} --apply --strict");
    let done = folder.run(&strict).ends(65).says(&["3 lines are malformed"]).json();
    assert_eq!((&done["samples"], &done["bad"]), (&json!(2), &bad));
    let mut values: Vec<Value> =
        sent(&topic).iter().map(|kept| serde_json::from_slice(&kept.value).unwrap()).collect();
    values.retain(|value| value["lat"] == 52.5);
    values.sort_by_key(|value| value["device_id"].to_string());
    let time = "2024-05-01T08:02:00.000Z";
    assert_eq!(
        values,
        [
            json!({"device_id": "truck-1", "time": time, "lat": 52.5, "lon": 13.5, "speed": 10.0}),
            json!({"device_id": "truck-2", "time": time, "lat": 52.5, "lon": 13.5}),
        ]
    );
    let summary = read_all(&folder, &topic, "t.db");
    assert_eq!(summary["arrivals"], dry["expected"]["arrivals"]);
    // In another format the same lines differ, so they are not recognised.
    let other = folder.run(&format!("{in_ms} --apply")).ends(0).json();
    assert_eq!((&other["samples"], sum(&other["bad"])), (&json!(0), 5));
}

#[test]
fn a_preview_reports_what_the_run_then_does() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    let all = fleet(&folder, 12_000, 11);
    // Every third line is late.
    let is_late = |nth: usize| nth % 3 == 1;
    let part = |late: bool| -> Vec<u8> {
        let chosen = lines(&all).into_iter().enumerate().filter(|(nth, _)| is_late(*nth) == late);
        chosen.flat_map(|(_, line)| [line, b"\n"].concat()).collect()
    };
    topic.send_lines(&part(false), "no-device");
    read_all(&folder, &topic, "t.db");
    let before = folder.trips("t.db");
    folder.write("late.ndjson", part(true));
    let words = format!("replay files late.ndjson --store sqlite:t.db --brokers {}", topic.brokers);
    let small = folder.run(&format!("{words} --memory 64MB")).ends(0).json();
    let dry = folder.run(&words).ends(0).json();
    assert_eq!(small, dry);
    assert_eq!(folder.trips("t.db"), before);

    assert_eq!(folder.run(&format!("{words} --apply")).ends(0).json()["samples"], 4_000);
    let summary = read_all(&folder, &topic, "t.db");
    for count in ["delivered", "applied", "duplicates", "conflicting", "arrivals", "dropped"] {
        assert_eq!(summary[count], dry["expected"][count], "{count}");
    }
    let ids = |trips: &[Value]| -> BTreeMap<String, u64> {
        let entry = |it: &Value| (it["id"].as_str().unwrap().to_owned(), number(&it["samples"]));
        trips.iter().map(entry).collect()
    };
    let after = folder.trips("t.db");
    let (before, now) = (ids(&before), ids(&after));
    let absorbed: BTreeSet<&str> = after
        .iter()
        .flat_map(|trip| trip["absorbed"].as_array().unwrap())
        .map(|id| id.as_str().unwrap())
        .collect();
    let new = now.keys().filter(|id| !before.contains_key(*id)).count();
    let grown = now.iter().filter(|(id, count)| before.get(*id).is_some_and(|was| was < count));
    let retired = before.keys().filter(|id| absorbed.contains(id.as_str())).count();
    let count = |name: &str| usize::try_from(number(&dry[name])).unwrap();
    assert_eq!(
        (count("trips_new"), count("trips_grown"), count("ids_retired")),
        (new, grown.count(), retired)
    );
    assert!(retired > 0, "{dry}");
    // Now the store has everything.
    let nothing = folder.run(&words).ends(0).json();
    assert_eq!(nothing["expected"]["duplicates"], 4_000);
    assert_eq!((&nothing["trips_new"], &nothing["trips_grown"]), (&json!(0), &json!(0)));
}

#[test]
fn what_makes_no_sense_says_so() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::with("a.ndjson", minutes("truck-1", &[1, 2]) + "no sample\n");
    let flags = topic.flags();
    folder.write("state.json", "{\"x\": 7}");
    folder.ingest("a.ndjson --store sqlite:files.db");
    let unused_port = crate::servers::free_port();
    for (words, code, why) in [
        (flags.clone(), 74, "does not exist"),
        (format!("{flags} --store sqlite:none.db --apply"), 74, "does not exist"),
        (format!("{flags} --store sqlite:files.db"), 78, "has no epoch"),
        (format!("{flags} --state state.json --apply"), 65, "not a valid state of a replay"),
        (format!("{flags} --apply --map devise=x"), 2, "devise"),
        (format!("--apply --brokers {} --topic no-such", topic.brokers), 78, "does not exist"),
        (format!("--apply --brokers 127.0.0.1:{unused_port}"), 69, "no Kafka broker"),
    ] {
        let ran = folder.run(&format!("replay files a.ndjson {words}"));
        ran.ends(code).prints_nothing().says(&[why]);
    }
    folder.run(&format!("replay files none.ndjson --apply {flags}")).ends(74).says(&["none"]);
    assert_eq!(sent(&topic), []);
    let compact = Topic::with(1, &[("cleanup.policy", "compact")]).unwrap();
    let refused = folder.run(&format!("replay files a.ndjson --apply {}", compact.flags()));
    refused.ends(78).says(&["cleanup.policy"]);
    // A store belongs to one topic; without --topic, that one is used.
    topic.send_lines(minutes("truck-1", &[1]).as_bytes(), "no-device");
    read_all(&folder, &topic, "t.db");
    let other = format!("replay files a.ndjson --apply --store sqlite:t.db {}", compact.flags());
    folder.run(&other).ends(78);
    let words =
        format!("replay files a.ndjson --apply --store sqlite:t.db --brokers {}", topic.brokers);
    let done = folder.run(&words).ends(0).says(&["a.ndjson:3: bad_json"]).json();
    assert_eq!((&done["samples"], &done["bad"]), (&json!(2), &json!({"bad_json": 1})));
}

#[test]
fn under_any_key_the_trips_of_a_device_give_its_partition() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    let mut records = crate::topic::records(minutes("truck-1", &[1]).as_bytes(), "x");
    records[0].key = Some(b"unit-7".to_vec());
    topic.send(&records);
    let run = format!("run {} --key any --store sqlite:t.db --from earliest", topic.flags());
    let running = start(&folder, &run);
    until_read(&folder, "t.db", &topic);
    drain(running, &run).ends(0);
    folder.write("a.ndjson", minutes("truck-1", &[2]) + &minutes("truck-2", &[2]));
    let words = format!("replay files a.ndjson --apply --store sqlite:t.db {}", topic.flags());
    let done =
        folder.run(&words).ends(0).says(&["device `truck-2`: its partition of topic"]).json();
    assert_eq!((&done["samples"], &done["bad"]), (&json!(1), &json!({"no_key": 1})));
    let records = sent(&topic);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].partition, records[1].partition);
}
