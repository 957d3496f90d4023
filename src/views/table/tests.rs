use serde_json::{Value, json};

use super::*;
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::{SegmentRules, Timeline};
use crate::timeline::{LegFilter, RawSample, Sample};
use crate::views::fields::columns;

const AVRO: TableFormat = TableFormat::Avro { schema_id: 0x0102_0304 };

/// Two trips of a second each, which the sample between them joins.
fn merged() -> TripRow {
    let mut timeline = Timeline::in_memory();
    let limits = SegmentRules { max_gap_ms: 1000, ..SegmentRules::default() };
    for (version, second) in (1..).zip([10, 12, 11]) {
        let raw = RawSample { time_ms: DeviceTime(second * 1000), ..RawSample::default() };
        let sample = Sample::quantised(&raw).unwrap();
        timeline.absorb(&limits, Sample { version: Version(version * 2), ..sample }, None);
    }
    TripRow::from_segment("truck-1", timeline.segments().next().unwrap(), LegFilter::default())
}

fn json_record(row: &TripRow, max_bytes: usize) -> Value {
    serde_json::from_slice(&TableFormat::Json.encode(row, max_bytes).unwrap()).unwrap()
}

#[test]
fn a_record_has_the_columns_of_csv_and_values_of_the_types_of_its_schema() {
    let record = json_record(&merged(), usize::MAX);
    let fields = record["schema"]["fields"].as_array().unwrap();
    let names: Vec<_> = fields.iter().map(|field| field["field"].as_str().unwrap()).collect();
    assert!(columns().map(|column| column.name).eq(names.iter().copied()), "{names:?}");
    let payload = record["payload"].as_object().unwrap();
    assert_eq!(payload.len(), names.len());
    for field in fields {
        let (value, kind) = (&payload[field["field"].as_str().unwrap()], &field["type"]);
        let fits = match kind.as_str().unwrap() {
            "string" => value.is_string(),
            "double" => value.is_f64(),
            "int32" | "int64" => value.is_i64(),
            other => panic!("{other}"),
        };
        assert!(fits || value.is_null() && field["optional"] == true, "{field}: {value}");
    }
    let times: Vec<_> = fields.iter().filter(|field| !field["name"].is_null()).collect();
    assert_eq!(times.len(), 3);
    assert_eq!(payload["start_time"], 10_000);
    assert_eq!(payload["absorbed"], "truck-1~19700101T000012.000Z");
}

#[test]
fn a_record_that_would_be_too_long_names_no_retired_ids() {
    let row = merged();
    for format in [TableFormat::Json, AVRO] {
        let encode = |max_bytes| format.encode(&row, max_bytes).unwrap();
        let whole = encode(usize::MAX);
        assert_eq!(encode(whole.len()), whole);
        assert!(encode(whole.len() - 1).len() < whole.len());
    }
    let whole = TableFormat::Json.encode(&row, usize::MAX).unwrap().len();
    assert!(json_record(&row, whole - 1)["payload"]["absorbed"].is_null());
}

#[test]
fn an_avro_record_begins_with_the_id_of_its_schema() {
    let value = AVRO.encode(&merged(), usize::MAX).unwrap();
    let id = b"truck-1~19700101T000010.000Z";
    let length = 2 * u8::try_from(id.len()).unwrap();
    assert!(value.starts_with(&[&[0, 1, 2, 3, 4, length][..], id].concat()), "{value:?}");
    let schema: Value = serde_json::from_str(&AVRO_SCHEMA).unwrap();
    let field = |name| schema["fields"].as_array().unwrap().iter().find(|it| it["name"] == name);
    assert_eq!(field("samples").unwrap()["type"], "int");
    let absent = json!({"name": "driver", "type": ["null", "string"], "default": null});
    assert_eq!(*field("driver").unwrap(), absent);
}
