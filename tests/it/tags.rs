//! Tags of trips and devices: they stay with a trip whatever arrives late, on every store.

mod devices;
mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::model::tag::{TagKey, TagValue, TripTags};
use tstar::internals::ops::tags::{
    TagCondition, TagError, TagTarget, of_target, of_trips, remove, set,
};
use tstar::internals::sink::Sink;
use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{Flush, Forget, SideTables, TripRow, TripStore, WriteGroup};

use crate::conformance::{at, trip};
use crate::keyspace::{ClusteringOrder, Keyspace, WithJournal};
use crate::support::{Dice, block_on, times};
use tstar_sim::nodes::{self, Connection, Nodes};

pub const DEVICE: &str = "truck-17";
pub const KEYS: [&str; 3] = ["purpose", "note", "cost-centre"];

/// Minutes between samples of one trip.
const GAP: i64 = 5;

/// A tag as a user set it: at which minute, the key, the value, and when by the user's clock.
type UserTag = (i64, &'static str, String, i64);

/// What the device sent and users said, and nothing else: the shortest code that answers.
#[derive(Default)]
struct Model {
    /// Minutes with a sample, in the order of their arrival.
    minutes: Vec<i64>,
    said: Vec<UserTag>,
    /// Every id that was ever published.
    ids: BTreeSet<i64>,
}

impl Model {
    /// First and last minute of each trip.
    fn spans(&self) -> Vec<(i64, i64)> {
        let mut spans: Vec<(i64, i64)> = Vec::new();
        for &minute in &self.minutes.iter().copied().collect::<BTreeSet<_>>() {
            match spans.last_mut() {
                Some((_, end)) if minute - *end <= GAP => *end = minute,
                _ => spans.push((minute, minute)),
            }
        }
        spans
    }

    fn span_of(&self, minute: i64) -> Option<(i64, i64)> {
        self.spans().into_iter().find(|(start, end)| (*start..=*end).contains(&minute))
    }

    /// The id of a trip: the first of its samples to arrive, of two ids that met the earlier.
    fn id_of(&self, span: (i64, i64)) -> i64 {
        let mut ids: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for &minute in self.minutes.iter().filter(|it| (span.0..=span.1).contains(it)) {
            let near: Vec<i64> = ids
                .iter()
                .filter(|(_, own)| own.0 - GAP <= minute && minute <= own.1 + GAP)
                .map(|(id, _)| *id)
                .collect();
            let id = near.first().copied().unwrap_or(minute);
            let mut grown = (minute, minute);
            for old in near {
                let own = ids.remove(&old).unwrap();
                grown = (grown.0.min(own.0), grown.1.max(own.1));
            }
            ids.insert(id, grown);
        }
        *ids.keys().next().unwrap()
    }

    /// The trips as rows, at a version.
    fn rows(&self, version: i64) -> Vec<TripRow> {
        let row = |span: (i64, i64)| {
            let within = self.minutes.iter().filter(|it| (span.0..=span.1).contains(it));
            let minutes: BTreeSet<i64> = within.copied().collect();
            let minutes: Vec<i64> = minutes.into_iter().collect();
            let id = self.id_of(span);
            let retired = self.ids.range(span.0..=span.1).filter(|other| **other != id);
            let retired = retired.map(|other| (at(*other), vec![Version(0), Version(version)]));
            let ids = retired.chain([(at(id), vec![Version(0)])]).collect();
            TripRow { t_star_ms: at(id), ids, ..trip(DEVICE, &minutes, version) }
        };
        self.spans().into_iter().map(row).collect()
    }

    /// The values that users said of a trip, by key: the newest, then the others.
    fn tags(&self, span: (i64, i64)) -> BTreeMap<&'static str, Vec<(i64, String)>> {
        let mut found: BTreeMap<&str, Vec<&UserTag>> = BTreeMap::new();
        for said in self.said.iter().filter(|said| (span.0..=span.1).contains(&said.0)) {
            found.entry(said.1).or_default().push(said);
        }
        let ordered = |mut all: Vec<&UserTag>| {
            all.sort_by_key(|said| std::cmp::Reverse((said.3, said.0)));
            all.into_iter().map(|said| (said.0, said.2.clone())).collect()
        };
        found.into_iter().map(|(key, all)| (key, ordered(all))).collect()
    }
}

/// The same of the code that ships.
fn shown(tags: &TripTags) -> BTreeMap<&str, Vec<(i64, String)>> {
    let minute = |time_ms: DeviceTime| (time_ms - at(0)) / 60_000;
    let mut found = BTreeMap::new();
    for (key, tag) in tags {
        let all = [&tag.tag].into_iter().chain(&tag.superseded);
        let all = all.map(|tag| (minute(tag.t_star_ms), tag.value.as_str().to_owned()));
        found.insert(key.as_str(), all.collect());
    }
    found
}

