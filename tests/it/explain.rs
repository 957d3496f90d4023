//! `explain`: its history of a trip matches the contract's rules, applied literally by the model.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::topics::Topics;
use tstar::internals::model::time::parse_time;

use crate::cli::{Folder, minutes, number, sum};
use crate::keyspace::Keyspace;
use crate::support::block_on;
use crate::topic::file::until_read;
use crate::topic::keyspace::until_committed;
use crate::topic::{Topic, drain, start};
use tstar_sim::model::literal::{Device, Did, Limits};
use tstar_sim::model::{Class, Fix};

const PARTITIONS: i32 = 4;

/// The limits of the default rules.
const LIMITS: Limits = Limits { max_gap: 300_000, min_stop: Some(300_000), max_samples: 100_000 };

/// The effect of a record, as an explanation names it.
fn name(did: Did) -> Option<&'static str> {
    match did {
        Did::Duplicate { .. } => Some("duplicate"),
        Did::TripFull => None,
        Did::Inside => Some("inside"),
        Did::Merge => Some("merge"),
        Did::Split => Some("split"),
        Did::Turn => Some("turn"),
        Did::End => Some("end"),
        Did::Beginning => Some("beginning"),
        Did::New => Some("new"),
    }
}

/// Per device, the time of each sample and its effect, by the model.
fn history_by_the_model(
    lines: &[u8],
    limits: Limits,
) -> BTreeMap<String, Vec<(i64, &'static str)>> {
    let mut devices: BTreeMap<String, (Device, Vec<_>)> = BTreeMap::new();
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let sample: Value = serde_json::from_slice(line).unwrap();
        let time = parse_time(sample["time"].as_str().unwrap()).unwrap();
        let name_of = sample["device_id"].as_str().unwrap().to_owned();
        let (device, effects) =
            devices.entry(name_of).or_insert_with(|| (Device::new(limits), Vec::new()));
        let class = Class::new(sample["speed"].as_f64(), sample["ignition"].as_bool());
        let did = device.arrive(0, Fix { time, place: 0, driver: None, class });
        effects.extend(name(did).map(|did| (time, did)));
    }
    devices.into_iter().map(|(name, (_, effects))| (name, effects)).collect()
}

fn ms(value: &Value) -> i64 {
    parse_time(value.as_str().unwrap()).unwrap()
}

/// The effects of the records of an explanation, with their times.
fn history(explained: &Value) -> Vec<(i64, String)> {
    let records = explained["log"]["records"].as_array().unwrap();
    let entry = |it: &Value| (ms(&it["time"]), it["effect"].as_str().unwrap().to_owned());
    records.iter().map(entry).collect()
}

fn dids(explained: &Value) -> Vec<String> {
    history(explained).into_iter().map(|(_, did)| did).collect()
}

/// The id of a sample of [`minutes`].
fn id(device: &str, minute: u32) -> String {
    format!("{device}~20240501T08{minute:02}00.000Z")
}

