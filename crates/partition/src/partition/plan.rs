//! A partitioning decided for a whole histogram at once.
//!
//! | | |
//! |---|---|
//! | needs | rows of each hash bucket, and of each heavy key with the bucket it is in |
//! | imbalance | `slack` of the mean load at most, if the heavy keys can level the buckets |
//! | aggregation cost | workers - 1 more than the distinct keys at most |
//! | time | O(B log B + H log V) for B buckets, H heavy keys and V workers |
//! | first appeared | buckets: Graham, *Bounds on Multiprocessing Timing Anomalies*, SIAM J. Appl. Math. 1969 (longest processing time first); splitting so that each piece but a key's last fills a worker: McNaughton, *Scheduling with Deadlines and Loss Functions*, Management Science 1959 |

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::parameters::check_workers;
use crate::{Error, Result};

/// A part of a heavy key's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The worker that gets it.
    pub worker: u32,
    /// How many of the key's rows.
    pub rows: u64,
}

/// Which worker gets which bucket, and which part of which heavy key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The worker of each bucket, for all keys that are not heavy.
    pub buckets: Vec<u32>,
    /// The workers of each heavy key; their rows add up to the key's.
    pub heavy: Vec<Vec<Share>>,
    /// The rows that each worker will get.
    pub loads: Vec<u64>,
}

impl Plan {
    /// Eq. 1: by how many rows the fullest worker exceeds the mean.
    pub fn imbalance(&self) -> f64 {
        let most = self.loads.iter().copied().max().unwrap_or_default();
        most as f64 - self.loads.iter().sum::<u64>() as f64 / self.loads.len().max(1) as f64
    }

    /// By how much the aggregation cost exceeds the number of distinct keys.
    pub fn extra(&self) -> u64 {
        self.heavy.iter().map(|shares| shares.len() as u64 - 1).sum()
    }
}

/// Plans for a histogram: buckets by longest processing time first, then the heavy keys, the heaviest first, as a liquid
/// that levels the workers.
///
/// `bucket_loads` are the rows of each bucket, heavy keys included; `heavy` are the rows of each heavy key and its bucket.
/// A heavy key that fits on a worker is not split, if that overfills it by no more than `slack` of the level.
///
/// # Errors
/// `InvalidValue` for a number of workers outside 1 to 2^16, a slack outside [0, 1], no buckets, or a heavy key without
/// rows, in a bucket that does not exist, or heavier than its bucket.
pub fn plan(bucket_loads: &[u64], heavy: &[(u64, u32)], workers: u32, slack: f64) -> Result<Plan> {
    check_workers(workers.into())?;
    let cold = cold_loads(bucket_loads, heavy, slack)?;

    // A bucket without rows weighs one: keys that were not seen are distributed over all workers.
    let mut order: Vec<u32> = (0..cold.len() as u32).collect();
    order.sort_by_key(|&bucket| Reverse(cold[bucket as usize]));
    let mut heap: BinaryHeap<_> = (0..workers).map(|worker| Reverse((0_u64, worker))).collect();
    let mut buckets = vec![0; cold.len()];
    let mut loads = vec![0_u64; workers as usize];
    for bucket in order {
        let Some(mut least) = heap.peek_mut() else { break };
        let Reverse((weight, worker)) = *least;
        buckets[bucket as usize] = worker;
        loads[worker as usize] += cold[bucket as usize];
        *least = Reverse((weight + cold[bucket as usize].max(1), worker));
    }

    let liquid: u64 = heavy.iter().map(|&(rows, _)| rows).sum();
    let level = level(&loads, liquid);
    let slack = (slack * level as f64) as u64;
    // Room below the level, of the workers that have some.
    let mut room: BTreeSet<(u64, u32)> = (0..workers)
        .filter_map(|worker| Some((level.checked_sub(loads[worker as usize])?, worker)))
        .collect();
    let mut order: Vec<usize> = (0..heavy.len()).collect();
    order.sort_by_key(|&key| Reverse(heavy[key].0));
    let mut shares = vec![Vec::new(); heavy.len()];
    for key in order {
        let mut rest = heavy[key].0;
        while rest > 0 {
            // The tightest fit, the roomiest within the slack, or else all of the roomiest.
            let fit = room.range((rest, 0)..).next().or(room.last()).copied();
            let Some((free, worker)) = fit else {
                return Err(Error::Internal("a level without room for all rows".into()));
            };
            let rows = if rest <= free + slack { rest } else { free };
            if rows == 0 {
                return Err(Error::Internal("a level without room for all rows".into()));
            }
            room.remove(&(free, worker));
            if rows < free {
                room.insert((free - rows, worker));
            }
            shares[key].push(Share { worker, rows });
            loads[worker as usize] += rows;
            rest -= rows;
        }
    }
    Ok(Plan { buckets, heavy: shares, loads })
}

