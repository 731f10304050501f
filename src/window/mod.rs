//! Window types, each given by three functions after Li, *Window Queries over Data Streams* (2008), chapter 5:
//!
//! - `windows()`: which windows exist over a stretch of the measure,
//! - `extent(w)`: which part of the measure window `w` covers — the definition, and what tests evaluate,
//! - `wids(t)`: which windows a row at `t` belongs to — the inverse of `extent`, and what runs.
//!
//! Their class decides what must be stored (Traub et al. 2019, §4.3): a *context-free* window (CF) has all its edges
//! known before any row; a session's edges depend on the rows (*context aware*), but its fragments merge, so no
//! tuples are kept for it either. Types that need rows in order ([`Window::needs_rows`]) are listed over a key's sorted
//! rows ([`Window::list`]), as ranges of ranks; so can be all others.

mod band;
mod calendar;
mod class;
mod context;
mod counted;
mod global;
mod landmark;
mod last_rows;
mod last_time;
mod listing;
pub mod measure;
mod punctuation;
mod session;
mod sliding;
mod user;

pub use band::Band;
pub use calendar::{Calendar, ContextFree};
pub use class::{Class, WindowTraits};
pub use context::{Context, Edit};
pub use counted::Counted;
pub use global::Global;
pub use landmark::Landmark;
pub use last_rows::LastRows;
pub use last_time::LastTime;
pub use listing::{KeyRows, Listed};
pub use measure::Measure;
pub use punctuation::{Mark, Punctuation};
pub use session::Session;
pub use sliding::Sliding;
pub use user::{User, UserWindow};

use crate::Result;

/// A window type over one advancing measure, in units of that measure.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    /// Sliding windows; tumbling ones are those whose slide is their size.
    Sliding(Sliding),
    /// Sessions, closed by a gap without rows.
    Session(Session),
    /// One fixed window.
    Band(Band),
    /// Windows that all begin at a landmark.
    Landmark(Landmark),
    /// All rows.
    Global(Global),
    /// Sliding windows over ranks.
    Counted(Counted),
    /// The last rows at each edge of time.
    LastRows(LastRows),
    /// The last time at every n-th row.
    LastTime(LastTime),
    /// Runs of rows between marked ones.
    Punctuation(Punctuation),
    /// A user's own.
    User(User),
}

impl Window {
    /// How far from its rows a window's edges can lie.
    pub fn reach(&self) -> i64 {
        match self {
            // Both the first window's start and, in between, `start + slide` are computed.
            Window::Sliding(w) => w.size().saturating_add(w.slide()),
            Window::Session(w) => w.gap(),
            Window::Landmark(w) => w.every().max(w.period().unwrap_or(0)),
            Window::LastRows(w) => w.every(),
            Window::LastTime(w) => w.size(),
            Window::Band(_)
            | Window::Global(_)
            | Window::Counted(_)
            | Window::Punctuation(_)
            | Window::User(_) => 0,
        }
    }

    /// About how many windows a row is in, or ends.
    pub fn overlap(&self) -> i64 {
        match self {
            Window::Sliding(w) => w.size() / w.slide(),
            _ => 1,
        }
    }

    /// Whether its windows are told by rows in order, and not by slices that are cut in advance.
    pub fn needs_rows(&self) -> bool {
        match self {
            Window::Sliding(_)
            | Window::Session(_)
            | Window::Band(_)
            | Window::Landmark(_)
            | Window::Global(_) => false,
            Window::Counted(_)
            | Window::LastRows(_)
            | Window::LastTime(_)
            | Window::Punctuation(_)
            | Window::User(_) => true,
        }
    }

    /// Whether it is measured by rows, wholly or in part, so that ranks tell its windows.
    pub fn is_ranked(&self) -> bool {
        matches!(self, Window::Counted(_) | Window::LastRows(_) | Window::LastTime(_))
    }

    /// Positions of the columns it reads beside the time.
    pub fn columns(&self) -> Vec<usize> {
        match self {
            Window::Punctuation(w) => vec![w.column()],
            Window::User(w) => w.columns().to_vec(),
            _ => Vec::new(),
        }
    }