#[test]
fn the_worked_examples_are_told_as_the_contract_tells_them() {
    let folder = Folder::with("a.ndjson", minutes("truck-1", &[10, 12, 0, 2, 6, 2]));
    folder.write("b.ndjson", minutes("truck-2", &[12, 10, 6, 2, 0]) + &minutes("truck-1", &[40]));
    folder.ingest("a.ndjson b.ndjson");
    let (first, retired) = (id("truck-1", 0), id("truck-1", 10));
    let place = |offset: i64| json!({"version": 2 * offset, "epoch": null, "partition": null, "offset": offset});
    for (asked, matched) in [(&first, "current"), (&retired, "retired")] {
        let row = folder.run(&format!("explain {asked}")).ends(0).json();
        assert_eq!((&row["id"], &row["requested_id"]), (&json!(first), &json!(asked)));
        assert_eq!((&row["match"], &row["log"]), (&json!(matched), &Value::Null));
        let at = if matched == "retired" { place(4) } else { Value::Null };
        assert_eq!((&row["retired"], &row["last_change"]), (&at, &place(4)));
        assert_eq!((&row["minted"]["offset"], &row["minted"]["version"]), (&json!(2), &json!(4)));
        assert_eq!(row["minted"]["time"], "2024-05-01T08:00:00.000Z");
        let [absorbed] = &row["absorbed"].as_array().unwrap()[..] else { panic!("{row}") };
        assert_eq!((&absorbed["id"], &absorbed["offset"]), (&json!(retired), &json!(4)));

        let event = |it: &Value| {
            let text = |name: &str| it[name].as_str().unwrap().to_owned();
            (text("event"), text("id"), text("time"), it["offset"].as_i64().unwrap())
        };
        let events: Vec<_> = row["history"].as_array().unwrap().iter().map(event).collect();
        let wanted = |event: &str, id: &str, minute: u32, offset| {
            let time = format!("2024-05-01T08:{minute:02}:00.000Z");
            (event.to_owned(), id.to_owned(), time, offset)
        };
        let expected = [
            wanted("minted", &retired, 10, 0),
            wanted("minted", &first, 0, 2),
            wanted("retired", &retired, 6, 4),
        ];
        assert_eq!(events, expected);

        let whole = folder.run(&format!("explain {asked} b.ndjson a.ndjson --json")).ends(0).json();
        assert_eq!(dids(&whole), ["new", "end", "new", "end", "merge", "duplicate"]);
        let records = whole["log"]["records"].as_array().unwrap();
        let ids: Vec<_> = records.iter().map(|it| it["trip"].as_str().unwrap()).collect();
        assert_eq!(ids, [&retired, &retired, &first, &first, &first, &first]);
        let merge = &records[4];
        assert_eq!((&merge["retired"], &merge["line"]), (&json!(retired), &json!(5)));
        assert_eq!((&merge["file"], &merge["behind_s"]), (&json!("a.ndjson"), &json!(360.0)));
        let late = (ms(&merge["log_time"]) - ms(&merge["time"])) as f64 / 1e3;
        assert_eq!((&merge["late_s"], &merge["conflicting"]), (&json!(late), &json!(false)));
    }
    let other = folder.run(&format!("explain {} a.ndjson b.ndjson", id("truck-2", 12)));
    let other = other.ends(0).json();
    assert_eq!(dids(&other), ["new", "beginning", "beginning", "beginning", "beginning"]);
    assert_eq!((&other["absorbed"], &other["minted"]["offset"]), (&json!([]), &json!(6)));
    // A time inside the trip finds it too.
    let inside = folder.run(&format!("explain {}", id("truck-2", 5))).ends(0).json();
    assert_eq!((&inside["match"], &inside["retired"]), (&json!("covers"), &Value::Null));

    let words = format!("explain {retired} a.ndjson b.ndjson --format table --limit 5");
    let text = folder.text(&words);
    for part in [
        "by a merge into the id above, at record 4 of the files",
        &format!("{retired} at record 4 of the files"),
        &format!("merge, retires {retired}"),
        "and 1 more: --limit shows them",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// The history of each trip of a fleet matches the model, and all of them together the summary of
/// the import.
fn as_the_model(flags: &str, limits: Limits) {
    let folder = Folder::new();
    let fleet = "simulate --devices 3 --samples 900 --seed 9 --mix 40,30,20,10";
    let lines = folder.run(fleet).ends(0).stdout;
    folder.write("all.ndjson", &lines);
    let summary = folder.ingest(&format!("all.ndjson --store sqlite:t.db {flags}"));
    let model = history_by_the_model(&lines, limits);
    let (mut counts, mut merges): (BTreeMap<String, u64>, _) = (BTreeMap::new(), 0);
    for trip in folder.trips("t.db") {
        let (id, device) = (trip["id"].as_str().unwrap(), trip["device_id"].as_str().unwrap());
        let words = format!("explain {id} all.ndjson --store sqlite:t.db");
        let explained = folder.run(&words).ends(0).json();
        let span = ms(&trip["start_time"])..=ms(&trip["end_time"]);
        let of_model = model[device].iter().filter(|(time, _)| span.contains(time));
        let of_model: Vec<_> = of_model.map(|&(time, did)| (time, did.to_owned())).collect();
        assert_eq!(history(&explained), of_model, "{id}");
        merges += explained["absorbed"].as_array().unwrap().len() as u64;
        dids(&explained).into_iter().for_each(|did| *counts.entry(did).or_default() += 1);
    }
    assert_eq!(counts.get("merge").copied().unwrap_or(0), merges);
    assert_eq!(counts.remove("duplicate").unwrap_or(0), number(&summary["duplicates"]));
    for (did, count) in &counts {
        assert_eq!(*count, number(&summary["arrivals"][did]), "{did}");
    }
    assert_eq!(counts.values().sum::<u64>(), sum(&summary["arrivals"]));
    assert!(merges > 0, "{counts:?}");
}

#[test]
fn every_trip_of_a_fleet_is_told_as_the_rules_say() {
    as_the_model("", LIMITS);
}

#[test]
fn limits_that_keep_trips_apart_do_not_mislead() {
    as_the_model("--max-samples 12", Limits { max_samples: 12, ..LIMITS });
}

/// A trip over midnight, partly late, whose parts were merged, and others around it.
fn over_midnight() -> String {
    let at = |time: &str| {
        format!(r#"{{"device_id":"truck-1","time":"2024-05-{time}:00Z","lat":52.5,"lon":13.5}}"#)
    };
    let times = [
        "01T20:00", "02T00:04", "02T00:06", "01T23:55", "01T23:57", "02T00:01", "02T00:04",
        "02T09:00",
    ];
    let lines: Vec<_> = times.into_iter().map(|time| at(time) + "\n").collect();
    lines.concat() + &minutes("truck-2", &[1, 2])
}

const MIDNIGHT: [&str; 6] = ["new", "end", "new", "end", "merge", "duplicate"];

/// What does not depend on where the records were.
fn check_midnight(explained: &Value, topic: &Topic) {
    assert_eq!(explained["id"], "truck-1~20240501T235500.000Z");
    assert_eq!(
        (&explained["match"], dids(explained)),
        (&json!("retired"), MIDNIGHT.map(str::to_owned).to_vec())
    );
    assert_eq!(explained["end_time"], "2024-05-02T00:06:00.000Z");
    let records = topic.records_of(&topic.name);
    let of_truck: Vec<_> =
        records.iter().filter(|it| it.key.as_deref() == Some(b"truck-1".as_slice())).collect();
    let places: Vec<_> = of_truck[1..7].iter().map(|it| (it.partition, it.offset)).collect();
    for (record, sent) in
        explained["log"]["records"].as_array().unwrap().iter().zip(&of_truck[1..7])
    {
        assert_eq!(
            (&record["partition"], &record["offset"]),
            (&json!(sent.partition), &json!(sent.offset))
        );
        assert_eq!(ms(&record["log_time"]), sent.timestamp_ms);
        assert_eq!((&record["file"], &record["line"]), (&Value::Null, &Value::Null));
        let late = (sent.timestamp_ms - ms(&record["time"])) as f64 / 1e3;
        assert_eq!(record["late_s"], json!(late));
    }
    for (place, nth) in [
        (&explained["minted"], 2),
        (&explained["absorbed"][0], 4),
        (&explained["retired"], 4),
        (&explained["last_change"], 4),
    ] {
        let (partition, offset) = places[nth];
        assert_eq!((&place["partition"], &place["offset"]), (&json!(partition), &json!(offset)));
        assert_eq!(place["epoch"], 1);
    }
}

#[test]
fn a_store_of_a_topic_is_told_from_its_log() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    topic.send_lines(over_midnight().as_bytes(), "no-device");
    let words = format!("run {} --store sqlite:t.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "t.db", &topic);
    drain(running, &words).ends(0);
    let command = "explain truck-1~20240502T000400.000Z --store sqlite:t.db";
    let explain = format!("{command} --log --brokers {}", topic.brokers);
    check_midnight(&folder.run(&explain).ends(0).json(), &topic);
    let text = folder.text(&format!("{explain} --format table"));
    assert!(text.contains("(epoch 1)") && text.contains("duplicate"), "{text}");
    assert_eq!(folder.run(command).ends(0).json()["log"], Value::Null);

    // Records that were sent since, and are not stored yet, do not appear.
    topic.send_lines(over_midnight().as_bytes(), "no-device");
    assert_eq!(dids(&folder.run(&explain).ends(0).json()), MIDNIGHT);
    let unreachable =
        format!("{command} --log --brokers 127.0.0.1:{}", crate::servers::free_port());
    folder.run(&unreachable).ends(69).prints_nothing();
    folder.run(&format!("{command} a.ndjson")).ends(2).says(&["--log reads it again"]);
    folder.run(&format!("{explain} a.ndjson")).ends(2);

    // Expired records do no harm unless the trip had them.
    let partition = topic.records_of(&topic.name).into_iter();
    let mut of_truck = partition.filter(|it| it.key.as_deref() == Some(b"truck-1".as_slice()));
    let (first, second) = (of_truck.next().unwrap(), of_truck.next().unwrap());
    let brokers = Brokers::new(&topic.brokers, BTreeMap::new()).unwrap();
    let topics = Topics::new(&brokers).unwrap();
    let delete = |offset| {
        let offsets = BTreeMap::from([(first.partition, offset)]);
        block_on(topics.delete_before(&topic.name, &offsets)).unwrap();
    };
    delete(second.offset);
    assert_eq!(dids(&folder.run(&explain).ends(0).json()), MIDNIGHT);
    delete(second.offset + 1);
    folder.run(&explain).ends(78).prints_nothing().says(&["does not give this trip", "retention"]);
    folder.run(command).ends(0);
    // A broker may describe a deleted topic for a while, of which the next one knows nothing.
    let gone = Topics::new(&brokers.within(Duration::from_secs(5))).unwrap();
    for refused in [gone.id("gone").map(drop), gone.extents("gone", 1).map(drop)] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(&refused, KafkaError::NoTopic { topic, .. } if topic == "gone"),
            "{refused}"
        );
    }
    topic.remove();
    folder.run(&explain).ends(78).prints_nothing().says(&["does not exist"]);
}

#[test]
fn a_keyspace_is_told_from_its_log() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    let folder = Folder::new();
    let place = &keyspace.url;
    let store = format!("--store scylla://{}/{}", place.nodes[0], place.keyspace);
    topic.send_lines(over_midnight().as_bytes(), "no-device");
    folder.run(&format!("schema apply {store}")).ends(0);
    let log = format!("{} --group {}", topic.flags(), topic.name);
    let words = format!("run {log} {store} --from earliest --create-topics");
    let running = start(&folder, &words);
    until_committed(&topic, &topic.name);
    drain(running, &words).ends(0);
    let command = format!("explain truck-1~20240502T000400.000Z {store}");
    let log = format!("--brokers {} --group {}", topic.brokers, topic.name);
    check_midnight(&folder.run(&format!("{command} --log {log}")).ends(0).json(), &topic);
    // A group without commits: the row is ahead, and shows how far.
    let other = format!("--brokers {} --group other-{}", topic.brokers, topic.name);
    let refused = folder.run(&format!("{command} --log {other}")).ends(78);
    refused.says(&[&format!("pass --group {}", topic.name)]);
    keyspace.read_as(&format!("other-{}", topic.name));
    let ahead = folder.run(&format!("{command} --log {other}")).ends(0).json();
    assert_eq!(dids(&ahead), MIDNIGHT[..5]);
    folder.run(&format!("{command} a.ndjson")).ends(2);
}

