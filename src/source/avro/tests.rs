use std::sync::LazyLock;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::model::reason::DeadReason;
use crate::model::rules::{Rules, SpeedUnit};
use crate::model::schema::{Encoding, SchemaSource};
use crate::source::binary_fixture::{decode, expected, records, text};
use crate::source::{Decoder, parse_map};

const MAP: &str =
    "device_id=vehicle_id,time=ts,lat=/position/lat,lon=/position/lon,speed=speed_kmh";

fn rules(schema: &str) -> Rules {
    let source = SchemaSource { text: schema.to_owned(), references: Vec::new() };
    let fields = parse_map(MAP).unwrap();
    let (decode, speed_unit) = (Encoding::Avro, SpeedUnit::KilometresPerHour);
    Rules { decode, schema: Some(source), fields, speed_unit, ..Rules::default() }
}

/// What the fields of a datum are, as text.
fn read(schema: &str, map: &str, datum: &[u8], unit: TimeUnit) -> Result<String, String> {
    let root = crate::source::fields::root_of(map);
    let schema = AvroSchema::parse(schema, &[], &root)?;
    let mut fields = Fields::default();
    schema.read(datum, unit, &root, &mut fields).map_err(|error| error.message)?;
    Ok(fields.shown())
}

#[test]
fn the_reference_data_gives_the_reference_samples() {
    let decoder = Decoder::new(&rules(&text("avro/schema.avsc"))).unwrap();
    let found = records("avro/bare.hex.tsv");
    let found: Vec<_> =
        found.iter().map(|record| decode(&decoder, None, record).unwrap()).collect();
    assert_eq!(found, expected());
}

#[test]
fn a_time_has_the_unit_of_its_type() {
    let millis = 1_795_210_680_123_i64;
    for (logical, value) in [("millis", millis), ("micros", millis * 1000 + 999)] {
        let schema = format!(
            r#"{{"type":"record","name":"R","fields":[{{"name":"t","type":
               {{"type":"long","logicalType":"timestamp-{logical}"}}}}]}}"#
        );
        let datum = long(value);
        for (unit, shown) in [
            (TimeUnit::Millis, "time 1795210680123"),
            (TimeUnit::Micros, "time 1795210680123"),
            (TimeUnit::Seconds, "time the text `2026-11-20T21:38:00.123Z`"),
        ] {
            let found = read(&schema, "time=t", &datum, unit).unwrap();
            assert!(found.starts_with(shown), "{logical} {unit:?}: {found}");
        }
        let local = schema.replace("timestamp", "local-timestamp");
        let found = read(&local, "time=t", &datum, TimeUnit::Millis).unwrap();
        assert_eq!(found, "time the text `2026-11-20T21:38:00.123`");
    }
}

