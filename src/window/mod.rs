//! Window types, each given by three functions after Li, *Window Queries over Data Streams* (2008), chapter 5:
//!
//! - `windows()`: which windows exist over a stretch of the measure,
//! - `extent(w)`: which part of the measure window `w` covers — the definition, and what tests evaluate,
//! - `wids(t)`: which windows a row at `t` belongs to — the inverse of `extent`, and what runs.
//!
//! Everything that differs from type to type is in the type's file, behind [`Rules`]: its windows, its extent, the windows
//! of a row, the edges it cuts, which windows are final or changed, and what must be stored for them. Elsewhere in this
//! crate a type is named where windows are stated and bound (`WindowKind` in `operator/window_spec.rs`,
//! `operator/binding`), and two types are handed out as such: sliding windows, whose next ends a stream's agenda reckons
//! ([`Window::regular`]), and sessions, which a late row may join or reopen ([`Window::merging`]). The names of columns, and
//! emission policies, depend on whether a window is a session ([`Rules::is_session`]): its extent changes as rows come.
//!
//! Their class decides what must be stored (Traub et al. 2019, §4.3): a *context-free* window (CF) has all its edges
//! known before any row; a session's edges depend on the rows (*context aware*), but its fragments merge, so no
//! tuples are kept for it either. These are [`ByTime`]: they list windows over [`Spans`], rows or slices alike. Types that
//! need rows in order are [`ByRows`], over a key's rows, with a [`Memory`] of numbered windows.
//!
//! What types share is below them: `runs`, the rules of windows that follow each other by rows; `series`, of those that
//! follow each other in time; `growing`, of those that begin at landmarks. `zone` (clocks), `periods` (days and months of a
//! calendar) and `timetable` (edges there) are for windows in local time. `rules` and `view` (the rows and the call that
//! rules are given) know no type; this file chooses among them. [`Ids`] number the windows that are known before any row.

mod arrivals;
mod band;
mod between;
mod calendar;
mod class;
mod counted;
mod cuts;
mod gap_column;
mod global;
mod growing;
mod ids;
mod in_order;
mod known;
mod landmark;
mod last_rows;
mod last_time;
mod local;
mod local_landmark;
mod memory;
mod numbered;
mod observed;
mod periods;
mod punctuation;
mod row_session;
mod rules;
mod runs;
mod series;
mod session;
mod sliding;
mod spans;
mod timetable;
mod user;
mod user_window;
mod view;
mod zone;

use std::ops::Deref;

pub use crate::measure::Measure;
pub use arrivals::Arrivals;
pub use band::Band;
pub use between::Between;
pub use calendar::Calendar;
pub use class::{Class, WindowTraits};
pub use counted::{Counted, Partial};
pub use cuts::Cuts;
pub use gap_column::GapColumn;
pub use global::Global;
pub use ids::{Beyond, Ids, Range, Ranges};
pub use in_order::{Edges as RowEdges, Ended, NO_RANK, OfKeys, OrderedRows, Position, Ranks};
pub use known::{ContextFree, Known};
pub use landmark::Landmark;
pub use last_rows::LastRows;
pub use last_time::LastTime;
pub use local::Local;
pub use local_landmark::LocalLandmark;
pub use memory::{Kept, Memory};
pub use numbered::Emitted;
pub use observed::Observed;
pub use periods::{Periods, Unit};
pub use punctuation::{Mark, Punctuation};
pub use row_session::{Gap, RowSession};
pub use rules::{Accepts, ByRows, ByTime, InOrder, Rules};
pub use series::Series;
pub use session::Session;
pub use sliding::Sliding;
pub use spans::{Cursor, Ending, Listed, Spans, gallop, place};
pub use timetable::Timetable;
pub use user::User;
pub use user_window::{Context, Edit, UserWindow};
pub use view::{Call, Emission, KeyRows, New, Point, ReadRows, Ready, RowCuts, View, earlier, place_from};
pub use zone::Zone;

use serde::Serialize;

use crate::Result;