/// Rows of each bucket without its heavy keys.
fn cold_loads(bucket_loads: &[u64], heavy: &[(u64, u32)], slack: f64) -> Result<Vec<u64>> {
    if !(0.0..=1.0).contains(&slack) {
        return Err(Error::InvalidValue(format!(
            "slack: {slack} is outside [0, 1]; it is a fraction of the mean load"
        )));
    }
    if bucket_loads.is_empty() {
        return Err(Error::InvalidValue(
            "bucket_loads: there are none; a plan needs at least one bucket".into(),
        ));
    }
    if bucket_loads.iter().try_fold(0_u64, |sum, &rows| sum.checked_add(rows)).is_none_or(|all| all > 1 << 62)
    {
        return Err(Error::InvalidValue("bucket_loads: they add up to more than 2^62 rows".into()));
    }
    let mut cold = bucket_loads.to_vec();
    for (key, &(rows, bucket)) in heavy.iter().enumerate() {
        let Some(load) = cold.get_mut(bucket as usize) else {
            return Err(Error::InvalidValue(format!(
                "heavy_buckets: key {key} is in bucket {bucket}; allowed is 0 to {}",
                bucket_loads.len() - 1
            )));
        };
        *load = match load.checked_sub(rows) {
            Some(rest) if rows > 0 => rest,
            Some(_) => {
                return Err(Error::InvalidValue(format!(
                    "heavy_counts: key {key} has no rows; it has at least 1"
                )));
            }
            None => {
                return Err(Error::InvalidValue(format!(
                    "heavy_counts: the heavy keys of bucket {bucket} have more rows than the bucket's {}",
                    bucket_loads[bucket as usize]
                )));
            }
        };
    }
    Ok(cold)
}

/// The least level at which the workers have room for so many more rows.
fn level(loads: &[u64], rows: u64) -> u64 {
    let mut sorted = loads.to_vec();
    sorted.sort_unstable();
    let mut below = 0;
    for (count, &load) in (0_u64..).zip(&sorted) {
        // Filled up to this worker's load, the `count` workers before it take this many rows.
        if load * count - below >= rows && count > 0 {
            return (below + rows).div_ceil(count);
        }
        below += load;
    }
    (below + rows).div_ceil(sorted.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_key_is_cut_into_equal_parts() {
        let plan = plan(&[100, 0], &[(100, 0)], 4, 0.0).unwrap();
        assert_eq!(plan.loads, [25; 4]);
        assert_eq!(plan.extra(), 3);
    }

    #[test]
    fn a_key_that_fits_stays_whole() {
        let plan = plan(&[52, 50], &[(52, 0), (50, 1)], 2, 0.05).unwrap();
        assert_eq!(plan.extra(), 0);
        assert_eq!(plan.imbalance(), 1.0);
    }

    proptest! {
        #[test]
        fn all_rows_are_somewhere_and_splits_are_few(
            cold in prop::collection::vec(0..50_u64, 1..40),
            heavy in prop::collection::vec((1..500_u64, any::<prop::sample::Index>()), 0..10),
            workers in 1..12_u32,
            slack in prop::sample::select(vec![0.0, 0.02]),
        ) {
            let heavy: Vec<(u64, u32)> =
                heavy.into_iter().map(|(rows, at)| (rows, at.index(cold.len()) as u32)).collect();
            let mut loads = cold.clone();
            heavy.iter().for_each(|&(rows, bucket)| loads[bucket as usize] += rows);
            let plan = plan(&loads, &heavy, workers, slack).unwrap();
            let mut want = vec![0; workers as usize];
            plan.buckets.iter().zip(&cold).for_each(|(&worker, rows)| want[worker as usize] += rows);
            let of_buckets = want.iter().copied().max().unwrap();
            for (shares, (rows, _)) in plan.heavy.iter().zip(&heavy) {
                prop_assert_eq!(shares.iter().map(|share| share.rows).sum::<u64>(), *rows);
                prop_assert!(shares.iter().all(|share| share.rows > 0));
                shares.iter().for_each(|share| want[share.worker as usize] += share.rows);
            }
            prop_assert_eq!(&plan.loads, &want);
            prop_assert!(plan.extra() < u64::from(workers));
            // No worker is above both the level and what its buckets alone bring.
            let mean = want.iter().sum::<u64>().div_ceil(workers.into()) as f64;
            let most = *want.iter().max().unwrap() as f64;
            prop_assert!(most <= (mean * (1.0 + slack)).max(of_buckets as f64 * (1.0 + slack)) + 1.0);
        }
    }
}
