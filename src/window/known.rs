//! Windows that a user's definition says are there, as far as it was asked: what a stream cuts slices by, and lists.
//!
//! Asking may fail, and a call has to fail before it changes anything. So a call asks about the times of its rows first
//! ([`Known::look_up`]). What is read later is known by then: windows that contain a row, and the edges around it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::spans::{Ending, Listed, Spans};
use crate::{Error, Result};

/// A stretch of time is requested in multiples of the window length: a call costs more than a few windows without rows,
/// and the next key may have rows there.
pub(super) const STRETCH: i64 = 16;

/// A window type whose edges depend on nothing but the measure.
pub trait ContextFree: Send + Sync {
    /// The name used in errors.
    fn name(&self) -> &str;

    /// The maximum length of a window.
    fn longest(&self) -> i64;

    /// A time in errors.
    fn shown(&self, t: i64) -> String {
        t.to_string()
    }

    /// The first edge after `t`, start or end of a window.
    ///
    /// # Errors
    /// What a user's code raises.
    fn next_edge(&self, t: i64) -> Result<i64>;

    /// The windows `(start, end)` with `since < end <= until`, in any order.
    ///
    /// # Errors
    /// What a user's code raises.
    fn windows(&self, since: i64, until: i64) -> Result<Vec<(i64, i64)>>;
}

/// The windows of a definition that were asked for.
pub struct Known {
    source: Arc<dyn ContextFree>,
    cached: Mutex<Cached>,
}

/// Windows by end and start, and for which ends they are known.
#[derive(Default)]
struct Cached {
    windows: BTreeSet<(i64, i64)>,
    /// Where they begin and end.
    edges: BTreeSet<i64>,
    /// Ends in `(since, until]` are known, by `since`; no two such stretches touch.
    stretches: BTreeMap<i64, i64>,
}

impl Cached {
    /// Whether ends in `(since, until]` are known.
    fn has(&self, since: i64, until: i64) -> bool {
        self.stretches.range(..=since).next_back().is_some_and(|(_, &reached)| reached >= until)
    }

    /// The windows with `since < end <= until`, as `(end, start)`.
    fn ending(&self, since: i64, until: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
        let some = (since < until).then(|| self.windows.range((since + 1, i64::MIN)..=(until, i64::MAX)));
        some.into_iter().flatten().copied()
    }
}

impl Known {
    /// Nothing was asked yet.
    pub fn new(source: Arc<dyn ContextFree>) -> Self {
        Self { source, cached: Mutex::default() }
    }

    fn cached(&self) -> MutexGuard<'_, Cached> {
        // After a panic it is sound: a stretch is known once its windows are there.
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn longest(&self) -> i64 {
        self.source.longest().max(1)
    }

    /// The first edge after `t`, checked.
    fn next_edge(&self, t: i64) -> Result<i64> {
        let edge = self.source.next_edge(t)?;
        if edge <= t {
            let [t, edge] = [t, edge].map(|time| self.source.shown(time));
            return self.refused(format!("next_edge({t}) is {edge}; the next edge must be after t"));
        }
        Ok(edge)
    }

    /// The windows with `since < end <= until`, checked.
    fn windows(&self, since: i64, until: i64) -> Result<Vec<(i64, i64)>> {
        let next = self.next_edge(since)?;
        let windows = self.source.windows(since, until)?;
        for &(start, end) in &windows {
            let shown = |time| self.source.shown(time);
            let found = || {
                let [since, until, start, end] = [since, until, start, end].map(shown);
                format!("windows({since}, {until}) has [{start}, {end})")
            };
            if !(since < end && end <= until) {
                let (found, [since, until]) = (found(), [since, until].map(shown));
                return self.refused(format!("{found}; windows end after {since} and not after {until}"));
            }
            if start >= end || end.saturating_sub(start) > self.source.longest() {
                let (found, longest) = (found(), self.source.longest());
                return self
                    .refused(format!("{found}; windows are longer than 0 and at most {longest} long"));
            }
            if let Some(edge) = [start, end].into_iter().find(|&edge| since < edge && edge < next) {
                let (found, [since, next, edge]) = (found(), [since, next, edge].map(shown));
                return self.refused(format!("{found}, but next_edge({since}) is {next} and not {edge}"));
            }
        }
        Ok(windows)
    }

    fn refused<T>(&self, why: String) -> Result<T> {
        Err(Error::InvalidValue(format!("{}: {why}", self.source.name())))
    }

