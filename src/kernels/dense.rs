//! A column without its nulls, and the positions of rows in it.
//!
//! Windows of a column with nulls are ranges of the column without them, so that no algorithm needs to know of nulls,
//! and the length of a range is its number of values.

use std::borrow::Cow;

use arrow_buffer::NullBuffer;

/// The values of a column that are not null.
pub(super) struct Dense<'a, T: Copy> {
    /// The values.
    pub values: Cow<'a, [T]>,
}

impl<'a, T: Copy> Dense<'a, T> {
    /// Of `values` with their `nulls`. O(n) if there are any, else nothing.
    pub fn of(values: &'a [T], nulls: Option<&NullBuffer>) -> Self {
        let values = match nulls {
            None => Cow::Borrowed(values),
            Some(nulls) => Cow::Owned(valid(values, nulls).collect()),
        };
        Self { values }
    }

    /// Of `values`, each of them mapped.
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
    // By runs, as most nulls are either few or together.
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
