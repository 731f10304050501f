//! Reductions of pieces of a column to their extrema and sums, by vectors: the speed of memory.
//!
//! | | |
//! |---|---|
//! | needs | an associative and commutative function |
//! | time | one step per vector, and `log2(lanes)` per piece |
//! | space | none |

use super::element::Order;
use super::extrema::Map;
use super::lanes::{Key, Lanes};
use super::level::Kernel;
use super::pieces::Pieces;
use super::rows::{LANES, Op, Row, State, join_later};
use super::stream::Source;

/// Values of a piece that are reduced at once.
const TILE: usize = 1 << 14;

/// The least keys of pieces, as keys of [`Order`].
pub(super) struct Least<'a, K, const FLOAT: bool> {
    /// Values past the end or null must be the greatest value in the order.
    pub source: &'a dyn Source<K>,
    pub order: Order<K>,
    pub pieces: Pieces,
    pub out: &'a mut Vec<K>,
}

impl<K: Key, const FLOAT: bool> Kernel for Least<'_, K, FLOAT> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Pieces { at, every, len, count } = self.pieces;
        let map = Map::<K::Vector, FLOAT>::new(self.order);
        let lanes = <K::Vector as Lanes>::LEN;
        let mut scratch = Vec::new();
        if every > TILE {
            for piece in 0..count {
                let mut least = K::Vector::splat(K::MAX);
                for start in (0..len).step_by(TILE) {
                    let len = TILE.min(len - start);
                    let bits = self.source.tile(at + piece * every + start, len + lanes, &mut scratch);
                    least = least.lesser(lowest(map, bits, len));
                }
                self.out.push(least.least());
            }
            return;
        }
        // One more vector, so that the last piece can be read past its end.
        let bits = self.source.tile(at, (count - 1) * every + len + lanes, &mut scratch);
        for piece in 0..count {
            self.out.push(lowest(map, &bits[piece * every..], len).least());
        }
    }
}

/// The lane-wise least of the first `len` values; at least one more vector must be readable.
#[inline(always)]
fn lowest<V: Lanes, const FLOAT: bool>(map: Map<V, FLOAT>, bits: &[V::Key], len: usize) -> V {
    let greatest = V::splat(V::Key::MAX);
    let mut least = [greatest; 4];
    let mut blocks = bits[..len].chunks_exact(4 * V::LEN);
    for block in &mut blocks {
        for (least, bits) in least.iter_mut().zip(block.chunks_exact(V::LEN)) {
            *least = least.lesser(map.load(bits));
        }
    }
    let [a, b, c, d] = least;
    let mut least = a.lesser(b).lesser(c.lesser(d));
    let mut i = len - blocks.remainder().len();
    while i < len {
        let left = (len - i).min(V::LEN);
        let bits = map.load(&bits[i..]);
        least = least.lesser(bits.select(u64::MAX >> (64 - left), greatest));
        i += V::LEN;
    }
    least
}

/// The states of pieces.
pub(super) struct States<'a, O> {
    pub op: O,
    /// 0 past the end and for nulls.
    pub source: &'a dyn Source<f64>,
    pub pieces: Pieces,
    pub out: &'a mut Vec<[f64; 2]>,
}

impl<O: Op> Kernel for States<'_, O> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Pieces { at, every, len, count } = self.pieces;
        let nothing = [Row::splat(0.0); 2];
        let mut scratch = Vec::new();
        if every > TILE {
            for piece in 0..count {
                let mut state = nothing;
                for start in (0..len).step_by(TILE) {
                    let len = TILE.min(len - start);
                    let values = self.source.tile(at + piece * every + start, len, &mut scratch);
                    state = self.op.join(state, total(self.op, values));
                }
                self.out.push(join_later(self.op, state).map(|half| half[0]));
            }
            return;
        }
        let values = self.source.tile(at, (count - 1) * every + len, &mut scratch);
        for piece in 0..count {
            let state = total(self.op, &values[piece * every..][..len]);
            self.out.push(join_later(self.op, state).map(|half| half[0]));
        }
    }
}

/// Each lane's state of every eighth of the values.
#[inline(always)]
fn total<O: Op>(op: O, values: &[f64]) -> State {
    let nothing = [Row::splat(0.0); 2];
    let mut states = [nothing; 2];
    let mut pairs = values.chunks_exact(2 * LANES);
    for pair in &mut pairs {
        states[0] = op.step(states[0], Row::from_slice(&pair[..LANES]));
        states[1] = op.step(states[1], Row::from_slice(&pair[LANES..]));
    }
    let mut rows = pairs.remainder().chunks_exact(LANES);
    for row in &mut rows {
        states[0] = op.step(states[0], Row::from_slice(row));
    }
    let mut last = [0.0; LANES];
    let rest = rows.remainder();
    if !rest.is_empty() {
        last[..rest.len()].copy_from_slice(rest);
        states[1] = op.step(states[1], Row::from_array(last));
    }
    op.join(states[0], states[1])
}
