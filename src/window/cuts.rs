//! The edges at which a window type needs slices cut, as far as they are known before any row.

use std::sync::Arc;

use super::known::Known;
use super::timetable::Timetable;

/// Edges that window types require.
#[derive(Debug, Default)]
pub struct Cuts {
    /// Families `{offset + k·period}`, as (period, offset).
    pub families: Vec<(i64, i64)>,
    /// Families `{from + k·period}` for k >= 0 only, as (period, from).
    pub rays: Vec<(i64, i64)>,
    /// Edges that a calendar determines, after a time if one is given.
    pub timetables: Vec<(Timetable, Option<i64>)>,
    /// Edges of windows that users define, after a time if one is given.
    pub users: Vec<(Arc<Known>, Option<i64>)>,
    /// Single edges.
    pub points: Vec<i64>,
    /// How far apart the rows of one slice may be, and the time from which on that matters.
    pub gaps: Vec<(Option<i64>, i64)>,
}

/// The first edge of a family after `t`, if it fits the range of times.
pub(super) fn next((period, offset): (i64, i64), t: i64) -> Option<i64> {
    let after = t.checked_add(1)?;
    // The distance to the previous edge may not fit 64 bits, but its remainder does.
    let beyond = (i128::from(after) - i128::from(offset)).rem_euclid(i128::from(period)) as i64;
    if beyond == 0 { Some(after) } else { after.checked_add(period - beyond) }
}
