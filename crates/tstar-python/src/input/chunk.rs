//! Batches of a frame in parts, and their rows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::Schema;
use pyo3::prelude::*;
use tstar_core::identity::check_device_id;
use tstar_core::model::reason::DeadReason;
use tstar_core::model::rules::{SpeedUnit, TimeUnit};
use tstar_core::model::scalar::LogTime;
use tstar_core::{DeviceTime, RawSample, ReadingKind, Record};

use super::column::{Flag, Flags, Numbers, Texts};
use super::fields::{Field, Fields};
use super::letter::{Given, Letter};
use super::times::{Time, Times};
use crate::wrong;

/// Rows that are converted at once. Signals are handled in between.
const CHUNK: usize = 1 << 18;

/// How the rows of a frame are read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub fields: Fields,
    pub time_unit: TimeUnit,
    pub speed_unit: SpeedUnit,
    /// When rows arrived that do not say so.
    pub now_ms: LogTime,
}

/// What another program made, converted. Arrow panics where it is not what its schema says.
///
/// # Errors
/// Arrow panics, or the conversion fails.
pub(crate) fn converted<T>(convert: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(convert)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it cannot be read");
        Err(wrong(format!("the frame is not what its schema says: {text}")))
    })
}

/// The parts of a frame, in order.
pub(crate) struct Chunks {
    reader: RecordBatchStreamReader,
    reading: Arc<Reading>,
    /// What is left of the batch.
    batch: Option<RecordBatch>,
    /// Rows before the next part.
    row: u64,
}

impl Chunks {
    /// The parts of a stream, whose first row has a number.
    pub(crate) fn new(reader: RecordBatchStreamReader, reading: Reading, row: u64) -> Self {
        Self { reader, reading: Arc::new(reading), batch: None, row }
    }

    /// Names and types of the columns.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        self.reader.schema()
    }

    /// The next part, with the batch that it is of.
    ///
    /// # Errors
    /// The stream fails, or a column cannot be used.
    pub(crate) fn next(&mut self) -> PyResult<Option<(Chunk, RecordBatch)>> {
        converted(|| self.part())
    }

    fn part(&mut self) -> PyResult<Option<(Chunk, RecordBatch)>> {
        let batch = loop {
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => match self.reader.next() {
                    None => return Ok(None),
                    Some(batch) => batch.map_err(|error| wrong(format!("the frame: {error}")))?,
                },
            };
            if batch.num_rows() > 0 {
                break batch;
            }
        };
        let rows = batch.num_rows().min(CHUNK);
        if rows < batch.num_rows() {
            self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        let batch = batch.slice(0, rows);
        let chunk = Chunk::new(&batch, Arc::clone(&self.reading), self.row)?;
        self.row += rows as u64;
        Ok(Some((chunk, batch)))
    }

    /// Checks the columns of a frame, which may have no rows.
    ///
    /// # Errors
    /// One is absent, or has a type that cannot be used.
    pub(crate) fn check(&self) -> PyResult<()> {
        let empty = RecordBatch::new_empty(self.schema());
        Chunk::new(&empty, Arc::clone(&self.reading), 0).map(drop)
    }
}

/// Rows of a frame.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Number of the first row.
    pub first: u64,
    /// Number of rows.
    pub len: usize,
    device: Texts,
    time: Times,
    lat: Numbers,
    lon: Numbers,
    speed: Option<Numbers>,
    readings: Vec<(ReadingKind, Numbers)>,
    ignition: Option<Flags>,
    driver: Option<Texts>,
    received: Option<Times>,
    reading: Arc<Reading>,
}

/// A row that may be a sample.
pub(crate) struct Row<'a> {
    pub record: Record<'a>,
    /// Whether the ignition is a value that is neither on nor off.
    pub has_unknown_ignition: bool,
}

const READINGS: [(ReadingKind, Field); 3] = [
    (ReadingKind::Heading, Field::Heading),
    (ReadingKind::Altitude, Field::Altitude),
    (ReadingKind::Accuracy, Field::Accuracy),
];

