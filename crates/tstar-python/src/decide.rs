//! Decides the trips of a frame.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::FromPyArrow;
use pyo3::prelude::*;
use tstar_core::model::scalar::LogTime;

use crate::decided::{Decided, State};
use crate::input::{Chunk, Chunks, Fields, Order, Reading, converted};
use crate::rules::Rules;

/// Decides the trips of a frame: an object with the Arrow C stream interface.
#[pyfunction]
#[pyo3(signature = (frame, columns, rules, order_by, now_ms, strict, path))]
pub(crate) fn decide(
    frame: &Bound<'_, PyAny>,
    columns: HashMap<String, Option<String>>,
    rules: &Rules,
    order_by: Vec<String>,
    now_ms: i64,
    strict: bool,
    path: bool,
) -> PyResult<Decided> {
    let mut state = State::new(rules, strict, path);
    let input = Input { frame, columns, order_by, now_ms };
    input.absorb(&mut state)?;
    Ok(Decided(Arc::new(state)))
}

/// A frame, and which of its columns are what.
pub(crate) struct Input<'a, 'py> {
    pub frame: &'a Bound<'py, PyAny>,
    pub columns: HashMap<String, Option<String>>,
    pub order_by: Vec<String>,
    pub now_ms: i64,
}

impl Input<'_, '_> {
    /// Adds the rows of the frame to what was decided, without the GIL.
    ///
    /// # Errors
    /// A column cannot be used, or the stream fails; or a row, where that is an error.
    pub(crate) fn absorb(self, state: &mut State) -> PyResult<()> {
        let py = self.frame.py();
        let reader = converted(|| RecordBatchStreamReader::from_pyarrow_bound(self.frame))?;
        let fields = Fields::new(self.columns, &reader.schema())?;
        state.fields = fields.clone();
        let reading = Reading {
            fields,
            time_unit: state.rules.0.time_unit,
            speed_unit: state.rules.0.speed_unit,
            now_ms: LogTime(self.now_ms),
        };
        let chunks = Chunks::new(reader, reading, state.rows());
        let mut order = Order::new(self.order_by);
        chunks.check()?;
        order.check(&chunks.schema())?;
        let done = py.detach(|| match order.is_none() {
            true => in_order(state, chunks),
            false => sorted(state, chunks, &mut order),
        });
        state.stop();
        done
    }
}

/// Lets Python handle signals such as Ctrl-C.
fn interrupted() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

fn in_order(state: &mut State, mut chunks: Chunks) -> PyResult<()> {
    while let Some((chunk, _)) = chunks.next()? {
        state.absorb(&chunk)?;
        interrupted()?;
    }
    Ok(())
}

fn sorted(state: &mut State, mut chunks: Chunks, order: &mut Order) -> PyResult<()> {
    let first = state.rows();
    let mut all: Vec<Chunk> = Vec::new();
    while let Some((chunk, batch)) = chunks.next()? {
        order.add(&batch)?;
        all.push(chunk);
        interrupted()?;
    }
    let rows = order.sorted();
    state.arrive(rows.iter().map(|row| first + row));
    state.reserve(rows.len());
    for part in rows.chunks(1 << 18) {
        for row in part {
            let row = first + row;
            let chunk = &all[all.partition_point(|chunk| chunk.first <= row) - 1];
            let at = usize::try_from(row - chunk.first).expect("it is in the part");
            state.absorb_at(chunk, at)?;
        }
        interrupted()?;
    }
    Ok(())
}
