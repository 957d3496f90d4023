//! A topic of hostile records, and the store that a daemon builds from it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::daemon::Daemon;
use super::generate::{Shape, TestRecord};
use super::wire::{Codec, Record, Wire};
use crate::cli::Folder;
use crate::faults::until;
use crate::hostile::judge::AS_JUDGED;
use crate::keyspace::Keyspace;
use crate::topic::Topic;

/// A daemon that makes no progress for this long is stuck.
const STALL: Duration = Duration::from_secs(60);

/// Name of the store's file.
pub const FILE: &str = "hostile.db";

/// Transient error codes.
const UNKNOWN_TOPIC: i16 = 3;
const LEADER_NOT_AVAILABLE: i16 = 5;
const NOT_LEADER: i16 = 6;

/// Bytes to which librdkafka decompresses a zstd batch before it refuses it, by default
/// (`receive.message.max.bytes`).
const RECEIVE_LIMIT: u64 = 100_000_000;

/// Maximum number of records in a batch.
const BATCH: usize = 500;

/// A record that was sent.
pub struct Sent {
    pub offset: i64,
    pub made: TestRecord,
}

/// The topic and the store of one run.
pub struct Site {
    pub shape: Shape,
    pub topic: Topic,
    /// `None` for a run into a file.
    pub keyspace: Option<Keyspace>,
    pub folder: Folder,
    /// By partition, in the order of offsets.
    pub sent: BTreeMap<i32, Vec<Sent>>,
    /// Bytes of the largest batch of one record.
    pub largest: usize,
    /// Bytes that clients may hold of a batch that they refuse.
    pub refused: u64,
    /// Compression of batches.
    pub codec: Codec,
}

impl Site {
    /// An empty topic that accepts records of any time.
    pub fn new(shape: Shape, keyspace: Option<Keyspace>) -> Option<Self> {
        let (limit, forever) = (shape.limit.to_string(), i64::MAX.to_string());
        let options = [
            ("max.message.bytes", limit.as_str()),
            ("message.timestamp.after.max.ms", &forever),
            // Records of 1970 are to stay, and to share a segment.
            ("retention.ms", "-1"),
            ("segment.ms", &forever),
        ];
        let topic = Topic::with(shape.partitions, &options)?;
        let (mut folder, sent) = (Folder::new(), BTreeMap::new());
        // Detection could be misled by hostile records.
        folder.env("TSTAR_PARTITIONER", "murmur2");
        // The model of trips has no stops.
        folder.env("TSTAR_STOP_SPEED", "0");
        let (largest, refused, codec) = (0, 0, Codec::None);
        Some(Self { shape, topic, keyspace, folder, sent, largest, refused, codec })
    }

    /// The same with a keyspace, whose tables are created.
    pub fn in_keyspace(shape: Shape) -> Option<Self> {
        let site = Self::new(shape, Some(Keyspace::bare()?))?;
        site.folder.run(&format!("schema apply --store {}", site.store())).ends(0);
        Some(site)
    }

    /// Sends records, those of a partition in this order.
    pub fn send(&mut self, records: impl Iterator<Item = TestRecord>) {
        let mut wire = Wire::to(&self.topic.brokers, &self.topic.name);
        let mut waiting: BTreeMap<i32, (Vec<TestRecord>, usize)> = BTreeMap::new();
        for made in records {
            let bytes = made.record.batch_bytes();
            self.largest = self.largest.max(bytes);
            let (partition, time_ms) = (made.partition, made.record.timestamp_ms);
            let (batch, taken) = waiting.entry(partition).or_default();
            let other_time = batch.last().is_some_and(|it| it.record.timestamp_ms != time_ms);
            if other_time || batch.len() == BATCH || *taken + bytes > self.shape.limit {
                let batch = std::mem::take(batch);
                *taken = 0;
                self.put(&mut wire, batch);
            }
            let (batch, taken) = waiting.entry(partition).or_default();
            batch.push(made);
            *taken += bytes;
        }
        for (batch, _) in waiting.into_values() {
            self.put(&mut wire, batch);
        }
    }

