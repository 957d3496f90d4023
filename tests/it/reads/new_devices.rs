//! Loads of devices that the store does not have need no read: filters of the day index and the
//! forgets decide.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tstar::internals::model::epoch::{Epoch, Log, Versions};
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::reading::ReadingSet;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{LogTime, Offset, Version};
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig};
use tstar::internals::source::{Batch, DecodedSample, Entry};
use tstar::internals::store::repairs::Repair;
use tstar::internals::store::{Forget, TripStore};
use tstar::internals::timeline::{DAY_MS, READINGS, Reading, Sample, day_of};

use crate::conformance::MIDNIGHT;
use crate::keyspace::{ClusteringOrder, Keyspace, WithJournal};

/// Records of one batch.
const EACH: usize = 500;

/// A log of one partition, whose devices all belong to it.
fn log() -> Log {
    let epoch = Epoch {
        epoch: 1,
        topic: "samples".into(),
        partitions: 1,
        start_offsets: BTreeMap::new(),
        base: Version(0),
        rules: Rules::default(),
        partitioner: Partitioner::Murmur2,
        topic_id: None,
        keeps_positions: false,
    };
    Log { partition: 0, versions: Versions::of_partition(&[epoch], 0) }
}

/// A batch with a sample of each device, at noon of a day.
fn batch(devices: &[String], day: i64, first_offset: usize) -> Batch {
    let mut batch = Batch { origin: Arc::from("log"), ..Batch::default() };
    let time_ms = MIDNIGHT + (day * DAY_MS + DAY_MS / 2);
    for (device, offset) in devices.iter().zip(first_offset..) {
        let start = u32::try_from(batch.text.len()).unwrap();
        batch.text.push_str(device);
        let device = start..u32::try_from(batch.text.len()).unwrap();
        let sample = Sample::new(time_ms, (525_000_000, 134_000_000), [Reading::ABSENT; READINGS]);
        let unknown = ReadingSet::default();
        batch.entries.push(Entry {
            offset: Offset(i64::try_from(offset).unwrap()),
            element: None,
            line: 1,
            log_time_ms: LogTime(time_ms.ms()),
            again: false,
            raw: 0..0,
            key: None,
            content: Ok(DecodedSample { device, driver: None, ignition: None, sample, unknown }),
        });
    }
    batch
}

/// One instance, which reads on from where it stopped.
struct Instance<'a> {
    processor: Processor<'a, WithJournal>,
    store: &'a WithJournal,
    offset: usize,
    /// Number of devices that it has invented.
    invented: usize,
}

impl<'a> Instance<'a> {
    async fn start(store: &'a WithJournal, offset: usize) -> Self {
        let config = ProcessorConfig { loads: 32, ..ProcessorConfig::default() };
        let rules = Rules::default();
        let processor = Processor::of_log((store, store), log(), &rules, config).await.unwrap();
        Self { processor, store, offset, invented: 0 }
    }

    /// Absorbs a sample of each device; returns the reads of rows and forgets.
    async fn reads(&mut self, devices: &[String], day: i64) -> u64 {
        let before = self.store.reads.load(Ordering::Relaxed);
        for devices in devices.chunks(EACH) {
            self.processor.absorb(&batch(devices, day, self.offset)).await.unwrap();
            self.processor.flush().await.unwrap();
            self.offset += devices.len();
        }
        self.store.reads.load(Ordering::Relaxed) - before
    }

    /// Absorbs a sample of one new device after another until one takes this number of reads.
    async fn until_reads(&mut self, reads: u64) {
        for _ in 0..100_000 {
            self.invented += 1;
            let device = format!("late-{}-{}", self.offset, self.invented);
            if self.reads(&[device], 1).await == reads {
                return;
            }
        }
        panic!("no new device took {reads} reads");
    }
}

fn devices(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|nth| format!("van-{nth:05}")).collect()
}

#[test]
fn new_devices_in_a_keyspace_need_few_reads() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = WithJournal::of_its_own(keyspace.store());
    keyspace.runtime.block_on(async {
        let mut instance = Instance::start(&store, 0).await;
        let new = devices(0, 5_000);
        let reads = instance.reads(&new, 0).await;
        println!("{reads} reads for {} new devices", new.len());
        assert!(reads <= 250, "{reads} reads for {} new devices", new.len());
        // The next day, every device is new again, as far as rows are concerned.
        let reads = instance.reads(&new, 1).await;
        println!("{reads} reads for them on the next day");
        assert!(reads <= 250, "{reads} reads for {} devices of the day before", new.len());

        // Another instance finds them in the index, and reads them.
        let mut next = Instance::start(&store, instance.offset).await;
        let reads = next.reads(&devices(0, 1_000), 1).await;
        assert_eq!(reads, 2_000, "of known devices");
        let forget = Forget { version: Version(1), before_ms: MIDNIGHT };
        for device in devices(20_000, 100) {
            store.forget(&device, &forget).await.unwrap();
        }
        next.until_reads(0).await;
        let reads = next.reads(&devices(10_000, 1_000), 1).await;
        assert!(reads <= 50, "{reads} reads of new devices");
        let reads = next.reads(&devices(20_000, 100), 1).await;
        assert_eq!(reads, 200, "of devices with a forget");
        for device in devices(10_000, 10) {
            let rows = store.rows_of_day(&device, day_of(MIDNIGHT + DAY_MS)).await.unwrap();
            assert_eq!(rows.len(), 1, "{device}");
        }
    });
}

#[test]
fn while_rows_are_repaired_new_devices_are_read() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let notes = keyspace.store();
    let store = WithJournal::of_its_own(keyspace.store());
    keyspace.runtime.block_on(async {
        let mut instance = Instance::start(&store, 0).await;
        instance.until_reads(0).await;
        notes.begin_repair(Repair(7)).await.unwrap();
        instance.until_reads(2).await;
        let reads = instance.reads(&devices(0, 500), 1).await;
        assert_eq!(reads, 1_000, "of new devices during a repair");
        assert_eq!(instance.processor.counts().filters_dropped, 1);
        // A repair that crashed ends with one that ends a day later.
        notes.begin_repair(Repair(90_000_000_000)).await.unwrap();
        notes.end_repair(Repair(90_000_000_000)).await.unwrap();
        instance.until_reads(0).await;
        assert_eq!(instance.processor.counts().filters_dropped, 1);
    });
}
