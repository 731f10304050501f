//! `windowkit._native.zone_name`, `crosses_midnight` and `dates`: which zones there are, what Spark's functions need to know
//! about one, and its days.

use pyo3::prelude::*;
use pyo3_arrow::PyArray;
use pyo3_arrow::input::AnyArray;

use super::errors::detached;
use super::given::Given;
use super::kernels::read;
use crate::window::Zone;

/// The days on which windows begin, of their starts; see [`crate::operator::dates`].
#[pyfunction(name = "dates", signature = (starts, zone, shift))]
pub(super) fn dates(
    py: Python<'_>,
    starts: Given<AnyArray>,
    zone: Option<String>,
    shift: i64,
) -> PyResult<PyArray> {
    let starts = read(py, "starts", starts)?;
    let found = detached(py, || crate::operator::dates(&starts, zone.as_deref(), shift))?;
    Ok(PyArray::from_array_ref(found))
}

/// Whether a zone's clock was ever set from one side of a midnight to the other.
#[pyfunction(name = "crosses_midnight")]
pub(super) fn crosses_midnight(py: Python<'_>, zone: String) -> PyResult<bool> {
    detached(py, || Ok(Zone::named(&zone)?.crosses_midnight()))
}

/// The name of a zone as the tz database writes it; it is found in any case.
#[pyfunction(name = "zone_name")]
pub(super) fn zone_name(py: Python<'_>, zone: String) -> PyResult<String> {
    detached(py, || Ok(Zone::named(&zone)?.name().to_owned()))
}
