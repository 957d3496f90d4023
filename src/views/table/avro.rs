//! Avro, by a schema of a registry.
//!
//! The encoder is our own: a flat record takes a few lines, and a library some twenty packages.

use std::sync::LazyLock;

use prost::encoding::encode_varint;
use serde_json::{Value as Json, json};

use crate::views::fields::{Column, FlatTrip, Kind, Value, columns};

/// The schema of values, as it is registered.
pub(crate) static AVRO_SCHEMA: LazyLock<String> = LazyLock::new(|| {
    let fields: Vec<_> = columns().map(schema_of).collect();
    let doc = "A trip of tstar. Times are UTC; units are in docs/data-out.md.";
    json!({"type": "record", "name": "Trip", "namespace": "tstar", "doc": doc, "fields": fields})
        .to_string()
});

fn schema_of(column: &Column) -> Json {
    let kind = match column.kind {
        Kind::Text | Kind::Ids => json!("string"),
        Kind::Double | Kind::Edge => json!("double"),
        Kind::Int32 => json!("int"),
        Kind::Int64 => json!("long"),
        Kind::Time => json!({"type": "long", "logicalType": "timestamp-millis"}),
    };
    match column.is_optional {
        true => json!({"name": column.name, "type": ["null", kind], "default": null}),
        false => json!({"name": column.name, "type": kind}),
    }
}

/// The id of the schema, framed, and a trip.
pub(super) fn encode(trip: &FlatTrip<'_>, schema_id: u32) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(schema_id.to_be_bytes());
    for column in columns() {
        let value = (column.read)(trip);
        if column.is_optional {
            // The type within the union of null and another.
            write_long(&mut bytes, i64::from(value.is_some()));
        }
        match value {
            None => (),
            Some(Value::Text(text)) => {
                write_long(&mut bytes, i64::try_from(text.len()).expect("a text fits in memory"));
                bytes.extend(text.as_bytes());
            }
            Some(Value::Double(number)) => bytes.extend(number.to_le_bytes()),
            Some(Value::Int32(number)) => write_long(&mut bytes, number.into()),
            Some(Value::Int64(number)) => write_long(&mut bytes, number),
        }
    }
    bytes
}

/// An `int` or a `long`: the sign in the lowest bit, in groups of seven bits.
fn write_long(bytes: &mut Vec<u8>, number: i64) {
    encode_varint(((number << 1) ^ (number >> 63)).cast_unsigned(), bytes);
}
