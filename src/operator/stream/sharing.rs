//! Which windows share an engine, and with it slices: those that accept the same rows, or that further rows leave as they
//! are. So what a query answers does not depend on the others.

use std::sync::Arc;

use crate::Result;
use crate::aggregate::Partial;
use crate::operator::plan::Plan;
use crate::slice::strategy::{FunctionTraits, Order, Strategy, Workload};
use crate::window::{Accepts, Window};

/// What windows of one engine have in common.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::operator) struct Class {
    /// Whether rows are stored under the slices.
    pub(super) keeps_rows: bool,
    /// For how long after its end a window is updated.
    pub(super) lateness: i64,
    accepts: Rows,
}

/// Which rows the slices of an engine contain.
#[derive(Debug, Clone, PartialEq)]
enum Rows {
    /// Any that one of the windows accepts: the others have expired where such a row lies.
    Any,
    /// Those from this long before the horizon on.
    Since(i64),
    /// Those that this window accepts.
    Of(Window),
    /// Any, whatever the windows: so it was in snapshots before version 5.
    Shared,
}

impl Class {
    /// The class of each window of a query.
    ///
    /// # Errors
    /// What a user-defined function raises.
    pub(super) fn of(plan: &Plan, order: Order, lateness: i64) -> Result<Vec<Self>> {
        let each = (0..plan.windows().len()).map(|at| {
            let (alone, window) = (plan.with_windows(|other| other == at), &plan.windows()[at].1);
            let accepts = match (order, window.accepts()) {
                // No row is late.
                (Order::InOrder, _) | (_, Accepts::Any) => Rows::Any,
                (_, Accepts::Since(length)) => Rows::Since(length),
                (_, Accepts::Own) => Rows::Of(window.clone()),
            };
            Ok(Self { keeps_rows: !is_sliced(&alone, order)?, lateness, accepts })
        });
        each.collect()
    }

    /// The classes of a query that shared engines with all others.
    pub(super) fn shared(plan: &Plan, order: Order, lateness: i64) -> Result<Vec<Self>> {
        let keeps_rows = !is_sliced(plan, order)?;
        Ok(vec![Self { keeps_rows, lateness, accepts: Rows::Shared }; plan.windows().len()])
    }

    /// Whether all rows in the engine's slices belong to a landmark that has not ended, so that a row from before the
    /// horizon may count as one at the horizon.
    pub(super) fn is_cumulative(&self) -> bool {
        !self.keeps_rows && matches!(&self.accepts, Rows::Of(window) if window.is_cumulative())
    }
}

/// Whether a query can be answered from slices: no window is determined by rows, and no function needs them in order.
fn is_sliced(plan: &Plan, order: Order) -> Result<bool> {
    Ok(!plan.needs_rows() && !strategy(std::iter::once(plan), order)?.keep_rows.answer)
}

/// The part of a query whose windows are of a class, if there is one.
pub(super) fn part(plan: &Arc<Plan>, classes: &[Class], class: &Class) -> Option<Arc<Plan>> {
    match classes.iter().filter(|&own| own == class).count() {
        0 => None,
        all if all == classes.len() => Some(plan.clone()),
        _ => Some(Arc::new(plan.with_windows(|at| classes[at] == *class))),
    }
}

/// The strategy for queries on a stream of this order (Traub et al. 2019, Figs. 4-6).
pub(super) fn strategy<'a>(plans: impl Iterator<Item = &'a Plan> + Clone, order: Order) -> Result<Strategy> {
    let mut functions = Vec::new();
    for plan in plans.clone() {
        let columns = plan.empty_partials()?;
        for (properties, partials) in plan.properties()?.into_iter().zip(plan.sources()) {
            let extremum = partials.iter().all(|&partial| is_extremum(&plan.partials()[partial].partial));
            let invertible = partials.iter().all(|&partial| columns[partial].takes_out());
            let commutative = properties.commutative;
            functions.push(FunctionTraits { commutative, invertible, extremum });
        }
    }
    let windows = plans.flat_map(|plan| plan.windows().iter().map(|(_, window)| window.traits())).collect();
    Ok(Strategy::of(&Workload { order, windows, functions }))
}

/// Whether removing a row changes the partial only if the row is its extremum.
fn is_extremum(partial: &Partial) -> bool {
    use Partial::{ArgMax, ArgMin, Max, MaxCount, Min, MinCount};
    matches!(partial, Min | Max | ArgMin | ArgMax | MinCount | MaxCount)
}
