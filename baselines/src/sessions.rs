//! The sessions of one key: the context of a context-aware window (Traub et al. 2019, §4.4).
//!
//! | | |
//! |---|---|
//! | needs | rows in any order |
//! | time | O(1) for a row of the latest session; O(log n) to find another of n sessions, O(n) to put one between others |
//! | space | first and last time of each session that a row may still join |
//! | first appeared | sessions as windows that merge: Akidau et al., *The Dataflow Model*, 2015, §2.2.2 |

use windowkit::window::Session;

/// The sessions of a key, with what a technique keeps of each.
pub(crate) struct Sessions<P> {
    live: Vec<Live<P>>,
}

/// A session that a row may still join.
pub(crate) struct Live<P> {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Whether it, or one that is part of it now, was over before.
    emitted: bool,
    /// Whether it has rows that came since it was looked at.
    fresh: bool,
    pub(crate) part: P,
}

impl<P> Default for Sessions<P> {
    fn default() -> Self {
        Self { live: Vec::new() }
    }
}

impl<P: Default> Sessions<P> {
    /// Sessions that a row may still join, in order.
    pub(crate) fn live(&self) -> &[Live<P>] {
        &self.live
    }

    pub(crate) fn live_mut(&mut self) -> &mut [Live<P>] {
        &mut self.live
    }

    /// The sessions that a row at `t` joins: at most two, which it makes one.
    fn joined(&self, session: &Session, t: i64) -> (usize, usize) {
        let from = match self.live.last() {
            Some(latest) if latest.first <= t => self.live.len() - usize::from(session.joins(latest.last, t)),
            _ => self.live.partition_point(|live| !session.joins(live.last, t)),
        };
        let more = self.live[from..].iter().take_while(|live| session.joins(t, live.first)).count();
        (from, from + more)
    }

    /// Adds a row; sessions that it joins are made one by `merge`. Returns its session.
    pub(crate) fn add(&mut self, session: &Session, t: i64, merge: impl Fn(&mut P, P)) -> &mut Live<P> {
        let (from, to) = self.joined(session, t);
        if from == to {
            self.live
                .insert(from, Live { first: t, last: t, emitted: false, fresh: true, part: P::default() });
        }
        for other in self.live.splice(from + 1..to.max(from + 1), []).collect::<Vec<_>>() {
            let own = &mut self.live[from];
            own.last = other.last;
            own.emitted |= other.emitted;
            merge(&mut own.part, other.part);
        }
        let own = &mut self.live[from];
        own.first = own.first.min(t);
        own.last = own.last.max(t);
        own.fresh = true;
        own
    }

    /// Hands out the sessions that no row from `cutoff` on joins.
    pub(crate) fn drop_before(&mut self, session: &Session, cutoff: i64, mut each: impl FnMut(P)) {
        let gone = self.live.iter().take_while(|live| !session.joins(live.last, cutoff)).count();
        self.live.drain(..gone).for_each(|live| each(live.part));
    }
}

impl<P> Live<P> {
    /// Whether the watermark's way from `before` to `now` makes it final; if so, whether it is an update.
    pub(crate) fn ends(&mut self, session: &Session, before: i64, now: i64) -> Option<bool> {
        let end = session.extent(self.first, self.last).1;
        (before <= end && end < now).then(|| {
            self.fresh = false;
            std::mem::replace(&mut self.emitted, true)
        })
    }

    /// Whether rows that came late change it, final as it was and not expired.
    pub(crate) fn changes(&mut self, session: &Session, watermark: i64, expired: i64) -> bool {
        let end = session.extent(self.first, self.last).1;
        let changes = std::mem::replace(&mut self.fresh, false) && end < watermark;
        self.emitted |= changes;
        changes && expired <= end
    }
}
