use super::*;
use crate::model::rules::Rules;

fn reader(key_is_device: bool) -> RecordReader {
    RecordReader::new(Decoder::new(&Rules::default()).unwrap(), key_is_device)
}

fn sample(device: &str, minute: u32) -> String {
    format!(r#"{{"device_id":"{device}","time":"2026-11-20T21:{minute:02}:00Z","lat":1,"lon":2}}"#)
}

fn record<'a>(key: Option<&'a str>, value: &'a str) -> Record<'a> {
    Record {
        offset: Offset(7),
        log_time_ms: LogTime(1_795_210_680_123),
        key: key.map(str::as_bytes),
        value: Some(value.as_bytes()),
        ..Record::default()
    }
}

fn read(key_is_device: bool, record: &Record<'_>) -> Batch {
    let mut batch = Batch::default();
    assert!(matches!(reader(key_is_device).read(record, &mut batch), RecordContent::Samples));
    assert_eq!(batch.next_offset, Some(Offset(8)));
    batch
}

fn reasons(batch: &Batch) -> Vec<Option<DeadReason>> {
    let reason = |entry: &Entry| entry.content.as_ref().err().map(|error| error.reason);
    batch.entries.iter().map(reason).collect()
}

#[test]
fn a_record_is_one_sample_or_an_array_of_them() {
    let one = sample("truck-17", 1);
    let batch = read(true, &record(Some("truck-17"), &one));
    assert_eq!(reasons(&batch), [None]);
    assert_eq!(batch.raw(&batch.entries[0]), one.as_bytes());
    assert_eq!(batch.key(&batch.entries[0]), Some(&b"truck-17"[..]));

    let two = sample("truck-17", 2);
    let array = format!(" [{one},\n {{\"lat\":3}}, {two}]");
    let batch = read(true, &record(Some("truck-17"), &array));
    assert_eq!(reasons(&batch), [None, Some(DeadReason::MissingField), None]);
    let elements: Vec<_> = batch.entries.iter().map(|it| (it.offset, it.element)).collect();
    assert_eq!(elements, [0, 1, 2].map(|element| (Offset(7), Some(element))));
    assert_eq!(batch.raw(&batch.entries[1]), br#"{"lat":3}"#, "a bad element is its own entry");

    assert_eq!(reasons(&read(true, &record(Some("truck-17"), "[]"))), []);
}

#[test]
fn an_unreadable_record_is_an_entry_too() {
    let good = sample("truck-17", 1);
    let cases = [
        (None, good.as_str(), DeadReason::NoKey),
        (Some(""), &good, DeadReason::NoKey),
        (Some("truck-18"), &good, DeadReason::KeyMismatch),
        (Some("truck-17"), "[{]", DeadReason::BadJson),
        (Some("truck-17"), "", DeadReason::BadJson),
    ];
    for (key, value, reason) in cases {
        let batch = read(true, &record(key, value));
        assert_eq!(reasons(&batch), [Some(reason)], "{key:?} {value}");
        assert_eq!(batch.raw(&batch.entries[0]), value.as_bytes());
    }
    assert_eq!(reasons(&read(false, &record(Some("4711"), &good))), [None], "--key any");
    assert_eq!(reasons(&read(false, &record(None, &good))), [Some(DeadReason::NoKey)]);

    let none = Record { value: None, ..record(Some("truck-17"), "") };
    assert_eq!(reasons(&read(true, &none)), [Some(DeadReason::BadJson)]);

    let long = format!("{good}{}", " ".repeat(MAX_RECORD_BYTES));
    let batch = read(true, &record(Some("truck-17"), &long));
    let error = batch.entries[0].content.as_ref().unwrap_err();
    assert_eq!(error.reason, DeadReason::Oversize);
    assert_eq!(error.cut.as_ref().unwrap().bytes, long.len() as u64);
    assert_eq!(batch.raw(&batch.entries[0]).len(), HEAD_BYTES);
}

#[test]
fn an_array_of_bad_elements_takes_little_more_than_its_bytes() {
    let value = format!("[{}0]", "0,".repeat(499_999));
    let mut batch = Batch::default();
    let record = Record {
        key: Some(b"truck-17"),
        value: Some(value.as_bytes()),
        offset: Offset(7),
        ..Record::default()
    };
    reader(true).read(&record, &mut batch);
    assert_eq!(batch.entries.len(), MAX_BAD_ELEMENTS + 1);
    let array = &batch.arrays[&Offset(7)];
    assert_eq!(batch.bytes(&array.value), value.as_bytes());
    let more = 500_000 - batch.entries.len() as u64;
    assert_eq!(array.more, [(DeadReason::BadJson, more)].into());
    assert!(batch.memory() < 2 * value.len(), "{} bytes", batch.memory());
    // An array that cannot be split leaves one entry.
    let mut batch = Batch::default();
    let broken = value.replace(']', "");
    reader(true).read(&Record { value: Some(broken.as_bytes()), ..record }, &mut batch);
    assert_eq!((batch.entries.len(), batch.arrays.len()), (1, 0));
    assert_eq!(batch.raw(&batch.entries[0]), broken.as_bytes());
}

#[test]
fn a_message_is_bounded_whatever_the_key() {
    let mut batch = Batch::default();
    let key = vec![b'k'; 600_000];
    let value = br#"{"device":"truck-17","ts":1795210680123,"lat":1,"lon":2}"#;
    let record = Record { key: Some(&key), value: Some(value), ..Record::default() };
    reader(true).read(&record, &mut batch);
    let error = batch.entries[0].content.as_ref().unwrap_err();
    assert_eq!(error.reason, DeadReason::KeyMismatch);
    assert!(error.message.len() < 400, "{}", error.message);
}
