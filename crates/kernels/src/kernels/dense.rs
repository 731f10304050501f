//! A column without its nulls, and the positions of rows in it.
//!
//! Windows of a column with nulls are ranges of the column without them, so that no algorithm needs to know of nulls,
//! and the length of a range is its number of values.

use std::borrow::Cow;

use arrow_buffer::NullBuffer;

use crate::algebra::Ordered;
use crate::simd::Element;

/// The values of a column that are not null.
pub(super) struct Dense<'a, T: Copy> {
    /// The values.
    pub values: Cow<'a, [T]>,
}

impl<'a, T: Copy> Dense<'a, T> {
    /// The non-null values, given `values` and their `nulls`. O(n) if there are any nulls, else no work.
    pub fn of(values: &'a [T], nulls: Option<&NullBuffer>) -> Self {
        let values = match nulls {
            None => Cow::Borrowed(values),
            Some(nulls) => Cow::Owned(valid(values, nulls).collect()),
        };
        Self { values }
    }

    /// The non-null values, each mapped.
    pub fn mapped<V: Copy>(
        values: &[V],
        nulls: Option<&NullBuffer>,
        map: impl Fn(V) -> T,
    ) -> Dense<'static, T> {
        let values = match nulls {
            None => values.iter().map(|&value| map(value)).collect(),
            Some(nulls) => valid(values, nulls).map(map).collect(),
        };
        Dense { values: Cow::Owned(values) }
    }
}

fn valid<'a, T: Copy>(values: &'a [T], nulls: &'a NullBuffer) -> impl Iterator<Item = T> + 'a {
    // By runs, as nulls are usually either few or clustered.
    nulls.valid_slices().flat_map(|(from, to)| values[from..to].iter().copied())
}

/// `ranks[row]` is the number of values before `row`; one entry more than there are rows.
pub(super) fn ranks(nulls: &NullBuffer) -> Vec<u32> {
    let mut ranks = Vec::with_capacity(nulls.len() + 64);
    let mut rank = 0;
    ranks.push(0);
    for word in nulls.inner().bit_chunks().iter_padded() {
        ranks.extend((0..64).map(|bit| {
            rank += (word >> bit & 1) as u32;
            rank
        }));
    }
    ranks.truncate(nulls.len() + 1);
    ranks
}

/// The rows of the values.
pub(super) fn positions(nulls: &NullBuffer) -> Vec<u32> {
    nulls.valid_indices().map(|row| row as u32).collect()
}

/// Element types, and those of them for which the algorithms other than SIMD's are compiled: a column of any other type
/// is widened first, as that costs little in comparison.
pub(super) trait Widened: Copy {
    type Wide: Ordered + Element;
    fn widened<'a>(values: &'a [Self], nulls: Option<&NullBuffer>) -> Dense<'a, Self::Wide>;
    fn narrowed(wide: Self::Wide) -> Self;
}

macro_rules! widened {
    ($($t:ty => $wide:ty),*) => { $(
        impl Widened for $t {
            type Wide = $wide;
            fn widened<'a>(values: &'a [Self], nulls: Option<&NullBuffer>) -> Dense<'a, $wide> {
                Dense::<$wide>::mapped(values, nulls, <$wide>::from)
            }
            #[inline]
            fn narrowed(wide: $wide) -> Self { wide as $t }
        }
    )* };
    ($($t:ty),*) => { $(
        impl Widened for $t {
            type Wide = $t;
            fn widened<'a>(values: &'a [Self], nulls: Option<&NullBuffer>) -> Dense<'a, $t> {
                Dense::of(values, nulls)
            }
            #[inline]
            fn narrowed(wide: $t) -> Self { wide }
        }
    )* };
}
widened!(i32, i64, u64, f64);
widened!(i8 => i32, i16 => i32, u8 => i32, u16 => i32, u32 => i64, f32 => f64);
