//! JSON with its schema, as the `JsonConverter` of Kafka Connect reads it.

use std::sync::LazyLock;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::TableTrip;
use super::fields::{FIELDS, Field, Kind};

/// Name of the schema.
const NAME: &str = "tstar.Trip";

/// The type that Connect gives to times: milliseconds since 1970.
const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";

static SCHEMA: LazyLock<String> = LazyLock::new(|| {
    let fields: Vec<_> = FIELDS.iter().map(|(name, field)| schema_of(name, field)).collect();
    json!({"type": "struct", "name": NAME, "version": 1, "optional": false, "fields": fields})
        .to_string()
});

fn schema_of(name: &str, field: &Field) -> Value {
    let kind = match field.kind() {
        Kind::Text => "string",
        Kind::Double => "double",
        Kind::Int32 => "int32",
        Kind::Int64 | Kind::Time => "int64",
    };
    let mut schema = json!({"field": name, "type": kind, "optional": field.is_optional()});
    if field.kind() == Kind::Time {
        (schema["name"], schema["version"]) = (TIMESTAMP.into(), 1.into());
    }
    schema
}

/// The values of the fields.
struct Payload<'a>(&'a TableTrip<'a>);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(FIELDS.iter().map(|(name, field)| (name, field.read(self.0))))
    }
}

/// A trip with the schema.
pub(super) fn encode(trip: &TableTrip<'_>) -> Vec<u8> {
    let payload = serde_json::to_string(&Payload(trip)).expect("a trip is plain data");
    format!(r#"{{"schema":{},"payload":{payload}}}"#, *SCHEMA).into_bytes()
}
