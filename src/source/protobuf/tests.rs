use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::model::reason::DeadReason;
use crate::model::rules::{Rules, SpeedUnit};
use crate::model::schema::{Encoding, SchemaReference};
use crate::source::binary_fixture::{Sampled, decode, expected, path, records, text};
use crate::source::{Decoder, parse_map};
use crate::timeline::Sample;

const MAP: &str = "device_id=vehicle_id,time=ts_ms,lat=/position/lat,lon=/position/lon,\
                   speed=speed_kmh";

pub(super) fn source(text: &str) -> SchemaSource {
    SchemaSource { text: text.to_owned(), references: Vec::new() }
}

fn rules(map: &str) -> Rules {
    Rules {
        decode: Encoding::Protobuf,
        schema: Some(source(&text("protobuf/vehicle_position.proto"))),
        message: Some("VehiclePosition".to_owned()),
        fields: parse_map(map).unwrap(),
        speed_unit: SpeedUnit::KilometresPerHour,
        ..Rules::default()
    }
}

/// What the fields of a message are, as text; `names` are the names that the map knows.
pub(super) fn read(
    schema: &str,
    map: &str,
    bytes: &[u8],
    unit: TimeUnit,
) -> Result<String, String> {
    let fields = parse_map(map).unwrap();
    let names = fields.values().flat_map(|name| name.split('/')).map(str::to_owned).collect();
    let schema = ProtobufSchema::compile(&source(schema), &names)?;
    let root = crate::source::fields::root_of(map);
    let mut fields = Fields::default();
    schema
        .read((schema.named(Some("M"))?, bytes), unit, &root, &mut fields)
        .map_err(|error| error.message)?;
    Ok(fields.shown())
}

#[test]
fn the_reference_data_gives_the_reference_samples() {
    let own_names = MAP.to_owned();
    let json_names = MAP.replace("vehicle_id", "vehicleId").replace("ts_ms", "tsMs");
    for map in [own_names, json_names.replace("speed_kmh", "speedKmh")] {
        let decoder = Decoder::new(&rules(&map)).unwrap();
        let found = records("protobuf/bare.hex.tsv");
        let found = found.iter().map(|record| decode(&decoder, None, record).unwrap());
        // Without presence, false is what the schema says of a field that is absent.
        let if_on = |(device, driver, ignition, sample): Sampled| {
            let ignition = ignition.filter(|on| *on);
            (device, driver, ignition, Sample { ignition, ..sample })
        };
        let (found, expected) = (found.map(if_on), expected().into_iter().map(if_on));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{map}");
    }
}

#[test]
fn a_feed_of_gtfs_realtime_is_read() {
    let map = "device_id=/entity/1/vehicle/vehicle/id,time=/entity/1/vehicle/timestamp,\
               lat=/entity/1/vehicle/position/latitude,lon=/entity/1/vehicle/position/longitude,\
               speed=/entity/1/vehicle/position/speed,heading=/entity/1/vehicle/position/bearing";
    let decoder = Decoder::new(&Rules {
        decode: Encoding::GtfsRt,
        fields: parse_map(map).unwrap(),
        time_unit: TimeUnit::Seconds,
        ..Rules::default()
    });
    let feed = std::fs::read(path("gtfs-rt/vehicle-positions-1.pb")).unwrap();
    let (device, _, _, sample) = decode(&decoder.unwrap(), None, &feed).unwrap();
    let (expected_device, _, _, expected) = expected().swap_remove(1);
    assert_eq!(device, expected_device);
    // Positions are floats of 32 bits.
    let near = |a: f64, b: f64| (a - b).abs() < 4e-6;
    assert!(near(sample.lat(), expected.lat()) && near(sample.lon(), expected.lon()));
    let others = |sample: &Sample| (sample.time_ms, sample.speed_cmps, sample.heading_ddeg);
    assert_eq!(others(&sample), others(&expected));
}

#[test]
fn records_of_tesla_are_read() {
    // Fields of the public schema that these records have, by their numbers.
    let schema = r#"syntax = "proto3"; import "google/protobuf/timestamp.proto";
        message M { repeated Datum data = 1; google.protobuf.Timestamp created_at = 2;
                    string vin = 3; bool is_resend = 4; }
        enum Field { Unknown = 0; VehicleSpeed = 4; Location = 21; GpsHeading = 23; }
        message Datum { Field key = 1; Value value = 2; }
        message LocationValue { double latitude = 1; double longitude = 2; }
        message Value { oneof value { string string_value = 1; double double_value = 5;
                        LocationValue location_value = 7; } }"#;
    let record = &records("tesla/kafka-V.hex.tsv")[0];
    let map = "device_id=vin,time=createdAt,lat=/data/0/value/locationValue/latitude,\
               lon=/data/0/value/location_value/longitude,driver=/data/0/key";
    let found = read(schema, map, record, TimeUnit::Seconds);
    // `locationValue` is among the names, so `location_value` is not offered.
    let expected = "device_id the text `5YJ3E1EA0PF000001`, time the text \
                    `2026-11-20T07:00:00.000Z`, lat 52.52, driver the text `Location`";
    assert_eq!(found, Ok(expected.to_owned()));
    let found = read(schema, "time=created_at", record, TimeUnit::Micros);
    assert_eq!(found, Ok("time 1795158000000000".to_owned()));
}

