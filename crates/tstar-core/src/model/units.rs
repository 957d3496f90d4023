//! Units of times, speeds and durations, and their conversion: to the same bit in every program.
//!
//! ```
//! use tstar_core::model::units::{SpeedUnit, TimeUnit};
//!
//! assert_eq!(TimeUnit::Micros.integer_ms(1_795_158_000_123_999), Some(1_795_158_000_123));
//! assert_eq!(TimeUnit::Seconds.number_ms(1_795_158_000.5), Some(1_795_158_000_500));
//! assert_eq!(SpeedUnit::KilometresPerHour.metres_per_second(90.0), 25.0);
//! ```

use serde::{Deserialize, Serialize};

/// Unit of times that are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeUnit {
    /// Seconds since 1970.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds since 1970.
    #[default]
    #[serde(rename = "ms")]
    Millis,
    /// Microseconds since 1970.
    #[serde(rename = "us")]
    Micros,
    /// Nanoseconds since 1970.
    #[serde(rename = "ns")]
    Nanos,
}

/// Unit of speeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpeedUnit {
    /// Metres per second.
    #[default]
    #[serde(rename = "mps")]
    MetresPerSecond,
    /// Kilometres per hour.
    #[serde(rename = "kmh")]
    KilometresPerHour,
    /// Miles per hour.
    #[serde(rename = "mph")]
    MilesPerHour,
    /// Nautical miles per hour.
    #[serde(rename = "kn")]
    Knots,
}

impl TimeUnit {
    /// All units, with their names in settings.
    pub const NAMES: [(&str, Self); 4] =
        [("s", Self::Seconds), ("ms", Self::Millis), ("us", Self::Micros), ("ns", Self::Nanos)];

    /// The name in settings and rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, unit)| *unit == self);
        named.expect("every unit has a name").0
    }

    /// An integer in this unit as ms since 1970, floored; `None` if the ms overflow.
    #[inline]
    #[must_use]
    pub fn integer_ms(self, value: i128) -> Option<i64> {
        let ms = match self {
            Self::Seconds => value.checked_mul(1000)?,
            Self::Millis => value,
            Self::Micros => value.div_euclid(1000),
            Self::Nanos => value.div_euclid(1_000_000),
        };
        i64::try_from(ms).ok()
    }

    /// A number in this unit as ms since 1970: rounded to the nearest us, which is more exact than
    /// the number itself, then floored to ms; `None` if it is not finite or the ms overflow.
    ///
    /// A float has 53 bits: of a time of this century in seconds, it is exact to a quarter of a us.
    #[must_use]
    pub fn number_ms(self, value: f64) -> Option<i64> {
        if !value.is_finite() {
            return None;
        }
        // The parts are separate: a product of the whole number would be rounded.
        let (whole, fraction) = (value.floor(), value - value.floor());
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a larger float becomes the largest integer"
        )]
        let (whole, round) = (whole as i128, |us: f64| us.round() as i128);
        let us = match self {
            Self::Seconds => whole.checked_mul(1_000_000)?.checked_add(round(fraction * 1e6))?,
            Self::Millis => whole.checked_mul(1000)?.checked_add(round(fraction * 1e3))?,
            Self::Micros => round(value),
            Self::Nanos => round(value / 1e3),
        };
        i64::try_from(us.div_euclid(1000)).ok()
    }

    /// The text of an integer in this unit, such as `-1`, as ms since 1970, floored.
    ///
    /// # Errors
    /// [`IntegerTimeError::Text`] if it is another text, such as that of a time, or
    /// [`IntegerTimeError::Overflow`].
    pub fn text_ms(self, text: &str) -> Result<i64, IntegerTimeError> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(IntegerTimeError::Text);
        }
        let ms = text.parse().ok().and_then(|value| self.integer_ms(value));
        ms.ok_or(IntegerTimeError::Overflow)
    }
}

/// Why a text is not the integer of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntegerTimeError {
    /// It is not an integer.
    #[error("it is not an integer")]
    Text,
    /// Its ms overflow.
    #[error("its ms since 1970 overflow")]
    Overflow,
}

impl SpeedUnit {
    /// All units, with their names in settings.
    pub const NAMES: [(&str, Self); 4] = [
        ("mps", Self::MetresPerSecond),
        ("kmh", Self::KilometresPerHour),
        ("mph", Self::MilesPerHour),
        ("kn", Self::Knots),
    ];

    /// The name in settings and rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, unit)| *unit == self);
        named.expect("every unit has a name").0
    }

    /// A speed in this unit as m/s.
    #[inline]
    #[must_use]
    pub fn metres_per_second(self, speed: f64) -> f64 {
        match self {
            Self::MetresPerSecond => speed,
            Self::KilometresPerHour => speed / 3.6,
            Self::MilesPerHour => speed * 0.447_04,
            Self::Knots => speed * 1852.0 / 3600.0,
        }
    }
}

/// A duration in ms as seconds.
#[inline]
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "durations stay far below 2^53 ms")]
pub fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_floored_to_ms() {
        for (value, unit, ms) in [
            (1, TimeUnit::Seconds, Some(1000)),
            (-1, TimeUnit::Millis, Some(-1)),
            (-1, TimeUnit::Micros, Some(-1)),
            (1999, TimeUnit::Micros, Some(1)),
            (-1_000_001, TimeUnit::Nanos, Some(-2)),
            (i128::from(i64::MAX), TimeUnit::Seconds, None),
            (i128::MAX, TimeUnit::Seconds, None),
            (i128::from(u64::MAX), TimeUnit::Millis, None),
        ] {
            assert_eq!(unit.integer_ms(value), ms, "{value} {unit:?}");
            let of_text = unit.text_ms(&value.to_string());
            assert_eq!(of_text, ms.ok_or(IntegerTimeError::Overflow), "{value} {unit:?}");
        }
        for text in ["", "-", "+5", "1.5", "2026-11-20"] {
            assert_eq!(TimeUnit::Millis.text_ms(text), Err(IntegerTimeError::Text), "{text}");
        }
    }

    #[test]
    fn numbers_are_rounded_to_us_and_floored_to_ms() {
        for (value, unit, ms) in [
            (-0.0001, TimeUnit::Seconds, Some(-1)),
            (1_795_158_000.999_999_9, TimeUnit::Seconds, Some(1_795_158_001_000)),
            (-0.1, TimeUnit::Millis, Some(-1)),
            (1_795_158_000_123_999.2, TimeUnit::Micros, Some(1_795_158_000_123)),
            (1.795_158_000_123e18, TimeUnit::Nanos, Some(1_795_158_000_123)),
            (1e300, TimeUnit::Millis, None),
            (f64::NAN, TimeUnit::Micros, None),
            (f64::INFINITY, TimeUnit::Nanos, None),
        ] {
            assert_eq!(unit.number_ms(value), ms, "{value} {unit:?}");
        }
    }

    #[test]
    fn speeds_have_their_metres_per_second() {
        let mps = SpeedUnit::NAMES.map(|(_, unit)| unit.metres_per_second(36.0));
        assert_eq!(mps, [36.0, 10.0, 36.0 * 0.447_04, 18.52]);
    }
}
