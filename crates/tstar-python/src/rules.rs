//! Rules as Python gives them: names and units of the settings of `tstar`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tstar_core::DeviceTime;
use tstar_core::model::rules::{Rules as CoreRules, SpeedUnit, TimeUnit};
use tstar_core::model::time::{format_duration, format_time, parse_duration, parse_time};
use tstar_core::model::units::seconds;

use crate::wrong;

/// The rules that decide trips. Equal rules give equal trips.
///
/// Keywords, all optional:
///
/// - `max_gap` ("5m"): a trip ends after a longer silence, and where the ignition goes off.
/// - `min_stop` ("5m"): standing this long ends a trip; None: standing alone ends none.
/// - `stop_speed` (0.5): a vehicle stands while it reports a lower speed, m/s.
/// - `max_samples` (100,000): a sample inside a trip that has this many is a dead letter.
/// - `min_time` ("2000-01-01T00:00:00Z"): samples with an earlier device time are dead letters.
/// - `max_future` ("24h"): those further past their arrival are, too.
/// - `max_accuracy` (None): samples with a worse accuracy, m, are dropped.
/// - `keep_zero_position` (False): keep samples at latitude 0 and longitude 0.
/// - `max_leg_speed` (None): faster legs do not count for distance and average speed, m/s.
/// - `time_unit` ("ms"): unit of times that are numbers: s, ms, us or ns.
/// - `speed_unit` ("mps"): unit of speeds: mps, kmh, mph or kn.
///
/// Durations are texts such as "5m", timedeltas, or seconds.
#[pyclass(frozen, eq, hash, module = "tstar", skip_from_py_object)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules(pub CoreRules);

impl std::hash::Hash for Rules {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_json().hash(state);
    }
}

#[pymethods]
impl Rules {
    /// Rules; what is not given is as in `tstar`.
    #[new]
    #[pyo3(signature = (**settings))]
    fn new(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut rules = CoreRules::default();
        for (name, value) in settings.into_iter().flatten() {
            set(&mut rules, &name.extract::<String>()?, &value)?;
        }
        rules.check().map_err(wrong)?;
        Ok(Self(rules))
    }

    /// The rules that a store has, from their JSON.
    #[staticmethod]
    fn from_json(json: &str) -> PyResult<Self> {
        let rules = CoreRules::from_json(json);
        rules.map(Self).map_err(|error| wrong(chain(&error)))
    }

    /// The form that stores have, and whose SHA-256 is `hash`.
    #[getter]
    fn json(&self) -> String {
        self.0.to_json()
    }

    /// SHA-256 of `json`, in hex.
    #[getter(hash)]
    fn hash_text(&self) -> String {
        self.0.hash()
    }

    /// A trip ends after a longer silence, s.
    #[getter]
    fn max_gap(&self) -> f64 {
        seconds(self.0.max_gap_ms)
    }

    /// Standing this long ends a trip, s; None: standing alone ends none.
    #[getter]
    fn min_stop(&self) -> Option<f64> {
        self.0.min_stop_ms.map(seconds)
    }

    /// A vehicle stands while it reports a lower speed, m/s.
    #[getter]
    fn stop_speed(&self) -> f64 {
        f64::from(self.0.stop_speed_cmps) / 100.0
    }

    /// Most samples of a trip.
    #[getter]
    fn max_samples(&self) -> u32 {
        self.0.max_samples
    }

    /// Earlier device times are not accepted.
    #[getter]
    fn min_time(&self) -> String {
        format_time(self.0.min_time_ms.ms())
    }

    /// How far a device time may lie past the time of its arrival, s.
    #[getter]
    fn max_future(&self) -> f64 {
        seconds(self.0.max_future_ms)
    }

    /// Samples with a worse accuracy are dropped, m.
    #[getter]
    fn max_accuracy(&self) -> Option<f64> {
        self.0.max_accuracy_dm.map(|dm| f64::from(dm) / 10.0)
    }

    /// Whether samples at latitude 0 and longitude 0 are kept.
    #[getter]
    fn keep_zero_position(&self) -> bool {
        !self.0.drop_zero_position
    }

    /// Faster legs do not count for distance and average speed, m/s.
    #[getter]
    fn max_leg_speed(&self) -> Option<f64> {
        self.0.max_leg_speed_cmps.map(|cmps| f64::from(cmps) / 100.0)
    }

    /// Unit of times that are numbers: s, ms, us or ns.
    #[getter]
    fn time_unit(&self) -> &'static str {
        self.0.time_unit.name()
    }

    /// Unit of speeds: mps, kmh, mph or kn.
    #[getter]
    fn speed_unit(&self) -> &'static str {
        self.0.speed_unit.name()
    }

    fn __repr__(&self) -> String {
        let min_stop = self.0.min_stop_ms.map_or_else(|| "None".into(), text);
        let Self(CoreRules { max_gap_ms, stop_speed_cmps, .. }) = self;
        let stop_speed = f64::from(*stop_speed_cmps) / 100.0;
        let max_gap = text(*max_gap_ms);
        format!("Rules(max_gap={max_gap}, min_stop={min_stop}, stop_speed={stop_speed}, ...)")
    }
}

