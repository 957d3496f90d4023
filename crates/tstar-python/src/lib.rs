//! The native part of the Python package `tstar`: data frames in, trips with lasting ids out.
//!
//! A frame comes as an Arrow C stream and is read batch by batch, without the GIL. What is decided
//! stays in a [`tstar_core::Fleet`]; tables are made of it while they are read. The Python part, in
//! `python/tstar/`, has the functions that users call, and selects the columns of a frame.

mod decide;
mod decided;
mod events;
mod evidence;
mod ids;
mod input;
mod load;
mod path;
mod rules;
mod tables;
mod timeline;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(
    tstar,
    InputError,
    PyValueError,
    "A frame, a column or a value that cannot be used. The message names it."
);

/// An error of the user's input.
fn wrong(message: impl std::fmt::Display) -> PyErr {
    InputError::new_err(message.to_string())
}

/// The native part of `tstar`.
#[pymodule]
mod _tstar {
    use pyo3::prelude::*;
    use pyo3::types::PyTuple;

    use super::input::Field;

    #[pymodule_export]
    use super::InputError;
    #[pymodule_export]
    use super::decide::decide;
    #[pymodule_export]
    use super::decided::Decided;
    #[pymodule_export]
    use super::evidence::{Verified, verify};
    #[pymodule_export]
    use super::ids::{
        date_range, device_of_token, format, parse, parse_time, prefix, prefix_range, token,
    };
    #[pymodule_export]
    use super::load::load;
    #[pymodule_export]
    use super::path::decode_path;
    #[pymodule_export]
    use super::rules::Rules;
    #[pymodule_export]
    use super::tables::Table;
    #[pymodule_export]
    use super::timeline::Timeline;

    /// Adds the names of the fields of a sample.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("FIELDS", PyTuple::new(py, Field::names())?)?;
        module.add("OPTIONAL_FIELDS", PyTuple::new(py, Field::optional_names())?)
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
