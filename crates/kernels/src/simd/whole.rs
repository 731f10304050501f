//! Reductions of a whole column: one window over all of it.

use super::{Column, Element, SumOverflow, sliding_max, sliding_min, sliding_sum};

/// The answer for the single window that is the column, if it has a valid value.
fn one<T: Element, R>(
    column: Column<'_, T>,
    kernel: impl FnOnce(Column<'_, T>, usize, usize, &mut Vec<R>),
) -> Option<R> {
    let mut out = Vec::new();
    if column.has_values() {
        kernel(column, column.len(), column.len(), &mut out);
    }
    out.pop()
}

/// The least valid value.
///
/// ```
/// use windowkit_kernels::simd::{Column, reduce_min};
///
/// assert_eq!(reduce_min(Column::from(&[2.5, f64::NAN, -1.0][..])), Some(-1.0));
/// assert_eq!(reduce_min(Column::<i8>::from(&[][..])), None);
/// ```
pub fn reduce_min<T: Element>(column: Column<'_, T>) -> Option<T> {
    one(column, sliding_min)
}

/// The greatest valid value.
pub fn reduce_max<T: Element>(column: Column<'_, T>) -> Option<T> {
    one(column, sliding_max)
}

/// The sum of the valid values; 0 if there are none. Its error is that of [`sliding_sum`].
///
/// # Errors
/// A true sum that its type cannot hold.
pub fn reduce_sum<T: Element>(column: Column<'_, T>) -> Result<T::Sum, SumOverflow> {
    let mut sum = Vec::new();
    if !column.is_empty() {
        sliding_sum(column, column.len(), column.len(), &mut sum)?;
    }
    Ok(sum.pop().unwrap_or_default())
}
