//! A keyspace: the forget goes through the topic, and other groups replay it.

use scylla::value::Row;

use super::{HASTE, LATER, devices, fleet, ids, is_gone, lines_of, others};
use crate::cli::{Folder, number};
use crate::control_keys;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::keyspace::until_committed;
use crate::topic::{Topic, drain, start};

const PARTITIONS: i32 = 4;
const DEVICE: &str = "truck-7";

/// Rows of the tables in which a device could appear.
fn rows(keyspace: &Keyspace, device: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for table in ["trips", "device_days", "days_of_device"] {
        let condition = device.map_or(String::new(), |device| {
            format!(" WHERE device_id = '{device}' ALLOW FILTERING")
        });
        let select = format!("SELECT * FROM {table}{condition}");
        let answer = keyspace.runtime.block_on(keyspace.session.query_unpaged(select, ()));
        let answer = answer.unwrap().into_rows_result().unwrap();
        found
            .extend(answer.rows::<Row>().unwrap().map(|row| format!("{table} {:?}", row.unwrap())));
    }
    found.sort_unstable();
    found
}

/// Reads the topic to its end as another group.
fn replay(folder: &Folder, topic: &Topic, keyspace: &Keyspace, group: &str) -> (u64, u64) {
    let group = format!("{}-{group}", topic.name);
    keyspace.read_as(&group);
    let words = format!(
        "run {} --store {} --group {group} --from earliest --create-topics {HASTE}",
        topic.flags(),
        keyspace.url
    );
    let running = start(folder, &words);
    until_committed(topic, &group);
    let summary = drain(running, &words).ends(0).json();
    (number(&summary["delivered"]), number(&summary["applied"]))
}

#[test]
fn run_carries_it_out_and_no_replay_brings_it_back() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let folder = control_keys::folder();
    let store = keyspace.url.to_string();
    let words = format!("{} --store {store}", topic.flags());
    let none = folder.run(&format!("forget {DEVICE} --yes {words}"));
    none.ends(1).prints_nothing().says(&["has no epoch"]);
    topic.send_lines(&fleet(&folder, 6000), "no-device");
    replay(&folder, &topic, &keyspace, "first");
    let (kept, erased) = (others(&folder, &store, &[DEVICE]), ids(&folder, &store, DEVICE));
    assert!(!rows(&keyspace, Some(DEVICE)).is_empty());

    let running = start(&folder, &format!("run {words} --group {}-first {HASTE}", topic.name));
    let ran = folder.run(&format!("forget {DEVICE} --before {LATER} --yes --wait {words}")).ends(0);
    assert_eq!((lines_of(&ran, "requested").len(), lines_of(&ran, "forgot").len()), (1, 1));
    until_committed(&topic, &format!("{}-first", topic.name));
    drain(running, "run").ends(0);
    is_gone(&folder, &store, DEVICE, &erased);
    assert_eq!(rows(&keyspace, Some(DEVICE)), [""; 0]);
    assert!(others(&folder, &store, &[]) == kept);
    let events = topic.records_of(&format!("{}.trips", topic.name));
    let event =
        format!("{{\"type\":\"forgotten\",\"device_id\":\"{DEVICE}\",\"before\":\"{LATER}\"");
    let told_of = events.iter().filter(|it| it.value.starts_with(event.as_bytes())).count();
    assert_eq!(told_of, 1);

    // Another group reads all of it again, into this keyspace and into an empty one.
    let all = rows(&keyspace, None);
    assert_eq!(replay(&folder, &topic, &keyspace, "again").0, 6000);
    assert_eq!(rows(&keyspace, None), all);
    folder.write("epochs.json", folder.text(&format!("epoch export --store {store}")));
    let empty = Keyspace::new(ClusteringOrder::Desc).unwrap();
    folder.run(&format!("epoch import epochs.json --store {}", empty.url)).ends(0);
    replay(&folder, &topic, &empty, "empty");
    assert_eq!(rows(&empty, None), all);
    is_gone(&folder, &empty.url.to_string(), DEVICE, &erased);

    // Then all other devices.
    let ran = folder.run(&format!("forget --all-before {LATER} --yes {words}")).ends(0);
    assert_eq!(lines_of(&ran, "requested").len(), 29);
    replay(&folder, &topic, &keyspace, "first");
    assert_eq!(devices(&folder, &store), [""; 0]);
    assert_eq!(rows(&keyspace, None), [""; 0]);
    replay(&folder, &topic, &keyspace, "last");
    assert_eq!(rows(&keyspace, None), [""; 0]);
}

#[test]
fn positions_from_before_a_forget_are_restored_on_demand_only() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let folder = control_keys::folder();
    let store = keyspace.url.to_string();
    topic.send_lines(&fleet(&folder, 600), "no-device");
    replay(&folder, &topic, &keyspace, "first");
    let copied = folder.run(&format!("backup positions before.json --store {store}")).ends(0);
    let words = format!("{} --store {store}", topic.flags());
    let running = start(&folder, &format!("run {words} --group {}-first {HASTE}", topic.name));
    folder.run(&format!("forget {DEVICE} --before {LATER} --yes --wait {words}")).ends(0);
    until_committed(&topic, &format!("{}-first", topic.name));
    drain(running, "run").ends(0);
    folder.run(&format!("backup positions after.json --store {store}")).ends(0);

    let before = format!("restore positions before.json --store {store}");
    folder.run(&before).ends(78).prints_nothing().says(&[DEVICE, "erased", "--allow-erased"]);
    folder.run(&format!("restore positions after.json --store {store}")).ends(0);
    let restored = folder.run(&format!("{before} --allow-erased")).ends(0);
    assert_eq!(restored.json(), copied.json());
}
