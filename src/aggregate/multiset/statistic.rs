//! The functions over multisets, and their results.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StructArray, UInt32Array};
use arrow_schema::{DataType, Field, Fields};

use super::{Held, Multiset, Ranked, list, offsets};
use crate::aggregate::interned::Interned;
use crate::aggregate::order::{Codes, Wides, Words};
use crate::aggregate::partials::Partials;
use crate::aggregate::quantile::{discrete, quantiles, quantiles_of_runs};
use crate::aggregate::sorted_runs::{SortedRun, select, union, values};
use crate::aggregate::tally::{Counter, Distinct, Modes, Ordered, slide};
use crate::dictionary::widened;
use crate::select::take;
use crate::{Error, Result};

/// What can be computed from multisets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// The value below which a share of the values lies, interpolated.
    Quantile(f64),
    /// The least value whose share of values at or below it is at least this.
    Discrete(f64),
    /// The number of distinct values.
    Distinct,
    /// The most frequent value; the least of several.
    Mode,
    /// So many of the most frequent values, with their counts.
    Top(u32),
    /// The values whose share of all is at least this, with their counts: the most frequent first.
    Frequent(f64),
}

impl Statistic {
    /// Whether values that are so frequent, or less, are no part of the result, which has `found` values already.
    fn ends(self, found: usize, count: u64, values: u64) -> bool {
        match self {
            Statistic::Top(k) => found == k as usize,
            // Rounded quotients, so that 3 of 30 values are a share of 0.1, which no float is.
            Statistic::Frequent(share) => (count as f64) / (values as f64) < share,
            _ => true,
        }
    }
}

/// The fields of a value of type `input` with its count.
pub(in crate::aggregate) fn counted_fields(input: &DataType) -> Fields {
    [("value", widened(input)), ("count", DataType::Int64)]
        .into_iter()
        .map(|(name, kind)| Field::new(name, kind, true))
        .collect()
}

/// Values with their counts, slot by slot.
struct Counted<K> {
    values: Vec<K>,
    counts: Vec<i64>,
    ends: Vec<usize>,
}

impl<K> Counted<K> {
    fn new() -> Self {
        Self { values: Vec::new(), counts: Vec::new(), ends: Vec::new() }
    }

    /// Adds a slot of `len` values, given with the most frequent first: as many of them as the statistic asks for.
    fn push(&mut self, statistic: Statistic, len: u64, ranked: impl Iterator<Item = (K, u64)>) {
        let from = self.values.len();
        for (value, count) in ranked {
            if statistic.ends(self.values.len() - from, count, len) {
                break;
            }
            self.values.push(value);
            self.counts.push(count as i64);
        }
        self.ends.push(self.values.len());
    }

    /// Lists of structs of the values, which are given as an array, and counts.
    fn lists(self, values: ArrayRef, input: &DataType) -> Result<ArrayRef> {
        let columns = vec![values, Arc::new(Int64Array::from(self.counts)) as ArrayRef];
        let structs = StructArray::try_new(counted_fields(input), columns, None)?;
        Ok(list(offsets(&self.ends)?, Arc::new(structs)))
    }
}

/// Results of all slots of a column of multisets of values of type `input`.
pub(in crate::aggregate) fn evaluate(
    sets: &dyn Partials,
    statistic: Statistic,
    input: &DataType,
) -> Result<ArrayRef> {
    if let Some(words) = sets.downcast_ref::<Multiset<Words>>() {
        return words.evaluate(statistic, input);
    }
    if let Some(wides) = sets.downcast_ref::<Multiset<Wides>>() {
        return wides.evaluate(statistic, input);
    }
    match sets.downcast_ref::<Multiset<Interned>>() {
        Some(texts) => texts.evaluate(statistic, input),
        None => Err(Error::Internal(format!("{statistic:?} needs multisets"))),
    }
}

impl<C: Codes> Multiset<C> {
    pub(super) fn evaluate(&self, statistic: Statistic, input: &DataType) -> Result<ArrayRef> {
        if let Held::Merged { runs, offsets } = &self.held {
            return self.evaluate_runs(
                offsets.windows(2).map(|slot| &runs[slot[0]..slot[1]]),
                statistic,
                input,
            );
        }
        let (ranked, ranges) = self.view()?;
        match u32::try_from(ranked.runs.total) {
            Ok(_) => self.evaluate_as::<u32>(&ranked, &ranges, statistic, input),
            Err(_) => self.evaluate_as::<u64>(&ranked, &ranges, statistic, input),
        }
    }

