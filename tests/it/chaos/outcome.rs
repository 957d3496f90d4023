//! The final state of a keyspace, its feed and its dead letters, against an undisturbed run of the
//! same log.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tstar::internals::identity::TripId;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{TripRow, TripStore};

use super::check::{Event, events, rows, texts};
use super::{HASTE, PARTITIONS, Site};
use crate::faults::until;
use crate::topic::{drain, start};

/// What the same log gives, under the same epochs, in a file and undisturbed.
struct Undisturbed {
    trips: String,
    letters: BTreeSet<(i32, i64, Option<u32>)>,
}

fn undisturbed(site: &Site) -> Undisturbed {
    let folder = &site.folder;
    let exported = folder.text(&format!("epoch export --store {}", site.keyspace.url));
    folder.write("epochs.json", exported);
    folder.run("epoch import epochs.json --store sqlite:whole.db").ends(0);
    let flags = site.topic.flags();
    let words = format!("run {flags} --store sqlite:whole.db --from earliest {HASTE}");
    let running = start(folder, &words);
    let ends = site.topic.ends(PARTITIONS);
    until("the undisturbed run", || {
        let store = SqliteStore::open_reader(&folder.path("whole.db")).ok()?;
        let read = |(at, end): (&i32, &i64)| {
            *end == 0 || store.position_of(*at).ok().flatten() >= Some(*end)
        };
        ends.iter().all(read).then_some(())
    });
    drain(running, &words).ends(0);
    let letters = folder.run("dlq ls --store sqlite:whole.db").ends(0).objects();
    let number = |value: &Value| value.as_i64().unwrap();
    let place = |letter: &Value| {
        let element = letter["element"].as_u64().map(|it| u32::try_from(it).unwrap());
        let partition = i32::try_from(number(&letter["partition"])).unwrap();
        (partition, number(&letter["offset"]), element)
    };
    Undisturbed {
        trips: folder.text("export --path --store sqlite:whole.db"),
        letters: letters.iter().map(place).collect(),
    }
}

/// Checks that store, feed and dead letters are complete.
pub fn is_whole(site: &Site) {
    let expected = undisturbed(site);
    let exported = site.folder.text(&format!("export --path --store {}", site.keyspace.url));
    for (found, expected) in exported.lines().zip(expected.trips.lines()) {
        assert!(found == expected, "found a trip\n{found}\nundisturbed\n{expected}");
    }
    assert!(exported == expected.trips, "one has more trips than the other");
    assert!(expected.letters.len() >= site.bad.len());
    assert_eq!(site.dead_letters(), expected.letters);

    let store = site.keyspace.store();
    let (rows, events) = (rows(site, &store), events(site));
    let trip = |line: &str| {
        let mut trip: Value = serde_json::from_str(line).unwrap();
        trip.as_object_mut().unwrap().remove("path").unwrap();
        (trip["id"].as_str().unwrap().to_owned(), trip)
    };
    let trips: BTreeMap<_, _> = exported.lines().map(trip).collect();
    assert_eq!(trips.len(), rows.len());
    assert_eq!(by_span(&events), trips, "a consumer that resolves overlaps");
    assert_eq!(by_retired(&events), trips, "a consumer that drops retired ids");
    every_merge_is_announced(&trips, &events);
    every_id_resolves(site, &events);
}

/// The trips of a consumer that knows spans: of overlapping ones the newest wins.
fn by_span(events: &[Event]) -> BTreeMap<String, Value> {
    let mut newest: Vec<_> = events.iter().collect();
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

/// The trips of a consumer without spans: the newest of each id, without ids once retired.
fn by_retired(events: &[Event]) -> BTreeMap<String, Value> {
    let retired: HashSet<&String> = events.iter().flat_map(|event| &event.absorbed).collect();
    let mut newest: BTreeMap<&String, &Event> = BTreeMap::new();
    for event in events.iter().filter(|event| !retired.contains(&event.id)) {
        let known = newest.entry(&event.id).or_insert(event);
        if known.version < event.version {
            *known = event;
        }
    }
    newest.into_values().map(|event| (event.id.clone(), event.trip.clone())).collect()
}

fn every_merge_is_announced(trips: &BTreeMap<String, Value>, events: &[Event]) {
    let announced: HashSet<_> = events.iter().flat_map(|event| &event.absorbed).collect();
    let retired: Vec<_> = trips.values().flat_map(|trip| texts(&trip["absorbed"])).collect();
    assert!(!retired.is_empty(), "the log has merges");
    for id in &retired {
        assert!(announced.contains(id), "{id} was retired without an event");
    }
}

/// Every id that was ever announced resolves to the trip that has or absorbed it.
fn every_id_resolves(site: &Site, events: &[Event]) {
    let ids = events.iter().flat_map(|event| event.absorbed.iter().chain([&event.id]));
    let ids: BTreeSet<_> = ids.map(|id| TripId::parse_text(id).unwrap()).collect();
    let store = site.keyspace.store();
    let lookup = |id: TripId| {
        let store = &store;
        async move {
            let row = store.covering(&id.device_id, id.t_star_ms).await.unwrap();
            let has_it = |row: &TripRow| {
                row.t_star_ms == id.t_star_ms || row.absorbed.contains_key(&id.t_star_ms)
            };
            assert!(row.as_ref().is_some_and(has_it), "{id:?} leads to {row:?}");
        }
    };
    let all = stream::iter(ids).map(lookup).buffer_unordered(16).collect::<Vec<()>>();
    site.keyspace.runtime.block_on(all);
}
