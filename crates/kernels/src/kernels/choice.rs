//! Which algorithm is used, and why: the rule of `auto`, and what each of the others does not support.
//!
//! | | |
//! |---|---|
//! | needs | the function, the type of the values, the windows and the number of rows; no value is looked at |
//! | time | O(1), except for windows that are ranges: O(windows), to check whether they are disjoint |
//! | space | none |
//! | source | its own rule, by measurement (`benchmarks/kernels.py`, section `auto`); the requirements of each algorithm are from Theodorakis et al. 2018, §2.2 and §3 |
//!
//! RLE of the back stack (Theodorakis et al. 2018, §3.2 (4)) is not among them: its authors measured it to cost 9 to
//! 18 %, as its runs make each step of a flip depend on the one before.

use arrow_schema::DataType;

use super::{Algorithm, Frames, Function};
use crate::types::named;
use crate::{Error, Result};

/// The chosen algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm; `None` if the validity bitmap alone suffices.
    pub algorithm: Option<Algorithm>,
    /// The reason, as the end of a sentence.
    pub reason: &'static str,
}

/// From this many rows per window on, rows are first reduced to panes.
pub(super) const ROWS_PER_WINDOW: usize = 8;

/// Chooses for windows over `rows` values of type `input` (dictionaries decoded); `requested` is used if it supports them.
///
/// # Errors
/// `InvalidValue` if the requested algorithm does not support them.
pub fn choose(
    function: Function,
    input: &DataType,
    frames: &Frames,
    rows: usize,
    requested: Algorithm,
) -> Result<Choice> {
    let refuse = |why: String| {
        Err(Error::InvalidValue(format!(
            "algorithm: '{}' {why}; 'auto' takes one that can",
            requested.name()
        )))
    };
    let (name, disjoint) = (function.name(), frames.is_disjoint());
    let wide = matches!(input, DataType::Decimal128(..));
    // A mean of decimals or durations is a quotient of integers.
    let lanes = match function {
        Function::Variance { .. } => true,
        Function::Mean => !wide && !matches!(input, DataType::Duration(_)),
        Function::Count | Function::First | Function::Last => false,
        _ => !wide,
    };
    match requested {
        Algorithm::Auto => {}
        Algorithm::SubtractOnEvict if !function.is_invertible(input) && !function.is_extreme() => {
            return refuse(match function {
                Function::Sum | Function::Mean => {
                    format!(
                        "has no exact inverse for {name} of {input}: its error would drift along the column",
                        input = named(input)
                    )
                }
                _ => format!("needs an inverse, and {name} has none"),
            });
        }
        Algorithm::TwoStacksSimd if !lanes => {
            return refuse(if function.is_positional() {
                format!("has nothing to compute for {name}, which the validity bitmap answers")
            } else {
                let why = if wide {
                    "as integers of 128 bits are not one CPU word"
                } else {
                    "whose answer is a quotient of integers"
                };
                format!("has no lanes for {name} of {input}, {why}", input = named(input))
            });
        }
        Algorithm::Tumbling if !disjoint => {
            return refuse("is for windows that do not overlap, and these do".to_owned());
        }
        _ => {}
    }
    let chosen = |algorithm, reason| Ok(Choice { algorithm, reason });
    match requested {
        Algorithm::Auto if function.is_positional() => {
            chosen(None, "the validity bitmap answers it by itself")
        }
        Algorithm::Auto if disjoint => chosen(Some(Algorithm::Tumbling), "windows do not overlap"),
        Algorithm::Auto if !lanes && function.is_invertible(input) => chosen(
            Some(Algorithm::SubtractOnEvict),
            "integers of 128 bits have an exact inverse, and no lanes",
        ),
        Algorithm::Auto if !lanes => chosen(Some(Algorithm::TwoStacks), "integers of 128 bits have no lanes"),
        Algorithm::Auto if matches!(frames, Frames::Rolling(..)) => {
            chosen(Some(Algorithm::TwoStacksSimd), "windows overlap, and begin at equal distances")
        }
        Algorithm::Auto if rows >= ROWS_PER_WINDOW * frames.count()? => {
            chosen(Some(Algorithm::TwoStacksSimd), "windows are fewer than rows, which make panes")
        }
        Algorithm::Auto if function.is_invertible(input) => chosen(
            Some(Algorithm::SubtractOnEvict),
            "windows are as many as rows, and integers have an exact inverse",
        ),
        Algorithm::Auto => {
            chosen(Some(Algorithm::TwoStacksSimd), "windows are as many as rows, without an inverse")
        }
        requested => chosen(Some(requested), "requested"),
    }
}
