use super::super::ProcessorConfig;
use super::super::fixture::{
    EVENING, MINUTE, MemoryStore, array, bad_json, block_on, processor, push_entry, push_sample,
    rows, samples,
};
use super::*;
use crate::identity::DeviceId;
use crate::model::reading::ReadingKind;
use crate::model::scalar::Offset;
use crate::source::{Control, NoSample};

/// Adds a sample that differs from that of another device in the same minute.
fn push_changed(batch: &mut Batch, offset: i64, device: &str, minute: i64) {
    push_sample(batch, offset, device, minute);
    if let Ok(decoded) = &mut batch.entries.last_mut().unwrap().content {
        decoded.sample.lat_e7 += 1;
        decoded.unknown.insert(ReadingKind::ALL[0]);
    }
}

/// Each entry has one outcome, and is counted by it.
#[test]
fn an_entry_has_an_outcome() {
    let dropped = |count| Err(NoSample::Dropped(DropReason::ZeroPosition, count));
    let mut batch = samples(0, &[("van", 0), ("van", 0), ("van", 1), ("bus", 0)]);
    push_changed(&mut batch, 4, "van", 1);
    push_changed(&mut batch, 5, "van", 1);
    for (offset, content) in
        [(6, dropped(3)), (7, dropped(2)), (8, Err(NoSample::Skipped(4))), (9, Err(bad_json()))]
    {
        push_entry(&mut batch, offset, b"{}", content);
    }
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    let outcomes = block_on(processor.absorb_traced(&batch)).unwrap();
    let counted = |result, count| EntryOutcome::Counted(result, count);
    let dropped = |count| EntryOutcome::Dropped(DropReason::ZeroPosition, count);
    assert_eq!(
        outcomes,
        [
            counted("new", 1),
            counted("duplicate", 1),
            counted("end", 1),
            counted("new", 1),
            counted("duplicate", 1),
            counted("duplicate", 1),
            dropped(3),
            dropped(2),
            counted("skipped", 4),
            EntryOutcome::Dead(DeadReason::BadJson, "no".to_owned()),
        ]
    );
    let counts = processor.counts();
    assert_eq!((counts.delivered, counts.applied, counts.skipped), (16, 3, 4));
    assert_eq!((counts.duplicates, counts.conflicts.count, counts.dead()), (3, 2, 1));
    assert_eq!(counts.dropped[&DropReason::ZeroPosition], 5);
    assert_eq!(counts.unknown_readings, [(ReadingKind::ALL[0].name(), 2)].into());
    // Of a batch that is not traced, none is kept.
    block_on(processor.absorb(&samples(10, &[("van", 2)]))).unwrap();
    assert!(processor.outcomes.is_none());
}

/// The elements of an array are traced, each with its own.
#[test]
fn an_element_has_an_outcome() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    let mut batch = array(0, vec![Err(bad_json()), Err(NoSample::Skipped(1))]);
    push_sample(&mut batch, 0, "van", 0);
    let outcomes = block_on(processor.absorb_traced(&batch)).unwrap();
    let expected = [
        EntryOutcome::Dead(DeadReason::BadJson, "no".to_owned()),
        EntryOutcome::Counted("skipped", 1),
        EntryOutcome::Counted("new", 1),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(processor.counts().dead(), 1);
}

/// A forget is counted, and is behind the position at once.
#[test]
fn a_control_record_is_counted() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    block_on(processor.absorb(&samples(0, &[("van", 0)]))).unwrap();
    let control = Some(Control::Forget {
        offset: Offset(7),
        device_id: DeviceId::from_store("van"),
        before_ms: EVENING + MINUTE,
        key: None,
    });
    block_on(processor.absorb(&Batch { control, ..Batch::default() })).unwrap();
    let counts = processor.counts();
    assert_eq!((counts.controls, counts.delivered, counts.trips_written), (1, 1, 1));
    assert_eq!(counts.flushes, 0, "what comes before it is staged");
    assert_eq!(processor.position().delivered, Offset(8));
    assert!(rows(&store, "van").is_empty());
    assert_eq!(store.forgotten().len(), 1);
}

/// A split leaves a part of a trip that stayed whole before the floor, until the next forget.
#[test]
fn a_forget_that_raises_no_floor_erases_what_a_split_has_left_before_it() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    let forget = |processor: &mut Processor<'_, _, _>, offset| {
        let (device_id, key) = (DeviceId::from_store("van"), Some("ops".into()));
        let before_ms = EVENING + 3 * MINUTE;
        let control = Some(Control::Forget { offset: Offset(offset), device_id, before_ms, key });
        block_on(processor.absorb(&Batch { control, ..Batch::default() })).unwrap();
        let rows = rows(&store, "van").len();
        (rows, processor.counts().forgets_repeated, store.forgotten().len())
    };
    block_on(processor.absorb(&samples(0, &[("van", 0), ("van", 1), ("van", 5)]))).unwrap();
    assert_eq!(forget(&mut processor, 3), (1, 0, 1), "it ends after the floor");
    let mut separator = samples(4, &[("van", 4)]);
    if let Ok(decoded) = &mut separator.entries[0].content {
        decoded.sample.ignition = Some(false);
    }
    block_on(processor.absorb(&separator)).unwrap();
    assert_eq!(forget(&mut processor, 5), (2, 0, 2));
    assert_eq!(forget(&mut processor, 6), (2, 1, 2), "nothing is left");
}

/// A forget that raises no floor leaves no row and no event, also while the device has changes that
/// are not flushed. One that is read again is carried out again.
#[test]
fn a_forget_that_raises_no_floor_is_counted_only() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    let key = || Some("ops".into());
    let mut forget = |offset, minute| {
        let device_id = DeviceId::from_store("van");
        let before_ms = EVENING + minute * MINUTE;
        let control =
            Some(Control::Forget { offset: Offset(offset), device_id, before_ms, key: key() });
        block_on(processor.absorb(&Batch { control, ..Batch::default() })).unwrap();
        let counts = processor.counts();
        let rows = block_on(store.forgets("van")).unwrap().len();
        (counts.controls, counts.forgets_repeated, rows, store.forgotten().len())
    };
    assert_eq!(forget(7, 10), (1, 0, 1, 1));
    assert_eq!(forget(8, 10), (2, 1, 1, 1), "a copy");
    assert_eq!(forget(9, 5), (3, 2, 1, 1), "a lower one");
    assert_eq!(forget(10, 11), (4, 2, 2, 2), "a higher one");
    assert_eq!(forget(7, 10), (5, 2, 2, 3), "its owner may not have completed it");
    assert_eq!(forget(8, 10), (6, 3, 2, 3), "decided as before");
    block_on(processor.absorb(&samples(20, &[("van", 12)]))).unwrap();
    let control = Some(Control::Forget {
        offset: Offset(21),
        device_id: DeviceId::from_store("van"),
        before_ms: EVENING + 11 * MINUTE,
        key: key(),
    });
    block_on(processor.absorb(&Batch { control, ..Batch::default() })).unwrap();
    assert_eq!(processor.position().delivered, Offset(22));
    block_on(processor.flush()).unwrap();
    assert_eq!(rows(&store, "van").len(), 1);
}
