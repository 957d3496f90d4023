//! The final state of a keyspace, its feed and its dead letters, against the literal model of the
//! same log.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tstar::internals::identity::TripId;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::store::{Forget, TripStore};

use super::Site;
use super::check::{Erasure, Event, feed, texts};
use super::expected::{Counts, Expected};
use crate::topic::table;

/// Checks that store, feed and dead letters are complete. Returns what the log has.
pub fn is_whole(site: &Site) -> Counts {
    let store = site.keyspace.store();
    let input = site.topic.records_of(&site.topic.name);
    let expected = Expected::new(&input, site.base(&store));
    site.keyspace.runtime.block_on(expected.assert_store(&store));
    assert_eq!(site.dead_letters(), expected.letters);

    let exported =
        site.folder.text(&format!("export --kind all --path --store {}", site.keyspace.url));
    if let Some(table) = &site.table {
        let segments = exported.lines().map(|line| serde_json::from_str(line).unwrap());
        let trips: Vec<Value> = segments.filter(|it: &Value| it["kind"] == "trip").collect();
        assert!(table::holds(&site.topic, &table.name, &trips) > 0, "ids are retired or erased");
    }
    let (events, erasures) = feed(site);
    erasures_are_announced(&expected, &erasures);
    let trip = |line: &str| {
        let mut trip: Value = serde_json::from_str(line).unwrap();
        for other_than_events in ["path", "tags"] {
            trip.as_object_mut().unwrap().remove(other_than_events).unwrap();
        }
        (trip["id"].as_str().unwrap().to_owned(), trip)
    };
    let trips: BTreeMap<_, _> = exported.lines().map(trip).collect();
    assert_eq!(trips.len(), expected.trips().len());
    let stand = |event: &&Event| !erasures.iter().any(|erasure| erasure.covers(event));
    let standing: Vec<&Event> = events.iter().filter(stand).collect();
    assert_eq!(by_span(&standing), trips, "a consumer that resolves overlaps");
    let by_id = by_id(&events, stand);
    assert_eq!(by_id, trips, "a consumer that drops retired ids");
    every_merge_is_announced(&trips, &events);
    every_id_resolves(site, &expected, &events);
    expected.counts
}

/// Every erasure of the log is in the feed, and no other.
fn erasures_are_announced(expected: &Expected, announced: &[Erasure]) {
    let forgets = expected.forgets();
    let own = forgets.iter().flat_map(|(device, own)| own.iter().map(move |it| (device, it)));
    let erasure = |(device, it): (&&str, &Forget)| Erasure {
        device: (*device).to_owned(),
        before_ms: it.before_ms,
        version: it.version.get(),
    };
    let expected: BTreeSet<_> = own.map(erasure).collect();
    assert_eq!(announced.iter().cloned().collect::<BTreeSet<_>>(), expected);
}

/// The trips of a consumer that knows spans: of overlapping ones the newest wins.
fn by_span(events: &[&Event]) -> BTreeMap<String, Value> {
    let mut newest = events.to_vec();
    newest.sort_by_key(|event| std::cmp::Reverse(event.version));
    let mut stand: BTreeMap<(&str, DeviceTime), &Event> = BTreeMap::new();
    for event in newest {
        let upto = (event.device.as_str(), event.end_ms);
        let before = stand.range((event.device.as_str(), DeviceTime::MIN)..=upto).next_back();
        if before.is_none_or(|(_, other)| other.end_ms < event.start_ms) {
            stand.insert((&event.device, event.start_ms), event);
        }
    }
    stand.into_values().map(|event| (event.id.clone(), event.trip.clone())).collect()
}

/// The trips of a consumer without spans: the newest of each id, without ids that were retired at
/// its version or later, or erased.
fn by_id(events: &[Event], stands: impl Fn(&&Event) -> bool) -> BTreeMap<String, Value> {
    let (mut retired, mut newest) = (HashMap::new(), BTreeMap::new());
    for event in events {
        for id in &event.absorbed {
            let version = retired.entry(id).or_insert(event.version);
            *version = event.version.max(*version);
        }
        let known = newest.entry(&event.id).or_insert(event);
        if known.version < event.version {
            *known = event;
        }
    }
    let lives = |event: &&Event| retired.get(&event.id).is_none_or(|at| event.version > *at);
    let live = newest.into_values().filter(lives).filter(stands);
    live.map(|event| (event.id.clone(), event.trip.clone())).collect()
}

fn every_merge_is_announced(trips: &BTreeMap<String, Value>, events: &[Event]) {
    let announced: HashSet<_> = events.iter().flat_map(|event| &event.absorbed).collect();
    let retired: Vec<_> = trips.values().flat_map(|trip| texts(&trip["absorbed"])).collect();
    assert!(!retired.is_empty(), "the log has merges");
    for id in &retired {
        assert!(announced.contains(id), "{id} was retired without an event");
    }
}

/// Every id that was ever announced resolves to the trip that has or absorbed it, unless that was
/// erased.
fn every_id_resolves(site: &Site, expected: &Expected, events: &[Event]) {
    let ids = events.iter().flat_map(|event| event.absorbed.iter().chain([&event.id]));
    let ids: BTreeSet<_> = ids.map(|id| TripId::parse_text(id).unwrap()).collect();
    let store = site.keyspace.store();
    let lookup = |id: TripId| {
        let store = &store;
        async move {
            let row = store.covering(&id.device_id, id.t_star_ms).await.unwrap();
            let found = row.as_ref().map(|row| row.t_star_ms.ms());
            let trip = expected.trip_of(&id.device_id, id.t_star_ms.ms());
            assert_eq!(found, trip.map(|trip| trip.t_star()), "{id:?} leads to {row:?}");
        }
    };
    let all = stream::iter(ids).map(lookup).buffer_unordered(16).collect::<Vec<()>>();
    site.keyspace.runtime.block_on(all);
}
