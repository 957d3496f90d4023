//! A quantised sample: the only form of a sample that trips contain.
//!
//! Samples are quantised on input (ms, 1e-7 degrees, 0.01 m/s, 0.1 degree, 0.1 m), so that a trip
//! read back from its row equals, to the byte, a trip that never left memory.

use super::reading::{FULL_TURN_DDEG, READINGS, Reading, ReadingKind, readings};
use crate::identity::{MAX_DEVICE_ID_BYTES, TEXT_TIMES_MS};
use crate::model::class::Class;
use crate::model::scalar::{DeviceTime, Version};

macro_rules! define_samples {
    ($($kind:ident: $raw:ident, $field:ident, $present:ident {
        tags: $tags:tt,
        names: $names:tt,
        guesses: $guesses:tt,
        quanta: $quanta:tt,
        docs: [$raw_doc:literal, $doc:literal],
    })*) => {
        /// A location sample of one device, quantised.
        ///
        /// ```
        /// use tstar_core::{RawSample, Sample};
        ///
        /// let at = RawSample { lat: 52.5, lon: 13.4, ..RawSample::default() };
        /// let raw = RawSample { speed_mps: Some(13.888_9), ..at };
        /// let sample = Sample::quantised(&raw)?;
        /// assert_eq!(sample.lat_e7, 525_000_000);
        /// assert_eq!(sample.speed_cmps.get(), Some(1389));
        /// assert_eq!(sample.heading_ddeg.get(), None);
        ///
        /// let raw = RawSample { lat: 95.0, ..raw };
        /// assert_eq!(Sample::quantised(&raw).unwrap_err().field, "lat");
        /// # Ok::<_, tstar_core::OutOfRange>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Sample {
            /// Device time, ms since 1970-01-01T00:00:00Z.
            pub time_ms: DeviceTime,
            /// Latitude, 1e-7 degrees north, WGS 84.
            pub lat_e7: i32,
            /// Longitude, 1e-7 degrees east, WGS 84.
            pub lon_e7: i32,
            $(#[doc = $doc] pub $field: Reading,)*
            /// Whether the ignition is on.
            pub ignition: Option<bool>,
            /// What it says about movement, by the rules under which it arrived.
            pub class: Class,
            /// Version of the record in which it arrived: its place in the log.
            pub version: Version,
        }

        /// A sample as its source sent it, before quantisation.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct RawSample {
            /// Device time, ms since 1970-01-01T00:00:00Z, in [`TEXT_TIMES_MS`].
            pub time_ms: DeviceTime,
            /// Latitude, degrees north, -90 to 90.
            pub lat: f64,
            /// Longitude, degrees east, -180 to 180.
            pub lon: f64,
            $(#[doc = $raw_doc] pub $raw: Option<f64>,)*
            /// Whether the ignition is on.
            pub ignition: Option<bool>,
        }

        impl Sample {
            /// A moving sample with the given readings, at version 0.
            #[inline]
            #[must_use]
            pub fn new(
                time_ms: DeviceTime,
                (lat_e7, lon_e7): (i32, i32),
                readings: [Reading; READINGS],
            ) -> Self {
                let [$($field),*] = readings;
                let (ignition, class, version) = (None, Class::Moving, Version(0));
                Self { time_ms, lat_e7, lon_e7, $($field,)* ignition, class, version }
            }

            /// Whether it has the same time, place and readings.
            #[must_use]
            pub fn is_same_measurement(&self, other: &Self) -> bool {
                let Self { ignition, class, version, .. } = *self;
                *self == Self { ignition, class, version, ..*other }
            }

            /// The readings, in the order of [`ReadingKind::ALL`].
            #[inline]
            #[must_use]
            pub fn readings(&self) -> [Reading; READINGS] {
                [$(self.$field),*]
            }
        }

        impl RawSample {
            /// The field of a reading, in its unit.
            #[inline]
            pub fn reading_mut(&mut self, kind: ReadingKind) -> &mut Option<f64> {
                match kind {
                    $(ReadingKind::$kind => &mut self.$raw,)*
                }
            }

            /// The readings, quantised.
            ///
            /// # Errors
            /// The first one that is out of range.
            #[inline]
            fn quantised_readings(&self) -> Result<[Reading; READINGS], OutOfRange> {
                Ok([$(ReadingKind::$kind.quantised(self.$raw)?),*])
            }
        }
    };
}

readings!(define_samples);

/// A value outside the range of its field.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {value}; it must be {least} to {most}")]
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
#[inline]
pub(super) fn quanta(
    field: &'static str,
    value: f64,
    (least, most): (f64, f64),
    per_unit: f64,
) -> Result<i32, OutOfRange> {
    if !(least..=most).contains(&value) {
        return Err(OutOfRange { field, value, least, most });
    }
    Ok(rounded(value * per_unit))
}

/// As `f64::round`, which is a call on processors without an instruction for it.
#[inline]
fn rounded(quanta: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "the ranges of all values are within i32")]
    let whole = quanta as i32;
    // Exact: a float has more digits than its whole part.
    let rest = quanta - f64::from(whole);
    whole + i32::from(rest >= 0.5) - i32::from(rest <= -0.5)
}

