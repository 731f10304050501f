//! The command line.

use std::str::FromStr;

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
    /// Largest cells are left out.
    pub quick: bool,
}

impl Options {
    /// Those given; without figures, a quick run of all.
    pub fn parsed() -> Self {
        let list = |name: &str| given(name).unwrap_or_default();
        let figures = list("--figures");
        let (quick, seconds, repeats) = match figures.is_empty() {
            true => (true, 0.02, 1),
            false => (given("--quick").is_some(), number("--seconds", 0.2), number("--repeats", 3)),
        };
        let json = given("--json").is_some();
        Self { json, figures, sides: list("--sides"), cells: list("--cells"), seconds, repeats, quick }
    }

    /// Whether a figure is asked for.
    pub fn wants(&self, figure: &str) -> bool {
        among(&self.figures, figure)
    }

    /// Whether a side is asked for in a place on the x axis.
    pub fn wants_side(&self, side: &str, x: &str) -> bool {
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
            println!("{figure:6}{x:>22}  {side:32}{median:>14.4e} {unit}");
        }
    }
}

fn among(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|own| own == name)
}

/// What follows an option, up to the next one; `None` if it is not given.
pub fn given(name: &str) -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1).skip_while(|argument| argument != name);
    arguments.next()?;
    Some(arguments.take_while(|argument| !argument.starts_with("--")).collect())
}

/// The number that follows an option.
pub fn number<N: FromStr>(name: &str, default: N) -> N {
    let parsed = |given: Vec<String>| given.first().and_then(|given| given.parse().ok());
    given(name).map_or(default, |given| parsed(given).unwrap_or_else(|| panic!("{name} takes a number")))
}
