use super::*;
use crate::model::rules::Rules;
use crate::source::MAX_BAD_ELEMENTS;

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
    assert!(reader(key_is_device).read(record, &mut batch).is_none());
    assert_eq!(batch.next_offset, Some(Offset(8)));
    batch
}

fn reasons(batch: &Batch) -> Vec<Option<DeadReason>> {
    let reason = |entry: &Entry| Some(entry.content.as_ref().err()?.error()?.reason);
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
    let error = batch.entries[0].content.as_ref().unwrap_err().error().unwrap();
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
    let error = batch.entries[0].content.as_ref().unwrap_err().error().unwrap();
    assert_eq!(error.reason, DeadReason::KeyMismatch);
    assert!(error.message.len() < 400, "{}", error.message);
}

/// Records of the reference data, by the id of their schema; the reader knows no schema yet.
fn avro() -> (RecordReader, Vec<Vec<u8>>, SchemaVerdict) {
    let file = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/formats/avro/");
        std::fs::read_to_string(format!("{folder}{name}")).unwrap()
    };
    let map = "device_id=vehicle_id,time=ts,lat=/position/lat,lon=/position/lon";
    let fields = crate::source::parse_map(map).unwrap();
    let decode = crate::model::schema::Encoding::Avro;
    let rules = Rules { decode, fields, ..Rules::default() };
    let lines = file("confluent.hex.tsv");
    let hex = lines.lines().map(|line| line.split_once('\t').unwrap().1);
    let values = hex.map(|hex| data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap()).collect();
    let source = crate::model::schema::SchemaSource {
        text: file("schema.avsc"),
        ..crate::model::schema::SchemaSource::default()
    };
    let verdict = SchemaVerdict::Known { kind: "AVRO".into(), source };
    (RecordReader::new(Decoder::new(&rules).unwrap(), true), values, verdict)
}

#[test]
fn records_are_read_again_once_their_schema_is_known() {
    let (mut reader, values, verdict) = avro();
    let (seven, nine) = (SchemaId::Number(7), SchemaId::Number(9));
    let of_nine: Vec<u8> = [&[0, 0, 0, 0, 9][..], &values[1][5..]].concat();
    let header = vec![("__value_schema_id".to_owned(), Some(of_nine[..5].to_vec()))];
    let bare = &values[2][5..];
    let mut batch = Batch::default();
    let mut read = |reader: &mut RecordReader, offset, value: &[u8], headers: &Headers| {
        let record = Record {
            offset: Offset(offset),
            key: Some(b"van-1"),
            value: Some(value),
            headers: headers.clone(),
            ..Record::default()
        };
        assert!(reader.read(&record, &mut batch).is_none());
        (batch.needs_schema(), batch.headers.len())
    };
    assert_eq!(read(&mut reader, 0, &values[0], &Headers::new()), (Some(seven), 0));
    reader.add_schema(nine, &verdict);
    assert_eq!(read(&mut reader, 1, &of_nine, &Headers::new()), (Some(seven), 0));
    assert_eq!(read(&mut reader, 2, bare, &header), (Some(seven), 1));
    assert_eq!(read(&mut reader, 3, &values[2][..30], &Headers::new()), (Some(seven), 1));
    let before = batch.memory();
    // What one reader learns, the others know.
    reader.fork().add_schema(seven, &verdict);
    reader.read_again(&mut batch, 0);
    assert_eq!(batch.needs_schema(), None);
    assert_eq!(reasons(&batch), [None, None, None, Some(DeadReason::BadRecord)]);
    let offsets: Vec<_> = batch.entries.iter().map(|entry| entry.offset.get()).collect();
    assert_eq!((offsets, batch.next_offset), (vec![0, 1, 2, 3], Some(Offset(4))));
    assert_eq!(batch.raw(&batch.entries[3]), &values[2][..30], "the bytes are kept");
    assert_eq!((batch.key(&batch.entries[0]), batch.headers.len()), (Some(&b"van-1"[..]), 1));
    assert!(batch.memory() < 2 * before + 1000);
}

