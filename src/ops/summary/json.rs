//! Sums in the units of output.

use serde::Serialize;
use utoipa::ToSchema;

use super::{SpanSums, Sums};
use crate::model::units::seconds;

/// Calls a macro with the sums, in the order of output. An entry here is a field of JSON and a
/// column of tables and CSV.
macro_rules! sums {
    ($callback:ident) => {
        $callback! { sums,
            /// Number of trips that start in it.
            trips: u64 = sums.trips;
            /// Distance of trips, m, to 0.1.
            distance_m: f64 = tenths(sums.distance_dm);
            /// Duration of trips, s.
            duration_s: f64 = seconds(sums.duration_ms);
            /// How long trips move, s: those of which a sample has a speed.
            moving_s: f64 = seconds(sums.moving_ms);
            /// How long these stand, s.
            idle_s: f64 = seconds(sums.idle_ms);
            /// How long stops stand and the ignition is not off, s.
            standing_s: f64 = seconds(sums.standing_ms);
            /// How long the ignition is off, s.
            parked_s: f64 = seconds(sums.parked_ms);
        }
    };
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn tenths(value: i64) -> f64 {
    value as f64 / 10.0
}

macro_rules! define_sums {
    ($sums:ident, $($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        /// Sums over trips and stops.
        #[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
        pub(crate) struct SumsJson {
            $($(#[$doc])* $name: $type,)*
        }

        impl SumsJson {
            /// Sums in the units of output.
            pub(crate) fn new($sums: &Sums) -> Self {
                Self { $($name: $value,)* }
            }
        }

        /// The names of the columns of a row.
        pub(crate) const SUMMARY_COLUMNS: [&str; 1 + [$(stringify!($name)),*].len()] =
            ["key", $(stringify!($name)),*];

        impl SummaryRow {
            /// The texts of the columns; empty for a null key.
            pub(crate) fn cells(&self) -> [String; SUMMARY_COLUMNS.len()] {
                let key = self.key.clone().unwrap_or_default();
                [key, $(self.sums.$name.to_string()),*]
            }
        }
    };
}

sums!(define_sums);

/// The sums of a device, driver or day.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct SummaryRow {
    /// Device id, driver, or day; null: trips and stops without a driver.
    pub key: Option<String>,
    /// The sums.
    #[serde(flatten)]
    pub sums: SumsJson,
}

impl SpanSums {
    /// A row for each key, ordered by it.
    pub(crate) fn json(&self) -> Vec<SummaryRow> {
        let row = |(key, sums): (&Option<String>, &Sums)| SummaryRow {
            key: key.clone(),
            sums: SumsJson::new(sums),
        };
        self.rows.iter().map(row).collect()
    }
}
