//! Sessions that were emitted, and that late rows made longer, so that they are open again: each is emitted once more, as an
//! update, when it is final.
//!
//! | moment of a call | what is asked |
//! |---|---|
//! | a late row was accepted, and is in no slice yet | [`Reopened::note`]: which final sessions does it join? |
//! | all rows are in slices | [`Reopened::keep_open`]: which of these sessions are not final any longer? |
//! | a session is ready | [`Reopened::take`]: is it an update? |
//! | slices have expired | [`Reopened::forget`] |

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::interrupt::Pace;
use crate::operator::stream::queries::{Queries, Registered};
use crate::slice::{Cell, Timelines};
use crate::window::{Listed, Session, Spans};

/// A session that is open again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct OpenSession {
    query: usize,
    window: usize,
    key: u32,
    /// A time within it.
    at: i64,
}

/// The sessions that are open again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Reopened(Vec<OpenSession>);

impl Reopened {
    /// Records the sessions that were emitted by this watermark and that a late cell joins, which is in no slice yet.
    pub(super) fn note(&mut self, (cell, watermark): (Cell, i64), queries: &Queries, slices: &Timelines) {
        let spans = slices.of(cell.key);
        let after = spans.firsts.partition_point(|&first| first <= cell.first);
        for (query, registered) in queries.registered().iter().enumerate() {
            for (window, (_, kind)) in registered.plan.windows().iter().enumerate() {
                let Some(session) = kind.merging() else { continue };
                let near = [after.checked_sub(1), (after < spans.len()).then_some(after)];
                for at in near.into_iter().flatten() {
                    let (first, last) = (spans.firsts[at], spans.lasts[at]);
                    if session.joins(last, cell.first)
                        && session.joins(cell.last, first)
                        && let Some(found) = session_around(session, registered, spans, at)
                        && session.final_at(found.end) <= watermark
                    {
                        self.0.push(OpenSession { query, window, key: cell.key, at: first });
                    }
                }
            }
        }
    }

    /// Keeps only those that late rows did reopen: the others are still final, and emitted at once. `reached` says up to
    /// when a key is complete.
    pub(super) fn keep_open(
        &mut self,
        queries: &Queries,
        slices: &Timelines,
        reached: impl Fn(u32) -> Option<i64>,
    ) {
        self.0.sort_unstable();
        self.0.dedup();
        self.0.retain(|reopened| {
            let registered = &queries.registered()[reopened.query];
            let spans = slices.of(reopened.key);
            let at = spans.firsts.partition_point(|&first| first <= reopened.at).checked_sub(1);
            let session = registered.plan.windows()[reopened.window].1.merging().zip(at);
            let found = session.and_then(|(session, at)| {
                Some(session.final_at(session_around(session, registered, spans, at)?.end))
            });
            found.is_some_and(|final_at| reached(reopened.key).is_none_or(|watermark| final_at > watermark))
        });
    }

    /// These sessions and others.
    pub(super) fn with(&self, other: &Self) -> Self {
        Self([self.0.as_slice(), &other.0].concat())
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a window of a query, a window type and a key was emitted before, which is then no longer waited for.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn take(
        &mut self,
        (query, window, key): (usize, usize, u32),
        found: &Listed,
        pace: &mut Pace,
    ) -> Result<bool> {
        let before = self.0.len();
        pace.check(before)?;
        self.0.retain(|other| {
            (other.query, other.window, other.key) != (query, window, key)
                || !(found.start..found.end).contains(&other.at)
        });
        Ok(self.0.len() < before)
    }

    /// Forgets those whose slices are gone.
    pub(super) fn forget(&mut self, slices: &Timelines) {
        let begin = |key| slices.of(key).firsts.first().copied();
        self.0.retain(|session| begin(session.key).is_some_and(|first| first <= session.at));
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps those of these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        self.0.retain_mut(|session| {
            let number = kept.binary_search(&session.key).ok();
            number.inspect(|&number| session.key = number as u32).is_some()
        });
    }

    /// Moves those of some queries to others, of which an engine may have only some windows: `place` maps a query to its
    /// new place.
    pub(super) fn change(
        &mut self,
        (old, new): (&Queries, &Queries),
        place: impl Fn(usize) -> Option<usize>,
    ) {
        let moved = |session: &OpenSession| {
            let at = place(session.query)?;
            let (name, _) = &old.registered()[session.query].plan.windows()[session.window];
            let windows = new.registered()[at].plan.windows();
            Some((at, windows.iter().position(|(other, _)| other == name)?))
        };
        self.0.retain_mut(|session| {
            let moved = moved(session);
            (session.query, session.window) = moved.unwrap_or_default();
            moved.is_some()
        });
    }

    /// Whether they are of these queries, and of so many keys: a snapshot may be forged.
    pub(super) fn is_sound(&self, queries: &Queries, keys: usize) -> bool {
        let is_there = |session: &OpenSession| {
            queries.has_window(session.query, session.window) && (session.key as usize) < keys
        };
        self.0.iter().all(is_there)
    }
}

/// The session of a query that contains slice `at` of a key, if there is one.
fn session_around(session: &Session, registered: &Registered, spans: Spans<'_>, at: usize) -> Option<Listed> {
    let from = registered.first_place(spans);
    (at >= from).then(|| session.around(spans.from(from), at - from))
}
