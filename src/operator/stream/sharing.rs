//! Which windows share an engine, and with it slices. Windows do if they have accepted the same rows so far, or if the rows
//! in which they differ do not affect them: what a query answers does not depend on the others.

use std::sync::Arc;

use crate::Result;
use crate::aggregate::Partial;
use crate::operator::plan::Plan;
use crate::operator::policy::Refinement;
use crate::slice::strategy::{FunctionTraits, Order, Strategy, Workload};
use crate::window::{Accepts, Window};

/// What windows of one engine have in common.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::operator) struct Class {
    /// Whether rows are stored under the slices.
    pub(super) keeps_rows: bool,
    /// Whether slices are cut by rows, which come in order and are not stored.
    follows_rows: bool,
    /// For how long after its end a window is updated.
    pub(super) lateness: i64,
    accepts: Rows,
    /// Whether all rows in the engine's slices belong to a landmark that has not ended, so that a row from before the
    /// horizon may count as one at the horizon.
    pub(super) is_cumulative: bool,
    /// The name of the query, if its slices are its own: rows that a result has contained are dropped from them.
    own: Option<String>,
    /// Whether that is so for results that are final, and not for early ones.
    seals: bool,
}

/// Which rows the slices of an engine contain.
#[derive(Debug, Clone, PartialEq)]
enum Rows {
    /// Any row that one of the windows accepts: the others have expired where such a row lies.
    Any,
    /// Rows from this long before the horizon on.
    Since(i64),
    /// Rows that this window accepts.
    Of(Window),
}

impl Class {
    /// The class of each window of a query.
    ///
    /// # Errors
    /// What a user-defined function raises.
    pub(super) fn of(name: &str, plan: &Plan, order: Order, lateness: i64) -> Result<Vec<Self>> {
        let discards = plan.policy().is_some_and(|policy| policy.refinement() == Refinement::Discarding);
        let each = (0..plan.windows().len()).map(|at| {
            let (alone, window) = (plan.with_windows(|other| other == at), &plan.windows()[at].1);
            let seals = window.seals();
            let own = (discards || seals).then(|| name.to_owned());
            let accepts = match (order, window.accepts()) {
                // No row is late.
                (Order::InOrder, _) | (_, Accepts::Any) => Rows::Any,
                (_, Accepts::Since(length)) if !seals => Rows::Since(length),
                (_, Accepts::Since(_)) => Rows::Of(window.clone()),
                (_, Accepts::Own) => Rows::Of(window.clone()),
            };
            let follows_rows = order == Order::InOrder && window.in_order().is_some();
            let keeps_rows = !follows_rows && !is_sliced(&alone, order)?;
            // Lists are in the order of slices, and so must rows be.
            let has_lists = plan
                .partials()
                .iter()
                .any(|stored| matches!(stored.partial, Partial::List | Partial::Rows(_)));
            let is_cumulative = window.is_cumulative() && accepts != Rows::Any && !keeps_rows && !has_lists;
            Ok(Self { keeps_rows, follows_rows, lateness, accepts, is_cumulative, own, seals })
        });
        each.collect()
    }

    /// The time from which on windows of the class accept every row that others accept, and keep it where others do. Rows
    /// before it they may refuse, or put elsewhere.
    fn differs_before(&self, horizon: i64) -> i64 {
        match self.accepts {
            Rows::Any => i64::MIN,
            Rows::Since(length) => horizon.saturating_sub(length),
            Rows::Of(_) => horizon,
        }
    }

    /// Whether windows of both classes may share an engine, until a row comes that only one of them accepts.
    fn may_share(&self, other: &Self) -> bool {
        let own = [self, other];
        let are_sliced = own.iter().all(|class| !class.keeps_rows && !class.follows_rows);
        let seal = own.iter().any(|class| class.seals);
        are_sliced && !seal && self.lateness == other.lateness && self.own == other.own
    }
}

/// The classes of the windows that share an engine: at least one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClassGroup(Vec<Class>);

