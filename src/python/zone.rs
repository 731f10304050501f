//! `windowkit._native.zone_name` and `crosses_midnight`: which zones there are, and what Spark's functions need to know
//! about one.

use pyo3::prelude::*;

use super::errors::detached;
use crate::window::Zone;

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