/// A window type over one advancing measure, in units of that measure. Its properties are in its [`Rules`].
///
/// Its serialized form is part of what identifies a query in a snapshot, where a type is its number: new ones come last.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Window {
    /// Sliding windows; tumbling ones are those whose slide is their size.
    Sliding(Sliding),
    /// Sessions, closed by a gap without rows.
    Session(Session),
    /// One fixed window.
    Band(Band),
    /// Windows that all begin at a landmark.
    Landmark(Landmark),
    /// Sliding windows over periods of a calendar, such as local days.
    Local(Local),
    /// Windows that begin with such periods and grow.
    LocalLandmark(LocalLandmark),
    /// All rows.
    Global(Global),
    /// Sliding windows over ranks.
    Counted(Counted),
    /// The last rows at each edge of time.
    LastRows(LastRows),
    /// The last time at every n-th row.
    LastTime(LastTime),
    /// The last time at every n-th row to arrive.
    Arrivals(Arrivals),
    /// Runs of rows between marked ones.
    Punctuation(Punctuation),
    /// Runs of rows between predicates.
    Between(Between),
    /// Sessions of a greatest length, or with a gap per row.
    RowSession(RowSession),
    /// User-defined.
    User(User),
}

impl Deref for Window {
    type Target = dyn Rules;

    fn deref(&self) -> &(dyn Rules + 'static) {
        match self {
            Window::Sliding(window) => window,
            Window::Session(window) => window,
            Window::Band(window) => window,
            Window::Landmark(window) => window,
            Window::Local(window) => window,
            Window::LocalLandmark(window) => window,
            Window::Global(window) => window,
            Window::Counted(window) => window,
            Window::LastRows(window) => window,
            Window::LastTime(window) => window,
            Window::Arrivals(window) => window,
            Window::Punctuation(window) => window,
            Window::Between(window) => window,
            Window::RowSession(window) => window,
            Window::User(window) => window,
        }
    }
}

impl Window {
    /// Whether its windows are determined by rows in order, and not by slices that are cut in advance.
    pub fn needs_rows(&self) -> bool {
        self.by_time().is_none()
    }

    /// Its sliding windows, if its windows follow each other at one distance: the next one is then known in advance,
    /// and no call has to look for it.
    pub fn regular(&self) -> Option<&Sliding> {
        // Every type is named: one that was left out would be listed wrongly.
        match self {
            Window::Sliding(window) => Some(window),
            Window::Session(_) | Window::Band(_) | Window::Landmark(_) | Window::Global(_) => None,
            Window::Local(_) | Window::LocalLandmark(_) => None,
            Window::Counted(_) | Window::LastRows(_) | Window::LastTime(_) | Window::Arrivals(_) => None,
            Window::Punctuation(_) | Window::Between(_) | Window::RowSession(_) | Window::User(_) => None,
        }
    }

    /// Its windows in their order, if they follow each other in time, so that those without rows are known, too.
    pub fn series(&self) -> Option<&dyn Series> {
        match self {
            Window::Sliding(window) => Some(window),
            Window::Local(window) => Some(window),
            Window::Session(_) | Window::Band(_) | Window::Landmark(_) | Window::Global(_) => None,
            Window::LocalLandmark(_) => None,
            Window::Counted(_) | Window::LastRows(_) | Window::LastTime(_) | Window::Arrivals(_) => None,
            Window::Punctuation(_) | Window::Between(_) | Window::RowSession(_) | Window::User(_) => None,
        }
    }

    /// Its sessions, if new rows may join windows that exist.
    pub fn merging(&self) -> Option<&Session> {
        match self {
            Window::Session(window) => Some(window),
            Window::Sliding(_) | Window::Band(_) | Window::Landmark(_) | Window::Global(_) => None,
            Window::Local(_) | Window::LocalLandmark(_) => None,
            Window::Counted(_) | Window::LastRows(_) | Window::LastTime(_) | Window::Arrivals(_) => None,
            Window::Punctuation(_) | Window::Between(_) | Window::RowSession(_) | Window::User(_) => None,
        }
    }

