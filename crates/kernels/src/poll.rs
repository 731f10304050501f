//! Work that takes seconds for one key or one column, which no caller can divide: it is done in pieces, and between two
//! of them it calls a function of the caller, which may end it.
//!
//! | | |
//! |---|---|
//! | needs | a function that is cheap; who asks, and how often, is its affair |
//! | time | one call per some hundred thousand steps |
//! | space | none |
//!
//! Sorting is done in pieces, since the library's sorts call nobody, and a call in each comparison would slow them down.

use crate::Result;

/// What is called between pieces of work: an error ends it.
pub type Poll = fn() -> Result<()>;

/// For callers who wait for the end.
///
/// # Errors
/// None.
pub fn never() -> Result<()> {
    Ok(())
}

/// Elements that are sorted, or simple steps that are done, without a call.
pub const PIECE: usize = 1 << 19;

/// Counts simple steps, and calls a function of the caller between pieces of them.
pub struct Pieces {
    poll: Poll,
    left: usize,
}

impl Pieces {
    /// Steps that are about to begin.
    pub fn new(poll: Poll) -> Self {
        Self { poll, left: PIECE }
    }

    /// Counts these steps.
    ///
    /// # Errors
    /// That of the caller's function.
    #[inline]
    pub fn count(&mut self, steps: usize) -> Result<()> {
        if steps < self.left {
            self.left -= steps;
            return Ok(());
        }
        self.left = PIECE;
        (self.poll)()
    }
}

/// A list of equal values: memory that is used for the first time is as slow as work.
///
/// # Errors
/// That of `poll`.
pub fn filled<T: Copy>(len: usize, value: T, poll: Poll) -> Result<Vec<T>> {
    let mut values = Vec::with_capacity(len);
    while values.len() < len {
        poll()?;
        values.resize(len.min(values.len() + PIECE), value);
    }
    Ok(values)
}

/// Sorts values of which no two are equal.
///
/// # Errors
/// That of `poll`; the values are in some order then.
pub fn sort_unstable<T: Copy + Ord>(values: &mut [T], poll: Poll) -> Result<()> {
    sort(values, &|&value| value, &|piece| piece.sort_unstable(), poll)
}

/// Sorts values by a key, in any order where keys are equal. A few values are sorted by a sort that uses the runs it
/// finds.
///
/// # Errors
/// That of `poll`; the values are in some order then.
pub fn sort_by_key<T: Copy, K: Ord>(values: &mut [T], key: impl Fn(&T) -> K, poll: Poll) -> Result<()> {
    sort(values, &key, &|piece| piece.sort_by_key(&key), poll)
}

fn sort<T: Copy, K: Ord>(
    values: &mut [T],
    key: &impl Fn(&T) -> K,
    piecewise: &impl Fn(&mut [T]),
    poll: Poll,
) -> Result<()> {
    if values.len() > PIECE && values.is_sorted_by_key(key) {
        return Ok(());
    }
    // As deep as if half of the pivots were bad.
    part(values, key, piecewise, poll, 2 * usize::BITS - 2 * values.len().leading_zeros())
}

/// Quicksort, down to pieces that the library sorts.
fn part<T: Copy, K: Ord>(
    values: &mut [T],
    key: &impl Fn(&T) -> K,
    piecewise: &impl Fn(&mut [T]),
    poll: Poll,
    depth: u32,
) -> Result<()> {
    if values.len() <= PIECE || depth == 0 {
        piecewise(values);
        return Ok(());
    }
    poll()?;
    let mut sample: Vec<T> = values.iter().step_by(values.len() / 63).copied().collect();
    sample.sort_unstable_by_key(key);
    let pivot = key(&sample[sample.len() / 2]);
    let before = parted(values, |value| key(value) < pivot);
    if before > 0 {
        part(&mut values[..before], key, piecewise, poll, depth - 1)?;
        poll()?;
        return part(&mut values[before..], key, piecewise, poll, depth - 1);
    }
    // The pivot is the least: all values that equal it come first.
    let equal = parted(values, |value| key(value) <= pivot);
    part(&mut values[equal..], key, piecewise, poll, depth - 1)
}

/// Moves the values for which this holds before the others, without a branch to predict; returns how many these are.
fn parted<T: Copy>(values: &mut [T], holds: impl Fn(&T) -> bool) -> usize {
    let mut before = 0;
    for at in 0..values.len() {
        let value = values[at];
        values.swap(at, before);
        before += usize::from(holds(&value));
    }
    before
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Error;

    #[test]
    fn values_are_sorted_however_they_come() {
        let many = 2 * PIECE as u64 + 17;
        let noise = |at: u64| (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let orders: [&dyn Fn(u64) -> u64; 6] =
            [&noise, &|at| at, &|at| many - at, &|_| 7, &|at| noise(at) % 3, &|at| {
                if at % 2 == 0 { at } else { 0 }
            }];
        for order in orders {
            let mut values: Vec<(u64, u64)> = (0..many).map(|at| (order(at), at)).collect();
            let mut wanted = values.clone();
            let mut by_key = values.clone();
            sort_unstable(&mut values, never).unwrap();
            sort_by_key(&mut by_key, |value| value.0, never).unwrap();
            wanted.sort();
            assert!(values == wanted);
            assert!(by_key.is_sorted_by_key(|value| value.0));
            by_key.sort();
            assert!(by_key == wanted);
        }
        // Bad pivots make it no quadratic sort.
        let mut values: Vec<u64> = (0..many).map(noise).collect();
        part(&mut values, &|&value| value, &|piece: &mut [u64]| piece.sort_unstable(), never, 0).unwrap();
        assert!(values.is_sorted());
    }

    #[test]
    fn lists_are_filled_in_pieces() {
        for len in [0, 1, PIECE, 2 * PIECE + 17] {
            assert!(filled(len, 7, never).is_ok_and(|values| values == vec![7; len]));
        }
        let fails = || Err(Error::InvalidValue("enough".into()));
        assert!(filled(PIECE, 7, fails).is_err());
    }

    #[test]
    fn a_long_sort_ends_with_the_error_of_its_caller() {
        thread_local!(static CALLS: Cell<u32> = const { Cell::new(0) });
        fn second() -> Result<()> {
            CALLS.set(CALLS.get() + 1);
            if CALLS.get() < 2 { Ok(()) } else { Err(Error::InvalidValue("enough".into())) }
        }
        let values = |many: usize| -> Vec<u64> { (0..many as u64).rev().collect() };
        let mut long = values(4 * PIECE);
        assert_eq!(sort_unstable(&mut long, second), Err(Error::InvalidValue("enough".into())));
        assert_eq!(CALLS.get(), 2);
        // No value is lost.
        sort_by_key(&mut long, |&value| value, never).unwrap();
        assert_eq!(long, (0..4 * PIECE as u64).collect::<Vec<_>>());
        assert_eq!(sort_unstable(&mut values(PIECE), second), Ok(()));
    }
}
