//! Trips of samples that come one by one, or frame by frame.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use tstar_core::model::scalar::LogTime;
use tstar_core::{DeviceTime, RawSample, Record};

use crate::decide::Input;
use crate::decided::{Decided, State};
use crate::events;
use crate::rules::Rules;
use crate::tables::{Table, id_text};

/// The trips of samples as they arrive, one by one or frame by frame.
#[pyclass(frozen, subclass, module = "tstar")]
pub(crate) struct Timeline {
    state: Mutex<Arc<State>>,
    /// The thread whose call has the state.
    caller: Mutex<Option<ThreadId>>,
}

/// A call, which has the state of its timeline.
struct Call<'a> {
    state: MutexGuard<'a, Arc<State>>,
    timeline: &'a Timeline,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.timeline.set_caller(None);
    }
}

/// A sample of Python's values.
#[derive(FromPyObject)]
struct Sample {
    #[pyo3(item)]
    device: String,
    #[pyo3(item)]
    time_ms: i64,
    #[pyo3(item)]
    lat: f64,
    #[pyo3(item)]
    lon: f64,
    #[pyo3(item)]
    speed: Option<f64>,
    #[pyo3(item)]
    heading: Option<f64>,
    #[pyo3(item)]
    altitude: Option<f64>,
    #[pyo3(item)]
    accuracy: Option<f64>,
    #[pyo3(item)]
    ignition: Option<bool>,
    #[pyo3(item)]
    driver: Option<String>,
    #[pyo3(item)]
    received_ms: i64,
}

impl Timeline {
    fn set_caller(&self, thread: Option<ThreadId>) {
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }

    /// The state, once no other thread has it.
    ///
    /// # Errors
    /// This thread has it: what it runs for a call, such as the generator of a frame, calls again.
    fn lock(&self, py: Python<'_>) -> PyResult<Call<'_>> {
        let current = thread::current().id();
        if *self.caller.lock().unwrap_or_else(PoisonError::into_inner) == Some(current) {
            let message = "this Timeline is in a call of the same thread, such as an absorb() whose \
                           frame is being made: call it before or after that";
            return Err(PyRuntimeError::new_err(message));
        }
        let state = self.state.lock_py_attached(py).map_err(|_| {
            let message = "an earlier call failed inside tstar; make another Timeline";
            PyRuntimeError::new_err(message)
        })?;
        self.set_caller(Some(current));
        Ok(Call { state, timeline: self })
    }
}

#[pymethods]
impl Timeline {
    #[new]
    #[pyo3(signature = (rules, strict))]
    fn new(rules: &Rules, strict: bool) -> Self {
        let state = Mutex::new(Arc::new(State::new(rules, strict, false)));
        Self { state, caller: Mutex::new(None) }
    }

    /// Applies the next sample, and returns what it did.
    fn _add(&self, py: Python<'_>, sample: Sample) -> PyResult<&'static str> {
        let mut call = self.lock(py)?;
        // Who has a table of it keeps what it was.
        let state = Arc::make_mut(&mut call.state);
        let speed_unit = state.rules.0.speed_unit;
        let number = |value: Option<f64>| value.filter(|value| !value.is_nan());
        let raw = RawSample {
            time_ms: DeviceTime(sample.time_ms),
            lat: sample.lat,
            lon: sample.lon,
            speed_mps: number(sample.speed).map(|speed| match speed {
                -1.0 => speed,
                _ => speed_unit.metres_per_second(speed),
            }),
            heading_deg: number(sample.heading),
            altitude_m: number(sample.altitude),
            accuracy_m: number(sample.accuracy),
            ignition: sample.ignition,
        };
        let record = Record {
            device_id: &sample.device,
            sample: raw,
            driver: sample.driver.as_deref(),
            log_time_ms: Some(LogTime(sample.received_ms)),
        };
        state.absorb_record(&record)
    }

    /// Applies the rows of a frame. After an error, those that were applied before it stay.
    fn _absorb(
        &self,
        frame: &Bound<'_, PyAny>,
        columns: HashMap<String, Option<String>>,
        order_by: Vec<String>,
        now_ms: i64,
    ) -> PyResult<()> {
        let mut call = self.lock(frame.py())?;
        Input { frame, columns, order_by, now_ms }.absorb(Arc::make_mut(&mut call.state))
    }

    /// The trips, stops, points and events so far. They stay as they are when more arrives.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Decided> {
        Ok(Decided(Arc::clone(&self.lock(py)?.state)))
    }

    /// What changed since the last call, as the change feed of `tstar` announces it.
    fn take_changes(&self, py: Python<'_>) -> PyResult<Table> {
        let mut call = self.lock(py)?;
        let state = Arc::make_mut(&mut call.state);
        let legs = state.fleet.legs();
        Ok(events::of_changes(legs, &state.fleet.take_changes()))
    }

    /// The id of the trip or stop that covers a time of a device, ms; None if there is none.
    fn _id_at(&self, py: Python<'_>, device: &str, time_ms: i64) -> PyResult<Option<String>> {
        let call = self.lock(py)?;
        let timeline = call.state.device(device);
        let segment = timeline.and_then(|timeline| timeline.covering(DeviceTime(time_ms)));
        Ok(segment.map(|segment| id_text(device, segment.t_star_ms())))
    }
}
