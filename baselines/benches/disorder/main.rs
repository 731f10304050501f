//! The experiments of Li, *Window Queries over Data Streams* (2008), with windowkit's operator, window ids and buffering:
//! Figs. 6-10, 6-15, 6-19, 8-7, 8-8 and 8-11 in shape.
//!
//! `cargo bench --package windowkit-baselines --bench disorder` goes once through small cells of all figures and prints a
//! line per measurement; `-- --figures 6-10 8-8` goes through all cells of some. `--seconds 0.2` (of each side in each cell,
//! and repetition) and `--repeats 3` say how, and `--json` prints a JSON record a line, which `benchmarks/disorder.py` makes
//! a page of.

mod figures;
mod sides;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts bytes.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// What to measure, and how.
#[derive(Clone)]
pub struct Options {
    json: bool,
    figures: Vec<String>,
    /// For how long a side runs.
    pub seconds: f64,
    /// How often each side runs.
    pub repeats: usize,
    /// Largest cells are left out.
    pub quick: bool,
}

impl Options {
    fn parsed() -> Self {
        let mut options = Self { json: false, figures: Vec::new(), seconds: 0.2, repeats: 3, quick: false };
        let mut arguments = std::env::args().skip(1).peekable();
        let number = |given: Option<String>, name: &str| -> f64 {
            given.and_then(|given| given.parse().ok()).unwrap_or_else(|| panic!("{name} takes a number"))
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => options.json = true,
                "--quick" => options.quick = true,
                "--figures" => {
                    while let Some(name) = arguments.next_if(|next| !next.starts_with("--")) {
                        options.figures.push(name);
                    }
                }
                "--seconds" => options.seconds = number(arguments.next(), "--seconds"),
                "--repeats" => options.repeats = number(arguments.next(), "--repeats") as usize,
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
        self.figures.is_empty() || self.figures.iter().any(|asked| asked == figure)
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
            println!("{figure:6}{x:>14}  {side:32}{median:>14.4e} {unit}");
        }
    }
}

fn main() {
    let options = Options::parsed();
    figures::overlap(&options);
    figures::panes(&options);
    figures::groups(&options, ALLOCATOR);
    figures::flushes(&options);
    figures::sources(&options, ALLOCATOR);
}
