//! Shares of windows, after which `at` emits them.

use std::fmt;

use crate::window::Window;

/// Decimals of a share, at most.
const DECIMALS: usize = 18;

/// A share of a window: so many parts of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operator) struct Share(i128, i128);

impl Share {
    /// The decimal number that is written for this one.
    pub(super) fn of(share: f64) -> Self {
        let text = format!("{share}");
        let decimals: String = text.split('.').nth(1).unwrap_or_default().chars().take(DECIMALS).collect();
        let parts = decimals.parse::<i128>().unwrap_or_default();
        Self(parts.max(1), 10i128.pow(decimals.len() as u32))
    }

    /// The number that was given.
    pub(super) fn number(self) -> f64 {
        self.0 as f64 / self.1 as f64
    }

    /// The first time at which a window, or a stretch of it, has gone by to this share.
    pub(in crate::operator) fn time(self, (start, end): (i64, i64)) -> i64 {
        let length = i128::from(end) - i128::from(start);
        let part = (length * self.0 + self.1 - 1).div_euclid(self.1);
        (i128::from(start) + part) as i64
    }

    /// Whether windows of a type are so short that this share of any of them is all of it, since times are whole numbers.
    pub(super) fn is_all_of(self, window: &Window) -> bool {
        let extent = |id| window.ids().and_then(|ids| ids.extent_of(id, 0).ok().flatten());
        // Twelve months are of all lengths, and so are twelve years.
        let mut extents = (0..12).filter_map(extent).peekable();
        let news = |extent| window.by_time().map_or(extent, |rules| rules.news(extent));
        extents.peek().is_some() && extents.all(|extent| self.time(news(extent)) >= extent.1)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "at({}/{})", self.0, self.1)
    }
}
