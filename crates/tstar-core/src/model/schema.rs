//! How records are encoded, and their schemas.

use serde::{Deserialize, Serialize};

/// How the values of records are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// JSON, or another text format that names its values.
    #[default]
    #[serde(rename = "json")]
    Json,
    /// Avro datums.
    #[serde(rename = "avro")]
    Avro,
    /// Protobuf messages.
    #[serde(rename = "protobuf")]
    Protobuf,
    /// Feed messages of GTFS-realtime.
    #[serde(rename = "gtfs-rt")]
    GtfsRt,
}

impl Encoding {
    /// The names in settings.
    pub const NAMES: [(&str, Self); 4] = [
        ("json", Self::Json),
        ("avro", Self::Avro),
        ("protobuf", Self::Protobuf),
        ("gtfs-rt", Self::GtfsRt),
    ];

    /// The name in settings and rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, encoding)| *encoding == self);
        named.expect("every encoding has a name").0
    }
}

/// The text of a schema, with all that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaSource {
    /// The schema: Avro as JSON, protobuf as .proto text.
    pub text: String,
    /// The schemas that it refers to, each after those that it refers to itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<SchemaReference>,
}

/// A schema that another one refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaReference {
    /// Its name where it is referred to: a type of Avro, a file of protobuf.
    pub name: String,
    /// Its text.
    pub text: String,
}
