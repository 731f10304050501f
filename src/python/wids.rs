//! `windowkit._native.wids` and `extent`: windows by their ids.

use arrow_array::Array;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyArray;
use pyo3_arrow::{PyArray, PyDataType};

use super::errors::detached;
use super::given::{Asked, Given};
use super::kernels::read;
use super::window::PyWindow;
use crate::operator::Wids;

/// The range of window ids of each time: an array of structs.
#[pyfunction(name = "wids")]
pub(super) fn wids(py: Python<'_>, window: Asked<PyWindow>, times: Given<AnyArray>) -> PyResult<PyArray> {
    let (spec, times) = (window.0.spec(py, None, None, &mut Vec::new())?, read(py, "times", times)?);
    let found = detached(py, || Wids::new(&spec?, times.data_type())?.of_times(&times))?;
    Ok(PyArray::from_array_ref(found))
}

/// The extent of each window, in times of a type: an array of structs.
#[pyfunction(name = "extent")]
pub(super) fn extent(
    py: Python<'_>,
    window: Asked<PyWindow>,
    ids: Given<AnyArray>,
    times: PyDataType,
) -> PyResult<PyArray> {
    let (spec, ids) = (window.0.spec(py, None, None, &mut Vec::new())?, read(py, "ids", ids)?);
    let times = times.into_inner();
    let found = detached(py, || Wids::new(&spec?, &times)?.extents(&ids))?;
    Ok(PyArray::from_array_ref(found))
}
