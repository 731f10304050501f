//! Positions of minima and maxima of sliding windows.
//!
//! | | |
//! |---|---|
//! | needs | a total order |
//! | time | up to 32 bits: a minimum of 64-bit keys; 64 bits: a minimum and one walk along the column |
//! | space | a tile of keys |
//! | first appeared | here; the walk is the monotone pointer of sliding minima |
//!
//! Values of up to 32 bits are packed with their positions, value above position, so that the least key is the first of
//! the least values. For 64-bit values the minimum of each window is computed, and a pointer walks to the first value
//! that equals it. The first of the least values never moves back as the window slides, so all steps together are one
//! walk; what the pointer has passed is greater than the minimum or has left the window.

use super::counts::ones;
use super::element::Order;
use super::extrema::Extrema;
use super::lanes::Key;
use super::level::{Kernel, dispatch};
use super::pieces::windows_of_pieces;
use super::reduce::Least;
use super::sliding::{FEW, skip_after};
use super::stream::{Sink, Source, prefetch};
use super::{Column, Element, window_count};
use std::mem::MaybeUninit;

/// The position in the column of the first of the least values of each window, appended to `out`; `u64::MAX` for a
/// window without values.
pub fn sliding_arg_min<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<u64>) {
    positions(column, size, slide, Order::least::<T>(), out);
}

/// The position in the column of the first of the greatest values of each window, as [`sliding_arg_min`].
pub fn sliding_arg_max<T: Element>(column: Column<'_, T>, size: usize, slide: usize, out: &mut Vec<u64>) {
    positions(column, size, slide, Order::greatest::<T>(), out);
}

/// No position.
const NONE: u64 = u64::MAX;

fn positions<T: Element>(
    column: Column<'_, T>,
    size: usize,
    slide: usize,
    order: Order<T::Key>,
    out: &mut Vec<u64>,
) {
    let windows = window_count(column.len(), size, slide);
    if windows == 0 {
        return;
    }
    super::pages::reserve(out, windows);
    let packed = size_of::<T>() <= 4 && column.len() < u32::MAX as usize;
    let source = Keys { column, order, packed };
    // Keys are in order as they are.
    let as_is = Order { flip: 0, nans: 0 };
    if slide > FEW {
        let mut least = Vec::new();
        let pairs = windows_of_pieces(
            size,
            slide,
            windows,
            (i64::MAX, NONE),
            |a, b| if b.0 < a.0 || a.1 == NONE { b } else { a },
            |pieces, out| {
                least.clear();
                dispatch(Least::<_, false> { source: &source, order: as_is, pieces, out: &mut least });
                for (piece, &key) in least.iter().enumerate() {
                    let start = pieces.at + piece * pieces.every;
                    out.push((key, source.position(key, start, start + pieces.len)));
                }
            },
        );
        out.extend(pairs.into_iter().map(|(_, position)| position));
        return;
    }
    let mut sink = Positions {
        source: &source,
        size,
        slide,
        skip: 0,
        next: 0,
        at: 0,
        keys: Vec::new(),
        keys_at: usize::MAX,
        out,
        room: Vec::new(),
    };
    let windows = (windows - 1) * slide + 1;
    dispatch(Extrema::<_, false> { source: &source, order: as_is, size, windows, sink: &mut sink });
}

/// Values as keys in the requested order, with their positions below them if they are packed; the greatest key for
/// nulls and past the end.
struct Keys<'a, T: Element> {
    column: Column<'a, T>,
    order: Order<T::Key>,
    packed: bool,
}

impl<T: Element> Keys<'_, T> {
    #[inline(always)]
    fn key(&self, i: usize) -> i64 {
        let Order { flip, nans } = self.order;
        let key = self.column.values[i].key().ordered(T::FLOAT, flip, nans).into();
        if self.packed { key << 32 | i as i64 } else { key }
    }

    #[inline(always)]
    fn is_valid(&self, i: usize) -> bool {
        self.column.validity.is_none_or(|validity| validity.get(i))
    }

    /// The position of the first valid value in `start..end` with this key, which is their least.
    fn position(&self, key: i64, start: usize, end: usize) -> u64 {
        if self.packed {
            return unpacked(key);
        }
        let first = (start..end).find(|&i| self.key(i) == key && self.is_valid(i));
        first.map_or(NONE, |i| i as u64)
    }
}

/// The position in a packed key. The greatest key is no value's: there are fewer positions.
#[inline(always)]
fn unpacked(key: i64) -> u64 {
    if key == i64::MAX { NONE } else { key as u64 & 0xFFFF_FFFF }
}

impl<T: Element> Source<i64> for Keys<'_, T> {
    fn tile<'s>(&'s self, start: usize, len: usize, scratch: &'s mut Vec<i64>) -> &'s [i64] {
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let scratch = &mut scratch[..len];
        let inside = self.column.len().saturating_sub(start).min(len);
        let (there, beyond) = scratch.split_at_mut(inside);
        beyond.fill(i64::MAX);
        if inside > 0 {
            dispatch(MakeKeys { keys: self, start, into: there });
        }
        scratch
    }

    fn expect(&self, start: usize, len: usize) {
        let start = start.min(self.column.len());
        prefetch(&self.column.values[start..self.column.len().min(start + len)]);
    }
}

