//! Results of windows, lowered from their partials to Arrow columns.

use arrow_array::ArrayRef;

use super::plan::Plan;
use super::weights::Left;
use crate::Result;
use crate::aggregate::Partials;
use crate::interrupt::check;

/// The results of windows.
pub(super) struct Lowered {
    /// The query's aggregates.
    pub(super) columns: Vec<ArrayRef>,
    /// How many rows each window has, where rows are weighed: one without any is not there.
    pub(super) rows: Option<Vec<i64>>,
}

/// The query's aggregates, from the partials of windows.
pub(super) fn lowered(plan: &Plan, answers: &[&dyn Partials]) -> Result<Lowered> {
    let of = |answers: &[&dyn Partials]| {
        let lowered = plan.aggregates().iter().map(|aggregate| {
            check()?;
            let own: Vec<&dyn Partials> = aggregate.partials.iter().map(|&i| answers[i]).collect();
            aggregate.lower(&own, plan.time_type())
        });
        lowered.collect::<Result<Vec<ArrayRef>>>()
    };
    let Some(weights) = plan.weights() else { return Ok(Lowered { columns: of(answers)?, rows: None }) };
    let Left { partials, rows } = weights.difference(answers)?;
    Ok(Lowered { columns: of(&partials.iter().map(AsRef::as_ref).collect::<Vec<_>>())?, rows: Some(rows) })
}
