//! The experiments of Traub et al. 2019, §6, with windowkit's operator and every baseline: Figs. 8 to 17 in shape.
//!
//! `cargo bench --package windowkit-baselines --bench slicing` goes once through the smaller cells of all figures and prints a
//! line per measurement; `-- --figures 8 9` goes through all cells of some, `--sides cutty "slicing eager"` and
//! `--cells 20 100` through those of some sides and places on the x axis only. `--seconds 0.2` (of each side in each cell,
//! and repetition), `--repeats 3`, `--batch 4096` and `--machine PATH` (integers, one a line) say how, and `--json` prints
//! a JSON record a line, which `benchmarks/slicing.py` makes a page of. Criterion repeats a function of one size; here a side
//! runs for as long as it is given, whatever it does in that time.

mod cells;
mod data;
#[allow(dead_code, reason = "each benchmark uses a part of it")]
#[path = "../shared/mod.rs"]
mod shared;
mod sides;

use std::sync::Arc;

use data::Values;
use shared::Options;
use shared::options::{given, number};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts bytes, for Fig. 10.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Options, some of this benchmark alone.
pub struct Given {
    /// Options of both benchmarks.
    pub options: Options,
    /// Rows of a batch.
    pub batch: usize,
    /// The manufacturing sample's column.
    pub machine: Option<Values>,
}

/// The column in a file of integers, one a line.
fn column(path: &str) -> Values {
    let text = std::fs::read_to_string(path).expect("a file of integers");
    Values::Given(Arc::new(text.lines().map(|line| line.parse().expect("an integer a line")).collect()))
}

fn main() {
    let machine = given("--machine").map(|given| column(given.first().expect("--machine takes a path")));
    let given = Given { options: Options::parsed(), batch: number("--batch", 4096), machine };
    cells::throughput(&given);
    cells::bytes(&given, ALLOCATOR);
    cells::latency(&given.options);
    cells::recomputation(&given.options);
    cells::parallel(&given);
}
