//! Windows over sorted times with uneven gaps, as ranges of rows.
//!
//! | | |
//! |---|---|
//! | needs | times that do not decrease within a group |
//! | time | O(rows + windows): a merge of both |
//! | space | a range a window |
//! | first appeared | as `extent()` of time-based sliding windows: Li 2008, (5.2); by row: SQL's `RANGE BETWEEN` |

use super::around::{Closed, RowFrame, Unit};
use super::frames::fits_memory;
use super::{Ranges, Segments};
use crate::{Error, Result};

/// For each row at t, the rows of its group from t - size to t; rows at the same time have the same window.
///
/// # Errors
/// `InvalidValue` unless `size` is positive and times do not decrease within a group.
pub fn row_ending(times: &[i64], segments: &Segments, size: i64, closed: Closed) -> Result<Ranges> {
    positive("size", size)?;
    ascending(times, segments)?;
    let frame = RowFrame { unit: Unit::Time, before: Some(size as u64), after: Some(0), closed, hop: None };
    let mut ranges = Ranges::with_capacity(times.len());
    for (from, to) in segments.iter() {
        frame.list(times, from..to, 0, &mut ranges);
    }
    Ok(ranges)
}

/// Windows that begin at fixed distances: their groups, starts, and rows.
#[derive(Debug, Default)]
pub struct Fixed {
    /// The group of each window.
    pub groups: Vec<i64>,
    /// The start of each window; it ends `size` later.
    pub starts: Vec<i64>,
    /// The rows of each window, at least one.
    pub ranges: Ranges,
}

/// The windows `[offset + k·slide, offset + k·slide + size)`, for every integer k, that hold a row of a group.
///
/// # Errors
/// `InvalidValue` unless size and slide are positive and times do not decrease within a group; `Overflow` if a window
/// would extend beyond the range of int64.
pub fn fixed(times: &[i64], segments: &Segments, size: i64, slide: i64, offset: i64) -> Result<Fixed> {
    positive("size", size)?;
    positive("slide", slide)?;
    ascending(times, segments)?;
    let mut windows = Fixed::default();
    let mut upper = 0u128;
    for (from, to) in segments.iter().filter(|(from, to)| from < to) {
        let (first, last) =
            (start_after(times[from], size, slide, offset), last_start(times[to - 1], slide, offset));
        if first < i128::from(i64::MIN) || last + i128::from(size) > i128::from(i64::MAX) {
            return Err(Error::Overflow(
                "times: a window would reach beyond the range of 64-bit integers; allowed are times whose windows \
                 start and end within it"
                    .into(),
            ));
        }
        let per_row = (to - from) as u128 * (size / slide + 1) as u128;
        upper += per_row.min(((last - first) / i128::from(slide) + 1).max(0) as u128);
    }
    // Groups, starts, ranges, answers.
    fits_memory(upper, 4)?;
    for (group, (from, to)) in segments.iter().enumerate().filter(|(_, (from, to))| from < to) {
        let (mut lo, mut hi) = (from, from);
        // Fits: it is no later than the first that was checked, or a row.
        let mut start = start_after(times[lo], size, slide, offset) as i64;
        loop {
            while lo < to && times[lo] < start {
                lo += 1;
            }
            if lo == to {
                break;
            }
            hi = hi.max(lo);
            while hi < to && times[hi] < start + size {
                hi += 1;
            }
            if lo == hi {
                // Nothing in this window: skip to the first one that may have rows.
                match i64::try_from(start_after(times[lo], size, slide, offset)) {
                    Ok(next) => start = next,
                    Err(_) => break,
                }
                continue;
            }
            windows.groups.push(group as i64);
            windows.starts.push(start);
            windows.ranges.push(lo as u32, hi as u32);
            match start.checked_add(slide) {
                Some(next) => start = next,
                None => break,
            }
        }
    }
    Ok(windows)
}

/// The first start of a window that ends after `time`.
fn start_after(time: i64, size: i64, slide: i64, offset: i64) -> i128 {
    let before = i128::from(time) - i128::from(size);
    let slide = i128::from(slide);
    before - (before - i128::from(offset)).rem_euclid(slide) + slide
}

