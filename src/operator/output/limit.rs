//! How many windows bounded input makes: known before any of them is computed, unless only the rows say so.

use std::sync::atomic::{AtomicU64, Ordering};

use super::source::Source;
use crate::Result;
use crate::interrupt::check;
use crate::operator::plan::Plan;
use crate::poll::sort_unstable;
use crate::slice::KeyOrder;
use crate::window::{Ending, Spans, Window};

/// Counts windows by rows as they are listed, where they might become too many.
pub(super) struct Limit {
    /// How many there may be, if they have to be counted.
    most: Option<u64>,
    counted: AtomicU64,
}

impl Limit {
    /// Counts the windows by time. O(1) where there are few rows or few windows for each, else O(rows or slices).
    ///
    /// # Errors
    /// `InvalidValue` if they are more than the plan allows.
    pub(super) fn of<'a>(
        plan: &Plan,
        parts: impl Iterator<Item = (&'a Source, &'a KeyOrder)> + Clone,
    ) -> Result<Self> {
        let unlimited = || Self { most: None, counted: AtomicU64::new(0) };
        let Some(most) = plan.max_windows() else { return Ok(unlimited()) };
        let slots = parts.clone().map(|(_, order)| order.slots.len()).sum();
        let at_most = |window: &Window| match (window.by_time(), window.by_rows()) {
            (Some(rules), _) => rules.at_most(slots, &Ending::ALL),
            (None, Some(rules)) if rules.has_few() => slots as u64,
            _ => u64::MAX,
        };
        let windows = plan.windows();
        if plan.fill().is_some() {
            return Self::filled(plan, parts.map(|(_, order)| order), most);
        }
        if windows.iter().map(|(_, window)| at_most(window)).fold(0, u64::saturating_add) <= most {
            return Ok(unlimited());
        }
        let mut counts = vec![0u64; windows.len()];
        let mut count = |spans: Spans<'_>| {
            for (count, (_, window)) in counts.iter_mut().zip(windows) {
                let own = window.by_time().map_or(0, |rules| rules.count(spans, &Ending::ALL));
                *count = count.saturating_add(own);
            }
        };
        let keys = parts
            .flat_map(|(source, order)| (0..order.bounds.len() - 1).map(move |key| (source, order, key)));
        for (source, order, key) in keys {
            check()?;
            match source {
                Source::Slices(table) => {
                    let groups = table.groups(order, (key, key + 1), plan.edges(), check)?;
                    let lasts = groups.lasts.as_deref().unwrap_or(&groups.starts);
                    count(Spans { firsts: &groups.starts, lasts });
                }
                Source::Rows(_) => {
                    let rows = &order.slots[order.bounds[key]..order.bounds[key + 1]];
                    let mut times: Vec<i64> = rows.iter().map(|&(time, _)| time).collect();
                    sort_unstable(&mut times, check)?;
                    count(Spans::of_rows(&times));
                }
            }
        }
        Self::none_beyond(plan, &counts, most)
    }

    /// Counts the windows by time from each key's first to its last, with rows or without. O(slots).
    fn filled<'a>(plan: &Plan, orders: impl Iterator<Item = &'a KeyOrder>, most: u64) -> Result<Self> {
        let mut counts = vec![0u64; plan.windows().len()];
        for (order, key) in orders.flat_map(|order| (0..order.bounds.len() - 1).map(move |key| (order, key)))
        {
            check()?;
            let times =
                || order.slots[order.bounds[key]..order.bounds[key + 1]].iter().map(|&(time, _)| time);
            let (Some(first), Some(last)) = (times().min(), times().max()) else { continue };
            for (count, (_, window)) in counts.iter_mut().zip(plan.windows()) {
                let own = window.series().map_or(0, |series| series.between(first, last));
                *count = count.saturating_add(own);
            }
        }
        Self::none_beyond(plan, &counts, most)
    }

    /// What counts further windows, after these of each type.
    fn none_beyond(plan: &Plan, counts: &[u64], most: u64) -> Result<Self> {
        let limit = Self { most: Some(most), counted: AtomicU64::new(0) };
        let total = counts.iter().copied().fold(0, u64::saturating_add);
        let greatest = (0..counts.len()).max_by_key(|&window| counts[window]).unwrap_or(0);
        limit.add(plan, greatest, total)?;
        Ok(limit)
    }

    /// Counts more windows, with this number.
    ///
    /// # Errors
    /// `InvalidValue` if there are too many now.
    pub(super) fn add(&self, plan: &Plan, window: usize, more: u64) -> Result<()> {
        let Some(most) = self.most else { return Ok(()) };
        let total = self.counted.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let context =
            if plan.fill().is_some() { "the query, with those that fill adds," } else { "the query" };
        if total > most { Err(plan.too_many(context, total, window)) } else { Ok(()) }
    }
}