#[test]
fn every_kind_of_field_is_read() {
    let wrapped = "import \"google/protobuf/wrappers.proto\";";
    for (field, bytes, shown) in [
        ("double x", &[0x09, 0, 0, 0, 0, 0, 0, 0xf4, 0x3f][..], "1.25"),
        ("float x", &[0x0d, 0, 0, 0xc0, 0x3f], "1.5"),
        ("int32 x", &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "-1"),
        ("int64 x", &[8, 0x96, 1], "150"),
        ("uint32 x", &[8, 7], "7"),
        (
            "uint64 x",
            &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "18446744073709551615",
        ),
        ("sint32 x", &[8, 3], "-2"),
        ("sint64 x", &[8, 4], "2"),
        ("fixed32 x", &[0x0d, 0xff, 0xff, 0xff, 0xff], "4294967295"),
        ("sfixed32 x", &[0x0d, 0xff, 0xff, 0xff, 0xff], "-1"),
        ("fixed64 x", &[9, 1, 0, 0, 0, 0, 0, 0, 0], "1"),
        ("sfixed64 x", &[9, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "-2"),
        ("bool x", &[8, 1], "true"),
        ("string x", &[10, 1, b'a'], "the text `a`"),
        ("bytes x", &[10, 1, 0xff], "an array"),
        ("E x", &[8, 1], "the text `ONE`"),
        ("E x", &[8, 9], "9"),
        ("google.protobuf.DoubleValue x", &[10, 9, 9, 0, 0, 0, 0, 0, 0, 0xf4, 0x3f], "1.25"),
        ("google.protobuf.StringValue x", &[10, 0], "the text ``"),
        ("repeated int32 x", &[10, 2, 1, 2], "an array"),
        ("map<string, int32> x", &[10, 5, 10, 1, b'k', 16, 7], "an object"),
        ("int32 x", &[8, 1, 8, 2], "2"),
    ] {
        let schema = format!(
            "syntax = \"proto3\"; {wrapped} enum E {{ ZERO = 0; ONE = 1; }} message M {{ {field} = 1; }}"
        );
        let found = read(&schema, "driver=x", bytes, TimeUnit::Millis);
        assert_eq!(found, Ok(format!("driver {shown}")), "{field}");
        // A number that the schema lacks is skipped.
        let longer = [bytes, &[0x98, 6, 1]].concat();
        let found = read(&schema, "driver=x", &longer, TimeUnit::Millis);
        assert_eq!(found, Ok(format!("driver {shown}")), "{field}");
    }
}

#[test]
fn items_and_entries_are_found() {
    let schema = "syntax = \"proto3\"; message M { repeated int32 a = 1; repeated I i = 2; \
                  map<int32, I> m = 3; } message I { int32 x = 1; }";
    let list =
        |bytes: &[u8]| read(schema, "lat=/a/2,lon=/i/1/x,speed=/m/-1/x", bytes, TimeUnit::Millis);
    // Packed and not, between other fields.
    let bytes = [
        &[8, 1, 18, 2, 8, 5][..],
        &[10, 2, 2, 3],
        &[18, 2, 8, 6],
        &[26, 15, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 18, 2, 8, 7],
    ];
    assert_eq!(list(&bytes.concat()), Ok("lat 3, lon 6, speed 7".to_owned()));
    assert_eq!(list(&[]), Ok(String::new()));
}

#[test]
fn absent_values_follow_the_presence_of_the_field() {
    for (field, shown) in [
        ("int32 x", "driver 0"),
        ("string x", "driver the text ``"),
        ("E x", "driver the text `ZERO`"),
        ("repeated int32 x", "driver an array"),
        ("optional int32 x", ""),
        ("I x", ""),
    ] {
        let schema = format!(
            "syntax = \"proto3\"; enum E {{ ZERO = 0; }} message I {{}} message M {{ {field} = 1; }}"
        );
        let found = read(&schema, "driver=x", &[], TimeUnit::Millis);
        assert_eq!(found, Ok(shown.to_owned()), "{field}");
    }
    let old = "syntax = \"proto2\"; message M { optional int32 x = 1 [default = 7]; \
               optional group G = 2 { optional int32 y = 3; } }";
    assert_eq!(read(old, "driver=x", &[], TimeUnit::Millis), Ok(String::new()));
    let group = [0x13, 0x18, 5, 0x14];
    let found = read(old, "driver=/g/y", &group, TimeUnit::Millis);
    assert_eq!(found, Ok("driver 5".to_owned()));
}

#[test]
fn a_message_that_is_not_of_its_schema_is_a_bad_record() {
    let decoder = Decoder::new(&rules(MAP)).unwrap();
    let record = &records("protobuf/bare.hex.tsv")[0];
    let twice = [&record[..], &[26, 0]].concat();
    let groups = [0x0b].repeat(1000);
    for (bytes, why) in [
        (&record[..record.len() - 1], "3 bytes begins where 2 are left"),
        (&twice, "message field 3 occurs twice"),
        (&groups, "nested deeper than 127 levels"),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f][..], "4294967295 bytes begins where 0"),
        (&[0x08, 1], "field 1 is not a `vehicle_id` of the schema"),
        (&[0x0e, 1], "field 1 has wire type 6"),
        (&[0x00], "0 is not a tag"),
        (&[0x0c], "a group 1 ends that did not begin"),
        (&[0x0b, 0x14], "a group 2 ends in 1"),
        (&[0x0a, 1, 0xff], "byte 0 of a text is not UTF-8"),
        (&[0xff; 11], "a number has more than 64 bits"),
        (b"{\"device_id\":1}", "a message `fleet.VehiclePosition`"),
    ] {
        let error = decode(&decoder, None, bytes).unwrap_err();
        assert_eq!(error.reason, DeadReason::BadRecord, "{}", error.message);
        assert!(error.message.contains(why), "{why}: {}", error.message);
    }
}