fn text(duration_ms: i64) -> String {
    format!("\"{}\"", format_duration(duration_ms))
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn set(rules: &mut CoreRules, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "max_gap" => rules.max_gap_ms = duration(name, value)?,
        "min_stop" => rules.min_stop_ms = optional(name, value, duration)?,
        "stop_speed" => rules.stop_speed_cmps = quanta(name, value, 100.0)?,
        "max_samples" => rules.max_samples = value.extract().map_err(|_| bad(name, value))?,
        "min_time" => rules.min_time_ms = DeviceTime(time(name, value)?),
        "max_future" => rules.max_future_ms = duration(name, value)?,
        "max_accuracy" => {
            rules.max_accuracy_dm = optional(name, value, |name, it| quanta(name, it, 10.0))?;
        }
        "keep_zero_position" => {
            rules.drop_zero_position = !value.extract::<bool>().map_err(|_| bad(name, value))?;
        }
        "max_leg_speed" => {
            rules.max_leg_speed_cmps = optional(name, value, |name, it| quanta(name, it, 100.0))?;
        }
        "time_unit" => rules.time_unit = named(name, value, &TimeUnit::NAMES)?,
        "speed_unit" => rules.speed_unit = named(name, value, &SpeedUnit::NAMES)?,
        _ => {
            let message = format!("there is no rule `{name}`; help(tstar.Rules) lists them");
            return Err(PyTypeError::new_err(message));
        }
    }
    Ok(())
}

#[cold]
fn bad(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let expected = match name {
        "max_gap" | "min_stop" | "max_future" => {
            "a duration such as \"5m\", a timedelta, or a number of seconds"
        }
        "min_time" => "RFC 3339 such as \"2026-11-20T21:38:00Z\", or a datetime with a zone",
        "keep_zero_position" => "True or False",
        "time_unit" => &any_of(&TimeUnit::NAMES),
        "speed_unit" => &any_of(&SpeedUnit::NAMES),
        "max_samples" => "a whole number",
        _ => "a number",
    };
    let given = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    wrong(format!("rule {name} is {given}; it needs {expected}"))
}

/// The names of a list, for a message.
fn any_of<T>(names: &[(&str, T)]) -> String {
    let quoted: Vec<_> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
    let (last, others) = quoted.split_last().expect("a list of units has some");
    format!("{} or {last}", others.join(", "))
}

fn optional<T>(
    name: &str,
    value: &Bound<'_, PyAny>,
    read: impl Fn(&str, &Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Option<T>> {
    let is_off = value.extract::<&str>().is_ok_and(|text| text == "off" || text == "none");
    if value.is_none() || is_off { Ok(None) } else { read(name, value).map(Some) }
}

fn duration(name: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(text) = value.extract::<&str>() {
        return parse_duration(text).map_err(|error| wrong(format!("rule {name}: {error}")));
    }
    // Of a timedelta.
    let total = value.call_method0("total_seconds");
    let seconds = total.as_ref().unwrap_or(value).extract::<f64>();
    whole(name, value, seconds.map_err(|_| bad(name, value))? * 1000.0, 9e15)
}

fn time(name: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let text = match value.extract::<String>() {
        Ok(text) => text,
        Err(_) => value.call_method0("isoformat").map_err(|_| bad(name, value))?.extract()?,
    };
    parse_time(&text).map_err(|error| wrong(format!("rule {name}: {error}")))
}

fn quanta(name: &str, value: &Bound<'_, PyAny>, per_unit: f64) -> PyResult<i32> {
    let number: f64 = value.extract().map_err(|_| bad(name, value))?;
    let quanta = whole(name, value, number * per_unit, f64::from(i32::MAX))?;
    i32::try_from(quanta).map_err(|_| bad(name, value))
}

/// The nearest whole number, from 0 to a limit.
fn whole(name: &str, value: &Bound<'_, PyAny>, number: f64, most: f64) -> PyResult<i64> {
    if !(0.0..=most).contains(&number) {
        return Err(bad(name, value));
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was compared")]
    Ok(number.round() as i64)
}

fn named<T: Copy>(name: &str, value: &Bound<'_, PyAny>, names: &[(&str, T)]) -> PyResult<T> {
    let text: &str = value.extract().map_err(|_| bad(name, value))?;
    let found = names.iter().find(|(known, _)| *known == text);
    found.map(|(_, unit)| *unit).ok_or_else(|| bad(name, value))
}
