//! The rules of user-defined window types.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::class::WindowTraits;
use super::cuts::Cuts;
use super::known::Known;
use super::memory::Memory;
use super::rules::{Accepts, ByRows, ByTime, Rules};
use super::spans::{Cursor, Ending, Listed, Spans};
use super::user_window::UserWindow;
use super::view::{KeyRows, Ready, View, earlier};
use crate::Result;

/// A [`UserWindow`] and the columns it reads. Compared by identity.
#[derive(Clone, Serialize)]
pub struct User {
    #[serde(serialize_with = "by_name")]
    window: Arc<dyn UserWindow>,
    columns: Vec<usize>,
    /// Its windows, if slices are cut by them.
    #[serde(skip)]
    known: Option<Arc<Known>>,
}

impl User {
    /// The window over the columns at these positions.
    pub fn new(window: Arc<dyn UserWindow>, columns: Vec<usize>) -> Self {
        Self { window, columns, known: None }
    }

    /// The same windows by slices, if their edges are known before any row. What is asked of the definition is kept apart from
    /// all others, so that it can be forgotten.
    pub fn sliced(&self) -> Option<Self> {
        let known = self.window.known().filter(|_| self.is_calendar())?;
        Some(Self { known: Some(known), ..self.clone() })
    }

    /// Whether it is a calendar: start and end of its windows are known in advance.
    fn is_calendar(&self) -> bool {
        self.window.traits().is_fixed()
    }

    /// Lists the windows of a calendar with rows from `since` on.
    fn listed(&self, view: &View<'_>, since: usize) -> Result<Vec<Listed>> {
        let (columns, mut listed) = (view.reader.read(&self.columns, view.ats)?, Vec::new());
        self.window.listed(
            &KeyRows { times: view.times, columns: &columns, arrivals: &[] },
            since,
            &mut listed,
        )?;
        Ok(listed)
    }

    /// The windows of a calendar: they are final as soon as the watermark reaches their end, and change with their
    /// rows.
    fn by_calendar(&self, view: &View<'_>, out: &mut Ready) -> Result<Option<i64>> {
        let longest = self.window.longest();
        if !view.is_appended {
            out.looks_from(view.first_within(longest));
        }
        // All earlier windows are final and unchanged.
        let since = match (view.call.before, longest) {
            (Some(before), Some(longest)) => {
                let from = before.saturating_sub(longest);
                view.changed().min(view.times.partition_point(|&time| time < from))
            }
            _ => 0,
        };
        let mut next = None;
        for Listed { lo, hi, start, end } in self.listed(view, since)? {
            let (lo, hi) = (lo as usize, hi as usize);
            if view.call.since.is_some_and(|since| start <= since) {
                continue;
            }
            out.edges.extend([lo, hi]);
            let was_final = |watermark: Option<i64>| watermark.is_some_and(|watermark| end <= watermark);
            if was_final(view.call.before) {
                if view.has_new(lo, hi) && !was_final(view.call.horizon) {
                    out.emit(lo, hi, (start, end), true);
                }
            } else if was_final(view.call.now) {
                out.emit(lo, hi, (start, end), false);
            } else {
                next = earlier(next, Some(end));
            }
        }
        Ok(next)
    }
}

impl Rules for User {
    fn traits(&self) -> WindowTraits {
        self.window.traits()
    }

    fn source(&self) -> &'static str {
        "Traub et al. 2019, §5.4.2"
    }

    fn columns(&self) -> Vec<usize> {
        self.columns.clone()
    }

    fn is_numbered(&self) -> bool {
        !self.is_calendar()
    }

    fn identity(&self, extent: (i64, i64), _: (i64, i64), number: i64) -> (i64, i64) {
        if self.is_calendar() { extent } else { (number, 0) }
    }

    fn may_vanish(&self) -> bool {
        !self.is_calendar()
    }

    fn reads_rows(&self) -> bool {
        true
    }

    fn observes(&self) -> bool {
        true
    }

    fn reach(&self) -> i64 {
        0
    }

    fn takes_from(&self, horizon: i64, (_, most): (i64, i64)) -> i64 {
        if let Some(known) = self.known.as_ref().filter(|_| horizon <= most) {
            return known.first_start(horizon);
        }
        let longest = self.window.longest().filter(|_| self.is_calendar() && horizon <= most);
        longest.map_or(horizon, |longest| horizon.saturating_sub(longest))
    }

    fn takes(&self, rows: &KeyRows<'_>, horizon: i64) -> Result<Option<Vec<bool>>> {
        if let Some(known) = &self.known {
            known.look_up(rows.times)?;
            return Ok(Some(rows.times.iter().map(|&t| known.covers(t, horizon)).collect()));
        }
        let (mut taken, mut listed) = (vec![false; rows.times.len()], Vec::new());
        self.window.listed(rows, 0, &mut listed)?;
        for Listed { lo, hi, .. } in listed.into_iter().filter(|each| each.end > horizon) {
            taken[lo as usize..hi as usize].fill(true);
        }
        Ok(Some(taken))
    }

    fn has_holes(&self) -> bool {
        self.is_calendar()
    }

    fn accepts(&self) -> Accepts {
        if self.is_calendar() { Accepts::Any } else { Accepts::Since(0) }
    }

    fn by_time(&self) -> Option<&dyn ByTime> {
        if self.known.is_some() { Some(self) } else { None }
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        if self.known.is_none() { Some(self) } else { None }
    }
}