impl ClassGroup {
    /// Groups classes into engines, with the index of an existing one among those that are `known`, unless it is closed to
    /// other classes than its own; engines that store rows come last.
    pub(super) fn of<'a>(
        all: impl Iterator<Item = &'a Class>,
        known: &[&Self],
        is_closed: impl Fn(&Self) -> bool,
    ) -> Vec<(Option<usize>, Self)> {
        let mut own: Vec<(Option<usize>, Self)> =
            (0..known.len()).map(|place| (Some(place), Self(Vec::new()))).collect();
        for class in distinct(all) {
            let is_there = |at: &usize| known.get(*at).is_some_and(|known| known.has(class));
            let fits = |(place, shared): &(Option<usize>, Self)| {
                let is_open = place.is_none_or(|at| !is_closed(known[at]));
                is_open && shared.0.iter().any(|other| other.may_share(class))
            };
            match (0..own.len()).find(is_there).or_else(|| own.iter().position(fits)) {
                Some(at) => own[at].1.0.push(class.clone()),
                None => own.push((None, Self(vec![class.clone()]))),
            }
        }
        own.retain(|(_, shared)| !shared.0.is_empty());
        own.sort_by_key(|(_, shared)| shared.keeps_rows());
        own
    }

    /// Engines for the windows of these classes, where the n-th class is in the engine at the n-th of these places, if that
    /// can be.
    pub(super) fn at<'a>(all: impl Iterator<Item = &'a Class>, places: &[usize]) -> Option<Vec<Self>> {
        let classes = distinct(all);
        let engines = places.iter().max()?.checked_add(1)?;
        // Places may be forged: there are no more engines than classes.
        if places.len() != classes.len() || engines > classes.len() {
            return None;
        }
        let mut own = vec![Self(Vec::new()); engines];
        for (class, &place) in classes.iter().zip(places) {
            let shared = &mut own[place].0;
            if !shared.iter().all(|other| other.may_share(class)) {
                return None;
            }
            shared.push((*class).clone());
        }
        let is_whole = own.iter().all(|shared| !shared.0.is_empty());
        (is_whole && own.is_sorted_by_key(Self::keeps_rows)).then_some(own)
    }

    /// The place of the engine of each class, for [`ClassGroup::at`].
    pub(super) fn places<'a>(all: impl Iterator<Item = &'a Class>, engines: &[&Self]) -> Vec<usize> {
        let place = |class| engines.iter().position(|shared| shared.has(class));
        distinct(all).into_iter().filter_map(place).collect()
    }

    /// An engine for each class.
    pub(super) fn apart(&self) -> impl Iterator<Item = Self> {
        self.0.iter().map(|class| Self(vec![class.clone()]))
    }

    pub(super) fn has(&self, class: &Class) -> bool {
        self.0.contains(class)
    }

    pub(super) fn keeps_rows(&self) -> bool {
        self.0[0].keeps_rows
    }

    pub(super) fn follows_rows(&self) -> bool {
        self.0[0].follows_rows
    }

    /// Whether rows are dropped once any result has contained them.
    pub(super) fn discards(&self) -> bool {
        self.0[0].own.is_some() && !self.seals()
    }

    /// Whether rows are dropped once a final result has contained them.
    pub(super) fn seals(&self) -> bool {
        self.0[0].seals
    }

    pub(super) fn lateness(&self) -> i64 {
        self.0[0].lateness
    }

    pub(super) fn is_cumulative(&self) -> bool {
        self.0.iter().all(|class| class.is_cumulative)
    }

    /// The time before which not all windows treat rows alike, if there are several classes.
    pub(super) fn differs_before(&self, horizon: i64) -> Option<i64> {
        let each = self.0.iter().map(|class| class.differs_before(horizon));
        each.max().filter(|_| self.0.len() > 1)
    }
}

/// Each class once.
fn distinct<'a>(all: impl Iterator<Item = &'a Class>) -> Vec<&'a Class> {
    let mut classes: Vec<&Class> = Vec::new();
    for class in all {
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    classes
}

/// Whether a query can be answered from slices: no window is determined by rows, and no function needs them in order.
fn is_sliced(plan: &Plan, order: Order) -> Result<bool> {
    Ok(!plan.needs_rows() && !strategy(std::iter::once(plan), order)?.keep_rows.answer)
}

/// The part of a query whose windows are of these classes, if there is one.
pub(super) fn part(plan: &Arc<Plan>, classes: &[Class], shared: &ClassGroup) -> Option<Arc<Plan>> {
    match classes.iter().filter(|class| shared.has(class)).count() {
        0 => None,
        all if all == classes.len() => Some(plan.clone()),
        _ => Some(Arc::new(plan.with_windows(|at| shared.has(&classes[at])))),
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
