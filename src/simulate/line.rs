//! One arrival: its values, and the line that it is written as.

use std::io::{self, Write};

use super::random::Random;
use super::{DeadReason, malformed};
use crate::model::time::format_time;
use crate::timeline::{ReadingKind, Sample};

/// Names of drivers.
pub(super) const DRIVERS: [&str; 6] = ["Ana", "Bea", "Chen", "Dora", "Emil", "Farid"];

/// Content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A sample, with the driver if the device names one.
    Good {
        /// The quantised sample.
        sample: Sample,
        /// Driver name.
        driver: Option<&'static str>,
    },
    /// A malformed line.
    Bad {
        /// The dead-letter reason that the line leads to.
        reason: DeadReason,
        /// The line without its line end.
        line: Vec<u8>,
    },
}

/// One arrival of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What the device is in: `van`, `bus` or `truck`.
    pub vehicle: &'static str,
    /// Device number, from 1.
    pub device: u32,
    /// Content of the line.
    pub content: Content,
}

impl Event {
    /// A malformed line in place of a sample of a device.
    pub(super) fn malformed(
        vehicle: &'static str,
        device: u32,
        (reason, sample): (DeadReason, &Sample),
        random: &mut Random,
    ) -> Self {
        let line = malformed::line(reason, &format!("{vehicle}-{device}"), sample, random);
        Self { vehicle, device, content: Content::Bad { reason, line } }
    }

    /// Device id: the vehicle and its number.
    #[must_use]
    pub fn device_id(&self) -> String {
        format!("{}-{}", self.vehicle, self.device)
    }

    /// Writes the arrival as a line of NDJSON.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_line(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.content {
            Content::Good { sample, driver } => {
                let time = format_time(sample.time_ms.ms());
                let Self { vehicle, device, .. } = self;
                write!(out, r#"{{"device_id":"{vehicle}-{device}","time":"{time}","lat":"#)?;
                write_decimal(sample.lat_e7, 7, out)?;
                write!(out, r#","lon":"#)?;
                write_decimal(sample.lon_e7, 7, out)?;
                for (kind, reading) in ReadingKind::ALL.into_iter().zip(sample.readings()) {
                    if let Some(quanta) = reading.get() {
                        write!(out, r#","{}":"#, kind.name())?;
                        write_decimal(quanta, kind.per_unit().ilog10(), out)?;
                    }
                }
                if let Some(ignition) = sample.ignition {
                    write!(out, r#","ignition":{ignition}"#)?;
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

/// Writes an integer number of 10^-decimals as a decimal, without trailing zeros. Uses no floats.
pub(crate) fn write_decimal(quanta: i32, decimals: u32, out: &mut impl Write) -> io::Result<()> {
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
