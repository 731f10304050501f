//! User-defined context-free windows: their edges are a function of time, such as business days.
//!
//! | | |
//! |---|---|
//! | class | context free |
//! | needs | the maximum length of a window, so that it is known how far to look for windows of a row |
//! | time | one call per stretch of time with rows, none per row; O(log n) per row and per window |
//! | space | every window that was listed |
//! | source | Traub et al. 2019, §5.4.2: next edge, and the windows that end up to a watermark |

use std::sync::Arc;

use super::class::{Class, WindowTraits};
use super::known::{ContextFree, Known, STRETCH};
use super::spans::Listed;
use super::user_window::UserWindow;
use super::view::KeyRows;
use crate::Result;

/// A [`ContextFree`] type as a window type of a query; its answers are cached.
pub struct Calendar<W> {
    source: Arc<W>,
    known: Known,
}

impl<W: ContextFree + 'static> Calendar<W> {
    /// A calendar that has not been queried yet.
    pub fn new(source: W) -> Self {
        let source = Arc::new(source);
        Self { known: Known::new(source.clone()), source }
    }

    /// The user-defined type.
    pub fn source(&self) -> &W {
        &self.source
    }
}

impl<W: ContextFree + 'static> UserWindow for Calendar<W> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn longest(&self) -> Option<i64> {
        Some(self.source.longest())
    }

    fn known(&self) -> Option<Arc<Known>> {
        Some(Arc::new(Known::new(self.source.clone())))
    }

    fn list(&self, rows: &KeyRows<'_>, since: usize, out: &mut Vec<Listed>) -> Result<()> {
        let (times, longest) = (rows.times, self.source.longest());
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
            self.known.learn(begin, end)?;
            for (start, end) in self.known.ending(after, until) {
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
