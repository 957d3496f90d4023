//! For tests of the processor: batches by hand, and a store in memory that records its requests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{Processor, ProcessorConfig};
use crate::model::epoch::{Epoch, LogPartition, Versions};
use crate::model::partitioner::Partitioner;
use crate::model::reading::ReadingSet;
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::scalar::{Day, DeviceTime, LogTime, Offset, Version};
use crate::sink::Sink;
use crate::source::{Array, Batch, DecodedSample, Entry, NoSample, SampleError, span};
use crate::store::memory::MemoryStore;
use crate::store::positions::KeptPositions;
use crate::store::{
    DeviceScope, Flush, Forget, Order, Position, StoreError, TripRow, TripStore, WriteGroup,
};
use crate::timeline::{Path, READINGS, Reading, Sample, Trip};

/// 2026-11-20T23:00:00Z.
pub(super) const EVENING: DeviceTime = DeviceTime(1_795_215_600_000);

pub(super) const MINUTE: i64 = 60_000;

/// Runs a future that waits for nothing outside.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime without threads can be built").block_on(future)
}

/// A store in memory, and what it was asked for.
#[derive(Default)]
pub(super) struct TestStore {
    pub(super) memory: MemoryStore,
    /// The number of rows and of dead letters of each call of [`Sink::stage`].
    pub(super) staged: Mutex<Vec<(usize, usize)>>,
    /// Position of each commit, and the first offsets of its parts.
    pub(super) commits: Mutex<Vec<(i64, Vec<i64>)>>,
    /// The devices and days whose rows were read.
    pub(super) reads: Mutex<Vec<(String, Day)>>,
}

impl TestStore {
    /// Takes the devices whose rows were read since the last call.
    pub(super) fn take_reads(&self) -> Vec<String> {
        let reads = std::mem::take(&mut *self.reads.lock().unwrap());
        reads.into_iter().map(|(device, _)| device).collect()
    }

    /// The rows of a device.
    pub(super) fn rows(&self, device_id: &str) -> Vec<TripRow> {
        let (from, upto) = (DeviceTime::MIN, DeviceTime::MAX);
        block_on(self.memory.range(device_id, from, upto, Order::Asc, usize::MAX)).unwrap()
    }
}

impl TripStore for TestStore {
    async fn write(&self, groups: &[WriteGroup]) -> Result<(), StoreError> {
        self.memory.write(groups).await
    }

    async fn covering(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
    ) -> Result<Option<TripRow>, StoreError> {
        self.memory.covering(device_id, time_ms).await
    }

    async fn rows_of_day(&self, device_id: &str, day: Day) -> Result<Vec<TripRow>, StoreError> {
        self.reads.lock().unwrap().push((device_id.to_owned(), day));
        self.memory.rows_of_day(device_id, day).await
    }

    async fn range(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
        order: Order,
        limit: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        self.memory.range(device_id, from_ms, upto_ms, order, limit).await
    }

    async fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.memory.devices(scope, after, limit).await
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>, StoreError> {
        self.memory.forgets(device_id).await
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        TripStore::forget(&self.memory, device_id, forget).await
    }

    async fn positions(&self, epoch: i32) -> Result<KeptPositions, StoreError> {
        self.memory.positions(epoch).await
    }

    async fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        next: (i32, Offset),
    ) -> Result<(), StoreError> {
        self.memory.keep_position(epoch, generation, next).await
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        self.memory.claimed(device_id, epoch).await
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32, StoreError> {
        self.memory.claim(device_id, epoch, own).await
    }
}

impl Sink for TestStore {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        self.staged.lock().unwrap().push((ahead.groups.len(), ahead.dead_letters.len()));
        self.memory.stage(ahead).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        let parts = flush.parts.iter().map(|part| part.first_offset.get()).collect();
        self.commits.lock().unwrap().push((flush.position.delivered.get(), parts));
        self.memory.commit(flush).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.memory.position().await
    }
}

/// A processor of files.
pub(super) fn processor(
    store: &TestStore,
    config: ProcessorConfig,
) -> Processor<'_, TestStore, TestStore> {
    block_on(Processor::new(store, &Rules::default(), config)).unwrap()
}

/// A processor of partition 3 of a topic whose devices belong to the partition that they claim.
pub(super) fn of_topic(
    store: &TestStore,
    config: ProcessorConfig,
) -> Processor<'_, TestStore, TestStore> {
    let epoch = Epoch {
        epoch: 1,
        topic: "samples".into(),
        partitions: 8,
        start_offsets: BTreeMap::new(),
        base: Version(0),
        rules: Rules::default(),
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    };
    let log = LogPartition { partition: 3, versions: Versions::of_partition(&[epoch], 3) };
    block_on(Processor::of_log((store, store), log, &Rules::default(), config)).unwrap()
}

/// A sample this number of minutes after [`EVENING`].
pub(super) fn sample(minute: i64) -> Sample {
    let time_ms = EVENING + minute * MINUTE;
    Sample::new(time_ms, (525_200_000, 134_050_000), [Reading::ABSENT; READINGS])
}

/// The error of an entry that cannot be read.
pub(super) fn bad_json() -> NoSample {
    NoSample::Dead(Box::new(SampleError::new(DeadReason::BadJson, "no")))
}

/// A batch whose records have one sample of each of these devices and minutes.
pub(super) fn samples(first_offset: i64, of: &[(&str, i64)]) -> Batch {
    let mut batch = Batch::default();
    for (&(device, minute), offset) in of.iter().zip(first_offset..) {
        push_sample(&mut batch, offset, device, minute);
    }
    batch
}

/// Adds an entry with a sample.
pub(super) fn push_sample(batch: &mut Batch, offset: i64, device: &str, minute: i64) {
    let start = batch.text.len();
    batch.text.push_str(device);
    let device = span(start, batch.text.len());
    let (driver, ignition, unknown) = (None, None, ReadingSet::default());
    let decoded = DecodedSample { device, driver, ignition, sample: sample(minute), unknown };
    push_entry(batch, offset, b"{}", Ok(decoded));
}

/// Adds an entry with these bytes.
pub(super) fn push_entry(
    batch: &mut Batch,
    offset: i64,
    raw: &[u8],
    content: Result<DecodedSample, NoSample>,
) {
    let start = batch.raw.len();
    batch.raw.extend_from_slice(raw);
    batch.entries.push(Entry {
        offset: Offset(offset),
        element: None,
        line: 0,
        log_time_ms: LogTime(EVENING.ms()),
        again: false,
        raw: span(start, batch.raw.len()),
        key: None,
        content,
    });
}

/// A record that is an array, of which each element is `[]`.
pub(super) fn array(offset: i64, contents: Vec<Result<DecodedSample, NoSample>>) -> Batch {
    let mut batch = Batch::default();
    for (content, element) in contents.into_iter().zip(0..) {
        push_entry(&mut batch, offset, b"[]", content);
        batch.entries.last_mut().expect("an entry was added").element = Some(element);
    }
    let value = span(0, batch.raw.len());
    let array = Array { value, more: BTreeMap::new(), is_needed: false };
    batch.arrays.insert(Offset(offset), array);
    batch
}

/// The row of a trip between two minutes.
pub(super) fn row(device_id: &str, (from, upto): (i64, i64)) -> TripRow {
    let path = Path::from_sorted([sample(from), sample(upto)]).unwrap();
    let (t_star_ms, version) = (path.first().time_ms, Version(2));
    let trip = Trip::loaded(t_star_ms, version, version, BTreeMap::new(), None, path);
    TripRow::from_trip(device_id, &trip, Rules::default().legs())
}
