//! Properties of the decoders of records: field maps, presets, Avro and protobuf.

use std::sync::LazyLock;

use tstar::internals::model::preset::PRESETS;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::schema::{Encoding, SchemaId, SchemaSource, SchemaVerdict};
use tstar::internals::source::{
    Batch, Decoder, NoSample, RawJson, RecordContext, RecordPosition, ZONE_TABLES, parse_map,
};

use super::bodies::{check_fault, checked};

const AVRO: &str = include_str!("../data/formats/avro/schema.avsc");
const PROTOBUF: &str = include_str!("../data/formats/protobuf/vehicle_position.proto");

/// A schema with every type, of which a map can only reach some.
const AVRO_TYPES: &str = r#"{"type":"record","name":"R","fields":[
    {"name":"id","type":["null","string",
        {"type":"fixed","name":"U","size":16,"logicalType":"uuid"}]},
    {"name":"list","type":{"type":"array","items":["null","long",{"type":"map","values":"R"}]}},
    {"name":"kind","type":{"type":"enum","name":"E","symbols":["a","b"]}},
    {"name":"t","type":[{"type":"long","logicalType":"timestamp-micros"},"string",
        {"type":"long","logicalType":"local-timestamp-millis"}]},
    {"name":"lat","type":["int","float","double",
        {"type":"bytes","logicalType":"decimal","precision":9,"scale":6}]},
    {"name":"lon","type":{"type":"array","items":"double"}},
    {"name":"raw","type":"bytes"},{"name":"next","type":["null","R"]}]}"#;

/// The names of a map for a schema of the reference data, with its time and one more entry.
fn schema_rules(decode: Encoding, text: &str, map: &str) -> Rules {
    let schema = Some(SchemaSource { text: text.into(), references: Vec::new() });
    let message = (decode == Encoding::Protobuf).then(|| "VehiclePosition".into());
    let fields = parse_map(map).expect("the map is good");
    Rules { decode, schema, message, fields, ..Rules::default() }
}

fn with_ids(rules: Rules, kind: &str) -> Decoder {
    let source = rules.schema.clone().expect("the rules have a schema");
    let decoder = Decoder::new(&Rules { schema: None, message: None, ..rules });
    let decoder = decoder.expect("the rules are good");
    let known = SchemaVerdict::Known { kind: kind.into(), source };
    decoder.add_schema(SchemaId::Number(1), &known);
    decoder.add_schema(SchemaId::Number(2), &SchemaVerdict::Unknown);
    decoder
}

/// What a record is, as text, after checking it; an error if it is not a sample.
pub fn read(decoder: &Decoder, header: Option<&[u8]>, data: &[u8]) -> Result<String, String> {
    let (mut text, context) = ("before".to_owned(), RecordContext::default());
    match decoder.decode((header, data), &context, &mut text) {
        Ok(decoded) => Ok(format!("{:?}", checked(&decoded, &text))),
        Err(none) => {
            assert_eq!(text, "before", "a fault leaves no text: {data:?}");
            none.error().inspect(|error| check_fault(error));
            Err(format!("{none:?}"))
        }
    }
}

/// A datum of Avro: bare, and in the wire forms of a registry.
pub fn avro(data: &[u8]) -> bool {
    const MAP: &str =
        "device_id=vehicle_id,time=ts,lat=/position/lat,lon=/position/lon,speed=speed_kmh";
    const TYPES: &str = "device_id=id|@topic,time=t,lat=lat,lon=/lon/0,driver=kind";
    static DECODERS: LazyLock<[Decoder; 4]> = LazyLock::new(|| {
        // The second of each pair has a condition that always holds.
        [(AVRO, MAP, "vehicle_id"), (AVRO_TYPES, TYPES, "!raw=none")]
            .map(|(schema, map, when)| {
                [map.to_owned(), format!("{map},when={when}")].map(|map| {
                    let rules = schema_rules(Encoding::Avro, schema, &map);
                    Decoder::new(&rules).expect("the rules are good")
                })
            })
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .try_into()
            .expect("there are four")
    });
    static IDS: LazyLock<Decoder> =
        LazyLock::new(|| with_ids(schema_rules(Encoding::Avro, AVRO, MAP), "AVRO"));
    let [plain, conditional, types, other] = &*DECODERS;
    let found = read(plain, None, data);
    assert_eq!(found, read(conditional, None, data), "a condition changes the result: {data:?}");
    assert_eq!(read(types, None, data), read(other, None, data), "{data:?}");
    framed(&IDS, data, &found, &[0, 0, 0, 0, 1]);
    found.is_ok()
}

