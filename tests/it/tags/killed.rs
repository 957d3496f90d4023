//! Tags that are written while trips merge, by commands that are killed, next to a daemon that is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{DEVICE, KEYS};
use crate::cli::{Folder, minutes};
use crate::faults::{Running, until};
use crate::keyspace::Keyspace;
use crate::support::{Dice, kills};
use crate::topic::file::until_read;
use crate::topic::keyspace::{log, store, until_committed};
use crate::topic::{PARTITIONS, Topic, drain, start};

/// Minutes of a device, each of a sample: in the end they are one trip.
const MINUTES: u32 = 60;

/// Samples that are sent at once.
const SLICE: usize = 8;

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

/// What happens to one store.
struct Tagging<'a> {
    folder: &'a Folder,
    topic: &'a Topic,
    /// Arguments of the daemon.
    run: String,
    /// Flags that name the store.
    store: String,
    /// Those that name the brokers, where tags are announced.
    brokers: String,
    dice: Dice,
    ids: BTreeSet<String>,
    said: BTreeMap<Place, History>,
    values: u64,
    /// Commands that were killed before they ended, and kills of the daemon.
    killed: (u64, u64),
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

impl Tagging<'_> {
    /// All ids that trips have or had.
    fn find_ids(&mut self) {
        let exported = self.folder.run(&format!("export {}", self.store));
        // The daemon may not have made the store yet.
        let trips = if exported.code == Some(0) { exported.objects() } else { Vec::new() };
        for trip in trips {
            self.ids.insert(text(&trip["id"]));
            self.ids.extend(trip["absorbed"].as_array().unwrap().iter().map(text));
        }
    }

    /// Sets a tag, or kills the command that does.
    fn tag(&mut self) {
        let ids: Vec<_> = self.ids.iter().collect();
        let (id, key) = (ids[self.dice.below(ids.len())].clone(), self.dice.one_of(&KEYS));
        self.values += 1;
        let words = format!("tag {id} {key}={} {} {}", self.values, self.store, self.brokers);
        let mut command = Running::start(&mut self.folder.command(&words));
        let is_killed = self.dice.percent(40);
        if is_killed {
            // The time that the command takes differs between stores and machines.
            (0..self.dice.below(1_000_000)).for_each(|_| std::hint::spin_loop());
            self.killed.0 += u64::from(!command.has_ended());
            command.kill();
        } else {
            command.ran(&words).ends(0);
        }
        self.said.entry((id, key.to_owned())).or_default().0.push((self.values, !is_killed));
    }

    /// Sends samples in random order, and tags what they have become so far.
    fn disturb(&mut self) -> Running {
        let mut samples: Vec<u32> = (0..MINUTES).collect();
        let mut running = start(self.folder, &self.run);
        while !samples.is_empty() {
            for _ in 0..SLICE.min(samples.len()) {
                let minute = samples.swap_remove(self.dice.below(samples.len()));
                self.topic.send_lines(minutes(DEVICE, &[minute]).as_bytes(), "no-device");
            }
            until("trips", || {
                self.find_ids();
                (!self.ids.is_empty()).then_some(())
            });
            (0..4).for_each(|_| self.tag());
            if self.dice.percent(40) {
                assert!(!running.has_ended(), "it ended: {}", running.ran(&self.run));
                running.kill();
                self.killed.1 += 1;
                running = start(self.folder, &self.run);
            }
        }
        running
    }

    /// Every tag that was confirmed is there, and the newest of a trip counts.
    fn check(&self) {
        let trips = self.folder.run(&format!("export {}", self.store)).ends(0).objects();
        assert_eq!(trips.len(), 1, "{trips:?}");
        let id = text(&trips[0]["id"]);
        assert!(!trips[0]["absorbed"].as_array().unwrap().is_empty(), "nothing was merged");
        let shown = self.folder.run(&format!("tag {id} {}", self.store)).ends(0).objects();
        let mut found: BTreeMap<Place, u64> = BTreeMap::new();
        for tag in &shown {
            for older in tag["superseded"].as_array().unwrap() {
                assert!(number(&older["value"]) < number(&tag["value"]), "{tag}");
                found.insert((text(&older["id"]), text(&tag["key"])), number(&older["value"]));
            }
            found.insert((text(&tag["id"]), text(&tag["key"])), number(&tag["value"]));
        }
        for (place, said) in &self.said {
            let value = found.remove(place);
            assert!(said.allows(value), "{place:?}: {value:?} of {:?}", said.0);
        }
        assert_eq!(found, BTreeMap::new(), "these were never set");
    }
}

