//! Minima and maxima of sliding windows at slide 1: an aligned flip over vectors, in one pass over memory.
//!
//! | | |
//! |---|---|
//! | needs | a total order that answers in the width of its input; idempotence, as runs may overlap |
//! | time | per vector of 64 bytes `2 log2(lanes) + 5` lane-wise minima, whatever the window |
//! | space | one vector per 64 of the window, 16 KiB of buffers; nothing per value |
//! | first appeared | van Herk, *A fast algorithm for local minimum and maximum filters on rectangular and octagonal kernels*, 1992; as Two-Stacks with an in-place flip: Theodorakis et al., *Hammer Slide*, ADMS 2018, §3.2 |
//!
//! Let `L` be the lanes of a vector, and a *run* the least of the `L` values from one position on. Runs of a vector of
//! positions take `log2(L)` shifts of neighbouring vectors. A window of `n >= L` values is `q = n / L` runs, `L` apart,
//! and one more that ends with the window; so the windows that start in the lanes of one vector of positions are
//! lane-wise minima of `q` vectors of runs, and of one that is read from where the last runs start. Over vectors of runs
//! the windows slide by one vector, and Two-Stacks needs no shuffle: blocks of `q` vectors, the suffix minima of one
//! (the front stack after a flip) against the running minimum of the next (the back stack, of which nothing else is
//! stored: *data minimalism*, §3.2).
//!
//! A window of fewer than `L` values is two overlapping runs of the greatest power of two below its size.
//!
//! Blocks that are longer than a tile are flipped tile by tile: when a tile is taken in by the running minimum its own
//! minimum is kept, one vector; the flip adds these up from the block's end; each tile's suffix minima are made when
//! windows reach it. So memory is read twice and written once, as for an addition of two columns, at any window.
//!
//! Of the paper's optimisations, §3.2: ring buffers and decomposed intermediates become one buffer of runs; the flip is
//! in place; run-length encoding of the back stack is left out, as it cost the authors 9 to 18 %.

use super::element::Order;
use super::lanes::{Key, Lanes, keys};
use super::level::Kernel;
use super::stream::{Sink, Source};

/// Vectors of a tile, and the longest block, in vectors of runs, that is flipped at once.
const TILE: usize = 64;

/// The parameters of a minimum or maximum at slide 1.
pub(super) struct Extrema<'a, K, const FLOAT: bool> {
    /// Values past the end or null must be the greatest value in the order.
    pub source: &'a dyn Source<K>,
    pub order: Order<K>,
    /// Values in a window, at least 1.
    pub size: usize,
    pub windows: usize,
    pub sink: &'a mut dyn Sink<K>,
}

/// The order as vectors.
#[derive(Clone, Copy)]
pub(super) struct Map<V, const FLOAT: bool> {
    flip: V,
    nans: V,
}

impl<V: Lanes, const FLOAT: bool> Map<V, FLOAT> {
    #[inline(always)]
    pub(super) fn new(order: Order<V::Key>) -> Self {
        Self { flip: V::splat(order.flip), nans: V::splat(order.nans) }
    }

    #[inline(always)]
    pub(super) fn load(self, bits: &[V::Key]) -> V {
        let bits = V::load(bits);
        if FLOAT { bits.enter(self.nans).xor(self.flip) } else { bits.xor(self.flip) }
    }

    #[inline(always)]
    pub(super) fn leave(self, key: V) -> V {
        let key = key.xor(self.flip);
        if FLOAT { key.leave(self.nans) } else { key }
    }
}

impl<K: Key, const FLOAT: bool> Kernel for Extrema<'_, K, FLOAT> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let lanes = <K::Vector as Lanes>::LEN;
        if self.size < lanes {
            self.short();
        } else if self.size / lanes <= TILE {
            self.whole_blocks();
        } else {
            self.tiles();
        }
    }
}

