//! `windowkit._native.crosses_midnight`: what Spark's functions need to know about a time zone.

use pyo3::prelude::*;

use super::errors::detached;
use crate::window::Zone;

/// Whether a zone's clock was ever set from one side of a midnight to the other.
#[pyfunction(name = "crosses_midnight")]
pub(super) fn crosses_midnight(py: Python<'_>, zone: String) -> PyResult<bool> {
    detached(py, || Ok(Zone::named(&zone)?.crosses_midnight()))
}