    /// Asks for the windows with ends in `(since, until]`, unless they are known.
    ///
    /// # Errors
    /// What a user's code raises, and `InvalidValue` for an edge that is not after the time it was asked about, and for a
    /// window that is outside the stretch, is empty, too long, or begins or ends before the next edge.
    pub(super) fn learn(&self, since: i64, until: i64) -> Result<()> {
        let cached = &mut *self.cached();
        let mut from = since;
        let before = cached.stretches.range(..=since).next_back().map(|(_, &until)| until);
        if let Some(reached) = before.filter(|&reached| reached >= since) {
            from = reached;
        }
        while from < until {
            let next = cached.stretches.range(from + 1..).next().map(|(&since, &until)| (since, until));
            let to = next.map_or(until, |(since, _)| since.min(until));
            for (start, end) in self.windows(from, to)? {
                cached.windows.insert((end, start));
                cached.edges.extend([start, end]);
            }
            let (mut begin, mut reached) = (from, to);
            if let Some((&earlier, &touching)) = cached.stretches.range(..=from).next_back()
                && touching >= from
            {
                begin = earlier;
            }
            if let Some((later, further)) = next.filter(|&(later, _)| later == to) {
                cached.stretches.remove(&later);
                reached = further;
            }
            cached.stretches.insert(begin, reached);
            from = reached;
        }
        Ok(())
    }

    /// Asks for all windows near these times, unless they are known. O(times), and O(log n) for each stretch of time that
    /// they pass.
    ///
    /// # Errors
    /// What a user's code raises, and `InvalidValue` for windows that its definition may not have.
    pub fn look_up(&self, times: &[i64]) -> Result<()> {
        let longest = self.longest();
        let stretch = longest.saturating_mul(STRETCH);
        let mut near = None;
        for &t in times {
            if near.is_some_and(|(first, last)| (first..=last).contains(&t)) {
                continue;
            }
            let (from, until) = around(t, longest);
            let begin = from.div_euclid(stretch).saturating_mul(stretch);
            let end = (until - 1).div_euclid(stretch).saturating_add(1).saturating_mul(stretch);
            self.learn(begin, end)?;
            near = Some((begin.saturating_add(longest), end.saturating_sub(longest).saturating_sub(longest)));
        }
        Ok(())
    }

    /// `[start, end)` of the slice of `t`. Between windows, where a row is in none, slices are as long as the longest window,
    /// so that they depend on nothing but the windows near them. What was not looked up is a slice of its own.
    pub fn slice_of(&self, t: i64) -> (i64, i64) {
        let (cached, longest) = (self.cached(), self.longest());
        let ((from, until), to) = (around(t, longest), t.saturating_add(longest));
        if !cached.has(from, until) {
            return (t, t.saturating_add(1));
        }
        let start = cached.edges.range(from.saturating_add(1)..=t).next_back().copied();
        let end = cached.edges.range(t.saturating_add(1)..).next().copied().filter(|&end| end <= to);
        if cached.ending(t, to).any(|(_, start)| start <= t) {
            return (start.unwrap_or(t), end.unwrap_or(to));
        }
        let begun = t.div_euclid(longest).saturating_mul(longest);
        let over = begun.saturating_add(longest);
        (start.map_or(begun, |start| start.max(begun)), end.map_or(over, |end| end.min(over)))
    }

    /// The windows with `since < end <= until` that are known, as `(start, end)`.
    pub(super) fn ending(&self, since: i64, until: i64) -> Vec<(i64, i64)> {
        self.cached().ending(since, until).map(|(end, start)| (start, end)).collect()
    }

    /// Whether a window that ends after `horizon` contains `t`, which was looked up.
    pub(super) fn covers(&self, t: i64, horizon: i64) -> bool {
        let until = t.saturating_add(self.longest());
        self.cached().ending(t.max(horizon), until).any(|(_, start)| start <= t)
    }

    /// The earliest start of a window that ends after `horizon`, if it is known and not after that; otherwise the earliest that
    /// there may be.
    pub(super) fn first_start(&self, horizon: i64) -> i64 {
        let (cached, longest) = (self.cached(), self.longest());
        let until = horizon.saturating_add(longest);
        match cached.has(horizon, until) {
            true => cached.ending(horizon, until).map(|(_, start)| start).fold(horizon, i64::min),
            false => horizon.saturating_sub(longest),
        }
    }

    /// Whether a window that ends after `horizon` begins after `earlier` and not after `later`.
    pub(super) fn begins_between(&self, (earlier, later): (i64, i64), horizon: i64) -> bool {
        let until = later.saturating_add(self.longest());
        let between = |(_, start): (i64, i64)| earlier < start && start <= later;
        self.cached().ending(earlier.max(horizon), until).any(between)
    }

