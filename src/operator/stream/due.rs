//! What is due: windows that a watermark makes final, and final ones that late rows change.

use super::Stream;
use super::listing::{
    self, Found, Near, Span, band, band_changed, global, landmark, landmark_changed, place_from_end,
    session_at, sessions, sliding_changed,
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
    pub(super) fn list_due(&mut self, now: i64, due: &mut [Vec<Due>], reopened: &mut Vec<Reopened>) {
        let Self { agenda, queries, slices: timelines, watermark, .. } = self;
        let bounds = queries.edges().bounds();
        let keys = timelines.keys() as u32;
        // Where the slices of each key begin that windows may end before.
        let mut fresh: Vec<usize> = Vec::new();
        for topic in agenda.upto(now) {
            let (query, number) = (topic.query as usize, topic.window as usize);
            let asked = &queries.asked()[query];
            let window = &asked.plan.windows()[number].1;
            let span = Span { after: *watermark, upto: now, since: asked.since, bounds };
            let may_hold = match window {
                Window::Band(kind) => span.holds(kind.extent().0, kind.extent().1),
                Window::Landmark(kind) => span.may_hold_landmark(kind),
                Window::Global(_) => now == NEVER,
                _ => true,
            };
            if !may_hold {
                continue;
            }
            if let (Some(_), Some(after), true) = (topic.sliding, span.after, fresh.is_empty()) {
                fresh.extend((0..keys).map(|key| place_from_end(timelines.of(key), after)));
            }
            for key in 0..keys {
                let slices = timelines.of(key);
                let mut add = |found, update| due[query].push(Due { window: number, key, found, update });
                match (window, topic.sliding) {
                    (Window::Sliding(kind), Some(sliding)) => {
                        let (start, hi) = (agenda.start(sliding), fresh.get(key as usize).copied());
                        let mut near = Near { start, lo: 0, hi: hi.unwrap_or(0) };
                        if keys > 1 {
                            listing::sliding(kind, slices, span, near, |found| add(found, false));
                            continue;
                        }
                        near.lo = agenda.near(sliding).saturating_sub(timelines.gone(key)) as usize;
                        let next = listing::sliding(kind, slices, span, near, |found| add(found, false));
                        agenda.set_near(sliding, timelines.gone(key) + next as u64);
                    }
                    (Window::Session(session), _) => {
                        sessions(session, slices, asked.first_place(slices), span, |found| {
                            let before = reopened.len();
                            reopened.retain(|other| {
                                (other.query, other.window, other.key) != (query, number, key)
                                    || !(found.start..found.end).contains(&other.at)
                            });
                            add(found, reopened.len() < before);
                        })
                    }
                    (Window::Band(kind), _) => band(kind, slices, span, |found| add(found, false)),
                    (Window::Landmark(kind), _) => landmark(kind, slices, span, |found| add(found, false)),
                    (Window::Global(kind), _) => {
                        let found = global(kind, slices, asked.first_place(slices));
                        found.into_iter().for_each(|found| add(found, false));
                    }
                    _ => {}
                }
            }
        }
    }
}
