//! The last stretch of time every n rows, which are counted as they arrive: a window's end is the time of a row, and which
//! row that is depends on the order of arrival alone.
//!
//! | | |
//! |---|---|
//! | class | forward context aware: the row that ends a window determines where it begins |
//! | stored | rows in order, and which of them end windows |
//! | time | O(1) per row in order, O(n log n) for n rows of a batch that are not; O(log rows) per window |
//! | source | Li 2008, Eq. 5.13-5.15, slide-by-tuple over the order of arrival; with n = 1 Eq. 5.10-5.12 |
//!
//! In contrast to [`LastTime`](super::LastTime), a late row moves no window's end: it joins the windows that its time lies
//! in. A window contains all rows of its stretch of time, also those that arrive after the row that ends it, except for
//! ones with that very time (Li assumes unique times). So both types have the same windows where rows arrive in the order
//! of time.

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::last_time;
use super::memory::Memory;
use super::numbered::Emitted;
use super::rules::{Accepts, ByRows, Rules};
use super::spans::Listed;
use super::view::{KeyRows, Ready, View, earlier};
use crate::Result;

/// After every n-th row of a key to arrive, the rows up to it in the order of time that are less than `size` older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Arrivals {
    size: i64,
    rows: usize,
}

impl Arrivals {
    /// Windows `(t - size, t]` for the time t of every `rows`-th row to arrive.
    ///
    /// # Panics
    /// Unless both are above zero; plans check this first and return a proper error.
    pub fn new(size: i64, rows: usize) -> Self {
        assert!(size > 0 && rows > 0, "size > 0 and rows > 0");
        Self { size, rows }
    }

    /// The length of a window.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// Rows that arrive from one window's end to the next.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows that end windows: the places of their arrival numbers among these, in the order of arrival, and the
    /// numbers of their windows. `before` rows arrived before these.
    pub fn windows<N: Copy + Ord + Send>(&self, before: u64, arrivals: &[N]) -> Vec<(usize, i64)> {
        let step = self.rows as u64;
        let until = (step - 1 - before % step) as usize;
        if until >= arrivals.len() {
            return Vec::new();
        }
        let number = |arrived: usize| ((before + arrived as u64) / step) as i64;
        let ending = (until..arrivals.len()).step_by(self.rows);
        if arrivals.is_sorted() {
            return ending.map(|at| (at, number(at))).collect();
        }
        let mut order: Vec<(N, usize)> = arrivals.iter().copied().zip(0..).collect();
        order.sort_unstable();
        ending.map(|arrived| (order[arrived].1, number(arrived))).collect()
    }

    /// Ranks of the window that the row of rank `last` ends, over ascending times.
    pub fn extent(&self, last: usize, times: &[i64]) -> (usize, usize) {
        (times.partition_point(|&t| t <= times[last] - self.size), last + 1)
    }

    /// Remembers which of the call's rows end windows that have not expired.
    fn count(&self, view: &View<'_>, memory: &mut Memory) {
        let arrived = view.rank(view.len());
        let new: Vec<usize> = view.new_places().collect();
        let numbers: Vec<u64> = new.iter().map(|&place| view.ats[place]).collect();
        let mut ending: Vec<Emitted> = self
            .windows(arrived - new.len() as u64, &numbers)
            .into_iter()
            .map(|(at, number)| {
                let (time, first) = (view.times[new[at]], numbers[at]);
                Emitted { number, time, first, last: first, rows: 1 }
            })
            .filter(|end| !is_expired(view, end))
            .collect();
        let place = |end: &Emitted| (end.time, end.first);
        ending.sort_unstable_by_key(place);
        let follows = memory.emitted.last().map(place) < ending.first().map(place);
        memory.emitted.append(&mut ending);
        if !follows {
            memory.emitted.sort_by_key(place);
        }
        memory.next = arrived as i64;
    }
}

/// Whether the window that a row ends has expired.
fn is_expired(view: &View<'_>, end: &Emitted) -> bool {
    view.call.horizon.is_some_and(|horizon| end.time < horizon)
}

/// Whether no row in order can join the window that a row ends.
fn is_final(view: &View<'_>, end: &Emitted) -> bool {
    view.call.closing || view.call.has_reached(Some(end.time))
}

/// The place of the row that ends a window.
fn place_of(view: &View<'_>, end: &Emitted) -> usize {
    view.place_from((end.time, end.first))
}

