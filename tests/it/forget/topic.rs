//! A store of a topic in a file: the forget goes through the topic.

use rusqlite::Connection;
use serde_json::Value;
use tstar::internals::kafka::producer::ProducerRecord;

use super::{HASTE, LATER, count, devices, fleet, ids, is_gone, lines_of, others};
use crate::cli::{Folder, minutes, number};
use crate::control_keys;
use crate::topic::file::until_read;
use crate::topic::{Topic, drain, start};

const PARTITIONS: i32 = 4;
const DEVICE: &str = "truck-7";
const STORE: &str = "sqlite:t.db";

/// Reads a topic to its end.
fn read(folder: &Folder, topic: &Topic, store: &str, flags: &str) -> Value {
    let words = format!("run {} {flags} {HASTE} --store sqlite:{store}", topic.flags());
    let running = start(folder, &words);
    until_read(folder, store, topic);
    drain(running, &words).ends(0).json()
}

#[test]
fn run_carries_it_out_and_no_replay_brings_it_back() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = control_keys::folder();
    let log = fleet(&folder, 8000);
    topic.send_lines(&log, "no-device");
    let flags = topic.flags();
    let words = format!("run {flags} {HASTE} --store {STORE} --from earliest");
    let running = start(&folder, &words);
    until_read(&folder, "t.db", &topic);
    let (second, third) = ("truck-3", "truck-4");
    let kept = others(&folder, STORE, &[DEVICE, second, third]);
    let erased = [DEVICE, second, third].map(|device| ids(&folder, STORE, device));

    // The daemon runs, so the command can wait for it. The topic is the store's, named or not.
    let brokers = format!("--brokers {} --store {STORE}", topic.brokers);
    let forget = format!("forget {DEVICE} --before {LATER} --yes --wait {brokers}");
    let ran = folder.run(&forget).ends(0).says(&["`tstar run` carries it out", "retention ends"]);
    let (asked, forgot) =
        (lines_of(&ran, "requested").remove(0), lines_of(&ran, "forgot").remove(0));
    for field in ["before", "partition", "offset", "version", "by"] {
        assert_eq!(asked[field], forgot[field], "{field}");
    }
    assert_eq!((&asked["requested"], &forgot["forgot"]), (&DEVICE.into(), &DEVICE.into()));
    let record = topic.records_of(&topic.name).into_iter().find(|it| !it.headers.is_empty());
    let record = record.unwrap();
    assert_eq!(asked["partition"], record.partition);
    assert_eq!(asked["offset"], record.offset);
    assert_eq!(record.header("tstar-control"), "forget");
    is_gone(&folder, STORE, DEVICE, &erased[0]);
    drain(running, &words).ends(0);

    // Without a daemon, the record waits in the topic.
    let forget = format!("forget {second} --before {LATER} --yes {flags} --store {STORE}");
    let waited = folder.run(&format!("{forget} --wait --wait-timeout 300ms"));
    let waited = waited.ends(1).says(&["0 of 1 devices were erased within --wait-timeout, 300ms"]);
    assert_eq!((lines_of(&waited, "requested").len(), lines_of(&waited, "forgot").len()), (1, 0));
    folder.run(&forget.replace(second, third)).ends(0);
    assert_eq!(ids(&folder, STORE, second), erased[1]);
    read(&folder, &topic, "t.db", "");
    let is_right = |store: &str| {
        for (device, ids) in [DEVICE, second, third].into_iter().zip(&erased) {
            is_gone(&folder, store, device, ids);
        }
        assert!(others(&folder, store, &[]) == kept, "others in {store}");
    };
    is_right(STORE);

    // A sample that was in flight comes too late.
    let late = String::from_utf8_lossy(&log);
    let late = late.lines().find(|line| line.contains("\"truck-7\"")).unwrap();
    topic.send_lines(late.as_bytes(), DEVICE);
    let summary = read(&folder, &topic, "t.db", "");
    assert_eq!(number(&summary["dropped"]["forgotten"]), 1, "{summary}");

    // A replay of everything: into the file that has it all, and into an empty one.
    let file = Connection::open(folder.path("t.db")).unwrap();
    file.execute("UPDATE positions SET next_offset = 0", []).unwrap();
    drop(file);
    let summary = read(&folder, &topic, "t.db", "");
    assert_eq!(number(&summary["delivered"]), 8001);
    is_right(STORE);
    folder.write("epochs.json", folder.text(&format!("epoch export --store {STORE}")));
    folder.run("epoch import epochs.json --store sqlite:empty.db").ends(0);
    read(&folder, &topic, "empty.db", "--from earliest");
    is_right("sqlite:empty.db");
    let query = "SELECT group_concat(device_id || version || before || days) FROM
         (SELECT * FROM forgets ORDER BY device_id, version)";
    let forgets = |name| {
        let file = Connection::open(folder.path(name)).unwrap();
        file.query_row(query, [], |row| row.get::<_, String>(0)).unwrap()
    };
    assert_eq!(forgets("empty.db"), forgets("t.db"));
    topic.remove();
}

