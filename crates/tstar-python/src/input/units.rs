//! Units of times and speeds, converted as the program tstar does it: to the same bit.

use tstar_core::model::rules::{SpeedUnit, TimeUnit};
use tstar_core::model::time::parse_time;

/// A speed in m/s.
pub(crate) fn metres_per_second(speed: f64, unit: SpeedUnit) -> f64 {
    match unit {
        SpeedUnit::MetresPerSecond => speed,
        SpeedUnit::KilometresPerHour => speed / 3.6,
        SpeedUnit::MilesPerHour => speed * 0.447_04,
        SpeedUnit::Knots => speed * 1852.0 / 3600.0,
    }
}

/// An integer time in `unit`, floored to ms; `None` if the ms overflow.
#[inline]
pub(super) fn integer_ms(value: i128, unit: TimeUnit) -> Option<i64> {
    let ms = match unit {
        TimeUnit::Seconds => value.checked_mul(1000)?,
        TimeUnit::Millis => value,
        TimeUnit::Micros => value.div_euclid(1000),
        TimeUnit::Nanos => value.div_euclid(1_000_000),
    };
    i64::try_from(ms).ok()
}

/// A time that is a float in `unit`, to the nearest us, which is more exact than the number itself,
/// then floored to ms; `None` if the ms overflow.
pub(super) fn float_ms(value: f64, unit: TimeUnit) -> Option<i64> {
    if !value.is_finite() {
        return None;
    }
    // The parts are separate: a product of the whole number would be rounded.
    let (whole, fraction) = (value.floor(), value - value.floor());
    #[expect(clippy::cast_possible_truncation, reason = "a larger float becomes the largest one")]
    let (whole, round) = (whole as i128, |us: f64| us.round() as i128);
    let us = match unit {
        TimeUnit::Seconds => whole.checked_mul(1_000_000)?.checked_add(round(fraction * 1e6))?,
        TimeUnit::Millis => whole.checked_mul(1000)?.checked_add(round(fraction * 1e3))?,
        TimeUnit::Micros => round(value),
        TimeUnit::Nanos => round(value / 1e3),
    };
    i64::try_from(us.div_euclid(1000)).ok()
}

/// A text: an integer in `unit`, or RFC 3339; `None` if it is neither.
pub(super) fn text_ms(text: &str, unit: TimeUnit) -> Option<i64> {
    let text = text.trim_ascii();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().and_then(|value| integer_ms(value, unit));
    }
    parse_time(text).ok()
}
