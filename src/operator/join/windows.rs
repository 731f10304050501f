//! The windows by which rows are joined. Each has a place among those of its type, and the windows of a time are all
//! those whose places are in a range, of which neither end moves back as the time moves on.

use std::sync::Arc;

use arrow_array::{ArrayRef, StructArray};
use arrow_buffer::NullBuffer;

use crate::interrupt::Pace;
use crate::operator::schema::extent_fields;
use crate::operator::wids::Wids;
use crate::operator::window_spec::{WindowKind, WindowSpec};
use crate::operator::zone_rules::ZoneRules;
use crate::window::{KeyRows, Listed, Measure, UserWindow};
use crate::{Error, Result};

/// What a row meets, a range of places: times of the other side, or windows.
pub(super) type Span = (i64, i64);

/// Windows of one type over the times of both sides.
#[derive(Debug)]
pub(super) enum Windows {
    /// They are numbered, and a place is a number.
    Numbered(Box<Wids>),
    /// The windows of a user's definition, of which one that ends later does not begin earlier; a place is an end.
    Defined(Defined),
}

/// A user's definition, whose edges depend on nothing but the time.
pub(super) struct Defined {
    name: String,
    window: Arc<dyn UserWindow>,
    measure: Measure,
}

impl std::fmt::Debug for Defined {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl Windows {
    /// # Errors
    /// `InvalidType` for windows that are not known before the rows; and as [`Wids::new`].
    pub(super) fn bind(spec: &WindowSpec, measure: Measure) -> Result<Self> {
        if let WindowKind::User(window, _) = &spec.kind
            && window.traits().is_fixed()
        {
            return Ok(Windows::Defined(Defined {
                name: spec.name.clone(),
                window: window.clone(),
                measure,
            }));
        }
        match Wids::of(spec, measure)? {
            Some(wids) => Ok(Windows::Numbered(Box::new(wids))),
            None => Err(Error::InvalidType(format!(
                "windows: which rows share a window of {} is not known before all rows are; allowed are bands, \
                 tumbling, sliding and landmark windows over time or integers, or those of a windowkit.ContextFree",
                spec.name
            ))),
        }
    }

    /// What a column of windows shows.
    pub(super) fn shown(&self) -> &Measure {
        match self {
            Windows::Numbered(wids) => wids.measure(),
            Windows::Defined(defined) => &defined.measure,
        }
    }

    /// What they are called.
    pub(super) fn name(&self) -> &str {
        match self {
            Windows::Numbered(wids) => wids.name(),
            Windows::Defined(defined) => &defined.name,
        }
    }

    /// The rules by which times of windows with these places are cut, if a zone's are.
    ///
    /// # Errors
    /// As [`Windows::range`].
    pub(super) fn zone_rules(&self, (first, last): Span) -> Result<Option<ZoneRules>> {
        let Windows::Numbered(wids) = self else { return Ok(None) };
        let times = self.extent(first)?.zip(self.extent(last)?);
        Ok(times.and_then(|((start, _), (_, end))| ZoneRules::of(wids.window(), (start, end))))
    }

    /// The first and the last of the windows of a time; `None` if it is in no window.
    ///
    /// # Errors
    /// `Overflow` for windows that do not fit 64 bits; `InvalidValue` for windows of a definition that end in another order
    /// than they begin, and what the definition raises.
    pub(super) fn range(&self, time: i64) -> Result<Option<Span>> {
        match self {
            Windows::Numbered(wids) => wids.range(time),
            Windows::Defined(defined) => {
                let windows = defined.windows(time)?;
                Ok(windows.first().zip(windows.last()).map(|(first, last)| (first.end, last.end)))
            }
        }
    }

    /// Which times are in a window, and in how many windows they are all together, or a few more.
    ///
    /// # Errors
    /// As [`Windows::range`].
    pub(super) fn count(
        &self,
        times: &[i64],
        nulls: Option<&NullBuffer>,
    ) -> Result<(Option<NullBuffer>, i128)> {
        match self {
            Windows::Numbered(wids) => {
                let ranges = wids.ranges(times, nulls)?;
                // Without a range, a time is in no window or one, which does not matter here.
                let lengths = ranges.from.iter().zip(&ranges.to);
                let total = lengths.map(|(from, to)| i128::from(*to) - i128::from(*from) + 1).sum();
                Ok((ranges.nulls, total))
            }
            Windows::Defined(defined) => {
                let (mut total, mut pace) = (0, Pace::new());
                let mut within = Vec::with_capacity(times.len());
                for (row, &time) in times.iter().enumerate() {
                    pace.check(1)?;
                    let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(row));
                    let count = if is_valid { defined.windows(time)?.len() } else { 0 };
                    total += count as i128;
                    within.push(count > 0);
                }
                Ok((Some(within.into()), total))
            }
        }
    }

