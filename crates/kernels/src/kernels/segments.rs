//! Groups of neighbouring rows: windows never cross from one to the next.

use arrow_array::{Array, ArrayRef, RunArray, cast::AsArray, types::*};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::types::named;
use crate::{Error, Result};

/// Cuts `[0, rows)` into groups, which may be empty: group g is `[offsets[g], offsets[g + 1])`.
#[derive(Debug, Clone)]
pub struct Segments {
    offsets: ScalarBuffer<i64>,
}

impl Segments {
    /// All rows as one group.
    pub fn whole(rows: usize) -> Self {
        Self { offsets: vec![0, rows as i64].into() }
    }

    /// Groups given as integer offsets, like those of a list array, or as the runs of a run-end encoded array.
    ///
    /// # Errors
    /// `InvalidType` for any other type; `InvalidValue` for nulls and for offsets that do not begin with 0, that
    /// decrease (groups would overlap), or that do not end with `rows` (rows would be in no group).
    pub fn read(array: &ArrayRef, rows: usize) -> Result<Self> {
        let offsets = match array.data_type() {
            DataType::RunEndEncoded(run_ends, _) => match run_ends.data_type() {
                DataType::Int16 => runs::<Int16Type>(array),
                DataType::Int32 => runs::<Int32Type>(array),
                _ => runs::<Int64Type>(array),
            },
            kind if kind.is_integer() => {
                if array.null_count() > 0 {
                    return Err(Error::InvalidValue(format!(
                        "segments: {} offsets are null; every group has a begin and an end",
                        array.null_count()
                    )));
                }
                // What does not fit int64 becomes null, and is far beyond any number of rows.
                let offsets = cast(array, &DataType::Int64)?;
                if offsets.null_count() > 0 {
                    return Err(Error::InvalidValue(format!(
                        "segments: an offset is above 2^63; offsets end with the number of rows, {rows}"
                    )));
                }
                offsets.as_primitive::<Int64Type>().values().clone()
            }
            other => {
                return Err(Error::InvalidType(format!(
                    "segments: an array of {other} was given; segments are integer offsets, one more than there are \
                     groups, or a run-end encoded array",
                    other = named(other)
                )));
            }
        };
        Self::new(offsets, rows)
    }

    /// Groups given as offsets.
    ///
    /// # Errors
    /// As [`Segments::read`].
    pub fn new(offsets: ScalarBuffer<i64>, rows: usize) -> Result<Self> {
        match offsets.first() {
            None => {
                return Err(Error::InvalidValue(
                    "segments: no offsets; there is one more than there are groups, the first is 0".into(),
                ));
            }
            Some(&first) if first != 0 => {
                return Err(Error::InvalidValue(format!(
                    "segments: the first offset is {first}; offsets begin with 0, as every row is in a group (put a \
                     0 before run ends)"
                )));
            }
            _ => {}
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(Error::InvalidValue(format!(
                "segments: offset {} is {}, after {}; offsets must not decrease, as groups do not overlap",
                at + 1,
                offsets[at + 1],
                offsets[at]
            )));
        }
        match offsets[offsets.len() - 1] {
            last if last == rows as i64 => Ok(Self { offsets }),
            last => Err(Error::InvalidValue(format!(
                "segments: the last offset is {last}; offsets end with the number of rows, {rows}, as every row is in \
                 a group"
            ))),
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows in all groups.
    pub fn rows(&self) -> usize {
        self.offsets[self.offsets.len() - 1] as usize
    }

    /// First row and end of group `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(usize, usize)> {
        (index + 1 < self.offsets.len())
            .then(|| (self.offsets[index] as usize, self.offsets[index + 1] as usize))
    }

    /// First row and end of each group.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, usize)> + '_ {
        self.offsets.windows(2).map(|pair| (pair[0] as usize, pair[1] as usize))
    }
}

/// The offsets of the runs of a run-end encoded array, which may be sliced.
fn runs<R: RunEndIndexType>(array: &ArrayRef) -> ScalarBuffer<i64> {
    let runs = array.as_any().downcast_ref::<RunArray<R>>().expect("the type says so").run_ends();
    let rows = runs.len();
    if rows == 0 {
        return vec![0].into();
    }
    let (first, last) = (runs.get_start_physical_index(), runs.get_end_physical_index());
    let end = |physical: usize| {
        let end = runs.values()[physical].as_usize() as i64;
        (end - runs.offset() as i64).min(rows as i64)
    };
    std::iter::once(0).chain((first..=last).map(end)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow_array::{Int32Array, StringArray};

    #[test]
    fn runs_of_a_slice_are_those_of_its_rows() {
        let runs: ArrayRef = Arc::new(
            RunArray::try_new(&Int32Array::from(vec![2, 3, 7]), &StringArray::from(vec!["a", "b", "c"]))
                .unwrap(),
        );
        let bounds =
            |array: &ArrayRef| Segments::read(array, array.len()).unwrap().iter().collect::<Vec<_>>();
        assert_eq!(bounds(&runs), [(0, 2), (2, 3), (3, 7)]);
        assert_eq!(bounds(&runs.slice(1, 4)), [(0, 1), (1, 2), (2, 4)]);
        assert_eq!(bounds(&runs.slice(3, 2)), [(0, 2)]);
        assert_eq!(bounds(&runs.slice(3, 0)), []);
    }

    #[test]
    fn gaps_and_overlaps_are_refused() {
        for (offsets, why) in [
            (vec![], "no offsets"),
            (vec![1, 4], "the first offset is 1"),
            (vec![0, 3, 2, 4], "offset 2 is 2, after 3"),
            (vec![0, 3], "the last offset is 3"),
            (vec![0, 5], "the last offset is 5"),
        ] {
            let error = Segments::new(offsets.into(), 4).unwrap_err();
            assert!(matches!(&error, Error::InvalidValue(message) if message.contains(why)), "{error}");
        }
        assert_eq!(Segments::new(vec![0, 0, 4, 4].into(), 4).unwrap().len(), 3);
    }
}
