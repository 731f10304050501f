//! What slices store: the distinct partial aggregates that a query's functions are lowered from.

use arrow_schema::DataType;

use super::column::Column;
use super::estimate::Term;
use super::extrema::extrema;
use super::hyperloglog::HyperLogLogs;
use super::list::List;
use super::multiset::multisets;
use super::partials::Partials;
use super::picked::{arg_extrema, ends};
use super::sketch::Sketches;
use super::sum::{Floats, is_halved, sums};
use super::ties::{bytes_extrema, ties};
use super::user::User;
use crate::algebra::{Count, Variance, is_number, sum_type};
use crate::dictionary::plain;
use crate::poll::Poll;
use crate::types::named;
use crate::{Error, Result};

/// A kind of partial aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Partial {
    /// Number of rows.
    CountAll,
    /// Number of values.
    Count,
    /// Sum of values.
    Sum,
    /// Sum of the natural logarithms of values.
    LogSum,
    /// Least value; NaN only if there are no other values.
    Min,
    /// Greatest value; NaN is greatest.
    Max,
    /// The least value and how often it occurs.
    MinCount,
    /// The greatest value and how often it occurs.
    MaxCount,
    /// Value where another column is least.
    ArgMin,
    /// Value where another column is greatest.
    ArgMax,
    /// Count, mean and sum of squared deviations.
    Moments,
    /// Value (null or not) of the earliest row.
    First,
    /// Value (null or not) of the latest row.
    Last,
    /// Earliest value that is not null.
    FirstValid,
    /// Latest value that is not null.
    LastValid,
    /// All values, in any order, with how often each occurs.
    Values,
    /// All values with their times.
    List,
    /// All rows, of columns with these names, with their times.
    Rows(Vec<String>),
    /// A quantile sketch.
    Sketch,
    /// A sketch of distinct values, of this precision.
    HyperLogLog(u32),
    /// A sum that estimates are lowered from.
    Term(Term),
    /// The state of a user-defined function.
    User(User),
}

/// What to do with a type that functions do not support.
fn way_out(input: &DataType) -> &'static str {
    match plain(input) {
        DataType::Decimal256(..) => {
            "; decimals of more than 38 digits can be cast to decimal128, or to floats"
        }
        _ => "",
    }
}

impl Partial {
    /// Its name for planners.
    pub fn name(&self) -> &str {
        match self {
            Partial::CountAll => "count_all",
            Partial::Count => "count",
            Partial::Sum => "sum",
            Partial::LogSum => "log_sum",
            Partial::Min => "min",
            Partial::Max => "max",
            Partial::MinCount => "min_count",
            Partial::MaxCount => "max_count",
            Partial::ArgMin => "arg_min",
            Partial::ArgMax => "arg_max",
            Partial::Moments => "moments",
            Partial::First => "first",
            Partial::Last => "last",
            Partial::FirstValid => "first_valid",
            Partial::LastValid => "last_valid",
            Partial::Values => "values",
            Partial::List => "list",
            Partial::Rows(_) => "rows",
            Partial::Sketch => "sketch",
            Partial::HyperLogLog(_) => "hyperloglog",
            Partial::Term(_) => "term",
            Partial::User(user) => user.0.name(),
        }
    }

