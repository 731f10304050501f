//! Sums and moments of sliding windows at slide 1: an aligned flip in eight lanes that lie far apart.
//!
//! | | |
//! |---|---|
//! | needs | an associative `join` of two `f64` states; no inverse |
//! | time | two steps and one join per value, eight at once; three transposes of a row each |
//! | space | two `f64` per row of a tile; eight states per tile of the window |
//! | first appeared | the flip: see `two_stacks`; sums: Knuth, *The Art of Computer Programming 2*, §4.2.2 (TwoSum); Ogita, Rump, Oishi, *Accurate sum and dot product*, 2005 (Sum2) |
//!
//! A scan within a vector would need `log2(lanes)` steps of a costly state. So each lane scans its own `rows` values, and
//! lane `j` starts `j * rows` values on: tiles are read and written through 8 by 8 transposes, and all else is lane-wise.
//! Windows that start in a tile are its suffix and, with the window's size between the two, a prefix of another tile.
//!
//! - Windows up to [`LONG`] values: a tile is eight blocks of one window's size, a lane a block. The window that starts
//!   in row `i` of lane `j` is the suffix of block `j` and `i` values of block `j + 1`, whatever the other lanes hold.
//! - Longer windows: a block is cut in tiles, a tile in lanes. A lane starts with the total of what lies between: the
//!   lanes and tiles behind it in its block, and those before it in the next.
//!
//! No state is ever subtracted from another, so nothing outside a window can affect it, and errors do not accumulate
//! along the column. Eight lanes at every level: sums associate alike on every machine.

use super::level::Kernel;
use super::stream::{Source, ahead};
use std::mem::MaybeUninit;
use std::simd::prelude::*;
use std::simd::{Select, Swizzle};

/// Lanes of a row.
pub(super) const LANES: usize = 8;
/// Up to this size a window is a lane's block.
pub(super) const LONG: usize = 1024;
/// Rows of a tile of a longer window, at least.
const ROWS: usize = 64;

/// Eight values of one row.
pub(super) type Row = Simd<f64, LANES>;

/// A state: what a lane knows of the values it has seen.
pub(super) type State = [Row; 2];

/// What is computed of windows: a monoid over [`State`] whose identity is zero.
pub(super) trait Op: Copy {
    /// Answers of one window.
    const ANSWERS: usize;
    /// Whether values are taken relative to one that all windows of a lane have in common.
    const RELATIVE: bool;
    /// The state with one more value.
    fn step(self, state: State, value: Row) -> State;
    /// The state of what both have seen.
    fn join(self, a: State, b: State) -> State;
    /// The answers, of which the first [`Self::ANSWERS`] count.
    fn finish(self, state: State) -> State;
}

/// A sum whose rounding errors are added up separately.
///
/// The state's second half is the sum of the errors of all additions of the first, each exact (TwoSum), added plainly.
/// The answer is off by at most `u |sum| + (n u)² Σ|x|` with `u = 2⁻⁵³` (Ogita, Rump, Oishi 2005, Prop. 4.5, which does
/// not depend on the order of additions); Kahan's sum by `2u Σ|x| + O(n u²) Σ|x|`.
///
/// The first half alone is the plain sum, with its infinities and NaN; an error of an infinite sum is NaN, and then the
/// first half is the answer.
#[derive(Clone, Copy)]
pub(super) struct Sum;

impl Op for Sum {
    const ANSWERS: usize = 1;
    const RELATIVE: bool = false;

    #[inline(always)]
    fn step(self, [sum, rest]: State, value: Row) -> State {
        let (sum, error) = two_sum(sum, value);
        [sum, rest + error]
    }

    #[inline(always)]
    fn join(self, a: State, b: State) -> State {
        let (sum, error) = two_sum(a[0], b[0]);
        [sum, error + (a[1] + b[1])]
    }

    #[inline(always)]
    fn finish(self, [sum, rest]: State) -> State {
        let total = sum + rest;
        [total.is_nan().select(sum, total), rest]
    }
}

