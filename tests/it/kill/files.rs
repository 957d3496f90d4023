//! `replay files` sends every sample, and few of them twice.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Row;
use crate::cli::{Folder, Ran};
use crate::replay_files::{PARTITIONS, fleet, lines, read_all, sent, spans};
use crate::support::Dice;
use crate::topic::Topic;

const SAMPLES: usize = 40_000;

/// Maximum number of lines that are sent together: 256 KiB of a fleet's lines.
const CHUNK: usize = 4096;

pub struct Replay {
    folder: Folder,
    log: Vec<u8>,
    /// Trips of an import of the same file.
    spans: Vec<Value>,
    topic: Topic,
    kills: usize,
}

impl Row for Replay {
    const KILLS_IN_A_ROW: usize = 5;
    const SPINS: usize = 400_000;

    fn new(_: &mut Dice) -> Option<Self> {
        let (topic, folder) = (Topic::new(PARTITIONS)?, Folder::new());
        let log = fleet(&folder, SAMPLES, 13);
        folder.write("all.ndjson", &log);
        folder.ingest("all.ndjson --store sqlite:file.db");
        let spans = spans(&folder, "file.db");
        Some(Self { folder, log, spans, topic, kills: 0 })
    }

    fn begin(&mut self) {
        if self.done() > 0 {
            self.topic.remove();
            self.topic = Topic::new(PARTITIONS).unwrap();
        }
        self.kills = 0;
    }

    fn command(&self) -> (&Folder, String) {
        (&self.folder, format!("replay files all.ndjson --apply {}", self.topic.flags()))
    }

    fn done(&self) -> i64 {
        self.topic.ends(PARTITIONS).values().sum()
    }

    fn all(&self) -> i64 {
        SAMPLES as i64
    }

    fn killed(&mut self, _: i64) {
        self.kills += 1;
    }

    fn check(&mut self, ran: &Ran) {
        let records = sent(&self.topic);
        let expected: BTreeSet<&[u8]> = lines(&self.log).into_iter().collect();
        let found: BTreeSet<&[u8]> = records.iter().map(|kept| &kept.value[..]).collect();
        assert!(found == expected, "{} of {}\n{ran}", found.len(), expected.len());
        let (twice, kills) = (records.len() - SAMPLES, self.kills);
        println!("replay files: {kills} kills, {twice} of {SAMPLES} lines twice");
        assert!(twice <= kills * CHUNK, "{twice} twice after {kills} kills");
        assert_eq!(self.run().json()["samples"], 0);

        self.folder.remove_store("topic.db");
        read_all(&self.folder, &self.topic, "topic.db");
        assert!(spans(&self.folder, "topic.db") == self.spans, "other trips");
    }
}
