//! User-defined context-free windows: their edges are a function of time, such as business days.
//!
//! | | |
//! |---|---|
//! | class | context free |
//! | needs | the maximum length of a window, so that it is known how far to look for windows of a row |
//! | time | one call per stretch of time with rows, none per row; O(log n) per row and per window |
//! | space | every window that was listed |
//! | source | Traub et al. 2019, §5.4.2: next edge, and the windows that end up to a watermark |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::class::{Class, WindowTraits};
use super::spans::Listed;
use super::user_window::UserWindow;
use super::view::KeyRows;
use crate::{Error, Result};

/// A stretch of time is requested in multiples of the window length: a call costs more than a few windows without rows,
/// and the next key may have rows there.
const STRETCH: i64 = 16;

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

/// A [`ContextFree`] type as a window type of a query; its answers are cached.
pub struct Calendar<W> {
    source: W,
    cached: Mutex<Cached>,
}

/// Windows by end and start, and for which ends they are known.
#[derive(Default)]
struct Cached {
    windows: BTreeSet<(i64, i64)>,
    /// Ends in `(since, until]` are known, by `since`; no two such stretches touch.
    stretches: BTreeMap<i64, i64>,
}

impl<W: ContextFree> Calendar<W> {
    /// A calendar that has not been queried yet.
    pub fn new(source: W) -> Self {
        Self { source, cached: Mutex::default() }
    }

    /// The user-defined type.
    pub fn source(&self) -> &W {
        &self.source
    }

    /// The first edge after `t`, checked.
    ///
    /// # Errors
    /// As [`ContextFree::next_edge`], and `InvalidValue` for an edge that is not after `t`.
    pub fn next_edge(&self, t: i64) -> Result<i64> {
        let edge = self.source.next_edge(t)?;
        if edge <= t {
            let [t, edge] = [t, edge].map(|time| self.source.shown(time));
            return self.refused(format!("next_edge({t}) is {edge}; the next edge must be after t"));
        }
        Ok(edge)
    }

    /// The windows with `since < end <= until`, by end and start, checked.
    ///
    /// # Errors
    /// As [`ContextFree::windows`], and `InvalidValue` for a window that is outside this stretch, is empty, too long,
    /// or begins or ends before the next edge.
    pub fn windows(&self, since: i64, until: i64) -> Result<Vec<(i64, i64)>> {
        let next = self.next_edge(since)?;
        let mut windows = self.source.windows(since, until)?;
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
        windows.sort_unstable_by_key(|&(start, end)| (end, start));
        windows.dedup();
        Ok(windows)
    }

    fn refused<T>(&self, why: String) -> Result<T> {
        Err(Error::InvalidValue(format!("{}: {why}", self.source.name())))
    }

