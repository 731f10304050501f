//! The kernels by their definition, window by window.

use super::{Column, Element, Moments, SumOverflow, Validity, window_count};

fn windows<T: Element, R>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    mut answer: impl FnMut(Column<'_, T>) -> R,
) -> impl Iterator<Item = R> {
    (0..window_count(column.len(), size, slide)).map(move |k| answer(column.slice(k * slide, size)))
}

/// The least value of each window, appended to `out`; a window without values gets [`Element::GREATEST`].
pub fn sliding_min<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<T>) {
    out.extend(windows(column, size, slide, |window| reduce_min(window).unwrap_or(T::GREATEST)));
}

/// The greatest value of each window, appended to `out`; a window without values gets [`Element::LEAST`].
pub fn sliding_max<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<T>) {
    out.extend(windows(column, size, slide, |window| reduce_max(window).unwrap_or(T::LEAST)));
}

/// The sum of each window, appended to `out`; 0 for a window without values.
///
/// # Errors
/// The first window whose true sum its type cannot hold.
pub fn sliding_sum<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    out: &mut Vec<T::Sum>,
) -> Result<(), SumOverflow> {
    for (window, sum) in windows(column, size, slide, |window| reduce_sum(window)).enumerate() {
        out.push(sum.map_err(|_| SumOverflow { window })?);
    }
    Ok(())
}

/// The mean of each window, appended to `out`; NaN for a window without values.
pub fn sliding_mean<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<f64>) {
    out.extend(windows(column, size, slide, |window| reduce_mean(window).unwrap_or(f64::NAN)));
}

/// The variance of each window with `ddof` degrees of freedom taken off, appended to `out`; NaN for a window of `ddof`
/// values or fewer.
pub fn sliding_variance<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    ddof: usize,
    out: &mut Vec<f64>,
) {
    out.extend(windows(column, size, slide, |window| reduce_moments(window).variance(ddof)));
}

/// The standard deviation of each window, as [`sliding_variance`].
pub fn sliding_std<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    ddof: usize,
    out: &mut Vec<f64>,
) {
    out.extend(windows(column, size, slide, |window| reduce_moments(window).variance(ddof).sqrt()));
}

/// The position in the column of the first of the least values of each window, appended to `out`; `u64::MAX` for a
/// window without values.
pub fn sliding_arg_min<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<u64>) {
    let mut k = 0;
    out.extend(windows(column, size, slide, |window| {
        k += 1;
        reduce_arg_min(window).map_or(u64::MAX, |i| ((k - 1) * slide + i) as u64)
    }));
}

/// The position in the column of the first of the greatest values of each window, as [`sliding_arg_min`].
pub fn sliding_arg_max<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<u64>) {
    let mut k = 0;
    out.extend(windows(column, size, slide, |window| {
        k += 1;
        reduce_arg_max(window).map_or(u64::MAX, |i| ((k - 1) * slide + i) as u64)
    }));
}

/// The number of valid values in each window over `len` values, appended to `out`.
pub fn sliding_valid_count(
    validity: Validity<'_>,
    len: usize,
    size: usize,
    slide: usize,
    out: &mut Vec<i64>,
) {
    let windows = 0..window_count(len, size, slide);
    out.extend(windows.map(|k| (0..size).filter(|i| validity.get(k * slide + i)).count() as i64));
}

/// A bitmap of the windows with at least `least` valid values, appended to `out` from the lowest bit of a new byte on;
/// returns how many windows have fewer.
pub fn sliding_validity(
    validity: Validity<'_>,
    len: usize,
    size: usize,
    slide: usize,
    least: usize,
    out: &mut Vec<u8>,
) -> usize {
    let mut counts = Vec::new();
    sliding_valid_count(validity, len, size, slide, &mut counts);
    let enough = |count: &i64| *count >= least as i64;
    out.extend(
        counts.chunks(8).map(|byte| {
            byte.iter().enumerate().fold(0, |bits, (i, count)| bits | u8::from(enough(count)) << i)
        }),
    );
    counts.iter().filter(|count| !enough(count)).count()
}

/// The least valid value.
pub fn reduce_min<T: Element>(column: Column<'_, T>) -> Option<T> {
    column.valid().map(|(_, value)| value).reduce(T::lesser)
}

/// The greatest valid value.
pub fn reduce_max<T: Element>(column: Column<'_, T>) -> Option<T> {
    column.valid().map(|(_, value)| value).reduce(T::greater)
}

/// The sum of the valid values; 0 if there is none.
///
/// # Errors
/// A true sum that its type cannot hold.
pub fn reduce_sum<T: Element>(column: Column<'_, T>) -> Result<T::Sum, SumOverflow> {
    let exact = column.valid().map(|(_, value)| value.to_i128()).sum();
    let float = if T::FLOAT { column.valid().map(|(_, value)| value.to_f64()).sum() } else { 0.0 };
    (if let Some(sums) = T::floats(&mut Vec::new()) {
        sums.push(float);
        None
    } else {
        T::narrow(exact)
    })
    .ok_or(SumOverflow { window: 0 })
}

/// The mean of the valid values.
pub fn reduce_mean<T: Element>(column: Column<'_, T>) -> Option<f64> {
    let moments = reduce_moments(column);
    (moments.count > 0).then_some(moments.mean)
}

/// Count, mean and sum of squared deviations of the valid values.
pub fn reduce_moments<T: Element>(column: Column<'_, T>) -> Moments {
    let (mut count, mut mean, mut m2) = (0, 0.0, 0.0);
    for (_, value) in column.valid() {
        count += 1;
        let deviation = value.to_f64() - mean;
        mean += deviation / count as f64;
        m2 += deviation * (value.to_f64() - mean);
    }
    Moments { count, mean, m2 }
}

/// The position of the first of the least valid values.
pub fn reduce_arg_min<T: Element>(column: Column<'_, T>) -> Option<usize> {
    // The lesser of two equal values is the one seen first.
    let less = |a: T, b: T| a < b || (is_nan(b) && !is_nan(a));
    column.valid().reduce(|a, b| if less(b.1, a.1) { b } else { a }).map(|(i, _)| i)
}

/// The position of the first of the greatest valid values.
pub fn reduce_arg_max<T: Element>(column: Column<'_, T>) -> Option<usize> {
    let more = |a: T, b: T| a > b || (is_nan(a) && !is_nan(b));
    column.valid().reduce(|a, b| if more(b.1, a.1) { b } else { a }).map(|(i, _)| i)
}

#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<T: Element>(value: T) -> bool {
    value != value
}

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
    out.resize(start + column.len(), identity);
    for (i, value) in column.valid() {
        out[start + i] = value;
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
