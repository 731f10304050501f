//! Which rows of one key are partners: those at most so far from each other, or those that share a window.

use arrow_buffer::NullBuffer;

use super::kind::Which;
use super::windows::{Span, Windows};
use crate::kernels::Closed;
use crate::operator::length::length;
use crate::operator::window_spec::{Length, WindowSpec};
use crate::window::Measure;
use crate::{Error, Result};

/// Places that the rows of one batch may have: some gigabytes where they are stored.
const MOST: i128 = 100_000_000;

/// Which rows are partners, as a join states it.
#[derive(Clone)]
pub enum ConditionSpec {
    /// A row of the right side from `before` before the time of a row of the left side to `after` after it.
    Band {
        /// How far it reaches back.
        before: Length,
        /// How far it reaches ahead.
        after: Length,
        /// Whether it includes its ends.
        closed: Closed,
    },
    /// Rows in one window, once for each window that they share.
    Windows(WindowSpec),
}

/// Which rows are partners, in units of the time columns.
#[derive(Debug)]
pub(super) enum Condition {
    /// `left + low <= right <= left + high`.
    Band {
        low: i64,
        high: i64,
    },
    Windows(Windows),
}

impl Condition {
    pub(super) fn bind(spec: &ConditionSpec, measure: &Measure) -> Result<Self> {
        let (before, after, closed) = match spec {
            ConditionSpec::Windows(window) => {
                return Ok(Condition::Windows(Windows::bind(window, measure.clone())?));
            }
            ConditionSpec::Band { before, after, closed } => (before, after, closed),
        };
        let bind = |reach: &Length| length(measure, "within", *reach);
        let (low, high) =
            (-bind(before)? + i64::from(!closed.start()), bind(after)? - i64::from(!closed.end()));
        if low > high {
            return Err(Error::InvalidValue(format!(
                "within: no time of column '{}' is in it besides the ends that closed excludes; give a longer one, or closed='both'",
                measure.column()
            )));
        }
        Ok(Condition::Band { low, high })
    }

    /// What a row of a side at `time` meets among the places of the other side; `None` if that is nothing.
    ///
    /// # Errors
    /// As [`Windows::range`].
    pub(super) fn met(&self, side: Which, time: i64) -> Result<Option<Span>> {
        match self {
            Condition::Band { low, high } => Ok(match side {
                Which::Left => from(time, *low).zip(up_to(time, *high)),
                Which::Right => from(time, -high).zip(up_to(time, -low)),
            }),
            Condition::Windows(windows) => windows.range(time),
        }
    }

    /// The places of a row at `time`.
    ///
    /// # Errors
    /// As [`Condition::met`].
    pub(super) fn places(&self, time: i64) -> Result<Option<Span>> {
        match self {
            Condition::Band { .. } => Ok(Some((time, time))),
            Condition::Windows(windows) => windows.range(time),
        }
    }

    /// Which rows of a column of times have places.
    ///
    /// # Errors
    /// As [`Condition::met`]; `InvalidValue` if the rows have more than [`MOST`] places.
    pub(super) fn placed(&self, times: &[i64], nulls: Option<&NullBuffer>) -> Result<Option<NullBuffer>> {
        let windows = match self {
            Condition::Band { .. } => return Ok(nulls.cloned()),
            Condition::Windows(windows) => windows,
        };
        let (placed, total) = windows.count(times, nulls)?;
        if total > MOST {
            return Err(Error::InvalidValue(format!(
                "windows: {} rows are in {total} windows of {}, and a row is joined in each of its windows; allowed are \
                 {MOST}. Let windows begin less often, or join by within=...",
                times.len(),
                windows.name()
            )));
        }
        Ok(placed)
    }

    /// The windows, if rows are partners by these.
    pub(super) fn windows(&self) -> Option<&Windows> {
        match self {
            Condition::Band { .. } => None,
            Condition::Windows(windows) => Some(windows),
        }
    }

    /// The place after one, where a row has both.
    ///
    /// # Errors
    /// As [`Windows::range`].
    pub(super) fn next(&self, place: i64) -> Result<i64> {
        match self {
            Condition::Band { .. } => Ok(place + 1),
            Condition::Windows(windows) => windows.next(place),
        }
    }
}

/// The first time that is not before the one so far away, if there is one.
fn from(time: i64, distance: i64) -> Option<i64> {
    time.checked_add(distance).or((distance < 0).then_some(i64::MIN))
}

/// The last time that is not after the one so far away, if there is one.
fn up_to(time: i64, distance: i64) -> Option<i64> {
    time.checked_add(distance).or((distance > 0).then_some(i64::MAX))
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;
    use proptest::prelude::*;

    use super::*;
    use crate::operator::window_spec::WindowKind;
    use crate::window::Partial;

    fn times() -> impl Strategy<Value = i64> {
        prop_oneof![-20i64..20, (0i64..3).prop_map(|d| i64::MIN + d), (0i64..3).prop_map(|d| i64::MAX - d)]
    }

    fn bound(spec: &ConditionSpec) -> Condition {
        let measure = Measure::new("t", &DataType::Int64).expect("integers are times");
        Condition::bind(spec, &measure).expect("a valid condition")
    }

    /// Whether a row of the side `which` meets one of the other side.
    fn meet(condition: &Condition, which: Which, own: i64, other: i64) -> bool {
        let (met, places) = (condition.met(which, own).unwrap(), condition.places(other).unwrap());
        met.zip(places).is_some_and(|((first, last), (from, to))| first <= to && from <= last)
    }

    proptest! {
        /// Whoever asks, the same rows are partners, and nothing wraps around.
        #[test]
        fn a_band_is_the_same_from_both_sides(
            (before, after) in (0i128..5, 0i128..5),
            closed in prop_oneof![Just(Closed::Both), Just(Closed::Left), Just(Closed::Right)],
            (left, right) in (times(), times()),
        ) {
            prop_assume!(before + after > 0 || closed == Closed::Both);
            let (before, after) = (Length::Units(before), Length::Units(after));
            let condition = bound(&ConditionSpec::Band { before, after, closed });
            let Condition::Band { low, high } = condition else { unreachable!("it is one") };
            let distance = i128::from(right) - i128::from(left);
            let expected = i128::from(low) <= distance && distance <= i128::from(high);
            prop_assert_eq!(meet(&condition, Which::Left, left, right), expected);
            prop_assert_eq!(meet(&condition, Which::Right, right, left), expected);
        }

        #[test]
        fn rows_meet_in_windows_whose_extents_have_both(
            (size, slide) in (1i128..9).prop_flat_map(|size| (Just(size), 1..=size)),
            (left, right) in (-30i64..30, -30i64..30),
        ) {
            let (size, slide) = (Length::Units(size), Length::Units(slide));
            let kind = WindowKind::Sliding { size, slide, start_time: None, partial: Partial::NONE };
            let condition = bound(&ConditionSpec::Windows(WindowSpec { name: "w".into(), kind }));
            let windows = condition.windows().expect("it is by windows");
            let extents = (-100..100).map(|id| windows.extent(id).unwrap().expect("they are numbered"));
            let shares = |times: [i64; 2]| {
                extents.clone().any(|(start, end)| times.iter().all(|&t| start <= t && t < end))
            };
            prop_assert_eq!(meet(&condition, Which::Left, left, right), shares([left, right]));
            prop_assert_eq!(meet(&condition, Which::Right, right, left), shares([left, right]));
        }
    }
}
