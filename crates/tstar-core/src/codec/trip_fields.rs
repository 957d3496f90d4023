//! The fields of a trip on its way out: names, types, units and values, in one list for every
//! program.

use super::trip_row::TripRow;
use crate::model::units::seconds;
use crate::timeline::distance_dm;

/// Calls a macro with the list of fields, in the order of the contract. An entry here makes a field
/// of every output format, of the fields of lists, and of the schemas of all of them, of the
/// WebAssembly module, and of the tables of the Python package; `schema/` has the views of SQLite.
///
/// `doc, name: type in JSON, columns = value of a row`, where the value has its row, the zone of
/// its times, and a function that writes the text id of a time of the row. `LatLon { lat, lon }` is
/// the caller's. The columns of
/// - `[Kind]` and `[optional Kind]` are the field,
/// - `[time field of TripRow]` are ms since 1970,
/// - `[position]` are `_lat` and `_lon`,
/// - `[bbox]` are the four edges, in Parquet a group,
/// - `[ids]` are a text, separated by spaces, in Parquet a list.
#[macro_export]
#[doc(hidden)]
macro_rules! trip_fields {
    ($callback:ident) => {
        $callback! { (row, zone, text_id),
            /// Text id.
            id: String, [Text] = text_id(row, row.t_star_ms)?;
            /// Device id.
            device_id: String, [Text] = row.device_id.clone();
            /// `trip` or `stop`.
            #[schema(pattern = "^(trip|stop)$")]
            kind: String, [Text] = row.kind.name().to_owned();
            /// Identity time.
            #[schema(format = DateTime)]
            t_star: String, [time t_star_ms] = zone.text(row.t_star_ms);
            /// Time of the earliest sample.
            #[schema(format = DateTime)]
            start_time: String, [time start_ms] = zone.text(row.start_ms);
            /// Time of the latest sample.
            #[schema(format = DateTime)]
            end_time: String, [time end_ms] = zone.text(row.end_ms);
            /// Time from start to end, s.
            duration_s: f64, [Double] = row.duration_s();
            /// Part of the duration in which it moves, s; null if no sample has a speed.
            moving_s: Option<f64>, [optional Double] =
                row.moving_ms.map($crate::model::units::seconds);
            /// Part of the duration in which it is slower than `stop_speed` and the ignition is not
            /// off, s; null if no sample has a speed.
            idle_s: Option<f64>, [optional Double] = row.idle_ms.map($crate::model::units::seconds);
            /// Part of the duration in which the ignition is off, s.
            parked_s: f64, [Double] = $crate::model::units::seconds(row.parked_ms);
            /// Number of kept samples.
            samples: i32, [Int32] = row.samples;
            /// Length of the path without jumps, and without the drift of what stands, m, to 0.1.
            distance_m: f64, [Double] = row.shown_distance_m();
            /// Distance divided by the duration without the jumps, m/s, to 0.01; null if that is 0.
            avg_speed_mps: Option<f64>, [optional Double] = row.avg_speed_mps();
            /// Largest reported speed, m/s.
            max_speed_mps: Option<f64>, [optional Double] = row.max_speed_mps;
            /// Number of jumps: legs faster than `max_leg_speed`; null without that rule.
            jumps: Option<i32>, [optional Int32] = row.jumps;
            /// Driver named by the earliest sample that has one.
            driver: Option<String>, [optional Text] = row.driver.clone();
            /// Position of the earliest sample.
            start: LatLon, [position] = LatLon { lat: row.start_lat, lon: row.start_lon };
            /// Position of the latest sample.
            end: LatLon, [position] = LatLon { lat: row.end_lat, lon: row.end_lon };
            /// West, south, east, north, degrees.
            bbox: [f64; 4], [bbox] = [row.min_lon, row.min_lat, row.max_lon, row.max_lat];
            /// Text ids that merges retired, ordered by their time.
            absorbed: Vec<String>, [ids] =
                row.absorbed().map(|(at, _)| text_id(row, at)).collect::<Result<_, _>>()?;
            /// Version of the last change.
            version: i64, [Int64] = row.version.get();
        }
    };
}

pub use trip_fields;

impl TripRow {
    /// Time from start to end, s.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        seconds(self.end_ms - self.start_ms)
    }

    /// The distance as output has it, m, to 0.1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn shown_distance_m(&self) -> f64 {
        distance_dm(self.distance_m) as f64 / 10.0
    }

    /// The distance divided by the duration without the jumps, m/s, to 0.01; `None` if that is 0.
    #[must_use]
    pub fn avg_speed_mps(&self) -> Option<f64> {
        let counted_s = self.duration_s() - self.jump_s.unwrap_or(0.0);
        (counted_s > 0.0).then(|| (self.distance_m / counted_s * 100.0).round() / 100.0)
    }
}
