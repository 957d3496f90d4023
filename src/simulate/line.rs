//! One arrival, as values and as a line.

use std::io::{self, Write};

use super::DeadReason;
use crate::model::time::format_time;
use crate::timeline::Sample;

/// What a line holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A sample, with the driver where the device names one.
    Good {
        /// The sample, as `timeline` takes it.
        sample: Sample,
        /// The driver.
        driver: Option<&'static str>,
    },
    /// A malformed line.
    Bad {
        /// Why no sample can be read from it.
        reason: DeadReason,
        /// Its bytes, without a line end.
        line: Vec<u8>,
    },
}

/// One arrival of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which device, from 1.
    pub device: u32,
    /// What arrived.
    pub content: Content,
}

impl Event {
    /// The device's id, `truck-1` and on.
    #[must_use]
    pub fn device_id(&self) -> String {
        format!("truck-{}", self.device)
    }

    /// Writes the arrival as a line of NDJSON.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_line(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.content {
            Content::Good { sample, driver } => {
                let time = format_time(sample.time_ms);
                write!(out, r#"{{"device_id":"truck-{}","time":"{time}","lat":"#, self.device)?;
                write_decimal(sample.lat_e7, 7, out)?;
                write!(out, r#","lon":"#)?;
                write_decimal(sample.lon_e7, 7, out)?;
                if let Some(speed_cmps) = sample.speed_cmps.get() {
                    write!(out, r#","speed":"#)?;
                    write_decimal(speed_cmps, 2, out)?;
                }
                if let Some(heading_ddeg) = sample.heading_ddeg.get() {
                    write!(out, r#","heading":"#)?;
                    write_decimal(heading_ddeg, 1, out)?;
                }
                if let Some(driver) = driver {
                    write!(out, r#","driver":"{driver}""#)?;
                }
                out.write_all(b"}\n")
            }
            Content::Bad { line, .. } => {
                out.write_all(line)?;
                out.write_all(b"\n")
            }
        }
    }
}

/// Quanta of 10^-decimals as a number, from integers alone; zeros at the end are left out.
pub fn write_decimal(quanta: i32, decimals: u32, out: &mut impl Write) -> io::Result<()> {
    let unit = 10_u32.pow(decimals);
    let (mut fraction, mut digits) = (quanta.unsigned_abs() % unit, decimals as usize);
    let sign = if quanta < 0 { "-" } else { "" };
    write!(out, "{sign}{}", quanta.unsigned_abs() / unit)?;
    if fraction == 0 {
        return Ok(());
    }
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        digits -= 1;
    }
    write!(out, ".{fraction:0digits$}")
}
