//! Scans of a column and the filling of its nulls, for windows that no kernel knows: a flip over windows of uneven sizes is
//! a suffix scan of what is in the window and a prefix scan of what follows.
//!
//! | | |
//! |---|---|
//! | needs | extrema: a total order, of which NaN is the greatest; sums: rounding to nearest |
//! | time | O(1) per value: a scalar comparison or error-free addition, each after the one before; nulls are filled by SIMD |
//! | space | an answer per value, two for sums |
//! | first appeared | as the flip of Two-Stacks (see `two_stacks`); sums in two parts are Knuth, *The Art of Computer Programming* 2, §4.2.2, 1969, and Dekker, *Numerische Mathematik* 18, 1971 |

use super::element;
use super::level::dispatch;
use super::stream::Fill;
use super::{Column, Element};

/// `out[i]` is the least of `values[..=i]`; appended.
pub fn prefix_min<T: Element>(values: &[T], out: &mut Vec<T>) {
    out.extend(values.iter().scan(T::GREATEST, |least, &value| {
        *least = least.lesser(value);
        Some(*least)
    }));
}

/// `out[i]` is the greatest of `values[..=i]`; appended.
pub fn prefix_max<T: Element>(values: &[T], out: &mut Vec<T>) {
    out.extend(values.iter().scan(T::LEAST, |most, &value| {
        *most = most.greater(value);
        Some(*most)
    }));
}

/// `out[i]` is the least of `values[i..]`; appended.
pub fn suffix_min<T: Element>(values: &[T], out: &mut Vec<T>) {
    let start = out.len();
    out.extend(values.iter().rev().scan(T::GREATEST, |least, &value| {
        *least = least.lesser(value);
        Some(*least)
    }));
    out[start..].reverse();
}

/// `out[i]` is the greatest of `values[i..]`; appended.
pub fn suffix_max<T: Element>(values: &[T], out: &mut Vec<T>) {
    let start = out.len();
    out.extend(values.iter().rev().scan(T::LEAST, |most, &value| {
        *most = most.greater(value);
        Some(*most)
    }));
    out[start..].reverse();
}

/// The valid values, and `identity` for each null; appended to `out`.
pub fn fill_nulls<T: Element>(column: Column<'_, T>, identity: T, out: &mut Vec<T>) {
    let start = out.len();
    out.extend_from_slice(column.values);
    if let Some(validity) = column.validity {
        let into = element::keys_mut(&mut out[start..]);
        dispatch(Fill { keys: element::keys(column.values), validity, fill: identity.key(), into });
    }
}

/// `hi[i] + lo[i]` is the sum of `values[..=i]`, to about twice the precision of an `f64`; appended.
///
/// `hi` alone is the plain sum in `f64`, with its infinities and NaN; where it is not finite, `lo` is NaN.
pub fn prefix_sum<T: Element>(values: &[T], hi: &mut Vec<f64>, lo: &mut Vec<f64>) {
    let (mut sum, mut rest) = (0.0, 0.0);
    for value in values {
        (sum, rest) = add(sum, rest, value.to_f64());
        hi.push(sum);
        lo.push(rest);
    }
}

/// `hi[i] + lo[i]` is the sum of `values[i..]`, as [`prefix_sum`].
pub fn suffix_sum<T: Element>(values: &[T], hi: &mut Vec<f64>, lo: &mut Vec<f64>) {
    let (mut sum, mut rest) = (0.0, 0.0);
    let start = (hi.len(), lo.len());
    for value in values.iter().rev() {
        (sum, rest) = add(sum, rest, value.to_f64());
        hi.push(sum);
        lo.push(rest);
    }
    hi[start.0..].reverse();
    lo[start.1..].reverse();
}

/// `sum + rest + value`, the rounding error of the sum kept in the rest (Knuth's TwoSum).
#[inline(always)]
fn add(sum: f64, rest: f64, value: f64) -> (f64, f64) {
    let total = sum + value;
    let part = total - sum;
    (total, rest + ((sum - (total - part)) + (value - part)))
}