struct MakeKeys<'k, 'a, T: Element> {
    keys: &'k Keys<'a, T>,
    start: usize,
    into: &'k mut [i64],
}

impl<T: Element> Kernel for MakeKeys<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Keys { column, order: Order { flip, nans }, packed } = *self.keys;
        let values = &column.values[self.start..][..self.into.len()];
        if packed {
            for (i, (slot, value)) in self.into.iter_mut().zip(values).enumerate() {
                let key: i64 = value.key().ordered(T::FLOAT, flip, nans).into();
                *slot = key << 32 | (self.start + i) as i64;
            }
        } else {
            for (slot, value) in self.into.iter_mut().zip(values) {
                *slot = value.key().ordered(T::FLOAT, flip, nans).into();
            }
        }
        if let Some(validity) = column.validity {
            for (i, slots) in self.into.chunks_mut(64).enumerate() {
                let word = validity.word(self.start + i * 64);
                for (bit, slot) in slots.iter_mut().enumerate() {
                    *slot = if word >> bit & 1 == 1 { *slot } else { i64::MAX };
                }
            }
        }
    }
}

/// Receives least keys and turns them into positions.
struct Positions<'k, 'a, T: Element> {
    source: &'k Keys<'a, T>,
    size: usize,
    slide: usize,
    /// Windows of slide 1 before the next one to be answered.
    skip: usize,
    /// The next window of slide 1.
    next: usize,
    /// Where the walk has arrived.
    at: usize,
    /// Keys from where the walk was when they were computed.
    keys: Vec<i64>,
    keys_at: usize,
    out: &'k mut Vec<u64>,
    room: Vec<i64>,
}

impl<T: Element> Sink<i64> for Positions<'_, '_, T> {
    fn room(&mut self, len: usize) -> &mut [MaybeUninit<i64>] {
        self.room.clear();
        self.room.reserve(len);
        self.room.spare_capacity_mut()
    }

    unsafe fn commit(&mut self, windows: usize) {
        // SAFETY: the caller has written that many keys of the capacity after the empty vector.
        unsafe { self.room.set_len(windows) };
        if self.source.packed && self.slide == 1 {
            let start = self.out.len();
            self.out.resize(start + windows, 0);
            dispatch(Unpack { keys: &self.room, out: &mut self.out[start..] });
            return;
        }
        if self.slide == 1 {
            let mut i = 0;
            while i < windows {
                let position = self.walk(i);
                // The position stays the same as long as the minimum does and the window still contains it.
                let run = if position == NONE {
                    1
                } else {
                    let last = windows.min(position as usize - self.next + 1);
                    self.room[i..last].iter().take_while(|&&key| key == self.room[i]).count()
                };
                self.out.resize(self.out.len() + run, position);
                i += run;
            }
            self.next += windows;
            return;
        }
        for i in (self.skip..windows).step_by(self.slide) {
            let position = if self.source.packed { unpacked(self.room[i]) } else { self.walk(i) };
            self.out.push(position);
        }
        self.skip = skip_after(self.skip, windows, self.slide);
        self.next += windows;
    }
}

impl<T: Element> Positions<'_, '_, T> {
    /// The position of the least key of window `i` of the tile.
    #[inline]
    fn walk(&mut self, i: usize) -> u64 {
        let (key, start) = (self.room[i], self.next + i);
        let end = start + self.size;
        let mut at = self.at.max(start);
        while at < end {
            // Another tile of keys if this is past the last one, or before the first.
            let i = at.wrapping_sub(self.keys_at);
            let Some(keys) = self.keys.get(i..).filter(|keys| !keys.is_empty()) else {
                self.source.tile(at, WALK, &mut self.keys);
                self.keys_at = at;
                continue;
            };
            let keys = &keys[..keys.len().min(end - at)];
            let Some(steps) = keys.iter().position(|&here| here == key) else {
                at += keys.len();
                continue;
            };
            at += steps;
            // The greatest key may be a null's.
            if key < i64::MAX || self.source.is_valid(at) {
                self.at = at;
                return at as u64;
            }
            at += 1;
        }
        self.at = at;
        NONE
    }
}

/// Keys that are computed at once for the walk.
const WALK: usize = 256;

struct Unpack<'a> {
    keys: &'a [i64],
    out: &'a mut [u64],
}

impl Kernel for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (slot, &key) in self.out.iter_mut().zip(self.keys) {
            *slot = unpacked(key);
        }
    }
}

impl<T> Column<'_, T> {
    /// Whether there is a valid value.
    pub(super) fn has_values(&self) -> bool {
        match self.validity {
            None => !self.is_empty(),
            Some(validity) => ones(validity, 0, self.len()) > 0,
        }
    }
}
