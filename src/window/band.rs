//! A fixed band `[start, end)`: one window, context free (Traub et al. 2019, §4.4).
//!
//! | | |
//! |---|---|
//! | class | context free: both edges are given |
//! | stored | slices, cut at its two edges |
//! | time | O(1) per row |
//! | source | Li 2008, §5.1.1: windows() = {0}, extent(0) = {t: start <= t < end} |

use serde::Serialize;

use super::class::{Class, WindowTraits};
use super::cuts::Cuts;
use super::ids::{Ids, Range};
use super::rules::{Accepts, ByTime, Rules};
use super::spans::{Cursor, Ending, Listed, Spans};

/// The window `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Band {
    start: i64,
    end: i64,
}

impl Band {
    /// The window `[start, end)`.
    ///
    /// # Panics
    /// Unless `start < end`; plans check this first and return a proper error.
    pub fn new(start: i64, end: i64) -> Self {
        assert!(start < end, "start < end");
        Self { start, end }
    }

    /// `[start, end)`, the extent of the only window.
    pub fn extent(&self) -> (i64, i64) {
        (self.start, self.end)
    }

    /// Whether a row at `t` belongs to it.
    #[inline]
    pub fn wids(&self, t: i64) -> bool {
        self.start <= t && t < self.end
    }
}

impl Rules for Band {
    fn traits(&self) -> WindowTraits {
        WindowTraits::of(Class::ContextFree)
    }

    fn source(&self) -> &'static str {
        "Li 2008, §5.1.1"
    }

    fn reach(&self) -> i64 {
        0
    }

    fn takes_from(&self, horizon: i64, _: (i64, i64)) -> i64 {
        if horizon < self.end { horizon.min(self.start) } else { horizon }
    }

    fn accepts(&self) -> Accepts {
        Accepts::Any
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        Some(self)
    }
}

impl ByTime for Band {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        let edges = [self.start, self.end].into_iter();
        cuts.points.extend(edges.filter(|&edge| since.is_none_or(|since| edge > since)));
    }

    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<Listed>,
    ) {
        let (lo, hi) = (spans.before(self.start, cursor.lo), spans.before(self.end, cursor.lo));
        if most > 0 && cursor.resume.is_none() && lo < hi && self.may_end(ending) {
            out.push(Listed::new(lo, hi, self.extent()));
        }
        *cursor = Cursor { resume: Some(self.start), lo, hi };
    }

    fn list_changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>) {
        if changed.iter().any(|&t| self.wids(t)) {
            self.list(spans, ending, &mut Cursor::default(), 1, out);
        }
    }

    fn may_end(&self, ending: &Ending) -> bool {
        ending.holds(self.start, self.end)
    }

    fn windows_per_span(&self) -> i64 {
        1
    }

    fn is_long(&self) -> bool {
        true
    }

    fn keeps_apart(&self, (earlier, later): (i64, i64), _: Option<i64>, horizon: i64) -> bool {
        earlier < self.start && self.start <= later && self.end > horizon
    }
}

/// The only window has id 0.
impl Ids for Band {
    #[inline]
    fn ids_at(&self, t: i64, _: i64) -> Range {
        Ok(self.wids(t).then_some((0, 0)))
    }

    #[inline]
    fn extent_of(&self, id: i64, _: i64) -> Range {
        Ok((id == 0).then(|| self.extent()))
    }
}
