//! Samples in columns, as a host sends them: columns of all rows one after the other, each present
//! or not, then the names of devices and drivers.

use serde::Deserialize;
use tstar_core::fleet::Record;
use tstar_core::{DeviceTime, LogTime, RawSample};

use crate::error::CallError;

/// Bits of the optional columns, in the order in which they follow the others.
const OPTIONAL: [(&str, usize); 8] = [
    ("speed_mps", 8),
    ("heading_deg", 8),
    ("altitude_m", 8),
    ("accuracy_m", 8),
    ("log_time", 8),
    ("device", 4),
    ("driver", 4),
    ("ignition", 1),
];

/// Driver of a row that names none.
const NO_DRIVER: u32 = u32::MAX;

/// Ignition of a row: off, on; anything else: unknown.
const IGNITION: [bool; 2] = [false, true];

/// Names that rows refer to by number.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Names {
    devices: Vec<String>,
    drivers: Vec<String>,
}

/// A batch of samples, in the order of arrival.
pub(crate) struct Batch<'a> {
    rows: usize,
    time: &'a [u8],
    lat: &'a [u8],
    lon: &'a [u8],
    optional: [Option<&'a [u8]>; OPTIONAL.len()],
    names: Names,
}

/// A row of a batch.
pub(crate) enum Row<'a> {
    /// A sample of a device.
    Record(Record<'a>),
    /// Its time is not a whole number of ms.
    BadTime(f64),
}

/// Takes a column off the front.
fn column<'a>(
    rest: &mut &'a [u8],
    name: &'static str,
    rows: usize,
    width: usize,
) -> Result<&'a [u8], CallError> {
    let bytes = rows.checked_mul(width);
    let split = bytes.and_then(|bytes| rest.split_at_checked(bytes));
    let (column, after) = split.ok_or_else(|| {
        CallError::input(name, format!("the input ends before {rows} rows; write whole columns"))
    })?;
    *rest = after;
    Ok(column)
}

/// A number of a column; NaN where the column ends, which it does not.
fn real(column: &[u8], row: usize) -> f64 {
    column.as_chunks().0.get(row).map_or(f64::NAN, |bytes| f64::from_le_bytes(*bytes))
}

fn number(column: &[u8], row: usize) -> u32 {
    column.as_chunks().0.get(row).map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
}

/// A time in ms, if it is a whole number that a double has exactly.
#[expect(clippy::cast_possible_truncation, reason = "it is a whole number below 2^53")]
pub(crate) fn whole_ms(time: f64) -> Option<i64> {
    (time.fract() == 0.0 && time.abs() < 9e15).then_some(time as i64)
}

impl<'a> Batch<'a> {
    /// Reads a batch; the bits of `columns` say which of the optional ones are there.
    pub(crate) fn parse(input: &'a [u8], rows: usize, columns: u32) -> Result<Self, CallError> {
        if columns >> OPTIONAL.len() != 0 {
            return Err(CallError::input("columns", format!("{columns:#x} has unknown bits")));
        }
        let mut rest = input;
        let [time, lat, lon] = ["time", "lat", "lon"].map(|name| column(&mut rest, name, rows, 8));
        let (time, lat, lon) = (time?, lat?, lon?);
        let mut optional = [None; OPTIONAL.len()];
        for (at, (name, width)) in OPTIONAL.into_iter().enumerate() {
            if columns >> at & 1 == 1 {
                optional[at] = Some(column(&mut rest, name, rows, width)?);
            }
        }
        let names =
            serde_json::from_slice(rest).map_err(|error| CallError::input("names", error))?;
        let batch = Self { rows, time, lat, lon, optional, names };
        batch.check_names()?;
        Ok(batch)
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    fn check_names(&self) -> Result<(), CallError> {
        let [.., devices, drivers, _] = self.optional;
        for (what, numbers, names, none) in [
            ("device", devices, &self.names.devices, None),
            ("driver", drivers, &self.names.drivers, Some(NO_DRIVER)),
        ] {
            let numbers = (0..self.rows).filter_map(|row| Some((row, number(numbers?, row))));
            let mut unknown =
                numbers.filter(|&(_, at)| at as usize >= names.len() && Some(at) != none);
            if let Some((row, at)) = unknown.next() {
                let problem = format!("row {row} has {at}, of {} names", names.len());
                return Err(CallError::input(what, problem));
            }
        }
        if devices.is_none() && self.rows > 0 && self.names.devices.len() != 1 {
            let problem = format!("{} names without a column; name one", self.names.devices.len());
            return Err(CallError::input("device", problem));
        }
        Ok(())
    }

    /// A row. The columns and names were checked.
    pub(crate) fn row(&self, row: usize) -> Row<'_> {
        let [speed_mps, heading_deg, altitude_m, accuracy_m, log_time, device, driver, ignition] =
            self.optional;
        let time = real(self.time, row);
        let Some(time_ms) = whole_ms(time) else { return Row::BadTime(time) };
        // NaN: the sample has none.
        let reading = |column: Option<&[u8]>| Some(real(column?, row)).filter(|it| !it.is_nan());
        let log_time_ms = match log_time.map(|column| real(column, row)) {
            None => None,
            Some(time) if time.is_nan() => None,
            Some(time) => match whole_ms(time) {
                Some(ms) => Some(LogTime(ms)),
                None => return Row::BadTime(time),
            },
        };
        let sample = RawSample {
            time_ms: DeviceTime(time_ms),
            lat: real(self.lat, row),
            lon: real(self.lon, row),
            speed_mps: reading(speed_mps),
            heading_deg: reading(heading_deg),
            altitude_m: reading(altitude_m),
            accuracy_m: reading(accuracy_m),
            ignition: ignition.and_then(|it| IGNITION.get(usize::from(*it.get(row)?)).copied()),
        };
        let device = device.map_or(0, |column| number(column, row));
        let driver = driver.map_or(NO_DRIVER, |column| number(column, row));
        let device_id = self.names.devices.get(device as usize).map_or("", String::as_str);
        let driver = self.names.drivers.get(driver as usize).map(String::as_str);
        Row::Record(Record { driver, log_time_ms, ..Record::new(device_id, sample) })
    }
}
