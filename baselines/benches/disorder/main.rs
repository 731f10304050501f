//! The experiments of Li, *Window Queries over Data Streams* (2008), with windowkit's operator, window ids and buffering:
//! Figs. 6-10, 6-15, 6-19, 8-7, 8-8 and 8-11 in shape.
//!
//! `cargo bench --package windowkit-baselines --bench disorder` goes once through small cells of all figures and prints a
//! line per measurement; `-- --figures 6-10 8-8` goes through all cells of some. `--seconds 0.2` (of each side in each cell,
//! and repetition) and `--repeats 3` say how, and `--json` prints a JSON record a line, which `benchmarks/disorder.py` makes
//! a page of.

mod figures;
#[allow(dead_code, reason = "each benchmark uses a part of it")]
#[path = "../shared/mod.rs"]
mod shared;
mod sides;

use shared::Options;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts bytes.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let options = Options::parsed();
    figures::overlap(&options);
    figures::panes(&options);
    figures::groups(&options, ALLOCATOR);
    figures::flushes(&options);
    figures::sources(&options, ALLOCATOR);
}
