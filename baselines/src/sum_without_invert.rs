//! A sum that is computed as windowkit's is, but never by its inverse: what an inverse is worth (Traub et al. 2019, §6.3.2).

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use windowkit::aggregate::{
    Aggregate, Column, Kind, Monoid, Partials, Properties, Rows, Run, User, UserAggregate,
};
use windowkit::algebra::{ExactSum, Lift, integers};
use windowkit::poll::Poll;
use windowkit::{Error, Result};

/// The sum of integers of 64 bits, in 128.
#[derive(Debug, Clone, Copy, Default)]
pub struct SumWithoutInvert(ExactSum<i128>);

impl SumWithoutInvert {
    /// Its name.
    pub const NAME: &'static str = "sum_without_invert";

    /// The function, as a query and its partials have it.
    pub fn user() -> User {
        User(Arc::new(Self::default()))
    }
}

impl Monoid for SumWithoutInvert {
    type State = i128;

    #[inline]
    fn identity(&self) -> i128 {
        self.0.identity()
    }

    #[inline]
    fn combine(&self, earlier: i128, later: i128) -> i128 {
        self.0.combine(earlier, later)
    }
}

impl Aggregate for SumWithoutInvert {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Distributive)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let input = inputs[0].as_primitive::<Int64Type>();
        let values = &input.values()[..rows.slots.len()];
        column.fold(rows, input.nulls(), len, |row| i128::from(values[row]));
        Ok(())
    }

    fn update_runs(column: &mut Column<Self>, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        let input = inputs[0].as_primitive::<Int64Type>();
        if input.is_nullable() {
            return Ok(false);
        }
        let (sum, states) = column.slots_of_runs(runs, len);
        for run in runs {
            let part = sum.0.reduce(0, &input.values()[run.from..run.to]);
            sum.absorb(&mut states[run.slot as usize], part);
        }
        Ok(true)
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        integers(column.states().iter().copied(), column.nulls(), &DataType::Int64, |sum| {
            Error::Overflow(format!("the sum of a window is {sum}, which does not fit int64"))
        })
    }
}

impl UserAggregate for SumWithoutInvert {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn properties(&self) -> Properties {
        Aggregate::properties(self)
    }

    fn output_type(&self, inputs: &[DataType]) -> Result<DataType> {
        match inputs {
            [DataType::Int64] => Ok(DataType::Int64),
            _ => Err(Error::InvalidType(format!("{inputs:?}; allowed is one column of int64"))),
        }
    }

    fn column(&self, inputs: &[DataType], _: Poll) -> Result<Box<dyn Partials>> {
        self.output_type(inputs)?;
        Ok(Box::new(Column::new(*self)))
    }
}
