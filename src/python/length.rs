//! Lengths and moments from Python, read by their attributes.

use pyo3::prelude::*;

use crate::operator::{Length, Moment};

/// What Python's `Duration`, `Rows` and `Months` have, or an integer.
#[derive(FromPyObject)]
enum PyLength {
    Duration {
        nanoseconds: i128,
    },
    Rows {
        count: i128,
    },
    Months {
        months: i128,
    },
    #[pyo3(transparent)]
    Units(i128),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Length {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(match value.extract()? {
            PyLength::Duration { nanoseconds } => Self::Nanoseconds(nanoseconds),
            PyLength::Rows { count } => Self::Rows(count),
            PyLength::Months { months } => Self::Months(months),
            PyLength::Units(count) => Self::Units(count),
        })
    }
}

/// What Python's `Moment` and `Duration` have, or an integer.
#[derive(FromPyObject)]
enum PyMoment {
    Instant {
        nanoseconds: i128,
        zoned: bool,
    },
    Elapsed {
        nanoseconds: i128,
    },
    #[pyo3(transparent)]
    Units(i128),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Moment {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(match value.extract()? {
            PyMoment::Instant { nanoseconds, zoned } => Self::Instant { nanoseconds, zoned },
            PyMoment::Elapsed { nanoseconds } => Self::Elapsed(nanoseconds),
            PyMoment::Units(count) => Self::Units(count),
        })
    }
}
