//! What a column of partials reads of a batch.

use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, UInt32Array, cast::AsArray};

use super::partials::Partials;
use super::rows::Rows;
use crate::Result;
use crate::select::Filter;

/// What one column of partials reads of a batch.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its columns, one entry per row.
    pub columns: Vec<ArrayRef>,
    /// Which rows are aggregated; all if there is no filter. A null excludes its row.
    pub taken: Option<BooleanArray>,
}

impl Input {
    /// Folds these rows into `partials`.
    pub fn feed(&self, partials: &mut dyn Partials, rows: Rows<'_>, len: usize) -> Result<()> {
        let Some(taken) = &self.taken else { return partials.update(&self.columns, rows, len) };
        let taken = Filter::new(taken);
        let columns = self.columns.iter().map(|column| taken.of(column));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        let slots = taken.of(&UInt32Array::from(rows.slots.to_vec()))?;
        let times = taken.of(&Int64Array::from(rows.times.to_vec()))?;
        let rows = Rows {
            slots: slots.as_primitive::<UInt32Type>().values(),
            times: times.as_primitive::<Int64Type>().values(),
            sparse: true,
        };
        partials.update(&columns, rows, len)
    }

    /// The input of `rows` rows from row `from`.
    pub fn slice(&self, from: usize, rows: usize) -> Self {
        Self {
            columns: self.columns.iter().map(|column| column.slice(from, rows)).collect(),
            taken: self.taken.as_ref().map(|taken| taken.slice(from, rows)),
        }
    }
}
