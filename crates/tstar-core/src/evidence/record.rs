//! The records of evidence.

use serde::{Deserialize, Serialize};

use crate::identity::TEXT_TIMES_MS;
use crate::model::reading::{Reading, ReadingKind};
use crate::model::sample::{Sample, is_driver};
use crate::model::scalar::{DeviceTime, LogTime, Version};

/// A sample as it was read, quantised; or an erasure. Absent values are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvidenceRecord {
    /// Version of the record.
    pub version: Version,
    /// When the log received it, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_time_ms: Option<LogTime>,
    /// Device time, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<DeviceTime>,
    /// Latitude and longitude, 1e-7 degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position_e7: Option<(i32, i32)>,
    /// Speed, 0.01 m/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_cmps: Option<i32>,
    /// Heading, 0.1 degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading_ddeg: Option<i32>,
    /// Altitude, 0.1 m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altitude_dm: Option<i32>,
    /// Accuracy, 0.1 m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_dm: Option<i32>,
    /// Whether the ignition is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition: Option<bool>,
    /// Who drove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Instead of a sample: what ends before this device time was erased, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forget_before_ms: Option<DeviceTime>,
}

/// What a record says.
pub(super) enum Event {
    Sample(Sample),
    Forget(DeviceTime),
}

impl EvidenceRecord {
    /// The record of a sample, which has its version.
    #[must_use]
    pub fn of_sample(sample: &Sample, driver: Option<&str>, log_time_ms: Option<LogTime>) -> Self {
        let [speed_cmps, heading_ddeg, altitude_dm, accuracy_dm] =
            sample.readings().map(Reading::get);
        Self {
            version: sample.version,
            log_time_ms,
            time_ms: Some(sample.time_ms),
            position_e7: Some((sample.lat_e7, sample.lon_e7)),
            speed_cmps,
            heading_ddeg,
            altitude_dm,
            accuracy_dm,
            ignition: sample.ignition,
            driver: driver.map(str::to_owned),
            forget_before_ms: None,
        }
    }

    /// The record of an erasure.
    #[must_use]
    pub fn of_forget(version: Version, before_ms: DeviceTime) -> Self {
        Self { version, forget_before_ms: Some(before_ms), ..Self::default() }
    }

    pub(super) fn log_time(&self) -> LogTime {
        self.log_time_ms.unwrap_or(LogTime::MAX)
    }

    /// What it says, or why it cannot be.
    pub(super) fn event(&self) -> Result<Event, String> {
        if let Some(before_ms) = self.forget_before_ms {
            let alone = Self::of_forget(self.version, before_ms);
            let is_alone = Self { log_time_ms: None, ..self.clone() } == alone;
            return match is_alone {
                true => Ok(Event::Forget(before_ms)),
                false => Err("it is a sample and an erasure".into()),
            };
        }
        let time_ms = self.time_ms.ok_or("it has no time_ms")?;
        if !TEXT_TIMES_MS.contains(&time_ms) {
            return Err(format!("its time_ms, {time_ms}, is not in the years 0000 to 9999"));
        }
        let (lat_e7, lon_e7) = self.position_e7.ok_or("it has no position_e7")?;
        within("latitude", lat_e7, (-900_000_000, 900_000_000))?;
        within("longitude", lon_e7, (-1_800_000_000, 1_800_000_000))?;
        let readings = [self.speed_cmps, self.heading_ddeg, self.altitude_dm, self.accuracy_dm];
        for (kind, value) in ReadingKind::ALL.into_iter().zip(readings) {
            value.map_or(Ok(()), |value| within(kind.column(), value, kind.quanta_range()))?;
        }
        if self.driver.as_deref().is_some_and(|name| name.is_empty() || !is_driver(name)) {
            return Err("its driver is not a text of 1 to 256 bytes without NUL".into());
        }
        let mut sample = Sample::new(time_ms, (lat_e7, lon_e7), readings.map(Reading::new));
        (sample.ignition, sample.version) = (self.ignition, self.version);
        Ok(Event::Sample(sample))
    }
}

fn within(name: &str, value: i32, (min, max): (i32, i32)) -> Result<(), String> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(format!("its {name}, {value}, is outside of {min} to {max}")),
    }
}
