//! Frames of rows: for each row of a group, or for each of other moments, the rows around it, by time or by number.
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
    #[inline]
    pub fn start(self) -> bool {
        matches!(self, Closed::Both | Closed::Left)
    }

    /// Whether the end is included.
    #[inline]
    pub fn end(self) -> bool {
        matches!(self, Closed::Both | Closed::Right)
    }

    /// Whether what starts at `start` includes `time`, which may lie before it.
    fn begins(self, start: i64, time: i64) -> bool {
        if self.start() { start <= time } else { start < time }
    }

    /// Whether what ends at `end` includes `time`, which may lie after it.
    fn reaches(self, time: i64, end: i64) -> bool {
        if self.end() { time <= end } else { time < end }
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
    /// By time, the frame begins where `before` says, or earlier: at a multiple of so much time, at least 1.
    pub hop: Option<i64>,
}

impl RowFrame {
    /// Appends the frame of each row of a group, as a range of rows. The first `timeless` rows of the group have no
    /// time: they are at the same moment, before all others and infinitely far from them, as with SQL's `NULLS FIRST`.
    pub fn list(&self, times: &[i64], group: Range<usize>, timeless: usize, ranges: &mut Ranges) {
        match self.unit {
            Unit::Rows => self.by_rows(group.clone().map(|row| row as i64), &group, ranges),
            Unit::Time => {
                let split = group.start + timeless;
                // No hop is counted to a moment that is infinitely far away.
                let without_time = Self { hop: None, ..*self };
                for (frame, own) in [(&without_time, group.start..split), (self, split..group.end)] {
                    frame.by_time(times, own.clone(), &group, &times[own], ranges);
                }
            }
        }
    }

    /// Appends the frames of moments, which do not decrease and are no rows of the group, whose rows all have a time.
    /// By rows, a moment is at the last row that is not after it or, in a frame without its end, where a row would be
    /// that comes before all those that are not before the moment.
    pub fn list_at(&self, times: &[i64], group: Range<usize>, moments: &[i64], ranges: &mut Ranges) {
        match self.unit {
            Unit::Rows => {
                let mut next = group.start;
                let rows = moments.iter().map(|&moment| {
                    while next < group.end && self.closed.reaches(times[next], moment) {
                        next += 1;
                    }
                    next as i64 - i64::from(self.closed.end())
                });
                self.by_rows(rows, &group, ranges);
            }
            Unit::Time => self.by_time(times, group.clone(), &group, moments, ranges),
        }
    }

    fn by_rows(&self, rows: impl Iterator<Item = i64>, group: &Range<usize>, ranges: &mut Ranges) {
        let reach = |length: Option<u64>| length.and_then(|length| i64::try_from(length).ok());
        let (before, after) = (reach(self.before), reach(self.after));
        let (first, last) = (i64::from(!self.closed.start()), i64::from(self.closed.end()));
        let (start, end) = (group.start as i64, group.end as i64);
        for row in rows {
            let lo = before.map_or(start, |before| (row + first).saturating_sub(before).max(start));
            let hi = after.map_or(end, |after| (row + last).saturating_add(after).min(end));
            ranges.push(lo as u32, hi.max(lo) as u32);
        }
    }

    /// The frames of moments that all are times, or all are none, as those of the rows `own` are among which bounds are
    /// found; what has no bound reaches over the whole group.
    fn by_time(
        &self,
        times: &[i64],
        own: Range<usize>,
        group: &Range<usize>,
        moments: &[i64],
        ranges: &mut Ranges,
    ) {
        let (mut lo, mut hi) = (own.start, own.start);
        for &moment in moments {
            match self.before {
                None => lo = group.start,
                Some(before) => {
                    // Beyond int64 there are no rows.
                    if let Some(start) = self.start(moment, before) {
                        while lo < own.end && !self.closed.begins(start, times[lo]) {
                            lo += 1;
                        }
                    }
                }
            }
            match self.after {
                None => hi = group.end,
                Some(after) => match moment.checked_add_unsigned(after) {
                    None => hi = own.end,
                    Some(end) => {
                        while hi < own.end && self.closed.reaches(times[hi], end) {
                            hi += 1;
                        }
                    }
                },
            }
            hi = hi.max(lo);
            ranges.push(lo as u32, hi as u32);
        }
    }

