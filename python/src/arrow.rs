//! Tables by the Arrow C stream interface, which pandas, Polars, DuckDB and pyarrow read.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A column of one type: whole numbers, numbers or texts, each of which may be missing.
fn column(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(values) = values.extract::<Vec<Option<i64>>>() {
        return Ok(Arc::new(Int64Array::from(values)));
    }
    if let Ok(values) = values.extract::<Vec<Option<f64>>>() {
        return Ok(Arc::new(Float64Array::from(values)));
    }
    Ok(Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)))
}

/// A capsule `arrow_array_stream` of columns by their names.
#[pyfunction]
pub fn arrow_stream<'py>(
    py: Python<'py>,
    columns: Vec<(String, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let wrong = |error: ArrowError| PyTypeError::new_err(error.to_string());
    let columns: Vec<(String, ArrayRef, bool)> = columns
        .into_iter()
        .map(|(name, values)| Ok((name, column(&values)?, true)))
        .collect::<PyResult<_>>()?;
    let batch = RecordBatch::try_from_iter_with_nullable(columns).map_err(wrong)?;
    let schema = batch.schema();
    let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}