/// Sums of deviations from a value of the window, and of their squares.
///
/// With `K` in the window, `n (K - mean)² <= n M2`, so that `M2 = S2 - S1² / n` loses no more than a factor of `n + 1` to
/// cancellation however far from 0 the values lie, and next to nothing unless `K` is far out among them.
#[derive(Clone, Copy)]
pub(super) struct Squares;

impl Op for Squares {
    const ANSWERS: usize = 2;
    const RELATIVE: bool = true;

    #[inline(always)]
    fn step(self, [sum, squares]: State, value: Row) -> State {
        [sum + value, squares + value * value]
    }

    #[inline(always)]
    fn join(self, a: State, b: State) -> State {
        [a[0] + b[0], a[1] + b[1]]
    }

    #[inline(always)]
    fn finish(self, state: State) -> State {
        state
    }
}

/// The rounded sum and its rounding error, exactly, whichever is larger (Knuth).
#[inline(always)]
pub(super) fn two_sum(a: Row, b: Row) -> (Row, Row) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Eight rows as eight columns. The first exchange is between neighbouring values, the last between halves, which costs
/// nothing where a row is two registers or more.
#[inline(always)]
fn transpose(rows: [Row; LANES]) -> [Row; LANES] {
    macro_rules! pick {
        ($name:ident, $index:expr) => {
            struct $name;
            impl Swizzle<8> for $name {
                const INDEX: [usize; 8] = $index;
            }
        };
    }
    pick!(Low1, [0, 8, 2, 10, 4, 12, 6, 14]);
    pick!(High1, [1, 9, 3, 11, 5, 13, 7, 15]);
    pick!(Low2, [0, 1, 8, 9, 4, 5, 12, 13]);
    pick!(High2, [2, 3, 10, 11, 6, 7, 14, 15]);
    pick!(Low4, [0, 1, 2, 3, 8, 9, 10, 11]);
    pick!(High4, [4, 5, 6, 7, 12, 13, 14, 15]);
    let [a, b, c, d, e, f, g, h] = rows;
    let (a, b) = (Low1::concat_swizzle(a, b), High1::concat_swizzle(a, b));
    let (c, d) = (Low1::concat_swizzle(c, d), High1::concat_swizzle(c, d));
    let (e, f) = (Low1::concat_swizzle(e, f), High1::concat_swizzle(e, f));
    let (g, h) = (Low1::concat_swizzle(g, h), High1::concat_swizzle(g, h));
    let (a, c) = (Low2::concat_swizzle(a, c), High2::concat_swizzle(a, c));
    let (b, d) = (Low2::concat_swizzle(b, d), High2::concat_swizzle(b, d));
    let (e, g) = (Low2::concat_swizzle(e, g), High2::concat_swizzle(e, g));
    let (f, h) = (Low2::concat_swizzle(f, h), High2::concat_swizzle(f, h));
    let (a, e) = (Low4::concat_swizzle(a, e), High4::concat_swizzle(a, e));
    let (b, f) = (Low4::concat_swizzle(b, f), High4::concat_swizzle(b, f));
    let (c, g) = (Low4::concat_swizzle(c, g), High4::concat_swizzle(c, g));
    let (d, h) = (Low4::concat_swizzle(d, h), High4::concat_swizzle(d, h));
    [a, b, c, d, e, f, g, h]
}

/// Rows `first..first + 8` of a tile whose lanes are `stride` apart.
#[inline(always)]
fn load(tile: &[f64], stride: usize, first: usize) -> [Row; LANES] {
    let mut lanes = [Row::splat(0.0); LANES];
    for (j, lane) in lanes.iter_mut().enumerate() {
        *lane = Row::from_slice(&tile[j * stride + first..]);
    }
    transpose(lanes)
}

