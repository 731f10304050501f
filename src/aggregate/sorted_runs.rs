//! Sorted runs of values, run-length encoded where values repeat: nodes of trees over slices, and selection among runs.
//!
//! | | |
//! |---|---|
//! | needs | values whose codes compare as they do |
//! | time | O(n) to merge two runs of n values; O(m log² n) to select a value among m runs |
//! | space | a code per value, or a code and a number per distinct value where that is less |
//! | first appeared | sorted runs with run-length encoding in slices: Traub et al. 2019, §5.4.1; selecting among sorted runs by weighted medians: Frederickson and Johnson 1982 |
//!
//! A window's values are never merged into one run to find a quantile: each step guesses a value, counts what is below
//! it run by run with binary searches, and discards all values on the wrong side.

use std::sync::Arc;

/// With at most this many entries left, they are sorted instead of partitioned further.
const FEW: usize = 48;

/// Values in order.
pub(super) struct SortedRun<K> {
    keys: Vec<K>,
    /// The number of values up to and including each key, which are then distinct; `None` if keys are values.
    ends: Option<Vec<u64>>,
}

impl<K: Copy + Ord> SortedRun<K> {
    /// The run of these values, each with its number of repetitions.
    pub(super) fn new(mut items: Vec<(K, u32)>) -> Self {
        items.sort_by_key(|item| item.0);
        if items.iter().all(|item| item.1 == 1) {
            return Self { keys: items.into_iter().map(|item| item.0).collect(), ends: None }.packed();
        }
        Self::encoded(items.into_iter().map(|(key, count)| (key, u64::from(count))))
    }

    fn encoded(items: impl Iterator<Item = (K, u64)>) -> Self {
        let (mut keys, mut ends): (Vec<K>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut values = 0;
        for (key, count) in items {
            values += count;
            if keys.last() == Some(&key) {
                *ends.last_mut().expect("as many as keys") = values;
            } else {
                keys.push(key);
                ends.push(values);
            }
        }
        Self { keys, ends: Some(ends) }
    }

    /// Encoded, if that takes less space than the values.
    fn packed(self) -> Self {
        let repeated = self.keys.windows(2).filter(|pair| pair[0] == pair[1]).count();
        if self.ends.is_some() || 2 * repeated <= self.keys.len() {
            return self;
        }
        Self::encoded(self.keys.into_iter().map(|key| (key, 1)))
    }

    /// The number of values with keys before `at`.
    #[inline]
    fn before(&self, at: usize) -> u64 {
        match &self.ends {
            None => at as u64,
            Some(ends) => at.checked_sub(1).map_or(0, |last| ends[last]),
        }
    }

    /// Number of values.
    pub(super) fn values(&self) -> u64 {
        self.before(self.keys.len())
    }

    /// Calls `each` with values, ascending, and their repetitions; values that are not encoded come one by one.
    pub(super) fn visit(&self, mut each: impl FnMut(K, u64)) {
        match &self.ends {
            None => self.keys.iter().for_each(|&key| each(key, 1)),
            Some(ends) => {
                let mut before = 0;
                for (&key, &end) in self.keys.iter().zip(ends) {
                    each(key, end - before);
                    before = end;
                }
            }
        }
    }

    /// The values of both.
    pub(super) fn merged(&self, other: &Self) -> Self {
        if self.ends.is_none() && other.ends.is_none() {
            return Self { keys: merge(&self.keys, &other.keys), ends: None }.packed();
        }
        let mut own = Vec::with_capacity(self.keys.len());
        self.visit(|key, count| own.push((key, count)));
        let mut items = Vec::with_capacity(own.len() + other.keys.len());
        let mut own = own.into_iter().peekable();
        other.visit(|key, count| {
            while let Some(item) = own.next_if(|item| item.0 <= key) {
                items.push(item);
            }
            items.push((key, count));
        });
        items.extend(own);
        Self::encoded(items.into_iter())
    }

    /// Distinct values, ascending, and their repetitions.
    pub(super) fn counted(&self) -> Vec<(K, u64)> {
        let mut counted: Vec<(K, u64)> = Vec::new();
        self.visit(|key, count| match counted.last_mut() {
            Some(last) if last.0 == key => last.1 += count,
            _ => counted.push((key, count)),
        });
        counted
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<K>()
            + self.ends.as_ref().map_or(0, |ends| ends.capacity() * size_of::<u64>())
    }
}

/// Merges both lists; comparisons are evaluated by arithmetic, as a branch would be mispredicted half the time.
fn merge<K: Copy + Ord>(a: &[K], b: &[K]) -> Vec<K> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        // Neither is used up before.
        let sure = (a.len() - i).min(b.len() - j);
        for _ in 0..sure {
            let (x, y) = (a[i], b[j]);
            let later = y < x;
            merged.push(if later { y } else { x });
            i += usize::from(!later);
            j += usize::from(later);
        }
    }
    merged.extend_from_slice(&a[i..]);
    merged.extend_from_slice(&b[j..]);
    merged
}

/// All values of several runs in one.
pub(super) fn union<K: Copy + Ord>(runs: &[Arc<SortedRun<K>>]) -> Arc<SortedRun<K>> {
    let mut runs = runs.to_vec();
    // The short ones first, so that few values are moved often.
    runs.sort_by_key(|run| std::cmp::Reverse(run.keys.len()));
    while let Some(shortest) = runs.pop() {
        let Some(next) = runs.pop() else { return shortest };
        let merged = Arc::new(shortest.merged(&next));
        let place = runs.partition_point(|run| run.keys.len() > merged.keys.len());
        runs.insert(place, merged);
    }
    Arc::new(SortedRun { keys: Vec::new(), ends: None })
}

