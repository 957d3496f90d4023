//! JSON with its schema, as the `JsonConverter` of Kafka Connect reads it.

use std::sync::LazyLock;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::views::fields::{Column, FlatTrip, Kind, columns};

/// Name of the schema.
const NAME: &str = "tstar.Trip";

/// The type that Connect gives to times: milliseconds since 1970.
const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";

static SCHEMA: LazyLock<String> = LazyLock::new(|| {
    let fields: Vec<_> = columns().map(schema_of).collect();
    json!({"type": "struct", "name": NAME, "version": 1, "optional": false, "fields": fields})
        .to_string()
});

fn schema_of(column: &Column) -> Value {
    let kind = match column.kind {
        Kind::Text | Kind::Ids => "string",
        Kind::Double | Kind::Edge => "double",
        Kind::Int32 => "int32",
        Kind::Int64 | Kind::Time => "int64",
    };
    let mut schema = json!({"field": column.name, "type": kind, "optional": column.is_optional});
    if column.kind == Kind::Time {
        (schema["name"], schema["version"]) = (TIMESTAMP.into(), 1.into());
    }
    schema
}

/// The values of the fields.
struct Payload<'a>(&'a FlatTrip<'a>);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(columns().map(|column| (column.name, (column.read)(self.0))))
    }
}

/// A trip with the schema.
pub(super) fn encode(trip: &FlatTrip<'_>) -> Vec<u8> {
    let payload = serde_json::to_string(&Payload(trip)).expect("a trip is plain data");
    format!(r#"{{"schema":{},"payload":{payload}}}"#, *SCHEMA).into_bytes()
}