/// The inverse of [`load`]. Lanes are written in order, so that what a lane of fewer rows writes too far is
/// written over by the next lane, and by rows before it, which come later.
#[inline(always)]
fn store(rows: [Row; LANES], room: &mut [MaybeUninit<f64>], stride: usize, first: usize) {
    for (j, lane) in transpose(rows).into_iter().enumerate() {
        ahead(room, (LANES + j) * stride + first);
        let room = &mut room[j * stride + first..][..LANES];
        // SAFETY: `room` is eight values long, and a row is eight values without padding; no alignment is required.
        unsafe { room.as_mut_ptr().cast::<Row>().write_unaligned(lane) }
    }
}

/// Values of a tile whose lanes are `stride` apart, as they go into states.
#[derive(Clone, Copy)]
struct Tile<'t> {
    values: &'t [f64],
    /// 1 for valid values, 0 for nulls, if there are any.
    weights: Option<&'t [f64]>,
    stride: usize,
    reference: Row,
    /// Where the next tile will be, or 0 if that has been read before.
    next: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn load<O: Op, const NULLS: bool>(&self, first: usize) -> [Row; LANES] {
        if self.next > 0 {
            for j in 0..LANES {
                ahead(self.values, self.next + j * self.stride + first);
            }
        }
        let mut values = load(self.values, self.stride, first);
        if O::RELATIVE {
            for value in &mut values {
                *value -= self.reference;
            }
        }
        if NULLS && let Some(weights) = self.weights {
            let weights = load(weights, self.stride, first);
            for (value, weight) in values.iter_mut().zip(weights) {
                *value *= weight;
            }
        }
        values
    }
}

/// The tile's exclusive prefix states, row by row; returns each lane's total.
#[inline(always)]
fn scan_forward<O: Op, const NULLS: bool>(op: O, tile: Tile<'_>, prefix: &mut [State]) -> State {
    let mut state = [Row::splat(0.0); 2];
    let mut first = 0;
    let mut chunks = prefix.chunks_exact_mut(LANES);
    for chunk in &mut chunks {
        let values = tile.load::<O, NULLS>(first);
        for i in 0..LANES {
            chunk[i] = state;
            state = op.step(state, values[i]);
        }
        first += LANES;
    }
    let last = chunks.into_remainder();
    if !last.is_empty() {
        let values = tile.load::<O, NULLS>(first);
        for (i, slot) in last.iter_mut().enumerate() {
            *slot = state;
            state = op.step(state, values[i]);
        }
    }
    state
}

/// Suffix states from the tile's end on, beyond which lies `state`; each joined with its prefix and answered.
#[inline(always)]
fn scan_back<O: Op, const NULLS: bool>(
    op: O,
    tile: Tile<'_>,
    prefix: &[State],
    mut state: State,
    rooms: &mut [&mut [MaybeUninit<f64>]; 2],
) {
    let mut answers = [[Row::splat(0.0); LANES]; 2];
    let chunks = prefix.chunks_exact(LANES);
    let mut first = prefix.len() / LANES * LANES;
    let last = chunks.remainder();
    if !last.is_empty() {
        let values = tile.load::<O, NULLS>(first);
        for i in (0..last.len()).rev() {
            state = op.step(state, values[i]);
            let answer = op.finish(op.join(state, last[i]));
            (answers[0][i], answers[1][i]) = (answer[0], answer[1]);
        }
        for k in 0..O::ANSWERS {
            store(answers[k], rooms[k], tile.stride, first);
        }
    }
    for chunk in chunks.rev() {
        first -= LANES;
        let values = tile.load::<O, NULLS>(first);
        for i in (0..LANES).rev() {
            state = op.step(state, values[i]);
            let answer = op.finish(op.join(state, chunk[i]));
            (answers[0][i], answers[1][i]) = (answer[0], answer[1]);
        }
        for k in 0..O::ANSWERS {
            store(answers[k], rooms[k], tile.stride, first);
        }
    }
}

/// Lane `i` is lane `i + K`, and 0 past the end.
struct Down<const K: usize>;

