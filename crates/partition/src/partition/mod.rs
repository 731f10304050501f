//! The methods, one file each, their costs, the rule that selects one, and plans for histograms. The head of the crate has
//! the list of methods.
//!
//! A new method is a file here with a `Decide` (or a `Rule` of `counted.rs`, if it counts the distinct keys of workers), a
//! last variant of `Method` and its row of `METHODS` in `parameters.rs`, for which the compiler then asks. `choose.rs`
//! expects costs of methods that differ in them: one that costs what another does is no candidate there.

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
