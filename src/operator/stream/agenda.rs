//! When each window type has its next window, so that a watermark need not visit every type.
//!
//! | | |
//! |---|---|
//! | needs | a time that never decreases: a watermark, or the time up to which windows have expired |
//! | time | one comparison per window type for each query and each move of the time, and a few additions for each type with a window |
//! | space | three numbers per sliding window type |
//! | first appeared | the window edges that general stream slicing caches (Traub et al. 2019, §5.3.1), here for ends |

use super::queries::Queries;
use crate::window::Sliding;

/// The next windows of all window types of a stream.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// The sliding windows, query by query.
    sliding: Vec<Entry>,
    /// The earliest end of a window of each that lies after the time; [`UNKNOWN`] before it is computed.
    ends: Vec<i64>,
    /// The starts of these windows.
    starts: Vec<i64>,
    /// Roughly how many slices a key ever had before those of the next window of each; with a single key, the next
    /// search begins there.
    near: Vec<u64>,
    /// All other windows.
    others: Vec<Topic>,
    /// Where the sliding windows of each query end in `sliding`.
    queries: Vec<usize>,
}

/// A window type of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Topic {
    pub(super) query: u32,
    pub(super) window: u32,
    /// Its place among the sliding windows, if it is one of them.
    pub(super) sliding: Option<u32>,
}

#[derive(Debug)]
struct Entry {
    topic: Topic,
    kind: Sliding,
}

/// Not known, so that it must be computed: no window ends here.
const UNKNOWN: i64 = i64::MIN;

/// Windows that the time may pass at once before the next one is computed directly instead of step by step.
const STEPS: usize = 4;

/// Times compared in one block, before checking whether any was reached.
const BLOCK: usize = 32;

impl Agenda {
    /// The windows of these queries, at no time yet.
    pub(super) fn new(queries: &Queries) -> Self {
        let mut this = Self::default();
        for (query, registered) in queries.registered().iter().enumerate() {
            for (window, (_, kind)) in registered.plan.windows().iter().enumerate() {
                let topic = Topic { query: query as u32, window: window as u32, sliding: None };
                match kind.regular() {
                    Some(kind) => {
                        let topic = Topic { sliding: Some(this.sliding.len() as u32), ..topic };
                        this.sliding.push(Entry { topic, kind: *kind });
                    }
                    None => this.others.push(topic),
                }
            }
            this.queries.push(this.sliding.len());
        }
        this.ends = vec![UNKNOWN; this.sliding.len()];
        this.starts = this.ends.clone();
        this.near = vec![0; this.sliding.len()];
        this
    }

    /// Window types that may have a window that ends at or before `now`, in the order of the queries: all others
    /// certainly have none.
    pub(super) fn upto(&self, now: i64) -> Vec<Topic> {
        let mut topics = Vec::new();
        for (block, ends) in self.ends.chunks(BLOCK).enumerate() {
            // Without an early exit: most blocks have none.
            if ends.iter().fold(false, |any, &end| any | (end <= now)) {
                let entries = &self.sliding[block * BLOCK..][..ends.len()];
                let ending = entries.iter().zip(ends).filter(|&(_, &end)| end <= now);
                topics.extend(ending.map(|(entry, _)| entry.topic));
            }
        }
        if !self.others.is_empty() {
            topics.extend(&self.others);
            // Two runs: a merge.
            topics.sort();
        }
        topics
    }

    /// The start of the next window of a sliding window type, if it is known.
    pub(super) fn start(&self, sliding: u32) -> Option<i64> {
        let start = self.starts[sliding as usize];
        (start != UNKNOWN).then_some(start)
    }

    /// Where the slices of the next window of a sliding window type may begin: a hint for the search.
    pub(super) fn near(&self, sliding: u32) -> u64 {
        self.near[sliding as usize]
    }

    /// Stores such a hint.
    pub(super) fn set_near(&mut self, sliding: u32, slices: u64) {
        self.near[sliding as usize] = slices;
    }

    /// The earliest start of the next windows of all sliding window types of a query, if it has any and all are known.
    pub(super) fn least_start(&self, query: usize) -> Option<i64> {
        let from = query.checked_sub(1).map_or(0, |before| self.queries[before]);
        let own = &self.starts[from..self.queries[query]];
        let least = own.iter().copied().fold(i64::MAX, i64::min);
        (!own.is_empty() && least != UNKNOWN).then_some(least)
    }