/// Runs it with new seeds until enough commands, and a daemon, were killed.
fn repeat(mut tagging: impl FnMut(u64) -> (u64, u64)) {
    let (wanted, mut killed) = (kills(5), (0, 0));
    while killed.0 < wanted || killed.1 == 0 {
        let seed = u64::from(fastrand::u32(..));
        println!("tags: seed {seed}");
        let (commands, daemons) = tagging(seed);
        killed = (killed.0 + commands, killed.1 + daemons);
    }
    println!("tags: {} commands and {} daemons were killed", killed.0, killed.1);
}

#[test]
fn a_confirmed_tag_in_a_file_survives_kills() {
    repeat(|seed| {
        let Some(topic) = Topic::new(PARTITIONS) else { return (u64::MAX, 1) };
        let folder = Folder::new();
        let flushes = "--flush-interval 5ms --max-staleness 20ms";
        let mut tagging = Tagging {
            folder: &folder,
            topic: &topic,
            run: format!("run {} --store sqlite:t.db --from earliest {flushes}", topic.flags()),
            store: "--store sqlite:t.db".to_owned(),
            brokers: String::new(),
            dice: Dice::new(seed),
            ids: BTreeSet::new(),
            said: BTreeMap::new(),
            values: 0,
            killed: (0, 0),
        };
        let running = tagging.disturb();
        until_read(&folder, "t.db", &topic);
        drain(running, &tagging.run).ends(0);
        tagging.check();
        topic.remove();
        tagging.killed
    });
}

#[test]
fn a_confirmed_tag_in_a_keyspace_survives_kills_and_is_announced() {
    repeat(|seed| {
        let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else {
            return (u64::MAX, 1);
        };
        let (folder, store) = (Folder::new(), store(&keyspace));
        let members = "--kafka session.timeout.ms=1500 --kafka heartbeat.interval.ms=300";
        let mut tagging = Tagging {
            folder: &folder,
            topic: &topic,
            run: format!(
                "run {} {store} {members} --from earliest --create-topics --create-schema \
                 --flush-interval 50ms --max-staleness 200ms",
                log(&topic)
            ),
            brokers: format!("--brokers {}", topic.brokers),
            store,
            dice: Dice::new(seed),
            ids: BTreeSet::new(),
            said: BTreeMap::new(),
            values: 0,
            killed: (0, 0),
        };
        let running = tagging.disturb();
        until_committed(&topic, &topic.name);
        drain(running, &tagging.run).ends(0);
        tagging.check();
        let events = topic.records_of(&format!("{}.trips", topic.name));
        let events = events.iter().map(|it| serde_json::from_slice::<Value>(&it.value).unwrap());
        let tagged: BTreeSet<_> = events
            .filter(|event| event["type"] == "tagged")
            .map(|event| (text(&event["id"]), text(&event["key"]), number(&event["value"])))
            .collect();
        for ((id, key), said) in &tagging.said {
            for (value, _) in said.0.iter().filter(|(_, is_confirmed)| *is_confirmed) {
                assert!(tagged.contains(&(id.clone(), key.clone(), *value)), "{id} {key} {value}");
            }
        }
        topic.remove();
        tagging.killed
    });
}
