//! Numbers of the keys of rows that are put in order by key once all have come.
//!
//! | | |
//! |---|---|
//! | needs | keys; many of them only if they can be hashed |
//! | time | O(1) a row; where keys are many, a hash and a copy of its key more, and no miss of the caches |
//! | space | each key once; where keys are many, a copy of those of a round |
//! | first appeared | see [`spread`](super::spread) |

use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::batching::{BATCH_ROWS, cut};
use super::buckets::Sorted;
use super::parts::{each, share_out};
use super::spread::{PARTS, Spreading, chunks, of_keys};
use crate::interrupt::{Pace, check};
use crate::keys::KeyIndex;
use crate::poll::sort_unstable;
use crate::select::{concat, take_record_batch};
use crate::slice::KeyOrder;
use crate::{Error, Result};

/// The number of the key of rows that have none, or that are in no order.
pub(super) use crate::keys::NONE;

/// So many integers have a table that stays in the caches.
const NEAR: u64 = 1 << 21;

/// Keys, with their numbers.
pub(super) struct NumberedKeys {
    types: Vec<DataType>,
    held: Held,
    spreading: Spreading,
    is_closed: bool,
}

enum Held {
    Whole(Box<KeyIndex>),
    /// Parts of the keys by hash, where these are many; a number says which of a part, and in its last digits of which.
    Parts(Vec<KeyIndex>),
}

/// Some rows by the parts of their keys.
struct Chunk {
    sorted: Sorted,
    /// The keys in this order.
    keys: RecordBatch,
}

impl NumberedKeys {
    /// No keys, of these types.
    ///
    /// # Errors
    /// `InvalidType` for a type that cannot be a key.
    pub(super) fn new(types: Vec<DataType>, spreading: Spreading) -> Result<Self> {
        let held = Held::Whole(Box::new(KeyIndex::new(types.clone())?));
        Ok(Self { types, held, spreading, is_closed: false })
    }