impl Rules for Arrivals {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ForwardContextAware)
    }

    fn source(&self) -> &'static str {
        "Li 2008, Eq. 5.13-5.15"
    }

    fn reach(&self) -> i64 {
        self.size
    }

    fn is_ranked(&self) -> bool {
        true
    }

    /// Late rows shift ranks, and several windows may end at one time.
    fn is_numbered(&self) -> bool {
        true
    }

    fn identity(&self, _: (i64, i64), _: (i64, i64), number: i64) -> (i64, i64) {
        (number, 0)
    }

    /// A window that ends with a row at the horizon has not expired, and begins after `horizon - size`.
    fn accepts(&self) -> Accepts {
        Accepts::Since(self.size - 1)
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }
}

impl ByRows for Arrivals {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        let mut ends = self.windows(0, rows.arrivals);
        ends.sort_unstable();
        last_time::list(self.size, ends.into_iter().map(|(last, _)| last), rows.times, out);
        Ok(())
    }

    /// An inserted row shifts the ranks of all later rows, and so changes every window that ends after it.
    fn ready(&self, view: &View<'_>, memory: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        if !view.is_appended {
            out.looks_from(view.first_within(Some(self.size)));
        }
        memory.emitted.retain(|end| !is_expired(view, end));
        self.count(view, memory);
        let changed = view.changed();
        let first = view.times.get(changed).map(|&time| (time, view.ats[changed]));
        let was_final = |end: &Emitted| view.call.before.is_some_and(|before| end.time <= before);
        let is_settled =
            |end: &Emitted| was_final(end) && first.is_none_or(|first| (end.time, end.first) < first);
        let mut next = None;
        for end in &memory.emitted[memory.emitted.partition_point(is_settled)..] {
            let last = place_of(view, end);
            if !is_final(view, end) {
                next = earlier(next, Some(end.time));
                if last + 1 >= changed {
                    out.edges.push(last + 1);
                }
                continue;
            }
            let (lo, hi) = self.extent(last, view.times);
            out.edges.extend([lo, hi]);
            let extent = (end.time - self.size, end.time);
            let update = was_final(end) && end.first < view.call.base;
            out.emit_numbered(lo, hi, extent, end.number, update);
        }
        Ok(next)
    }

    /// Rows are counted as they arrive.
    fn lets_wait(&self) -> bool {
        false
    }

    fn final_edges(
        &self,
        view: &View<'_>,
        memory: &Memory,
        from: usize,
        edges: &mut Vec<usize>,
    ) -> Result<()> {
        let ends = memory.emitted.iter().rev().map(|end| (end, place_of(view, end)));
        for (end, last) in ends.take_while(|&(_, last)| last + 1 >= from) {
            edges.push(last + 1);
            edges.extend(is_final(view, end).then(|| self.extent(last, view.times).0));
        }
        Ok(())
    }

    fn needed(&self, view: &View<'_>, _: &Memory) -> usize {
        view.upto(view.call.horizon.map(|horizon| horizon.saturating_sub(self.size)))
    }

    /// Rows that end windows are there, and all rows were counted.
    fn is_sound(&self, view: &View<'_>, memory: &Memory) -> bool {
        let windows = memory.next / self.rows as i64;
        let is_end = |end: &Emitted| {
            let is_there = end.places(view.times, view.ats).is_some();
            is_there && end.rows == 1 && end.number < windows
        };
        memory.observed.is_none()
            && memory.next as u64 == view.rank(view.len())
            && memory.emitted.iter().all(is_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rows that arrive in several batches end the windows that they end when they arrive in one.
        #[test]
        fn rows_are_counted_as_they_arrive(
            rows in 1usize..6,
            mut times in prop::collection::vec(-20i64..20, 0..40),
            cut in any::<prop::sample::Index>(),
        ) {
            let window = Arrivals::new(5, rows);
            let cut = cut.index(times.len() + 1);
            // In the order of time, as a key's rows are; their numbers say when they arrived.
            let in_order = |times: &[i64], base: usize| {
                let mut all: Vec<(i64, usize)> = times.iter().copied().zip(base..).collect();
                all.sort_unstable();
                all.into_iter().map(|(_, at)| at).collect::<Vec<usize>>()
            };
            let ends = |before: usize, arrivals: &[usize]| -> Vec<(usize, i64)> {
                let found = window.windows(before as u64, arrivals);
                found.into_iter().map(|(at, number)| (arrivals[at], number)).collect()
            };
            let wanted: Vec<(usize, i64)> =
                (0..times.len()).filter(|at| (at + 1) % rows == 0).map(|at| (at, (at / rows) as i64)).collect();
            prop_assert_eq!(ends(0, &in_order(&times, 0)), wanted.clone());
            let second = times.split_off(cut);
            let mut found = ends(0, &in_order(&times, 0));
            found.extend(ends(cut, &in_order(&second, cut)));
            prop_assert_eq!(found, wanted);
        }
    }
}
