//! What a registry says of the id of a schema.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::scalar::Offset;
pub use tstar_core::model::schema::{Encoding, SchemaReference, SchemaSource};

/// The id of a schema in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SchemaId {
    /// A number that the registry counts.
    Number(u32),
    /// A hash of the schema.
    Guid(Uuid),
}

impl fmt::Display for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Guid(guid) => guid.hyphenated().fmt(f),
        }
    }
}

/// A text that is not a [`SchemaId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a schema")]
pub struct SchemaIdError(String);

/// Conversions for serde, by the text of a type.
macro_rules! convert_by_text {
    ($($type:ident)+) => {$(
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $type {
            type Error = SchemaIdError;

            fn try_from(text: String) -> Result<Self, SchemaIdError> {
                text.parse()
            }
        }
    )+};
}

convert_by_text!(SchemaId SchemaSubject);

impl FromStr for SchemaId {
    type Err = SchemaIdError;

    fn from_str(text: &str) -> Result<Self, SchemaIdError> {
        let number = text.parse().ok().map(Self::Number);
        let id = number.or_else(|| Uuid::parse_str(text).ok().map(Self::Guid));
        // One id has one text: it is a key.
        let id = id.filter(|id| id.to_string() == text);
        id.ok_or_else(|| SchemaIdError(text.to_owned()))
    }
}

/// The last offset of each partition at which an id was unknown; those before it were, too.
pub(crate) type UnknownUntil = BTreeMap<i32, Offset>;

/// What an entry of an epoch decides, beyond the entries before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SchemaSubject {
    /// The records of an id that are not decided yet, in every partition.
    Id(SchemaId),
    /// The records of a partition up to an offset, of all ids that have no verdict yet: the
    /// registry did not know them.
    Until(i32, Offset),
}

impl fmt::Display for SchemaSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Until(partition, offset) => write!(f, "{partition}:{offset}"),
        }
    }
}

impl FromStr for SchemaSubject {
    type Err = SchemaIdError;

    fn from_str(text: &str) -> Result<Self, SchemaIdError> {
        let Some((partition, offset)) = text.split_once(':') else {
            return text.parse().map(Self::Id);
        };
        let numbers = partition.parse().ok().zip(offset.parse().ok());
        let subject = numbers.map(|(partition, offset)| Self::Until(partition, Offset(offset)));
        let subject = subject.filter(|subject| subject.to_string() == text);
        subject.ok_or_else(|| SchemaIdError(text.to_owned()))
    }
}

/// What decides the records of an id: the first answer of a registry that knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaVerdict {
    /// The id has this schema.
    Known {
        /// `AVRO`, `PROTOBUF` or `JSON`.
        kind: String,
        /// The schema.
        #[serde(flatten)]
        source: SchemaSource,
    },
    /// The id has a schema by which no record can be read.
    Unusable {
        /// Why.
        problem: String,
    },
    /// The registry does not know the id. Decides only the records that were read until then.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_text() {
        let guid = "6f8d2b1e-7c3a-4e5f-9a0b-1c2d3e4f5a6b";
        for text in ["0", "7", "4294967295", guid] {
            assert_eq!(text.parse::<SchemaId>().map(|id| id.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "07", "+7", "-1", "4294967296", &guid.to_uppercase(), &guid[1..]] {
            assert!(text.parse::<SchemaId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_subject_has_one_text() {
        for (text, subject) in [
            ("7", SchemaSubject::Id(SchemaId::Number(7))),
            ("3:1500", SchemaSubject::Until(3, Offset(1500))),
        ] {
            assert_eq!(text.parse(), Ok(subject));
            assert_eq!(subject.to_string(), text);
        }
        for text in ["3:", ":1", "03:1", "3:1:2", "a:1"] {
            assert!(text.parse::<SchemaSubject>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_verdict_survives_a_round_trip() {
        let references = vec![SchemaReference { name: "a".into(), text: "b".into() }];
        let source = SchemaSource { text: "{}".into(), references };
        let known = SchemaVerdict::Known { kind: "AVRO".into(), source };
        for (verdict, json) in [
            (
                known,
                r#"{"known":{"kind":"AVRO","text":"{}","references":[{"name":"a","text":"b"}]}}"#,
            ),
            (SchemaVerdict::Unusable { problem: "x".into() }, r#"{"unusable":{"problem":"x"}}"#),
            (SchemaVerdict::Unknown, r#""unknown""#),
        ] {
            assert_eq!(serde_json::to_string(&verdict).unwrap(), json);
            assert_eq!(serde_json::from_str::<SchemaVerdict>(json).unwrap(), verdict);
        }
    }
}
