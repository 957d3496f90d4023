//! Trips and events in output formats. Pure, except for the output that [`TripWriter`] writes to.
//!
//! [`TripJson`] is the trip of the contract. Every other format is made from the same values, so
//! that two formats never disagree. [`TripWriter`] streams: it holds one trip at a time.
//!
//! A new format needs a [`FormSpec`] in a file here, and a line in the list of formats below.

mod csv;
pub mod event;
mod explain;
mod fields;
mod form;
mod geo;
mod json;
mod moving;
mod parquet;
mod path_marks;
mod simplify;
pub mod table;
mod tag_json;
mod trip_json;
mod writer;
mod xml;

pub(crate) use explain::{Explanation, LogPosition};
pub(crate) use fields::{OWN_FIELDS, TRIP_FIELDS};
pub(crate) use form::{FormSpec, PathRule, enumerated};
pub use simplify::simplify;
pub use tag_json::trip_tags;
pub(crate) use tag_json::{TagJson, TagValues, TripTagJson, tag_values, tagged_id};
pub(crate) use trip_json::text_id;
pub use trip_json::{Answer, Detail, Extras, is_open};
pub(crate) use trip_json::{LatLon, Match, Silence, TripJson};
pub use writer::TripWriter;

use crate::codec::trip_row::RowError;
use crate::identity::IdError;
use crate::model::scalar::DeviceTime;

macro_rules! define_forms {
    ($($form:ident = $spec:path;)*) => {
        /// A machine-readable output format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Form {
            $(#[doc = stringify!($form)] $form,)*
        }

        impl Form {
            /// All formats.
            pub const ALL: [Self; [$(stringify!($form)),*].len()] = [$(Self::$form),*];

            /// The description of the format.
            #[must_use]
            pub fn spec(self) -> &'static FormSpec {
                match self {
                    $(Self::$form => &$spec,)*
                }
            }
        }
    };
}

// This list is what the commands, the HTTP API and its description know of the formats.
define_forms! {
    Ndjson = json::NDJSON;
    Json = json::JSON;
    Csv = csv::CSV;
    GeoJson = geo::GEOJSON;
    Gpx = xml::GPX;
    Kml = xml::KML;
    Kepler = geo::KEPLER;
    MfJson = moving::MF_JSON;
    Parquet = parquet::PARQUET;
}

/// A trip cannot be shown in an output format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// Its id has no text form.
    #[error("trip of device `{device}` with t_star={t_star_ms} has no text id")]
    Id {
        /// Device id.
        device: String,
        /// Identity time, ms.
        t_star_ms: DeviceTime,
        /// What is wrong with the id.
        source: IdError,
    },
    /// Its path cannot be read.
    #[error("the path of trip `{id}` cannot be read")]
    Path {
        /// Text id of the trip.
        id: String,
        /// What is wrong with the path.
        source: RowError,
    },
    /// The format cannot hold samples without a trip around them.
    #[error("a row of {0} cannot be a sample")]
    NoPoints(&'static str),
    /// A Parquet file cannot be encoded.
    #[error("cannot encode the Parquet file")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// The output cannot be written.
    #[error("cannot write the output")]
    Write(#[from] std::io::Error),
}
