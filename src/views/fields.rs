//! The fields of a trip on its way out, from the list of `tstar-core`: JSON has them as they are;
//! CSV, Parquet and the table topic as flat columns.

use serde::Serialize;

use super::TripJson;
use super::form::PointView;
use super::trip_json::reading;
use crate::codec::trip_fields::trip_fields;
use crate::codec::trip_row::TripRow;
use crate::model::reading::readings;
use crate::model::scalar::DeviceTime;
use crate::model::zone::Zone;
use crate::timeline::{READINGS, ReadingKind};

/// What the columns of a trip are read from.
pub(super) struct FlatTrip<'a> {
    pub row: &'a TripRow,
    pub trip: &'a TripJson,
    /// The retired ids, separated by spaces; `None` if they are left out.
    pub absorbed: Option<String>,
}

impl<'a> FlatTrip<'a> {
    /// A trip with its retired ids.
    pub(crate) fn new(row: &'a TripRow, trip: &'a TripJson) -> Self {
        Self { row, trip, absorbed: Some(trip.absorbed.join(" ")) }
    }
}

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Milliseconds since 1970.
    Time,
    Double,
    Int32,
    Int64,
    /// A number: an edge of the bbox.
    Edge,
    /// A text: the retired ids.
    Ids,
}

/// The value of a column.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Double(f64),
    Int32(i32),
    /// Times as well, in ms since 1970.
    Int64(i64),
}

/// A column of flat formats.
pub(super) struct Column<R = ReadTrip> {
    pub name: &'static str,
    pub kind: Kind,
    pub is_optional: bool,
    pub read: R,
}

/// Reads the value of a column.
type ReadTrip = for<'a> fn(&'a FlatTrip<'_>) -> Option<Value<'a>>;

/// Reads the value of a column of samples.
pub(super) type ReadPoint = for<'a> fn(&'a PointView<'_>) -> Option<Value<'a>>;

impl<R> Column<R> {
    /// The text of a value of the column; times are RFC 3339 in a zone.
    pub(crate) fn text(&self, value: &Value<'_>, zone: Zone) -> String {
        match *value {
            Value::Text(text) => text.to_owned(),
            Value::Double(number) => number.to_string(),
            Value::Int32(number) => number.to_string(),
            Value::Int64(ms) if self.kind == Kind::Time => zone.text(DeviceTime(ms)),
            Value::Int64(number) => number.to_string(),
        }
    }
}

macro_rules! column {
    ($name:expr, $kind:ident, $is_optional:literal, $read:expr) => {
        Column { name: $name, kind: Kind::$kind, is_optional: $is_optional, read: $read }
    };
}

macro_rules! columns {
    ($name:ident, [Text]) => {
        [column!(stringify!($name), Text, false, |it| Some(Value::Text(&it.trip.$name)))]
    };
    ($name:ident, [optional Text]) => {
        [column!(stringify!($name), Text, true, |it| it.trip.$name.as_deref().map(Value::Text))]
    };
    ($name:ident, [time $of:ident]) => {
        [column!(stringify!($name), Time, false, |it| Some(Value::Int64(it.row.$of.ms())))]
    };
    ($name:ident, [optional $kind:ident]) => {
        [column!(stringify!($name), $kind, true, |it| it.trip.$name.map(Value::$kind))]
    };
    ($name:ident, [position]) => {
        columns!(Double, (concat!(stringify!($name), "_lat"), |it| it.trip.$name.lat),
            (concat!(stringify!($name), "_lon"), |it| it.trip.$name.lon))
    };
    ($name:ident, [bbox]) => {
        columns!(Edge, ("bbox_west", |it| it.trip.$name[0]), ("bbox_south", |it| it.trip.$name[1]),
            ("bbox_east", |it| it.trip.$name[2]), ("bbox_north", |it| it.trip.$name[3]))
    };
    ($name:ident, [ids]) => {
        [column!(stringify!($name), Ids, true, |it| it.absorbed.as_deref().map(Value::Text))]
    };
    ($name:ident, [$kind:ident]) => {
        [column!(stringify!($name), $kind, false, |it| Some(Value::$kind(it.trip.$name)))]
    };
    ($kind:ident, $(($name:expr, |$it:ident| $read:expr)),+) => {
        [$(column!($name, $kind, false, |$it| Some(Value::Double($read)))),+]
    };
}

