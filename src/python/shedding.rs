//! How much memory the state of a stream may take, from Python.

use pyo3::prelude::*;

use crate::operator::{Keep, Shed};

/// A `windowkit.language.shedding.Shed`.
#[derive(FromPyObject)]
pub(super) struct PyShed {
    bytes: u64,
    keep: String,
    seed: u64,
}

impl From<PyShed> for Shed {
    fn from(PyShed { bytes, keep, seed }: PyShed) -> Self {
        Self { bytes, keep: if keep == "keys" { Keep::Keys } else { Keep::Rows }, seed }
    }
}
