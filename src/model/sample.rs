//! A quantised sample: the only form of a sample that trips contain.
//!
//! Samples are quantised on input (ms, 1e-7 degrees, 0.01 m/s, 0.1 degree, 0.1 m), so that a trip
//! read back from its row equals, to the byte, a trip that never left memory.

use crate::identity::TEXT_TIMES_MS;

/// An optional measurement of a sample, in quanta. Uses no more memory than an `i32`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reading(i32);

impl Reading {
    /// No measurement.
    pub const ABSENT: Self = Self(i32::MIN);

    /// A measurement in quanta. `i32::MIN` means absent and is not a value.
    #[must_use]
    pub fn new(quanta: Option<i32>) -> Self {
        quanta.map_or(Self::ABSENT, Self)
    }

    /// The measurement in quanta, if there is one.
    #[must_use]
    pub fn get(self) -> Option<i32> {
        (self != Self::ABSENT).then_some(self.0)
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// A location sample of one device, quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Device time, ms since 1970-01-01T00:00:00Z.
    pub time_ms: i64,
    /// Latitude, 1e-7 degrees north, WGS 84.
    pub lat_e7: i32,
    /// Longitude, 1e-7 degrees east, WGS 84.
    pub lon_e7: i32,
    /// Speed, 0.01 m/s.
    pub speed_cmps: Reading,
    /// Heading from north, 0.1 degree, 0 to 3599.
    pub heading_ddeg: Reading,
    /// Altitude, 0.1 m.
    pub altitude_dm: Reading,
    /// Accuracy, 0.1 m.
    pub accuracy_dm: Reading,
}

/// A sample as its source sent it, before quantisation.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSample {
    /// Device time, ms since 1970-01-01T00:00:00Z, in [`TEXT_TIMES_MS`].
    pub time_ms: i64,
    /// Latitude, degrees north, -90 to 90.
    pub lat: f64,
    /// Longitude, degrees east, -180 to 180.
    pub lon: f64,
    /// Speed, m/s, 0 to 1,000.
    pub speed_mps: Option<f64>,
    /// Heading from north, degrees, 0 to 360.
    pub heading_deg: Option<f64>,
    /// Altitude, m, -12,000 to 100,000.
    pub altitude_m: Option<f64>,
    /// Accuracy, m, 0 to 100,000,000.
    pub accuracy_m: Option<f64>,
}

/// A value outside the range of its field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfRange {
    /// Canonical name of the field.
    pub field: &'static str,
    /// The value, in the unit of [`RawSample`].
    pub value: f64,
    /// Smallest value accepted.
    pub least: f64,
    /// Largest value accepted.
    pub most: f64,
}

/// Rounds half away from zero to quanta. NaN and infinities are out of range.
fn quanta(
    field: &'static str,
    value: f64,
    (least, most): (f64, f64),
    per_unit: f64,
) -> Result<i32, OutOfRange> {
    if !(least..=most).contains(&value) {
        return Err(OutOfRange { field, value, least, most });
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range above keeps it inside i32")]
    Ok((value * per_unit).round() as i32)
}

fn reading(
    field: &'static str,
    value: Option<f64>,
    range: (f64, f64),
    per_unit: f64,
) -> Result<Reading, OutOfRange> {
    Ok(Reading::new(value.map(|value| quanta(field, value, range, per_unit)).transpose()?))
}

#[cold]
#[expect(clippy::cast_precision_loss, reason = "for a message; the bounds are below 2^53")]
fn time_out_of_range(time_ms: i64) -> OutOfRange {
    let (least, most) = (*TEXT_TIMES_MS.start() as f64, *TEXT_TIMES_MS.end() as f64);
    OutOfRange { field: "time", value: time_ms as f64, least, most }
}

impl Sample {
    /// Quantises a raw sample.
    ///
    /// # Errors
    /// The first field whose value is outside the range documented at [`RawSample`].
    pub fn quantised(raw: &RawSample) -> Result<Self, OutOfRange> {
        if !TEXT_TIMES_MS.contains(&raw.time_ms) {
            return Err(time_out_of_range(raw.time_ms));
        }
        let heading = reading("heading", raw.heading_deg, (0.0, 360.0), 10.0)?;
        Ok(Self {
            time_ms: raw.time_ms,
            lat_e7: quanta("lat", raw.lat, (-90.0, 90.0), 1e7)?,
            lon_e7: quanta("lon", raw.lon, (-180.0, 180.0), 1e7)?,
            speed_cmps: reading("speed", raw.speed_mps, (0.0, 1e3), 100.0)?,
            // 360 degrees equal 0.
            heading_ddeg: Reading::new(heading.get().map(|ddeg| ddeg % 3600)),
            altitude_dm: reading("altitude", raw.altitude_m, (-12e3, 1e5), 10.0)?,
            accuracy_dm: reading("accuracy", raw.accuracy_m, (0.0, 1e8), 10.0)?,
        })
    }

    /// Latitude in degrees north.
    #[must_use]
    pub fn lat(&self) -> f64 {
        f64::from(self.lat_e7) / 1e7
    }

    /// Longitude in degrees east.
    #[must_use]
    pub fn lon(&self) -> f64 {
        f64::from(self.lon_e7) / 1e7
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_small() {
        assert_eq!(size_of::<Sample>(), 32);
    }

    #[test]
    fn rounds_to_the_nearest_quantum() {
        let raw = RawSample {
            time_ms: 7,
            lat: -25.451_837,
            lon: 179.999_999_96,
            speed_mps: Some(13.888_9),
            heading_deg: Some(359.96),
            altitude_m: Some(-0.04),
            accuracy_m: None,
        };
        let sample = Sample::quantised(&raw).unwrap();
        assert_eq!(sample.lat_e7, -254_518_370);
        assert_eq!(sample.lon_e7, 1_800_000_000);
        assert_eq!(sample.speed_cmps.get(), Some(1389));
        assert_eq!(sample.heading_ddeg.get(), Some(0));
        assert_eq!(sample.altitude_dm.get(), Some(0));
        assert_eq!(sample.accuracy_dm.get(), None);
    }

    #[test]
    fn refuses_values_out_of_range_and_names_the_field() {
        for (raw, field) in [
            (RawSample { time_ms: 253_402_300_800_000, ..RawSample::default() }, "time"),
            (RawSample { time_ms: -62_167_219_200_001, ..RawSample::default() }, "time"),
            (RawSample { time_ms: i64::MAX, ..RawSample::default() }, "time"),
            (RawSample { lat: 91.0, ..RawSample::default() }, "lat"),
            (RawSample { lat: f64::NAN, ..RawSample::default() }, "lat"),
            (RawSample { lon: -180.1, ..RawSample::default() }, "lon"),
            (RawSample { lon: f64::INFINITY, ..RawSample::default() }, "lon"),
            (RawSample { speed_mps: Some(-0.1), ..RawSample::default() }, "speed"),
            (RawSample { heading_deg: Some(360.1), ..RawSample::default() }, "heading"),
            (RawSample { altitude_m: Some(2e5), ..RawSample::default() }, "altitude"),
            (RawSample { accuracy_m: Some(-1.0), ..RawSample::default() }, "accuracy"),
        ] {
            assert_eq!(Sample::quantised(&raw).unwrap_err().field, field);
        }
    }
}
