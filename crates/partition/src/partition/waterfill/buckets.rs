//! Buckets of cold keys, and which worker has which bucket.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::candidates::spread;
use crate::keys::remix;

/// Rows per bucket before the loads of buckets are first checked.
const ROWS: u64 = 32;
/// The interval between checks doubles this many times.
const DOUBLINGS: u32 = 10;
/// Excess of a worker's cold rows that is tolerated: a fraction of the mean, and a number of standard deviations of a
/// count.
const LET_BE: f64 = 0.005;
const DEVIATIONS: f64 = 1.5;

/// Eight bytes, so that a row touches one cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Bucket {
    /// Recent cold rows: halved at each check.
    rows: u32,
    /// Cold rows in this epoch, up to 2^16 - 1.
    lately: u16,
    /// The worker, below 2^16.
    worker: u16,
}

/// A map from hashes to workers in which a part of a worker's keys can be moved.
///
/// There are equally many buckets for each worker, in the order of hashes, so that before anything is moved a key is
/// where [`Method::Hash`](super::super::Method::Hash) has it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Buckets {
    /// Number of workers.
    all: u32,
    buckets: Vec<Bucket>,
    /// All recent rows, those of heavy keys included, and the rows up to which they are counted.
    weight: u64,
    counted: u64,
    /// The number of rows from which on buckets are moved again.
    next_check: u64,
    moved: u64,
}

impl Buckets {
    pub(super) fn new(workers: u32) -> Self {
        let per_worker = 64.min((1 << 20) / workers).max(1024_u32.div_ceil(workers));
        let buckets = per_worker * workers;
        Self {
            all: workers,
            buckets: (0..buckets)
                .map(|bucket| Bucket { rows: 0, lately: 0, worker: (bucket / per_worker) as u16 })
                .collect(),
            weight: 0,
            counted: 0,
            next_check: ROWS * u64::from(buckets),
            moved: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// How often a bucket was moved.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// The bucket of a hash.
    #[inline]
    pub(super) fn place(&self, hash: u64) -> u32 {
        spread(remix(hash, 1), self.buckets.len() as u32)
    }

    /// The worker of a bucket.
    #[inline]
    pub(super) fn worker(&self, bucket: u32) -> u32 {
        self.buckets[bucket as usize].worker.into()
    }

    /// Counts a row; returns the worker of its bucket, and how many rows the bucket received in this epoch.
    #[inline]
    pub(super) fn add(&mut self, bucket: u32) -> (u32, u16) {
        let bucket = &mut self.buckets[bucket as usize];
        bucket.rows = bucket.rows.saturating_add(1);
        bucket.lately = bucket.lately.saturating_add(1);
        (bucket.worker.into(), bucket.lately)
    }

    /// Starts a new epoch of rows.
    pub(super) fn end_epoch(&mut self) {
        self.buckets.iter_mut().for_each(|bucket| bucket.lately = 0);
    }

    /// Whether it is time for [`level`](Self::level).
    pub(super) fn should_level(&self, total: u64) -> bool {
        total >= self.next_check
    }

    /// Moves buckets from workers whose cold rows alone exceed the mean by more than chance to the workers with the
    /// fewest, as long as the keys that this splits are within `allowance`; how many these are, by estimate.
    ///
    /// O(buckets · log buckets), at times that double.
    pub(super) fn level(&mut self, total: u64, distinct: f64, allowance: f64) -> u64 {
        let first = ROWS * self.len() as u64;
        self.next_check = total + total.clamp(first, first << DOUBLINGS);
        self.weight += total.saturating_sub(self.counted);
        self.counted = total;

        let mut of: Vec<Vec<u32>> = vec![Vec::new(); self.all as usize];
        let mut cold = vec![0_u64; self.all as usize];
        for (bucket, &Bucket { worker, rows, .. }) in self.buckets.iter().enumerate() {
            of[usize::from(worker)].push(bucket as u32);
            cold[usize::from(worker)] += u64::from(rows);
        }
        let mean = self.weight as f64 / f64::from(self.all);
        let all: u64 = cold.iter().sum();
        let keys_of_a_row = distinct / all.max(1) as f64;
        let mut order: BTreeSet<(u64, u32)> = cold.into_iter().zip(0..).collect();
        let mut split = 0.0;
        while let (Some(&low), Some(&high)) = (order.first(), order.last()) {
            let excess = high.0 as f64 - mean;
            if excess <= LET_BE * mean + DEVIATIONS * (high.0 as f64).sqrt() {
                break;
            }
            let most = (excess as u64).min((high.0 - low.0) / 2);
            let fitting = of[high.1 as usize].iter().enumerate().filter_map(|(position, &bucket)| {
                let rows = u64::from(self.buckets[bucket as usize].rows);
                (1..=most).contains(&rows).then_some((rows, position))
            });
            let Some((rows, position)) = fitting.max() else { break };
            let keys = (rows as f64 * keys_of_a_row).max(1.0);
            if split + keys > allowance {
                break;
            }
            split += keys;
            self.moved += 1;
            let bucket = of[high.1 as usize].swap_remove(position);
            of[low.1 as usize].push(bucket);
            self.buckets[bucket as usize].worker = low.1 as u16;
            order.remove(&low);
            order.remove(&high);
            order.insert((low.0 + rows, low.1));
            order.insert((high.0 - rows, high.1));
        }
        self.buckets.iter_mut().for_each(|bucket| bucket.rows /= 2);
        self.weight /= 2;
        split.ceil() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.buckets[..])
    }

    /// Whether these can be the buckets of so many workers: of a state that was read.
    pub(super) fn are_of(&self, workers: u32) -> bool {
        self.all == workers
            && self.buckets.len() == Self::new(workers).buckets.len()
            && self.buckets.iter().all(|bucket| u32::from(bucket.worker) < workers)
    }
}
