//! Ids of windows: the window ids of Li 2008, §5.1, as numbers that the type alone determines, whatever rows there are.
//!
//! | | |
//! |---|---|
//! | needs | a type whose extents are known in advance |
//! | time | O(1) per row and per id |
//! | source | Li 2008, Eq. 5.1-5.3, 5.7-5.9; §6.1.3.1 (the Bucket operator tags a row with a range of ids) |
//!
//! Li counts windows from the stream's least time, which only its rows determine. Here a given time takes its place, so
//! that ids are the same in every stream, and may be negative where windows have no beginning.

use arrow_buffer::{NullBuffer, NullBufferBuilder};

use super::rules::Rules;
use crate::poll::{PIECE, Poll};
use crate::{Error, Result};

/// A number does not fit 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beyond;

/// `(first, last)` or `[start, end)`; none for rows in no window, and for ids of none.
pub type Range = std::result::Result<Option<(i64, i64)>, Beyond>;

/// A window type whose windows have ids. Consecutive ids have consecutive windows, and a row is in those of one range.
///
/// `zero` is where the window with id 0 begins, for types that have windows at all distances from it.
pub trait Ids: Rules {
    /// The first and the last id of the windows that a row at `t` is in: `wids`.
    ///
    /// # Errors
    /// [`Beyond`] if an id, or an edge of one of the windows, does not fit 64 bits.
    fn ids_at(&self, t: i64, zero: i64) -> Range;

    /// `[start, end)` of a window.
    ///
    /// # Errors
    /// [`Beyond`] if one of them does not fit 64 bits.
    fn extent_of(&self, id: i64, zero: i64) -> Range;

    /// [`Ids::ids_at`] of a column; none under nulls.
    ///
    /// # Errors
    /// What `beyond` makes of a time; that of `poll`, which is called between pieces of the column.
    fn ids_of_all(
        &self,
        times: &[i64],
        nulls: Option<&NullBuffer>,
        zero: i64,
        beyond: &dyn Fn(i64) -> Error,
        poll: Poll,
    ) -> Result<Ranges> {
        // Rows that close to the ends are refused by queries, too.
        let (least, most) = (i64::MIN + self.reach(), i64::MAX - self.reach());
        let at = |t| if least <= t && t <= most { self.ids_at(t, zero) } else { Err(Beyond) };
        Ranges::of(times, nulls, at, beyond, poll)
    }

    /// [`Ids::extent_of`] of a column; none under nulls.
    ///
    /// # Errors
    /// What `beyond` makes of an id; that of `poll`.
    fn extents_of_all(
        &self,
        ids: &[i64],
        nulls: Option<&NullBuffer>,
        zero: i64,
        beyond: &dyn Fn(i64) -> Error,
        poll: Poll,
    ) -> Result<Ranges> {
        Ranges::of(ids, nulls, |id| self.extent_of(id, zero), beyond, poll)
    }
}

/// Two columns of one length: 0 where they are null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    /// First ids, or starts.
    pub from: Vec<i64>,
    /// Last ids, or ends.
    pub to: Vec<i64>,
    /// Where there are none.
    pub nulls: Option<NullBuffer>,
}

impl Ranges {
    fn of(
        values: &[i64],
        nulls: Option<&NullBuffer>,
        each: impl Fn(i64) -> Range,
        beyond: &dyn Fn(i64) -> Error,
        poll: Poll,
    ) -> Result<Self> {
        let (mut from, mut to) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
        let mut valid = NullBufferBuilder::new(values.len());
        for (row, &value) in values.iter().enumerate() {
            if row % PIECE == PIECE - 1 {
                poll()?;
            }
            let range = match nulls {
                Some(nulls) if nulls.is_null(row) => None,
                _ => each(value).map_err(|_| beyond(value))?,
            };
            valid.append(range.is_some());
            let (first, last) = range.unwrap_or_default();
            from.push(first);
            to.push(last);
        }
        Ok(Self { from, to, nulls: valid.finish() })
    }
}

