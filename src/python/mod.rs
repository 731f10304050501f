//! The Python module `windowkit._native`: argument checking, the GIL, Arrow in and out. No algorithm lives here.

mod aggregate;
mod callees;
mod calls;
mod distinct;
mod engine;
mod entered;
mod errors;
mod exits;
mod forks;
mod given;
mod join;
mod join_operator;
mod kernels;
mod known;
mod length;
mod operator;
mod partition;
mod plan;
mod policy;
mod progress;
mod rolling;
mod shedding;
mod sketch;
mod stream_window;
mod synchronized;
mod types;
mod user;
mod user_window;
mod wids;
mod window;
mod zone;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

use crate::memory::{Remapped, Reserve, unwind_without};

/// Bytes of a block that has grown large. The pages of smaller ones are kept for the next call.
const LARGE: usize = 256 << 20;

/// Keeps freed memory for a while: the answers of the next call then need not be requested from the kernel page by
/// page, which for long columns can cost as much as computing them. pyarrow's own default pool is the same allocator.
///
/// A block that has grown large is the system's, which moves its pages instead of copying them: a call notices no
/// signal while a block is copied.
#[global_allocator]
static ALLOCATOR: Reserve<Remapped<MiMalloc>> = Reserve::before(Remapped::before(MiMalloc, LARGE));

/// The Rust core of windowkit.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    unwind_without();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    exits::register(module)?;
    forks::register(module)?;
    module.add_class::<plan::PyPlan>()?;
    module.add_class::<plan::PyPartial>()?;
    module.add_class::<plan::PyProperties>()?;
    module.add_class::<plan::PyTimetable>()?;
    module.add_class::<plan::PyWindowTraits>()?;
    module.add_class::<user_window::PyTimeColumn>()?;
    module.add_class::<rolling::PyRolling>()?;
    module.add_class::<distinct::PyDistinct>()?;
    module.add_class::<distinct::PyDistinctOperator>()?;
    module.add_class::<distinct::PyDistinctStats>()?;
    module.add_class::<join::PyJoin>()?;
    module.add_class::<join_operator::PyJoinOperator>()?;
    module.add_class::<join_operator::PyJoinStats>()?;
    module.add_class::<join_operator::PyFollowed>()?;
    module.add_class::<join_operator::PyJoinContents>()?;
    module.add_class::<join_operator::PyWatermarks>()?;
    module.add_class::<engine::PyEngine>()?;
    module.add_class::<engine::PyBatches>()?;
    module.add_class::<synchronized::PySynchronized>()?;
    module.add_class::<entered::PyCall>()?;
    operator::register(module)?;
    module.add_class::<stream_window::PyStreamWindow>()?;
    module.add_function(wrap_pyfunction!(forks::own_work, module)?)?;
    module.add_function(wrap_pyfunction!(known::check_schema, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::sliding, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::sliding_by, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::extents, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::explain_sliding, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::explain_sliding_by, module)?)?;
    module.add_function(wrap_pyfunction!(wids::wids, module)?)?;
    module.add_function(wrap_pyfunction!(wids::extent, module)?)?;
    module.add_function(wrap_pyfunction!(zone::crosses_midnight, module)?)?;
    module.add_function(wrap_pyfunction!(zone::dates, module)?)?;
    module.add_function(wrap_pyfunction!(zone::zone_name, module)?)?;
    module.add_function(wrap_pyfunction!(types::name_types, module)?)?;
    module.add_class::<sketch::PyHyperLogLog>()?;
    partition::register(module)
}
