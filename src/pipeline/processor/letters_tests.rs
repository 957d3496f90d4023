use super::super::ProcessorConfig;
use super::super::fixture::{
    EVENING, MemoryStore, array, bad_json, block_on, processor, push_entry, push_sample, samples,
};
use super::*;
use crate::model::reason::DropReason;
use crate::model::scalar::{DeviceTime, Offset};
use crate::source::{DecodedSample, Headers};
use crate::telemetry::counts::SampleCounts;

/// Absorbs a batch. Returns the counts, and the element, value and message of each dead letter.
fn absorb(batch: &Batch) -> (SampleCounts, Vec<(Option<u32>, String, String)>) {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    block_on(processor.absorb(batch)).unwrap();
    block_on(processor.flush()).unwrap();
    let letters = store.dead_letters().into_iter().map(|letter| {
        assert_eq!(letter.value_bytes, letter.value.len() as u64);
        (letter.element, String::from_utf8(letter.value).unwrap(), letter.message)
    });
    (processor.counts().clone(), letters.collect())
}

/// An array with this number of bad elements.
fn bad_array(bad: usize) -> Batch {
    array(7, (0..bad).map(|_| Err(bad_json())).collect())
}

fn letter(element: Option<u32>, value: &str, message: &str) -> (Option<u32>, String, String) {
    (element, value.to_owned(), message.to_owned())
}

#[test]
fn few_bad_elements_are_a_letter_each_and_many_one() {
    let (counts, letters) = absorb(&bad_array(MAX_BAD_ELEMENTS));
    assert_eq!(letters.len(), MAX_BAD_ELEMENTS);
    assert_eq!(letters[1], letter(Some(1), "[]", "no"));
    assert_eq!((counts.delivered, counts.dead()), (100, 100));
    let many = MAX_BAD_ELEMENTS + 1;
    let (counts, letters) = absorb(&bad_array(many));
    let message = "101 of 101 elements cannot be used; element 0: no";
    assert_eq!(letters, [letter(None, &"[]".repeat(many), message)]);
    assert_eq!((counts.delivered, counts.dead()), (101, 101));
}

/// Bad elements without an entry count, and so do elements without a sample.
#[test]
fn a_letter_of_an_array_counts_all_its_elements() {
    let dropped = Err(NoSample::Dropped(DropReason::ZeroPosition, 3));
    let mut batch = array(7, vec![Err(NoSample::Skipped(2)), Err(bad_json()), dropped]);
    push_sample(&mut batch, 7, "van", 1);
    batch.arrays.get_mut(&Offset(7)).unwrap().more =
        BTreeMap::from([(DeadReason::BadJson, 200), (DeadReason::MissingField, 4)]);
    let (counts, letters) = absorb(&batch);
    let message = "205 of 211 elements cannot be used; element 1: no";
    assert_eq!(letters, [letter(None, "[][][]", message)]);
    let reasons = [(DeadReason::BadJson, 201), (DeadReason::MissingField, 4)];
    assert_eq!(counts.dead_letters, BTreeMap::from(reasons));
    assert_eq!((counts.skipped, counts.applied, counts.delivered), (2, 1, 211));
}

/// 1970, which is plausible in seconds.
fn in_seconds() -> DecodedSample {
    let batch = samples(0, &[("", 0)]);
    let mut decoded = batch.entries.into_iter().next().unwrap().content.unwrap();
    decoded.sample.time_ms = DeviceTime(EVENING.ms() / 1000);
    decoded
}

#[test]
fn times_in_seconds_are_counted_in_arrays_and_alone() {
    let mut one = Batch::default();
    push_entry(&mut one, 7, b"{}", Ok(in_seconds()));
    assert_eq!(absorb(&one).0.looks_like_seconds, 1);
    let each = array(7, vec![Ok(in_seconds()), Ok(in_seconds()), Err(bad_json())]);
    assert_eq!(absorb(&each).0.looks_like_seconds, 2);
    let many = (0..200).map(|_| Ok(in_seconds())).collect();
    assert_eq!(absorb(&array(7, many)).0.looks_like_seconds, 200);
}

#[test]
fn a_bad_element_that_needs_its_record_is_a_letter_of_the_whole() {
    let mut batch = bad_array(2);
    batch.arrays.get_mut(&Offset(7)).unwrap().is_needed = true;
    let message = "2 of 2 elements cannot be used; element 0: no";
    assert_eq!(absorb(&batch).1, [letter(None, "[][]", message)]);
    // Otherwise, each is a letter.
    batch.arrays.get_mut(&Offset(7)).unwrap().is_needed = false;
    assert_eq!(absorb(&batch).1.len(), 2);
}

#[test]
fn a_record_that_comes_again_is_counted_and_is_no_letter() {
    for mut batch in [bad_array(1), bad_array(200)] {
        let expected = batch.entries.len() as u64;
        batch.entries.iter_mut().for_each(|entry| entry.again = true);
        let (counts, letters) = absorb(&batch);
        assert_eq!((counts.dead(), counts.delivered, letters.len()), (expected, expected, 0));
    }
}

/// The letters of an array of bad elements with a header, and a key, of these sizes.
fn letters_of(bad: usize, header: usize, key: usize) -> usize {
    let mut batch = bad_array(bad);
    let start = batch.raw.len();
    batch.raw.resize(start + key, b'k');
    let key = crate::source::span(start, batch.raw.len());
    batch.entries.iter_mut().for_each(|entry| entry.key = Some(key.clone()));
    batch.headers.insert(Offset(7), Arc::new(vec![("h".repeat(header), None)]));
    absorb(&batch).1.len()
}

