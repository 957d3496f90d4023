//! For tests of the processor: batches by hand, and what a store in memory was asked for.

use std::collections::BTreeMap;

use super::{Processor, ProcessorConfig};
use crate::model::epoch::{Epoch, LogPartition, Versions};
use crate::model::partitioner::Partitioner;
use crate::model::reading::ReadingSet;
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, LogTime, Offset, Version};
use crate::segment::MintPoints;
use crate::source::{Array, Batch, DecodedSample, Entry, NoSample, SampleError, span};
pub(super) use crate::store::memory::MemoryStore;
use crate::store::{Flush, Kinds, Order, TripRow, TripStore as _};
use crate::timeline::{Path, READINGS, Reading, Sample};

/// 2026-11-20T23:00:00Z.
pub(super) const EVENING: DeviceTime = DeviceTime(1_795_215_600_000);

pub(super) const MINUTE: i64 = 60_000;

/// Runs a future that waits for nothing outside.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime without threads can be built").block_on(future)
}

/// The number of rows and of dead letters of each part of a flush that was staged.
pub(super) fn staged(store: &MemoryStore) -> Vec<(usize, usize)> {
    let staged = store.flushes().into_iter().filter(|(_, is_whole)| !is_whole);
    staged.map(|(flush, _)| (flush.groups.len(), flush.dead_letters.len())).collect()
}

/// Position of each commit, and the first offsets of its parts.
pub(super) fn commits(store: &MemoryStore) -> Vec<(i64, Vec<i64>)> {
    let parts = |flush: &Flush| flush.parts.iter().map(|part| part.first_offset.get()).collect();
    let commits = store.flushes().into_iter().filter(|(_, is_whole)| *is_whole);
    commits.map(|(flush, _)| (flush.position.delivered.get(), parts(&flush))).collect()
}

/// The rows of a device.
pub(super) fn rows(store: &MemoryStore, device_id: &str) -> Vec<TripRow> {
    let (from, upto) = (DeviceTime::MIN, DeviceTime::MAX);
    block_on(store.range(device_id, Kinds::All, from, upto, Order::Asc, usize::MAX)).unwrap()
}

/// A processor of files.
pub(super) fn processor(
    store: &MemoryStore,
    config: ProcessorConfig,
) -> Processor<'_, MemoryStore> {
    block_on(Processor::new(store, &Rules::default(), config)).unwrap()
}

/// A processor of partition 3 of a topic whose devices belong to the partition that they claim.
pub(super) fn of_topic(store: &MemoryStore, config: ProcessorConfig) -> Processor<'_, MemoryStore> {
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
    let (driver, unknown) = (None, ReadingSet::default());
    let decoded = DecodedSample { device, driver, sample: sample(minute), unknown };
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
    let ids = MintPoints::new(t_star_ms, version);
    TripRow::from_path(device_id, &path, (&ids, version), Rules::default().legs())
}
