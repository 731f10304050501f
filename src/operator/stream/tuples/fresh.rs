//! A call's rows, key by key.

use std::ops::Range;

use crate::Result;
use crate::interrupt::{Pace, check};
use crate::poll::sort_unstable;
use crate::simd;
use crate::slice::Keys;

/// Rows whose times stay in the cache.
const FEW: usize = 1 << 14;

/// A row, ordered by time and arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) time: i64,
    /// Its arrival number.
    pub(super) at: u64,
    /// Bit n is set if the n-th column of marks is true.
    pub(super) marks: u64,
}

/// The rows of one key: a range of [`Fresh`]'s order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub(super) key: u32,
    lo: u32,
    hi: u32,
}

/// Rows that came with a call, in order of arrival, and after them those that have waited since earlier calls; and their order
/// by key, time and arrival, as far as they are put in place now.
#[derive(Debug, Default)]
pub(in crate::operator::stream) struct Fresh {
    /// The arrival number of the first that came with the call.
    pub(super) base: u64,
    /// The arrival numbers of those that have waited.
    waited: Vec<u64>,
    pub(super) times: Vec<i64>,
    /// The columns of marks, as bits; empty if no column marks rows.
    marks: Vec<u64>,
    /// `None` if they are of one key and came in order.
    order: Option<Vec<u32>>,
    keys: Vec<Own>,
}

impl Fresh {
    /// Rows of these keys, of which there are `keys`. O(rows), and O(log rows) a row where there are many more keys
    /// than rows.
    pub(super) fn new(
        base: u64,
        times: Vec<i64>,
        marks: Vec<u64>,
        of_rows: Keys<'_>,
        keys: usize,
    ) -> Result<Self> {
        let rows = times.len() as u32;
        if rows == 0 {
            return Ok(Self::none(base));
        }
        let ids = match of_rows {
            Keys::Each(ids) => ids,
            Keys::One(key) => {
                let mut order = (!simd::is_ascending(&times)).then(|| (0..rows).collect::<Vec<u32>>());
                order.as_mut().map_or(Ok(()), |order| sort_by_time(order, &times))?;
                let keys = vec![Own { key, lo: 0, hi: rows }];
                return Ok(Self { base, waited: Vec::new(), times, marks, order, keys });
            }
        };
        let mut order = by_key(ids, keys);
        let mut own: Vec<Own> = Vec::new();
        let mut lo = 0;
        let mut pace = Pace::new();
        for of_key in order.chunk_by_mut(|&a, &b| ids[a as usize] == ids[b as usize]) {
            pace.check(of_key.len())?;
            if !of_key.is_sorted_by_key(|&row| times[row as usize]) {
                sort_by_time(of_key, &times)?;
            }
            let hi = lo + of_key.len() as u32;
            own.push(Own { key: ids[of_key[0] as usize], lo, hi });
            lo = hi;
        }
        Ok(Self { base, waited: Vec::new(), times, marks, order: Some(order), keys: own })
    }

    /// The rows of the call that were chosen, and the rows that had waited.
    pub(super) fn only(self, Chosen { order, keys, waited }: Chosen) -> Self {
        let (mut times, mut marks) = (self.times, self.marks);
        if !marks.is_empty() || waited.iter().any(|row| row.marks != 0) {
            marks.resize(times.len(), 0);
            marks.extend(waited.iter().map(|row| row.marks));
        }
        times.extend(waited.iter().map(|row| row.time));
        let waited = waited.iter().map(|row| row.at).collect();
        Self { base: self.base, waited, times, marks, order: Some(order), keys }
    }

    /// No rows.
    pub(super) fn none(base: u64) -> Self {
        Self { base, ..Self::default() }
    }

    /// Number of rows, those included that are not put in place.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Keys that have rows, ascending.
    pub(super) fn keys(&self) -> &[Own] {
        &self.keys
    }

    /// Whether all came with the call.
    pub(super) fn is_of_call(&self) -> bool {
        self.waited.is_empty()
    }

    /// The arrival number of the row at this place.
    pub(super) fn at(&self, row: usize) -> u64 {
        let came = self.times.len() - self.waited.len();
        row.checked_sub(came).map_or(self.base + row as u64, |row| self.waited[row])
    }

    /// Whether rows are of one key and came in order.
    pub(super) fn is_plain(&self) -> bool {
        self.order.is_none()
    }

