//! Tags that are written while trips merge, by commands that are killed, next to a daemon that is:
//! each that was confirmed is there, and announced, and the newest of a trip counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Row;
use crate::cli::{Folder, Ran, minutes};
use crate::faults::{Running, until};
use crate::keyspace::Keyspace;
use crate::support::Dice;
use crate::tags::{DEVICE, KEYS};
use crate::topic::file::until_read;
use crate::topic::keyspace::{log, store, until_committed};
use crate::topic::{PARTITIONS, Topic, drain, start};

/// Minutes of the device, each of a sample: in the end they are one trip.
const MINUTES: u32 = 60;

/// Samples that are sent at once.
const SLICE: usize = 8;

/// Tags after each slice but the last that are not killed.
const TAGS: usize = 2;

/// A place for a tag: an id and a key.
type Place = (String, String);

/// The values that were set at a place, in this order, and whether each was confirmed.
#[derive(Default)]
struct History(Vec<(u64, bool)>);

impl History {
    /// Whether the place may have a value: the last that was confirmed, or one that was not and
    /// came later.
    fn allows(&self, value: Option<u64>) -> bool {
        let confirmed = self.0.iter().rposition(|(_, is_confirmed)| *is_confirmed);
        match value {
            Some(value) => self.0[confirmed.unwrap_or(0)..].iter().any(|(set, _)| *set == value),
            None => confirmed.is_none(),
        }
    }
}

/// A log of one device, and the file or the keyspace into which a daemon reads it.
struct Site {
    folder: Folder,
    topic: Topic,
    keyspace: Option<Keyspace>,
    daemon: Option<Running>,
}

impl Site {
    fn new(is_keyspace: bool) -> Option<Self> {
        let keyspace = if is_keyspace { Some(Keyspace::bare()?) } else { None };
        let topic = Topic::new(PARTITIONS)?;
        let mut site = Self { folder: Folder::new(), topic, keyspace, daemon: None };
        site.start();
        Some(site)
    }

    /// Flags that name the store.
    fn store(&self) -> String {
        self.keyspace.as_ref().map_or("--store sqlite:t.db".to_owned(), store)
    }

    /// The arguments of the daemon.
    fn run(&self) -> String {
        let store = self.store();
        if self.keyspace.is_none() {
            let flushes = "--flush-interval 5ms --max-staleness 20ms";
            return format!("run {} {store} --from earliest {flushes}", self.topic.flags());
        }
        let members = "--kafka session.timeout.ms=1500 --kafka heartbeat.interval.ms=300";
        let creates = "--from earliest --create-topics --create-schema";
        let flushes = "--flush-interval 50ms --max-staleness 200ms";
        format!("run {} {store} {members} {creates} {flushes}", log(&self.topic))
    }

    fn start(&mut self) {
        self.daemon = Some(start(&self.folder, &self.run()));
    }

    /// Lets the daemon read everything, and ends it.
    fn drain(&mut self) {
        if self.keyspace.is_some() {
            until_committed(&self.topic, &self.topic.name);
        } else {
            until_read(&self.folder, "t.db", &self.topic);
        }
        drain(self.daemon.take().unwrap(), &self.run()).ends(0);
    }
}

/// What happens to one site.
pub struct Tagging<const IS_KEYSPACE: bool> {
    site: Site,
    dice: Dice,
    /// Minutes that were not sent yet.
    samples: Vec<u32>,
    ids: BTreeSet<String>,
    said: BTreeMap<Place, History>,
    /// Where the next tag goes, and its value.
    next: (Place, u64),
    /// Commands that were killed.
    kills: u64,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

impl<const IS_KEYSPACE: bool> Tagging<IS_KEYSPACE> {
    /// All ids that trips have or had.
    fn find_ids(&mut self) {
        let exported = self.site.folder.run(&format!("export {}", self.site.store()));
        // The daemon may not have made the store yet.
        let trips = if exported.code == Some(0) { exported.objects() } else { Vec::new() };
        for trip in trips {
            self.ids.insert(text(&trip["id"]));
            self.ids.extend(trip["absorbed"].as_array().unwrap().iter().map(text));
        }
    }

    /// Sends samples in random order.
    fn send(&mut self, samples: usize) {
        for _ in 0..samples.min(self.samples.len()) {
            let minute = self.samples.swap_remove(self.dice.below(self.samples.len()));
            self.site.topic.send_lines(minutes(DEVICE, &[minute]).as_bytes(), "no-device");
        }
        until("trips", || {
            self.find_ids();
            (!self.ids.is_empty()).then_some(())
        });
    }

    /// Chooses the next tag.
    fn choose(&mut self) {
        let ids: Vec<_> = self.ids.iter().collect();
        let (id, key) = (ids[self.dice.below(ids.len())].clone(), self.dice.one_of(&KEYS));
        self.next = ((id, key.to_owned()), self.next.1 + 1);
    }