    fn evaluate_as<N: Counter>(
        &self,
        ranked: &Ranked<C::Key>,
        ranges: &[(u32, u32)],
        statistic: Statistic,
        input: &DataType,
    ) -> Result<ArrayRef> {
        let Ranked { runs, codes } = ranked;
        let mut ranks: Vec<Option<u32>> = Vec::with_capacity(ranges.len());
        match statistic {
            Statistic::Quantile(q) => {
                return quantiles::<C, N>(&self.codes, codes, (runs, ranges), q, input, self.poll);
            }
            Statistic::Distinct => {
                let mut counts = Vec::with_capacity(ranges.len());
                let tally = &mut Distinct::<N>::new(runs.distinct);
                slide(runs, ranges, tally, self.poll, |tally| counts.push(tally.distinct()))?;
                return Ok(Arc::new(Int64Array::from(counts)));
            }
            Statistic::Discrete(q) => {
                slide(runs, ranges, &mut Ordered::<N>::new(runs.distinct), self.poll, |tally| {
                    let values = tally.len();
                    ranks.push((values > 0).then(|| tally.select(discrete(values, q))));
                })?;
            }
            Statistic::Mode => {
                slide(runs, ranges, &mut Modes::<N>::new(runs.distinct), self.poll, |tally| {
                    ranks.push(tally.mode());
                })?;
            }
            Statistic::Top(_) | Statistic::Frequent(_) => {
                let mut found = Counted::new();
                slide(runs, ranges, &mut Modes::<N>::new(runs.distinct), self.poll, |tally| {
                    found.push(statistic, tally.len(), tally.most_frequent());
                })?;
                let ranks = UInt32Array::from(std::mem::take(&mut found.values));
                return found.lists(take(&self.codes.values(codes, None)?, &ranks, None)?, input);
            }
        }
        Ok(take(&self.codes.values(codes, None)?, &UInt32Array::from(ranks), None)?)
    }

    /// The results of slots that consist of several sorted runs each.
    fn evaluate_runs<'a>(
        &self,
        slots: impl Iterator<Item = &'a [Arc<SortedRun<C::Key>>]>,
        statistic: Statistic,
        input: &DataType,
    ) -> Result<ArrayRef> {
        let found: Vec<Option<C::Key>> = match statistic {
            Statistic::Quantile(q) => return quantiles_of_runs(&self.codes, slots, q, input),
            Statistic::Distinct => {
                let distinct = slots.map(|runs| union(runs).counted().len() as i64);
                return Ok(Arc::new(Int64Array::from_iter_values(distinct)));
            }
            Statistic::Discrete(q) => {
                let value =
                    |runs: &[_]| Some(values(runs)).filter(|&values| values > 0).map(|n| discrete(n, q));
                slots.map(|runs| value(runs).map(|k| select(runs, k).0)).collect()
            }
            Statistic::Mode => {
                // Of several equally frequent values the first, which is the least.
                let mode = |runs: &[_]| {
                    union(runs).counted().into_iter().rev().max_by_key(|item| item.1).map(|item| item.0)
                };
                slots.map(mode).collect()
            }
            Statistic::Top(_) | Statistic::Frequent(_) => {
                let mut found = Counted::new();
                for runs in slots {
                    let mut counted = union(runs).counted();
                    // Values ascend, and equally frequent ones stay as they are.
                    counted.sort_by_key(|&(_, count)| Reverse(count));
                    found.push(statistic, values(runs), counted.into_iter());
                }
                let found_values = self.codes.values(&found.values, None)?;
                return found.lists(found_values, input);
            }
        };
        let codes: Vec<C::Key> = found.iter().flatten().copied().collect();
        let mut next = 0..;
        let ranks: UInt32Array = found.iter().map(|code| code.and_then(|_| next.next())).collect();
        Ok(take(&self.codes.values(&codes, None)?, &ranks, None)?)
    }
}