    /// These windows, of which none changes after it was emitted; `None` of those that a user's rows move, and of those that
    /// take rows after the one that ends them.
    pub fn sealed(&self) -> Option<Self> {
        match self {
            Window::Session(window) => Some(Window::Session(window.sealed())),
            Window::RowSession(window) => Some(Window::RowSession(window.clone().sealed())),
            Window::Arrivals(_) => None,
            other if other.observes() && other.is_numbered() => None,
            other => Some(other.clone()),
        }
    }

    /// These windows as a stream has them, if it needs no rows where bounded input does: those of a user's definition that
    /// depend on time alone.
    pub fn sliced(&self) -> Option<Self> {
        match self {
            Window::User(window) => window.sliced().map(Window::User),
            _ => None,
        }
    }

    /// The windows themselves, if they are of one length and each begins where the one before ends.
    pub fn side_by_side(&self) -> Option<Sliding> {
        match self {
            Window::Sliding(window) => Some(*window).filter(|window| window.size() == window.slide()),
            _ => None,
        }
    }

    /// Whether where its next window ends depends on the rows that a key had, which were so many and are not stored.
    pub fn counts_on(&self, rows: u64) -> bool {
        let step = match self {
            Window::LastTime(window) => window.rows(),
            Window::Arrivals(window) => window.rows(),
            _ => 1,
        };
        !rows.is_multiple_of(step as u64)
    }

    /// Its windows by their ids, if their extents are known before any row.
    pub fn ids(&self) -> Option<&dyn Ids> {
        match self {
            Window::Sliding(window) => Some(window),
            Window::Band(window) => Some(window),
            Window::Landmark(window) => Some(window),
            Window::Local(window) => Some(window),
            Window::LocalLandmark(window) => window.numbers().map(|_| -> &dyn Ids { window }),
            Window::Session(_) | Window::Global(_) => None,
            Window::Counted(_) | Window::LastRows(_) | Window::LastTime(_) | Window::Arrivals(_) => None,
            Window::Punctuation(_) | Window::Between(_) | Window::RowSession(_) | Window::User(_) => None,
        }
    }

    /// Lists all windows of a key.
    ///
    /// Neither starts nor ends decrease within one listing, except for user-defined types, whose order is arbitrary.
    ///
    /// # Errors
    /// Only those of user-defined types.
    pub fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        if let Some(window) = self.by_time() {
            window.list(Spans::of_rows(rows.times), &Ending::ALL, &mut Cursor::default(), usize::MAX, out);
        }
        self.by_rows().map_or(Ok(()), |window| window.list(rows, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, BooleanArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Days or months of a zone in which an unlike day or month is near the given times, which are hours there.
    fn months() -> impl Strategy<Value = Periods> {
        // A zone so fast that 24 units of time are a day is that of no column: without a zone there is any.
        (prop_oneof![Just(Unit::Days), Just(Unit::Months)], -3i64..3).prop_map(|(unit, shift)| {
            Periods::new(None, unit, 1, 0, shift, 1 + i64::from(unit == Unit::Days) * 4)
        })
    }

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
            (months(), length.clone(), length.clone(), offset.clone()).prop_map(|(calendar, a, b, phase)| {
                Window::Local(Local::new(&calendar, a.max(b), b, phase))
            }),
            (months(), length.clone(), 1i64..4, 0..4).prop_map(|(calendar, every, times, kind)| {
                let periods = calendar.of(every * times, 3);
                Window::LocalLandmark(match kind {
                    0 => LocalLandmark::of_units(periods, every),
                    1 => LocalLandmark::of_time(periods, every),
                    _ => LocalLandmark::of_days(periods, every),
                })
            }),
            Just(Window::Global(Global)),
            (1usize..9, 1usize..9, any::<bool>(), any::<bool>()).prop_map(|(a, b, start, end)| {
                Window::Counted(Counted::new(a.max(b), b, Partial { start, end }))
            }),
            (1usize..9, length.clone(), offset)
                .prop_map(|(n, every, o)| Window::LastRows(LastRows::new(n, every, o))),
            (length.clone(), 1usize..9).prop_map(|(size, n)| Window::LastTime(LastTime::new(size, n))),
            (length, 1usize..9).prop_map(|(size, n)| Window::Arrivals(Arrivals::new(size, n))),
            prop_oneof![Just(Mark::Start), Just(Mark::End)]
                .prop_map(|mark| Window::Punctuation(Punctuation::new(0, mark))),
            any::<bool>().prop_map(|exclusive| Window::Between(Between::new(0, 1, exclusive))),
            (1i64..9, 0i64..9).prop_map(|(gap, more)| Window::RowSession(RowSession::new(
                Gap::Fixed(gap),
                Some(gap + more)
            ))),
        ]
    }

