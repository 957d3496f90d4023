//! The kept samples, each with the id of its trip or stop: the columns of
//! `tstar export --points --format parquet`, kind and row.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringBuilder};
use arrow_array::{Float64Array, Int64Array, RecordBatch};
use tstar_core::segment::Kind;
use tstar_core::{ReadingKind, Sample, Segment};

use super::cursor::Cursor;
use super::segments::id_text;
use super::{BATCH, Column, Table, batch, names, times};
use crate::decided::State;

/// Samples in columns.
pub(crate) struct Samples {
    times: Vec<i64>,
    lats: Vec<f64>,
    lons: Vec<f64>,
    readings: [Float64Builder; 4],
}

impl Samples {
    /// No samples, with space for some.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            times: Vec::with_capacity(capacity),
            lats: Vec::with_capacity(capacity),
            lons: Vec::with_capacity(capacity),
            readings: ReadingKind::ALL.map(|_| Float64Builder::with_capacity(capacity)),
        }
    }

    /// Adds a sample.
    #[inline]
    pub(crate) fn push(&mut self, sample: &Sample) {
        self.times.push(sample.time_ms.ms());
        self.lats.push(sample.lat());
        self.lons.push(sample.lon());
        let kinds = ReadingKind::ALL.into_iter().zip(sample.readings());
        for (column, (kind, reading)) in self.readings.iter_mut().zip(kinds) {
            column.append_option(reading.get().map(|quanta| kind.in_units(quanta)));
        }
    }

    /// The columns.
    pub(crate) fn columns(self) -> Vec<Column> {
        let [speed, heading, altitude, accuracy] = self.readings;
        let reading = |mut column: Float64Builder| Arc::new(column.finish());
        vec![
            ("time", times(self.times.into_iter()), false),
            ("lat", Arc::new(Float64Array::from(self.lats)), false),
            ("lon", Arc::new(Float64Array::from(self.lons)), false),
            ("speed_mps", reading(speed), true),
            ("heading_deg", reading(heading), true),
            ("altitude_m", reading(altitude), true),
            ("accuracy_m", reading(accuracy), true),
        ]
    }
}

struct Points {
    ids: StringBuilder,
    devices: StringBuilder,
    kinds: Vec<u8>,
    samples: Samples,
    rows: Vec<i64>,
}

impl Points {
    fn new(capacity: usize) -> Self {
        Self {
            ids: StringBuilder::with_capacity(capacity, 32 * capacity),
            devices: StringBuilder::with_capacity(capacity, 12 * capacity),
            kinds: Vec::with_capacity(capacity),
            samples: Samples::new(capacity),
            rows: Vec::with_capacity(capacity),
        }
    }

    fn add(&mut self, state: &State, device: &str, segment: &Segment) {
        let id = id_text(device, segment.t_star_ms());
        let kind = segment.outline().kind as u8;
        for sample in segment.path().iter() {
            self.ids.append_value(&id);
            self.devices.append_value(device);
            self.kinds.push(kind);
            self.samples.push(&sample);
            self.rows.push(state.row_of(sample.version).cast_signed());
        }
    }

    fn batch(mut self) -> RecordBatch {
        let kinds = [Kind::Trip, Kind::Stop].map(Kind::name).into_iter();
        let mut columns: Vec<Column> = vec![
            ("trip_id", Arc::new(self.ids.finish()), false),
            ("device_id", Arc::new(self.devices.finish()), false),
        ];
        columns.extend(self.samples.columns());
        columns.push(("kind", names(self.kinds, kinds), false));
        columns.push(("row", Arc::new(Int64Array::from(self.rows)), false));
        batch(columns)
    }
}

/// The table of kept samples.
pub(crate) fn points(state: &Arc<State>) -> Table {
    let rows = state.segments().map(|(_, segment)| segment.samples()).sum();
    let state = Arc::clone(state);
    Table::lazy(&Points::new(0).batch(), rows, move || {
        let (state, mut cursor) = (Arc::clone(&state), Cursor::new(&state, None));
        std::iter::from_fn(move || {
            let mut points = Points::new(BATCH);
            while points.rows.len() < BATCH
                && let Some((device, segment)) = cursor.next(&state)
            {
                points.add(&state, &device, segment);
            }
            (!points.rows.is_empty()).then(|| points.batch())
        })
    })
}