impl<const K: usize> Swizzle<LANES> for Down<K> {
    const INDEX: [usize; LANES] = {
        let mut index = [0; LANES];
        let mut i = 0;
        while i < LANES {
            index[i] = i + K;
            i += 1;
        }
        index
    };
}

/// Each lane's state joined with those of all lanes after it.
#[inline(always)]
pub(super) fn join_later<O: Op>(op: O, mut state: State) -> State {
    macro_rules! step {
        ($k:literal) => {
            let later = state.map(|half| Down::<$k>::concat_swizzle(half, Row::splat(0.0)));
            state = op.join(state, later);
        };
    }
    step!(1);
    step!(2);
    step!(4);
    state
}

/// The states of what lies after each lane, and of all lanes, which lie before `after`, with it.
#[inline(always)]
fn lanes_after<O: Op>(op: O, lanes: State, after: State) -> (State, State) {
    let inclusive = join_later(op, lanes);
    let exclusive = inclusive.map(|half| Down::<1>::concat_swizzle(half, Row::splat(0.0)));
    (op.join(exclusive, after), op.join(inclusive.map(|half| Row::splat(half[0])), after))
}

/// As [`lanes_after`], the other way.
#[inline(always)]
fn lanes_before<O: Op>(op: O, lanes: State, before: State) -> (State, State) {
    let (lanes, total) = lanes_after(op, lanes.map(|half| half.reverse()), before);
    (lanes.map(|half| half.reverse()), total)
}

/// The destination of the answers of a tile.
pub(super) trait Rooms {
    /// Room for `len` values of each answer, at least.
    fn rooms(&mut self, len: usize) -> [&mut [MaybeUninit<f64>]; 2];
    /// Takes the answers of the `windows` windows from number `start` on.
    ///
    /// # Safety
    /// As many values of each answer have been written.
    unsafe fn commit(&mut self, start: usize, windows: usize);
}

/// Sums or moments at slide 1.
pub(super) struct Slide<'a, O> {
    pub op: O,
    /// 0 past the end and for nulls.
    pub source: &'a dyn Source<f64>,
    /// 1 for valid values, 0 for nulls, if there are any and the identity of the values is not enough.
    pub weights: Option<&'a dyn Source<f64>>,
    /// Where to find what the values of the block of `size` from a position on are taken relative to.
    pub reference: &'a dyn Fn(usize) -> f64,
    pub size: usize,
    pub windows: usize,
    pub rooms: &'a mut dyn Rooms,
}

impl<O: Op> Kernel for Slide<'_, O> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        match (self.is_short(), self.weights.is_some() && O::RELATIVE) {
            (true, false) => self.short::<false>(),
            (false, false) => self.long::<false>(),
            (true, true) => self.short::<true>(),
            (false, true) => self.long::<true>(),
        }
    }
}