    /// When the frame of a moment begins; `None` before all times.
    fn start(&self, moment: i64, before: u64) -> Option<i64> {
        let start = moment.checked_sub_unsigned(before)?;
        self.hop.map_or(Some(start), |hop| start.checked_sub(start.rem_euclid(hop)))
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
            unit in prop::sample::select(vec![Unit::Time, Unit::Rows]), hop in prop::option::of(1i64..9),
        ) {
            times.sort_unstable();
            times.splice(0..0, vec![i64::MIN; timeless]);
            let rows = times.len();
            times.splice(0..0, vec![99; from]);
            let frame = RowFrame { unit, before, after, closed, hop };
            let mut ranges = Ranges::default();
            frame.list(&times, from..from + rows, timeless, &mut ranges);
            prop_assert_eq!(ranges.len(), rows);
            // Places of which some are infinitely far before the others.
            let place = |row: usize| match unit {
                Unit::Rows => Some(row as i64),
                Unit::Time => (row >= from + timeless).then(|| times[row]),
            };
            for (row, (lo, hi)) in (from..).zip(ranges.iter()) {
                let within = |other: &usize| match (place(*other), place(row)) {
                    (Some(other), Some(row)) => is_in(&frame, other, row),
                    (None, None) => is_in(&frame, 0, 0),
                    (None, Some(_)) => before.is_none(),
                    (Some(_), None) => after.is_none(),
                };
                let want: Vec<usize> = (from..from + rows).filter(within).collect();
                prop_assert_eq!((lo..hi).collect::<Vec<_>>(), want);
            }
        }

        /// The definition: which rows are in the frame of a moment, where a row at it would be a peer of those there.
        #[test]
        fn frames_of_moments_are_those_of_the_definition(
            mut times in prop::collection::vec(-20i64..20, 0..30), mut moments in prop::collection::vec(-25i64..25, 0..9),
            from in 0usize..3, before in prop::option::of(0u64..12), closed in closed(),
            unit in prop::sample::select(vec![Unit::Time, Unit::Rows]), hop in prop::option::of(1i64..9),
        ) {
            times.sort_unstable();
            moments.sort_unstable();
            moments.insert(0, i64::MIN);
            let rows = times.len();
            times.splice(0..0, vec![-99; from]);
            let frame = RowFrame { unit, before, after: Some(0), closed, hop };
            let mut ranges = Ranges::default();
            frame.list_at(&times, from..from + rows, &moments, &mut ranges);
            prop_assert_eq!(ranges.len(), moments.len());
            for (&moment, (lo, hi)) in moments.iter().zip(ranges.iter()) {
                let known = |row: &usize| if closed.end() { times[*row] <= moment } else { times[*row] < moment };
                let known: Vec<usize> = (from..from + rows).filter(known).collect();
                let want: Vec<usize> = match (unit, before) {
                    (_, None) => known,
                    (Unit::Time, _) => known.into_iter().filter(|&row| is_in(&frame, times[row], moment)).collect(),
                    (Unit::Rows, Some(before)) => {
                        // As many as the frame of a row has that has enough before it.
                        let count = before as usize + usize::from(closed.start()) + usize::from(closed.end());
                        known[known.len().saturating_sub(count.saturating_sub(1))..].to_vec()
                    }
                };
                prop_assert_eq!((lo..hi).collect::<Vec<_>>(), want);
            }
        }
    }

    /// Whether a frame of a row at `row` holds a row at `other`.
    fn is_in(frame: &RowFrame, other: i64, row: i64) -> bool {
        let (other, row) = (i128::from(other), i128::from(row));
        let not_before = frame.before.is_none_or(|before| {
            let start = row - i128::from(before);
            let hop = frame.hop.filter(|_| frame.unit == Unit::Time);
            let start = hop.map_or(start, |hop| start.div_euclid(hop.into()) * i128::from(hop));
            if frame.closed.start() { other >= start } else { other > start }
        });
        let not_after = frame.after.is_none_or(|after| {
            let end = row + i128::from(after);
            if frame.closed.end() { other <= end } else { other < end }
        });
        not_before && not_after
    }

    #[test]
    fn frames_at_the_ends_of_the_range() {
        let times = [i64::MIN + 1, 0, i64::MAX];
        let frame = |closed, hop| RowFrame {
            unit: Unit::Time,
            before: Some(u64::MAX),
            after: Some(u64::MAX),
            closed,
            hop,
        };
        for (closed, hop) in [(Closed::Neither, None), (Closed::Both, Some(i64::MAX))] {
            let mut ranges = Ranges::default();
            frame(closed, hop).list(&times, 0..3, 0, &mut ranges);
            assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 3); 3]);
        }
    }
}
