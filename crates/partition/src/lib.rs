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
//!
//! What they stand on is public, too, from the lowest on:
//!
//! | module | contents |
//! |---|---|
//! | [`keys`] | key columns to dense ids, and to hashes that never change |
//! | [`sketch`] | HyperLogLog, heavy hitters, membership: memory that does not grow with the keys |
//! | [`state`] | snapshots: one envelope around values and columns |
//!
//! Errors are those of [`windowkit_kernels`].

pub mod keys;
mod partition;
pub mod sketch;
pub mod state;

pub use partition::*;
pub use windowkit_kernels::{Error, Result};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