/// Who may read the topic and produce to it can copy a signed record.
#[test]
fn copies_of_a_forget_leave_no_row_no_event_and_one_line() {
    const COPIES: usize = 300;
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = control_keys::folder();
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    read(&folder, &topic, "t.db", "--from earliest");
    let words = format!("{} --store {STORE}", topic.flags());
    folder.run(&format!("forget truck-1 --before {LATER} --yes {words}")).ends(0);
    topic.send(&vec![control_keys::forget(&topic, "truck-1", LATER); COPIES]);
    let run = format!("run {HASTE} {words}");
    let running = start(&folder, &run);
    until_read(&folder, "t.db", &topic);
    let ran = drain(running, &run).ends(0);
    let lines = |what: &str| ran.stderr.matches(what).count();
    assert_eq!(lines("audit: trips of device `truck-1`"), 2, "{ran}");
    assert_eq!((lines(": erased, by"), lines(": erased before, nothing was left")), (1, 1));
    let path = folder.path("t.db");
    assert_eq!(count(&path, "SELECT count(*) FROM forgets"), 1);
    let events = "SELECT count(*) FROM changes WHERE event LIKE '{\"type\":\"forgotten\"%'";
    assert_eq!(count(&path, events), 1);
    // A replay decides the same.
    let verify = format!("verify --store {STORE} --brokers {}", topic.brokers);
    folder.run(&verify).ends(0);
}

#[test]
fn a_device_without_trips_is_accepted_and_another_log_is_refused() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = control_keys::folder();
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    read(&folder, &topic, "t.db", "--from earliest --partitioner murmur2");
    let flags = topic.flags();
    let words = format!("--yes {flags} --store {STORE}");
    // The record comes before the first sample.
    let ran = folder.run(&format!("forget truck-2 --before 2024-05-01T08:05:00Z {words}")).ends(0);
    let ran = ran.says(&["no trip of device `truck-2` is stored; the record is sent anyway"]);
    let partition = ran.json()["partition"].clone();
    topic.send_lines(minutes("truck-2", &[4, 30]).as_bytes(), "no-device");
    let records = topic.records_of(&topic.name);
    let of_it = records.iter().filter(|it| it.key.as_deref() == Some(b"truck-2"));
    let partitions: Vec<_> = of_it.map(|it| it.partition).collect();
    assert_eq!(partitions, [partition.as_i64().unwrap() as i32; 3], "where its samples come");
    let summary = read(&folder, &topic, "t.db", "");
    assert_eq!((&summary["applied"], &summary["dropped"]["forgotten"]), (&1.into(), &1.into()));

    let before = topic.ends(PARTITIONS);
    let other = Topic::new(PARTITIONS).unwrap();
    let unused_port = crate::servers::free_port();
    for (words, code, says) in [
        (format!("truck-1 --yes {} --store {STORE}", other.flags()), 78, "was built from topic"),
        (format!("truck-1 --store {STORE} {flags}"), 2, "cannot be undone; pass --yes"),
        (format!("truck-1 --before 2100-01-01T00:00:00Z {words}"), 2, "more than max_future"),
        (
            format!("truck-1 --yes --store {STORE} --brokers 127.0.0.1:{unused_port}"),
            69,
            "no Kafka broker",
        ),
    ] {
        folder.run(&format!("forget {words}")).ends(code).prints_nothing().says(&[says]);
    }
    topic.grow(8);
    let ran = folder.run(&format!("forget truck-1 {words}"));
    ran.ends(78).prints_nothing().says(&["has 8 partitions", "epoch new"]);
    assert_eq!(topic.ends(PARTITIONS), before);
}

