//! Windows that follow each other: one pass over a key's rows lists them, and what was settled need not be passed again.
//!
//! Punctuation, sessions that need rows, and windows between predicates share these rules. Such a type says where its
//! windows are, over the rows from one place on; when each is emitted, numbered, updated and forgotten follows from that.

use super::memory::Memory;
use super::numbered::{Emitted, Final, compare};
use super::rules::Rules;
use super::view::{Ready, View, earlier};
use crate::Result;

/// A window that is a run of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Place of its first row.
    pub(super) lo: usize,
    /// Place after its last row.
    pub(super) hi: usize,
    /// Start and end on the measure.
    pub(super) extent: (i64, i64),
    /// The watermark from which on no row in order can change it; `None` as long as that is not known.
    pub(super) final_at: Option<i64>,
}

/// A type whose windows do not share rows.
pub(super) trait Runs: Rules {
    /// The windows over the rows from place `from` on, where no earlier window goes on; ascending, as are the times from
    /// which on they are final. Only the last may lack one.
    ///
    /// # Errors
    /// Where a row's values make no window.
    fn runs(&self, view: &View<'_>, from: usize) -> Result<Vec<Run>>;
}

/// [`ByRows::ready`](super::ByRows::ready) of such a type.
pub(super) fn ready(
    kind: &dyn Runs,
    view: &View<'_>,
    memory: &mut Memory,
    out: &mut Ready,
) -> Result<Option<i64>> {
    let (mut finals, mut next) = (Vec::new(), None);
    let mut from = memory.first(view);
    if view.is_appended
        && let Some(last) = memory.emitted.last()
    {
        // Emitted windows stay as they are.
        from = from.max(view.place_from((last.time, last.first)) + last.rows as usize);
    }
    for run in kind.runs(view, from)? {
        if view.call.closing || view.call.has_reached(run.final_at) {
            finals.push(Final::of(view, (run.lo, run.hi)).over(run.extent));
        } else {
            next = earlier(next, run.final_at);
        }
    }
    let emitted = if view.is_appended { Vec::new() } else { std::mem::take(&mut memory.emitted) };
    let numbered = compare(view, &emitted, &finals, &mut memory.next, out);
    memory.emitted.extend(numbered.into_iter().map(|(at, number)| finals[at].emitted(number)));
    memory.emitted.sort_unstable_by_key(|emitted| (emitted.time, emitted.first));
    let emits = out.windows.iter().filter(|window| window.lo < window.hi);
    out.edges.extend(emits.flat_map(|window| [window.lo, window.hi]));
    Ok(next)
}

/// [`ByRows::final_edges`](super::ByRows::final_edges) of such a type.
pub(super) fn final_edges(view: &View<'_>, memory: &Memory, from: usize, edges: &mut Vec<usize>) {
    // The last that ends before `from` is not needed; emitted windows ascend.
    let places = memory.emitted.iter().rev().map_while(|emitted| {
        let lo = view.place_from((emitted.time, emitted.first));
        let hi = lo + emitted.rows as usize;
        (hi >= from).then_some([lo, hi])
    });
    edges.extend(places.flatten());
}

/// [`ByRows::needed`](super::ByRows::needed) of such a type: rows from the first window on that may still change.
pub(super) fn needed(kind: &dyn Runs, view: &View<'_>, memory: &Memory) -> usize {
    let (least, fixed) = (memory.first(view).min(view.len()), view.fixed_rows());
    let is_settled =
        |run: &Run| run.final_at.is_some_and(|time| view.call.floor.is_some_and(|floor| time <= floor));
    // Values that make no window would have been refused with their rows.
    let Ok(runs) = kind.runs(view, least) else { return least };
    let open = runs.into_iter().find(|run| !is_settled(run));
    open.map_or(fixed, |run| run.lo.min(fixed)).max(least)
}

/// [`ByRows::is_sound`](super::ByRows::is_sound) of such a type: emitted windows are among the final ones.
pub(super) fn is_sound(kind: &dyn Runs, view: &View<'_>, memory: &Memory) -> bool {
    let Ok(runs) = kind.runs(view, memory.first(view).min(view.len())) else { return false };
    let mut finals = runs.into_iter().filter(|run| view.call.has_reached(run.final_at));
    let mut is_final = |emitted: &Emitted| {
        let places = emitted.places(view.times, view.ats);
        finals.any(|run| places == Some((run.lo, run.hi)))
    };
    memory.observed.is_none() && memory.emitted.iter().all(&mut is_final)
}
