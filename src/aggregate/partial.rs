//! What slices store: the distinct partial aggregates that a query's functions are lowered from.

use arrow_schema::DataType;

use super::bytes::bytes_extrema;
use super::column::Column;
use super::count::Count;
use super::extrema::extrema;
use super::first_last::FirstLast;
use super::lift::Partials;
use super::moments::Moments;
use super::sum::sums;
use crate::dictionary::plain;
use crate::{Error, Result};

/// A kind of partial aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Partial {
    /// Number of rows.
    CountAll,
    /// Number of values.
    Count,
    /// Sum of values.
    Sum,
    /// Least value; NaN only if there is nothing else.
    Min,
    /// Greatest value; NaN is greatest.
    Max,
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
}

impl Partial {
    /// Its name towards planners.
    pub fn name(self) -> &'static str {
        match self {
            Partial::CountAll => "count_all",
            Partial::Count => "count",
            Partial::Sum => "sum",
            Partial::Min => "min",
            Partial::Max => "max",
            Partial::Moments => "moments",
            Partial::First => "first",
            Partial::Last => "last",
            Partial::FirstValid => "first_valid",
            Partial::LastValid => "last_valid",
        }
    }

    /// An empty column of this kind over values of type `input`.
    ///
    /// # Errors
    /// `InvalidType` if the kind has no meaning for that type.
    pub fn column(self, input: &DataType) -> Result<Box<dyn Partials>> {
        let refused = || Error::InvalidType(format!("{input}; allowed are {}", self.allowed()));
        Ok(match self {
            Partial::CountAll | Partial::Count => Box::new(Column::new(Count)),
            Partial::Sum => sums(plain(input)).ok_or_else(refused)?,
            Partial::Min => {
                bytes_extrema(input, false).or_else(|| extrema(input, false)).ok_or_else(refused)?
            }
            Partial::Max => {
                bytes_extrema(input, true).or_else(|| extrema(input, true)).ok_or_else(refused)?
            }
            Partial::Moments if is_number(plain(input)) => Box::new(Column::new(Moments)),
            Partial::Moments => return Err(refused()),
            Partial::First => Box::new(Column::new(FirstLast::first(input, false))),
            Partial::Last => Box::new(Column::new(FirstLast::last(input, false))),
            Partial::FirstValid => Box::new(Column::new(FirstLast::first(input, true))),
            Partial::LastValid => Box::new(Column::new(FirstLast::last(input, true))),
        })
    }

    /// Number of columns that hold this partial when it arrives from elsewhere, given the type of the values.
    pub fn state_columns(self, input: &DataType) -> usize {
        match self {
            // Two halves, so that an engine without 128-bit integers can sum them without overflow.
            Partial::Sum if matches!(input, DataType::Int64 | DataType::UInt64) => 2,
            Partial::Moments => 3,
            _ => 1,
        }
    }

    fn allowed(self) -> &'static str {
        match self {
            Partial::Sum => "integers, floats, decimal128 and durations",
            Partial::Moments => "integers, floats and decimal128",
            _ => {
                "integers, floats, decimal128, booleans, dates, times, timestamps, durations, strings and binaries"
            }
        }
    }
}

/// Integers, floats and decimals.
pub(super) fn is_number(input: &DataType) -> bool {
    input.is_integer() || input.is_floating() || matches!(input, DataType::Decimal128(..))
}