#[test]
fn every_type_is_read_and_skipped() {
    let uuid = "000102030405060708090a0b0c0d0e0f";
    let uuid = data_encoding::HEXLOWER.decode(uuid.as_bytes()).unwrap();
    let fixed = |inner: &str| format!(r#"{{"type":"fixed","name":"F",{inner}}}"#);
    for (ty, value, shown) in [
        (r#""boolean""#.to_owned(), vec![1], "true"),
        (r#""int""#.to_owned(), long(-3), "-3"),
        (r#""float""#.to_owned(), 1.5_f32.to_le_bytes().to_vec(), "1.5"),
        (r#""double""#.to_owned(), 1.25_f64.to_le_bytes().to_vec(), "1.25"),
        (r#""bytes""#.to_owned(), vec![4, b'a', b'b'], "the text `ab`"),
        (r#""bytes""#.to_owned(), vec![2, 0xff], "an array"),
        (r#""string""#.to_owned(), vec![4, 0xc3, 0xbc], "the text `ü`"),
        (r#"["null","int"]"#.to_owned(), vec![2, 6], "3"),
        (r#"{"type":"enum","name":"E","symbols":["A","B"]}"#.to_owned(), vec![2], "the text `B`"),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}"#.to_owned(),
            vec![4, 0xff, 0x85],
            "-1.23",
        ),
        (fixed(r#""size":2,"logicalType":"decimal","precision":4"#), vec![1, 0], "256"),
        (fixed(r#""size":2"#), b"xy".to_vec(), "the text `xy`"),
        (
            fixed(r#""size":16,"logicalType":"uuid""#),
            uuid,
            "the text `00010203-0405-0607-0809-0a0b0c0d0e0f`",
        ),
        (r#"{"type":"array","items":"int"}"#.to_owned(), vec![4, 2, 4, 1, 2, 6, 0], "an array"),
        (r#"{"type":"map","values":"int"}"#.to_owned(), vec![2, 2, b'k', 4, 0], "an object"),
    ] {
        // The value is read once and skipped once; what follows shows that both took all of it.
        let schema = format!(
            r#"{{"type":"record","name":"R","fields":[{{"name":"a","type":{ty}}},
               {{"name":"b","type":{}}},{{"name":"c","type":"string"}}]}}"#,
            if ty.contains("\"name\"") {
                format!("\"{}\"", &ty[ty.find("name").unwrap() + 7..][..1])
            } else {
                ty.clone()
            }
        );
        let datum = [&value[..], &value, &[2, b'z']].concat();
        let found = read(&schema, "driver=a,device_id=c", &datum, TimeUnit::Millis);
        assert_eq!(found, Ok(format!("device_id the text `z`, driver {shown}")), "{schema}");
        let shorter = &datum[..datum.len() - 1];
        assert!(read(&schema, "driver=a,device_id=c", shorter, TimeUnit::Millis).is_err());
    }
}

#[test]
fn names_are_found_by_pointer_in_arrays_maps_and_namespaces() {
    let schema = r#"{"type":"record","name":"a.R","fields":[
        {"name":"list","type":{"type":"array","items":
            {"type":"record","name":"P","fields":[{"name":"lat","type":"int"}]}}},
        {"name":"map","type":{"type":"map","values":["null","P","a.P"]}}]}"#;
    // Two items in blocks of one, the second with its length; then an entry `k` of the third kind.
    let datum = [2, 10, 1, 2, 12, 0, 2, 2, b'k', 4, 14, 0];
    let map = "lat=/list/1/lat,lon=/map/k/lat,speed=/list/0/lat";
    let found = read(schema, map, &datum, TimeUnit::Millis);
    assert_eq!(found, Ok("lat 6, lon 7, speed 5".to_owned()));
}

#[test]
fn a_type_may_refer_to_itself() {
    let schema = r#"{"type":"record","name":"L","fields":[
        {"name":"next","type":["null","L"]},{"name":"x","type":"int"}]}"#;
    let found = read(schema, "lat=/next/next/x", &[2, 2, 0, 10, 12, 14], TimeUnit::Millis);
    assert_eq!(found, Ok("lat 5".to_owned()));
    let problem = read(schema, "lat=y", &[2; 1000], TimeUnit::Millis).unwrap_err();
    assert!(problem.contains("nested deeper than 127"), "{problem}");
}

#[test]
fn types_of_references_are_known() {
    let point = r#"{"type":"record","name":"fleet.Point","fields":[{"name":"lat","type":"int"}]}"#;
    let schema = r#"{"type":"record","name":"fleet.R","fields":[{"name":"p","type":"Point"}]}"#;
    assert!(AvroSchema::parse(schema, &[point], &Node::default()).is_ok());
    assert_eq!(
        AvroSchema::parse(schema, &[], &Node::default()).unwrap_err(),
        "the type `fleet.Point` is not defined"
    );
}

#[test]
fn a_schema_that_is_not_valid_has_a_reason() {
    for (schema, why) in [
        ("", "it is not JSON"),
        ("7", "`7` is not a type"),
        (r#""strin""#, "the type `strin` is not defined"),
        (r#"{"type":"record","name":"R"}"#, "a record has no `fields`"),
        (r#"{"type":"fixed","name":"F"}"#, "has no `size`"),
        (r#"{"type":"enum","name":"E","symbols":[1]}"#, "holds something other than texts"),
        (r#"{"type":"array"}"#, "has no `items`"),
        (r#"{"items":"int"}"#, "has no `type`"),
        (r#"[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":1}]"#, "twice"),
        (&"[".repeat(200), "it is not JSON: recursion limit"),
    ] {
        let problem = AvroSchema::parse(schema, &[], &Node::default()).unwrap_err();
        assert!(problem.contains(why), "{schema}: {problem}");
    }
}

#[test]
fn a_datum_that_is_not_of_its_schema_is_a_bad_record() {
    let decoder = Decoder::new(&rules(&text("avro/schema.avsc"))).unwrap();
    let datum = &records("avro/bare.hex.tsv")[0];
    let long_tail = [&datum[..], &[0]].concat();
    for (bytes, why) in [
        (&datum[..datum.len() - 1], "begins where 2 are left"),
        (&long_tail, "1 bytes follow it"),
        (b"", "they end within a number"),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "9223372036854775807 bytes begins where"),
        (b"\x01", "a length is -1"),
        (b"{\"device_id\":\"van-1\"}", "a length is -62"),
    ] {
        let error = decode(&decoder, None, bytes).unwrap_err();
        assert_eq!(error.reason, DeadReason::BadRecord);
        assert!(error.message.contains(why), "{}", error.message);
    }
}

#[test]
fn a_count_that_lies_ends_early() {
    let values = r#"{"type":"array","items":"null"}"#;
    let nested =
        (0..36).fold(String::from(r#"{"type":"record","name":"R","fields":[]}"#), |ty, n| {
            format!(
                r#"{{"type":"record","name":"R{n}","fields":[{{"name":"a","type":{ty}}},
               {{"name":"b","type":"{}"}}]}}"#,
                if n == 0 { "R".to_owned() } else { format!("R{}", n - 1) }
            )
        });
    let began = Instant::now();
    let many = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for (schema, datum) in [(values, &many[..]), (&nested, &[])] {
        let problem = read(schema, "lat=x", datum, TimeUnit::Millis).unwrap_err();
        assert!(problem.contains("more values than it has bytes"), "{problem}");
    }
    assert!(began.elapsed().as_secs() < 10);
}

fn long(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

proptest! {
    #[test]
    fn numbers_are_read_as_written(value: i64) {
        let written = long(value);
        let mut bytes = Bytes(&written);
        prop_assert_eq!(bytes.varint().map(crate::source::wire::unzigzag).unwrap(), value);
        prop_assert!(bytes.is_empty());
    }

    #[test]
    fn changed_bytes_are_decoded_or_refused(
        nth in 0..15_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in any::<prop::sample::Index>(),
    ) {
        static READ: LazyLock<(Decoder, Vec<Vec<u8>>)> = LazyLock::new(|| {
            let decoder = Decoder::new(&rules(&text("avro/schema.avsc"))).unwrap();
            (decoder, records("avro/bare.hex.tsv"))
        });
        let (decoder, data) = &*READ;
        let mut datum = data[nth].clone();
        for (at, byte) in changes {
            let at = at.index(datum.len());
            datum[at] = byte;
        }
        datum.truncate(length.index(datum.len()) + 1);
        let decoded = decode(decoder, None, &datum);
        if let Err(error) = decoded {
            prop_assert!(!error.message.is_empty() && error.needs_schema.is_none());
        }
    }
}

#[test]
fn what_a_schema_defines_is_bounded() {
    let list = |count: usize, item: &dyn Fn(usize) -> String| {
        (0..count).map(item).collect::<Vec<_>>().join(",")
    };
    let fixed = |at: usize| format!("{{\"type\":\"fixed\",\"name\":\"F{at}\",\"size\":1}}");
    let field = |at: usize| format!("{{\"name\":\"f{at}\",\"type\":\"int\"}}");
    let record = |name: &str, fields: &str| {
        format!("{{\"type\":\"record\",\"name\":\"{name}\",\"fields\":[{fields}]}}")
    };
    // Each holds the one before.
    let chain = |length: usize| {
        list(length, &|at| {
            let before = format!("{{\"name\":\"x\",\"type\":\"R{}\"}}", at.saturating_sub(1));
            record(&format!("R{at}"), if at == 0 { "" } else { &before })
        })
    };
    let symbols = list(20_001, &|at| format!("\"S{at}\""));
    let long = "a".repeat(256);
    for (schema, why) in [
        (format!("[{}]", list(2001, &fixed)), "more than 2000 types"),
        (record("R", &list(20_001, &field)), "more than 20000 fields"),
        (
            format!("{{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[{symbols}]}}"),
            "more than 20000 values of enums",
        ),
        (record(&long, ""), "a name has 256 bytes"),
        (record(&format!("{long}.R"), ""), "a name has 256 bytes"),
        (format!("[{}]", chain(129)), "deeper than 127 levels"),
    ] {
        let problem = AvroSchema::parse(&schema, &[], &Node::default()).unwrap_err();
        assert!(problem.contains(why), "{problem}");
    }
    assert!(AvroSchema::parse(&format!("[{}]", chain(100)), &[], &Node::default()).is_ok());
    let references = vec!["\"int\""; 101];
    let problem = AvroSchema::parse("\"int\"", &references, &Node::default()).unwrap_err();
    assert_eq!(problem, "it refers to more than 100 schemas");
}