/// A message of protobuf: bare, in the wire forms of a registry, and a feed of GTFS-realtime.
pub fn protobuf(data: &[u8]) -> bool {
    const MAP: &str = "device_id=vehicle_id,time=ts_ms,lat=/position/lat,lon=/position/lon";
    const FEED: &str = "device_id=/entity/0/vehicle/vehicle/id,time=/entity/0/vehicle/timestamp,\
                        lat=/entity/0/vehicle/position/latitude,\
                        lon=/entity/0/vehicle/position/longitude";
    static BARE: LazyLock<Decoder> = LazyLock::new(|| {
        Decoder::new(&schema_rules(Encoding::Protobuf, PROTOBUF, MAP)).expect("the rules are good")
    });
    static IDS: LazyLock<Decoder> =
        LazyLock::new(|| with_ids(schema_rules(Encoding::Protobuf, PROTOBUF, MAP), "PROTOBUF"));
    static FEEDS: LazyLock<Decoder> = LazyLock::new(|| {
        let fields = parse_map(FEED).expect("the map is good");
        let rules = Rules { decode: Encoding::GtfsRt, fields, ..Rules::default() };
        Decoder::new(&rules).expect("the rules are good")
    });
    let found = read(&BARE, None, data);
    framed(&IDS, data, &found, &[0, 0, 0, 0, 1, 2, 2]);
    let feed = read(&FEEDS, None, data);
    found.is_ok() || feed.is_ok()
}

/// The same record behind the head of a known schema is the same; the bytes themselves as a framed
/// record, and as a header, are none or an error.
fn framed(ids: &Decoder, data: &[u8], found: &Result<String, String>, head: &[u8]) {
    let own = read(ids, None, &[head, data].concat());
    assert_eq!(own.is_ok(), found.is_ok(), "{data:?}");
    assert!(own.is_err() || own == *found, "{data:?}");
    for header in [None, Some(data)] {
        read(ids, header, data).ok();
    }
}

/// The text of a field map, and a record of JSON after its first line.
pub fn map(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let (map, record) = text.split_once('\n').unwrap_or((text, "{}"));
    let decoder = parse_map(map).map_err(|error| error.to_string()).and_then(|fields| {
        let rules = Rules { fields, ..Rules::default() };
        Decoder::new(&rules).map_err(|error| error.to_string())
    });
    match decoder {
        Ok(decoder) => split_alike(&decoder, map, record.as_bytes()),
        Err(message) => {
            assert!(!message.is_empty() && !message.chars().any(char::is_control), "{message:?}");
            false
        }
    }
}

/// A preset by its first byte, and a record.
pub fn preset(data: &[u8]) -> bool {
    static DECODERS: LazyLock<Vec<Decoder>> = LazyLock::new(|| {
        let decoder = |preset: &tstar::internals::model::preset::Preset| {
            let mut rules = Rules::default();
            preset.expand(&mut rules, ZONE_TABLES);
            Decoder::new(&rules).expect("the preset is good")
        };
        PRESETS.iter().map(decoder).collect()
    });
    let Some((first, record)) = data.split_first() else { return false };
    split_alike(&DECODERS[usize::from(*first) % DECODERS.len()], "", record)
}

/// Splits a record; and where it is an object, with a name that the field map lacks and only a
/// parser reads. Returns whether it has a sample.
fn split_alike(decoder: &Decoder, map: &str, record: &[u8]) -> bool {
    let first = split(decoder, record);
    if let Some(rest) = record.strip_prefix(b"{") {
        let is_empty = rest.trim_ascii_start().starts_with(b"}");
        let comma: &[u8] = if is_empty { b"" } else { b"," };
        let mut name = " nothing".to_owned();
        while map.contains(&name) {
            name.push('g');
        }
        let name = format!("{{\"\\u007e{name}\":0");
        let longer = [name.as_bytes(), comma, rest].concat();
        let parsed = split(decoder, &longer);
        assert_eq!(first, parsed, "a name that means nothing changes the result");
    }
    first.iter().any(Result::is_ok)
}

fn split(decoder: &Decoder, value: &[u8]) -> Vec<Result<String, String>> {
    let mut batch = Batch::default();
    let context = RecordContext {
        key: Some(b"a/b/c"),
        topic: Some("topic"),
        file: Some("van-1.json"),
        ..RecordContext::default()
    };
    let check = &|_: &str| Ok(());
    let raw = RawJson { value, context, schema_id: None, check };
    decoder.split(&raw, &RecordPosition::default(), &mut batch);
    let shown = |entry: &tstar::internals::source::Entry| match &entry.content {
        Ok(decoded) => Ok(format!("{:?}", checked(decoded, &batch.text))),
        Err(NoSample::Dead(error)) => {
            check_fault(error);
            Err(error.reason.to_string())
        }
        Err(none) => Err(format!("{none:?}")),
    };
    batch.entries.iter().map(shown).collect()
}