    /// Adds no key from now on: rows of others have [`NONE`] as their number.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        match &mut self.held {
            Held::Whole(index) => index.close(),
            Held::Parts(parts) => parts.iter_mut().for_each(KeyIndex::close),
        }
    }

    pub(super) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        match &self.held {
            Held::Whole(index) => index.len(),
            Held::Parts(parts) => parts.iter().map(KeyIndex::len).sum(),
        }
    }

    /// The numbers of the keys of rows, whose key columns these are, on up to `threads` threads; to be [settled](Self::settle)
    /// once all rows have come.
    ///
    /// # Errors
    /// `InvalidType` for keys that cannot be cast to the types; an interrupt.
    pub(super) fn number(&mut self, keys: &[RecordBatch], threads: usize) -> Result<Vec<u32>> {
        let rows = keys.iter().map(RecordBatch::num_rows).sum();
        let is_first = matches!(&self.held, Held::Whole(index) if index.is_empty());
        if is_first
            && !self.is_closed
            && self.spreading.is_worthwhile(rows, keys.iter().cloned().map(Ok))?
            && !self.are_near(keys)?
        {
            let parts = (0..PARTS).map(|_| KeyIndex::new(self.types.clone()));
            self.held = Held::Parts(parts.collect::<Result<_>>()?);
        }
        let index = match &mut self.held {
            Held::Parts(parts) => return by_part(parts, keys, threads),
            Held::Whole(index) => index,
        };
        // To read integers takes less time than to translate the numbers of several threads.
        let threads = if self.types.iter().all(DataType::is_integer) { 1 } else { threads };
        let mut numbers = Vec::with_capacity(rows);
        let all = |index: &mut KeyIndex, keys: &[RecordBatch], numbers: &mut Vec<u32>| {
            keys.iter().try_for_each(|keys| index.assign_all(keys.columns(), keys.num_rows(), numbers, check))
        };
        let types = &self.types;
        let others = share_out(
            keys,
            threads,
            |own| all(index, own, &mut numbers),
            |own| {
                let (mut index, mut numbers) = (KeyIndex::new(types.clone())?, Vec::new());
                all(&mut index, own, &mut numbers)?;
                Ok((index, numbers))
            },
        )?;
        for (others, of_rows) in others {
            check()?;
            let translate = index.absorb(&others)?;
            numbers.extend(of_rows.into_iter().map(|number| translate[number as usize]));
        }
        Ok(numbers)
    }

    /// Whether keys seem to be integers so close together that a table of all of them stays in the caches.
    fn are_near(&self, keys: &[RecordBatch]) -> Result<bool> {
        let [kind] = &self.types[..] else { return Ok(false) };
        if !kind.is_integer() {
            return Ok(false);
        }
        let mut sample = self.spreading.sample;
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for keys in keys {
            let some = keys.column(0).slice(0, keys.num_rows().min(sample));
            sample -= some.len();
            for number in cast(&some, &DataType::Int64)?.as_primitive::<Int64Type>().iter().flatten() {
                (low, high) = (low.min(number), high.max(number));
            }
        }
        Ok(low > high || high.abs_diff(low) <= NEAR)
    }

    /// Takes in the keys of others; entry `k` of the result is the number here of their `k`, once theirs are settled.
    ///
    /// # Errors
    /// As [`NumberedKeys::number`].
    pub(super) fn absorb(&mut self, others: &Self) -> Result<Vec<u32>> {
        match (&mut self.held, &others.held) {
            (Held::Whole(own), Held::Whole(others)) => own.absorb(others),
            (Held::Parts(own), Held::Parts(others)) => {
                let mut numbers = Vec::new();
                for (part, (own, others)) in own.iter_mut().zip(others).enumerate() {
                    check()?;
                    let of_part = own.absorb(others)?.into_iter();
                    numbers.extend(of_part.map(|number| number * PARTS as u32 + part as u32));
                }
                Ok(numbers)
            }
            _ => self.number(&[of_keys(others.values()?, others.len())?], 1),
        }
    }

    /// Keys of rows that have come: their numbers are dense from now on, those of a part together.
    pub(super) fn settle(&self, numbers: &mut [u32]) {
        let Held::Parts(parts) = &self.held else { return };
        let mut firsts = [0; PARTS];
        for part in 1..PARTS {
            firsts[part] = firsts[part - 1] + parts[part - 1].len() as u32;
        }
        for number in numbers.iter_mut().filter(|number| **number != NONE) {
            *number = firsts[*number as usize % PARTS] + *number / PARTS as u32;
        }
    }

    /// Rows by key, time and number, on up to `threads` threads; those without a key are left out. The parts are the settled
    /// numbers of their keys, and their times.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn order<'a>(
        &self,
        parts: impl Iterator<Item = (&'a [u32], &'a [i64])> + Clone,
        threads: usize,
    ) -> Result<KeyOrder> {
        let mut order = KeyOrder::of(parts, self.len(), check)?;
        let blocks = cut(&[&order], BATCH_ROWS);
        let KeyOrder { slots, bounds } = &mut order;
        let (mut rest, mut work) = (&mut slots[..], Vec::new());
        for keys in blocks.windows(2) {
            let (own, others) = rest.split_at_mut(bounds[keys[1]] - bounds[keys[0]]);
            work.push((&bounds[keys[0]..=keys[1]], own));
            rest = others;
        }
        each(work, threads, |(bounds, slots)| {
            let mut pace = Pace::new();
            for key in bounds.windows(2) {
                let own = &mut slots[key[0] - bounds[0]..key[1] - bounds[0]];
                pace.check(own.len())?;
                if !own.is_sorted_by_key(|&(time, _)| time) {
                    sort_unstable(own, check)?;
                }
            }
            Ok(())
        })?;
        Ok(order)
    }

    /// The keys, by their numbers once these are settled.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn values(&self) -> Result<Vec<ArrayRef>> {
        let parts = match &self.held {
            Held::Whole(index) => return index.values(),
            Held::Parts(parts) => parts.iter().map(KeyIndex::values).collect::<Result<Vec<_>>>()?,
        };
        let columns = (0..self.types.len()).map(|column| {
            let parts: Vec<_> = parts.iter().map(|values| values[column].as_ref()).collect();
            Ok(concat(&parts)?)
        });
        columns.collect()
    }
}

