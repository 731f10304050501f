//! The edges at which a window type has slices cut, as far as they are known before any row.

/// Edges that window types ask for.
#[derive(Debug, Default)]
pub struct Cuts {
    /// Families `{offset + k·period}`, as (period, offset).
    pub families: Vec<(i64, i64)>,
    /// Families `{from + k·period}` of k >= 0 only, as (period, from).
    pub rays: Vec<(i64, i64)>,
    /// Single edges.
    pub points: Vec<i64>,
    /// How far apart the rows of one slice may be, and after which time that matters.
    pub gaps: Vec<(Option<i64>, i64)>,
}

/// The first edge of a family after `t`, if it is a time.
pub(super) fn next((period, offset): (i64, i64), t: i64) -> Option<i64> {
    let after = t.checked_add(1)?;
    // The distance to the edge before may not fit 64 bits, its remainder does.
    let beyond = (i128::from(after) - i128::from(offset)).rem_euclid(i128::from(period)) as i64;
    if beyond == 0 { Some(after) } else { after.checked_add(period - beyond) }
}
