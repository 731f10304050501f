//! The Python module `windowkit._native`: argument checking, the GIL, Arrow in and out. No algorithm lives here.

mod engine;
mod errors;
mod plan;
mod user;

use pyo3::prelude::*;

/// The Rust core of windowkit.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<plan::PyPlan>()?;
    module.add_class::<engine::PyEngine>()?;
    module.add_class::<engine::PyBatches>()
}
