//! What the daemon decides about a log: the code that ships, from the bytes of records to rows.

use std::sync::Arc;

use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset};
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use tstar::internals::sink::Sink;
use tstar::internals::source::{Batch, Decoder, Entry, RecordContext};
use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::{DeviceScope, Kinds, Order, TripStore, WriteGroup};

use super::logs::{Log, Sent};
use super::{Decided, Taken};
use crate::support::block_on;

/// The batch of one record.
fn batch(decoder: &Decoder, sent: &Sent, offset: i64) -> Batch {
    let mut batch = Batch { origin: Arc::from("log"), raw: sent.line(), ..Batch::default() };
    let content = decoder.decode((None, &batch.raw), &RecordContext::default(), &mut batch.text);
    batch.entries.push(Entry {
        offset: Offset(offset),
        element: None,
        line: u64::try_from(offset).unwrap() + 1,
        log_time_ms: sent.log_time_ms.map_or(LogTime::MAX, LogTime),
        again: false,
        raw: 0..u32::try_from(batch.raw.len()).unwrap(),
        key: None,
        content,
    });
    batch
}

/// The name of what the only record between two counts did.
fn effect(before: &SampleCounts, after: &SampleCounts) -> String {
    let arrivals = before.arrivals.by_kind().zip(after.arrivals.by_kind());
    let arrival = arrivals.filter(|(before, after)| before.1 < after.1).map(|(_, it)| it.0.name());
    let dropped = after.dropped.iter().filter(|it| before.dropped.get(it.0) < Some(it.1));
    let dead = after.dead_letters.iter().filter(|it| before.dead_letters.get(it.0) < Some(it.1));
    let duplicate = (after.duplicates > before.duplicates).then_some("duplicate");
    let names = arrival.chain(duplicate).chain(dropped.map(|it| it.0.name()));
    let names: Vec<_> = names.chain(dead.map(|it| it.0.name())).collect();
    assert_eq!(names.len(), 1, "a record does one thing");
    names[0].to_owned()
}

fn taken(group: &WriteGroup) -> Taken {
    Taken {
        device_id: group.device_id().to_owned(),
        spans: group.taken.clone(),
        changes: group
            .events()
            .map(|(change, row)| (change.kind, change.retired.clone(), row.clone()))
            .collect(),
    }
}

/// All rows of a store, each once.
async fn rows(store: &impl TripStore) -> Vec<tstar_core::codec::trip_row::TripRow> {
    let mut all = Vec::new();
    for device in store.devices(DeviceScope::All, None, usize::MAX).await.unwrap() {
        let (from, upto) = (DeviceTime::MIN, DeviceTime::MAX);
        let order = Order::Asc;
        all.extend(store.range(&device, Kinds::All, from, upto, order, usize::MAX).await.unwrap());
    }
    all
}

/// What the daemon decides, with the rows of `store`; a store in memory has what was flushed.
pub fn decided(log: &Log, store: &(impl TripStore + Sink)) -> Decided {
    let (decoder, memory) = (Decoder::new(&log.rules).unwrap(), MemoryStore::default());
    block_on(async {
        let config = ProcessorConfig::default();
        let mut into_memory = Processor::new(&memory, &log.rules, config).await.unwrap();
        let mut processor = Processor::new(store, &log.rules, config).await.unwrap();
        let mut decided = Decided::default();
        for (nth, sent) in log.records.iter().enumerate() {
            let batch = batch(&decoder, sent, i64::try_from(nth).unwrap());
            let before = processor.counts().clone();
            processor.absorb(&batch).await.unwrap();
            into_memory.absorb(&batch).await.unwrap();
            decided.effects.push(effect(&before, processor.counts()));
            if log.flushes.contains(&(nth + 1)) {
                processor.flush().await.unwrap();
                into_memory.flush().await.unwrap();
                let flushes = memory.flushes();
                let groups = flushes.last().map(|(flush, _)| &flush.groups[..]).unwrap_or_default();
                decided.add_flush(groups.iter().map(taken).collect());
            }
        }
        decided.rows = rows(store).await;
        assert_eq!(rows(&memory).await, decided.rows, "every store has the same rows");
        decided
    })
}
