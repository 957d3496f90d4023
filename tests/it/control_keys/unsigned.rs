//! A producer without a key can fill the dead letters, and do nothing else.

use serde_json::json;
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::model::time::parse_time;

use super::{FILE, NAME, folder, forget, key, read, signed_by};
use crate::cli::{Folder, minutes, number};
use crate::forget::count;
use crate::topic::file::until_read;
use crate::topic::{PARTITIONS, Topic, drain, start};

/// 2024-05-01T08:00:00Z
const T: DeviceTime = DeviceTime(1_714_550_400_000);

fn kind(name: &[u8]) -> (String, Option<Vec<u8>>) {
    ("tstar-control".into(), Some(name.to_vec()))
}

fn unsigned(value: &str) -> ProducerRecord {
    let headers = vec![kind(b"forget")];
    ProducerRecord {
        key: Some("truck-1".into()),
        value: value.into(),
        headers,
        ..ProducerRecord::default()
    }
}

/// All kinds of forgeries of a forget of `truck-1`.
fn forged(topic: &Topic) -> Vec<ProducerRecord> {
    let (ours, name) = (key(NAME, 7), topic.name.as_str());
    let of_another = forget(topic, "truck-2", "2024-05-01T07:00:00Z");
    let later = forget(topic, "truck-1", "2024-05-01T07:00:00Z");
    let far = DeviceTime(parse_time("2100-01-01T00:00:00Z").unwrap());
    vec![
        unsigned(&json!({ "before": i64::MAX }).to_string()),
        unsigned(r#"{"before":"2025-01-01T00:00:00Z"}"#),
        unsigned(""),
        unsigned("no body"),
        ProducerRecord { headers: vec![kind(b"erase")], ..unsigned("{}") },
        ProducerRecord { key: None, ..unsigned("{}") },
        // With another secret, for another topic, of another device, of another time.
        signed_by(&key(NAME, 8), name, "truck-1", T + 3_600_000),
        signed_by(&key("stranger", 8), name, "truck-1", T + 3_600_000),
        signed_by(&ours, "another-topic", "truck-1", T + 3_600_000),
        ProducerRecord { key: Some("truck-1".into()), ..of_another },
        ProducerRecord { value: json!({ "before": i64::MAX }).to_string().into(), ..later },
        // Signed, and further ahead than any clock.
        signed_by(&ours, name, "truck-1", far),
        signed_by(&ours, name, "truck-1", DeviceTime::MAX),
    ]
}

#[test]
fn no_record_without_a_right_signature_erases_and_none_comes_to_life() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = folder();
    let lines = minutes("truck-1", &[1, 2, 30]) + &minutes("truck-2", &[1, 2]);
    topic.send_lines(lines.as_bytes(), "no-device");
    read(&folder, &topic, "t.db");
    let trips = folder.trips("t.db");
    assert_eq!(trips.len(), 3);

    let mut forged = forged(&topic);
    topic.send(&forged);
    // The same again, in every partition.
    let of_partition =
        |it: &ProducerRecord, at| ProducerRecord { partition: Some(at), ..it.clone() };
    let copies = forged.iter().flat_map(|it| (0..PARTITIONS).map(move |at| of_partition(it, at)));
    let copies: Vec<_> = copies.collect();
    topic.send(&copies);
    let all = forged.len() + copies.len();
    let summary = read(&folder, &topic, "t.db");
    assert_eq!(number(&summary["delivered"]), all as u64);
    assert_eq!(summary["dead_letters"], json!({ "not_authorised": all }), "{summary}");
    assert_eq!(folder.trips("t.db"), trips);
    assert_eq!(count(&folder.path("t.db"), "SELECT count(*) FROM forgets"), 0);
    let events = "SELECT count(*) FROM changes WHERE event LIKE '%forgotten%'";
    assert_eq!(count(&folder.path("t.db"), events), 0);
    forged.clear();

    // A replay does not accept them, and later samples are processed as usual.
    let ends = topic.ends(PARTITIONS);
    let brokers = format!("--brokers {} --store sqlite:t.db", topic.brokers);
    for flags in ["--dry-run", "", "--reason not_authorised"] {
        let ran = folder.run(&format!("dlq replay {brokers} {flags}")).ends(0);
        let ran = ran.says(&["they never go back", "send it again with tstar forget"]);
        let found = ran.json();
        assert_eq!(
            (&found["replayed"], &found["never"]),
            (&0.into(), &json!({"control_record": all}))
        );
    }
    assert_eq!(topic.ends(PARTITIONS), ends);
    topic.send_lines(minutes("truck-1", &[3]).as_bytes(), "no-device");
    assert_eq!(read(&folder, &topic, "t.db")["applied"], 1);
    agree(&folder, &topic);
}