/// Number of values of several runs.
pub(super) fn values<K: Copy + Ord>(runs: &[Arc<SortedRun<K>>]) -> u64 {
    runs.iter().map(|run| run.values()).sum()
}

/// The part of a run that is still to be searched.
struct Part<'a, K> {
    run: &'a SortedRun<K>,
    lo: usize,
    hi: usize,
}

/// Value `k`, counted from 0 in ascending order, of several runs that have more than `k` values, and the one after it
/// (itself, if it is the last).
pub(super) fn select<K: Copy + Ord>(runs: &[Arc<SortedRun<K>>], k: u64) -> (K, K) {
    let mut parts: Vec<Part<'_, K>> =
        runs.iter().map(|run| Part { run, lo: 0, hi: run.keys.len() }).filter(|part| part.hi > 0).collect();
    let mut middles: Vec<(K, usize)> = Vec::with_capacity(parts.len());
    let mut places: Vec<(usize, usize)> = Vec::with_capacity(parts.len());
    let next = |parts: &[Part<'_, K>], places: &mut dyn Iterator<Item = usize>, or: K| {
        parts.iter().zip(places).filter_map(|(part, at)| part.run.keys.get(at).copied()).min().unwrap_or(or)
    };
    loop {
        if parts.iter().map(|part| part.hi - part.lo).sum::<usize>() <= FEW {
            return among_few(&parts, k, |or| next(&parts, &mut parts.iter().map(|part| part.hi), or));
        }
        // A value such that at least a quarter of the remaining ones are not above it, and a quarter not below.
        middles.clear();
        middles.extend(parts.iter().filter(|part| part.lo < part.hi).map(|part| {
            let (lo, hi) = (part.lo, part.hi);
            (part.run.keys[lo + (hi - lo) / 2], hi - lo)
        }));
        middles.sort_unstable_by_key(|middle| middle.0);
        let half = middles.iter().map(|middle| middle.1).sum::<usize>().div_ceil(2);
        let mut reached = 0;
        let guess = middles.iter().find(|middle| {
            reached += middle.1;
            reached >= half
        });
        let guess = guess.expect("some are left").0;
        places.clear();
        let (mut below, mut upto) = (0, 0);
        for &Part { run, lo, hi } in &parts {
            let lower = lo + run.keys[lo..hi].partition_point(|&key| key < guess);
            let upper = lower + run.keys[lower..hi].partition_point(|&key| key <= guess);
            below += run.before(lower);
            upto += run.before(upper);
            places.push((lower, upper));
        }
        if k < below {
            parts.iter_mut().zip(&places).for_each(|(part, place)| part.hi = place.0);
        } else if k >= upto {
            parts.iter_mut().zip(&places).for_each(|(part, place)| part.lo = place.1);
        } else if k + 1 < upto {
            return (guess, guess);
        } else {
            return (guess, next(&parts, &mut places.iter().map(|place| place.1), guess));
        }
    }
}

fn among_few<K: Copy + Ord>(parts: &[Part<'_, K>], k: u64, next: impl Fn(K) -> K) -> (K, K) {
    let mut items: Vec<(K, u64)> = Vec::with_capacity(FEW);
    let mut seen = 0;
    for &Part { run, lo, hi } in parts {
        seen += run.before(lo);
        items.extend((lo..hi).map(|at| (run.keys[at], run.before(at + 1) - run.before(at))));
    }
    items.sort_unstable_by_key(|item| item.0);
    let mut items = items.into_iter();
    let mut found = items.next().expect("value k is left");
    seen += found.1;
    while seen <= k {
        found = items.next().expect("value k is left");
        seen += found.1;
    }
    let after =
        if k + 1 < seen { found.0 } else { items.next().map_or_else(|| next(found.0), |item| item.0) };
    (found.0, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Values with many and with few repetitions, in runs of any length, against one sorted list of all.
        #[test]
        fn any_value_of_any_runs(
            runs in prop::collection::vec((1u64..400, prop::collection::vec((any::<u64>(), 1u32..4), 0..120), any::<bool>()), 1..9),
        ) {
            let mut all = Vec::new();
            let mut sorted = Vec::new();
            for (distinct, values, single) in runs {
                let items: Vec<(u64, u32)> =
                    values.iter().map(|&(value, count)| (value % distinct, if single { 1 } else { count })).collect();
                all.extend(items.iter().flat_map(|&(value, count)| vec![value; count as usize]));
                sorted.push(Arc::new(SortedRun::new(items)));
            }
            all.sort_unstable();
            prop_assert_eq!(values(&sorted), all.len() as u64);
            for k in 0..all.len() {
                let after = all[(k + 1).min(all.len() - 1)];
                prop_assert_eq!(select(&sorted, k as u64), (all[k], after));
            }
            for run in &sorted {
                let mut keys = 0;
                run.visit(|_, _| keys += 1);
                let needed = keys * size_of::<u64>() * (1 + usize::from(run.ends.is_some()));
                prop_assert!((needed..=4 * needed + 64).contains(&run.bytes()), "{} of {needed}", run.bytes());
            }
            let mut once = Vec::new();
            union(&sorted).visit(|key, count| once.extend(vec![key; count as usize]));
            prop_assert_eq!(&once, &all);
            let counted = union(&sorted).counted();
            once.dedup();
            prop_assert_eq!(counted.iter().map(|item| item.0).collect::<Vec<_>>(), once);
            prop_assert_eq!(counted.iter().map(|item| item.1).sum::<u64>(), all.len() as u64);
        }
    }
}