impl<K: Key, const FLOAT: bool> Extrema<'_, K, FLOAT> {
    /// Windows shorter than a vector: runs by doubling, over one tile after the other.
    #[inline(always)]
    fn short(self) {
        let lanes = <K::Vector as Lanes>::LEN;
        let map = Map::<K::Vector, FLOAT>::new(self.order);
        let power = 1 << self.size.ilog2();
        let mut scratch = Vec::new();
        // One vector more than the tile's is processed, as windows end in the next, and one more is read by doubling.
        let mut runs = vec![K::Vector::splat(K::MAX); TILE + 2];
        let mut start = 0;
        while start < self.windows {
            let vectors = (self.windows - start).div_ceil(lanes).min(TILE);
            let tile = self.source.tile(start, (vectors + 1) * lanes, &mut scratch);
            for (run, bits) in runs.iter_mut().zip(tile.chunks_exact(lanes)) {
                *run = map.load(bits);
            }
            let mut len = 1;
            while len < power {
                for i in 0..=vectors {
                    let later = K::Vector::load(&keys(&runs)[i * lanes + len..]);
                    runs[i] = runs[i].lesser(later);
                }
                len *= 2;
            }
            let windows = (self.windows - start).min(vectors * lanes);
            let room = self.sink.room(vectors * lanes);
            let last = self.size - power;
            for (i, room) in room.chunks_exact_mut(lanes).take(vectors).enumerate() {
                let later = K::Vector::load(&keys(&runs)[i * lanes + last..]);
                map.leave(runs[i].lesser(later)).store(room);
            }
            // SAFETY: the loop has written `vectors * lanes` values, and there are no more windows than that.
            unsafe { self.sink.commit(windows) };
            start += windows;
        }
    }

    /// Blocks that fit a tile: runs are made once and flipped in place.
    #[inline(always)]
    fn whole_blocks(self) {
        let lanes = <K::Vector as Lanes>::LEN;
        let map = Map::<K::Vector, FLOAT>::new(self.order);
        let (block, last) = (self.size / lanes, self.size % lanes);
        // Whole blocks, so that a tile ends where a flip is needed.
        let tile = TILE.div_ceil(block) * block;
        let mut scratch = Vec::new();
        // runs[i] are those of vector `start / lanes + i`; the first `block` are known from the tile before.
        let mut runs = vec![K::Vector::splat(K::MAX); tile + block];
        let mut known = 0;
        let mut start = 0;
        while start < self.windows {
            let wanted = (self.windows - start).div_ceil(lanes);
            let vectors = (wanted.div_ceil(block) * block).min(tile);
            let new = vectors + block - known;
            let bits = self.source.tile(start + known * lanes, (new + 1) * lanes, &mut scratch);
            make_runs(map, bits, &mut runs[known..known + new]);
            self.source.expect(start + (vectors + block) * lanes, vectors * lanes);
            let room = self.sink.room(vectors * lanes);
            for first in (0..vectors).step_by(block) {
                let mut suffix = K::Vector::splat(K::MAX);
                for run in runs[first..first + block].iter_mut().rev() {
                    suffix = suffix.lesser(*run);
                    *run = suffix;
                }
                // The suffix of a single run is the run itself, so the last runs are all still there.
                let mut prefix = K::Vector::splat(K::MAX);
                let room = &mut room[first * lanes..(first + block) * lanes];
                let ends = &keys(&runs)[(first + block - 1) * lanes + last..];
                for i in 0..block {
                    let end = K::Vector::load(&ends[i * lanes..]);
                    let least = runs[first + i].lesser(prefix).lesser(end);
                    map.leave(least).store(&mut room[i * lanes..]);
                    prefix = prefix.lesser(runs[first + block + i]);
                }
            }
            let windows = (self.windows - start).min(vectors * lanes);
            // SAFETY: every block has written all its vectors, `vectors * lanes` values together.
            unsafe { self.sink.commit(windows) };
            runs.copy_within(vectors..vectors + block, 0);
            known = block;
            start += windows;
        }
    }

    /// Blocks longer than a tile, flipped tile by tile.
    #[inline(always)]
    fn tiles(self) {
        let lanes = <K::Vector as Lanes>::LEN;
        let map = Map::<K::Vector, FLOAT>::new(self.order);
        let (block, last) = (self.size / lanes, self.size % lanes);
        let least = K::Vector::splat(K::MAX);
        let mut scratch = Vec::new();
        let mut suffixes = [least; TILE];
        // Runs of the tile that the running minimum takes in, and of the vector before it.
        let mut runs = vec![least; TILE + 1];
        // The rest of the block after each tile, once it is flipped.
        let mut tiles = vec![least; block.div_ceil(TILE)];
        for (i, tile) in tiles.iter_mut().enumerate() {
            let vectors = TILE.min(block - i * TILE);
            let bits = self.source.tile(i * TILE * lanes, (vectors + 1) * lanes, &mut scratch);
            make_runs(map, bits, &mut runs[..vectors]);
            *tile = lowest(&runs[..vectors]);
        }
        let mut start = 0;
        while start < self.windows {
            // The flip: minima of tiles become minima of all that follows in the block.
            let mut after = least;
            for tile in tiles.iter_mut().rev() {
                let own = *tile;
                *tile = after;
                after = after.lesser(own);
            }
            let mut prefix = least;
            for (i, tile) in tiles.iter_mut().enumerate() {
                let left = self.windows.saturating_sub(start + i * TILE * lanes);
                if left == 0 {
                    break;
                }
                let vectors = TILE.min(block - i * TILE);
                let front = start + i * TILE * lanes;
                let back = front + block * lanes;
                let bits = self.source.tile(front, (vectors + 1) * lanes, &mut scratch);
                make_suffixes(map, bits, *tile, &mut suffixes[..vectors]);
                let bits = self.source.tile(back - lanes, (vectors + 2) * lanes, &mut scratch);
                make_runs(map, bits, &mut runs[..vectors + 1]);
                self.source.expect(front + vectors * lanes, vectors * lanes);
                self.source.expect(back + vectors * lanes, vectors * lanes);
                let room = self.sink.room(vectors * lanes);
                let ends = &keys(&runs)[last..];
                for j in 0..vectors {
                    let end = K::Vector::load(&ends[j * lanes..]);
                    let least = suffixes[j].lesser(prefix).lesser(end);
                    map.leave(least).store(&mut room[j * lanes..]);
                    prefix = prefix.lesser(runs[j + 1]);
                }
                *tile = lowest(&runs[1..=vectors]);
                // SAFETY: the loop has written `vectors * lanes` values.
                unsafe { self.sink.commit(left.min(vectors * lanes)) };
            }
            start += block * lanes;
        }
    }
}

