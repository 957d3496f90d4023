//! Trips as flat records with a schema, for consumers that keep a table.
//!
//! | module | content |
//! |---|---|
//! | `json` | JSON with its schema, as Kafka Connect reads it |
//! | `avro` | Avro, by a schema of a registry |

mod avro;
mod json;

pub(crate) use self::avro::AVRO_SCHEMA;
use super::fields::FlatTrip;
use super::{TripJson, ViewError};
use crate::codec::trip_row::TripRow;

/// The encoding of a value of the table topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// JSON with its schema: `{schema, payload}`.
    Json,
    /// Avro after the id of its schema, as clients of a Confluent-compatible registry write it.
    Avro {
        /// The id that the registry gave to [`AVRO_SCHEMA`].
        schema_id: u32,
    },
}

impl TableFormat {
    /// The trip of a row, without its path. If that is longer than `max_bytes`, the ids that merges
    /// retired are left out: `absorbed` is null.
    ///
    /// # Errors
    /// An id of the trip has no text form.
    pub fn encode(self, row: &TripRow, max_bytes: usize) -> Result<Vec<u8>, ViewError> {
        let trip = TripJson::from_row(row)?;
        let mut trip = FlatTrip::new(row, &trip);
        let whole = self.encode_trip(&trip);
        if whole.len() <= max_bytes {
            return Ok(whole);
        }
        trip.absorbed = None;
        Ok(self.encode_trip(&trip))
    }

    fn encode_trip(self, trip: &FlatTrip<'_>) -> Vec<u8> {
        match self {
            Self::Json => json::encode(trip),
            Self::Avro { schema_id } => avro::encode(trip, schema_id),
        }
    }
}

#[cfg(test)]
mod tests;