impl<O: Op> Slide<'_, O> {
    /// Few windows would leave lanes without a block.
    fn is_short(&self) -> bool {
        self.size <= LONG && (self.size < ROWS || self.windows >= 4 * self.size)
    }

    /// A block a lane.
    #[inline(always)]
    fn short<const NULLS: bool>(self) {
        let Self { op, source, weights, reference, size, windows, rooms } = self;
        let mut scratch = (Vec::new(), Vec::new());
        let mut prefix = vec![[Row::splat(0.0); 2]; size];
        let tile = LANES * size;
        let mut start = 0;
        while start < windows {
            // A lane's last rows are read in eights, past its end.
            let len = tile + size + LANES;
            let mut front = Tile {
                values: source.tile(start, len, &mut scratch.0),
                weights: if NULLS { weights.map(|w| w.tile(start, len, &mut scratch.1)) } else { None },
                stride: size,
                reference: Row::splat(0.0),
                next: 0,
            };
            if O::RELATIVE {
                let blocks = std::array::from_fn(|j| start + j * size);
                front.reference = Row::from_array(blocks.map(reference));
            }
            let back = Tile {
                values: &front.values[size..],
                weights: front.weights.map(|w| &w[size..]),
                next: tile,
                ..front
            };
            scan_forward::<O, NULLS>(op, back, &mut prefix);
            let mut room = rooms.rooms(tile + LANES);
            scan_back::<O, NULLS>(op, front, &prefix, [Row::splat(0.0); 2], &mut room);
            // SAFETY: every row of every lane has been written.
            unsafe { rooms.commit(start, tile.min(windows - start)) };
            start += tile;
        }
    }

    /// Blocks of many tiles.
    #[inline(always)]
    fn long<const NULLS: bool>(self) {
        let Self { op, source, weights, reference, size, windows, rooms } = self;
        let nothing = [Row::splat(0.0); 2];
        let mut scratch = [const { Vec::new() }; 4];
        let [front_values, front_weights, back_values, back_weights] = &mut scratch;
        // As many rows as leave the last tile as full as can be, and full eights of them.
        let rows = size.div_ceil(LANES * (size / (LANES * ROWS)).max(1)).next_multiple_of(LANES);
        let tile = LANES * rows;
        let mut prefix = vec![nothing; rows];
        // For each tile of the block, the states of its lanes.
        let mut totals = vec![nothing; size.div_ceil(tile)];
        let mut afters = totals.clone();
        let mut start = 0;
        while start < windows {
            // Padded lanes continue with values that have no effect.
            let nil = if O::RELATIVE { reference(start) } else { 0.0 };
            let reference = Row::splat(nil);
            if start == 0 || O::RELATIVE {
                for (i, total) in totals.iter_mut().enumerate() {
                    let len = tile.min(size - i * tile);
                    let front = Tile {
                        values: padded(source, start + i * tile, len, tile, nil, front_values),
                        weights: weights.map(|w| padded(w, start + i * tile, len, tile, 0.0, front_weights)),
                        stride: rows,
                        reference,
                        next: tile,
                    };
                    *total = scan_forward::<O, NULLS>(op, front, &mut prefix);
                }
            }
            let mut after = nothing;
            for (slot, &total) in afters.iter_mut().zip(&totals).rev() {
                (*slot, after) = lanes_after(op, total, after);
            }
            let mut before = nothing;
            for (i, (total, &after)) in totals.iter_mut().zip(&afters).enumerate() {
                let at = start + i * tile;
                if at >= windows {
                    break;
                }
                let len = tile.min(size - i * tile);
                let front = Tile {
                    values: padded(source, at, len, tile, nil, front_values),
                    weights: weights.map(|w| padded(w, at, len, tile, 0.0, front_weights)),
                    stride: rows,
                    reference,
                    next: tile,
                };
                let back = Tile {
                    values: padded(source, at + size, len, tile, nil, back_values),
                    weights: weights.map(|w| padded(w, at + size, len, tile, 0.0, back_weights)),
                    ..front
                };
                *total = scan_forward::<O, NULLS>(op, back, &mut prefix);
                let lanes;
                (lanes, before) = lanes_before(op, *total, before);
                let mut room = rooms.rooms(tile);
                scan_back::<O, NULLS>(op, front, &prefix, op.join(lanes, after), &mut room);
                // SAFETY: every row of every lane has been written.
                unsafe { rooms.commit(at, len.min(windows - at)) };
            }
            start += size;
        }
    }
}

/// The `len` values from `start` on, and `nil` up to `tile`.
#[inline(always)]
fn padded<'s>(
    source: &'s dyn Source<f64>,
    start: usize,
    len: usize,
    tile: usize,
    nil: f64,
    scratch: &'s mut Vec<f64>,
) -> &'s [f64] {
    if len == tile {
        return source.tile(start, tile, scratch);
    }
    let mut own = Vec::new();
    let values = source.tile(start, len, &mut own);
    scratch.clear();
    scratch.extend_from_slice(values);
    scratch.resize(tile, nil);
    scratch
}
