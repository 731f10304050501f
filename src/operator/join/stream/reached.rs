//! How far the results are complete: individual and joint punctuation (Li 2008, Figs. 7-1 to 7-5).

use super::super::condition::Condition;
use super::super::kind::Which;
#[cfg(doc)]
use super::super::windows::Windows;

/// Up to when each side is complete, `None` if that is not known.
pub(super) type Reached = [Option<i64>; 2];

impl Condition {
    /// A time before which no row of a side is in a pair that is still to come, as the sides are complete so far.
    pub(super) fn individual(&self, side: Which, [left, right]: Reached) -> Option<i64> {
        let (own, other) = match side {
            Which::Left => (left?, right?),
            Which::Right => (right?, left?),
        };
        // A row that is still to come, or one that is stored as it has partners to come.
        Some(own.min(match self {
            Condition::Band { low, high } => match side {
                Which::Left => other.saturating_sub(*high),
                Which::Right => other.saturating_add(*low),
            },
            Condition::Windows(windows) => match windows.range(other).ok()? {
                Some((first, _)) => windows.extent(first).ok()??.0,
                // The other side is between windows.
                None => other,
            },
        }))
    }

    /// Times of both sides such that no pair with both times before these is still to come, unless such pairs do not exist
    /// right before them. (As printed, the condition of Fig. 7-3 always holds; what the text says of it does not.)
    pub(super) fn joint(&self, [left, right]: Reached) -> Option<(i64, i64)> {
        let (left, right) = (left?, right?);
        let (first, last) = self.met(Which::Left, left).ok()??;
        let (from, to) = self.places(right).ok()??;
        (first <= to && from <= last).then_some((left, right))
    }

    /// Whether a row of a side at a place can have no partner any more, as the other side is complete up to `other`.
    ///
    /// # Errors
    /// As [`Windows::is_over`].
    pub(super) fn is_over(&self, side: Which, place: i64, other: i64) -> crate::Result<bool> {
        Ok(match self {
            Condition::Band { low, high } => match side {
                Which::Left => place_before(place, *high, other),
                Which::Right => place_before(place, -*low, other),
            },
            Condition::Windows(windows) => windows.is_over(place, other)?,
        })
    }
}

/// Whether the time so far after a place is before another.
fn place_before(place: i64, distance: i64, other: i64) -> bool {
    i128::from(place) + i128::from(distance) < i128::from(other)
}