    /// An empty column of this kind over columns of types `inputs`.
    ///
    /// # Errors
    /// `InvalidType` if the kind does not support these types: the message begins with the unsupported type.
    pub fn column(&self, inputs: &[DataType], poll: Poll) -> Result<Box<dyn Partials>> {
        let input = inputs.first().unwrap_or(&DataType::Int64);
        let refused = || {
            Error::InvalidType(format!(
                "{input}; allowed are {}{}",
                self.allowed(),
                way_out(input),
                input = named(input)
            ))
        };
        let by = || {
            let by = inputs.get(1).unwrap_or(&DataType::Null);
            Error::InvalidType(format!("{} to order by; allowed are {}", named(by), self.allowed()))
        };
        let column = match self {
            Partial::CountAll | Partial::Count => return Ok(Box::new(Column::new(Count))),
            Partial::Sum => sums(plain(input)),
            Partial::LogSum if is_number(plain(input)) => {
                return Ok(Box::new(Column::new(Floats::new(true))));
            }
            Partial::Moments if is_number(plain(input)) => return Ok(Box::new(Column::new(Variance))),
            Partial::Term(term) if !term.is_of_numbers() || is_number(plain(input)) => {
                return Ok(Box::new(Column::new(Floats::new(false))));
            }
            Partial::LogSum | Partial::Moments | Partial::Term(_) => None,
            Partial::Min => bytes_extrema(input, false).or_else(|| extrema(input, false)),
            Partial::Max => bytes_extrema(input, true).or_else(|| extrema(input, true)),
            Partial::MinCount => ties(input, false),
            Partial::MaxCount => ties(input, true),
            Partial::ArgMin => {
                return inputs.get(1).and_then(|by| arg_extrema(input, by, false)).ok_or_else(by);
            }
            Partial::ArgMax => {
                return inputs.get(1).and_then(|by| arg_extrema(input, by, true)).ok_or_else(by);
            }
            Partial::First => return Ok(ends(input, false, false)),
            Partial::Last => return Ok(ends(input, true, false)),
            Partial::FirstValid => return Ok(ends(input, false, true)),
            Partial::LastValid => return Ok(ends(input, true, true)),
            Partial::Values => multisets(input, poll),
            Partial::User(user) => return user.0.column(inputs, poll),
            Partial::List => return Ok(Box::new(List::new(input, poll))),
            Partial::Rows(names) => return Ok(Box::new(List::of_rows(names, inputs, poll))),
            Partial::Sketch => {
                Sketches::new(input).map(|sketches| -> Box<dyn Partials> { Box::new(sketches) })
            }
            Partial::HyperLogLog(precision) => {
                HyperLogLogs::new(input, *precision).map(|column| -> Box<dyn Partials> { Box::new(column) })
            }
        };
        column.ok_or_else(refused)
    }

    /// Number of columns that hold this partial when it arrives from elsewhere, given the type of the values.
    pub fn state_columns(&self, input: &DataType) -> usize {
        match self {
            // Two halves, or a sum of floats and the rounding errors of its additions.
            Partial::Sum => {
                let number = plain(input);
                let is_float = sum_type(number) == Some(DataType::Float64);
                if is_float || is_halved(number) { 2 } else { 1 }
            }
            Partial::LogSum | Partial::Term(_) => 2,
            Partial::Moments => 4,
            Partial::ArgMin | Partial::ArgMax => 3,
            Partial::MinCount | Partial::MaxCount => 2,
            Partial::First | Partial::Last | Partial::FirstValid | Partial::LastValid => 2,
            Partial::Values | Partial::List | Partial::Rows(_) => 2,
            Partial::User(user) => user.0.state_columns(),
            // The laws compare these numbers with the states.
            _ => 1,
        }
    }

    /// Number of the leading state columns that have the types of the inputs, in their order.
    pub(crate) fn states_like_inputs(&self) -> usize {
        use Partial::*;
        match self {
            Min | Max | First | Last | FirstValid | LastValid => 1,
            ArgMin | ArgMax => 2,
            CountAll | Count | Sum | LogSum | MinCount | MaxCount | Moments | Values | List | Rows(_)
            | Sketch | HyperLogLog(_) | Term(_) | User(_) => 0,
        }
    }

    fn allowed(&self) -> &'static str {
        match self {
            Partial::Sum => "integers, floats, decimal128, booleans and durations",
            Partial::Moments | Partial::LogSum | Partial::Term(_) => "integers, floats and decimal128",
            Partial::Sketch => "integers, floats, booleans, dates, times, timestamps and durations",
            Partial::HyperLogLog(_) => {
                "integers, floats, booleans, dates, times, timestamps, durations, strings and binaries"
            }
            Partial::Min
            | Partial::Max
            | Partial::MinCount
            | Partial::MaxCount
            | Partial::ArgMin
            | Partial::ArgMax
            | Partial::Values => {
                "numbers, booleans, dates, times, timestamps, durations, strings, binaries, and structs and lists of \
                 these"
            }
            Partial::CountAll
            | Partial::Count
            | Partial::First
            | Partial::Last
            | Partial::FirstValid
            | Partial::LastValid
            | Partial::List
            | Partial::Rows(_) => "all types",
            Partial::User(_) => "what the function takes",
        }
    }
}
