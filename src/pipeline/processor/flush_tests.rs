use std::sync::Arc;

use super::super::Budget;
use super::super::fixture::{
    EVENING, MINUTE, MemoryStore, block_on, commits, processor, push_sample, rows, sample, samples,
    staged,
};
use super::super::{FlushSettings, ProcessorConfig};
use super::*;
use crate::model::input_format::InputFormat;
use crate::model::input_part::Part;
use crate::model::rules::Rules;
use crate::model::scalar::{LogTime, Offset};
use crate::source::Batch;
use crate::source::spill::Spill;

const HOUR: Duration = Duration::from_secs(3600);

/// Nothing is due by time.
fn slow() -> ProcessorConfig {
    ProcessorConfig { flush: FlushSettings::new(HOUR, HOUR), ..ProcessorConfig::default() }
}

fn part(first_offset: i64, upto_bytes: u64) -> Part {
    Part {
        first_offset: Offset(first_offset),
        from_bytes: 0,
        upto_bytes,
        line: 1,
        head: [0; 32],
        hash: [0; 32],
        format: InputFormat::Ndjson,
        by_end: false,
        damaged: false,
        finished: false,
        log_time_ms: LogTime(EVENING.ms()),
    }
}

/// A flush is due after the interval, for whatever it would write.
#[test]
fn a_flush_is_due_where_something_waits() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, slow());
    let of_part = Batch { part: Some(part(0, 1)), ..Batch::default() };
    let moved = Batch { next_offset: Some(Offset(9)), ..Batch::default() };
    assert_eq!(processor.next_flush(), None);
    for batch in [of_part, moved, samples(9, &[("van", 0)])] {
        block_on(processor.absorb(&batch)).unwrap();
        let due = processor.next_flush().unwrap();
        assert!(due > Instant::now() && due < Instant::now() + HOUR);
        block_on(processor.flush()).unwrap();
        assert_eq!(processor.next_flush(), None);
    }
    assert_eq!((processor.counts().flushes, processor.counts().trips_written), (3, 1));
    block_on(processor.flush()).unwrap();
    assert_eq!(processor.counts().flushes, 3);
    let expected = [(0, vec![0]), (9, vec![]), (10, vec![])];
    assert_eq!(commits(&store), expected);
}

#[test]
fn a_flush_has_the_latest_state_of_each_part() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, slow());
    for part in [part(0, 1), part(0, 2), part(5, 1), part(5, 3)] {
        block_on(processor.absorb(&Batch { part: Some(part), ..Batch::default() })).unwrap();
    }
    let upto: Vec<u64> = processor.parts.iter().map(|part| part.upto_bytes).collect();
    assert_eq!(upto, [2, 3]);
    block_on(processor.flush()).unwrap();
    assert_eq!(commits(&store), [(0, vec![0, 5])]);
}

#[test]
fn a_flush_is_due_at_once_only_if_memory_is_full_or_its_time_has_come() {
    let store = MemoryStore::default();
    let full = ProcessorConfig { memory: 1, ..slow() };
    let soon = ProcessorConfig {
        flush: FlushSettings { interval: Duration::ZERO, ..slow().flush },
        ..slow()
    };
    for (config, is_due) in [(slow(), false), (full, true)] {
        let mut processor = processor(&store, config);
        block_on(processor.absorb(&samples(0, &[("van", 0)]))).unwrap();
        assert_eq!(processor.is_flush_due(), is_due);
    }
    // Without changes, it takes no time.
    assert!(processor(&store, soon).is_flush_due());
}

/// With `by_trip`, a trip waits for its own time unless memory is full.
#[test]
fn a_flush_that_is_due_writes_the_trips_that_are() {
    for (by_trip, memory, written) in [(true, 1 << 20, 0), (true, 1, 1), (false, 1 << 20, 1)] {
        let store = MemoryStore::default();
        let mut processor = processor(&store, ProcessorConfig { by_trip, memory, ..slow() });
        block_on(processor.absorb(&samples(0, &[("van", 0)]))).unwrap();
        block_on(processor.flush_due()).unwrap();
        assert_eq!(rows(&store, "van").len(), written);
    }
}

/// Changes that a store takes at once are written before they are too many for it.
#[test]
fn a_large_group_is_written_without_delay() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig { by_trip: true, ..slow() });
    let mut absorb = |first: i64, count: i64, ignition| {
        let mut batch = Batch::default();
        for nth in first..first + count {
            push_sample(&mut batch, nth, "van", 0);
            let entry = batch.entries.last_mut().unwrap();
            let Ok(decoded) = &mut entry.content else { unreachable!("it was added as a sample") };
            decoded.sample.time_ms = EVENING + 2_000 * (nth % 2_000) + nth / 2_000;
            decoded.sample.ignition = ignition;
        }
        block_on(processor.absorb(&batch)).unwrap();
        let is_due = processor.is_flush_due();
        if is_due {
            block_on(processor.flush_due()).unwrap();
        }
        is_due
    };
    assert!(!absorb(0, 2_000, None), "one trip that grows");
    // Each switches the ignition off for a moment within the trip.
    assert!(!absorb(2_000, 900, Some(false)));
    assert!(absorb(2_900, 200, Some(false)));
    assert!(!absorb(3_100, 1, Some(false)), "nothing else waits");
    assert_eq!(rows(&store, "van").len(), 2_201);
}