async fn target(store: &impl TripStore, minute: i64) -> Option<TagTarget> {
    let row = store.covering(DEVICE, at(minute)).await.unwrap()?;
    Some(TagTarget::new(&row, at(minute)))
}

fn groups(rows: Vec<TripRow>) -> Vec<WriteGroup> {
    rows.into_iter().map(Into::into).collect()
}

/// Samples, tags and removals in any order; after each, the tags of every trip. Returns the number
/// of merges of trips of which both had tags.
async fn tags_follow(store: &(impl TripStore + Sink + SideTables), dice: &mut Dice) -> usize {
    let (mut model, mut version) = (Model::default(), 2);
    let mut merges = 0;
    // No trip has it.
    let (key, value) = (KEYS[0].parse().unwrap(), TagValue::new("of the device").unwrap());
    let (tag, device) = ((&key, &value), TagTarget::of_device(DEVICE));
    set(store, &device, tag, TagCondition::Absent, 40).await.unwrap();
    for step in 0..40 {
        let is_tagged = |model: &Model, span: &(i64, i64)| !model.tags(*span).is_empty();
        let tagged =
            |model: &Model| model.spans().iter().filter(|span| is_tagged(model, span)).count();
        let before = tagged(&model);
        match dice.below(10) {
            0..=4 => {
                model.minutes.push(dice.between(0, 60));
                version += 2;
                let ids: Vec<_> = model.spans().iter().map(|span| model.id_of(*span)).collect();
                model.ids.extend(ids);
                let flush = Flush { groups: groups(model.rows(version)), ..Flush::default() };
                store.commit(&flush).await.unwrap();
                merges += before.saturating_sub(tagged(&model));
            }
            kind => {
                let ids: Vec<i64> = model.ids.iter().copied().collect();
                if ids.is_empty() {
                    continue;
                }
                let (id, key) = (dice.one_of(&ids), dice.one_of(&KEYS));
                let target = target(store, id).await.unwrap();
                assert_eq!(target.t_star_ms, at(id), "an id that the trip had");
                let key: TagKey = key.parse().unwrap();
                let name = KEYS.into_iter().find(|name| *name == key.as_str()).unwrap();
                let span = model.span_of(id).unwrap();
                let newest = |model: &Model| {
                    let said = model.said.iter();
                    let own = said.filter(|it| it.1 == name && (span.0..=span.1).contains(&it.0));
                    own.map(|said| said.3).max()
                };
                if kind < 9 {
                    // Clocks differ.
                    let now_ms = dice.between(0, 30);
                    let value = format!("{step}");
                    let written_ms = newest(&model).map_or(now_ms, |it| now_ms.max(it + 1));
                    let tag = (&key, &TagValue::new(value.clone()).unwrap());
                    set(store, &target, tag, TagCondition::Any, now_ms).await.unwrap();
                    model.said.retain(|it| (it.0, it.1) != (id, name));
                    model.said.push((id, name, value, written_ms));
                } else {
                    let had = newest(&model).is_some();
                    let removed = remove(store, &target, &key, TagCondition::Any).await;
                    assert_eq!(removed.is_ok(), had, "{removed:?}");
                    model.said.retain(|it| !(it.1 == name && (span.0..=span.1).contains(&it.0)));
                }
            }
        }
        check(store, &model).await;
    }
    forget(store, &mut model, dice, version + 2).await;
    merges
}

async fn check(store: &(impl TripStore + SideTables), model: &Model) {
    for span in model.spans() {
        let target = target(store, span.0).await.unwrap();
        let found = of_target(store, &target).await.unwrap();
        assert_eq!(shown(&found), model.tags(span), "{span:?}");
    }
    let rows = model.rows(0);
    let together = of_trips(store, DEVICE, &rows).await.unwrap();
    let expected: Vec<_> = model.spans().into_iter().map(|span| model.tags(span)).collect();
    assert_eq!(together.iter().map(shown).collect::<Vec<_>>(), expected);
}

/// After a forget, a tag is left if it is not older, or if a trip covers it; that of the device, if
/// a trip is left.
async fn forget(
    store: &(impl TripStore + Sink + SideTables),
    model: &mut Model,
    dice: &mut Dice,
    version: i64,
) {
    let before = dice.between(0, 60);
    let forget = Forget { version: Version(version), before_ms: at(before) };
    store.forget(DEVICE, &forget).await.unwrap();
    store.commit(&Flush::default()).await.unwrap();
    let kept: Vec<_> = model.spans().into_iter().filter(|span| span.1 >= before).collect();
    let is_kept = |minute: i64| {
        minute >= before || kept.iter().any(|span| (span.0..=span.1).contains(&minute))
    };
    let mut expected: Vec<_> =
        model.said.iter().filter(|said| is_kept(said.0)).map(|said| (said.0, said.1)).collect();
    expected.sort_unstable();
    let of_device = of_target(store, &TagTarget::of_device(DEVICE)).await.unwrap();
    assert_eq!(of_device.is_empty(), kept.is_empty(), "before {before}");
    let mut left = store.tags(DEVICE, (DeviceTime::MIN, DeviceTime::MAX)).await.unwrap();
    left.retain(|tag| !tag.is_of_device());
    let minute = |time_ms: DeviceTime| (time_ms - at(0)) / 60_000;
    let mut left: Vec<_> =
        left.iter().map(|tag| (minute(tag.t_star_ms), tag.key.as_str().to_owned())).collect();
    left.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(at, key)| (at, key.to_owned())).collect();
    assert_eq!(left, expected, "before {before}");
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..times("TSTAR_TEST_TAGS", usual)
}

