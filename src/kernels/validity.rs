//! How many values each window has, and which windows have enough.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};

use super::Frames;
use super::dense::ranks;
use super::simd::{self, Validity};

/// The number of values of each window.
pub(super) fn counts(frames: &Frames, nulls: Option<&NullBuffer>) -> Vec<i64> {
    if let (Frames::Rolling(rolling, segments), Some(nulls)) = (frames, nulls)
        && rolling.is_full()
        && segments.len() == 1
    {
        let mut counts = Vec::new();
        let bits = Validity::new(nulls.validity(), nulls.offset());
        simd::sliding_valid_count(
            bits,
            nulls.len(),
            rolling.size() as usize,
            rolling.slide() as usize,
            &mut counts,
        );
        return counts;
    }
    let ranks = nulls.map(ranks);
    frames.iter(ranks.as_deref()).map(|(lo, hi)| (hi - lo) as i64).collect()
}

/// Which windows have at least `least` values; none if all do.
pub(super) fn validity(frames: &Frames, nulls: Option<&NullBuffer>, least: u64) -> Option<NullBuffer> {
    if least == 0 {
        return None;
    }
    let Some(nulls) = nulls else {
        if let Frames::Rolling(rolling, _) = frames {
            // Every window holds a row.
            let enough = least <= 1 || rolling.is_full() && least <= rolling.size() as u64;
            if enough {
                return None;
            }
        }
        return by_ranges(frames, None, least);
    };
    match frames {
        Frames::Rolling(rolling, segments) if rolling.is_full() && segments.len() == 1 => {
            let mut bytes = Vec::new();
            let bits = Validity::new(nulls.validity(), nulls.offset());
            let (size, slide) = (rolling.size() as usize, rolling.slide() as usize);
            let windows = rolling.count(nulls.len()) as usize;
            let least = usize::try_from(least).unwrap_or(usize::MAX);
            let missing = simd::sliding_validity(bits, nulls.len(), size, slide, least, &mut bytes);
            (missing > 0).then(|| NullBuffer::new(BooleanBuffer::new(bytes.into(), 0, windows)))
        }
        _ => by_ranges(frames, Some(&ranks(nulls)), least),
    }
}

fn by_ranges(frames: &Frames, ranks: Option<&[u32]>, least: u64) -> Option<NullBuffer> {
    let ranges = frames.iter(ranks);
    let mut bits = BooleanBufferBuilder::new(0);
    // 64 at a time: a builder's `append` for each would take longer than all the rest.
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