#[cold]
#[expect(clippy::cast_precision_loss, reason = "for a message; the bounds are below 2^53")]
fn time_out_of_range(time_ms: DeviceTime) -> OutOfRange {
    let (least, most) = (TEXT_TIMES_MS.start().ms() as f64, TEXT_TIMES_MS.end().ms() as f64);
    OutOfRange { field: "time", value: time_ms.ms() as f64, least, most }
}

/// Whether a text may be the name of a driver: at most 256 bytes without NUL.
#[must_use]
pub fn is_driver(name: &str) -> bool {
    name.len() <= MAX_DEVICE_ID_BYTES && !name.as_bytes().contains(&0)
}

impl Sample {
    /// Quantises a raw sample.
    ///
    /// # Errors
    /// The first field whose value is outside the range documented at [`RawSample`].
    #[inline]
    pub fn quantised(raw: &RawSample) -> Result<Self, OutOfRange> {
        if !TEXT_TIMES_MS.contains(&raw.time_ms) {
            return Err(time_out_of_range(raw.time_ms));
        }
        // If several fields are out of range, the message names the heading.
        ReadingKind::Heading.quantised(raw.heading_deg)?;
        let lat_e7 = quanta("lat", raw.lat, (-90.0, 90.0), 1e7)?;
        let lon_e7 = quanta("lon", raw.lon, (-180.0, 180.0), 1e7)?;
        let mut sample = Self::new(raw.time_ms, (lat_e7, lon_e7), raw.quantised_readings()?);
        sample.ignition = raw.ignition;
        // 360 degrees equal 0.
        if sample.heading_ddeg == Reading::new(Some(FULL_TURN_DDEG)) {
            sample.heading_ddeg = Reading::new(Some(0));
        }
        Ok(sample)
    }

    /// Class and ignition as one small number; 0 for a moving sample without ignition.
    pub(crate) fn mark(&self) -> u8 {
        let ignition = self.ignition.map_or(0, |is_on| 1 + u8::from(is_on));
        3 * self.class as u8 + ignition
    }

    /// Sets class and ignition from [`Sample::mark`].
    pub(crate) fn set_mark(&mut self, mark: u8) {
        self.class = Class::ALL[usize::from(mark / 3)];
        self.ignition = (mark % 3).checked_sub(1).map(|is_on| is_on == 1);
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

    /// Distance on a plane at the latitude of this sample, m: exact enough for statistics of short
    /// legs, and cheap.
    #[must_use]
    pub fn flat_distance_m(&self, to: &Self) -> f64 {
        /// Length of 1e-7 degrees of latitude, m.
        const QUANTUM_M: f64 = 0.011_119_508;
        const FULL_TURN: f64 = 3.6e9;
        let lat = f64::from(to.lat_e7) - f64::from(self.lat_e7);
        let lon = (f64::from(to.lon_e7) - f64::from(self.lon_e7)).abs();
        // The shorter way around the earth.
        let lon = lon.min(FULL_TURN - lon) * libm::cos(self.lat().to_radians());
        libm::sqrt(lat * lat + lon * lon) * QUANTUM_M
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_small() {
        assert_eq!(size_of::<Sample>(), 48);
    }

    #[test]
    fn distances_agree_with_the_sphere() {
        let point =
            |lat, lon| Sample::quantised(&RawSample { lat, lon, ..RawSample::default() }).unwrap();
        // A degree of longitude at 60 degrees north is half of one of latitude.
        for (from, to, expected) in [
            ((60.0, 25.0), (60.01, 25.0), 1111.95),
            ((60.0, 25.0), (60.0, 25.02), 1111.95),
            ((0.0, 179.995), (0.0, -179.995), 1111.95),
        ] {
            let found = point(from.0, from.1).flat_distance_m(&point(to.0, to.1));
            assert!((found - expected).abs() < 0.5, "{found} m from {from:?} to {to:?}");
        }
    }

    #[test]
    fn rounding_is_that_of_floats() {
        let below = |value: f64| f64::from_bits(value.to_bits() - 1);
        let above = |value: f64| f64::from_bits(value.to_bits() + 1);
        for whole in (0..32).map(|bits| f64::from((1_u32 << bits) - 1)).filter(|it| *it < 2e9) {
            for part in [0.1, below(0.5), 0.5, above(0.5), 0.9] {
                for value in [whole + part, below(whole + part), above(whole + part)] {
                    assert_eq!(f64::from(rounded(value)), value.round(), "{value:?}");
                    assert_eq!(f64::from(rounded(-value)), -value.round(), "{value:?}");
                }
            }
        }
    }

    #[test]
    fn rounds_to_the_nearest_quantum() {
        let raw = RawSample {
            time_ms: DeviceTime(7),
            lat: -25.451_837,
            lon: 179.999_999_96,
            speed_mps: Some(13.888_9),
            heading_deg: Some(359.96),
            altitude_m: Some(-0.04),
            ..RawSample::default()
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
            (
                RawSample { time_ms: DeviceTime(253_402_300_800_000), ..RawSample::default() },
                "time",
            ),
            (
                RawSample { time_ms: DeviceTime(-62_167_219_200_001), ..RawSample::default() },
                "time",
            ),
            (RawSample { time_ms: DeviceTime::MAX, ..RawSample::default() }, "time"),
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
