//! Frames of rows: for each row of a group, those around it, by time or by number.
//!
//! | | |
//! |---|---|
//! | needs | rows whose times do not decrease within a group |
//! | time | O(rows): both ends of a frame only move forward |
//! | space | a range a row |
//! | first appeared | `ROWS` and `RANGE` frames of SQL:2003, ISO/IEC 9075-2, 7.11 |

use std::ops::Range;

use super::Ranges;
use crate::{Error, Result};

/// Whether a frame or window includes its two ends: of one that reaches from `a` to `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// `[a, b]`: SQL's frames.
    Both,
    /// `(a, b]`.
    Right,
    /// `[a, b)`.
    Left,
    /// `(a, b)`.
    Neither,
}

impl Closed {
    /// The ends called `name`.
    ///
    /// # Errors
    /// `InvalidValue` for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "both" => Closed::Both,
            "right" => Closed::Right,
            "left" => Closed::Left,
            "neither" => Closed::Neither,
            _ => {
                return Err(Error::InvalidValue(format!(
                    "closed: '{name}' is unknown; allowed are 'both', 'right', 'left' and 'neither'"
                )));
            }
        })
    }

    /// Whether the start is included.
    fn start(self) -> bool {
        matches!(self, Closed::Both | Closed::Left)
    }

    /// Whether the end is included.
    fn end(self) -> bool {
        matches!(self, Closed::Both | Closed::Right)
    }
}

/// What distances between rows are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time: rows at the same time are at no distance from each other.
    Time,
    /// Rows: neighbours are at a distance of 1.
    Rows,
}

/// The rows around a row: from `before` ahead of it to `after` behind it, without a bound where these are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFrame {
    /// What `before` and `after` count.
    pub unit: Unit,
    /// How far it reaches back.
    pub before: Option<u64>,
    /// How far it reaches ahead.
    pub after: Option<u64>,
    /// Which rows at exactly these distances are in it.
    pub closed: Closed,
}

impl RowFrame {
    /// Appends the frame of each row of a group, as a range of rows. The first `timeless` rows of the group have no
    /// time: they are at the same moment, before all others and infinitely far from them, as with SQL's `NULLS FIRST`.
    pub fn list(&self, times: &[i64], group: Range<usize>, timeless: usize, ranges: &mut Ranges) {
        match self.unit {
            Unit::Rows => self.by_rows(group, ranges),
            Unit::Time => {
                let split = group.start + timeless;
                self.by_time(times, group.start..split, &group, ranges);
                self.by_time(times, split..group.end, &group, ranges);
            }
        }
    }

    fn by_rows(&self, group: Range<usize>, ranges: &mut Ranges) {
        let reach = |length: Option<u64>| length.and_then(|length| usize::try_from(length).ok());
        let (before, after) = (reach(self.before), reach(self.after));
        let (first, last) = (usize::from(!self.closed.start()), usize::from(self.closed.end()));
        for row in group.clone() {
            let lo =
                before.map_or(group.start, |before| (row + first).saturating_sub(before).max(group.start));
            let hi = after.map_or(group.end, |after| (row + last).saturating_add(after).min(group.end));
            ranges.push(lo as u32, hi.max(lo) as u32);
        }
    }

    /// The frames of rows that all have a time, or all have none; bounds are found among them, and what has no bound
    /// reaches over the whole group.
    fn by_time(&self, times: &[i64], own: Range<usize>, group: &Range<usize>, ranges: &mut Ranges) {
        // The greatest distances that are within the frame; if even 0 is not, the row's peers are not in it.
        let reach = |length: u64, included: bool| if included { Some(length) } else { length.checked_sub(1) };
        let before = self.before.map(|before| reach(before, self.closed.start()));
        let after = self.after.map(|after| reach(after, self.closed.end()));
        // A difference of sorted times may be beyond int64, but not beyond uint64.
        let distance = |from: usize, to: usize| (times[to] as u64).wrapping_sub(times[from] as u64);
        let (mut lo, mut hi, mut row) = (own.start, own.start, own.start);
        while row < own.end {
            let mut peers = row + 1;
            while peers < own.end && times[peers] == times[row] {
                peers += 1;
            }
            match before {
                None => lo = group.start,
                Some(None) => lo = peers,
                Some(Some(reach)) => {
                    while distance(lo, row) > reach {
                        lo += 1;
                    }
                }
            }
            match after {
                None => hi = group.end,
                Some(None) => hi = row,
                Some(Some(reach)) => {
                    hi = hi.max(peers);
                    while hi < own.end && distance(row, hi) <= reach {
                        hi += 1;
                    }
                }
            }
            hi = hi.max(lo);
            (row..peers).for_each(|_| ranges.push(lo as u32, hi as u32));
            row = peers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn closed() -> impl Strategy<Value = Closed> {
        prop::sample::select(vec![Closed::Both, Closed::Right, Closed::Left, Closed::Neither])
    }

    proptest! {
        /// The definition: which of the rows of the group are within the frame of a row.
        #[test]
        fn frames_are_those_of_the_definition(
            mut times in prop::collection::vec(-20i64..20, 0..30), timeless in 0usize..4, from in 0usize..3,
            before in prop::option::of(0u64..12), after in prop::option::of(0u64..12), closed in closed(),
            unit in prop::sample::select(vec![Unit::Time, Unit::Rows]),
        ) {
            times.sort_unstable();
            times.splice(0..0, vec![i64::MIN; timeless]);
            let rows = times.len();
            times.splice(0..0, vec![99; from]);
            let frame = RowFrame { unit, before, after, closed };
            let mut ranges = Ranges::default();
            frame.list(&times, from..from + rows, timeless, &mut ranges);
            prop_assert_eq!(ranges.len(), rows);
            // Distances of which some are infinite.
            let place = |row: usize| match unit {
                Unit::Rows => Some(row as i64),
                Unit::Time => (row >= from + timeless).then(|| times[row]),
            };
            for (row, (lo, hi)) in (from..).zip(ranges.iter()) {
                let within = |other: &usize| {
                    let distance = match (place(*other), place(row)) {
                        (Some(other), Some(row)) => i128::from(other) - i128::from(row),
                        (None, None) => 0,
                        (None, Some(_)) => i128::MIN,
                        (Some(_), None) => i128::MAX,
                    };
                    let not_before = before.is_none_or(|before| {
                        let start = -i128::from(before);
                        if closed.start() { distance >= start } else { distance > start }
                    });
                    let not_after = after.is_none_or(|after| {
                        let end = i128::from(after);
                        if closed.end() { distance <= end } else { distance < end }
                    });
                    not_before && not_after
                };
                let want: Vec<usize> = (from..from + rows).filter(within).collect();
                prop_assert_eq!((lo..hi).collect::<Vec<_>>(), want);
            }
        }
    }
}
