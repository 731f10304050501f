//! Waterfill: every key stays where its hash sends it, except the few heavy ones, whose rows fill up the workers that
//! are below the mean.
//!
//! | | |
//! |---|---|
//! | imbalance | at most ε of the mean load plus a constant, where the heavy keys are enough to level the others: see below |
//! | aggregation cost | at most the distinct keys D, plus the largest of 1 % of D, an eighth of the mean load, and V - 1: see below |
//! | time | O(1) a row, amortised; a few cache lines, whatever the number of workers |
//! | space | O(workers), some 5 KiB a worker, whatever the number of keys |
//! | first appeared | here; splitting only what is heavy: Azar et al., *Balanced Allocations*, SIAM J. Comput. 1999 (key splitting), and the weakness of every method of Katsipoulakis et al. 2017 that it answers |
//!
//! A key is *heavy* once it has brought more than [`HEAVY`] of a worker's fair share of recent rows, as counted by a
//! [`HeavyHitters`] sketch over the other rows. All other keys are *cold*: their hash gives a bucket, and the bucket a
//! worker ([`Buckets`]), so that they cost nothing in aggregation and keep no state. Rows of heavy keys are a *liquid*:
//! a heavy key stays on its worker while that worker's load is below the *brim*, `(1 + ε) · mean + c`, and moves on
//! when it is not: to a worker that the key knows already, if one of them is below the mean, or else to the lowest of
//! some workers that a cursor passes. A new worker is one more partial result to aggregate, so it must be within an
//! allowance.
//!
//! **Aggregation.** Cold keys have one worker each, unless their bucket was moved; a heavy key has the workers it knows,
//! its first among them. So the cost is at most D, the distinct keys, plus the workers that heavy keys got to know, plus
//! the keys of moved buckets. The first are counted, the second estimated, and both stop at an allowance, for n rows so
//! far on V workers: `max(0.01 · D̂, min(n / 8 V, 16 V))`, or `n / 8 V` while what the key knows is [`DIRE`]ly
//! overfilled; and never less than `V - 1` for a key that alone exceeds a fair share, so that one hot key can always
//! reach all workers. Hence at most D plus the largest of 1 % of D, an eighth of the mean load, and V - 1, whatever comes;
//! Eq. 3 requires that aggregation does not outweigh evaluation. D̂ is HyperLogLog's estimate less three of its standard
//! errors.
//!
//! **Imbalance.** A liquid row is put on a worker only below the brim, unless none can be had within the allowance (such
//! rows are counted as *spilled*). Let t be the last time that worker w got a liquid row: then w's load is at most
//! `(1 + ε) · t / V + c + 1`, plus the cold rows that w got after t. So without spilling, a worker ends above the brim
//! only if its cold rows alone have grown faster than the mean since it was last filled. Where there is no liquid to
//! speak of, all imbalance is that of cold keys; for that case buckets are moved, at times that double, when the loads of
//! their workers differ by more than chance.
//!
//! Levelling V workers may take V - 1 extra pairs (McNaughton 1959) when all rows are known before; here they are not, and
//! it takes about a pair for each heavy key, if they are more. So many are within the allowance once a window has 8 V²
//! rows and 8 V for each heavy key, or 100 distinct keys for each of those pairs. Before that, rows are spilled unless one
//! key alone is what needs levelling: 32 workers and 256 heavy keys take 65,536 rows, 256 and 2,048 four million.

mod buckets;
mod heavy;

use serde::{Deserialize, Serialize};

use super::{Decide, Loads};
use crate::Result;
use crate::sketch::{HeavyHitters, Registers};
use crate::state::{Reader, Writer};
use buckets::Buckets;
use heavy::HeavyKeys;