impl Chunk {
    fn new(batch: &RecordBatch, reading: Arc<Reading>, first: u64) -> PyResult<Self> {
        let (schema, fields) = (batch.schema(), &reading.fields);
        let column = |field| -> PyResult<_> {
            let index = fields.index(field, &schema)?;
            Ok(index.map(|index| (schema.field(index).name().as_str(), batch.column(index))))
        };
        let needed = |field: Field| {
            column(field)?.ok_or_else(|| wrong(format!("no column is named for {}", field.name())))
        };
        let numbers = |field| column(field)?.map(|(name, it)| Numbers::new(name, it)).transpose();
        let times = |field| {
            let unit = reading.time_unit;
            column(field)?.map(|(name, it)| Times::new(name, it, unit)).transpose()
        };
        let mut readings = Vec::new();
        for (kind, field) in READINGS {
            readings.extend(numbers(field)?.map(|numbers| (kind, numbers)));
        }
        let (device, time) = (needed(Field::Device)?, needed(Field::Time)?);
        let (lat, lon) = (needed(Field::Lat)?, needed(Field::Lon)?);
        Ok(Self {
            first,
            len: batch.num_rows(),
            device: Texts::new(device.0, device.1)?,
            time: Times::new(time.0, time.1, reading.time_unit)?,
            lat: Numbers::new(lat.0, lat.1)?,
            lon: Numbers::new(lon.0, lon.1)?,
            speed: numbers(Field::Speed)?,
            readings,
            ignition: column(Field::Ignition)?
                .map(|(name, it)| Flags::new(name, it))
                .transpose()?,
            driver: column(Field::Driver)?.map(|(name, it)| Texts::new(name, it)).transpose()?,
            received: times(Field::Received)?,
            reading: Arc::clone(&reading),
        })
    }

    /// The sample of a row of this part.
    ///
    /// # Errors
    /// The row lacks a value, or its time cannot be read. What else may be wrong is the core's to
    /// judge.
    #[inline]
    pub(crate) fn row(&self, at: usize) -> Result<Row<'_>, Letter> {
        let missing = |field| self.letter(at, DeadReason::MissingField, field, Given::Nothing);
        let device_id = self.device.get(at).ok_or_else(|| missing(Field::Device))?;
        let time = self.time.get(at);
        if time == Time::Null {
            return Err(missing(Field::Time));
        }
        let lat = self.lat.get(at).ok_or_else(|| missing(Field::Lat))?;
        let lon = self.lon.get(at).ok_or_else(|| missing(Field::Lon))?;
        let Time::Ms(time_ms) = time else { return Err(self.untimed(at, device_id, time)) };
        let known = |kind: ReadingKind, value: f64| (!kind.is_unknown(value)).then_some(value);
        let speed = self.speed.as_ref().and_then(|speed| speed.get(at));
        let speed = speed.and_then(|speed| known(ReadingKind::Speed, speed));
        let mut sample = RawSample {
            time_ms: DeviceTime(time_ms),
            lat,
            lon,
            speed_mps: speed.map(|speed| self.reading.speed_unit.metres_per_second(speed)),
            ..RawSample::default()
        };
        for (kind, numbers) in &self.readings {
            *sample.reading_mut(*kind) = numbers.get(at).and_then(|value| known(*kind, value));
        }
        let ignition = self.ignition.as_ref().map(|flags| flags.get(at));
        if let Some(Flag::Known(is_on)) = ignition {
            sample.ignition = is_on;
        }
        let driver = self.driver.as_ref().and_then(|driver| driver.get(at));
        let log_time_ms = Some(self.received(at)?);
        let has_unknown_ignition = ignition == Some(Flag::Unknown);
        let record = Record { device_id, sample, driver, log_time_ms };
        Ok(Row { record, has_unknown_ignition })
    }

    fn received(&self, at: usize) -> Result<LogTime, Letter> {
        match self.received.as_ref().map_or(Time::Null, |received| received.get(at)) {
            Time::Ms(ms) => Ok(LogTime(ms)),
            Time::Null => Ok(self.reading.now_ms),
            Time::BadNumber(value) => {
                Err(self.letter(at, DeadReason::BadTime, Field::Received, Given::Number(value)))
            }
            Time::BadText(text) => {
                Err(self.letter(at, DeadReason::BadTime, Field::Received, Given::text(text)))
            }
        }
    }

    /// The letter of a row whose time cannot be read. The device is judged before the time.
    #[cold]
    fn untimed(&self, at: usize, device_id: &str, time: Time<'_>) -> Letter {
        if check_device_id(device_id).is_err() {
            let given = Given::text(device_id);
            return self.letter(at, DeadReason::BadDeviceId, Field::Device, given);
        }
        match time {
            Time::BadText(text) => {
                self.letter(at, DeadReason::BadTime, Field::Time, Given::text(text))
            }
            Time::BadNumber(value) => {
                self.letter(at, DeadReason::BadTime, Field::Time, Given::Number(value))
            }
            Time::Ms(_) | Time::Null => unreachable!("it can be read, or is missing"),
        }
    }

    fn letter(&self, at: usize, reason: DeadReason, field: Field, given: Given) -> Letter {
        Letter { row: self.first + at as u64, reason, field, given }
    }
}
