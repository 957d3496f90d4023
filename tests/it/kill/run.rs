//! `run` into a file: trips, erasures and dead letters are those of the literal model.

use std::collections::BTreeSet;

use serde_json::Value;
use tstar::internals::store::SideTables;
use tstar::internals::store::sqlite::SqliteStore;

use super::Row;
use crate::chaos::expected::{Expected, Place};
use crate::chaos::log::{Size, mixed};
use crate::cli::{Folder, Ran};
use crate::control_keys;
use crate::support::{Dice, block_on};
use crate::topic::file::until_read;
use crate::topic::{PARTITIONS, Topic, drain, start};

const SIZE: Size = Size { devices: 20, samples: 12_000 };
const STORE: &str = "t.db";

pub struct Run {
    folder: Folder,
    topic: Topic,
    /// Number of records of the topic.
    total: i64,
}

impl Run {
    fn store(&self) -> Option<SqliteStore> {
        SqliteStore::open_reader(&self.folder.path(STORE)).ok()
    }
}

impl Row for Run {
    const KILLS: u64 = 2;
    const KILLS_IN_A_ROW: usize = 4;

    fn new(dice: &mut Dice) -> Option<Self> {
        let (topic, folder) = (Topic::new(PARTITIONS)?, control_keys::folder());
        topic.send(&mixed(&folder, &topic, SIZE, dice.below(1 << 32) as u64));
        let total = topic.ends(PARTITIONS).values().sum();
        Some(Self { folder, topic, total })
    }

    fn begin(&mut self) {
        self.folder.remove_store(STORE);
    }

    fn command(&self) -> (&Folder, String) {
        let flushes = "--flush-interval 5ms --max-staleness 20ms --stop-staleness 20ms";
        (
            &self.folder,
            format!("run {} --store sqlite:{STORE} --from earliest {flushes}", self.topic.flags()),
        )
    }

    /// How many records the file has read.
    fn done(&self) -> i64 {
        let Some(store) = self.store() else { return 0 };
        let of = |partition| store.position_of(partition).ok().flatten().unwrap_or(0);
        (0..PARTITIONS).map(of).sum()
    }

    fn all(&self) -> i64 {
        self.total
    }

    fn killed(&mut self, before: i64) {
        let (left, total) = (self.done(), self.total);
        assert!((before..=total).contains(&left), "{left} records after {before} of {total}");
    }

    fn ended(&mut self, ran: Ran) {
        panic!("it ended: {ran}");
    }

    fn finish(&mut self) -> Ran {
        let (folder, words) = self.command();
        let running = start(folder, &words);
        until_read(&self.folder, STORE, &self.topic);
        drain(running, &words).ends(0)
    }

    fn check(&mut self, _: &Ran) {
        let store = self.store().unwrap();
        let epochs = block_on(store.epochs()).unwrap();
        assert_eq!(epochs.len(), 1);
        let records = self.topic.records_of(&self.topic.name);
        let expected = Expected::new(&records, epochs[0].base.get());
        block_on(expected.assert_store(&store));
        let list = format!("dlq ls --limit 100000 --store sqlite:{STORE}");
        let letters = self.folder.run(&list).ends(0).objects();
        let found: BTreeSet<Place> = letters.iter().map(source).collect();
        // Each at least once: a run that starts again sends them again, as to `.dlq`.
        assert_eq!(found, expected.letters);
    }
}

/// The source of a dead letter.
fn source(letter: &Value) -> Place {
    let number = |name: &str| letter[name].as_i64().unwrap();
    let element = letter["element"].as_u64().map(|it| u32::try_from(it).unwrap());
    (i32::try_from(number("partition")).unwrap(), number("offset"), element)
}