#[test]
fn a_partition_is_known_from_an_epoch_before_while_there_are_as_many() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = control_keys::folder();
    let value = minutes("truck-1", &[1]).trim().into();
    topic.send(&[ProducerRecord {
        key: Some("vehicle/1".into()),
        value,
        ..ProducerRecord::default()
    }]);
    read(&folder, &topic, "t.db", "--key any --from earliest");
    let words = format!("{} --store {STORE}", topic.flags());
    folder.run(&format!("epoch new --key any {words}")).ends(0);
    // The trip is younger and stays.
    let forget = format!("forget truck-1 --before 2024-05-01T08:00:00Z --yes {words}");
    let line = folder.run(&forget).ends(0).json();
    assert_eq!(line["partition"], topic.records_of(&topic.name)[0].partition);
    let versions = "SELECT base + 2 FROM epochs WHERE epoch = 2";
    assert_eq!(line["version"], count(&folder.path("t.db"), versions), "by the newest epoch");
    read(&folder, &topic, "t.db", "--key any");
    assert_eq!(devices(&folder, STORE), ["truck-1"]);
    topic.grow(8);
    folder.run(&format!("epoch new --key any {words}")).ends(0);
    let refused = folder.run(&forget).ends(78).prints_nothing();
    refused.says(&["its latest trip is from an epoch with another partition count"]);
}

/// The partition that a device id leads to.
fn by_id(topic: &Topic, device: &str) -> i32 {
    let like =
        Topic::on(topic.brokers.clone(), format!("{}-{device}", topic.name), PARTITIONS, &[]);
    like.send_lines(minutes(device, &[1]).as_bytes(), device);
    let partition = like.records_of(&like.name)[0].partition;
    like.remove();
    partition
}

#[test]
fn a_device_that_is_keyed_otherwise_is_found_by_its_trips() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = control_keys::folder();
    // Eight devices, keyed by ids that lead elsewhere.
    let names: Vec<_> = (1..=8).map(|nth| format!("truck-{nth}")).collect();
    for (nth, name) in names.iter().enumerate() {
        let line = minutes(name, &[1]).trim().to_owned();
        let key = Some(format!("vehicle/{nth}").into_bytes());
        topic.send(&[ProducerRecord {
            key,
            value: line.into_bytes(),
            ..ProducerRecord::default()
        }]);
    }
    let any = topic.flags();
    read(&folder, &topic, "t.db", "--key any --from earliest");
    let records: Vec<_> = topic.records_of(&topic.name);
    let words = format!("--yes {any} --store {STORE}");
    let refused = folder.run(&format!("forget truck-9 {words}")).ends(78).prints_nothing();
    refused.says(&["its partition", "does not follow from its id", "no trip of it is stored"]);
    let ran = folder.run(&format!("forget --all-before {LATER} {words}")).ends(0);
    let lines = lines_of(&ran, "requested");
    assert_eq!(lines.len(), 8);
    let mut elsewhere = 0;
    for (nth, name) in names.iter().enumerate() {
        let key = format!("vehicle/{nth}").into_bytes();
        let came = records.iter().find(|it| it.key.as_ref() == Some(&key)).unwrap();
        let line = lines.iter().find(|line| line["requested"] == name.as_str()).unwrap();
        assert_eq!(line["partition"], came.partition, "{name}");
        elsewhere += usize::from(line["partition"] != by_id(&topic, name));
    }
    assert!(elsewhere > 0, "the keys lead where the ids would");
    read(&folder, &topic, "t.db", "--key any");
    assert_eq!(devices(&folder, STORE), [""; 0]);
    assert_eq!(count(&folder.path("t.db"), "SELECT count(*) FROM forgets"), 8);
}