/// A key is heavy from this part of a worker's fair share on. The lower, the more liquid there is, and the more keys
/// are split.
const HEAVY: f64 = 1.0 / 16.0;
/// ε, the part of the mean load by which a worker may be overfilled.
const SLACK: f64 = 0.008;
/// c, the rows by which it may be overfilled whatever the mean.
const SLACK_ROWS: f64 = 2.0;
/// Extra workers of keys, as a part of the distinct keys.
const EXTRA: f64 = 0.01;
/// Extra workers of keys for each worker, however few the keys.
const EXTRA_PER_WORKER: f64 = 16.0;
/// The part of a mean load that extra workers of keys may come to while they are few: Eq. 3 requires that aggregation does
/// not outweigh evaluation.
const EXTRA_OF_LOAD: f64 = 1.0 / 8.0;
/// The part of the mean load by which a worker must be overfilled for extra workers beyond that.
const DIRE: f64 = 0.05;
/// A key is never heavy below so many rows.
const LEAST_ROWS: u64 = 8;
/// Rows per worker after which counts of heavy keys start anew, so that heavy is what was heavy lately.
const EPOCH: u64 = 512;
/// Rows between two updates of thresholds.
const LOOK: u64 = 64;
/// Known workers tried, and new workers considered, for one row.
const TRIED: usize = 8;
const LOOKED_AT: u32 = 16;
/// 2^12 registers: 1.3 % standard error.
const PRECISION: u32 = 12;
/// What is left of an estimate after three standard errors.
const SURELY: f64 = 0.96;

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Waterfill {
    workers: u32,
    /// Rows in this window.
    rows: u64,
    /// Rows since the start.
    total: u64,
    /// When to update thresholds again, in rows since the start.
    look: u64,
    epoch: u64,
    heavy: HeavyKeys,
    counters: HeavyHitters,
    distinct: Registers,
    buckets: Buckets,
    /// Rows that make a key heavy.
    threshold: u64,
    /// Extra workers of keys in this window, and how many there may be.
    extra: u64,
    allowance: u64,
    most_allowance: u64,
    /// Where to look for a new worker next.
    cursor: u32,
    /// Rows of heavy keys in this window, and those put above the brim.
    poured: u64,
    spilled: u64,
    #[serde(skip)]
    places: Vec<u32>,
}

impl Waterfill {
    pub(super) fn new(workers: u32) -> Result<Self> {
        let counters = (32 * workers as usize).clamp(256, 1 << 17);
        Ok(Self {
            workers,
            rows: 0,
            total: 0,
            look: 0,
            epoch: EPOCH * u64::from(workers),
            heavy: HeavyKeys::new(workers),
            counters: HeavyHitters::new(counters)?,
            distinct: Registers::new(PRECISION)?,
            buckets: Buckets::new(workers),
            threshold: LEAST_ROWS,
            extra: 0,
            allowance: 0,
            most_allowance: 0,
            cursor: 0,
            poured: 0,
            spilled: 0,
            places: Vec::new(),
        })
    }

    fn mean(&self) -> f64 {
        self.rows as f64 / f64::from(self.workers)
    }

    fn brim(&self) -> f64 {
        self.mean() * (1.0 + SLACK) + SLACK_ROWS
    }

    /// Work that depends on all rows, but need not be done for each of them.
    #[cold]
    fn look(&mut self) {
        let workers = f64::from(self.workers);
        self.look = self.total + LOOK;
        let length = EPOCH * u64::from(self.workers);
        let share = self.total.min(length) as f64 / workers;
        self.threshold = ((HEAVY * share) as u64).max(LEAST_ROWS);
        let of_keys = EXTRA * SURELY * self.distinct.estimate();
        let of_load = EXTRA_OF_LOAD * self.mean();
        self.allowance = of_keys.max(of_load.min(EXTRA_PER_WORKER * workers)) as u64;
        self.most_allowance = of_keys.max(of_load) as u64;
        if self.total >= self.epoch {
            self.epoch = self.total + length;
            self.counters.clear();
            self.buckets.end_epoch();
            let least = (HEAVY / 4.0 * share) as u32;
            let left = self.allowance.saturating_sub(self.extra);
            let home = |hash| self.buckets.worker(self.buckets.place(hash));
            self.extra += self.heavy.end_epoch(least, left, home);
        }
        if self.buckets.should_level(self.total) {
            let left = self.allowance.saturating_sub(self.extra) as f64;
            self.extra += self.buckets.level(self.total, self.distinct.estimate(), left);
        }
    }

    /// The worker of a cold key's row, which may make the key heavy.
    #[inline]
    fn cold(&mut self, hash: u64, place: u32) -> u32 {
        let (worker, lately) = self.buckets.add(place);
        self.distinct.update(hash);
        // A key has no more rows than its bucket, and most buckets have too few for any of their keys to be heavy.
        if u64::from(lately) > self.threshold / 2 {
            let hit = self.counters.insert(hash, 1);
            if hit.count - hit.error >= self.threshold - self.threshold / 2 {
                self.heavy.insert(hash, worker);
            }
        }
        worker
    }