    /// Whether some requested window is known.
    pub(super) fn may_end(&self, ending: &Ending) -> bool {
        self.cached().ending(ending.after.unwrap_or(i64::MIN), ending.upto).next().is_some()
    }

    /// Calls `found` with the requested windows over these spans, by end and then by start, until it returns `false`. All spans
    /// were looked up.
    pub(super) fn each(&self, spans: Spans<'_>, ending: &Ending, mut found: impl FnMut(Listed) -> bool) {
        let (Some(&first), Some(&last)) = (spans.firsts.first(), spans.lasts.last()) else { return };
        let (cached, longest) = (self.cached(), self.longest());
        let until = last.saturating_add(longest).min(ending.upto);
        let (mut from, mut near) = (ending.after.unwrap_or(i64::MIN).max(first), 0);
        'seek: loop {
            for (end, start) in cached.ending(from, until) {
                let hi = spans.before(end, near);
                let lo = spans.before(start, hi);
                near = hi;
                if lo < hi {
                    if ending.holds(start, end) && !found(Listed::new(lo, hi, (start, end))) {
                        return;
                    }
                    continue;
                }
                // Windows that end later may still begin before this one, but none so early as the spans before it, if
                // those are far.
                let is_far = hi == 0 || spans.firsts[hi - 1].saturating_add(longest) < end;
                match spans.firsts.get(hi) {
                    None if is_far => return,
                    Some(&next) if is_far && next > end => {
                        from = next;
                        continue 'seek;
                    }
                    _ => {}
                }
            }
            return;
        }
    }

    /// Adds the requested windows that contain one of these times, which ascend.
    pub(super) fn changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>) {
        let (cached, longest) = (self.cached(), self.longest());
        let mut before = None;
        for &t in changed {
            let from = ending.after.map_or(t, |after| after.max(t));
            for (end, start) in cached.ending(from, t.saturating_add(longest).min(ending.upto)) {
                // A window that contains the time before is there already.
                if start <= t && before.is_none_or(|before| start > before) && ending.holds(start, end) {
                    let hi = spans.before(end, 0);
                    let lo = spans.before(start, hi);
                    if lo < hi {
                        out.push(Listed::new(lo, hi, (start, end)));
                    }
                }
            }
            before = Some(t);
        }
    }

    /// Forgets windows that end so long before `horizon` that they cut no slice of a window which ends after it.
    pub fn forget(&self, horizon: i64) {
        let cached = &mut *self.cached();
        let upto = horizon.saturating_sub(self.longest()).saturating_sub(self.longest());
        let Some(after) = upto.checked_add(1) else { return };
        if cached.windows.first().is_none_or(|&(end, _)| end > upto) {
            return;
        }
        cached.windows = cached.windows.split_off(&(after, i64::MIN));
        cached.edges = cached.edges.split_off(&after);
        let over = cached.stretches.range(..upto).next_back().map(|(_, &until)| until);
        cached.stretches = cached.stretches.split_off(&upto);
        if let Some(until) = over.filter(|&until| until > upto) {
            cached.stretches.insert(upto, until);
        }
    }
}

/// Where windows end that are near `t`: that contain it, and that begin or end no further from it than one is long.
fn around(t: i64, longest: i64) -> (i64, i64) {
    (t.saturating_sub(longest), t.saturating_add(longest).saturating_add(longest))
}

/// Two are the same if they are one.
impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Known {}