/// The last start of a window at or before `time`.
fn last_start(time: i64, slide: i64, offset: i64) -> i128 {
    let time = i128::from(time);
    time - (time - i128::from(offset)).rem_euclid(slide.into())
}

fn positive(name: &str, length: i64) -> Result<()> {
    if length > 0 {
        return Ok(());
    }
    Err(Error::InvalidValue(format!("{name}: {length} is not positive; a {name} must be greater than zero")))
}

fn ascending(times: &[i64], segments: &Segments) -> Result<()> {
    for (from, to) in segments.iter() {
        if let Some(at) = times[from..to].windows(2).position(|pair| pair[1] < pair[0]) {
            let row = from + at + 1;
            return Err(Error::InvalidValue(format!(
                "times: row {row} is before row {}; times must not decrease{}; sort the rows first",
                row - 1,
                if segments.len() > 1 { " within a group" } else { "" }
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times_and_groups() -> impl Strategy<Value = (Vec<i64>, Segments)> {
        prop::collection::vec(prop::collection::vec(-40i64..40, 0..20), 1..4).prop_map(|groups| {
            let (mut times, mut offsets) = (Vec::new(), vec![0]);
            for mut group in groups {
                group.sort_unstable();
                times.extend(group);
                offsets.push(times.len() as i64);
            }
            let rows = times.len();
            (times, Segments::new(offsets.into(), rows).unwrap())
        })
    }

    proptest! {
        #[test]
        fn row_ending_windows_are_those_of_the_definition((times, segments) in times_and_groups(), size in 1i64..30) {
            for (closed, within) in [
                (Closed::Both, (|gap, size| 0 <= gap && gap <= size) as fn(i64, i64) -> bool),
                (Closed::Right, |gap, size| 0 <= gap && gap < size),
                (Closed::Left, |gap, size| 0 < gap && gap <= size),
                (Closed::Neither, |gap, size| 0 < gap && gap < size),
            ] {
                let ranges = row_ending(&times, &segments, size, closed).unwrap();
                let mut got = ranges.iter();
                for (from, to) in segments.iter() {
                    for row in from..to {
                        let want: Vec<usize> =
                            (from..to).filter(|&other| within(times[row] - times[other], size)).collect();
                        let (lo, hi) = got.next().unwrap();
                        prop_assert_eq!((lo..hi).collect::<Vec<_>>(), want);
                    }
                }
                prop_assert!(got.next().is_none());
            }
        }

        #[test]
        fn fixed_windows_are_those_that_hold_a_row(
            (times, segments) in times_and_groups(), size in 1i64..30, slide in 1i64..30, offset in -50i64..50,
        ) {
            let windows = fixed(&times, &segments, size, slide, offset).unwrap();
            let got: Vec<_> = windows
                .groups
                .iter()
                .zip(&windows.starts)
                .zip(windows.ranges.iter())
                .map(|((&group, &start), rows)| (group, start, rows.0, rows.1))
                .collect();
            let mut want = Vec::new();
            for (group, (from, to)) in segments.iter().enumerate() {
                for start in (-100..100).filter(|start| (start - offset).rem_euclid(slide) == 0) {
                    let inside = |row: &usize| start <= times[*row] && times[*row] < start + size;
                    let rows: Vec<usize> = (from..to).filter(inside).collect();
                    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                        want.push((group as i64, start, *first, last + 1));
                    }
                }
            }
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn times_at_the_ends_of_the_range() {
        let all = Segments::whole(2);
        let ranges = row_ending(&[i64::MIN, i64::MAX], &all, i64::MAX, Closed::Right).unwrap();
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 1), (1, 2)]);
        assert!(matches!(fixed(&[0, i64::MAX], &all, 10, 10, 0), Err(Error::Overflow(_))));
        assert!(matches!(fixed(&[i64::MIN, 0], &all, 10, 3, 0), Err(Error::Overflow(_))));
        let close = fixed(&[0, i64::MAX - 7], &all, 7, 7, 0).unwrap();
        assert_eq!(close.starts, [0, i64::MAX - 7]);
        assert!(fixed(&[0, 1 << 61], &all, 1 << 61, 1, 0).is_err(), "more windows than memory holds");
    }
}