#[test]
fn tags_follow_their_trips_in_memory() {
    let mut merges = 0;
    for seed in seeds(2000) {
        merges += block_on(tags_follow(&MemoryStore::default(), &mut Dice::new(seed)));
    }
    assert!(merges > 100, "{merges} merges of tagged trips");
}

#[test]
fn tags_follow_their_trips_in_a_file() {
    let rules = tstar::internals::model::rules::Rules::default();
    for seed in seeds(30) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_writer(&folder.path().join("trips.db"), &rules, 100).unwrap();
        block_on(tags_follow(&store, &mut Dice::new(seed)));
    }
}

#[test]
fn tags_follow_their_trips_on_simulated_nodes() {
    for seed in seeds(300) {
        let nodes = Arc::new(Mutex::new(Nodes::new(Dice::new(seed), true)));
        let connection = Connection::live(&nodes, 0);
        let store = WithJournal::of_its_own(block_on(nodes::store(connection)));
        block_on(tags_follow(&store, &mut Dice::new(seed)));
    }
}

#[test]
fn tags_follow_their_trips_in_a_keyspace() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    for seed in seeds(4) {
        let store = WithJournal::of_its_own(keyspace.store());
        block_on(tags_follow(&store, &mut Dice::new(seed)));
    }
}

async fn writers_at_once<S: TripStore + Sink + SideTables>(store: &S) {
    let rows = vec![trip(DEVICE, &[0, 4], 2)];
    store.commit(&Flush { groups: groups(rows), ..Flush::default() }).await.unwrap();
    let target = target(store, 0).await.unwrap();
    let key: TagKey = "note".parse().unwrap();
    let value = |text: &str| TagValue::new(text).unwrap();
    let first = set(store, &target, (&key, &value("one")), TagCondition::Absent, 5).await.unwrap();
    let again = set(store, &target, (&key, &value("two")), TagCondition::Absent, 5).await;
    assert!(matches!(again, Err(TagError::Changed(Some(_)))), "{again:?}");
    let read = TagCondition::Revision(first.tag.revision);
    let (left, right) = (value("left"), value("right"));
    let (one, other) = futures_util::join!(
        set(store, &target, (&key, &left), read, 6),
        set(store, &target, (&key, &right), read, 6),
    );
    assert_eq!(u8::from(one.is_ok()) + u8::from(other.is_ok()), 1, "{one:?} {other:?}");
    let standing = one.or(other).unwrap().tag;
    assert_eq!(standing.written_ms, 6);
    let removed = remove(store, &target, &key, read).await;
    assert!(matches!(removed, Err(TagError::Changed(Some(_)))), "{removed:?}");
    let read = TagCondition::Revision(standing.revision);
    assert_eq!(remove(store, &target, &key, read).await.unwrap().tag, standing);
    let gone = remove(store, &target, &key, TagCondition::Any).await;
    assert!(matches!(gone, Err(TagError::None(_))), "{gone:?}");
    for number in 0..64 {
        let key = format!("key-{number}").parse().unwrap();
        set(store, &target, (&key, &value("")), TagCondition::Any, 7).await.unwrap();
    }
    let many = set(store, &target, (&key, &value("")), TagCondition::Any, 7).await;
    assert!(matches!(many, Err(TagError::TooMany)), "{many:?}");
}

#[test]
fn of_two_writers_at_once_one_hears_of_the_other() {
    block_on(writers_at_once(&MemoryStore::default()));
    let nodes = Arc::new(Mutex::new(Nodes::new(Dice::new(1), true)));
    let connection: Connection = Connection::live(&nodes, 0);
    let store = WithJournal::of_its_own(block_on(nodes::store(connection)));
    block_on(writers_at_once(&store));
    if let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) {
        block_on(writers_at_once(&WithJournal::of_its_own(keyspace.store())));
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = tstar::internals::model::rules::Rules::default();
    let store = SqliteStore::open_writer(&folder.path().join("trips.db"), &rules, 100).unwrap();
    block_on(writers_at_once(&store));
}
