//! Quantile sketches, for when exact quantiles need too much memory. Algebraic, commutative up to their error.
//!
//! KLL (Karnin, Lang and Liberty, *Optimal Quantile Approximation in Streams*, FOCS 2016) as implemented by Apache
//! DataSketches, with k = 200: the rank of an answer is within 1.33 % of the requested one with 99 % confidence, and
//! exact up to roughly k values. Items are keys of values, so that every type of 64 bits has quantiles, NaN greatest.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, cast::AsArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datasketches::common::SearchCriteria;
use datasketches::kll::KllSketch;

use super::by_slot::grouped;
use super::lift::{cast_to, columns};
use super::order::{Family, Keys, Words, family, integer};
use super::partials::Partials;
use super::properties::{Kind, Properties};
use super::rows::Rows;
use crate::algebra::Keyed;
use crate::kernels::Ranges;
use crate::{Error, Result};

/// The size of a sketch's levels, which determines its error.
const K: u16 = 200;

/// A column of sketches.
pub struct Sketches {
    words: Words,
    /// `None` for no values.
    states: Vec<State>,
}

type State = Option<KllSketch<i64>>;

impl Sketches {
    /// An empty column over values of type `input`, if those fit 64 bits.
    pub(super) fn new(input: &DataType) -> Option<Self> {
        (family(input)? == Family::Word).then(|| Self { words: Words::new(input), states: Vec::new() })
    }

    fn with(&self, states: Vec<State>) -> Self {
        Self { words: self.words.clone(), states }
    }

    /// Approximate quantiles of all slots.
    pub(super) fn quantiles(&self, q: f64) -> Result<ArrayRef> {
        let quantile = |state: &State| match state {
            None => Ok(None),
            Some(sketch) => sketch.quantile(q, SearchCriteria::Inclusive).map_err(broken),
        };
        let quantiles: Vec<Option<i64>> = self.states.iter().map(quantile).collect::<Result<_>>()?;
        let nulls = NullBuffer::from_iter(quantiles.iter().map(Option::is_some));
        let keys: Vec<u64> =
            quantiles.into_iter().map(|quantile| quantile.unwrap_or_default().ordinal()).collect();
        self.words.values(&keys, Some(nulls))
    }
}

fn broken(error: datasketches::error::Error) -> Error {
    Error::Internal(format!("KLL sketch: {error}"))
}

/// Joins `other` to `state`.
fn absorb(state: &mut State, other: &State) -> Result<()> {
    match (state.as_mut(), other) {
        (_, None) => {}
        (None, Some(_)) => state.clone_from(other),
        (Some(own), Some(other)) => own.merge(other).map_err(broken)?,
    }
    Ok(())
}

impl Partials for Sketches {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values] = columns(inputs)?;
        let keys = self.words.read(values)?;
        let nulls = values.logical_nulls();
        self.states.resize(len, None);
        for (row, &slot) in rows.slots.iter().enumerate() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let state = &mut self.states[slot as usize];
                if state.is_none() {
                    *state = Some(KllSketch::new(K).map_err(broken)?);
                }
                if let Some(sketch) = state {
                    sketch.update(integer(keys[row]));
                }
            }
        }
        Ok(())
    }

    /// Sketches in the format that all languages of DataSketches share; null for no values.
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [sketches] = columns(state)?;
        let sketches = cast_to(sketches, &DataType::Binary)?;
        let sketches = sketches.as_binary::<i32>();
        self.states.resize(len, None);
        for (row, &slot) in rows.slots.iter().enumerate().filter(|&(row, _)| sketches.is_valid(row)) {
            let sketch = KllSketch::<i64>::deserialize(sketches.value(row)).map_err(|error| {
                Error::InvalidValue(format!("slices: row {row} holds no KLL sketch of int64: {error}"))
            })?;
            absorb(&mut self.states[slot as usize], &Some(sketch))?;
        }
        Ok(())
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        self.states.extend(other.into_alike::<Self>().states);
    }

    fn empty(&self) -> Box<dyn Partials> {
        Box::new(self.with(Vec::new()))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        let join = |slots: &[u32]| {
            let mut joined = None;
            slots.iter().try_for_each(|&slot| absorb(&mut joined, &self.states[slot as usize]))?;
            Ok(joined)
        };
        Ok(Box::new(self.with(grouped(slots, groups).map(join).collect::<Result<_>>()?)))
    }

    /// By Two-Stacks, as [`crate::kernels::two_stacks`], whose states are plain values.
    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        let mut front: Vec<State> = Vec::new();
        let (mut base, mut mid, mut end) = (0, 0, 0);
        let mut back: State = None;
        let mut answers = Vec::with_capacity(ranges.len());
        for (lo, hi) in ranges.iter() {
            if lo >= mid {
                (base, mid, end, back) = (lo, hi, hi, None);
                let mut suffix = None;
                front.clear();
                for state in self.states[lo..hi].iter().rev() {
                    absorb(&mut suffix, state)?;
                    front.push(suffix.clone());
                }
                front.reverse();
                answers.push(suffix);
                continue;
            }
            self.states[end..hi].iter().try_for_each(|state| absorb(&mut back, state))?;
            end = hi;
            let mut answer = front[lo - base].clone();
            absorb(&mut answer, &back)?;
            answers.push(answer);
        }
        Ok(Box::new(self.with(answers)))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.lower()?])
    }

    /// The sketches, serialised.
    fn lower(&self) -> Result<ArrayRef> {
        let sketches = self.states.iter().map(|state| state.as_ref().map(KllSketch::serialize));
        Ok(Arc::new(sketches.collect::<BinaryArray>()))
    }

    /// A sketch's items are 8 bytes each, and its levels hold about twice as many as the first.
    fn bytes(&self) -> usize {
        let sketches: usize = self.states.iter().flatten().map(|sketch| 8 * sketch.num_retained()).sum();
        sketches + self.states.capacity() * size_of::<State>()
    }
}
