//! How many values each window has, and which windows have enough.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};

use super::dense::ranks;
use super::{Frames, Rolling, Segments};
use crate::simd::{self, Validity};

/// The number of values of each window.
pub(super) fn counts(frames: &Frames, nulls: Option<&NullBuffer>) -> Vec<i64> {
    match (frames, nulls) {
        (Frames::Rolling(rolling, segments), None) => {
            let mut counts =
                simd::room(segments.iter().map(|(from, to)| rolling.count(to - from) as usize).sum());
            for (from, to) in segments.iter() {
                let (before, full, after) = rolling.parts(to - from);
                let length = |window| rolling.length(to - from, window) as i64;
                counts.extend((0..before).map(length));
                counts.resize(counts.len() + full, rolling.size());
                counts.extend((before + full..before + full + after).map(length));
            }
            counts
        }
        (Frames::Rolling(rolling, segments), Some(nulls)) if are_padded(rolling, segments) => {
            let mut counts = Vec::new();
            for (from, to) in segments.iter() {
                let padded = Padded::new(rolling, nulls, from, to);
                let (size, slide) = (rolling.size() as usize, rolling.slide() as usize);
                simd::sliding_valid_count(padded.bits(), padded.len, size, slide, &mut counts);
            }
            counts
        }
        _ => {
            let ranks = nulls.map(ranks);
            frames.iter(ranks.as_deref()).map(|(lo, hi)| (hi - lo) as i64).collect()
        }
    }
}

/// Which windows have at least `least` values; `None` if all do.
pub(super) fn validity(frames: &Frames, nulls: Option<&NullBuffer>, least: u64) -> Option<NullBuffer> {
    if least == 0 || nulls.is_none() && least == 1 && matches!(frames, Frames::Rolling(..)) {
        // Every window of a number of rows holds a row.
        return None;
    }
    match (frames, nulls) {
        (Frames::Rolling(rolling, segments), None) => by_length(rolling, segments, least),
        (Frames::Rolling(rolling, segments), Some(nulls)) if are_padded(rolling, segments) => {
            by_bits(rolling, segments, nulls, usize::try_from(least).unwrap_or(usize::MAX))
        }
        (_, nulls) => by_ranges(frames, nulls.map(ranks).as_deref(), least),
    }
}

/// Without nulls a window's number of values is its length: among those that extend over the start it increases, among
/// those that extend over the end it decreases.
fn by_length(rolling: &Rolling, segments: &Segments, least: u64) -> Option<NullBuffer> {
    if rolling.is_full() && least <= rolling.size() as u64 {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(0);
    for (from, to) in segments.iter() {
        let (before, full, after) = rolling.parts(to - from);
        let enough = |window| rolling.length(to - from, window) as u64 >= least;
        let few = partition_point(0..before, |window| !enough(window));
        bits.append_n(few, false);
        bits.append_n(before - few, true);
        bits.append_n(full, rolling.size() as u64 >= least);
        let many = partition_point(before + full..before + full + after, enough);
        bits.append_n(many, true);
        bits.append_n(after - many, false);
    }
    let nulls = NullBuffer::new(bits.finish());
    (nulls.null_count() > 0).then_some(nulls)
}

/// How many numbers of a range come before the first for which `is_before` does not hold.
fn partition_point(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low - range.start
}

/// Counts in the bitmap, group by group.
fn by_bits(rolling: &Rolling, segments: &Segments, nulls: &NullBuffer, least: usize) -> Option<NullBuffer> {
    let (mut bits, mut bytes, mut missing) = (BooleanBufferBuilder::new(0), Vec::new(), 0);
    let (size, slide) = (rolling.size() as usize, rolling.slide() as usize);
    for (from, to) in segments.iter() {
        let padded = Padded::new(rolling, nulls, from, to);
        let windows = rolling.count(to - from) as usize;
        bytes.clear();
        missing += simd::sliding_validity(padded.bits(), padded.len, size, slide, least, &mut bytes);
        if segments.len() == 1 {
            let bits = BooleanBuffer::new(std::mem::take(&mut bytes).into(), 0, windows);
            return (missing > 0).then(|| NullBuffer::new(bits));
        }
        bits.append_packed_range(0..windows, &bytes);
    }
    (missing > 0).then(|| NullBuffer::new(bits.finish()))
}

/// The validity of a group, with nulls before and after it so that all of its windows are full.
struct Padded {
    nulls: BooleanBuffer,
    len: usize,
}

impl Padded {
    fn new(rolling: &Rolling, nulls: &NullBuffer, from: usize, to: usize) -> Self {
        let rows = nulls.inner().slice(from, to - from);
        let windows = rolling.count(to - from) as usize;
        let (before, len) = rolling.reach(to - from);
        if windows == 0 || (before == 0 && len <= to - from) {
            return Self { nulls: rows, len: if windows == 0 { 0 } else { len } };
        }
        let mut padded = BooleanBufferBuilder::new(len.max(before + rows.len()));
        padded.append_n(before, false);
        padded.append_buffer(&rows);
        padded.append_n(len.saturating_sub(padded.len()), false);
        Self { nulls: padded.finish(), len }
    }

    fn bits(&self) -> Validity<'_> {
        Validity::new(self.nulls.values(), self.nulls.offset())
    }
}

/// Whether groups are long enough for a call each, and little longer once padded for windows that extend over their
/// ends.
fn are_padded(rolling: &Rolling, segments: &Segments) -> bool {
    let is_near = |(from, to): (usize, usize)| {
        let windows = rolling.count(to - from);
        windows == 0 || rolling.reach(to - from).1 as u64 <= 8 * ((to - from) as u64 + windows)
    };
    (segments.len() == 1 || segments.rows() >= LONG * segments.len()) && segments.iter().all(is_near)
}

/// Rows per group from which the bitmap is read for each.
const LONG: usize = 512;

fn by_ranges(frames: &Frames, ranks: Option<&[u32]>, least: u64) -> Option<NullBuffer> {
    let ranges = frames.iter(ranks);
    let mut bits = BooleanBufferBuilder::new(0);
    // 64 at a time: appending each to a builder would take longer than all the rest.
    let mut word = (0u64, 0);
    for (lo, hi) in ranges {
        word.0 |= u64::from((hi - lo) as u64 >= least) << word.1;
        word.1 += 1;
        if word.1 == 64 {
            bits.append_packed_range(0..64, &word.0.to_le_bytes());
            word = (0, 0);
        }
    }
    bits.append_packed_range(0..word.1, &word.0.to_le_bytes());
    let nulls = NullBuffer::new(bits.finish());
    (nulls.null_count() > 0).then_some(nulls)
}