    /// The definition: the ranks that each possible window contains, found by looking at all rows.
    fn oracle(window: &Window, times: &[i64], marks: &[Option<bool>], arrivals: &[u32]) -> Vec<Listed> {
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
                // Rows added since the previous end.
                let new = |end: &i64| times.iter().any(|&t| end - every <= t && t < *end);
                ends.filter(new).filter_map(|end| within(w.extent(end)?)).collect()
            }
            Window::Local(w) => (-90..90).filter_map(|number| within(w.extent(number)?)).collect(),
            Window::LocalLandmark(w) => {
                // Rows between an end and the edge before it are new.
                let ends = (-150..150).filter(|&end| w.edges(end).0 == end);
                let new = |end: &i64| times.iter().any(|&t| w.edges(end - 1).0 <= t && t < *end);
                ends.filter(new).filter_map(|end| within(w.extent(end))).collect()
            }
            Window::Global(_) => (rows > 0).then(|| by_rows(0, rows)).into_iter().collect(),
            Window::Counted(w) => w.windows(rows).map(|(lo, hi)| by_rows(lo, hi)).collect(),
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
            Window::Arrivals(w) => {
                // A row is the n-th to arrive if n - 1 others arrived before it.
                let arrived = |row: usize| arrivals.iter().filter(|&&other| other <= arrivals[row]).count();
                let extent = |last: usize| {
                    let older = times.iter().filter(|&&t| t <= times[last] - w.size()).count();
                    (older, last + 1, (times[last] - w.size(), times[last]))
                };
                (0..rows).filter(|&row| arrived(row).is_multiple_of(w.rows())).map(extent).collect()
            }
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
            Window::Between(w) => {
                let (enter, leave) =
                    (|row: usize| marks[row] == Some(true), |row: usize| marks[row].is_none());
                let (mut found, mut row) = (Vec::new(), 0);
                while let Some(lo) = (row..rows).find(|&row| enter(row)) {
                    let left = (lo + usize::from(w.is_exclusive())..rows).find(|&row| leave(row));
                    row = left.map_or(rows, |left| left + usize::from(!w.is_exclusive()));
                    found.push(by_rows(lo, row));
                }
                found
            }
            Window::RowSession(w) => {
                let (Gap::Fixed(gap), Some(most)) = (w.gap(), w.at_most()) else {
                    unreachable!("of a column")
                };
                let (mut found, mut lo) = (Vec::new(), 0);
                while lo < rows {
                    let follows =
                        |row: usize| times[row] - times[row - 1] <= *gap && times[row] - times[lo] < most;
                    let hi = (lo + 1..rows).find(|&row| !follows(row)).unwrap_or(rows);
                    found.push((lo, hi, (times[lo], (times[hi - 1] + gap).min(times[lo] + most))));
                    lo = hi;
                }
                found
            }
            Window::User(_) => unreachable!("`any_window` does not make it"),
        };
        found.into_iter().map(|(lo, hi, extent)| Listed::new(lo, hi, extent)).collect()
    }

    proptest! {
        /// The listed windows are those of the definition, in an order that kernels accept.
        #[test]
        fn listings_are_the_definition(
            window in any_window(),
            rows in prop::collection::vec((-40i64..40, prop::option::of(any::<bool>())), 0..40),
        ) {
            let mut arrived: Vec<(i64, u32)> = rows.iter().map(|row| row.0).zip(0..).collect();
            arrived.sort_unstable();
            let (times, arrivals): (Vec<i64>, Vec<u32>) = arrived.into_iter().unzip();
            let marks: Vec<Option<bool>> = rows.iter().map(|row| row.1).collect();
            let column: ArrayRef = Arc::new(BooleanArray::from(marks.clone()));
            let nulls: ArrayRef = Arc::new(marks.iter().map(|mark| Some(mark.is_none())).collect::<BooleanArray>());
            let rows = KeyRows { times: &times, columns: &[column, nulls], arrivals: &arrivals };
            let mut listed = Vec::new();
            window.list(&rows, &mut listed).unwrap();
            prop_assert_eq!(&listed, &oracle(&window, &times, &marks, &arrivals));
            prop_assert!(listed.is_sorted_by(|a, b| a.lo <= b.lo && a.hi <= b.hi));
        }

        /// Of rows in order, whatever their keys and batches, the windows that they end and those that are left are those of the
        /// definition over the rows of a key. Slices are cut where windows begin and end, and nowhere else, and what was said
        /// to be no longer needed is in none of the windows to come.
        #[test]
        fn windows_end_as_rows_come_in_order(
            window in any_window().prop_filter("in order", |window| window.in_order().is_some()),
            rows in prop::collection::vec((0i64..5, 0u32..3, prop::option::of(any::<bool>())), 0..60),
            is_single in any::<bool>(),
            size in 1usize..9,
        ) {
            let rules = window.in_order().unwrap();
            let mut now = 0;
            let rows: Vec<(i64, u32, Option<bool>)> = rows
                .into_iter()
                .map(|(step, key, mark)| {
                    now += step;
                    (now, if is_single { 0 } else { key }, mark)
                })
                .collect();
            let of_key = |key: u32| rows.iter().filter(move |row| row.1 == key);
            let wanted = |window: &Window, key: u32| {
                let times: Vec<i64> = of_key(key).map(|row| row.0).collect();
                let marks: Vec<Option<bool>> = of_key(key).map(|row| row.2).collect();
                oracle(window, &times, &marks, &[])
            };
            let (mut positions, mut next) = ([Position::START; 3], [0u64; 3]);
            let (mut ended, mut cuts) = (Vec::new(), vec![Vec::new(); 3]);
            for chunk in rows.chunks(size) {
                let times: Vec<i64> = chunk.iter().map(|row| row.0).collect();
                let keys: Vec<u32> = chunk.iter().map(|row| row.1).collect();
                let ranks: Vec<u64> = keys
                    .iter()
                    .map(|&key| {
                        next[key as usize] += 1;
                        next[key as usize] - 1
                    })
                    .collect();
                let marks: BooleanArray = chunk.iter().map(|row| row.2).collect();
                let nulls: BooleanArray = chunk.iter().map(|row| Some(row.2.is_none())).collect();
                let columns: [ArrayRef; 2] = [Arc::new(marks), Arc::new(nulls)];
                let of_rows = if is_single { Ranks::One(0, ranks[0]) } else { Ranks::Each(&keys, &ranks) };
                let rows = OrderedRows { times: &times, ranks: of_rows, columns: &columns, from: 0 };
                let mut edges = RowEdges::default();
                rules.follow(&rows, &mut OfKeys::new(&mut positions, (0, 1)), &mut edges).unwrap();
                edges.cuts.iter().for_each(|&row| cuts[keys[row as usize] as usize].push(ranks[row as usize]));
                ended.append(&mut edges.ended);
                for key in 0..3 {
                    let own = ended.iter().filter(|each| each.key == key).count();
                    let needed = rules.needed(&positions[key as usize], next[key as usize]);
                    let to_come = &wanted(&window, key)[own..];
                    let begun = to_come.iter().map(|each| u64::from(each.lo)).min();
                    prop_assert!(needed <= next[key as usize] && begun.is_none_or(|lo| lo >= needed));
                }
            }
            for key in 0..3 {
                let (position, rows) = (&positions[key as usize], next[key as usize]);
                ended.extend(rules.unfinished(position, rows).into_iter().map(|each| Ended { key, ..each }));
                let times: Vec<i64> = of_key(key).map(|row| row.0).collect();
                let own = ended.iter().filter(|each| each.key == key).map(|each| {
                    let extent = (times[each.lo as usize], each.end.unwrap_or(times[each.hi as usize - 1]));
                    Listed::new(each.lo as usize, each.hi as usize, extent)
                });
                prop_assert_eq!(own.collect::<Vec<_>>(), wanted(&window, key));
                let all = match &window {
                    Window::Counted(own) => {
                        let partial = Partial { end: true, ..own.partial() };
                        Window::Counted(Counted::new(own.size(), own.slide(), partial))
                    }
                    other => other.clone(),
                };
                let edges = wanted(&all, key).into_iter().flat_map(|each| [each.lo, each.hi]).map(u64::from);
                let mut edges: Vec<u64> = edges.filter(|&rank| 0 < rank && rank < rows).collect();
                edges.sort_unstable();
                edges.dedup();
                let own = &mut cuts[key as usize];
                own.retain(|&rank| rank > 0);
                own.sort_unstable();
                own.dedup();
                prop_assert_eq!(&*own, &edges);
                let begins = |rank: u64| rank == 0 || own.binary_search(&rank).is_ok();
                prop_assert!(rules.is_sound(position, rows, &begins));
            }
        }

        /// Lists windows by time as a watermark makes them final, however few at a time, and those changed by some
        /// rows, if these lie in slices that no edge cuts.
        #[test]
        fn windows_end_between_two_watermarks(
            window in any_window().prop_filter("by time", |window| window.by_time().is_some()),
            mut times in prop::collection::vec(-40i64..40, 0..40),
            after in prop::option::of(-60i64..60),
            ahead in 0i64..60,
            most in 1usize..5,
            changed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let rules = window.by_time().unwrap();
            times.sort_unstable();
            let ending = Ending { after, upto: after.unwrap_or(0) + ahead, since: None, bounds: (-1000, 1000) };
            let final_at = |each: &Listed| match &window {
                Window::Session(_) => each.end + 1,
                Window::Global(_) => i64::MAX,
                _ => each.end,
            };
            let is_asked = |each: &Listed| after.is_none_or(|after| final_at(each) > after) && final_at(each) <= ending.upto;
            let mut wanted = oracle(&window, &times, &[], &[]);
            wanted.retain(is_asked);
            let (mut listed, mut cursor) = (Vec::new(), Cursor::default());
            loop {
                let before = listed.len();
                rules.list(Spans::of_rows(&times), &ending, &mut cursor, most, &mut listed);
                prop_assert!(listed.len() <= before + most);
                if listed.len() < before + most {
                    break;
                }
            }
            prop_assert_eq!(&listed, &wanted);
            prop_assert!(wanted.is_empty() || rules.may_end(&ending));
            prop_assert_eq!(rules.count(Spans::of_rows(&times), &ending), wanted.len() as u64);
            prop_assert!(rules.at_most(times.len(), &ending) >= wanted.len() as u64);
            if times.is_empty() {
                return Ok(());
            }
            let mut changed: Vec<i64> = changed.iter().map(|at| times[at.index(times.len())]).collect();
            changed.sort_unstable();
            wanted.retain(|each| changed.iter().any(|&t| match &window {
                Window::Session(_) | Window::Global(_) => times[each.lo as usize] <= t && t <= times[each.hi as usize - 1],
                _ => each.start <= t && t < each.end,
            }));
            listed.clear();
            rules.list_changed(Spans::of_rows(&times), &changed, &ending, &mut listed);
            prop_assert_eq!(&listed, &wanted);
        }
    }
}
