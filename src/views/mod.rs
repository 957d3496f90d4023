//! Trips in the forms that others read. Pure but for the writer it is given.
//!
//! [`TripJson`] is the trip of the contract; every other form is made from the same values, so that
//! two forms never disagree. [`TripWriter`] streams: it holds one trip at a time.

pub mod event;
mod explain;
mod geo;
mod simplify;
mod trip_json;
mod writer;

pub use explain::{Absorbed, Explanation, LogPosition, Minted};
pub use geo::{Feature, Geometry};
pub use simplify::simplify;
pub(crate) use trip_json::text_id;
pub use trip_json::{Answer, Extras, LatLon, Match, PathJson, TripJson, is_open};
pub use writer::{Form, TripWriter};

use crate::identity::IdError;
use crate::store::StoreError;

/// A trip cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceError {
    /// Its id has no text form.
    #[error("trip of device `{device}` with t_star={t_star_ms} has no text id")]
    Id {
        /// Device id.
        device: String,
        /// Identity time, ms.
        t_star_ms: i64,
        /// Why.
        source: IdError,
    },
    /// Its path cannot be read.
    #[error("the path of trip `{id}` cannot be read")]
    Path {
        /// The trip.
        id: String,
        /// Why.
        source: StoreError,
    },
    /// The output is gone.
    #[error("cannot write the output")]
    Write(#[from] std::io::Error),
}
