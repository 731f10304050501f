//! The functions of sliding windows: their names, and the types they support.

use std::str::FromStr;

use arrow_schema::DataType;

use crate::algebra::{is_number, mean_type, sum_type};
use crate::types::named;
use crate::{Error, Result};

/// A function of the values in a window, nulls skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Sum; exact for integers, decimals and durations.
    Sum,
    /// Mean.
    Mean,
    /// Least value; NaN is the greatest.
    Min,
    /// Greatest value.
    Max,
    /// Number of values.
    Count,
    /// Sum of squared deviations over the number of values less `ddof`, or its root.
    Variance {
        /// Degrees of freedom subtracted.
        ddof: u32,
        /// Whether to take the root.
        root: bool,
    },
    /// Row of the first of the least values.
    ArgMin,
    /// Row of the first of the greatest values.
    ArgMax,
    /// First value.
    First,
    /// Last value.
    Last,
}

/// All functions by name; variances with one degree of freedom subtracted.
const NAMED: [(&str, Function); 11] = [
    ("sum", Function::Sum),
    ("mean", Function::Mean),
    ("min", Function::Min),
    ("max", Function::Max),
    ("count", Function::Count),
    ("var", Function::Variance { ddof: 1, root: false }),
    ("std", Function::Variance { ddof: 1, root: true }),
    ("argmin", Function::ArgMin),
    ("argmax", Function::ArgMax),
    ("first", Function::First),
    ("last", Function::Last),
];

/// Names of all functions.
pub const FUNCTIONS: [&str; NAMED.len()] = {
    let (mut names, mut at) = ([""; NAMED.len()], 0);
    while at < NAMED.len() {
        names[at] = NAMED[at].0;
        at += 1;
    }
    names
};

impl Function {
    /// The function called `name`; `ddof` is that of variances.
    ///
    /// # Errors
    /// `InvalidValue` for any other name.
    pub fn parse(name: &str, ddof: u32) -> Result<Self> {
        let named = NAMED.into_iter().find(|(other, _)| *other == name);
        let unknown = || {
            let all = FUNCTIONS.join("', '");
            Error::InvalidValue(format!("agg: '{name}' is unknown; allowed are '{all}'"))
        };
        named.map(|(_, function)| function.with(ddof)).ok_or_else(unknown)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        NAMED.iter().find(|(_, other)| *other == self.with(1)).map_or("", |(name, _)| name)
    }

    fn with(self, ddof: u32) -> Self {
        if let Function::Variance { root, .. } = self { Function::Variance { ddof, root } } else { self }
    }

    /// Whether the row that gives the answer is determined by validity alone, not by values.
    pub(super) fn is_positional(&self) -> bool {
        matches!(self, Function::Count | Function::First | Function::Last)
    }

    /// Whether an exact inverse exists for values of type `input`.
    pub(super) fn is_invertible(&self, input: &DataType) -> bool {
        match self {
            Function::Count => true,
            Function::Sum | Function::Mean => !input.is_floating(),
            _ => false,
        }
    }

    /// Whether it is one of the least or greatest value.
    pub(super) fn is_extreme(&self) -> bool {
        matches!(self, Function::Min | Function::Max | Function::ArgMin | Function::ArgMax)
    }

    /// Fewest values that have an answer.
    pub(super) fn least(&self) -> u64 {
        match self {
            Function::Count => 0,
            Function::Variance { ddof, .. } => u64::from(*ddof) + 1,
            _ => 1,
        }
    }

    /// The type of the answers over values of type `input`, dictionaries decoded.
    ///
    /// # Errors
    /// `InvalidType` if the function does not support the type.
    pub fn output_type(&self, input: &DataType) -> Result<DataType> {
        let numeric = is_number(input);
        let ordered = numeric
            || matches!(input, DataType::Boolean | DataType::Date32 | DataType::Date64)
            || matches!(input, DataType::Time32(_) | DataType::Time64(_))
            || matches!(input, DataType::Timestamp(..) | DataType::Duration(_));
        let refuse = |allowed: &str| {
            Err(Error::InvalidType(format!(
                "array: {} is not defined for values of type {input}; allowed are {allowed}",
                self.name(),
                input = named(input)
            )))
        };
        Ok(match self {
            Function::Count => DataType::Int64,
            Function::First | Function::Last => input.clone(),
            Function::Min | Function::Max if ordered => input.clone(),
            Function::ArgMin | Function::ArgMax if ordered => DataType::Int64,
            Function::Min | Function::Max | Function::ArgMin | Function::ArgMax => {
                return refuse(
                    "integers, floats, decimal128, booleans, dates, times, timestamps and durations",
                );
            }
            Function::Variance { .. } if numeric => DataType::Float64,
            Function::Variance { .. } => return refuse("integers, floats and decimal128"),
            Function::Sum | Function::Mean => {
                let output = if *self == Function::Sum { sum_type(input) } else { mean_type(input) };
                // Kernels have no sums of booleans.
                let output = output.filter(|_| *input != DataType::Boolean);
                return output.map_or_else(|| refuse("integers, floats, decimal128 and durations"), Ok);
            }
        })
    }
}

/// How windows are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// The best of the others, chosen by a rule.
    Auto,
    /// See `recalculate`.
    Recalculate,
    /// See `subtract_on_evict`.
    SubtractOnEvict,
    /// See `two_stacks`.
    TwoStacks,
    /// Two-Stacks a block at a time; see `simd`.
    TwoStacksSimd,
    /// See `tumbling`.
    Tumbling,
}

impl Algorithm {
    /// All of them, in the order of the documents.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Auto,
        Algorithm::Recalculate,
        Algorithm::SubtractOnEvict,
        Algorithm::TwoStacks,
        Algorithm::TwoStacksSimd,
        Algorithm::Tumbling,
    ];

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Algorithm::Auto => "auto",
            Algorithm::Recalculate => "recalculate",
            Algorithm::SubtractOnEvict => "subtract_on_evict",
            Algorithm::TwoStacks => "two_stacks",
            Algorithm::TwoStacksSimd => "two_stacks_simd",
            Algorithm::Tumbling => "tumbling",
        }
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            let all = Self::ALL.map(|algorithm| algorithm.name()).join("', '");
            let hint =
                if name == "daba" { "; for streams there is kernels.Window, which has 'daba'" } else { "" };
            Error::InvalidValue(format!("algorithm: '{name}' is unknown; allowed are '{all}'{hint}"))
        })
    }
}
