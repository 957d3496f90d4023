//! Trips as GeoParquet 1.1.

use std::io::Write;

use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use serde_json::json;

use super::columns::Row;
use super::table::Table;
use crate::codec::trip_row::TripRow;
use crate::timeline::Path;
use crate::views::fields::{Column, FlatTrip, Kind, Value, columns};
use crate::views::json::json as as_json;
use crate::views::{Answer, ViewError};

/// The schema: the columns of CSV, with the retired ids as a list and the bbox as a group, the tags
/// as JSON, and the samples.
fn schema() -> String {
    let columns: String = columns().map(column_schema).collect();
    format!(
        "message trip {{
            {columns}
            OPTIONAL BYTE_ARRAY tags (STRING);
            REQUIRED group bbox {{
                REQUIRED DOUBLE xmin;
                REQUIRED DOUBLE ymin;
                REQUIRED DOUBLE xmax;
                REQUIRED DOUBLE ymax;
            }}
            REQUIRED group times (LIST) {{
                REPEATED group list {{ REQUIRED INT64 element (TIMESTAMP(MILLIS,true)); }}
            }}
            REQUIRED BYTE_ARRAY geometry;
        }}"
    )
}

/// A column in a schema; the bbox follows as a group.
pub(super) fn column_schema<R>(column: &Column<R>) -> String {
    let presence = ["REQUIRED", "OPTIONAL"][usize::from(column.is_optional)];
    let name = column.name;
    match column.kind {
        Kind::Edge => String::new(),
        Kind::Ids => format!(
            "REQUIRED group {name} (LIST) {{
                REPEATED group list {{ REQUIRED BYTE_ARRAY element (STRING); }}
            }}"
        ),
        Kind::Text => format!("{presence} BYTE_ARRAY {name} (STRING);"),
        Kind::Time => format!("{presence} INT64 {name} (TIMESTAMP(MILLIS,true));"),
        Kind::Double => format!("{presence} DOUBLE {name};"),
        Kind::Int32 => format!("{presence} INT32 {name};"),
        Kind::Int64 => format!("{presence} INT64 {name};"),
    }
}

/// Adds the value of a column; the bbox follows as a group.
fn fill(out: &mut Row<'_>, column: &Column, it: &FlatTrip<'_>) {
    match (column.kind, (column.read)(it)) {
        (Kind::Edge, _) => (),
        (Kind::Ids, _) => out.list(it.trip.absorbed.iter().map(|id| ByteArray::from(&**id))),
        (_, None) => out.optional(None::<i32>),
        (_, Some(Value::Text(text))) => out.optional(Some(ByteArray::from(text))),
        (_, Some(Value::Double(number))) => out.optional(Some(number)),
        (_, Some(Value::Int32(number))) => out.optional(Some(number)),
        (_, Some(Value::Int64(number))) => out.optional(Some(number)),
    }
}

/// A GeoParquet file of trips.
pub(in crate::views) struct TripTable<W: Write> {
    table: Table<W>,
    /// West, south, east, north of all trips, degrees.
    bbox: Option<[f64; 4]>,
    /// Whether there is a trip of one sample, and one of more.
    has: [bool; 2],
}

impl<W: Write> TripTable<W> {
    /// Begins the file.
    pub(crate) fn new(out: W) -> Result<Self, ViewError> {
        Ok(Self { table: Table::new(out, &schema())?, bbox: None, has: [false; 2] })
    }

    /// Adds a trip.
    pub(crate) fn write(
        &mut self,
        row: &TripRow,
        Answer { trip, extras }: &Answer<'_>,
        path: &Path,
    ) -> Result<(), ViewError> {
        let own = trip.bbox;
        let bbox = self.bbox.get_or_insert(own);
        *bbox =
            [bbox[0].min(own[0]), bbox[1].min(own[1]), bbox[2].max(own[2]), bbox[3].max(own[3])];
        self.has[usize::from(path.len() > 1)] = true;
        let flat = FlatTrip { row, trip, absorbed: None };
        self.table.write(|out| {
            columns().for_each(|column| fill(out, column, &flat));
            let tags = extras.tags.as_ref().filter(|tags| !tags.is_empty());
            out.optional(tags.map(|tags| ByteArray::from(&*as_json(tags))));
            for degrees in own {
                out.value(degrees);
            }
            out.list(path.iter().map(|sample| sample.time_ms.ms()));
            out.value(ByteArray::from(wkb(path)));
        })
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<(), ViewError> {
        let kinds = ["Point", "LineString"].into_iter().zip(self.has);
        let kinds: Vec<_> = kinds.filter(|(_, has)| *has).map(|(kind, _)| kind).collect();
        let side = |name| ["bbox", name];
        // Without a `crs`, coordinates are those of OGC:CRS84: longitude and latitude of WGS 84.
        let mut geometry = json!({
            "encoding": "WKB",
            "geometry_types": kinds,
            "covering": {"bbox": {
                "xmin": side("xmin"), "ymin": side("ymin"),
                "xmax": side("xmax"), "ymax": side("ymax"),
            }},
        });
        if let Some(bbox) = self.bbox {
            geometry["bbox"] = json!(bbox);
        }
        let geo = json!({
            "version": "1.1.0",
            "primary_column": "geometry",
            "columns": {"geometry": geometry},
        });
        self.table.finish(Some(KeyValue::new("geo".to_owned(), geo.to_string())))
    }
}

/// A path as well-known binary: a point if it has one sample, else a line.
fn wkb(path: &Path) -> Vec<u8> {
    const LITTLE_ENDIAN: u8 = 1;
    const POINT: u32 = 1;
    const LINE: u32 = 2;
    let mut bytes = Vec::with_capacity(9 + 16 * path.len());
    bytes.push(LITTLE_ENDIAN);
    if path.len() == 1 {
        bytes.extend_from_slice(&POINT.to_le_bytes());
    } else {
        let count = u32::try_from(path.len()).expect("max_samples is an i32");
        bytes.extend_from_slice(&LINE.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    for sample in path.iter() {
        bytes.extend_from_slice(&sample.lon().to_le_bytes());
        bytes.extend_from_slice(&sample.lat().to_le_bytes());
    }
    bytes
}
