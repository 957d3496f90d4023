//! Decodes column `path` of a stored trip.

use std::sync::Arc;

use arrow_array::{BooleanArray, Int64Array, StringArray};
use pyo3::prelude::*;
use tstar_core::codec::decode;

use crate::tables::{Samples, Table, batch, names};
use crate::wrong;

/// The samples of a path, by time: `schema/path.proto` has the format.
#[pyfunction]
pub(crate) fn decode_path(py: Python<'_>, path: &[u8]) -> PyResult<Table> {
    let path = py.detach(|| decode(path)).map_err(wrong)?;
    let mut samples = Samples::new(path.len());
    path.iter().for_each(|sample| samples.push(&sample));
    let classes = path.iter().map(|sample| sample.class as u8).collect();
    let drivers = path.iter().map(|sample| path.driver_at(sample.time_ms).map(str::to_owned));
    let mut columns = samples.columns();
    columns.push((
        "ignition",
        Arc::new(path.iter().map(|sample| sample.ignition).collect::<BooleanArray>()),
        true,
    ));
    columns.push(("driver", Arc::new(drivers.collect::<StringArray>()), true));
    // In the order of the classes.
    columns.push(("class", names(classes, ["moving", "slow", "separator"].into_iter()), false));
    let versions = path.iter().map(|sample| sample.version.get());
    columns.push(("version", Arc::new(Int64Array::from_iter_values(versions)), false));
    Ok(Table::single(batch(columns)))
}