    /// The worker of a heavy key's row.
    #[inline]
    fn pour(&mut self, slot: usize, loads: &Loads) -> u32 {
        self.poured += 1;
        let brim = self.brim();
        let key = self.heavy.count(slot);
        if (loads.of(key.worker) as f64) < brim && !key.known.is_empty() {
            return key.worker;
        }
        self.move_on(slot, loads)
    }

    /// The worker that a heavy key moves on to, its own being full.
    fn move_on(&mut self, slot: usize, loads: &Loads) -> u32 {
        let (mean, brim) = (self.mean(), self.brim());
        let key = self.heavy.key(slot);
        if key.known.is_empty() && (loads.of(key.worker) as f64) < brim {
            // The key's first row of a window: there, any worker is as cheap, and this one may hold the key's state.
            let worker = key.worker;
            self.heavy.learn(slot, worker);
            return worker;
        }
        let (worker, load) = self.heavy.lowest_known(slot, TRIED, mean, loads);
        if (load as f64) < (mean + brim) / 2.0 && !self.heavy.key(slot).known.is_empty() {
            self.heavy.key_mut(slot).worker = worker;
            return worker;
        }
        let first = self.heavy.key(slot).known.is_empty();
        let is_dire = load as f64 >= mean * (1.0 + DIRE);
        let mut allowance = if is_dire { self.most_allowance } else { self.allowance };
        if self.exceeds_a_share(slot) {
            allowance = allowance.max(u64::from(self.workers) - 1);
        }
        if (first || self.extra < allowance) && self.heavy.has_room() {
            let new = self.low_worker(loads);
            if (loads.of(new) as f64) < mean || first {
                self.extra += u64::from(self.heavy.learn(slot, new) && !first);
                self.heavy.key_mut(slot).worker = new;
                return new;
            }
        }
        self.spilled += u64::from(load as f64 >= brim);
        self.heavy.key_mut(slot).worker = worker;
        worker
    }

    /// Whether the key alone has brought more of this epoch's rows than a worker's fair share.
    fn exceeds_a_share(&self, slot: usize) -> bool {
        let workers = u64::from(self.workers);
        let rows_of_epoch = self.total + EPOCH * workers - self.epoch;
        let rows = u64::from(self.heavy.key(slot).rows);
        rows >= LEAST_ROWS && rows * workers > rows_of_epoch
    }

    /// The lowest of the next workers; the cursor passes them, so that every worker has its turn.
    fn low_worker(&mut self, loads: &Loads) -> u32 {
        let from = self.cursor;
        let looked_at = LOOKED_AT.min(self.workers);
        self.cursor = (from + looked_at) % self.workers;
        let passed = (0..looked_at).map(|step| (from + step) % self.workers);
        passed.min_by_key(|&worker| loads.of(worker)).unwrap_or_default()
    }
}

impl Decide for Waterfill {
    fn decide(&mut self, hashes: &[u64], loads: &mut Loads, out: &mut Vec<i32>) {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        places.extend(hashes.iter().map(|&hash| self.buckets.place(hash)));
        for (&hash, &place) in hashes.iter().zip(&places) {
            if self.total >= self.look {
                self.look();
            }
            self.total += 1;
            self.rows += 1;
            let worker = match self.heavy.find(hash) {
                None => self.cold(hash, place),
                Some(slot) => self.pour(slot, loads),
            };
            loads.add(worker);
            out.push(worker as i32);
        }
        self.places = places;
    }

    fn end_window(&mut self) {
        // Which keys are heavy, and where buckets are, is kept; loads and split keys belonged to the previous window.
        self.distinct.clear();
        self.heavy.end_window();
        (self.rows, self.extra, self.poured, self.spilled) = (0, 0, 0, 0);
        self.look = self.total;
    }

    fn reset(&mut self) {
        self.counters.clear();
        self.distinct.clear();
        self.heavy = HeavyKeys::new(self.workers);
        self.buckets = Buckets::new(self.workers);
        (self.rows, self.total, self.look, self.epoch) = (0, 0, 0, EPOCH * u64::from(self.workers));
        (self.extra, self.allowance, self.most_allowance) = (0, 0, 0);
        (self.cursor, self.threshold) = (0, LEAST_ROWS);
        (self.poured, self.spilled) = (0, 0);
    }

    fn bytes(&self) -> usize {
        self.heavy.bytes() + self.counters.bytes() + self.distinct.bytes() + self.buckets.bytes()
    }