impl fmt::Debug for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.source.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// No window is longer.
    const LONGEST: i64 = 20;

    /// Windows that a test gives.
    struct Given(Vec<(i64, i64)>);

    impl ContextFree for Given {
        fn name(&self) -> &str {
            "given"
        }

        fn longest(&self) -> i64 {
            LONGEST
        }

        fn next_edge(&self, t: i64) -> Result<i64> {
            let edges = self.0.iter().flat_map(|&(start, end)| [start, end]);
            Ok(edges.filter(|&edge| edge > t).min().unwrap_or(i64::MAX))
        }

        fn windows(&self, since: i64, until: i64) -> Result<Vec<(i64, i64)>> {
            Ok(self.0.iter().copied().filter(|&(_, end)| since < end && end <= until).collect())
        }
    }

    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![-60i64..60, -60i64..60, -2_000i64..2_000]
    }

    proptest! {
        /// Slices are cut where windows begin and end, and windows over slices are those with rows, whatever was forgotten of
        /// those that ended before.
        #[test]
        fn slices_and_windows_are_the_definition(
            windows in prop::collection::btree_set((-60i64..60, 1..=LONGEST), 0..12),
            times in prop::collection::btree_set(time(), 1..30),
            changed in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
            (after, length, since) in (prop::option::of(time()), 0i64..90, prop::option::of(-60i64..60)),
            forgotten in prop::option::of(0i64..90),
        ) {
            let windows: Vec<(i64, i64)> = windows.into_iter().map(|(start, size)| (start, start + size)).collect();
            let (known, times) = (Known::new(Arc::new(Given(windows.clone()))), Vec::from_iter(times));
            known.look_up(&times).unwrap();
            let mut slices: Vec<((i64, i64), i64, i64)> = Vec::new();
            for &t in &times {
                let (start, end) = known.slice_of(t);
                prop_assert!(start <= t && t < end);
                let is_cut = |&(from, to): &(i64, i64)| [from, to].iter().any(|&edge| start < edge && edge < end);
                prop_assert!(!windows.iter().any(is_cut));
                let is_edge = |t: i64| windows.iter().any(|&(from, to)| t == from || t == to);
                let is_within = windows.iter().any(|&(from, to)| from <= t && t < to);
                prop_assert!(!is_within || is_edge(start) && is_edge(end));
                match slices.last_mut() {
                    Some((slice, _, last)) if *slice == (start, end) => *last = t,
                    _ => slices.push(((start, end), t, t)),
                }
            }
            let firsts: Vec<i64> = slices.iter().map(|slice| slice.1).collect();
            let lasts: Vec<i64> = slices.iter().map(|slice| slice.2).collect();
            let spans = Spans { firsts: &firsts, lasts: &lasts };
            let upto = after.map_or(i64::MAX, |after| after + length);
            let ending = Ending { after, upto, since, bounds: (i64::MIN, i64::MAX) };
            if let Some((horizon, before)) = after.zip(forgotten) {
                let horizon = horizon - before;
                let slices: Vec<_> = times.iter().map(|&t| known.slice_of(t)).collect();
                known.forget(horizon);
                for (&t, slice) in times.iter().zip(slices).filter(|&(&t, _)| t >= horizon) {
                    prop_assert_eq!(known.slice_of(t), slice);
                }
            }
            let of_rows = |which: &[i64]| {
                let mut wanted = Vec::new();
                for &(start, end) in windows.iter().filter(|&&(start, end)| ending.holds(start, end)) {
                    if which.iter().any(|&t| start <= t && t < end) {
                        let before = |t: i64| firsts.iter().filter(|&&first| first < t).count();
                        wanted.push(Listed::new(before(start), before(end), (start, end)));
                    }
                }
                wanted.sort_by_key(|each| (each.end, each.start));
                wanted
            };
            let mut listed = Vec::new();
            known.each(spans, &ending, |window| { listed.push(window); true });
            prop_assert_eq!(&listed, &of_rows(&times));
            prop_assert!(listed.is_empty() || known.may_end(&ending));
            let mut changed: Vec<i64> = changed.iter().map(|at| times[at.index(times.len())]).collect();
            changed.sort_unstable();
            let mut of_changed = Vec::new();
            known.changed(spans, &changed, &ending, &mut of_changed);
            of_changed.sort_by_key(|each| (each.end, each.start));
            prop_assert_eq!(of_changed, of_rows(&changed));
        }

        /// A row is in an unexpired window exactly if one contains it; none begins before the first start.
        #[test]
        fn rows_that_are_not_too_late_are_the_definition(
            windows in prop::collection::btree_set((-60i64..60, 1..=LONGEST), 0..12), t in -80i64..80, horizon in -80i64..80,
        ) {
            let windows: Vec<(i64, i64)> = windows.into_iter().map(|(start, size)| (start, start + size)).collect();
            let known = Known::new(Arc::new(Given(windows.clone())));
            prop_assert_eq!(known.first_start(horizon), horizon - LONGEST);
            known.look_up(&[t]).unwrap();
            let open = || windows.iter().filter(|&&(_, end)| end > horizon);
            prop_assert_eq!(known.covers(t, horizon), open().any(|&(start, end)| start <= t && t < end));
            known.look_up(&[horizon]).unwrap();
            let first = open().map(|&(start, _)| start).fold(horizon, i64::min);
            prop_assert_eq!(known.first_start(horizon), first);
            let between = open().any(|&(start, _)| horizon - 10 < start && start <= horizon);
            prop_assert_eq!(known.begins_between((horizon - 10, horizon), horizon), between);
        }
    }
}