#[test]
fn what_makes_no_sense_says_so() {
    let folder = Folder::with("a.ndjson", minutes("truck-1", &[1, 2]) + &minutes("truck-2", &[1]));
    folder.write("b.ndjson", minutes("truck-1", &[3]));
    folder.write("c.ndjson", minutes("truck-3", &[3]));
    folder.ingest("a.ndjson b.ndjson");
    folder.run("forget truck-2 --yes").ends(0);
    let known = id("truck-1", 1);
    for (words, code, why) in [
        (id("truck-9", 1), 1, "no trip has the id"),
        (id("truck-2", 1), 1, "gone: the trips of truck-2"),
        ("truck-1~yesterday".into(), 2, "yesterday"),
        (format!("{known} --format csv"), 2, "table, ndjson, json"),
        (format!("{known} --log"), 2, "was built from files"),
        (format!("{known} a.ndjson"), 65, "name every file that was imported"),
        (format!("{known} a.ndjson b.ndjson c.ndjson"), 65, "were not imported"),
        (format!("{known} none.ndjson"), 74, "none.ndjson"),
        (format!("{known} --store sqlite:none.db"), 74, "does not exist"),
    ] {
        folder.run(&format!("explain {words}")).ends(code).prints_nothing().says(&[why]);
    }
    // An erasure has a position among the records.
    let explained = folder.run(&format!("explain {known} a.ndjson b.ndjson")).ends(0).json();
    assert_eq!(dids(&explained), ["new", "end", "end"]);
}
