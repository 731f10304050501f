//! Exact quantiles: the value of a position among a window's values, interpolated or not. Holistic.
//!
//! Positions and interpolation are those of Spark's `percentile`, to the bit, for numbers and durations.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use arrow_schema::DataType;

use super::lift::cast_to;
use super::order::Codes;
use super::sorted_runs::{SortedRun, select, values};
use super::tally::{Counter, Ordered, Runs, slide};
use crate::algebra::is_number;
use crate::dictionary::plain;
use crate::poll::Poll;
use crate::{Error, Result};

/// The type of an interpolated quantile, if values of type `input` have one.
pub(super) fn quantile_type(input: &DataType) -> Option<DataType> {
    match plain(input) {
        number if is_number(number) => Some(DataType::Float64),
        time @ (DataType::Duration(_) | DataType::Timestamp(..)) => Some(time.clone()),
        _ => None,
    }
}

/// Position among `values` values of the least whose share of values at or below it is at least `q`.
pub(super) fn discrete(values: u64, q: f64) -> u64 {
    let share = |k: u64| k as f64 / values as f64;
    let mut k = ((q * values as f64).ceil() as u64).clamp(1, values);
    // Rounding of the product must not change the result.
    while k > 1 && share(k - 1) >= q {
        k -= 1;
    }
    while k < values && share(k) < q {
        k += 1;
    }
    k - 1
}

/// Quantile `q` of the windows `ranges` of `runs`, whose ranks are those of `distinct`.
pub(super) fn quantiles<C: Codes, N: Counter>(
    codes: &C,
    distinct: &[C::Key],
    (runs, ranges): (&Runs, &[(u32, u32)]),
    q: f64,
    input: &DataType,
    poll: Poll,
) -> Result<ArrayRef> {
    let mut tally = Ordered::<N>::new(runs.distinct);
    let mut places = Vec::with_capacity(ranges.len());
    slide(runs, ranges, &mut tally, poll, |tally| places.push(between(tally, q)))?;
    interpolated(codes, distinct, &places, input)
}

/// Quantile `q` of windows, each some sorted runs.
pub(super) fn quantiles_of_runs<'a, C: Codes>(
    codes: &C,
    windows: impl Iterator<Item = &'a [Arc<SortedRun<C::Key>>]>,
    q: f64,
    input: &DataType,
) -> Result<ArrayRef> {
    let (mut places, mut found) = (Vec::new(), Vec::new());
    for runs in windows {
        places.push(position(values(runs), q).map(|(below, share)| {
            let (value, next) = select(runs, below);
            let lower = found.len() as u32;
            found.push(value);
            if share > 0.0 && value != next {
                found.push(next);
            }
            Place { lower, upper: found.len() as u32 - 1, share }
        }));
    }
    interpolated(codes, &found, &places, input)
}

/// The values at these places.
fn interpolated<C: Codes>(
    codes: &C,
    distinct: &[C::Key],
    places: &[Option<Place>],
    input: &DataType,
) -> Result<ArrayRef> {
    let output = quantile_type(input).ok_or_else(|| Error::Internal(format!("a quantile of {input}")))?;
    if output == DataType::Float64 {
        let numbers = codes.numbers(distinct)?;
        let results = places.iter().map(|place| {
            let place = place.as_ref()?;
            Some(place.interpolate(numbers[place.lower as usize], numbers[place.upper as usize]))
        });
        return Ok(Arc::new(results.collect::<Float64Array>()));
    }
    let integers = codes.integers(distinct)?;
    let is_duration = matches!(output, DataType::Duration(_));
    let results = places.iter().map(|place| {
        let place = place.as_ref()?;
        let (lower, upper) = (integers[place.lower as usize], integers[place.upper as usize]);
        let exact = |value: i64| value.unsigned_abs() < 1 << f64::MANTISSA_DIGITS;
        if is_duration && exact(lower) && exact(upper) {
            // As Spark does: in float64, truncated.
            return Some(place.interpolate(lower as f64, upper as f64) as i64);
        }
        let gap = i128::from(upper) - i128::from(lower);
        Some((i128::from(lower) + (gap as f64 * place.share).floor() as i128) as i64)
    });
    let results: ArrayRef = Arc::new(results.collect::<Int64Array>());
    cast_to(&results, &output)
}

/// The position of a quantile.
struct Place {
    /// Ranks of the two values it lies between, which may be one.
    lower: u32,
    upper: u32,
    /// Its fraction of the way from the lower to the upper.
    share: f64,
}

impl Place {
    fn interpolate(&self, lower: f64, upper: f64) -> f64 {
        if self.lower == self.upper { lower } else { lower + (upper - lower) * self.share }
    }
}

/// The position of quantile `q` among this many values: an integer, and the fraction of the way to the next.
fn position(values: u64, q: f64) -> Option<(u64, f64)> {
    let position = values.checked_sub(1)? as f64 * q;
    let below = position.floor();
    Some((below as u64, position - below))
}

/// The position of quantile `q` of a window; `None` without values.
fn between<N: Counter>(tally: &Ordered<N>, q: f64) -> Option<Place> {
    let (below, share) = position(tally.len(), q)?;
    let lower = tally.select(below);
    let upper = if share > 0.0 { tally.select(below + 1) } else { lower };
    Some(Place { lower, upper, share })
}
