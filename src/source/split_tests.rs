use std::path::Path;

use super::*;
use crate::model::reason::DropReason;
use crate::model::rules::{Rules, SpeedUnit, TimeUnit};
use crate::model::schema::{Encoding, SchemaSource};
use crate::source::parse_map;

fn decoder(map: &str, change: impl FnOnce(&mut Rules)) -> Decoder {
    let mut rules = Rules::default();
    if !map.is_empty() {
        rules.fields = parse_map(map).unwrap();
    }
    change(&mut rules);
    Decoder::new(&rules).unwrap()
}

fn split(decoder: &Decoder, context: RecordContext<'_>, value: &str) -> Batch {
    split_bytes(decoder, context, value.as_bytes())
}

fn split_bytes(decoder: &Decoder, context: RecordContext<'_>, value: &[u8]) -> Batch {
    let mut batch = Batch::default();
    let position = RecordPosition { offset: Offset(7), ..RecordPosition::default() };
    let json = RawJson { value, context, schema_id: None, check: &|_| Ok(()) };
    decoder.split(&json, &position, &mut batch);
    batch
}

/// What became of each entry: device and latitude, or a word.
fn outcomes(map: &str, value: &str) -> Vec<String> {
    let batch = split(&decoder(map, |_| ()), RecordContext::default(), value);
    shown(&batch)
}

fn shown(batch: &Batch) -> Vec<String> {
    let show = |entry: &Entry| match &entry.content {
        Ok(it) => format!("{} {}", batch.text(&it.device), it.sample.lat_e7 / 10_000_000),
        Err(NoSample::Skipped(count)) => format!("skipped {count}"),
        Err(NoSample::Dropped(reason, count)) => format!("{} {count}", reason.name()),
        Err(NoSample::Dead(error)) => format!("{}: {}", error.reason.name(), error.message),
    };
    batch.entries.iter().map(show).collect()
}

#[test]
fn values_are_looked_up_in_the_sample_then_around_it() {
    let map = "samples=/data/*/gps,device_id=/id,lat=/lat,time=/t,driver=/who";
    let record = r#"{"id":"top","who":"ada","t":1795158000000,"data":[
        {"id":"one","gps":[{"lat":1,"lon":2},{"lat":2,"lon":2,"id":"own"}]},
        {"gps":[{"lat":3,"lon":2}]},
        {"id":"none","gps":[]},
        {"id":"null","gps":null}]}"#;
    let batch = split(&decoder(map, |_| ()), RecordContext::default(), record);
    let missing = "missing_field: there is no `/data/*/gps`, the array of the samples";
    assert_eq!(shown(&batch), ["one 1", "own 2", "top 3", missing]);
    let drivers = batch.entries.iter().filter_map(|it| it.content.as_ref().ok()?.driver.clone());
    assert!(drivers.clone().count() == 3 && drivers.into_iter().all(|it| batch.text(&it) == "ada"));
    let elements: Vec<_> = batch.entries.iter().map(|entry| entry.element.unwrap()).collect();
    assert_eq!(elements, [0, 1, 2, 3]);
    let array = &batch.arrays[&Offset(7)];
    assert!(array.is_needed, "an element alone has no device");
    assert_eq!(batch.bytes(&array.value), record.as_bytes());
    assert_eq!(batch.raw(&batch.entries[0]), br#"{"lat":1,"lon":2}"#);
}

