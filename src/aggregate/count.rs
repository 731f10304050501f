//! Count: of rows, or of values that are not null. Distributive, commutative, invertible.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, types::Int64Type};
use arrow_schema::DataType;

use super::column::Column;
use super::lift::{Aggregate, columns, fold_primitive};
use super::properties::{Kind, Properties};
use super::rows::{Rows, Run};
use crate::Result;
use crate::algebra::Count;

impl Aggregate for Count {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive).inverted(true)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let nulls = inputs.first().and_then(|input| input.logical_nulls());
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => column.fold(rows, None, len, |_| 1),
            // Nulls count 0 rather than being left out: a count is never null.
            Some(nulls) => column.fold(rows, None, len, |row| i64::from(nulls.is_valid(row))),
        }
        Ok(())
    }

    fn update_runs(column: &mut Column<Self>, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        if inputs.first().is_some_and(|input| input.is_nullable()) {
            return Ok(false);
        }
        let (_, counts) = column.slots_of_runs(runs, len);
        runs.iter().for_each(|run| counts[run.slot as usize] += (run.to - run.from) as i64);
        Ok(true)
    }

    fn merge(column: &mut Column<Self>, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [counts] = columns(state)?;
        fold_primitive::<Int64Type, _>(column, counts, &DataType::Int64, rows, len, |count| count)
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(column.states().to_vec())))
    }
}