    /// Fetches the windows with ends in `(since, until]`, unless they are known.
    fn learn(&self, cached: &mut Cached, since: i64, until: i64) -> Result<()> {
        let mut from = since;
        let before = cached.stretches.range(..=since).next_back().map(|(_, &until)| until);
        if let Some(reached) = before.filter(|&reached| reached >= since) {
            from = reached;
        }
        while from < until {
            let next = cached.stretches.range(from + 1..).next().map(|(&since, &until)| (since, until));
            let to = next.map_or(until, |(since, _)| since.min(until));
            cached.windows.extend(self.windows(from, to)?.into_iter().map(|(start, end)| (end, start)));
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
}

impl<W: ContextFree> UserWindow for Calendar<W> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn longest(&self) -> Option<i64> {
        Some(self.source.longest())
    }

    fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        let (times, longest) = (rows.times, self.source.longest());
        let poisoned = |_| Error::Internal("an earlier call panicked".into());
        let mut cached = self.cached.lock().map_err(poisoned)?;
        let mut first = since;
        while first < times.len() {
            // Rows close to each other: windows containing one of them end between these.
            let stretch = longest.saturating_mul(STRETCH);
            let apart = |pair: &[i64]| pair[1].saturating_sub(pair[0]) > stretch;
            let later = times[first..].windows(2).position(apart);
            let last = later.map_or(times.len() - 1, |at| first + at);
            let (after, until) = (times[first], times[last].saturating_add(longest));
            let begin = after.div_euclid(stretch).saturating_mul(stretch);
            let end = (until - 1).div_euclid(stretch).saturating_add(1).saturating_mul(stretch);
            self.learn(&mut cached, begin, end)?;
            for &(end, start) in cached.windows.range((after + 1, i64::MIN)..=(until, i64::MAX)) {
                let (lo, hi) = (times.partition_point(|&t| t < start), times.partition_point(|&t| t < end));
                if lo < hi && hi > first {
                    out.push(Listed::new(lo, hi, (start, end)));
                }
            }
            first = last + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Windows between the triangular numbers, and one over every three of them.
    struct Triangles(AtomicUsize);

    fn edges() -> impl Iterator<Item = i64> + Clone {
        (-60i64..60).map(|n| n.signum() * n * (n + n.signum()) / 2)
    }

    fn windows() -> Vec<(i64, i64)> {
        let all: Vec<i64> = edges().collect();
        let short = all.windows(2).map(|pair| (pair[0], pair[1]));
        short.chain(all.windows(4).map(|four| (four[0], four[3]))).collect()
    }

    impl ContextFree for Triangles {
        fn name(&self) -> &str {
            "triangles"
        }

        fn longest(&self) -> i64 {
            180
        }

        fn next_edge(&self, t: i64) -> Result<i64> {
            Ok(edges().find(|&edge| edge > t).unwrap_or(i64::MAX))
        }

        fn windows(&self, since: i64, until: i64) -> Result<Vec<(i64, i64)>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(windows().into_iter().filter(|&(_, end)| since < end && end <= until).collect())
        }
    }

    proptest! {
        /// Keys queried one after the other have the windows that contain their rows, each once.
        #[test]
        fn listings_are_the_definition(
            keys in prop::collection::vec(prop::collection::vec(-1500i64..1500, 0..12), 1..6), since in 0usize..6,
        ) {
            let calendar = Calendar::new(Triangles(AtomicUsize::new(0)));
            for mut times in keys {
                times.sort_unstable();
                let mut listed = Vec::new();
                calendar.list(&KeyRows { times: &times, columns: &[], arrivals: &[] }, since, &mut listed).unwrap();
                let mut wanted = Vec::new();
                for (start, end) in windows() {
                    let inside: Vec<usize> =
                        (0..times.len()).filter(|&row| start <= times[row] && times[row] < end).collect();
                    if let (Some(&lo), Some(&last)) = (inside.first(), inside.last())
                        && last >= since
                    {
                        wanted.push(Listed::new(lo, last + 1, (start, end)));
                    }
                }
                wanted.sort_unstable_by_key(|w| (w.end, w.start));
                listed.sort_unstable_by_key(|w| (w.end, w.start));
                prop_assert_eq!(listed, wanted);
            }
        }
    }

    #[test]
    fn what_is_known_is_not_requested_again() {
        let calendar = Calendar::new(Triangles(AtomicUsize::new(0)));
        let calls = |times: &[i64]| {
            calendar.list(&KeyRows { times, columns: &[], arrivals: &[] }, 0, &mut Vec::new()).unwrap();
            calendar.source().0.load(Ordering::Relaxed)
        };
        assert_eq!(calls(&[0, 1, 2, 100]), 1);
        assert_eq!(calls(&[50, 90]), 1);
        assert_eq!(calls(&[-20, 300]), 2);
        assert_eq!(calls(&[-10, 290]), 2);
        assert_eq!(calls(&[-10, 5000]), 3);
        assert_eq!(calls(&[2000, 4000]), 3);
    }

    /// Wrong answers are rejected, by name.
    #[test]
    fn users_errors_are_reported() {
        struct Wrong(i64, Vec<(i64, i64)>);
        impl ContextFree for Wrong {
            fn name(&self) -> &str {
                "wrong"
            }
            fn longest(&self) -> i64 {
                10
            }
            fn next_edge(&self, t: i64) -> Result<i64> {
                Ok(t + self.0)
            }
            fn windows(&self, _: i64, _: i64) -> Result<Vec<(i64, i64)>> {
                Ok(self.1.clone())
            }
        }
        let error = |step, windows: &[(i64, i64)]| {
            let calendar = Calendar::new(Wrong(step, windows.to_vec()));
            let error =
                calendar.list(&KeyRows { times: &[5], columns: &[], arrivals: &[] }, 0, &mut Vec::new());
            error.map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert!(error(0, &[]).starts_with("wrong: next_edge(0) is 0"));
        assert!(error(1, &[(155, 165)]).contains("not after 160"));
        assert!(error(1, &[(7, 7)]).contains("longer than 0"));
        assert!(error(1, &[(-3, 8)]).contains("at most 10"));
        assert!(error(4, &[(2, 8)]).contains("next_edge(0) is 4 and not 2"));
        assert_eq!(error(1, &[(4, 8)]), "");
    }
}
