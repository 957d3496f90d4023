//! Checks while instances come and go: committed offsets are never ahead (I6).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::model::time::parse_time;
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{DeviceScope, Order, TripRow, TripStore};

use super::Site;

/// An event of the feed.
pub struct Event {
    pub partition: i32,
    pub id: String,
    pub is_merge: bool,
    pub absorbed: Vec<String>,
    pub version: i64,
    pub device: String,
    pub start_ms: DeviceTime,
    pub end_ms: DeviceTime,
    pub trip: Value,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

pub fn texts(values: &Value) -> Vec<String> {
    values.as_array().unwrap().iter().map(text).collect()
}

/// Every event of the feed, in the order of each partition.
pub fn events(site: &Site) -> Vec<Event> {
    let records = site.topic.records_of(&site.feed.name);
    let read = |record: crate::topic::StoredRecord| {
        let event: Value = serde_json::from_slice(&record.value).unwrap();
        let trip = &event["trip"];
        let time = |name: &str| DeviceTime(parse_time(trip[name].as_str().unwrap()).unwrap());
        let device = text(&trip["device_id"]);
        assert_eq!(record.key.as_deref(), Some(device.as_bytes()));
        Event {
            partition: record.partition,
            id: text(&event["id"]),
            is_merge: event["type"] == "merged",
            absorbed: texts(&event["absorbed"]),
            version: event["version"].as_i64().unwrap(),
            device,
            start_ms: time("start_time"),
            end_ms: time("end_time"),
            trip: trip.clone(),
        }
    };
    records.into_iter().map(read).collect()
}

/// Every trip of a keyspace.
pub fn rows(site: &Site, store: &ScyllaStore) -> Vec<TripRow> {
    site.keyspace.runtime.block_on(async {
        let mut rows = Vec::new();
        for device in store.devices(DeviceScope::All, None, usize::MAX).await.unwrap() {
            let all =
                store.range(&device, DeviceTime::MIN, DeviceTime::MAX, Order::Asc, usize::MAX);
            rows.append(&mut all.await.unwrap());
        }
        rows
    })
}

fn times(row: &TripRow) -> Vec<DeviceTime> {
    row.to_trip().unwrap().path().iter().map(|sample| sample.time_ms).collect()
}

/// Device and device time of a good line.
fn sample(line: &[u8]) -> (String, DeviceTime) {
    let sample: Value = serde_json::from_slice(line).unwrap();
    let time_ms = DeviceTime(parse_time(sample["time"].as_str().unwrap()).unwrap());
    (text(&sample["device_id"]), time_ms)
}

/// What lies before committed offsets is stored and announced, or it is a dead letter. Returns how
/// many records were checked.
pub fn nothing_is_ahead(site: &Site, committed: &BTreeMap<i32, i64>) -> usize {
    let store = site.keyspace.store();
    let base = site.base(&store);
    let input = site.topic.records_of(&site.topic.name);
    let dead_letters = site.dead_letters();
    let mut announced: HashMap<String, Vec<Event>> = HashMap::new();
    for event in events(site) {
        announced.entry(event.device.clone()).or_default().push(event);
    }
    let mut stored: HashMap<String, BTreeSet<DeviceTime>> = HashMap::new();
    for row in rows(site, &store) {
        stored.entry(row.device_id.clone()).or_default().extend(times(&row));
    }
    let (mut seen, mut checked) = (HashSet::new(), 0);
    for record in &input {
        let (partition, offset) = (record.partition, record.offset);
        if committed.get(&partition).is_none_or(|committed| offset >= *committed) {
            continue;
        }
        checked += 1;
        if site.bad.contains(&record.value) {
            let letter = (partition, offset, None);
            assert!(
                dead_letters.contains(&letter),
                "{letter:?} was committed and is not a dead letter"
            );
            continue;
        }
        let (device, time_ms) = sample(&record.value);
        if !seen.insert((device.clone(), time_ms)) {
            continue;
        }
        // A trip that changes while its days are listed may be missing there, but not in a lookup.
        let is_listed = stored.get(&device).is_some_and(|times| times.contains(&time_ms));
        let is_stored = is_listed || {
            let row = site.keyspace.runtime.block_on(store.covering(&device, time_ms)).unwrap();
            row.is_some_and(|row| times(&row).contains(&time_ms))
        };
        let place = format!("{device} at {time_ms}, offset {offset} of partition {partition}");
        assert!(is_stored, "{place} was committed and is not stored");
        let announces = |event: &Event| {
            (event.start_ms..=event.end_ms).contains(&time_ms) && event.version >= base + 2 * offset
        };
        let is_announced =
            announced.get(&device).is_some_and(|events| events.iter().any(announces));
        assert!(is_announced, "{place} was committed and is not announced");
    }
    checked
}
