//! What is due: windows that a watermark makes final, and final ones that late rows change.

use super::Stream;
use super::listing::{
    Found, Span, band, band_changed, global, landmark, landmark_changed, session_at, sessions, sliding,
    sliding_changed,
};
use crate::slice::Cell;
use crate::window::Window;

/// When the global window ends: where no time is, so that only a closed stream comes there.
pub(super) const NEVER: i64 = i64::MAX;

/// A session that a late row opened again: handed out once more when it is over, as an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reopened {
    pub(super) query: usize,
    pub(super) window: usize,
    pub(super) key: u32,
    /// A time within it.
    pub(super) at: i64,
}

/// A window on its way out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) window: usize,
    pub(super) key: u32,
    pub(super) found: Found,
    pub(super) update: bool,
}

impl Stream {
    /// Notes sessions that were handed out and that a late cell, not added yet, joins.
    pub(super) fn note_reopened(&self, cell: Cell, reopened: &mut Vec<Reopened>) {
        let (Some(watermark), slices) = (self.watermark, self.slices.of(cell.key)) else { return };
        let after = slices.partition_point(|slice| slice.first <= cell.first);
        for (query, asked) in self.queries.asked().iter().enumerate() {
            for (window, (_, kind)) in asked.plan.windows().iter().enumerate() {
                let Window::Session(session) = kind else { continue };
                let near = [after.checked_sub(1), (after < slices.len()).then_some(after)];
                for at in near.into_iter().flatten() {
                    let slice = slices[at];
                    if session.joins(slice.last, cell.first) && session.joins(cell.last, slice.first) {
                        let from = asked.first_place(slices);
                        if at >= from && session_at(session, slices, from, at).end < watermark {
                            reopened.push(Reopened { query, window, key: cell.key, at: slice.first });
                        }
                    }
                }
            }
        }
    }

    /// Leaves those sessions that late rows opened again indeed: others are handed out at once.
    pub(super) fn keep_open(&self, reopened: &mut Vec<Reopened>) {
        reopened.sort_unstable();
        reopened.dedup();
        reopened.retain(|known| {
            let (_, window) = &self.queries.asked()[known.query].plan.windows()[known.window];
            let slices = self.slices.of(known.key);
            let at = slices.partition_point(|slice| slice.first <= known.at).checked_sub(1);
            match (window, at) {
                (Window::Session(session), Some(at)) => {
                    let from = self.queries.asked()[known.query].first_place(slices);
                    at >= from && Some(session_at(session, slices, from, at).end) >= self.watermark
                }
                _ => false,
            }
        });
    }

    /// Windows that were final and that late rows changed: `changed` has their keys and times, ascending.
    pub(super) fn list_changed(&self, changed: &[(u32, i64)], due: &mut [Vec<Due>]) {
        let Some(watermark) = self.watermark.filter(|_| !changed.is_empty()) else { return };
        let horizon = watermark.saturating_sub(self.options.allowed_lateness);
        let bounds = self.queries.edges().bounds();
        let mut times = Vec::new();
        for (query, asked) in self.queries.asked().iter().enumerate() {
            for (number, (_, window)) in asked.plan.windows().iter().enumerate() {
                for of_key in changed.chunk_by(|a, b| a.0 == b.0) {
                    let key = of_key[0].0;
                    let slices = self.slices.of(key);
                    times.clear();
                    times.extend(of_key.iter().map(|&(_, t)| t));
                    let mut add = |found| due[query].push(Due { window: number, key, found, update: true });
                    let span = Span { after: Some(horizon), upto: watermark, since: asked.since, bounds };
                    match window {
                        Window::Sliding(kind) => sliding_changed(kind, slices, &times, span, add),
                        Window::Session(session) => {
                            let from = asked.first_place(slices);
                            let mut done = from;
                            for &t in &times {
                                let after = slices.partition_point(|slice| slice.first <= t);
                                if after <= done {
                                    continue;
                                }
                                let found = session_at(session, slices, from, after - 1);
                                done = found.hi;
                                if horizon <= found.end && found.end < watermark {
                                    add(found);
                                }
                            }
                        }
                        Window::Band(kind) => band_changed(kind, slices, &times, span, add),
                        Window::Landmark(kind) => landmark_changed(kind, slices, &times, span, add),
                        Window::Global(kind) => {
                            let own = asked.since.is_none_or(|since| times.iter().any(|&t| t > since));
                            if own && horizon < NEVER && watermark == NEVER {
                                global(kind, slices, asked.first_place(slices)).into_iter().for_each(add);
                            }
                        }
                        // Others are refused when their query comes.
                        _ => {}
                    }
                }
            }
        }
    }

    /// Windows that become final as the watermark moves to `now`.
    pub(super) fn list_due(&self, now: i64, due: &mut [Vec<Due>], reopened: &mut Vec<Reopened>) {
        let bounds = self.queries.edges().bounds();
        for (query, asked) in self.queries.asked().iter().enumerate() {
            let span = Span { after: self.watermark, upto: now, since: asked.since, bounds };
            for (number, (_, window)) in asked.plan.windows().iter().enumerate() {
                let may_hold = match window {
                    Window::Sliding(kind) => span.may_hold(kind),
                    Window::Band(kind) => span.holds(kind.extent().0, kind.extent().1),
                    Window::Landmark(kind) => span.may_hold_landmark(kind),
                    Window::Global(_) => now == NEVER,
                    _ => true,
                };
                if !may_hold {
                    continue;
                }
                for key in 0..self.slices.keys() as u32 {
                    let slices = self.slices.of(key);
                    let mut add = |found, update| due[query].push(Due { window: number, key, found, update });
                    match window {
                        Window::Sliding(kind) => sliding(kind, slices, span, |found| add(found, false)),
                        Window::Session(session) => {
                            sessions(session, slices, asked.first_place(slices), span, |found| {
                                let before = reopened.len();
                                reopened.retain(|other| {
                                    (other.query, other.window, other.key) != (query, number, key)
                                        || !(found.start..found.end).contains(&other.at)
                                });
                                add(found, reopened.len() < before);
                            })
                        }
                        Window::Band(kind) => band(kind, slices, span, |found| add(found, false)),
                        Window::Landmark(kind) => landmark(kind, slices, span, |found| add(found, false)),
                        Window::Global(kind) => {
                            let found = global(kind, slices, asked.first_place(slices));
                            found.into_iter().for_each(|found| add(found, false));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}
