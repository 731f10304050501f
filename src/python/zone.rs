//! `windowkit._native.skips_into_a_day`: what Spark's functions need to know about a time zone.

use pyo3::prelude::*;

use super::errors::detached;
use crate::window::Zone;

/// Whether a zone's clock was ever set forward from before midnight to after it.
#[pyfunction(name = "skips_into_a_day")]
pub(super) fn skips_into_a_day(py: Python<'_>, zone: String) -> PyResult<bool> {
    detached(py, || Ok(Zone::named(&zone)?.skips_into_a_day()))
}