/// All readers of the log decide alike.
fn agree(folder: &Folder, topic: &Topic) {
    let brokers = format!("--brokers {} --json", topic.brokers);
    let report = folder.run(&format!("verify --store sqlite:t.db {brokers}")).ends(0).json();
    assert_eq!(report["differences"], json!({}));
    let (brokers, from) = (&topic.brokers, "--from earliest --store sqlite:t.db");
    let replayed = folder.run(&format!("replay topic {from} --brokers {brokers}")).ends(0).json();
    assert_eq!(replayed["rows_that_differ"], 0);
    let into =
        format!("rebuild --store sqlite:t.db --into sqlite:new.db --brokers {brokers} --json");
    let rebuilt = folder.run(&into).ends(0).json();
    assert_eq!((&rebuilt["equal"], &rebuilt["gone"]), (&rebuilt["old_trips"], &0.into()));
}

#[test]
fn a_signed_one_counts_in_the_partition_of_its_device_alone() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    for partitioner in ["none", "murmur2"] {
        let (folder, store) = (folder(), "t.db");
        let device = format!("truck-of-{partitioner}");
        topic.send_lines(minutes(&device, &[1, 2, 30]).as_bytes(), "no-device");
        let words = format!("run {} --from earliest --partitioner {partitioner}", topic.flags());
        let drained = |folder: &Folder| {
            let words = format!("{words} --store sqlite:{store}");
            let running = start(folder, &words);
            until_read(folder, store, &topic);
            drain(running, &words).ends(0).json()
        };
        drained(&folder);
        let select = format!("SELECT partition FROM trips WHERE device_id = '{device}'");
        let own = count(&folder.path(store), &select) as i32;
        let trips = folder.trips(store);

        let record = forget(&topic, &device, "2024-05-01T08:20:00Z");
        let elsewhere: Vec<_> = (0..PARTITIONS).filter(|at| *at != own).collect();
        let of_partition = |at| ProducerRecord { partition: Some(at), ..record.clone() };
        let copies: Vec<_> = elsewhere.iter().map(|at| of_partition(*at)).collect();
        topic.send(&copies);
        let summary = drained(&folder);
        assert_eq!(summary["dead_letters"], json!({ "not_authorised": copies.len() }));
        assert_eq!((folder.trips(store), forgets(&folder, &device)), (trips.clone(), 0));

        topic.send(&[of_partition(own)]);
        assert_eq!(drained(&folder)["dead_letters"], json!({}));
        assert_eq!((folder.trips(store).len(), forgets(&folder, &device)), (trips.len() - 1, 1));
        agree(&folder, &topic);
    }
}

fn forgets(folder: &Folder, device: &str) -> i64 {
    let select = format!("SELECT count(*) FROM forgets WHERE device_id = '{device}'");
    count(&folder.path("t.db"), &select)
}

#[test]
fn one_with_a_right_signature_erases_for_all_who_have_the_key_and_no_one_else_reads() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = folder();
    let lines = minutes("truck-1", &[1, 2, 30]) + &minutes("truck-2", &[1, 2]);
    topic.send_lines(lines.as_bytes(), "no-device");
    topic.send(&[forget(&topic, "truck-1", "2024-05-01T08:20:00Z")]);
    read(&folder, &topic, "t.db");
    assert_eq!(folder.trips("t.db").len(), 2);
    assert_eq!(count(&folder.path("t.db"), "SELECT count(*) FROM forgets"), 1);
    agree(&folder, &topic);
    let (id, brokers) =
        (folder.trips("t.db")[0]["id"].clone(), format!("--brokers {}", topic.brokers));
    let id = id.as_str().unwrap();

    let mut keyless = folder;
    keyless.env("TSTAR_CONTROL_KEY_FILE", "");
    let lacks = format!("requires control keys that control_key_file lacks: `{NAME}`");
    for words in [
        format!("run {}", topic.flags()),
        format!("verify {brokers}"),
        format!("replay topic --from earliest {brokers}"),
        format!("replay topic --from earliest --apply {brokers}"),
        format!("rebuild --into sqlite:other.db {brokers}"),
        format!("explain {id} --log {brokers}"),
        format!("run {} --control-key-file other.keys", topic.flags()),
    ] {
        keyless.write("other.keys", key("other", 9).to_line());
        let ran = keyless.run(&format!("{words} --store sqlite:t.db")).ends(78);
        ran.prints_nothing().says(&[&lacks]);
    }
    keyless.write(FILE, key(NAME, 8).to_line());
    let ran =
        keyless.run(&format!("verify {brokers} --control-key-file {FILE} --store sqlite:t.db"));
    let differs = format!("control key `{NAME}` of control_key_file has a different secret");
    ran.ends(78).says(&[&differs]);
}