macro_rules! define_columns {
    ($values:tt, $($(#[$meta:meta])* $name:ident: $type:ty,
        $columns:tt = $value:expr;)*) => {
        /// The names of the fields of a trip alone, in their order.
        pub(crate) const OWN_FIELDS: &[&str] = &[$(stringify!($name)),*];

        /// The names of the fields that a trip in a list may have, in their order.
        pub(crate) const TRIP_FIELDS: &[&str] =
            &[$(stringify!($name),)* "path", "tags", "open", "fresh"];

        const COLUMNS: &[&[Column]] = &[$(&columns!($name, $columns)),*];
    };
}

trip_fields!(define_columns);

/// The columns in their order.
pub(super) fn columns() -> impl Iterator<Item = &'static Column> + Clone {
    COLUMNS.iter().copied().flatten()
}

macro_rules! define_point_columns {
    ($($kind:ident: $raw:ident, $quanta:ident, $present:ident $details:tt)*) => {
        /// The columns of samples: five, and one for each reading.
        pub(super) static POINT_COLUMNS: [Column<ReadPoint>; 5 + READINGS] = [
            column!("trip_id", Text, false, |it| Some(Value::Text(it.trip_id))),
            column!("device_id", Text, false, |it| Some(Value::Text(it.device_id))),
            column!("time", Time, false, |it| Some(Value::Int64(it.sample.time_ms.ms()))),
            column!("lat", Double, false, |it| Some(Value::Double(it.sample.lat()))),
            column!("lon", Double, false, |it| Some(Value::Double(it.sample.lon()))),
            $(column!(stringify!($raw), Double, true, |it| {
                reading(ReadingKind::$kind, &it.sample).map(Value::Double)
            }),)*
        ];
    };
}

readings!(define_point_columns);

#[cfg(test)]
mod tests {
    use super::*;

    /// It has other names for some, and not those that SQL computes from others.
    #[test]
    fn the_view_of_sqlite_has_the_columns() {
        let schema = include_str!("../../schema/views.sql");
        let (_, view) = schema.split_once("CREATE VIEW trip AS").unwrap();
        let (view, _) = view.split_once("FROM trip_rows").unwrap();
        let words: Vec<_> = view.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for column in columns() {
            let name = match column.name {
                "kind" | "avg_speed_mps" | "jumps" | "absorbed" => continue,
                "distance_m" => "km",
                "bbox_west" => "min_lon",
                "bbox_south" => "min_lat",
                "bbox_east" => "max_lon",
                "bbox_north" => "max_lat",
                name => name,
            };
            assert!(words.contains(&name), "{name}");
        }
    }

    /// Texts and numbers by their names, all but those that it shows in its own way.
    #[test]
    fn the_page_shows_the_fields() {
        let detail = include_str!("../http/page/detail.js");
        let (before, rest) = detail.split_once("const SHOWN = [").unwrap();
        let (apart, after) = rest.split_once("];").unwrap();
        let page = [
            before,
            after,
            include_str!("../http/page/map.js"),
            include_str!("../http/page/trips.js"),
            include_str!("../http/page/devices.js"),
        ];
        let words = |text: &'static str| text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let used: Vec<_> = page.into_iter().flat_map(words).collect();
        let apart: Vec<_> = words(apart).filter(|name| !name.is_empty()).collect();
        for name in OWN_FIELDS {
            let is_fact = columns().any(|it| it.name == *name && it.kind != Kind::Ids);
            let is_used = used.contains(name);
            assert!(if apart.contains(name) { is_used } else { is_fact || is_used }, "{name}");
        }
        // What a lookup adds is shown above them.
        let is_known =
            |name: &&str| OWN_FIELDS.contains(name) || ["requested_id", "match"].contains(name);
        assert!(apart.iter().all(is_known), "{apart:?}");
    }
}
