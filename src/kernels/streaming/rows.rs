//! One function by one algorithm over one type, behind a face that has none of these in its type.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int8Array, cast::AsArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::functions::Combined;
use super::types::to_physical;
use super::{ChunkedQueue, Fifo};
use crate::Result;

/// A window of one function and algorithm, whatever they are.
pub(super) trait Rows: Send {
    fn len(&self) -> u64;
    fn null_count(&self) -> u64;
    /// Values as [`Rows::insert`] and [`Rows::slide`] take them.
    fn read(&self, values: &ArrayRef) -> Result<ArrayRef>;
    fn insert(&mut self, values: &ArrayRef);
    /// There must be so many.
    fn evict(&mut self, rows: u64);
    fn query(&self) -> Result<ArrayRef>;
    fn slide(&mut self, values: &ArrayRef, size: u64, min_periods: u64) -> Result<ArrayRef>;
    fn clear(&mut self);
}

/// Values in a [`Fifo`], nulls beside it: the algorithm sees only what is to be aggregated.
#[derive(Clone)]
pub(super) struct Typed<F: Combined, Q> {
    function: F,
    values: Q,
    /// The numbers of the rows that are null.
    nulls: ChunkedQueue<u64>,
    head: u64,
    tail: u64,
    /// The greatest [`Combined::magnitude`] since the window was last empty.
    largest: f64,
}

impl<F: Combined, Q: Fifo<F>> Typed<F, Q> {
    pub(super) fn new(function: F) -> Self {
        let values = Q::new(function.clone());
        Self { function, values, nulls: ChunkedQueue::new(), head: 0, tail: 0, largest: 0.0 }
    }

    #[inline]
    fn insert_one(&mut self, value: Option<<F::Input as ArrowPrimitiveType>::Native>) {
        match value {
            Some(value) => {
                self.largest = self.largest.max(F::magnitude(value));
                self.values.insert(self.function.lift(value, self.tail));
            }
            None => self.nulls.push(self.tail),
        }
        self.tail += 1;
    }

    #[inline]
    fn evict_one(&mut self) {
        if !self.nulls.is_empty() && self.nulls.get(self.nulls.head()) == self.head {
            self.nulls.pop();
        } else {
            self.values.evict();
        }
        self.head += 1;
    }

    #[inline]
    fn answer(&self) -> Option<F::Answer> {
        match self.values.query() {
            Some(state) => self.function.lower(state, self.values.len()),
            None => self.function.of_none(),
        }
    }

    fn slide_over(&mut self, values: &ArrayRef, size: u64, min_periods: u64) -> Result<ArrayRef> {
        while self.tail - self.head > size {
            self.evict_one();
        }
        let values = values.as_primitive::<F::Input>();
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut answers = Vec::with_capacity(values.len());
        let mut valid = Vec::with_capacity(values.len());
        for (at, &value) in values.values().iter().enumerate() {
            let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(at));
            if self.tail - self.head == size {
                self.evict_one();
            }
            self.insert_one(is_valid.then_some(value));
            let answer = if self.values.len() >= min_periods { self.answer() } else { None };
            valid.push(answer.is_some());
            answers.push(answer.unwrap_or_default());
        }
        let valid = NullBuffer::from(valid);
        self.function.finish(answers, Some(valid).filter(|valid| valid.null_count() > 0))
    }
}

impl<F: Combined, Q: Fifo<F> + Send> Rows for Typed<F, Q> {
    fn len(&self) -> u64 {
        self.tail - self.head
    }

    fn null_count(&self) -> u64 {
        self.nulls.len()
    }

    fn read(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match F::Input::DATA_TYPE {
            // Only the nulls are read: see `Count`.
            DataType::Int8 => Arc::new(Int8Array::new(vec![0; values.len()].into(), values.logical_nulls())),
            // Decimals and integers too, for variances.
            DataType::Float64 => arrow_cast::cast(values, &DataType::Float64)?,
            _ => to_physical(values)?,
        })
    }

    fn insert(&mut self, values: &ArrayRef) {
        let values = values.as_primitive::<F::Input>();
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => values.values().iter().for_each(|&value| self.insert_one(Some(value))),
            Some(_) => values.iter().for_each(|value| self.insert_one(value)),
        }
    }

    fn evict(&mut self, rows: u64) {
        if rows == self.len() {
            return self.clear();
        }
        (0..rows).for_each(|_| self.evict_one());
    }

    fn query(&self) -> Result<ArrayRef> {
        let answer = self.answer();
        let nulls = answer.is_none().then(|| NullBuffer::new_null(1));
        self.function.finish(vec![answer.unwrap_or_default()], nulls)
    }

    fn slide(&mut self, values: &ArrayRef, size: u64, min_periods: u64) -> Result<ArrayRef> {
        let magnitudes = values.as_primitive::<F::Input>().values().iter().map(|&value| F::magnitude(value));
        let largest = magnitudes.fold(self.largest, f64::max);
        // A copy takes O(window), so it is made only where it may be needed.
        let before = self.function.may_overflow(largest, size).then(|| self.clone());
        let answers = self.slide_over(values, size, min_periods);
        if let (Err(_), Some(before)) = (&answers, before) {
            *self = before;
        }
        answers
    }

    fn clear(&mut self) {
        self.values.clear();
        self.nulls.clear();
        self.head = self.tail;
        self.largest = 0.0;
    }
}
