//! The functions that a query names, and how each is lowered from partials.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::lift::Partials;
use super::mean::{mean, mean_type};
use super::moments::variance;
use super::partial::{Partial, is_number};
use super::sum::sum_type;
use crate::dictionary::{plain, widened};
use crate::{Error, Result};

/// An aggregate function by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Lowered as its partial is.
    Plain(Partial),
    /// Sum over count.
    Mean,
    /// Variance, or its root, over `n - 1` if `sample`, else over `n`.
    Variance {
        /// Divide by one less than the number of values.
        sample: bool,
        /// Take the square root.
        root: bool,
    },
}

impl Function {
    /// Names that [`Function::parse`] knows.
    pub const NAMES: [&'static str; 14] = [
        "count_all",
        "count",
        "sum",
        "min",
        "max",
        "mean",
        "var_samp",
        "var_pop",
        "stddev_samp",
        "stddev_pop",
        "first",
        "last",
        "first_valid",
        "last_valid",
    ];

    /// The function of this name.
    ///
    /// # Errors
    /// `InvalidValue` for a name outside [`Function::NAMES`].
    pub fn parse(name: &str) -> Result<Self> {
        use Partial::*;
        Ok(match name {
            "count_all" => Function::Plain(CountAll),
            "count" => Function::Plain(Count),
            "sum" => Function::Plain(Sum),
            "min" => Function::Plain(Min),
            "max" => Function::Plain(Max),
            "first" => Function::Plain(First),
            "last" => Function::Plain(Last),
            "first_valid" => Function::Plain(FirstValid),
            "last_valid" => Function::Plain(LastValid),
            "mean" => Function::Mean,
            "var_samp" => Function::Variance { sample: true, root: false },
            "var_pop" => Function::Variance { sample: false, root: false },
            "stddev_samp" => Function::Variance { sample: true, root: true },
            "stddev_pop" => Function::Variance { sample: false, root: true },
            _ => {
                return Err(Error::InvalidValue(format!(
                    "aggs: '{name}' is no aggregate function; allowed are {}",
                    Self::NAMES.join(", ")
                )));
            }
        })
    }

    /// Whether the function reads a column.
    pub fn needs_column(self) -> bool {
        self != Function::Plain(Partial::CountAll)
    }

    /// The partials it is lowered from, in the order that [`Function::lower`] takes them.
    pub fn partials(self) -> &'static [Partial] {
        use Partial::*;
        match self {
            Function::Plain(CountAll) => &[CountAll],
            Function::Plain(Count) => &[Count],
            Function::Plain(Sum) => &[Sum],
            Function::Plain(Min) => &[Min],
            Function::Plain(Max) => &[Max],
            Function::Plain(First) => &[First],
            Function::Plain(Last) => &[Last],
            Function::Plain(FirstValid) => &[FirstValid],
            Function::Plain(LastValid) => &[LastValid],
            Function::Mean => &[Sum, Count],
            Function::Variance { .. } | Function::Plain(Moments) => &[Moments],
        }
    }

    /// The type of its result over values of type `input`.
    ///
    /// # Errors
    /// `InvalidType` if the function has no meaning for that type; the message says which are allowed.
    pub fn output_type(self, input: &DataType) -> Result<DataType> {
        for partial in self.partials() {
            partial.column(input)?;
        }
        let refused = || Error::InvalidType(format!("{input}; allowed are integers, floats and decimal128"));
        Ok(match self {
            Function::Plain(Partial::CountAll | Partial::Count) => DataType::Int64,
            Function::Plain(Partial::Sum) => sum_type(plain(input)).ok_or_else(refused)?,
            Function::Plain(_) => widened(input),
            Function::Mean => mean_type(plain(input)).ok_or_else(refused)?,
            Function::Variance { .. } if is_number(plain(input)) => DataType::Float64,
            Function::Variance { .. } => return Err(refused()),
        })
    }

    /// Whether a result can be null.
    pub fn nullable(self) -> bool {
        !matches!(self, Function::Plain(Partial::CountAll | Partial::Count))
    }

    /// Results of all slots of these partials, over values of type `input`.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type.
    pub fn lower(self, partials: &[&dyn Partials], input: &DataType) -> Result<ArrayRef> {
        match (self, partials) {
            (Function::Plain(_), [own]) => own.lower(),
            (Function::Mean, [sums, counts]) => mean(*sums, *counts, plain(input)),
            (Function::Variance { sample, root }, [moments]) => variance(*moments, sample, root),
            _ => Err(Error::Internal(format!("{self:?} does not lower {} partials", partials.len()))),
        }
    }
}