    /// Sends records as one batch that clients refuse because of its uncompressed size.
    pub fn send_refused(&mut self, batch: Vec<TestRecord>) {
        // The daemon's client may try the batch again while a second one looks for its end.
        self.refused = 2 * RECEIVE_LIMIT;
        let mut wire = Wire::to(&self.topic.brokers, &self.topic.name);
        self.put(&mut wire, batch);
    }

    fn put(&mut self, wire: &mut Wire, batch: Vec<TestRecord>) {
        let Some(partition) = batch.first().map(|made| made.partition) else { return };
        let records: Vec<&Record> = batch.iter().map(|made| &made.record).collect();
        // A topic that was just created may have no leader yet.
        let offset = until("the broker to take a batch", || {
            match wire.send(partition, &records, self.codec) {
                Ok(offset) => Some(offset),
                Err(UNKNOWN_TOPIC | LEADER_NOT_AVAILABLE | NOT_LEADER) => None,
                Err(code) => panic!("the broker refuses, code {code}: {}", batch[0].what),
            }
        });
        let sent = self.sent.entry(partition).or_default();
        for (mut made, offset) in batch.into_iter().zip(offset..) {
            // The content is in the topic.
            made.record = Record::default();
            sent.push(Sent { offset, made });
        }
    }

    /// The store's URL.
    pub fn store(&self) -> String {
        match &self.keyspace {
            None => format!("sqlite:{FILE}"),
            Some(keyspace) => keyspace.url.to_string(),
        }
    }

    /// The daemon's arguments; its group belongs to the topic.
    pub fn words(&self, memory: &str) -> String {
        let (flags, store, group) = (self.topic.flags(), self.store(), &self.topic.name);
        let create = if self.keyspace.is_some() { "--create-topics" } else { "" };
        format!(
            "run {flags} --store {store} --group {group} --from earliest --memory {memory} \
             --max-staleness 2s {create} {AS_JUDGED}"
        )
    }

    /// The durable positions, by partition.
    pub fn committed(&self) -> BTreeMap<i32, i64> {
        let partitions = self.shape.partitions;
        if self.keyspace.is_some() {
            return self.topic.committed(&self.topic.name, partitions);
        }
        // Read directly from the file: the table may not exist yet.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let read = || -> rusqlite::Result<BTreeMap<i32, i64>> {
            let file = Connection::open_with_flags(self.folder.path(FILE), flags)?;
            let mut select = file.prepare("SELECT partition, next_offset FROM positions")?;
            let positions = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            positions.collect()
        };
        read().unwrap_or_default()
    }

    /// Waits until everything is stored. Panics with the records at the current positions when the
    /// daemon ends or makes no progress.
    #[track_caller]
    pub fn until_read(&self, daemon: &mut Daemon) {
        let ends = self.topic.ends(self.shape.partitions);
        let (mut before, mut since) = (BTreeMap::new(), Instant::now());
        loop {
            let committed = self.committed();
            let is_read = |(at, end): (&i32, &i64)| *end == 0 || committed.get(at) >= Some(end);
            if ends.iter().all(is_read) {
                return;
            }
            if committed != before {
                (before, since) = (committed, Instant::now());
            }
            let ended = daemon.ended();
            let stalled = (since.elapsed() > STALL).then(|| "it makes no progress".to_owned());
            if let Some(why) = ended.or(stalled) {
                panic!("{why}\n{}\n{}", daemon.said(), self.next_records(&before, &ends));
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// The first hostile records from the position of each partition.
    fn next_records(&self, committed: &BTreeMap<i32, i64>, ends: &BTreeMap<i32, i64>) -> String {
        let mut text = String::new();
        for (partition, end) in ends {
            let at = committed.get(partition).copied().unwrap_or(0);
            let behind = self.sent.get(partition).into_iter().flatten();
            let behind = behind.filter(|sent| sent.offset >= at);
            let hostile = behind.filter(|sent| !sent.made.what.starts_with("a good sample"));
            text += &format!("partition {partition} is at {at} of {end}, before\n");
            for Sent { offset, made } in hostile.take(4) {
                text += &format!("  offset {offset}: {}\n", made.what);
            }
        }
        text
    }
}