    fn explain(&self, _: &Loads) -> Option<String> {
        let share = self.poured as f64 / self.rows.max(1) as f64 * 100.0;
        Some(format!(
            "{} heavy keys (above {:.2} % of the rows) brought {share:.1} % of the rows, {} of them put above the brim; {} \
             extra pairs of key and worker, of {} allowed; {} of {} buckets of other keys were moved; about {:.0} \
             distinct keys",
            self.heavy.len(),
            HEAVY / f64::from(self.workers) * 100.0,
            self.spilled,
            self.extra,
            self.most_allowance.max(u64::from(self.workers) - 1),
            self.buckets.moved(),
            self.buckets.len(),
            self.distinct.estimate(),
        ))
    }

    fn copied(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }

    fn save(&self, to: &mut Writer) {
        to.value(self);
    }

    fn load(&mut self, from: &mut Reader<'_>) -> Result<()> {
        let read: Self = from.value()?;
        let sizes = |this: &Self| (this.workers, this.counters.capacity(), this.distinct.precision());
        if sizes(&read) != sizes(self) || read.cursor >= self.workers || !read.buckets.are_of(self.workers) {
            return Err(from.damaged("buckets, sketches or a cursor of other workers"));
        }
        let Some(heavy) = read.heavy.clone().indexed(self.workers) else {
            return Err(from.damaged("heavy keys that so many workers cannot have"));
        };
        *self = Self { heavy, ..read };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::remix;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The two bounds of the module's card, where no bucket was moved yet.
        #[test]
        fn liquid_stays_below_the_brim_and_pairs_within_the_allowance(
            runs in prop::collection::vec((0..50_u64, 1..600_u64), 1..60),
            workers in 1..20_u32,
            seed: u64,
        ) {
            let mut waterfill = Waterfill::new(workers).unwrap();
            let mut loads = Loads(vec![0; workers as usize]);
            let (mut pairs, mut keys, mut above) = (HashSet::new(), HashSet::new(), 0);
            let mut out = Vec::new();
            for hash in runs.iter().flat_map(|&(key, rows)| (0..rows).map(move |_| remix(key, seed))) {
                out.clear();
                let (before, spilled, poured) = (loads.clone(), waterfill.spilled, waterfill.poured);
                waterfill.decide(&[hash], &mut loads, &mut out);
                let worker = out[0] as u32;
                // Not whether the key was heavy before: it may be the row that ends an epoch, and with it that.
                let is_liquid = waterfill.poured > poured;
                let is_above = is_liquid && before.of(worker) as f64 >= waterfill.brim();
                above += u64::from(is_above);
                prop_assert!(waterfill.spilled >= spilled + u64::from(is_above));
                pairs.insert((hash, worker));
                keys.insert(hash);
                prop_assert!((pairs.len() - keys.len()) as u64 <= waterfill.extra);
                let eighth = waterfill.mean() / 8.0;
                let hot = f64::from(workers - 1);
                prop_assert!(waterfill.extra as f64 <= eighth.max(0.011 * keys.len() as f64).max(hot));
            }
            prop_assert_eq!(waterfill.buckets.moved(), 0);
            prop_assert_eq!(waterfill.spilled, above);
        }
    }

    /// Keys that were heavy return to their homes within the allowance, although each window forgets which keys know
    /// which workers.
    #[test]
    fn keys_that_fade_stay_within_the_allowance_of_each_window() {
        const WORKERS: u32 = 32;
        const WINDOW: u64 = 4_000;
        let mut waterfill = Waterfill::new(WORKERS).unwrap();
        let mut loads = Loads(vec![0; WORKERS as usize]);
        let (mut pairs, mut keys, mut out) = (HashSet::new(), HashSet::new(), Vec::new());
        for row in 0..400_000_u64 {
            let share = (-(row as f64) / 50_000.0).exp().max(0.15);
            let dice = remix(row, 1);
            let is_hot = (dice >> 11) as f64 / (1u64 << 53) as f64 <= share;
            let key = if is_hot { remix(row, 2) % 384 } else { 1_000_000 + row };
            out.clear();
            waterfill.decide(&[remix(key, 3)], &mut loads, &mut out);
            pairs.insert((key, out[0]));
            keys.insert(key);
            if (row + 1) % WINDOW == 0 {
                let allowed = (keys.len() as f64 / 100.0).max(f64::from(WORKERS - 1)).ceil() as usize;
                assert!(
                    pairs.len() - keys.len() <= allowed,
                    "row {row}: {} pairs more",
                    pairs.len() - keys.len()
                );
                (pairs, keys) = (HashSet::new(), HashSet::new());
                loads.0.fill(0);
                waterfill.end_window();
            }
        }
    }
}
