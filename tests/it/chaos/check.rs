//! Checks while instances come and go: committed offsets are never ahead (I6).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::model::time::parse_time;
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{TripRow, TripStore};

use super::Site;
use super::expected::{Expected, Place, Read, read, rows};

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

/// An erasure that the feed announces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Erasure {
    pub device: String,
    pub before_ms: DeviceTime,
    pub version: i64,
}

impl Erasure {
    /// Whether a consumer ignores an event because of it.
    pub fn covers(&self, event: &Event) -> bool {
        event.device == self.device && event.version < self.version && event.end_ms < self.before_ms
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

pub fn texts(values: &Value) -> Vec<String> {
    values.as_array().unwrap().iter().map(text).collect()
}

/// Every event of the feed, in the order of each partition: trips, and erasures.
pub fn feed(site: &Site) -> (Vec<Event>, Vec<Erasure>) {
    let (mut events, mut erasures) = (Vec::new(), Vec::new());
    for record in site.topic.records_of(&site.feed.name) {
        let event: Value = serde_json::from_slice(&record.value).unwrap();
        let version = event["version"].as_i64().unwrap();
        let time = |it: &Value| DeviceTime(parse_time(it.as_str().unwrap()).unwrap());
        if event["type"] == "forgotten" {
            let (device, before_ms) = (text(&event["device_id"]), time(&event["before"]));
            erasures.push(Erasure { device, before_ms, version });
            continue;
        }
        let trip = &event["trip"];
        let device = text(&trip["device_id"]);
        assert_eq!(record.key.as_deref(), Some(device.as_bytes()));
        events.push(Event {
            partition: record.partition,
            id: text(&event["id"]),
            is_merge: event["type"] == "merged",
            absorbed: texts(&event["absorbed"]),
            version,
            device,
            start_ms: time(&trip["start_time"]),
            end_ms: time(&trip["end_time"]),
            trip: trip.clone(),
        });
    }
    (events, erasures)
}

fn times(row: &TripRow) -> Vec<DeviceTime> {
    row.to_path().unwrap().iter().map(|sample| sample.time_ms).collect()
}

/// What is stored and announced while instances run.
pub struct Findings<'a> {
    site: &'a Site,
    store: ScyllaStore,
    base: i64,
    letters: BTreeSet<Place>,
    announced: HashMap<String, Vec<Event>>,
    erasures: Vec<Erasure>,
    stored: HashMap<String, BTreeSet<DeviceTime>>,
}

impl<'a> Findings<'a> {
    /// With these dead letters, events and erasures; the rest as it is now.
    pub fn new(
        site: &'a Site,
        letters: BTreeSet<Place>,
        (events, erasures): (Vec<Event>, Vec<Erasure>),
    ) -> Self {
        let store = site.keyspace.store();
        let base = site.base(&store);
        let mut announced: HashMap<String, Vec<Event>> = HashMap::new();
        for event in events {
            announced.entry(event.device.clone()).or_default().push(event);
        }
        let mut stored: HashMap<String, BTreeSet<DeviceTime>> = HashMap::new();
        for row in site.keyspace.runtime.block_on(rows(&store)) {
            stored.entry(row.device_id.clone()).or_default().extend(times(&row));
        }
        Self { site, store, base, letters, announced, erasures, stored }
    }

    /// A trip that changes while its days are listed may be missing there, but not in a lookup.
    fn is_stored(&self, device: &str, time_ms: DeviceTime) -> bool {
        self.stored.get(device).is_some_and(|times| times.contains(&time_ms)) || {
            let row = self.site.keyspace.runtime.block_on(self.store.covering(device, time_ms));
            row.unwrap().is_some_and(|row| times(&row).contains(&time_ms))
        }
    }

    fn is_announced(&self, device: &str, time_ms: DeviceTime, version: i64) -> bool {
        let announces = |event: &Event| {
            (event.start_ms..=event.end_ms).contains(&time_ms) && event.version >= version
        };
        self.announced.get(device).is_some_and(|events| events.iter().any(announces))
    }

    fn is_erased(&self, erasure: &Erasure) -> bool {
        let listed = self.store.forgets(&erasure.device);
        let listed = self.site.keyspace.runtime.block_on(listed).unwrap();
        listed.iter().any(|it| it.version.get() == erasure.version)
            && self.erasures.contains(erasure)
    }
}

/// What lies before committed offsets is stored and announced, or it is a dead letter. Returns how
/// many records were checked.
pub fn nothing_is_ahead(site: &Site, committed: &BTreeMap<i32, i64>) -> usize {
    nothing_is_ahead_of(&Findings::new(site, site.dead_letters(), feed(site)), committed)
}

/// The same for what was found.
pub fn nothing_is_ahead_of(found: &Findings<'_>, committed: &BTreeMap<i32, i64>) -> usize {
    let site = found.site;
    let input = site.topic.records_of(&site.topic.name);
    let expected = Expected::new(&input, found.base);
    // An erasure that is not committed may have been carried out.
    let forgets = expected.forgets();
    let floor = |device: &str| forgets.get(device)?.iter().map(|it| it.before_ms).max();
    let (mut seen, mut checked) = (HashSet::new(), 0);
    for record in &input {
        let (partition, offset) = (record.partition, record.offset);
        if committed.get(&partition).is_none_or(|committed| offset >= *committed) {
            continue;
        }
        checked += 1;
        let version = found.base + 2 * offset;
        let place = format!("offset {offset} of partition {partition}");
        for item in read(record) {
            match item {
                Read::Bad { element } => {
                    let letter = (partition, offset, element);
                    let is_kept = found.letters.contains(&letter);
                    assert!(is_kept, "{letter:?} was committed and is not a dead letter");
                }
                Read::Forget { before } => {
                    let device = String::from_utf8(record.key.clone().unwrap()).unwrap();
                    let before_ms = DeviceTime(before);
                    let mut raised = forgets.get(device.as_str()).into_iter().copied().flatten();
                    let raises = raised.any(|it| it.version.get() == version);
                    let erasure = Erasure { device, before_ms, version };
                    let is_done = !raises || found.is_erased(&erasure);
                    assert!(is_done, "{place} was committed: {erasure:?}");
                }
                Read::Sample { device, fix, .. } => {
                    let time_ms = DeviceTime(fix.time);
                    let is_below = floor(&device).is_some_and(|floor| time_ms < floor);
                    if is_below || !seen.insert((device.clone(), time_ms)) {
                        continue;
                    }
                    let place = format!("{device} at {time_ms}, {place}");
                    assert!(
                        found.is_stored(&device, time_ms),
                        "{place} was committed and is not stored"
                    );
                    assert!(
                        found.is_announced(&device, time_ms, version),
                        "{place} was committed and is not announced"
                    );
                }
            }
        }
    }
    checked
}