    /// The window after one, where a time is in both.
    ///
    /// # Errors
    /// As [`Windows::range`].
    pub(super) fn next(&self, place: i64) -> Result<i64> {
        match self {
            Windows::Numbered(_) => Ok(place + 1),
            Windows::Defined(defined) => match defined.windows(place)?.first() {
                Some(next) => Ok(next.end),
                None => Err(defined.changed(place)),
            },
        }
    }

    /// Start and end of a window; `None` if there is none.
    ///
    /// # Errors
    /// As [`Windows::range`].
    pub(super) fn extent(&self, place: i64) -> Result<Option<(i64, i64)>> {
        match self {
            Windows::Numbered(wids) => wids.extent(place),
            Windows::Defined(defined) => defined.extent(place),
        }
    }

    /// Whether a window has ended at a time.
    ///
    /// # Errors
    /// As [`Windows::range`].
    pub(super) fn is_over(&self, place: i64, time: i64) -> Result<bool> {
        match self {
            Windows::Numbered(wids) => Ok(wids.extent(place)?.is_none_or(|(_, end)| end <= time)),
            Windows::Defined(_) => Ok(place <= time),
        }
    }

    /// A column of windows.
    ///
    /// # Errors
    /// `Overflow` if a type of times cannot hold an edge; and as [`Windows::range`].
    pub(super) fn column(&self, places: &[Option<i64>]) -> Result<ArrayRef> {
        let valid =
            places.contains(&None).then(|| places.iter().map(Option::is_some).collect::<NullBuffer>());
        let (starts, ends) = match self {
            Windows::Numbered(wids) => {
                let ids: Vec<i64> = places.iter().map(|id| id.unwrap_or_default()).collect();
                let found = wids.edges(&ids, valid.as_ref())?;
                (found.from, found.to)
            }
            Windows::Defined(defined) => defined.edges(places)?,
        };
        let measure = self.shown();
        let columns = vec![measure.array(starts)?, measure.array(ends)?];
        Ok(Arc::new(StructArray::try_new(extent_fields(measure), columns, valid)?))
    }
}

impl Defined {
    /// The windows of a time, in their order.
    fn windows(&self, time: i64) -> Result<Vec<Listed>> {
        let mut windows = Vec::new();
        let rows = KeyRows { times: &[time], columns: &[], arrivals: &[] };
        self.window.list(&rows, 0, &mut windows)?;
        windows.sort_unstable_by_key(|window| (window.end, window.start));
        let is_before = |pair: &[Listed]| pair[0].start <= pair[1].start && pair[0].end < pair[1].end;
        match windows.windows(2).find(|pair| !is_before(pair)) {
            None => Ok(windows),
            Some(pair) => {
                let shown = |window: &Listed| {
                    format!("[{}, {})", self.measure.shown(window.start), self.measure.shown(window.end))
                };
                Err(Error::InvalidValue(format!(
                    "windows: {} has {} and {}, of which one contains the other; rows are joined by windows that end in \
                     the order in which they begin",
                    self.name,
                    shown(&pair[0]),
                    shown(&pair[1])
                )))
            }
        }
    }

    /// Start and end of the window with this end, if there is one.
    fn extent(&self, end: i64) -> Result<Option<(i64, i64)>> {
        let windows = self.windows(end.saturating_sub(1))?;
        Ok(windows.first().filter(|first| first.end == end).map(|first| (first.start, first.end)))
    }

    /// Starts and ends; 0 where there is no window.
    fn edges(&self, ends: &[Option<i64>]) -> Result<(Vec<i64>, Vec<i64>)> {
        let (mut pace, mut last) = (Pace::new(), (None, (0, 0)));
        let edges = ends.iter().map(|&end| {
            pace.check(1)?;
            if end != last.0 {
                let extent = |end| self.extent(end)?.ok_or_else(|| self.changed(end));
                last = (end, end.map(extent).transpose()?.unwrap_or_default());
            }
            Ok(last.1)
        });
        edges.collect()
    }

    fn changed(&self, time: i64) -> Error {
        Error::InvalidValue(format!(
            "windows: those of {} at {} are not those that it had before; they depend on the time alone",
            self.name,
            self.measure.shown(time)
        ))
    }
}