/// Numbers keys part by part: what is looked up of a part stays in the cache.
fn by_part(parts: &mut [KeyIndex], keys: &[RecordBatch], threads: usize) -> Result<Vec<u32>> {
    let mut of_chunks: Vec<(RecordBatch, Option<Chunk>)> = chunks(keys).map(|chunk| (chunk, None)).collect();
    each(of_chunks.iter_mut().collect(), threads, |(rows, chunk)| {
        check()?;
        *chunk = Some(Chunk::of(rows)?);
        Ok(())
    })?;
    let of_chunks: Vec<Chunk> = of_chunks.into_iter().filter_map(|(_, chunk)| chunk).collect();
    let mut sorted = vec![0; keys.iter().map(RecordBatch::num_rows).sum()];
    let mut of_parts: Vec<Vec<(RecordBatch, &mut [u32])>> = Vec::new();
    of_parts.resize_with(PARTS, Vec::new);
    let mut rest = &mut sorted[..];
    for chunk in &of_chunks {
        for (part, from, to) in chunk.sorted.buckets() {
            let (own, others) = rest.split_at_mut(to - from);
            of_parts[part as usize].push((chunk.keys.slice(from, to - from), own));
            rest = others;
        }
    }
    each(parts.iter_mut().zip(of_parts).enumerate().collect(), threads, |(part, (index, of_part))| {
        let mut found = Vec::new();
        for (keys, numbers) in of_part {
            check()?;
            found.clear();
            index.assign(keys.columns(), keys.num_rows(), &mut found)?;
            for (number, found) in numbers.iter_mut().zip(&found) {
                *number = if *found == NONE { NONE } else { found * PARTS as u32 + part as u32 };
            }
        }
        match index.len() > u32::MAX as usize / PARTS {
            true => Err(Error::InvalidValue(
                "data: too many keys for one process; aggregate in parts, or in Spark".into(),
            )),
            false => Ok(()),
        }
    })?;
    let mut numbers = vec![0; sorted.len()];
    let (mut sorted, mut rest, mut work) = (&sorted[..], &mut numbers[..], Vec::new());
    for chunk in &of_chunks {
        let (from, into);
        (from, sorted) = sorted.split_at(chunk.keys.num_rows());
        (into, rest) = rest.split_at_mut(from.len());
        work.push((chunk, from, into));
    }
    each(work, threads, |(chunk, from, into)| {
        for (&row, &number) in chunk.sorted.order().iter().zip(from) {
            into[row as usize] = number;
        }
        check()
    })?;
    Ok(numbers)
}