/// In a stream. Without windows that are known it has none.
impl ByTime for User {
    fn cut(&self, since: Option<i64>, cuts: &mut Cuts) {
        cuts.users.extend(self.known.iter().map(|known| (known.clone(), since)));
    }

    fn list(
        &self,
        spans: Spans<'_>,
        ending: &Ending,
        cursor: &mut Cursor,
        most: usize,
        out: &mut Vec<Listed>,
    ) {
        let Some(known) = self.known.as_ref().filter(|_| most > 0) else { return };
        let before = cursor.resume.unwrap_or_default();
        let (mut passed, full) = (0, out.len().saturating_add(most));
        known.each(spans, ending, |window| {
            passed += 1;
            if passed > before {
                out.push(window);
            }
            out.len() < full
        });
        cursor.resume = Some(passed);
    }

    fn list_changed(&self, spans: Spans<'_>, changed: &[i64], ending: &Ending, out: &mut Vec<Listed>) {
        if let Some(known) = &self.known {
            known.changed(spans, changed, ending, out);
        }
    }

    fn may_end(&self, ending: &Ending) -> bool {
        self.known.as_ref().is_some_and(|known| known.may_end(ending))
    }

    /// As many as a user likes.
    fn windows_per_span(&self) -> i64 {
        i64::MAX
    }

    fn count(&self, spans: Spans<'_>, ending: &Ending) -> u64 {
        let mut count = 0;
        if let Some(known) = &self.known {
            known.each(spans, ending, |_| {
                count += 1;
                true
            });
        }
        count
    }

    fn is_long(&self) -> bool {
        false
    }

    fn keeps_apart(&self, times: (i64, i64), _: Option<i64>, horizon: i64) -> bool {
        self.known.as_ref().is_some_and(|known| known.begins_between(times, horizon))
    }
}

impl ByRows for User {
    fn list(&self, rows: &KeyRows<'_>, out: &mut Vec<Listed>) -> Result<()> {
        self.window.listed(rows, 0, out)
    }

    fn has_few(&self) -> bool {
        false
    }

    /// It is shown rows as they arrive, and may refuse them.
    fn lets_wait(&self) -> bool {
        false
    }

    fn ready(&self, view: &View<'_>, memory: &mut Memory, out: &mut Ready) -> Result<Option<i64>> {
        match self.is_calendar() {
            true => self.by_calendar(view, out),
            false => {
                let Memory { observed, next, .. } = memory;
                let observed = observed.get_or_insert_default();
                observed.observe((&*self.window, &self.columns), view, next, out)
            }
        }
    }

    fn final_edges(
        &self,
        view: &View<'_>,
        memory: &Memory,
        from: usize,
        edges: &mut Vec<usize>,
    ) -> Result<()> {
        if self.is_calendar() {
            let listed = self.listed(view, from)?;
            edges.extend(listed.iter().flat_map(|each| [each.lo as usize, each.hi as usize]));
        } else if let Some(observed) = &memory.observed {
            edges.extend(observed.edges_from(from));
        }
        Ok(())
    }

    fn needed(&self, view: &View<'_>, _: &Memory) -> usize {
        match self.window.longest() {
            Some(longest) if self.is_calendar() => {
                let from = view.call.floor.min(view.call.horizon);
                view.upto(from.map(|from| from.saturating_sub(longest)))
            }
            _ => 0,
        }
    }

    fn is_sound(&self, _: &View<'_>, memory: &Memory) -> bool {
        match self.is_calendar() {
            true => memory.is_empty(),
            false => memory.emitted.is_empty() && memory.from.is_none(),
        }
    }
}

impl PartialEq for User {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.window, &other.window) && self.columns == other.columns && self.known == other.known
    }
}

/// Writes a window as its name: what it does is its user's code.
fn by_name<S: Serializer>(
    window: &Arc<dyn UserWindow>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    window.name().serialize(serializer)
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.window.name())
    }
}
