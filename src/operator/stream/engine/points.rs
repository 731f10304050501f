//! Punctuations by calls, which an engine that comes later takes over: rows to come may be around them, whether or not
//! the query that they first meant shares its engine.

use arrow_array::{ArrayRef, UInt32Array};

use super::Engine;
use crate::Result;
use crate::select::take;

/// The punctuations that an engine holds.
pub(in crate::operator::stream) struct Points {
    /// Times of those of all keys.
    common: Vec<i64>,
    /// The keys of the others, and their times.
    keys: Vec<ArrayRef>,
    own: Vec<i64>,
}

impl Points {
    pub(in crate::operator::stream) fn len(&self) -> usize {
        self.common.len() + self.own.len()
    }
}

impl Engine {
    /// The punctuations that rows to come may be around; `None` if windows of this engine are bounded by none.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn points(&self) -> Result<Option<Points>> {
        let Some(tuples) = &self.tuples else { return Ok(None) };
        let (mut common, mut ids, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for point in tuples.points() {
            match point.key {
                None => common.push(point.time),
                Some(key) => {
                    ids.push(key);
                    own.push(point.time);
                }
            }
        }
        let ids = UInt32Array::from(ids);
        let keys = self.keys.plain_columns()?.into_iter().map(|values| Ok(take(&values, &ids, None)?));
        Ok(Some(Points { common, keys: keys.collect::<Result<_>>()?, own }))
    }

    /// Takes over the punctuations of another engine, before any row.
    ///
    /// # Errors
    /// Those of Arrow.
    pub(in crate::operator::stream) fn set_points(&mut self, points: &Points) -> Result<()> {
        let Some(tuples) = &mut self.tuples else { return Ok(()) };
        let mut ids = Vec::new();
        self.keys.assign(&points.keys, points.own.len(), &mut ids)?;
        points.common.iter().for_each(|&time| tuples.hold_point(time, None));
        ids.iter().zip(&points.own).for_each(|(&key, &time)| tuples.hold_point(time, Some(key)));
        Ok(())
    }
}
