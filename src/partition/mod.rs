//! Partitioners: which worker gets which row, weighing imbalance against aggregation cost.
//!
//! A stateful operation runs in three stages: rows are partitioned, each worker makes partial results of its rows, and
//! partial results of one key are aggregated (Katsipoulakis et al., *A Holistic View of Stream Partitioning Costs*, VLDB
//! 2017, §2.2). Imbalance (Eq. 1) is what the second stage waits for, and aggregation cost (Eq. 2: the number of distinct
//! keys of each worker, summed over workers) is what the third has to do. [`cost`] computes both of any assignment,
//! [`choose`] recommends a method for given keys, [`plan`] decides for a whole histogram at once, and a [`Partitioner`]
//! decides row by row:
//!
//! | method | the paper's name | a row goes to |
//! |---|---|---|
//! | [`Method::Waterfill`] | none | the worker of its key's hash; rows of heavy keys to wherever the level is low |
//! | [`Method::Shuffle`] | SH | the next worker |
//! | [`Method::Hash`] | FLD | the worker of its key's hash |
//! | [`Method::PartialKey`] | PK | the candidate with the fewest rows |
//! | [`Method::CardinalityImbalance`] | CM | the candidate with the fewest keys |
//! | [`Method::Affinity`] | AM | where its key is, or else the candidate with the fewest keys |
//! | [`Method::LoadAffinity`] | cAM | where its key is, or else the candidate with the fewest rows |
//! | [`Method::Hybrid`] | LM | the candidate with the least mean of both |
//!
//! Decisions depend on the parameters, the seed among them, and on the rows so far, never on how rows come in batches.

mod affinity;
mod candidates;
mod cardinality;
mod cardinality_imbalance;
mod choose;
mod cost;
mod counted;
mod hybrid;
mod oblivious;
mod parameters;
mod partial_key;
mod partitioner;
mod plan;
mod undo;
mod waterfill;
mod window;

pub use candidates::Candidates;
pub use choose::{Choice, Statistics, choose};
pub use cost::{Cost, cost};
pub use parameters::{CardinalityKind, Method, Parameters};
pub use partitioner::{Batch, Partitioner};
pub use plan::{Plan, Share, plan};
pub use window::WindowLength;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::state::{Reader, Writer};

/// Rows per worker in the current window: the array L of the paper's algorithms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Loads(Vec<u64>);

impl Loads {
    #[inline]
    fn of(&self, worker: u32) -> u64 {
        self.0[worker as usize]
    }

    #[inline]
    fn add(&mut self, worker: u32) {
        self.0[worker as usize] += 1;
    }

    fn all(&self) -> &[u64] {
        &self.0
    }
}

/// A method: `decide` of the paper's Alg. 1 for many rows at once, and its state.
trait Decide: Send {
    /// Appends the worker of each row, given by its key's hash, and counts the row in `loads`.
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>);

    /// Whether decisions depend on keys.
    fn reads_keys(&self) -> bool {
        true
    }

    /// Distinct keys per worker in the current window, if the method counts them.
    fn cardinalities(&self) -> Option<Vec<f64>> {
        None
    }

    /// The next row belongs to another window.
    fn end_window(&mut self);

    /// Forgets everything.
    fn reset(&mut self);

    /// The method in its current state.
    fn copied(&self) -> Box<dyn Decide>;

    /// Memory in bytes, without the loads.
    fn bytes(&self) -> usize {
        0
    }

    /// The current state of the method, in words.
    fn explain(&self, _: &Loads) -> Option<String> {
        None
    }

    /// Writes the state, if the method has one.
    fn save(&self, _: &mut Writer) {}

    /// Takes the state that `save` wrote for the same parameters.
    ///
    /// # Errors
    /// `InvalidValue` for a state that the method cannot have.
    fn load(&mut self, _: &mut Reader<'_>) -> Result<()> {
        Ok(())
    }
}