/// Samples are spilled if memory is full and loads would be repeated, where that is allowed.
#[test]
fn samples_are_spilled_if_memory_is_full_of_devices_with_few() {
    let (store, folder) = (MemoryStore::default(), tempfile::tempdir().unwrap());
    let start = |memory, samples_each: i64| {
        let mut processor = processor(&store, ProcessorConfig { memory, ..slow() });
        block_on(processor.enable_spill(Spill::new(folder.path()))).unwrap();
        let batch = samples(0, &(0..samples_each).map(|nth| ("van", nth)).collect::<Vec<_>>());
        block_on(processor.absorb(&batch)).unwrap();
        block_on(processor.flush_or_spill()).unwrap();
        processor.is_spilling()
    };
    assert_eq!([start(1, 63), start(1, 64), start(1 << 20, 63)], [true, false, false]);
    let mut processor = processor(&store, ProcessorConfig { memory: 1, ..slow() });
    block_on(processor.absorb(&samples(0, &[("van", 0)]))).unwrap();
    block_on(processor.flush_or_spill()).unwrap();
    assert!(!processor.is_spilling(), "it may not");
}

#[test]
fn a_trip_that_cannot_grow_is_counted_when_it_is_written() {
    let store = MemoryStore::default();
    let rules = Rules { max_samples: 3, ..Rules::default() };
    let mut processor = block_on(Processor::new(&store, &rules, slow())).unwrap();
    let all = [("van", 0), ("van", 1), ("van", 2), ("bus", 0), ("bus", 1)];
    block_on(processor.absorb(&samples(0, &all))).unwrap();
    block_on(processor.flush()).unwrap();
    assert_eq!(processor.limited_trips().count(), 1);
}

/// Rows are staged by number, and their paths by size.
#[test]
fn a_large_flush_is_staged_in_parts() {
    let store = MemoryStore::default();
    let mut many = processor(&store, slow());
    let names: Vec<String> = (0..=STAGED.0).map(|nth| format!("van-{nth}")).collect();
    let batch = samples(0, &names.iter().map(|name| (name.as_str(), 0)).collect::<Vec<_>>());
    block_on(many.absorb(&batch)).unwrap();
    block_on(many.flush()).unwrap();
    assert_eq!(staged(&store), [(STAGED.0, 0)]);
    assert_eq!(many.counts().trips_written, STAGED.0 as u64 + 1);
    assert!(names.iter().all(|name| rows(&store, name).len() == 1));
}

/// A batch of samples a second, whose positions cannot be compressed.
fn long_trip(device: &str, first_offset: i64) -> Batch {
    let mut batch = Batch::default();
    let mut random = 88_172_645_463_325_252_u64;
    for nth in 0..60_000 {
        push_sample(&mut batch, first_offset + nth, device, 0);
        let entry = batch.entries.last_mut().unwrap();
        let Ok(decoded) = &mut entry.content else { unreachable!("it was added as a sample") };
        for position in [&mut decoded.sample.lat_e7, &mut decoded.sample.lon_e7] {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            *position = i32::try_from(random % 800_000_000).unwrap();
        }
        decoded.sample.time_ms = EVENING + nth * 1000;
    }
    batch
}

#[test]
fn long_paths_are_staged_in_parts() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, slow());
    for (nth, device) in (0..).zip(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]) {
        block_on(processor.absorb(&long_trip(device, nth * 60_000))).unwrap();
    }
    block_on(processor.flush()).unwrap();
    let bytes = rows(&store, "a")[0].path.len();
    let each = STAGED.1.div_ceil(bytes);
    assert!(each < 10, "a path has {bytes} bytes");
    assert_eq!(staged(&store)[0], (each, 0));
}

/// The devices that drive stay in memory, and are not loaded again.
#[test]
fn a_full_memory_is_evicted_by_half() {
    let store = MemoryStore::default();
    let flush = |limit: usize| {
        let budget = Budget::new(limit);
        let mut processor = processor(&store, slow()).sharing(Arc::clone(&budget));
        block_on(processor.absorb(&samples(0, &[("c", 0), ("a", 0), ("b", 0), ("d", 0)]))).unwrap();
        let before = budget.taken();
        block_on(processor.flush()).unwrap();
        assert_eq!(budget.taken(), processor.devices.memory());
        let is_in_memory = |name: &&str| processor.devices.find_slot(name).is_some();
        (before, ["a", "b", "c", "d"].into_iter().filter(is_in_memory).collect::<String>())
    };
    let (memory, all) = flush(usize::MAX);
    assert_eq!(all, "abcd");
    assert_eq!(flush(memory - 1), (memory, "bd".to_owned()));
}

/// A trip is written with what it was at the flush, and stays dirty for what comes after.
#[test]
fn only_what_is_due_is_taken() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, slow());
    block_on(processor.absorb(&samples(0, &[("van", 0), ("van", 60)]))).unwrap();
    let slot = processor.devices.find_slot("van").unwrap();
    processor.devices.take_due(None, |trip| trip.start_ms() == sample(0).time_ms);
    let mut rows = Flush::default();
    let bytes = processor.take_rows(slot, Extent::Due, &mut rows);
    let waits = |processor: &Processor<'_, MemoryStore>| {
        processor.devices.device(slot).timeline().unflushed()
    };
    assert_eq!(waits(&processor), Some(Version(2)));
    assert_eq!(bytes, rows.groups[0].rows[0].path.len());
    assert_eq!(rows.changes().map(|(_, row)| row.end_ms).collect::<Vec<_>>(), [EVENING]);
    let bytes = processor.take_rows(slot, Extent::All, &mut rows);
    assert_eq!(waits(&processor), None);
    assert_eq!(bytes, rows.groups[1].rows[0].path.len());
    assert_eq!(rows.groups[1].rows[0].end_ms, EVENING + 60 * MINUTE);
    let announced: Vec<_> = rows.changes().map(|(_, row)| row.end_ms).collect();
    assert_eq!(announced, [EVENING, EVENING + 60 * MINUTE]);
    assert_eq!(processor.counts().trips_written, 2);
}
