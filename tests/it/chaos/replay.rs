//! A replay of the whole topic: into the store that has it all, and into empty ones.

use scylla::value::Row;

use super::log::Size;
use super::{Instance, Site};
use crate::cli::number;
use crate::keyspace::{ClusteringOrder, Keyspace};

const SAMPLES: usize = 5000;

const COLUMNS: [&str; 23] = [
    "t_star",
    "kind",
    "ids",
    "version",
    "partition",
    "samples",
    "moving_ms",
    "idle_ms",
    "parked_ms",
    "distance_m",
    "max_speed_mps",
    "start_lat",
    "start_lon",
    "end_lat",
    "end_lon",
    "min_lat",
    "min_lon",
    "max_lat",
    "max_lon",
    "driver",
    "path",
    "jumps",
    "jump_s",
];

/// Every column of every row, with its write timestamp.
pub fn everything(keyspace: &Keyspace) -> Vec<String> {
    let writetimes = COLUMNS.map(|column| format!("WRITETIME({column})")).join(", ");
    let tables = ["trips", "device_days", "days_of_device", "forgets"];
    let mut selects: Vec<_> = tables.iter().map(|it| format!("SELECT * FROM {it}")).collect();
    let key = "device_id, bucket, end_time, start_time";
    selects.push(format!("SELECT {key}, WRITETIME(driver_time), {writetimes} FROM trips"));
    let mut found = Vec::new();
    for select in selects {
        let answer = keyspace.session.query_unpaged(select.clone(), ());
        let answer = keyspace.runtime.block_on(answer).unwrap().into_rows_result().unwrap();
        let rows = answer.rows::<Row>().unwrap().map(|row| format!("{select}: {:?}", row.unwrap()));
        found.extend(rows);
    }
    found.sort_unstable();
    found
}

/// Reads the topic to its end with `instances` instances. Returns their counts: delivered and
/// applied.
fn read(site: &Site, keyspace: &Keyspace, group: &str, instances: usize) -> (u64, u64) {
    keyspace.read_as(group);
    let words = site.words_of(keyspace, group);
    let start = |nth| Instance::start(&site.folder, &words, &format!("{group}-{nth}"));
    let mut running: Vec<_> = (0..instances).map(start).collect();
    site.until_committed(group, &mut running);
    let (mut delivered, mut applied) = (0, 0);
    for instance in &mut running {
        instance.stop();
        let summary = instance.drains();
        delivered += number(&summary["delivered"]);
        applied += number(&summary["applied"]);
    }
    (delivered, applied)
}

/// Fails with the first row that differs.
#[track_caller]
pub fn assert_same(found: &[String], expected: &[String]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!(found == expected, "found\n{found}\nexpected\n{expected}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn a_replay_changes_nothing_and_gives_the_same_to_the_byte() {
    let Some(site) = Site::new(Size { devices: 20, samples: SAMPLES }, 7) else { return };
    site.send(&site.lines);
    let (delivered, applied) = read(&site, &site.keyspace, &site.topic.name, 1);
    assert!(delivered == SAMPLES as u64 && applied > 0, "{delivered} {applied}");
    let once = everything(&site.keyspace);
    assert!(once.len() > 50, "{} rows", once.len());

    // Another group starts where the epoch does.
    let again = read(&site, &site.keyspace, &format!("{}-other", site.topic.name), 1);
    assert_eq!(again.0, SAMPLES as u64);
    assert_same(&everything(&site.keyspace), &once);

    let exported = site.folder.text(&format!("epoch export --store {}", site.keyspace.url));
    site.folder.write("epochs.json", exported);
    for instances in 1..=2 {
        let empty = Keyspace::new(ClusteringOrder::Desc).unwrap();
        let import = format!("epoch import epochs.json --store {}", empty.url);
        site.folder.run(&import).ends(0);
        read(&site, &empty, &format!("{}-{instances}", site.topic.name), instances);
        assert_same(&everything(&empty), &once);
    }
    site.remove();
}
