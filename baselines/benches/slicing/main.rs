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
mod sides;

use std::sync::Arc;

use data::Values;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts bytes, for Fig. 10.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// What to measure, and how.
#[derive(Clone)]
pub struct Options {
    json: bool,
    figures: Vec<String>,
    sides: Vec<String>,
    cells: Vec<String>,
    /// For how long a side runs.
    pub seconds: f64,
    /// How often each side runs.
    pub repeats: usize,
    /// Rows of a batch.
    pub batch: usize,
    /// Largest cells are left out.
    pub quick: bool,
    /// The manufacturing sample's column.
    pub machine: Option<Values>,
}

impl Options {
    fn parsed() -> Self {
        let mut options = Self {
            json: false,
            figures: Vec::new(),
            sides: Vec::new(),
            cells: Vec::new(),
            seconds: 0.2,
            repeats: 3,
            batch: 4096,
            quick: false,
            machine: None,
        };
        let mut arguments = std::env::args().skip(1).peekable();
        let number = |given: Option<String>, name: &str| -> f64 {
            given.and_then(|given| given.parse().ok()).unwrap_or_else(|| panic!("{name} takes a number"))
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => options.json = true,
                "--quick" => options.quick = true,
                "--figures" | "--sides" | "--cells" => {
                    let list = match argument.as_str() {
                        "--figures" => &mut options.figures,
                        "--sides" => &mut options.sides,
                        _ => &mut options.cells,
                    };
                    while let Some(name) = arguments.next_if(|next| !next.starts_with("--")) {
                        list.push(name);
                    }
                }
                "--seconds" => options.seconds = number(arguments.next(), "--seconds"),
                "--repeats" => options.repeats = number(arguments.next(), "--repeats") as usize,
                "--batch" => options.batch = number(arguments.next(), "--batch") as usize,
                "--machine" => {
                    let path = arguments.next().expect("--machine takes a path");
                    let text = std::fs::read_to_string(&path).expect("a file of integers");
                    let values = text.lines().map(|line| line.parse().expect("an integer a line")).collect();
                    options.machine = Some(Values::Given(Arc::new(values)));
                }
                // What cargo adds.
                _ => {}
            }
        }
        if options.figures.is_empty() {
            (options.quick, options.seconds, options.repeats) = (true, 0.02, 1);
        }
        options
    }

    /// Whether a figure is asked for.
    pub fn wants(&self, figure: &str) -> bool {
        self.figures.is_empty()
            || self.figures.iter().any(|asked| figure.trim_matches(char::is_alphabetic) == asked)
    }

    /// Whether a side is asked for in a place on the x axis.
    pub fn wants_side(&self, side: &str, x: &str) -> bool {
        let among = |names: &[String], name: &str| names.is_empty() || names.iter().any(|own| own == name);
        among(&self.sides, side) && among(&self.cells, x)
    }

    /// Prints what was measured of a side in a cell: of several runs, each and their median.
    pub fn print(&self, figure: &str, x: &str, side: &str, unit: &str, mut values: Vec<f64>) {
        let runs: Vec<String> = values.iter().map(|value| format!("{value:.6e}")).collect();
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        if self.json {
            println!(
                "{{\"figure\": \"{figure}\", \"x\": \"{x}\", \"side\": \"{side}\", \"unit\": \"{unit}\", \
                 \"median\": {median:.6e}, \"runs\": [{}]}}",
                runs.join(", ")
            );
        } else {
            println!("{figure:5}{x:>22}  {side:24}{median:>14.4e} {unit}");
        }
    }
}

fn main() {
    let options = Options::parsed();
    cells::throughput(&options);
    cells::bytes(&options, ALLOCATOR);
    cells::latency(&options);
    cells::recomputation(&options);
    cells::parallel(&options);
}
