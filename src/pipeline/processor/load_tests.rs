use super::super::ProcessorConfig;
use super::super::fixture::{
    EVENING, MINUTE, MemoryStore, block_on, of_topic, processor, row, samples,
};
use super::*;
use crate::model::scalar::Offset;
use crate::source::spill::Spill;
use crate::store::memory::ApplyRows as _;

/// Of two stored trips that overlap, one stands; it is counted.
#[test]
fn stored_trips_that_overlap_are_counted() {
    let store = MemoryStore::default();
    // Both days have the older one, and its copy in the second is gone.
    let newer = TripRow { version: Version(4), ..row("van", (80, 100)) };
    block_on(store.apply(&[row("van", (0, 90)), newer])).unwrap();
    let mut processor = processor(&store, ProcessorConfig::default());
    for (offset, minute) in [(5, 59), (6, 100)] {
        block_on(processor.absorb(&samples(offset, &[("van", minute)]))).unwrap();
    }
    assert_eq!(processor.counts().overlaps, 1);
}

/// Rows of a partition that the device does not belong to are ignored.
#[test]
fn stored_trips_of_another_partition_are_counted() {
    let store = MemoryStore::default();
    let foreign = TripRow { partition: 5, ..row("van", (0, 10)) };
    let own = TripRow { partition: 3, ..row("van", (20, 30)) };
    block_on(store.claim("van", 1, 3)).unwrap();
    block_on(store.apply(&[foreign, own])).unwrap();
    let mut processor = of_topic(&store, ProcessorConfig::default());
    block_on(processor.absorb(&samples(9, &[("van", 5), ("van", 25)]))).unwrap();
    let counts = processor.counts();
    assert_eq!((counts.foreign_rows, counts.applied), (1, 2));
    let slot = processor.devices.find_slot("van").unwrap();
    let starts = processor.devices.device(slot).timeline().segments().map(Segment::start_ms);
    assert!(starts.eq([EVENING + 5 * MINUTE, EVENING + 20 * MINUTE]));
}

/// The devices of the records that follow are loaded together with the first one.
#[test]
fn several_devices_are_loaded_together() {
    let batch = samples(0, &[("a", 0), ("b", 0), ("b", 1), ("c", 0), ("d", 0)]);
    for (loads, expected) in [(1, &["a"][..]), (2, &["a", "b"]), (3, &["a", "b", "c"])] {
        let store = MemoryStore::default();
        let mut processor = of_topic(&store, ProcessorConfig { loads, ..Default::default() });
        let class = processor.classifier.classify(&batch.entries[0]);
        block_on(processor.load(&batch, &batch.entries, &class)).unwrap();
        assert_eq!(store.take_reads(), expected);
        let claimed = block_on(store.claimed("b", 1)).unwrap();
        assert_eq!(claimed, (loads > 1).then_some(3));
    }
}

/// A store that is empty at the start need not be read; one with rows, or with a position, is.
#[test]
fn only_an_empty_store_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    for (stored, position, is_read) in [(0, 0, false), (1, 0, true), (0, 9, true), (1, 9, true)] {
        let store = MemoryStore::default();
        block_on(store.apply(&vec![row("a", (0, 1)); stored])).unwrap();
        let mut processor = processor(&store, ProcessorConfig::default());
        let moved = Batch { next_offset: Some(Offset(position)), ..Batch::default() };
        block_on(processor.absorb(&moved)).unwrap();
        block_on(processor.enable_spill(Spill::new(folder.path()))).unwrap();
        block_on(processor.absorb(&samples(position, &[("c", 0), ("d", 0)]))).unwrap();
        assert_eq!(store.take_reads(), if is_read { &["c", "d"][..] } else { &[] });
    }
}

#[test]
fn a_forget_is_news_once_and_its_floor_only_rises() {
    let forget = |version, minute| Forget {
        version: Version(version),
        before_ms: EVENING + minute * MINUTE,
    };
    let mut device = Device::default();
    assert!(!device.has_erased(DeviceTime::MIN));
    assert!(device.erase(&forget(8, 10)));
    assert!(!device.erase(&forget(8, 10)) && !device.erase(&forget(4, 5)));
    assert!(device.has_erased(EVENING + 10 * MINUTE - 1));
    assert!(!device.has_erased(EVENING + 10 * MINUTE));
    assert!(device.erase(&forget(10, 2)) && device.has_erased(EVENING + 9 * MINUTE));
}
