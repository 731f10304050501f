//! The sessions of one key: the context of a context-aware window (Traub et al. 2019, §4.4).
//!
//! | | |
//! |---|---|
//! | needs | rows in any order |
//! | time | O(1) for a row of the latest session; O(log n) to find another of n sessions, O(n) to put one between others |
//! | space | first and last time of each session that has not expired |
//! | first appeared | sessions as windows that merge: Akidau et al., *The Dataflow Model*, 2015, §2.2.2 |

use crate::window::Session;

/// The sessions of a key, with what a technique keeps of each.
pub(super) struct Sessions<P> {
    live: Vec<Live<P>>,
    /// Last time of all expired sessions.
    frontier: Option<i64>,
}

/// A session that still takes rows.
pub(super) struct Live<P> {
    pub(super) first: i64,
    pub(super) last: i64,
    /// Whether it, or one that is part of it now, was told.
    pub(super) told: bool,
    /// Whether it has rows that were not told.
    pub(super) fresh: bool,
    pub(super) part: P,
}

impl<P> Default for Sessions<P> {
    fn default() -> Self {
        Self { live: Vec::new(), frontier: None }
    }
}

impl<P: Default> Sessions<P> {
    /// Sessions that have not expired, in order.
    pub(super) fn live(&self) -> &[Live<P>] {
        &self.live
    }

    pub(super) fn live_mut(&mut self) -> &mut [Live<P>] {
        &mut self.live
    }

    /// The live sessions that a row at `t` joins: at most two, which it makes one.
    fn joined(&self, session: &Session, t: i64) -> (usize, usize) {
        let from = match self.live.last() {
            Some(latest) if latest.first <= t => self.live.len() - usize::from(session.joins(latest.last, t)),
            _ => self.live.partition_point(|live| !session.joins(live.last, t)),
        };
        let more = self.live[from..].iter().take_while(|live| session.joins(t, live.first)).count();
        (from, from + more)
    }

    /// Whether the session of a row at `t` has not expired.
    pub(super) fn takes(&self, session: &Session, t: i64, expired: i64) -> bool {
        if self.frontier.is_some_and(|last| session.joins(last, t)) {
            return false;
        }
        let (from, to) = self.joined(session, t);
        from < to || session.extent(t, t).1 >= expired
    }

    /// Notes a row that is kept for another window, and whose session here has expired. One that is near an expired
    /// session does not extend it: so no live session comes within the gap of what has expired.
    pub(super) fn pass(&mut self, session: &Session, t: i64) {
        if self.frontier.is_none_or(|last| !session.joins(last, t)) {
            self.frontier = Some(t);
        }
    }

    /// Takes in a row; sessions that it joins are made one by `merge`. Returns its session.
    pub(super) fn add(&mut self, session: &Session, t: i64, merge: impl Fn(&mut P, P)) -> &mut Live<P> {
        let (from, to) = self.joined(session, t);
        if from == to {
            self.live.insert(from, Live { first: t, last: t, told: false, fresh: true, part: P::default() });
        }
        for other in self.live.splice(from + 1..to.max(from + 1), []).collect::<Vec<_>>() {
            let own = &mut self.live[from];
            own.last = other.last;
            own.told |= other.told;
            merge(&mut own.part, other.part);
        }
        let own = &mut self.live[from];
        own.first = own.first.min(t);
        own.last = own.last.max(t);
        own.fresh = true;
        own
    }

    /// Hands out the sessions that have expired.
    pub(super) fn expire(&mut self, session: &Session, expired: i64, mut each: impl FnMut(P)) {
        let gone =
            self.live.iter().take_while(|live| session.extent(live.first, live.last).1 < expired).count();
        for live in self.live.drain(..gone) {
            self.frontier = self.frontier.max(Some(live.last));
            each(live.part);
        }
    }
}

impl<P> Live<P> {
    /// Whether it is to be told, and if so whether again; from then on it is told.
    pub(super) fn tell(&mut self, session: &Session, watermark: i64) -> Option<bool> {
        let due = self.fresh && session.extent(self.first, self.last).1 < watermark;
        due.then(|| {
            self.fresh = false;
            std::mem::replace(&mut self.told, true)
        })
    }
}
