//! `windowkit._native.name_types`: whose names of types errors show.

use pyo3::prelude::*;

use super::errors::detached;
use crate::types::Names;
use crate::{Error, Result};

/// Makes errors of this thread name types as a library does; returns whose names they had before.
#[pyfunction(name = "name_types")]
pub(super) fn name_types(py: Python<'_>, library: &str) -> PyResult<&'static str> {
    let of = |library: &str| -> Result<Names> {
        match library {
            "pyarrow" => Ok(Names::Arrow),
            "polars" => Ok(Names::Polars),
            "spark" => Ok(Names::Spark),
            _ => Err(Error::Internal(format!("no names of types are {library}'s"))),
        }
    };
    Ok(match detached(py, || of(library))?.replaced() {
        Names::Arrow => "pyarrow",
        Names::Polars => "polars",
        Names::Spark => "spark",
    })
}