#[test]
fn a_message_is_found_by_name_and_by_index() {
    let text = "syntax = \"proto3\"; package p; message A { map<string, B> m = 1; message B { message \
                C {} } message D {} } message E { message D {} }";
    let schema = ProtobufSchema::compile(&source(text), &BTreeSet::new()).unwrap();
    let name = |at: usize| &*schema.messages[at].name;
    for (indexes, full) in [
        (&[0][..], "p.A"),
        (&[0, 0], "p.A.B"),
        (&[0, 1], "p.A.D"),
        (&[0, 0, 0], "p.A.B.C"),
        (&[1], "p.E"),
        (&[1, 0], "p.E.D"),
    ] {
        assert_eq!(schema.at(indexes).map(name), Ok(full));
    }
    assert_eq!(schema.at(&[2]), Err("the schema has no message [2]".to_owned()));
    assert_eq!(schema.at(&[0, 0, 0, 0]), Err("the schema has no message [0, 0, 0, 0]".to_owned()));
    assert_eq!(schema.named(Some("p.A.B")).map(name), Ok("p.A.B"));
    assert_eq!(schema.named(Some("C")).map(name), Ok("p.A.B.C"));
    for (asked, why) in [
        (Some("D"), "several messages are named `D`"),
        (Some("X"), "the schema has no message `X`, only p.A, p.A.B"),
        (None, "choose a message with --message: p.A, "),
    ] {
        let problem = schema.named(asked).unwrap_err();
        assert!(problem.starts_with(why), "{problem}");
    }
}

#[test]
fn a_schema_that_is_not_valid_has_a_reason() {
    let nested = "message A {".repeat(100);
    for (text, why) in [
        ("message", "expected an identifier"),
        ("syntax = \"proto3\"; message M { X x = 1; }", "X"),
        ("import \"other.proto\";", "other.proto"),
        (&nested, "recursion limit"),
    ] {
        let problem = ProtobufSchema::compile(&source(text), &BTreeSet::new()).unwrap_err();
        assert!(problem.contains(why), "{problem}");
    }
    let text = "syntax = \"proto3\"; import \"b.proto\"; message M { B b = 1; }".to_owned();
    let reference = SchemaReference {
        name: "b.proto".to_owned(),
        text: "syntax = \"proto3\"; message B {}".to_owned(),
    };
    let source = SchemaSource { text, references: vec![reference] };
    assert!(ProtobufSchema::compile(&source, &BTreeSet::new()).is_ok());
}

proptest! {
    #[test]
    fn changed_bytes_are_decoded_or_refused(
        nth in 0..15_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in any::<prop::sample::Index>(),
    ) {
        static READ: LazyLock<(Decoder, Vec<Vec<u8>>)> = LazyLock::new(|| {
            (Decoder::new(&rules(MAP)).unwrap(), records("protobuf/bare.hex.tsv"))
        });
        let (decoder, data) = &*READ;
        let mut record = data[nth].clone();
        for (at, byte) in changes {
            let at = at.index(record.len());
            record[at] = byte;
        }
        record.truncate(length.index(record.len()) + 1);
        if let Err(error) = decode(decoder, None, &record) {
            prop_assert!(!error.message.is_empty() && error.needs_schema.is_none());
        }
    }
}