#[test]
fn samples_have_alternatives() {
    let map = "samples=/data|/result/data|/,device_id=/d,time=/t";
    let sample = |lat: u8| format!(r#"{{"d":"a","t":1795158000000,"lat":{lat},"lon":2}}"#);
    let (one, two) = (sample(1), sample(2));
    for (record, expected) in [
        (format!(r#"{{"data":[{one},{two}]}}"#), &["a 1", "a 2"][..]),
        (format!(r#"{{"result":{{"data":[{two}]}}}}"#), &["a 2"]),
        (format!(r#"{{"data":null,"result":{{"data":[{two}]}}}}"#), &["a 2"]),
        (one.clone(), &["a 1"]),
        (format!("[{one},{{\"data\":[{two}]}}]"), &["a 1", "a 2"]),
        (r#"{"data":[]}"#.into(), &[]),
        (
            r#"{"data":5}"#.into(),
            &["bad_type: the samples at `/data|/result/data|/` are not an array"],
        ),
    ] {
        assert_eq!(outcomes(map, &record), expected, "{record}");
    }
    let missing = "missing_field: there is no `/data|/b`, the array of the samples";
    assert_eq!(outcomes("samples=/data|/b", &one), [missing]);
}

#[test]
fn a_record_without_samples_moves_the_position() {
    for (map, record) in [("", "[]"), ("samples=/s", r#"{"s":[]}"#)] {
        let batch = split(&decoder(map, |_| ()), RecordContext::default(), record);
        assert_eq!((batch.entries.len(), batch.next_offset), (0, Some(Offset(8))), "{record}");
    }
}

#[test]
fn conditions_decide_what_is_read() {
    let map = "device_id=/d,time=/t,lat=/p/lat,lon=/p/lon,when=/type=a;b&/p,valid=/p/ok";
    let sample = |type_: &str, more: &str| {
        format!(r#"{{"type":{type_},"d":"x","t":1795158000000,"p":{{"lat":1,"lon":2{more}}}}}"#)
    };
    for (record, expected) in [
        (sample(r#""a""#, ""), "x 1"),
        (sample(r#""b""#, r#","ok":true"#), "x 1"),
        (sample(r#""b""#, r#","ok":1"#), "x 1"),
        (sample(r#""b""#, r#","ok":false"#), "bad_fix 1"),
        (sample(r#""c""#, r#","ok":false"#), "skipped 1"),
        (sample("5", ""), "skipped 1"),
        (sample("null", ""), "skipped 1"),
        (r#"{"type":"a","p":null}"#.into(), "skipped 1"),
        (r#"{"type":"a"}"#.into(), "skipped 1"),
        (r#"{}"#.into(), "skipped 1"),
        (
            sample(r#""a""#, r#","ok":"maybe""#),
            "bad_type: valid is the text `maybe`; it needs true, false, on, off, 1 or 0",
        ),
    ] {
        assert_eq!(outcomes(map, &record), [expected], "{record}");
    }
    assert_eq!(outcomes("samples=/s,when=/k=v", r#"{"k":"other"}"#), ["skipped 1"]);
    let adjacent = r#"{"s":[{"k":1},{"k":2},5]}"#;
    let read = outcomes("samples=/s,when=/k=v", adjacent);
    assert_eq!(read.len(), 2, "{read:?}");
    assert!(read[0] == "skipped 2" && read[1].starts_with("bad_json"), "{read:?}");
    assert_eq!(DropReason::BadFix.name(), "bad_fix");
}

#[test]
fn negated_conditions_and_parts_of_texts_are_read() {
    let plain = r#""lat":1,"lon":2,"time":1800000000000"#;
    let read = |map: &str, more: &str| outcomes(map, &format!("{{{plain},{more}}}"));
    let map = "when=/device&!/event";
    assert_eq!(read(map, r#""device":"a""#), ["a 1"]);
    assert_eq!(read(map, r#""device":"a","event":null"#), ["a 1"]);
    assert_eq!(read(map, r#""device":"a","event":{}"#), ["skipped 1"]);
    let map = "when=/Type|/type=gps,device_id=/topic/{2}|tid";
    for (more, outcome) in [
        (r#""type":"gps","topic":"owntracks/fleet/van-1","tid":"x""#, "van-1 1"),
        (r#""type":"gps","topic":"owntracks/fleet","tid":"x""#, "x 1"),
        (r#""type":"gps","topic":17,"tid":"x""#, "x 1"),
        (r#""Type":"gps","type":"x","tid":"x""#, "x 1"),
        (r#""Type":"x","type":"gps","tid":"x""#, "skipped 1"),
    ] {
        assert_eq!(read(map, more), [outcome], "{more}");
    }
}

#[test]
fn json_inside_a_text_is_read() {
    let map = "open=/payload,device_id=/client,time=/payload/t,lat=/payload/lat,lon=/payload/lon";
    let record = |payload: &str| {
        let payload = serde_json::to_string(payload).unwrap();
        format!(r#"{{"client":"c","payload":{payload}}}"#)
    };
    let read = outcomes(map, &record(r#"{"t":1795158000000,"lat":1,"lon":2}"#));
    assert_eq!(read, ["c 1"]);
    let read = outcomes(map, &record("{"));
    assert!(read[0].starts_with("bad_json: the text `/payload` is not JSON"), "{read:?}");
    let deep = record(&"[".repeat(500));
    assert!(outcomes(map, &deep)[0].contains("nested deeper"), "{:?}", outcomes(map, &deep));
    // Not a text: it is read as it is.
    let plain = r#"{"client":"c","payload":{"t":1795158000000,"lat":1,"lon":2}}"#;
    assert_eq!(outcomes(map, plain), ["c 1"]);
    let map = format!("{map},samples=/payload/s").replace("=/payload/l", "=/l");
    let map = map.replace("time=/payload/t", "time=/t");
    let list = record(r#"{"s":[{"t":1795158000000,"lat":1,"lon":2},{"lat":3}]}"#);
    let read = outcomes(&map, &list);
    assert!(read[0] == "c 1" && read[1].starts_with("missing_field"), "{read:?}");
}

#[test]
fn more_bad_elements_than_the_limit_are_counted() {
    let good = r#"{"d":"a","t":1795158000000,"lat":1,"lon":2}"#;
    let list = vec!["5"; MAX_BAD_ELEMENTS + 10].join(",");
    let map = "samples=/s,device_id=/d,time=/t";
    let record = format!(r#"{{"s":[{good},{list},{good}]}}"#);
    let batch = split(&decoder(map, |_| ()), RecordContext::default(), &record);
    assert_eq!(batch.entries.len(), MAX_BAD_ELEMENTS + 3);
    let more: u64 = batch.arrays[&Offset(7)].more.values().sum();
    assert_eq!(more, 9);
}

/// Map of each format of other systems, with its units.
const FORMATS: [(&str, &str, TimeUnit, SpeedUnit); 14] = [
    (
        "traccar/kafka.tsv",
        "device_id=/device/uniqueId,time=/position/fixTime,lat=/position/latitude,\
         lon=/position/longitude,speed=/position/speed,when=/position,valid=/position/valid",
        TimeUnit::Millis,
        SpeedUnit::Knots,
    ),
    (
        "traccar/kafka-epoch-ms.tsv",
        "device_id=/device/uniqueId,time=/position/fixTime,lat=/position/latitude,\
         lon=/position/longitude,speed=/position/speed,when=/position,valid=/position/valid",
        TimeUnit::Millis,
        SpeedUnit::Knots,
    ),
    (
        "traccar-client/bodies.ndjson",
        "time=/location/timestamp,lat=/location/coords/latitude,\
         lon=/location/coords/longitude,speed=/location/coords/speed",
        TimeUnit::Millis,
        SpeedUnit::MetresPerSecond,
    ),
    (
        "owntracks/mqtt-to-kafka.tsv",
        "device_id=@key/2,time=tst,speed=vel,when=/_type=location",
        TimeUnit::Seconds,
        SpeedUnit::KilometresPerHour,
    ),
    (
        "mqtt-bridge/emqx.tsv",
        "device_id=/clientid,open=/payload,time=/payload/tst,lat=/payload/lat,lon=/payload/lon,\
         speed=/payload/vel,when=/payload/_type=location",
        TimeUnit::Seconds,
        SpeedUnit::KilometresPerHour,
    ),
    (
        "samsara/kafka-asset-location.ndjson",
        "device_id=/asset/id,time=happenedAtTime,lat=/location/latitude,\
         lon=/location/longitude,speed=/speed/gpsSpeedMetersPerSecond",
        TimeUnit::Millis,
        SpeedUnit::MetresPerSecond,
    ),
    (
        "samsara/vehicles-stats-history.json",
        "samples=/data/*/gps,device_id=/id,speed=speedMilesPerHour",
        TimeUnit::Millis,
        SpeedUnit::MilesPerHour,
    ),
    (
        "hfp/mqtt-to-kafka.tsv",
        "device_id=/VP/veh,time=/VP/tst,lat=/VP/lat,lon=/VP/long,speed=/VP/spd,when=/VP",
        TimeUnit::Millis,
        SpeedUnit::MetresPerSecond,
    ),
    (
        "kafka-connect/json-with-schema.ndjson",
        "device_id=/payload/vehicle_id,time=/payload/ts,lat=/payload/lat,lon=/payload/lon,\
         speed=/payload/speed",
        TimeUnit::Millis,
        SpeedUnit::MetresPerSecond,
    ),
    (
        "nammayatri/kafka.tsv",
        "device_id=@key,time=ts",
        TimeUnit::Millis,
        SpeedUnit::MetresPerSecond,
    ),
    (
        "geotab/dig-records.json",
        "device_id=SerialNo,time=DateTime,lat=Latitude,lon=Longitude,speed=Speed,\
         when=Type=GpsRecord,valid=IsGpsValid",
        TimeUnit::Millis,
        SpeedUnit::KilometresPerHour,
    ),
    (
        "geotab/logrecord-feed.json",
        "samples=/result/data,device_id=/device/id,time=dateTime",
        TimeUnit::Millis,
        SpeedUnit::KilometresPerHour,
    ),
    (
        "mds/telemetry.json",
        "samples=/telemetry,lat=/location/lat,lon=/location/lng,speed=/location/speed",
        TimeUnit::Millis,
        SpeedUnit::MetresPerSecond,
    ),
    (
        "tesla/kafka-V-decoded.tsv",
        "device_id=vin,time=createdAt,speed=/data/[key=VehicleSpeed]/value/doubleValue,\
         lat=/data/[key=Location]/value/locationValue/latitude,\
         lon=/data/[key=Location]/value/locationValue/longitude",
        TimeUnit::Millis,
        SpeedUnit::MilesPerHour,
    ),
];

type Row = (String, i64, i32, i32, i32);

/// The samples of a file of `tests/data/formats`, sorted, with the VINs of `tesla` as vans.
fn samples(decoder: &Decoder, path: &str) -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
    let text = std::fs::read_to_string(folder.join(path)).unwrap();
    let records: Vec<&str> = match path.ends_with(".json") {
        true => vec![&text],
        false => text.lines().collect(),
    };
    let mut rows = Vec::new();
    for record in records {
        let (key, value) = match path.ends_with(".tsv") {
            true => record.split_once('\t').unwrap(),
            false => ("", record),
        };
        let context = RecordContext { key: Some(key.as_bytes()), ..RecordContext::default() };
        let batch = split(decoder, context, value);
        for (entry, shown) in batch.entries.iter().zip(shown(&batch)) {
            // Some have records of other kinds, too.
            if shown.starts_with("skipped") {
                continue;
            }
            let decoded = entry.content.as_ref().unwrap_or_else(|_| panic!("{path}: {shown}"));
            let device = batch.text(&decoded.device).replace("5YJ3E1EA0PF00000", "van-");
            let sample = &decoded.sample;
            // OwnTracks leaves out a speed of 0.
            let speed = sample.speed_cmps.get().unwrap_or(0);
            rows.push((device, sample.time_ms.ms(), sample.lat_e7, sample.lon_e7, speed));
        }
    }
    rows.sort();
    rows
}

#[test]
fn records_of_other_systems_are_read_by_a_map() {
    let canonical = samples(&decoder("", |_| ()), "canonical.ndjson");
    assert_eq!(canonical.len(), 15);
    for (path, map, time_unit, speed_unit) in FORMATS {
        let decoder = decoder(map, |rules| {
            rules.time_unit = time_unit;
            rules.speed_unit = speed_unit;
        });
        assert_eq!(samples(&decoder, path), canonical, "{path}");
    }
}

fn binary(decode: Encoding, schema: &str, map: &str) -> Decoder {
    let source = SchemaSource { text: schema.into(), references: Vec::new() };
    decoder(map, |rules| (rules.decode, rules.schema) = (decode, Some(source)))
}

#[test]
fn lists_in_avro_are_split_as_in_json() {
    let schema = r#"{"type":"record","name":"Trip","fields":[
        {"name":"van","type":"string"},
        {"name":"points","type":{"type":"array","items":{"type":"record","name":"Point","fields":[
            {"name":"t","type":"long"},{"name":"lat","type":"double"},{"name":"lon","type":"double"}
        ]}}}]}"#;
    let map = "samples=/points,device_id=/van,time=/t";
    let point = |lat: f64| {
        // The time is 1000000, in zigzag form.
        let time = [0x80, 0x89, 0x7a];
        [&time[..], &lat.to_le_bytes(), &2f64.to_le_bytes()].concat()
    };
    let block = |count: u8, points: &[Vec<u8>]| [vec![2 * count], points.concat()].concat();
    let points = block(3, &[point(1.0), point(95.0), point(3.0)]);
    let datum = [&b"\x0avan-1"[..], &points, &[0]].concat();
    let decoder = binary(Encoding::Avro, schema, map);
    let batch = split_bytes(&decoder, RecordContext::default(), &datum);
    let shown = shown(&batch);
    assert_eq!([&*shown[0], &*shown[2]], ["van-1 1", "van-1 3"]);
    assert!(shown[1].starts_with("out_of_range: lat is 95"), "{shown:?}");
    let array = &batch.arrays[&Offset(7)];
    assert!(array.is_needed, "a letter has the whole datum");
    assert_eq!(batch.bytes(&array.value), datum);
    // A datum that is cut off is one letter.
    let batch = split_bytes(&decoder, RecordContext::default(), &datum[..20]);
    let [only] = &batch.entries[..] else { panic!("{:?}", batch.entries) };
    assert_eq!((only.element, batch.raw(only)), (None, &datum[..20]));
    let Err(NoSample::Dead(error)) = &only.content else { panic!("{only:?}") };
    assert_eq!(error.reason, DeadReason::BadRecord);
}

#[test]
fn elements_of_a_message_are_found_by_a_member() {
    let schema = r#"syntax = "proto3";
        message Place { double latitude = 1; double longitude = 2; }
        message Datum { string key = 1; Place place = 2; }
        message Payload { string vin = 1; repeated Datum data = 2; int64 at = 3; }"#;
    let lat = "lat=/data/[key=Location]/place/latitude";
    let lon = "lon=/data/[key=Location]/place/longitude";
    let map = format!("device_id=/vin,time=/at,{lat},{lon}");
    let schema = SchemaSource { text: schema.into(), references: Vec::new() };
    let decoder = decoder(&map, |rules| {
        rules.decode = Encoding::Protobuf;
        (rules.schema, rules.message) = (Some(schema), Some("Payload".into()));
    });
    let place = [&[9][..], &52f64.to_le_bytes(), &[17], &13f64.to_le_bytes()].concat();
    let place = [&b"\x0a\x08Location\x12\x12"[..], &place].concat();
    let value = [&b"\x0a\x05van-1\x12\x07\x0a\x05Speed\x12\x1e"[..], &place, b"\x18\xc0\x84\x3d"];
    let batch = split_bytes(&decoder, RecordContext::default(), &value.concat());
    assert_eq!(shown(&batch), ["van-1 52"]);
}

#[test]
fn a_feed_may_be_protobuf_or_json() {
    let decoder = decoder("samples=/entity|/,device_id=/id,time=/t,lat=/lat,lon=/lon", |rules| {
        rules.decode = Encoding::GtfsRt;
    });
    let entity = r#"{"id":"bus","t":1000000,"lat":1,"lon":2}"#;
    for json in [entity.to_owned(), format!("\n {{\"entity\":[{entity}]}}"), format!("[{entity}]")]
    {
        assert_eq!(shown(&split(&decoder, RecordContext::default(), &json)), ["bus 1"], "{json}");
    }
    let context = RecordContext::default();
    let batch = split_bytes(&decoder, context, b"\x0a\x05\x0a\x032.0\x12\x02\x0a\x00");
    assert_eq!(shown(&batch).len(), 1, "an entity without a position");
    let shown = shown(&split(&decoder, RecordContext::default(), "x"));
    assert!(shown[0].starts_with("bad_record: "), "{shown:?}");
}

#[test]
fn a_binary_record_whose_json_is_huge_is_a_letter() {
    let schema = r#"{"type":"record","name":"R","fields":[{"name":"s","type":
        {"type":"array","items":{"type":"record","name":"Empty","fields":[]}}}]}"#;
    let decoder = binary(Encoding::Avro, schema, "samples=/s,device_id=/d");
    // Elements without a field have no bytes: this is 20 million of them.
    let datum = [0x80, 0xb4, 0x89, 0x13, 0];
    let batch = split_bytes(&decoder, RecordContext::default(), &datum);
    let Err(NoSample::Dead(error)) = &batch.entries[0].content else { panic!() };
    assert_eq!(error.reason, DeadReason::BadRecord);
}

#[test]
fn messages_show_the_names_of_a_map_without_control_characters() {
    for (map, record) in [
        ("lat=/p/\u{10}", r#"{"device":"a","ts":5,"lon":2}"#),
        ("device_id=@header:\u{1b}[0m", r#"{"lat":1,"ts":5,"lon":2}"#),
        ("samples=/\u{9b}", "{}"),
        ("samples=/\u{7}", r#"{"\u0007":1}"#),
        ("open=/\0,lat=/\0/lat", r#"{"\u0000":"{"}"#),
    ] {
        let batch = split(&decoder(map, |_| ()), RecordContext::default(), record);
        let error = batch.entries[0].content.as_ref().unwrap_err().error().unwrap().clone();
        assert!(!error.message.contains(char::is_control), "{:?}", error.message);
        assert!(error.message.contains("\\u{"), "{:?}", error.message);
    }
}

#[test]
fn a_record_with_too_many_samples_is_not_decoded_to_its_end() {
    let split = |map: &str, max, value: &str| {
        let mut batch = Batch::default();
        let position = RecordPosition::default();
        let context = RecordContext::default();
        let json =
            RawJson { value: value.as_bytes(), context, schema_id: None, check: &|_| Ok(()) };
        let split = decoder(map, |_| ()).split_at_most(max, &json, &position, &mut batch);
        (split, batch.entries.len())
    };
    let list = |one: &str, count: usize| vec![one; count].join(",");
    let sample = r#"{"device_id":"a","time":1,"lat":1,"lon":2}"#;
    for one in ["0", "{}", sample, "[0,0]", "[]"] {
        assert_eq!(split("", 9, &format!("[{}]", list(one, 9))), (Ok(9), 9), "{one}");
        // What follows the samples is not read.
        let (found, entries) = split("", 9, &format!("[{},x", list(one, 90)));
        assert_eq!((found, entries <= 9), (Err(TooManySamples), true), "{one}");
    }
    // Of the arrays of a map: samples, and elements without any.
    let map = "samples=/data/*/gps,device_id=/id";
    for (one, counted) in [(r#"{"gps":[0,0,0]}"#, 3), (r#"{"gps":[]}"#, 1), ("7", 1)] {
        let record = |count| format!(r#"{{"id":"a","data":[{}]}}"#, list(one, count));
        assert!(split(map, 3 * counted, &record(3)).0.is_ok(), "{one}");
        assert_eq!(split(map, 3 * counted, &record(4)).0, Err(TooManySamples), "{one}");
    }
    assert_eq!(split("", 0, sample).0, Err(TooManySamples));
    assert_eq!(split("", 1, sample), (Ok(1), 1));
    assert_eq!(split("", 3, "[0,0,0]"), (Ok(3), 3));
}