    /// Remembers that the tag was set.
    fn set(&mut self, is_confirmed: bool) {
        let (place, value) = self.next.clone();
        self.said.entry(place).or_default().0.push((value, is_confirmed));
    }

    /// Sets a tag.
    fn tag(&mut self) -> Ran {
        self.choose();
        let ran = self.run();
        self.set(true);
        ran
    }

    /// The tags of the trip, by their places.
    fn found(&self) -> BTreeMap<Place, u64> {
        let store = self.site.store();
        let trips = self.site.folder.run(&format!("export {store}")).ends(0).objects();
        assert_eq!(trips.len(), 1, "{trips:?}");
        let id = text(&trips[0]["id"]);
        assert!(!trips[0]["absorbed"].as_array().unwrap().is_empty(), "nothing was merged");
        let shown = self.site.folder.run(&format!("tag {id} {store}")).ends(0).objects();
        let mut found: BTreeMap<Place, u64> = BTreeMap::new();
        for tag in &shown {
            for older in tag["superseded"].as_array().unwrap() {
                assert!(number(&older["value"]) < number(&tag["value"]), "{tag}");
                found.insert((text(&older["id"]), text(&tag["key"])), number(&older["value"]));
            }
            found.insert((text(&tag["id"]), text(&tag["key"])), number(&tag["value"]));
        }
        found
    }

    fn is_announced(&self) {
        let events = self.site.topic.records_of(&format!("{}.trips", self.site.topic.name));
        let events = events.iter().map(|it| serde_json::from_slice::<Value>(&it.value).unwrap());
        let tagged: BTreeSet<_> = events
            .filter(|event| event["type"] == "tagged")
            .map(|event| (text(&event["id"]), text(&event["key"]), number(&event["value"])))
            .collect();
        for ((id, key), said) in &self.said {
            for (value, _) in said.0.iter().filter(|(_, is_confirmed)| *is_confirmed) {
                assert!(tagged.contains(&(id.clone(), key.clone(), *value)), "{id} {key} {value}");
            }
        }
    }
}

impl<const IS_KEYSPACE: bool> Row for Tagging<IS_KEYSPACE> {
    const KILLS: u64 = 2;
    const KILLS_IN_A_ROW: usize = MINUTES as usize / SLICE;
    // The time that the command takes differs between stores and machines.
    const SPINS: usize = 1_000_000;

    fn new(dice: &mut Dice) -> Option<Self> {
        let dice = Dice::new(dice.below(1 << 32) as u64);
        let site = Site::new(IS_KEYSPACE)?;
        let next = (Place::default(), 0);
        let samples = (0..MINUTES).collect();
        Some(Self {
            site,
            dice,
            samples,
            ids: BTreeSet::new(),
            said: BTreeMap::new(),
            next,
            kills: 0,
        })
    }

    fn begin(&mut self) {
        if self.samples.len() < MINUTES as usize {
            self.site.topic.remove();
            self.site = Site::new(IS_KEYSPACE).unwrap();
            self.samples = (0..MINUTES).collect();
            self.ids.clear();
            self.said.clear();
        }
    }

    fn prepare(&mut self) {
        self.send(SLICE);
        (0..TAGS).for_each(|_| drop(self.tag()));
        self.choose();
    }

    fn command(&self) -> (&Folder, String) {
        let ((id, key), value) = &self.next;
        let announces = format!(" --brokers {}", self.site.topic.brokers);
        let brokers = if IS_KEYSPACE { announces.as_str() } else { "" };
        (&self.site.folder, format!("tag {id} {key}={value} {}{brokers}", self.site.store()))
    }

    fn done(&self) -> i64 {
        0
    }

    fn all(&self) -> i64 {
        1
    }

    fn until_works(&self, _: i64, _: &mut Running, _: &mut Dice) {}

    fn killed(&mut self, _: i64) {
        self.set(false);
        self.kills += 1;
        if self.kills % 2 == 1 {
            let mut daemon = self.site.daemon.take().unwrap();
            let words = self.site.run();
            assert!(!daemon.has_ended(), "it ended: {}", daemon.ran(&words));
            daemon.kill();
            self.site.start();
        }
    }

    fn is_hit(&self, _: i64) -> bool {
        true
    }

    fn ended(&mut self, _: Ran) {
        self.set(true);
    }

    fn finish(&mut self) -> Ran {
        self.send(MINUTES as usize);
        let ran = self.tag();
        self.site.drain();
        ran
    }

    fn check(&mut self, _: &Ran) {
        let mut found = self.found();
        for (place, said) in &self.said {
            let value = found.remove(place);
            assert!(said.allows(value), "{place:?}: {value:?} of {:?}", said.0);
        }
        assert_eq!(found, BTreeMap::new(), "these were never set");
        if IS_KEYSPACE {
            self.is_announced();
        }
    }
}
