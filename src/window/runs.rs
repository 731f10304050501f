//! Windows that follow each other: one pass over a key's rows lists them, and what was settled need not be passed again.
//!
//! Punctuation, sessions that need rows, and windows between predicates share these rules. Such a type says where its
//! windows are, over the rows from one place on; when each is emitted, numbered, updated and forgotten follows from that.

use super::memory::Memory;
use super::numbered::{Final, compare};
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
    /// Shows the windows over the rows from place `from` on, where no earlier window goes on, as long as `go_on` says so;
    /// ascending, as are the times from which on they are final. Only the last may lack one.
    ///
    /// # Errors
    /// Where a row's values make no window.
    fn runs(&self, view: &View<'_>, from: usize, go_on: &mut dyn FnMut(Run) -> bool) -> Result<()>;
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
    let emitted = match memory.emitted.last() {
        // All rows come after the last emitted window: it stays as it is unless some are late, and earlier ones do.
        Some(last) if view.is_appended => {
            let lo = view.place_from((last.time, last.first));
            let is_late = view.times.get(view.changed()).is_some_and(|&time| Some(time) < view.call.before);
            from = if is_late { lo } else { lo + last.rows as usize };
            if is_late { memory.emitted.pop().into_iter().collect() } else { Vec::new() }
        }
        _ => std::mem::take(&mut memory.emitted),
    };
    kind.runs(view, from, &mut |run| {
        if view.call.closing || view.call.has_reached(run.final_at) {
            finals.push(Final::of(view, (run.lo, run.hi)).over(run.extent));
        } else {
            next = earlier(next, run.final_at);
        }
        true
    })?;
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
    let mut open = None;
    let shown = kind.runs(view, least, &mut |run| {
        open = (!is_settled(&run)).then_some(run.lo);
        open.is_none()
    });
    // Values that make no window would have been refused with their rows.
    if shown.is_err() { least } else { open.map_or(fixed, |lo| lo.min(fixed)).max(least) }
}

/// [`ByRows::is_sound`](super::ByRows::is_sound) of such a type: emitted windows are among the final ones.
pub(super) fn is_sound(kind: &dyn Runs, view: &View<'_>, memory: &Memory) -> bool {
    let mut emitted = memory.emitted.iter().map(|emitted| emitted.places(view.times, view.ats)).peekable();
    let shown = kind.runs(view, memory.first(view).min(view.len()), &mut |run| {
        let is_final = view.call.has_reached(run.final_at);
        emitted.next_if(|&places| is_final && places == Some((run.lo, run.hi)));
        emitted.peek().is_some()
    });
    memory.observed.is_none() && shown.is_ok() && emitted.peek().is_none()
}