#[test]
fn a_record_without_a_usable_schema_is_a_dead_letter() {
    let (mut reader, values, verdict) = avro();
    reader.add_schema(SchemaId::Number(7), &SchemaVerdict::Unknown);
    // The first verdict stands.
    reader.add_schema(SchemaId::Number(7), &verdict);
    let wrong = SchemaVerdict::Known {
        kind: "PROTOBUF".into(),
        source: crate::model::schema::SchemaSource::default(),
    };
    reader.add_schema(SchemaId::Number(8), &wrong);
    let of_eight: Vec<u8> = [&[0, 0, 0, 0, 8][..], &values[0][5..]].concat();
    for (value, why) in [
        (&values[0][..], "the registry had no schema 7"),
        (&of_eight, "schema 8 cannot be used: it is of type PROTOBUF, and --decode is avro"),
        (b"{\"device_id\":\"van-1\"}", "does not begin with the id of a schema"),
        (b"", "does not begin with the id of a schema"),
    ] {
        let mut batch = Batch::default();
        let record = Record { key: Some(b"van-1"), value: Some(value), ..Record::default() };
        reader.read(&record, &mut batch);
        let error = batch.entries[0].content.as_ref().unwrap_err().error().unwrap();
        assert_eq!(error.reason, DeadReason::BadSchema);
        assert!(error.message.contains(why) && error.needs_schema.is_none(), "{}", error.message);
        assert_eq!(batch.raw(&batch.entries[0]), value);
    }
}

/// Device of each sample, or the reason of its dead letter.
fn devices(map: &str, key_is_device: bool, record: &Record<'_>) -> Vec<String> {
    let fields = crate::source::parse_map(map).unwrap();
    let decoder = Decoder::new(&Rules { fields, ..Rules::default() }).unwrap();
    let mut batch = Batch { origin: "fleet".into(), ..Batch::default() };
    RecordReader::new(decoder, key_is_device).read(record, &mut batch);
    let device = |entry: &Entry| match &entry.content {
        Ok(decoded) => batch.text(&decoded.device).to_owned(),
        Err(none) => none.error().map_or("none", |error| error.reason.name()).to_owned(),
    };
    batch.entries.iter().map(device).collect()
}

#[test]
fn a_map_reads_what_is_around_a_record() {
    let value = r#"{"time":"2026-11-20T21:38:00Z","lat":1,"lon":2}"#;
    let headers = vec![("X-Limit-D".to_owned(), Some(b"phone".to_vec()))];
    let record = Record { headers, ..record(Some("owntracks/fleet/van-1"), value) };
    for (map, device) in [
        ("device_id=@key", "owntracks/fleet/van-1"),
        ("device_id=@key/2", "van-1"),
        ("device_id=@header:x-limit-d", "phone"),
        ("device_id=@topic", "fleet"),
        ("device_id=id|@key/7|=spare", "spare"),
        ("device_id=@file", "missing_field"),
    ] {
        assert_eq!(devices(map, false, &record), [device], "{map}");
    }
    assert_eq!(devices("device_id=@key", true, &record), ["owntracks/fleet/van-1"]);
    assert_eq!(devices("device_id=@key/2", true, &record), ["key_mismatch"]);
}

#[test]
fn each_sample_of_a_record_has_to_match_its_key() {
    let value = r#"{"id":"a","s":[{"time":5000000000000,"lat":1,"lon":2},
                    {"id":"b","time":5000000000000,"lat":1,"lon":2}]}"#;
    let record = record(Some("a"), value);
    assert_eq!(devices("samples=s,device_id=id", true, &record), ["a", "key_mismatch"]);
    assert_eq!(devices("samples=s,device_id=id", false, &record), ["a", "b"]);
}

#[test]
fn a_part_of_the_key_is_no_device_where_the_whole_key_is() {
    for (map, is_valid) in
        [("device_id=@key", true), ("device_id=id|@key/1", false), ("driver=@key/1", true)]
    {
        let fields = crate::source::parse_map(map).unwrap();
        let mut rules = Rules { fields, ..Rules::default() };
        let error = Decoder::check_topic_rules(&rules).err().map(|error| error.to_string());
        assert_eq!(error.is_none(), is_valid, "{map}");
        assert!(error.is_none_or(|error| error.contains("pass --key any")), "{map}");
        rules.key = "any".into();
        assert!(Decoder::check_topic_rules(&rules).is_ok(), "{map}");
        rules.fields.insert("lat".into(), "@lat".into());
        let error = Decoder::check_topic_rules(&rules).unwrap_err().to_string();
        assert!(error.contains("lat=`@lat` is not a source"), "{error}");
    }
}
