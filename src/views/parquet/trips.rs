//! Trips as GeoParquet 1.1.

use std::io::Write;

use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use serde_json::json;

use super::table::Table;
use crate::codec::trip_row::TripRow;
use crate::timeline::Path;
use crate::views::json::json as as_json;
use crate::views::{Answer, ViewError};

/// The columns of trips: those of CSV, the bbox as a group, the tags as JSON, and the samples.
const TRIPS: &str = "message trip {
    REQUIRED BYTE_ARRAY id (STRING);
    REQUIRED BYTE_ARRAY device_id (STRING);
    REQUIRED INT64 t_star (TIMESTAMP(MILLIS,true));
    REQUIRED INT64 start_time (TIMESTAMP(MILLIS,true));
    REQUIRED INT64 end_time (TIMESTAMP(MILLIS,true));
    REQUIRED DOUBLE duration_s;
    REQUIRED INT32 samples;
    REQUIRED DOUBLE distance_m;
    OPTIONAL DOUBLE avg_speed_mps;
    OPTIONAL DOUBLE max_speed_mps;
    OPTIONAL INT32 jumps;
    OPTIONAL BYTE_ARRAY driver (STRING);
    REQUIRED DOUBLE start_lat;
    REQUIRED DOUBLE start_lon;
    REQUIRED DOUBLE end_lat;
    REQUIRED DOUBLE end_lon;
    REQUIRED group absorbed (LIST) {
        REPEATED group list { REQUIRED BYTE_ARRAY element (STRING); }
    }
    REQUIRED INT64 version;
    OPTIONAL BYTE_ARRAY tags (STRING);
    REQUIRED group bbox {
        REQUIRED DOUBLE xmin;
        REQUIRED DOUBLE ymin;
        REQUIRED DOUBLE xmax;
        REQUIRED DOUBLE ymax;
    }
    REQUIRED group times (LIST) {
        REPEATED group list { REQUIRED INT64 element (TIMESTAMP(MILLIS,true)); }
    }
    REQUIRED BYTE_ARRAY geometry;
}";

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
    pub fn new(out: W) -> Result<Self, ViewError> {
        Ok(Self { table: Table::new(out, TRIPS)?, bbox: None, has: [false; 2] })
    }

    /// Adds a trip.
    pub fn write(
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
        self.table.write(|out| {
            out.value(ByteArray::from(&*trip.id));
            out.value(ByteArray::from(&*trip.device_id));
            for time_ms in [row.t_star_ms, row.start_ms, row.end_ms] {
                out.value(time_ms.ms());
            }
            out.value(trip.duration_s);
            out.value(trip.samples);
            out.value(trip.distance_m);
            out.optional(trip.avg_speed_mps);
            out.optional(trip.max_speed_mps);
            out.optional(trip.jumps);
            out.optional(trip.driver.as_deref().map(ByteArray::from));
            for degrees in [trip.start.lat, trip.start.lon, trip.end.lat, trip.end.lon] {
                out.value(degrees);
            }
            out.list(trip.absorbed.iter().map(|id| ByteArray::from(&**id)));
            out.value(trip.version);
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
    pub fn finish(self) -> Result<(), ViewError> {
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
