//! Windows that follow each other: one pass over a key's rows lists them, and what was settled need not be passed again.
//!
//! Punctuation, sessions that need rows, and windows between predicates share these rules. Such a type says where its
//! windows are, over the rows from one place on; when each is emitted, numbered, updated and forgotten follows from that.

pub(super) use super::memory::Run;
use super::memory::{Memory, Scanned};
use super::numbered::{Final, compare};
use super::rules::Rules;
use super::view::{Ready, View, earlier};
use crate::Result;

/// A type whose windows do not share rows.
pub(super) trait Runs: Rules {
    /// Shows the windows over the rows from place `from` on, as long as `go_on` says so; ascending, as are the times from
    /// which on they are final. Only the last may lack one.
    ///
    /// `last` is the last window over the rows before, if it may go on: it is shown, too; as it is if its `final_at` is
    /// known, and otherwise it is open from `last.lo` on.
    ///
    /// # Errors
    /// Where a row's values make no window.
    fn runs(
        &self,
        view: &View<'_>,
        from: usize,
        last: Option<Run>,
        go_on: &mut dyn FnMut(Run) -> bool,
    ) -> Result<()>;
}

/// [`ByRows::ready`](super::ByRows::ready) of such a type.
pub(super) fn ready(
    kind: &dyn Runs,
    view: &View<'_>,
    memory: &mut Memory,
    out: &mut Ready,
) -> Result<Option<i64>> {
    let is_late = view.times.get(view.changed()).is_some_and(|&time| Some(time) < view.call.before);
    let scanned = std::mem::take(&mut memory.scanned);
    let waited = scanned.waiting(view).filter(|_| view.is_appended && !is_late);
    let (mut from, mut emitted) = (memory.first(view), Vec::new());
    if !view.is_appended {
        emitted = std::mem::take(&mut memory.emitted);
    } else if let Some((unseen, _)) = waited {
        from = unseen;
    } else if let Some(last) = memory.emitted.last() {
        // All rows come after the last emitted window: it stays as it is, unless some are late and join it.
        from = view.place_from((last.time, last.first)) + if is_late { 0 } else { last.rows as usize };
        emitted.extend(memory.emitted.pop_if(|_| is_late));
    }
    let (mut finals, mut waiting, mut next) = (Vec::new(), Vec::new(), None);
    let mut take = |run: Run| {
        if view.call.closing || view.call.has_reached(run.final_at) {
            finals.push(Final::of(view, (run.lo, run.hi)).over(run.extent));
        } else {
            next = earlier(next, run.final_at);
            waiting.push(run);
        }
        true
    };
    let mut waited = waited.map(|(_, waiting)| waiting).unwrap_or_default();
    let last = waited.pop();
    waited.into_iter().for_each(|run| {
        take(run);
    });
    kind.runs(view, from, last, &mut take)?;
    memory.scanned = Scanned::of(view, waiting.into_iter());
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
    let shown = kind.runs(view, least, None, &mut |run| {
        open = (!is_settled(&run)).then_some(run.lo);
        open.is_none()
    });
    // Values that make no window would have been refused with their rows.
    if shown.is_err() { least } else { open.map_or(fixed, |lo| lo.min(fixed)).max(least) }
}

/// [`ByRows::is_sound`](super::ByRows::is_sound) of such a type: emitted windows are among the final ones.
pub(super) fn is_sound(kind: &dyn Runs, view: &View<'_>, memory: &Memory) -> bool {
    let mut emitted = memory.emitted.iter().map(|emitted| emitted.places(view.times, view.ats)).peekable();
    let shown = kind.runs(view, memory.first(view).min(view.len()), None, &mut |run| {
        let is_final = view.call.has_reached(run.final_at);
        emitted.next_if(|&places| is_final && places == Some((run.lo, run.hi)));
        emitted.peek().is_some()
    });
    memory.observed.is_none() && shown.is_ok() && emitted.peek().is_none()
}
