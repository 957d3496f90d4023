//! Tables out: Arrow streams that are made of what was decided while they are read.

mod cursor;
mod points;
mod rows;
mod segments;

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, RecordBatch, RecordBatchIterator, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

pub(crate) use points::{Samples, points};
pub(crate) use rows::{effects, letters};
pub(crate) use segments::{columns as segment_columns, id_text, segments};

/// Rows of a batch, about.
const BATCH: usize = 1 << 16;

/// Name and values of a column, and whether it may have nulls.
pub(crate) type Column = (&'static str, ArrayRef, bool);

/// A batch of these columns, of equal lengths.
pub(crate) fn batch(columns: Vec<Column>) -> RecordBatch {
    let field =
        |(name, array, nullable): &Column| Field::new(*name, array.data_type().clone(), *nullable);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).expect("columns of equal lengths")
}

/// Times in UTC, ms.
pub(crate) fn times(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter_values(values).with_timezone("UTC"))
}

/// Texts.
pub(crate) fn texts<T: AsRef<str>>(values: impl Iterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Texts of a list, by their places in it.
pub(crate) fn names(places: Vec<u8>, names: impl Iterator<Item = &'static str>) -> ArrayRef {
    let values = Arc::new(StringArray::from_iter_values(names));
    // Signed: older versions of pyarrow make no pandas column of others.
    let keys = Int8Array::from_iter_values(places.into_iter().map(u8::cast_signed));
    Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).expect("places of the list"))
}

type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

/// A table with the Arrow C stream interface: pyarrow, polars, pandas and DuckDB read it.
#[pyclass(frozen, module = "tstar")]
pub(crate) struct Table {
    schema: Arc<Schema>,
    rows: usize,
    batches: Box<dyn Fn() -> Batches + Send + Sync>,
}

impl Table {
    /// A table of a number of rows, whose batches are made on each reading; `empty` is one of them
    /// without rows.
    pub(crate) fn lazy<I>(
        empty: &RecordBatch,
        rows: usize,
        batches: impl Fn() -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: Iterator<Item = RecordBatch> + Send + 'static,
    {
        let batches = Box::new(move || Box::new(batches()) as Batches);
        Self { schema: empty.schema(), rows, batches }
    }

    /// A table of one batch.
    pub(crate) fn single(batch: RecordBatch) -> Self {
        let once = batch.clone();
        Self::lazy(&batch, batch.num_rows(), move || std::iter::once(once.clone()))
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish, which may be ignored: readers convert.
        drop(requested_schema);
        let batches = (self.batches)().map(Ok::<_, ArrowError>);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The table in pyarrow.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// The table in pandas, which needs pyarrow for it.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_pyarrow(slf)?.call_method0("to_pandas")
    }

    /// The table in polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<{} rows: {}>", self.rows, self.column_names().join(", "))
    }
}
