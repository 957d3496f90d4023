use super::*;
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::source::Decoder;

const VALUE: &str = r#"{"device_id":"truck-17","time":"2026-11-20T21:01:00Z","lat":1,"lon":2}"#;

fn reader() -> RecordReader {
    RecordReader::new(Decoder::new(&Rules::default()).unwrap(), true)
}

fn record(offset: i64, value: &[u8]) -> Record<'_> {
    Record {
        partition: 3,
        offset: Offset(offset),
        key: Some(b"truck-17"),
        value: Some(value),
        ..Record::default()
    }
}

fn decode_all(raw: &mut RawBatch) -> Vec<Batch> {
    let (mut reader, topic) = (reader(), "samples".into());
    std::iter::from_fn(|| raw.decode(&mut reader, &topic)).collect()
}

fn reasons(batch: &Batch) -> Vec<Option<DeadReason>> {
    let reason = |content: &Result<_, crate::source::NoSample>| {
        content.as_ref().err().and_then(crate::source::NoSample::error).map(|error| error.reason)
    };
    batch.entries.iter().map(|entry| reason(&entry.content)).collect()
}

#[test]
fn records_are_decoded_in_order_as_they_came() {
    let mut raw = RawBatch::of_partition(3);
    let headers = vec![("trace".to_owned(), Some(b"7".to_vec())), ("empty".to_owned(), None)];
    raw.push(Record { headers: headers.clone(), ..record(70, VALUE.as_bytes()) });
    raw.push(Record { value: None, ..record(72, b"") });
    raw.push(Record { key: None, ..record(73, VALUE.as_bytes()) });
    raw.push_unreadable(UnreadableBatch { first: 74, last: 79, problem: "bad CRC".into() });
    raw.push(record(80, VALUE.as_bytes()));
    assert_eq!((raw.len(), raw.next_offset()), (5, Some(Offset(81))));

    let batches = decode_all(&mut raw);
    let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
    assert_eq!(
        reasons(batch),
        [
            None,
            Some(DeadReason::BadJson),
            Some(DeadReason::NoKey),
            Some(DeadReason::BadRecord),
            None
        ]
    );
    let offsets: Vec<_> = batch.entries.iter().map(|entry| entry.offset.get()).collect();
    assert_eq!(offsets, [70, 72, 73, 79, 80]);
    assert_eq!(batch.next_offset, Some(Offset(81)));
    assert_eq!(*batch.headers[&Offset(70)], headers);
    assert_eq!(batch.raw(&batch.entries[0]), VALUE.as_bytes());
}

#[test]
fn a_value_over_the_limit_is_a_head_with_the_length_and_hash_of_the_whole() {
    let long = [VALUE.as_bytes(), &vec![b' '; MAX_RECORD_BYTES]].concat();
    let mut raw = RawBatch::of_partition(3);
    raw.push(record(7, &long));
    assert!(raw.memory() < 2 * HEAD_BYTES, "{} bytes", raw.memory());
    let batch = decode_all(&mut raw).remove(0);
    let error = batch.entries[0].content.as_ref().unwrap_err().error().unwrap();
    assert_eq!(error.reason, DeadReason::Oversize);
    assert_eq!(error.cut, Some(Cut::new(&long)));
    assert_eq!(batch.raw(&batch.entries[0]), &long[..HEAD_BYTES]);
}

#[test]
fn a_decoded_batch_is_bounded_by_the_size_of_the_raw_one() {
    // Elements of an array take many times their bytes once decoded.
    let array = format!("[{}]", [VALUE; 20].join(","));
    let mut raw = RawBatch::of_partition(3);
    (0..1000).for_each(|offset| raw.push(record(offset, array.as_bytes())));
    let memory = raw.memory();
    let batches = decode_all(&mut raw);
    let entries: Vec<_> = batches.iter().map(|batch| batch.entries.len()).collect();
    assert_eq!(entries.iter().sum::<usize>(), 20_000);
    assert!(entries.iter().all(|&count| count < MAX_BATCH_ENTRIES + 20), "{entries:?}");
    assert!(batches.iter().all(|batch| batch.memory() < memory + 20_000), "{entries:?}");
    let offsets = batches.iter().flat_map(|batch| &batch.entries).map(|entry| entry.offset);
    assert!(offsets.is_sorted());
}