    /// What decides about it.
    pub fn traits(&self) -> WindowTraits {
        use Class::{ContextFree, ForwardContextAware, ForwardContextFree};
        match self {
            Window::Sliding(_) | Window::Band(_) | Window::Landmark(_) | Window::Global(_) => {
                WindowTraits::of(ContextFree)
            }
            Window::Session(_) => WindowTraits { session: true, ..WindowTraits::of(ForwardContextFree) },
            Window::Counted(_) => WindowTraits { count: true, ..WindowTraits::of(ContextFree) },
            Window::LastRows(_) => WindowTraits { count: true, ..WindowTraits::of(ForwardContextAware) },
            Window::LastTime(_) => WindowTraits::of(ForwardContextAware),
            Window::Punctuation(_) => WindowTraits::of(ForwardContextFree),
            Window::User(w) => w.window().traits(),
        }
    }

    /// Where its definition is from.
    pub fn source(&self) -> &'static str {
        match self {
            Window::Sliding(_) => "Li 2008, Eq. 5.1-5.3",
            Window::Session(_) => "Traub et al. 2019, §5.1",
            Window::Band(_) => "Li 2008, §5.1.1",
            Window::Landmark(_) => "Li 2008, Eq. 5.7-5.9",
            Window::Global(_) => "Akidau et al. 2015, §2.2",
            Window::Counted(_) => "Li 2008, Eq. 5.4-5.6",
            Window::LastRows(_) => "Traub et al. 2019, §4.4",
            Window::LastTime(_) => "Li 2008, Eq. 5.16-5.18",
            Window::Punctuation(_) => "Traub et al. 2019, §4.4",
            Window::User(_) => "Traub et al. 2019, §5.4.2",
        }
    }

    /// Lists the windows of a key that have a row of rank `since` or after.
    ///
    /// Both ends of the windows of one listing never step back, but for users' own types, whose order is any.
    ///
    /// # Errors
    /// None but those of users' own types.
    pub fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        let times = rows.times;
        match self {
            Window::Sliding(w) => w.list(times, since, out),
            Window::Session(w) => w.list(times, since, out),
            Window::Band(w) => w.list(times, since, out),
            Window::Landmark(w) => w.list(times, since, out),
            Window::Global(w) => w.list(times, since, out),
            Window::Counted(w) => w.list(times, since, out),
            Window::LastRows(w) => w.list(times, since, out),
            Window::LastTime(w) => w.list(times, since, out),
            Window::Punctuation(w) => w.list(times, &Punctuation::marks(&rows.columns[0]), since, out),
            Window::User(w) => w.list(rows, since, out)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, BooleanArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn any_window() -> impl Strategy<Value = Window> {
        let (length, offset) = (1i64..12, -20i64..20);
        prop_oneof![
            (length.clone(), length.clone(), offset.clone())
                .prop_map(|(a, b, o)| Window::Sliding(Sliding::new(a.max(b), b, o))),
            length.clone().prop_map(|gap| Window::Session(Session::new(gap))),
            (offset.clone(), length.clone())
                .prop_map(|(start, size)| Window::Band(Band::new(start, start + size))),
            (length.clone(), offset.clone())
                .prop_map(|(every, start)| Window::Landmark(Landmark::at(every, start))),
            (length.clone(), 1i64..4, offset.clone()).prop_map(|(every, times, offset)| Window::Landmark(
                Landmark::each(every, every * times, offset)
            )),
            Just(Window::Global(Global)),
            (1usize..9, 1usize..9, any::<bool>()).prop_map(|(a, b, partial)| Window::Counted(Counted::new(
                a.max(b),
                b,
                partial
            ))),
            (1usize..9, length.clone(), offset)
                .prop_map(|(n, every, o)| Window::LastRows(LastRows::new(n, every, o))),
            (length, 1usize..9).prop_map(|(size, n)| Window::LastTime(LastTime::new(size, n))),
            prop_oneof![Just(Mark::Start), Just(Mark::End)]
                .prop_map(|mark| Window::Punctuation(Punctuation::new(0, mark))),
        ]
    }

    /// The definition: for each window that there may be, the ranks it contains, found by looking at all rows.
    fn oracle(window: &Window, times: &[i64], marks: &[Option<bool>]) -> Vec<Listed> {
        let rows = times.len();
        let within = |(start, end): (i64, i64)| {
            let inside: Vec<usize> =
                (0..rows).filter(|&row| start <= times[row] && times[row] < end).collect();
            Some((*inside.first()?, inside.last()? + 1, (start, end)))
        };
        let by_rows = |lo: usize, hi: usize| (lo, hi, (times[lo], times[hi - 1]));
        let found: Vec<(usize, usize, (i64, i64))> = match window {
            Window::Sliding(w) => {
                let aligned = |start: &i64| (start - w.offset()).rem_euclid(w.slide()) == 0;
                (-90..90).filter(aligned).filter_map(|start| within(w.extent(start))).collect()
            }
            Window::Session(w) => {
                w.windows(times).into_iter().filter_map(|(a, b)| within(w.extent(a, b))).collect()
            }
            Window::Band(w) => within(w.extent()).into_iter().collect(),
            Window::Landmark(w) => {
                let (every, offset) = w.edges();
                let ends = (-90..90).filter(|end| (end - offset).rem_euclid(every) == 0);
                // New since the end before.
                let new = |end: &i64| times.iter().any(|&t| end - every <= t && t < *end);
                ends.filter(new).filter_map(|end| within(w.extent(end)?)).collect()
            }
            Window::Global(_) => (rows > 0).then(|| by_rows(0, rows)).into_iter().collect(),
            Window::Counted(w) => {
                let ranges = (0..w.windows(rows)).map(|k| w.extent(k));
                ranges.map(|(lo, hi)| by_rows(lo, hi.min(rows))).collect()
            }
            Window::LastRows(w) => {
                let ranges = w.windows(times).into_iter().map(|edge| w.extent(edge, times));
                ranges.map(|(lo, hi)| by_rows(lo, hi)).collect()
            }
            Window::LastTime(w) => w
                .windows(rows)
                .map(|last| {
                    let (lo, hi) = w.extent(last, times);
                    (lo, hi, (times[last] - w.size(), times[last]))
                })
                .collect(),
            Window::Punctuation(w) => {
                let marked = |row: usize| marks[row] == Some(true);
                let edge = |row: &usize| match w.mark() {
                    Mark::Start => marked(*row),
                    Mark::End => marked(*row - 1),
                };
                let mut edges: Vec<usize> = vec![0];
                edges.extend((1..rows).filter(edge));
                edges.push(rows);
                edges
                    .windows(2)
                    .filter(|pair| pair[0] < pair[1])
                    .map(|pair| by_rows(pair[0], pair[1]))
                    .collect()
            }
            Window::User(_) => unreachable!("none is made"),
        };
        found.into_iter().map(|(lo, hi, extent)| Listed::new(lo, hi, extent)).collect()
    }

    proptest! {
        /// What is listed is what the definition says, from any row on, and in an order that kernels take.
        #[test]
        fn listings_are_the_definition(
            window in any_window(),
            rows in prop::collection::vec((-40i64..40, prop::option::of(any::<bool>())), 0..40),
            since in 0usize..45,
        ) {
            let mut times: Vec<i64> = rows.iter().map(|row| row.0).collect();
            times.sort_unstable();
            let marks: Vec<Option<bool>> = rows.iter().map(|row| row.1).collect();
            let column: ArrayRef = Arc::new(BooleanArray::from(marks.clone()));
            let rows = KeyRows { times: &times, columns: &[column] };
            let mut listed = Vec::new();
            window.list(&rows, since, &mut listed).unwrap();
            let mut wanted = oracle(&window, &times, &marks);
            wanted.retain(|window| window.hi as usize > since);
            prop_assert_eq!(&listed, &wanted);
            prop_assert!(listed.is_sorted_by(|a, b| a.lo <= b.lo && a.hi <= b.hi));
        }
    }
}