impl Chunk {
    fn of(rows: &RecordBatch) -> Result<Self> {
        let sorted = Sorted::new(rows.columns(), rows.num_rows(), PARTS as u32)?;
        let keys = take_record_batch(rows, &sorted.order().to_vec().into())?;
        Ok(Self { sorted, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringArray};
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::sync::Arc;

    type Key = (Option<i64>, Option<String>);

    fn batch(keys: &[Key]) -> RecordBatch {
        let numbers: Int64Array = keys.iter().map(|key| key.0).collect();
        let texts: StringArray = keys.iter().map(|key| key.1.clone()).collect();
        of_keys(vec![Arc::new(numbers), Arc::new(texts)], keys.len()).unwrap()
    }

    fn rounds() -> impl Strategy<Value = Vec<Vec<Vec<Key>>>> {
        let key = (prop::option::of(-5i64..5), prop::option::of("[ab]{0,2}"));
        prop::collection::vec(prop::collection::vec(prop::collection::vec(key, 0..40), 0..4), 0..4)
    }

    fn numbered(rounds: &[Vec<Vec<Key>>], always: bool, threads: usize) -> (NumberedKeys, Vec<u32>) {
        let spreading = if always { Spreading::ALWAYS } else { Spreading::DEFAULT };
        let mut keys = NumberedKeys::new(vec![DataType::Int64, DataType::Utf8], spreading).unwrap();
        let mut all = Vec::new();
        for batches in rounds {
            let batches: Vec<RecordBatch> = batches.iter().map(|keys| batch(keys)).collect();
            all.extend(keys.number(&batches, threads).unwrap());
        }
        keys.settle(&mut all);
        (keys, all)
    }

    proptest! {
        /// A key has one number, by which it is found among the values, however its rows come.
        #[test]
        fn keys_have_a_number_each(rounds in rounds(), others in rounds(), spread: [bool; 2], threads in 1usize..4) {
            let (mut keys, numbers) = numbered(&rounds, spread[0], threads);
            let given: Vec<Key> = rounds.into_iter().flatten().flatten().collect();
            let distinct: HashMap<&Key, u32> = given.iter().zip(numbers.iter().copied()).collect();
            prop_assert_eq!(keys.len(), distinct.len());
            let of = |key: &Key| distinct[key];
            prop_assert_eq!(given.iter().map(of).collect::<Vec<_>>(), numbers.clone());
            let mut wanted: Vec<(u32, &Key)> = distinct.iter().map(|(key, number)| (*number, *key)).collect();
            wanted.sort_unstable();
            prop_assert!(wanted.iter().map(|each| each.0).eq(0..wanted.len() as u32));
            let wanted: Vec<Key> = wanted.into_iter().map(|each| each.1.clone()).collect();
            let (values, wanted) = (keys.values().unwrap(), batch(&wanted));
            prop_assert_eq!(&values[..], wanted.columns());

            // Those of others are the same where keys are.
            let (other, mut theirs) = numbered(&others, spread[1], threads);
            let translate = keys.absorb(&other).unwrap();
            theirs.iter_mut().for_each(|number| *number = translate[*number as usize]);
            keys.settle(&mut theirs);
            let values = keys.values().unwrap();
            let all = of_keys(values, keys.len()).unwrap();
            let found = take_record_batch(&all, &theirs.into()).unwrap();
            let wanted: Vec<Key> = others.into_iter().flatten().flatten().collect();
            let wanted = batch(&wanted);
            prop_assert_eq!(found.columns(), wanted.columns());
        }

        /// Once keys are closed, those that are there have their numbers, and others none.
        #[test]
        fn closed_keys_are_found_alone(rounds in rounds(), others in rounds(), spread: bool, threads in 1usize..4) {
            let (mut keys, numbers) = numbered(&rounds, spread, threads);
            let given: Vec<Key> = rounds.into_iter().flatten().flatten().collect();
            let distinct: HashMap<&Key, u32> = given.iter().zip(numbers).collect();
            keys.close();
            for batches in others {
                let read: Vec<RecordBatch> = batches.iter().map(|keys| batch(keys)).collect();
                let mut found = keys.number(&read, threads).unwrap();
                keys.settle(&mut found);
                let wanted = batches.iter().flatten().map(|key| distinct.get(key).copied().unwrap_or(NONE));
                prop_assert_eq!(found, wanted.collect::<Vec<_>>());
            }
            prop_assert_eq!(keys.len(), distinct.len());
        }

        /// Rows are in order by key, time and number; those without a key are in none.
        #[test]
        fn rows_are_put_in_order(
            rows in prop::collection::vec((prop::option::of(0i64..30), -3i64..3), 0..80), spread: bool, threads in 1usize..4,
        ) {
            let given: Vec<Key> = rows.iter().map(|row| (row.0, None)).collect();
            let (keys, mut numbers) = numbered(&[vec![given]], spread, threads);
            for (number, row) in numbers.iter_mut().zip(&rows) {
                *number = if row.0.is_some() { *number } else { NONE };
            }
            let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
            let half = rows.len() / 2;
            let parts = [(&numbers[..half], &times[..half]), (&numbers[half..], &times[half..])];
            let order = keys.order(parts.into_iter(), threads).unwrap();
            let mut wanted: Vec<(u32, i64, u32)> =
                numbers.iter().zip(&times).enumerate().map(|(at, (key, time))| (*key, *time, at as u32)).collect();
            wanted.retain(|row| row.0 != NONE);
            wanted.sort_unstable();
            let mut found = Vec::new();
            for key in 0..keys.len() {
                let own = &order.slots[order.bounds[key]..order.bounds[key + 1]];
                found.extend(own.iter().map(|&(time, row)| (key as u32, time, row)));
            }
            prop_assert_eq!(order.bounds.len(), keys.len() + 1);
            prop_assert_eq!(found, wanted);
        }
    }
}
