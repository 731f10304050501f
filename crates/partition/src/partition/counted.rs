//! What methods that count distinct keys have in common: candidates, cardinalities, and everything of [`Decide`] but the
//! rule by which a row's candidates are compared.

use super::candidates::Candidates;
use super::cardinality::Cardinality;
use super::{Decide, Loads};
use crate::Result;
use crate::state::{Reader, Writer};

/// Chooses among the candidates of a row's key.
pub(super) trait Rule<C>: Clone + Send {
    /// Decides for some rows; candidate j of row i is `places[i + j * hashes.len()]`.
    fn decide(
        &mut self,
        hashes: &[u64],
        places: &[u32],
        cardinality: &mut C,
        loads: &mut Loads,
        out: &mut Vec<i32>,
    );

    /// Drops what was derived from cardinalities and loads: `estimates` are the ones from now on.
    fn derive(&mut self, _estimates: &[f64]) {}

    /// Memory in bytes.
    fn bytes(&self) -> usize {
        0
    }
}

/// A method: a rule over counted keys.
#[derive(Clone)]
pub(super) struct Counted<C, R> {
    workers: u32,
    candidates: Candidates,
    places: Vec<u32>,
    cardinality: C,
    rule: R,
}

impl<C: Cardinality, R: Rule<C>> Counted<C, R> {
    pub(super) fn new(workers: u32, candidates: Candidates, rule: R) -> Result<Self> {
        let cardinality = C::new(workers)?;
        let mut counted = Self { workers, candidates, places: Vec::new(), cardinality, rule };
        counted.derive();
        Ok(counted)
    }

    fn estimates(&self) -> Vec<f64> {
        (0..self.workers).map(|worker| self.cardinality.estimate(worker)).collect()
    }

    fn derive(&mut self) {
        self.rule.derive(&self.estimates());
    }
}

impl<C: Cardinality + 'static, R: Rule<C> + 'static> Decide for Counted<C, R> {
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>) {
        self.candidates.fill(hashes, &mut self.places);
        self.rule.decide(hashes, &self.places, &mut self.cardinality, loads, out);
    }

    fn cardinalities(&self) -> Option<Vec<f64>> {
        Some(self.estimates())
    }

    fn end_window(&mut self) {
        self.reset();
    }

    fn reset(&mut self) {
        self.cardinality.clear();
        self.derive();
    }

    fn bytes(&self) -> usize {
        self.cardinality.bytes() + self.rule.bytes()
    }

    fn copied(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }

    fn save(&self, to: &mut Writer) {
        to.value(&self.cardinality);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.cardinality = from.value()?;
        if !self.cardinality.is_of(self.workers) {
            return Err(from.damaged("cardinalities of other workers or keys"));
        }
        self.derive();
        Ok(())
    }
}