/// How many steps lie between two places, if it is a whole number.
#[inline]
pub(super) fn steps(from: i64, to: i64, step: i64) -> std::result::Result<i64, Beyond> {
    match to.checked_sub(from) {
        Some(distance) => Ok(distance / step),
        // The distance does not fit 64 bits, but their number may.
        None => i64::try_from((i128::from(to) - i128::from(from)) / i128::from(step)).map_err(|_| Beyond),
    }
}

/// The place so many steps from another.
#[inline]
pub(super) fn stepped(from: i64, steps: i128, step: i64) -> std::result::Result<i64, Beyond> {
    i64::try_from(i128::from(from) + steps * i128::from(step)).map_err(|_| Beyond)
}

#[cfg(test)]
mod tests {
    use super::super::band::Band;
    use super::super::landmark::Landmark;
    use super::super::sliding::Sliding;
    use super::*;
    use crate::poll::never;
    use proptest::prelude::*;

    /// Any type with ids, in small numbers, and where its window 0 begins.
    fn any_window() -> impl Strategy<Value = (Box<dyn Ids>, i64)> {
        let (length, place) = (1i64..12, -20i64..20);
        prop_oneof![
            (length.clone(), length.clone(), place.clone()).prop_map(|(a, b, zero)| -> (Box<dyn Ids>, i64) {
                (Box::new(Sliding::new(a.max(b), a.min(b), zero)), zero)
            }),
            (length.clone(), 1i64..5, place.clone()).prop_map(
                |(every, times, zero)| -> (Box<dyn Ids>, i64) {
                    (Box::new(Landmark::each(every, every * times, zero)), zero)
                }
            ),
            (length.clone(), place.clone()).prop_map(|(every, start)| -> (Box<dyn Ids>, i64) {
                (Box::new(Landmark::at(every, start)), 0)
            }),
            (length, place).prop_map(|(size, start)| -> (Box<dyn Ids>, i64) {
                (Box::new(Band::new(start, start + size)), 0)
            }),
        ]
    }

    proptest! {
        /// A row is in a window's extent if and only if the window's id is among the row's.
        #[test]
        fn ids_are_those_whose_extents_cover((window, zero) in any_window(), t in -60i64..60) {
            let range = window.ids_at(t, zero).unwrap();
            for id in -150..150 {
                let covers = window.extent_of(id, zero).unwrap().is_some_and(|(start, end)| start <= t && t < end);
                let among = range.is_some_and(|(first, last)| first <= id && id <= last);
                prop_assert_eq!(covers, among, "id {} of {:?}", id, range);
            }
        }

        /// Whatever is given, nothing overflows unnoticed: extents have their length.
        #[test]
        fn nothing_wraps(
            (window, zero) in any_window(),
            value in prop_oneof![any::<i64>(), (0i64..40).prop_map(|d| i64::MIN + d), (0i64..40).prop_map(|d| i64::MAX - d)],
        ) {
            let refuse = |_: i64| Error::Overflow(String::new());
            if let Ok(found) = window.ids_of_all(&[value], None, zero, &refuse, never)
                && found.nulls.is_none()
            {
                prop_assert!(found.from[0] <= found.to[0]);
                for id in [found.from[0], found.to[0]].into_iter().filter(|&id| id < i64::MAX) {
                    let (start, end) = window.extent_of(id, zero).unwrap().unwrap();
                    prop_assert!(start <= value && value < end);
                }
            }
            if let Ok(Some((start, end))) = window.extent_of(value, zero) {
                prop_assert!(start < end);
            }
        }
    }

    #[test]
    fn nulls_are_none_whatever_lies_under_them() {
        let nulls = NullBuffer::from(vec![true, false, true]);
        let refuse = |t: i64| Error::Overflow(t.to_string());
        let window = Sliding::new(10, 5, 0);
        let found = window.ids_of_all(&[7, i64::MAX, -1], Some(&nulls), 0, &refuse, never).unwrap();
        assert_eq!(found, Ranges { from: vec![0, 0, -2], to: vec![1, 0, -1], nulls: Some(nulls) });
        assert_eq!(
            window.ids_of_all(&[i64::MAX], None, 0, &refuse, never),
            Err(Error::Overflow(i64::MAX.to_string()))
        );
    }
}