/// Four letters may repeat as much as the record has, or as a small one may.
#[test]
fn headers_are_not_repeated_without_end() {
    let header = SMALL_RECORD - memory_of_headers(&vec![(String::new(), None)]);
    assert_eq!([letters_of(4, header, 0), letters_of(4, header - 9, 9)], [4, 4]);
    assert_eq!([letters_of(5, header, 0), letters_of(5, header - 9, 9)], [1, 1]);
    assert_eq!([letters_of(4, 2 * header, 0), letters_of(4, 2 * header, header)], [4, 4]);
    assert_eq!([letters_of(5, 2 * header, 0), letters_of(5, 0, 2 * header)], [1, 1]);
}

#[test]
fn letters_weigh_what_they_do_not_share() {
    let batch = bad_array(2);
    let (mut pending, mut weights) = (PendingLetters::default(), Vec::new());
    let headers: Arc<Headers> = Arc::new(vec![("name".to_owned(), Some(b"value".to_vec()))]);
    for key in [&b"key"[..], b"key", b"other"] {
        let key = pending.shared_key(Some(key));
        let letter = DeadLetter { key, headers: Arc::clone(&headers), ..letter_of(&batch) };
        let before = pending.bytes;
        pending.push(letter);
        weights.push(pending.bytes - before);
    }
    let own = size_of::<DeadLetter>() + "value".len() + "message".len() + "origin".len();
    let shared = memory_of_headers(&headers);
    assert_eq!(weights, [own + 3 + shared, own, own + 5]);
    assert_eq!((pending.take_all().len(), pending.bytes), (3, 0));
}

fn letter_of(batch: &Batch) -> DeadLetter {
    DeadLetter {
        partition: 0,
        offset: batch.entries[0].offset,
        element: None,
        count: 1,
        reason: DeadReason::BadJson,
        message: "message".to_owned(),
        origin: "origin".to_owned(),
        line: 0,
        log_time_ms: batch.entries[0].log_time_ms,
        key: None,
        key_cut: None,
        headers: Arc::default(),
        headers_cut: None,
        value: b"value".to_vec(),
        value_bytes: 5,
        sha256: None,
    }
}

/// The letters of large records are staged before a flush, those of small ones with it.
#[test]
fn letters_are_staged_when_they_take_too_much_memory() {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    let large = vec![b'x'; MAX_PENDING_BYTES / 2];
    for (raw, staged) in [(&b"x"[..], 0), (&large, 0), (&large, 3), (b"x", 3)] {
        let mut batch = Batch::default();
        push_entry(&mut batch, 7, raw, Err(bad_json()));
        block_on(processor.absorb(&batch)).unwrap();
        assert_eq!(store.dead_letters().len(), staged);
    }
    block_on(processor.flush()).unwrap();
    assert_eq!(store.dead_letters().len(), 4);
}

/// Absorbs records of a file with these values, none of which can be used; each is of this many
/// elements. Returns the first offset, element, number and value of each letter.
fn of_file(values: &[&str]) -> Vec<(i64, Option<u32>, u64, String)> {
    let store = MemoryStore::default();
    let mut processor = processor(&store, ProcessorConfig::default());
    for (value, offset) in values.iter().zip(0..) {
        let mut batch = Batch { origin: "log".into(), ..Batch::default() };
        push_entry(&mut batch, offset, value.as_bytes(), Err(bad_json()));
        batch.entries[0].line = 1 + offset.unsigned_abs();
        block_on(processor.absorb(&batch)).unwrap();
        if offset % 3 == 0 {
            block_on(processor.flush()).unwrap();
        }
    }
    block_on(processor.flush()).unwrap();
    assert_eq!(processor.counts().dead(), values.len() as u64, "I3 counts elements");
    let letters = store.dead_letters().into_iter();
    let shown = |letter: DeadLetter| {
        let value = String::from_utf8(letter.value).unwrap();
        (letter.offset.get(), letter.element, letter.count, value)
    };
    letters.map(shown).collect()
}

#[test]
fn a_run_of_equal_bad_samples_of_a_file_is_one_letter() {
    let run = |offset, count, value: &str| (offset, None, count, value.to_owned());
    let found = of_file(&["0", "0", "0", "0", "1", "0", "0"]);
    assert_eq!(found, [run(0, 4, "0"), run(4, 1, "1"), run(5, 2, "0")]);
    assert_eq!(of_file(&["0"; 1000]), [run(0, 1000, "0")]);
    // A sample between them, and records of a topic, which have no line.
    let mut batch = Batch { origin: "log".into(), ..Batch::default() };
    push_entry(&mut batch, 1, b"0", Err(bad_json()));
    push_sample(&mut batch, 2, "van", 1);
    push_entry(&mut batch, 3, b"0", Err(bad_json()));
    push_entry(&mut batch, 4, b"0", Err(bad_json()));
    let (counts, letters) = absorb(&batch);
    assert_eq!((letters.len(), counts.dead()), (3, 3));
    batch.entries.iter_mut().for_each(|entry| entry.line = 9);
    assert_eq!(absorb(&batch).1.len(), 2);
}

#[test]
fn a_run_of_equal_elements_of_a_record_is_one_letter() {
    let mut batch = bad_array(MAX_BAD_ELEMENTS);
    batch.origin = "log".into();
    batch.entries.iter_mut().for_each(|entry| entry.line = 1);
    let (counts, letters) = absorb(&batch);
    assert_eq!(letters, [letter(Some(0), "[]", "no")]);
    assert_eq!((counts.delivered, counts.dead()), (100, 100));
}