/// Runs of each vector of `bits` but the last, which they end in.
#[inline(always)]
fn make_runs<V: Lanes, const FLOAT: bool>(map: Map<V, FLOAT>, bits: &[V::Key], runs: &mut [V]) {
    let len = runs.len();
    let bits = &bits[..(len + 1) * V::LEN];
    let mut after = [V::splat(V::Key::MAX); 6];
    map.load(&bits[len * V::LEN..]).runs(&mut after);
    for (run, bits) in runs.iter_mut().zip(bits.chunks_exact(V::LEN)).rev() {
        *run = map.load(bits).runs(&mut after);
    }
}

/// As [`make_runs`], each with all that come later and with `after`.
#[inline(always)]
fn make_suffixes<V: Lanes, const FLOAT: bool>(
    map: Map<V, FLOAT>,
    bits: &[V::Key],
    after: V,
    suffixes: &mut [V],
) {
    let len = suffixes.len();
    let bits = &bits[..(len + 1) * V::LEN];
    let mut suffix = after;
    let mut after = [V::splat(V::Key::MAX); 6];
    map.load(&bits[len * V::LEN..]).runs(&mut after);
    for (slot, bits) in suffixes.iter_mut().zip(bits.chunks_exact(V::LEN)).rev() {
        suffix = suffix.lesser(map.load(bits).runs(&mut after));
        *slot = suffix;
    }
}

/// The lane-wise least of the vectors.
#[inline(always)]
fn lowest<V: Lanes>(vectors: &[V]) -> V {
    let mut lowest = V::splat(V::Key::MAX);
    for &vector in vectors {
        lowest = lowest.lesser(vector);
    }
    lowest
}
