//! Trips and samples as Parquet files. Trips are GeoParquet 1.1.

mod columns;
mod table;
mod trips;

use std::io::Write;

use ::parquet::data_type::ByteArray;

use self::table::Table;
pub(super) use self::trips::TripTable;
use self::trips::column_schema;
use super::ViewError;
use super::fields::POINT_COLUMNS;
use super::form::{FormSpec, Layout, PathRule};
use super::trip_json::reading;
use crate::timeline::{Path, ReadingKind};

/// Trips as GeoParquet 1.1, samples as Parquet.
pub(super) static PARQUET: FormSpec = FormSpec {
    name: "parquet",
    suffixes: &["parquet", "geoparquet"],
    help: "One GeoParquet 1.1 file; of samples, one Parquet file",
    media_type: None,
    list_type: Some("application/vnd.apache.parquet"),
    path: PathRule::Always,
    trips: Layout::Table,
    points: Some(Layout::Table),
};

/// A Parquet file of samples.
pub(super) struct PointTable<W: Write>(Table<W>);

impl<W: Write> PointTable<W> {
    /// Begins the file.
    pub(crate) fn new(out: W) -> Result<Self, ViewError> {
        let columns: String = POINT_COLUMNS.iter().map(column_schema).collect();
        Ok(Self(Table::new(out, &format!("message point {{ {columns} }}"))?))
    }

    /// Adds the samples of a trip.
    pub(crate) fn write(
        &mut self,
        trip_id: &str,
        device_id: &str,
        path: &Path,
    ) -> Result<(), ViewError> {
        // Shared by the rows.
        let [trip_id, device_id] = [trip_id, device_id].map(ByteArray::from);
        for sample in path.iter() {
            self.0.write(|row| {
                row.value(trip_id.clone());
                row.value(device_id.clone());
                row.value(sample.time_ms.ms());
                row.value(sample.lat());
                row.value(sample.lon());
                for kind in ReadingKind::ALL {
                    row.optional(reading(kind, &sample));
                }
            })?;
        }
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<(), ViewError> {
        self.0.finish(None)
    }
}

#[cfg(test)]
mod tests;
