//! Rules as JSON, with the names of tstar's settings and units at the end of the names.

use serde::Deserialize;
use serde_json::Value;
use tstar_core::model::limits::{
    MAX_ACCURACY_RANGE, MAX_FUTURE_RANGE, MAX_GAP_RANGE, MAX_SAMPLES_RANGE, MIN_STOP_RANGE,
    MIN_TIME_RANGE, STOP_SPEED_RANGE,
};
use tstar_core::{DeviceTime, Rules};

use crate::error::CallError;

/// Trips and samples of a tracker use at most this much memory unless the host says otherwise,
/// bytes: a quarter of what a module can address.
const MAX_MEMORY: i64 = 1 << 30;

/// Settings of a tracker. What is unset has tstar's default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    max_gap_ms: f64,
    /// Null: standing alone ends no trip.
    min_stop_ms: Option<f64>,
    stop_speed_mps: f64,
    max_samples: f64,
    min_time_ms: f64,
    max_future_ms: f64,
    max_accuracy_m: Option<f64>,
    keep_zero_position: bool,
    max_leg_speed_mps: Option<f64>,
    max_memory: f64,
}

impl Default for Settings {
    #[expect(clippy::cast_precision_loss, reason = "the defaults are far below 2^53")]
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            max_gap_ms: rules.max_gap_ms as f64,
            min_stop_ms: rules.min_stop_ms.map(|ms| ms as f64),
            stop_speed_mps: f64::from(rules.stop_speed_cmps) / 100.0,
            max_samples: f64::from(rules.max_samples),
            min_time_ms: rules.min_time_ms.ms() as f64,
            max_future_ms: rules.max_future_ms as f64,
            max_accuracy_m: None,
            keep_zero_position: !rules.drop_zero_position,
            max_leg_speed_mps: None,
            max_memory: MAX_MEMORY as f64,
        }
    }
}

/// A rule in its quanta, rounded as tstar rounds its settings; the range is in quanta, too.
fn quanta(name: &str, value: f64, range: (i64, i64), per_unit: f64) -> Result<i64, CallError> {
    #[expect(clippy::cast_precision_loss, reason = "the ranges are within 2^53")]
    let (least, most) = (range.0 as f64 / per_unit, range.1 as f64 / per_unit);
    if !(least..=most).contains(&value) {
        return Err(CallError::Rule(format!("{name} must be {least} to {most}, not {value}")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the ranges are within 2^53")]
    let quanta = (value * per_unit).round() as i64;
    Ok(quanta)
}

/// As [`quanta`], of a rule that fits 32 bits.
fn small(name: &str, value: f64, range: (i64, i64), per_unit: f64) -> Result<i32, CallError> {
    let quanta = quanta(name, value, range, per_unit)?;
    i32::try_from(quanta).map_err(|_| CallError::Rule(format!("{name} is {value}: too large")))
}

/// Reads rules and the limit of memory, bytes; an empty text gives the defaults.
pub(crate) fn parse(json: &[u8]) -> Result<(Rules, usize), CallError> {
    let settings: Settings = match json {
        [] => Settings::default(),
        // An array would be read as the values of the fields in turn.
        _ => serde_json::from_slice(json)
            .and_then(|fields| serde_json::from_value(Value::Object(fields)))
            .map_err(|error| CallError::input("rules", error))?,
    };
    let min_stop = |ms| quanta("min_stop_ms", ms, MIN_STOP_RANGE, 1.0);
    let leg_speed = |mps| small("max_leg_speed_mps", mps, STOP_SPEED_RANGE, 100.0);
    let accuracy = |m| small("max_accuracy_m", m, MAX_ACCURACY_RANGE, 10.0);
    let samples = small("max_samples", settings.max_samples, MAX_SAMPLES_RANGE, 1.0)?;
    let rules = Rules {
        max_gap_ms: quanta("max_gap_ms", settings.max_gap_ms, MAX_GAP_RANGE, 1.0)?,
        min_stop_ms: settings.min_stop_ms.map(min_stop).transpose()?,
        stop_speed_cmps: small("stop_speed_mps", settings.stop_speed_mps, STOP_SPEED_RANGE, 100.0)?,
        max_samples: samples.unsigned_abs(),
        min_time_ms: quanta("min_time_ms", settings.min_time_ms, MIN_TIME_RANGE, 1.0)
            .map(DeviceTime)?,
        max_future_ms: quanta("max_future_ms", settings.max_future_ms, MAX_FUTURE_RANGE, 1.0)?,
        max_accuracy_dm: settings.max_accuracy_m.map(accuracy).transpose()?,
        drop_zero_position: !settings.keep_zero_position,
        max_leg_speed_cmps: settings.max_leg_speed_mps.map(leg_speed).transpose()?,
        ..Rules::default()
    };
    let memory = quanta("max_memory", settings.max_memory, (0, 2 * MAX_MEMORY), 1.0)?;
    let memory = usize::try_from(memory).map_err(|error| CallError::input("max_memory", error))?;
    Ok((rules, memory))
}