    /// The window types of a query that are not sliding, by number.
    pub(super) fn others(&self, query: usize) -> impl Iterator<Item = usize> + '_ {
        let from = self.others.partition_point(|topic| (topic.query as usize) < query);
        let own = self.others[from..].iter().take_while(move |topic| topic.query as usize == query);
        own.map(|topic| topic.window as usize)
    }

    /// Moves on to time `t`; beyond `bounds` nothing is known.
    pub(super) fn move_to(&mut self, t: i64, bounds: (i64, i64)) {
        if t < bounds.0 || t > bounds.1 {
            self.ends.fill(UNKNOWN);
            self.starts.fill(UNKNOWN);
            return;
        }
        for (block, ends) in self.ends.chunks_mut(BLOCK).enumerate() {
            if !ends.iter().fold(false, |any, &end| any | (end <= t)) {
                continue;
            }
            let (entries, starts) = (&self.sliding[block * BLOCK..], &mut self.starts[block * BLOCK..]);
            for ((end, start), Entry { kind, .. }) in ends.iter_mut().zip(starts).zip(entries) {
                if *end > t {
                    continue;
                }
                let mut steps = if *end == UNKNOWN { 0 } else { STEPS };
                while steps > 0 && *end <= t {
                    *end += kind.slide();
                    steps -= 1;
                }
                if *end <= t {
                    // Of the windows that cover `t`, the first is the first to end after `t`.
                    *end = kind.first_covering(t) + kind.size();
                }
                *start = *end - kind.size();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Entry, classes};
    use super::super::sharing::ClassGroup;
    use super::*;
    use crate::operator::{AggregateSpec, Length, Plan, WindowKind, WindowSpec};
    use crate::slice::strategy::Order;
    use crate::window::Partial;
    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        /// However time advances, the next window of a type is by definition the first that ends later.
        #[test]
        fn the_next_window_is_the_first_that_ends_later(
            windows in prop::collection::vec((1i64..30, 1i64..30, 0i64..30), 1..80),
            steps in prop::collection::vec(0i64..90, 1..20),
        ) {
            let windows: Vec<Sliding> =
                windows.into_iter().map(|(a, b, offset)| Sliding::new(a.max(b), a.min(b), offset)).collect();
            let units = |length: i64| Length::Units(length.into());
            let spec = |(at, window): (usize, &Sliding)| WindowSpec {
                name: format!("w{at}"),
                kind: WindowKind::Sliding {
                    size: units(window.size()),
                    slide: units(window.slide()),
                    start_time: Some(units(window.offset())),
                    partial: Partial::NONE,
                },
            };
            let session = WindowSpec { name: "s".into(), kind: WindowKind::Session { gap: units(5) } };
            let specs = windows.iter().enumerate().map(spec).chain([session]).collect();
            let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Int64, false)]));
            let count = AggregateSpec::new("count_all", &[], "n");
            let plan = Arc::new(Plan::new(schema, Vec::new(), "t".into(), specs, vec![count]).unwrap());
            let entries = [Entry::new("q".into(), (plan, 0), None, Order::InOrder).unwrap()];
            let (_, group) = ClassGroup::of(classes(&entries), &[], |_| false).remove(0);
            let queries = Queries::among(&entries, &group, false).unwrap();
            let mut agenda = Agenda::new(&queries);
            prop_assert_eq!(agenda.upto(0).len(), windows.len() + 1);
            let mut t = -300;
            for step in steps {
                t += step;
                agenda.move_to(t, queries.edges().bounds());
                let start = |window: &Sliding| {
                    (t - 100..=t + 100)
                        .filter(|start| (start - window.offset()).rem_euclid(window.slide()) == 0)
                        .find(|start| start + window.size() > t)
                        .unwrap()
                };
                for (at, window) in windows.iter().enumerate() {
                    prop_assert_eq!(agenda.start(at as u32), Some(start(window)));
                }
                prop_assert_eq!(agenda.least_start(0), windows.iter().map(start).min());
                let ending = agenda.upto(t + 7);
                let own = ending.iter().filter_map(|topic| topic.sliding).map(|at| at as usize);
                let want = (0..windows.len()).filter(|&at| start(&windows[at]) + windows[at].size() <= t + 7);
                prop_assert!(own.eq(want));
                prop_assert_eq!(ending.last().map(|topic| topic.sliding), Some(None));
            }
        }
    }
}