    /// The rows of a key, in order: their places in the order of arrival.
    pub(super) fn rows_of(&self, own: Own) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.rows_in(own, 0..(own.hi - own.lo) as usize)
    }

    /// Some of the rows of a key, in order.
    pub(super) fn rows_in(&self, own: Own, some: Range<usize>) -> impl ExactSizeIterator<Item = usize> + '_ {
        let some = own.lo + some.start as u32..own.lo + some.end as u32;
        some.map(|row| self.order.as_ref().map_or(row, |order| order[row as usize]) as usize)
    }

    /// The time of a key's first row.
    pub(super) fn first_time(&self, own: Own) -> Option<i64> {
        self.rows_of(own).next().map(|row| self.times[row])
    }

    /// The row at this place.
    pub(super) fn row(&self, row: usize) -> Row {
        let marks = self.marks.get(row).copied().unwrap_or_default();
        Row { time: self.times[row], at: self.at(row), marks }
    }

    /// The marks of rows, if any row may be marked.
    pub(super) fn marks(&self) -> Option<&[u64]> {
        (!self.marks.is_empty()).then_some(&self.marks)
    }
}

/// Rows that are put in place, key by key: some of those that come with a call, and some that have waited.
#[derive(Default)]
pub(super) struct Chosen {
    order: Vec<u32>,
    keys: Vec<Own>,
    waited: Vec<Row>,
}

impl Chosen {
    /// Adds rows of a key: those at these places in `fresh`, and those that have `waited`; both in order.
    pub(super) fn add(
        &mut self,
        (fresh, key): (&Fresh, u32),
        rows: impl Iterator<Item = usize>,
        waited: &[Row],
    ) {
        let (lo, came) = (self.order.len(), fresh.len());
        self.order.extend(rows.map(|row| row as u32));
        let first = came + self.waited.len();
        self.order.extend((first as u32..).take(waited.len()));
        self.waited.extend_from_slice(waited);
        let all = &self.waited;
        let row = |row: usize| row.checked_sub(came).map_or_else(|| fresh.row(row), |row| all[row]);
        if !waited.is_empty() {
            // Both are runs, which this sort merges.
            self.order[lo..].sort_by_key(|&at| row(at as usize));
        }
        if lo < self.order.len() {
            self.keys.push(Own { key, lo: lo as u32, hi: self.order.len() as u32 });
        }
    }
}

/// Rows by key, those of one key in order of arrival.
fn by_key(ids: &[u32], keys: usize) -> Vec<u32> {
    let rows = ids.len();
    if rows < keys / 8 {
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_by_key(|&row| ids[row as usize]);
        return order;
    }
    let mut next = vec![0u32; keys + 1];
    ids.iter().for_each(|&id| next[id as usize + 1] += 1);
    for key in 0..keys {
        next[key + 1] += next[key];
    }
    let mut order = vec![0; rows];
    for (row, &id) in ids.iter().enumerate() {
        let place = &mut next[id as usize];
        order[*place as usize] = row as u32;
        *place += 1;
    }
    order
}

/// Sorts rows, which ascend, by time.
fn sort_by_time(rows: &mut [u32], times: &[i64]) -> Result<()> {
    if rows.len() < FEW {
        rows.sort_by_key(|&row| times[row as usize]);
        return Ok(());
    }
    // Times next to their rows: with many, looking them up would cost more than all else.
    let mut timed: Vec<(i64, u32)> = rows.iter().map(|&row| (times[row as usize], row)).collect();
    sort_unstable(&mut timed, check)?;
    rows.iter_mut().zip(timed).for_each(|(row, timed)| *row = timed.1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each key's rows are there once, in the order of time and arrival, however they are sorted.
        #[test]
        fn rows_are_by_key_and_time(rows in prop::collection::vec((0u32..5, 0i64..6), 0..40), keys in 5usize..2000) {
            let ids: Vec<u32> = rows.iter().map(|row| row.0).collect();
            let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
            let mut wanted: Vec<(u32, i64, usize)> = rows.iter().enumerate().map(|(at, row)| (row.0, row.1, at)).collect();
            wanted.sort_unstable();
            let fresh = Fresh::new(7, times, Vec::new(), Keys::Each(&ids), keys).unwrap();
            let got: Vec<(u32, i64, usize)> = fresh
                .keys()
                .iter()
                .flat_map(|&own| fresh.rows_of(own).map(move |row| (own.key, row)))
                .map(|(key, row)| (key, fresh.row(row).time, (fresh.row(row).at - 7) as usize))
                .collect();
            prop_assert_eq!(got, wanted);
        }
    }
}
