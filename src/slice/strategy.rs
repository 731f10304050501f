//! What a stream's slices must store and do: the decision trees of general stream slicing.
//!
//! Three questions, each answered from the characteristics of the workload alone (Traub et al. 2019, §4) and never from
//! the rows that arrive: must rows be kept (Fig. 4), can slices be split (Fig. 5), how are rows taken out of slices
//! (Fig. 6)? A strategy is a pure function of the workload, so it is recomputed when a query is added or removed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub use crate::window::{Class, WindowTraits};

/// Whether rows may come behind others in time (§4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Time never decreases; a row that goes back in time is rejected.
    InOrder,
    /// Rows arrive in any order; a watermark says up to when the stream is complete.
    OutOfOrder,
}

impl Order {
    /// The order of this name.
    ///
    /// # Errors
    /// `InvalidValue` for another name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "in-order" => Ok(Order::InOrder),
            "out-of-order" => Ok(Order::OutOfOrder),
            _ => Err(Error::InvalidValue(format!(
                "order: '{name}' is unknown; allowed are 'in-order' and 'out-of-order'"
            ))),
        }
    }
}

/// The properties of an aggregate function that matter (§4.2). Associativity is assumed: slicing requires it of every
/// function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FunctionTraits {
    /// `combine(a, b) == combine(b, a)`.
    pub commutative: bool,
    /// A value can be taken out of a partial exactly.
    pub invertible: bool,
    /// A partial changes only if the value taken out is its extremum: min, max, and what goes with them.
    pub extremum: bool,
}

/// The characteristics of all queries of one operator, and of its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Order of the stream.
    pub order: Order,
    /// Every window of every query.
    pub windows: Vec<WindowTraits>,
    /// Every aggregate function of every query.
    pub functions: Vec<FunctionTraits>,
}

/// How rows are taken out of a slice of one function (Fig. 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Removal {
    /// They never are.
    Never,
    /// By the function's inverse.
    Invert,
    /// Not at all, unless the row was the extremum: then the slice is computed anew.
    UnlessExtremum,
    /// The slice is computed anew from its rows.
    Recompute,
}

/// An answer, with its explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling<T> {
    /// The answer.
    pub answer: T,
    /// Why.
    pub because: &'static str,
    /// The section and figure that it follows from.
    pub source: &'static str,
}

impl<T> Ruling<T> {
    const fn new(answer: T, because: &'static str, source: &'static str) -> Self {
        Self { answer, because, source }
    }
}

/// What slices store and how they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strategy {
    /// Whether rows are stored besides partials (Fig. 4).
    pub keep_rows: Ruling<bool>,
    /// Whether slices can be split (Fig. 5).
    pub split: Ruling<bool>,
    /// How rows are taken out of slices, function by function (Fig. 6).
    pub remove: Vec<Ruling<Removal>>,
}

impl Strategy {
    /// The strategy for a workload.
    pub fn of(workload: &Workload) -> Self {
        let remove = workload.functions.iter().map(|&function| removal(workload, function)).collect();
        Self { keep_rows: keep_rows(workload), split: split(workload), remove }
    }
}

/// Whether a window may get an edge within a slice that exists.
fn adds_edges(workload: &Workload) -> bool {
    workload.windows.iter().any(|window| match workload.order {
        Order::InOrder => window.class == Class::ForwardContextAware,
        Order::OutOfOrder => window.class != Class::ContextFree && !window.session,
    })
}

/// Whether a window counts rows.
fn counts(workload: &Workload) -> bool {
    workload.windows.iter().any(|window| window.count)
}

/// Fig. 4: which workloads need individual rows?
fn keep_rows(workload: &Workload) -> Ruling<bool> {
    const SOURCE: &str = "§5.1, Fig. 4";
    match workload.order {
        Order::InOrder if adds_edges(workload) => {
            Ruling::new(true, "a window's edges depend on rows that follow them", SOURCE)
        }
        Order::InOrder => {
            Ruling::new(false, "rows come in order and every edge is known when it is reached", SOURCE)
        }
        Order::OutOfOrder if workload.functions.iter().any(|function| !function.commutative) => Ruling::new(
            true,
            "rows come out of order and a function is not commutative, so that a late row changes the order",
            SOURCE,
        ),
        Order::OutOfOrder if counts(workload) => Ruling::new(
            true,
            "rows come out of order and a window counts rows, so that a late row shifts all that follow",
            SOURCE,
        ),
        Order::OutOfOrder if adds_edges(workload) => Ruling::new(
            true,
            "rows come out of order and a window that is neither context free nor a session may get new edges",
            SOURCE,
        ),
        Order::OutOfOrder => Ruling::new(
            false,
            "every function is commutative, every window context free or a session, and none counts rows",
            SOURCE,
        ),
    }
}

/// Fig. 5: are splits required?
fn split(workload: &Workload) -> Ruling<bool> {
    const SOURCE: &str = "§5.2, Fig. 5";
    if !adds_edges(workload) {
        return Ruling::new(false, "no window gets an edge within a slice that exists", SOURCE);
    }
    match workload.order {
        Order::InOrder => Ruling::new(true, "a window's edges depend on rows that follow them", SOURCE),
        Order::OutOfOrder => {
            Ruling::new(true, "a row out of order may add an edge to a context-aware window", SOURCE)
        }
    }
}

/// Fig. 6: how are rows taken out of slices?
fn removal(workload: &Workload, function: FunctionTraits) -> Ruling<Removal> {
    const SOURCE: &str = "§5.2, Fig. 6";
    if workload.order == Order::InOrder || !counts(workload) {
        return Ruling::new(
            Removal::Never,
            "rows move only if they are counted and come out of order",
            SOURCE,
        );
    }
    if function.invertible {
        return Ruling::new(Removal::Invert, "the function has an inverse", SOURCE);
    }
    if function.extremum {
        return Ruling::new(
            Removal::UnlessExtremum,
            "taking a row out leaves the extremum as it is, unless the row is the extremum",
            "§6.3.2",
        );
    }
    Ruling::new(Removal::Recompute, "the function has no inverse", SOURCE)
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Removal::Never => "never",
            Removal::Invert => "by inversion",
            Removal::UnlessExtremum => "by doing nothing, or by recomputing if it was the extremum",
            Removal::Recompute => "by recomputing the slice",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CF: WindowTraits = WindowTraits { class: Class::ContextFree, session: false, count: false };
    const SESSION: WindowTraits =
        WindowTraits { class: Class::ForwardContextFree, session: true, count: false };
    const PUNCTUATION: WindowTraits =
        WindowTraits { class: Class::ForwardContextFree, session: false, count: false };
    const LAST_N_EVERY_T: WindowTraits =
        WindowTraits { class: Class::ForwardContextAware, session: false, count: true };
    const LAST_T_EVERY_N: WindowTraits =
        WindowTraits { class: Class::ForwardContextAware, session: false, count: false };
    const COUNT: WindowTraits = WindowTraits { class: Class::ContextFree, session: false, count: true };
    const SUM: FunctionTraits = FunctionTraits { commutative: true, invertible: true, extremum: false };
    const MAX: FunctionTraits = FunctionTraits { commutative: true, invertible: false, extremum: true };
    const VARIANCE: FunctionTraits = FunctionTraits { commutative: true, invertible: false, extremum: false };
    const COLLECT: FunctionTraits = FunctionTraits { commutative: false, invertible: false, extremum: false };

    fn strategy(
        order: Order,
        windows: &[WindowTraits],
        functions: &[FunctionTraits],
    ) -> (bool, bool, Vec<Removal>) {
        let workload = Workload { order, windows: windows.into(), functions: functions.into() };
        let strategy = Strategy::of(&workload);
        let remove = strategy.remove.iter().map(|ruling| ruling.answer).collect();
        (strategy.keep_rows.answer, strategy.split.answer, remove)
    }

    /// The three figures as one truth table: order, window, function; store rows, split, remove.
    #[test]
    fn the_figures() {
        use Order::{InOrder, OutOfOrder};
        use Removal::{Invert, Never, Recompute, UnlessExtremum};
        let table = [
            (InOrder, CF, SUM, (false, false, Never)),
            (InOrder, CF, COLLECT, (false, false, Never)),
            (InOrder, COUNT, MAX, (false, false, Never)),
            (InOrder, SESSION, SUM, (false, false, Never)),
            (InOrder, PUNCTUATION, COLLECT, (false, false, Never)),
            (InOrder, LAST_N_EVERY_T, SUM, (true, true, Never)),
            (InOrder, LAST_T_EVERY_N, MAX, (true, true, Never)),
            (OutOfOrder, CF, SUM, (false, false, Never)),
            (OutOfOrder, CF, MAX, (false, false, Never)),
            (OutOfOrder, CF, COLLECT, (true, false, Never)),
            (OutOfOrder, SESSION, SUM, (false, false, Never)),
            (OutOfOrder, SESSION, COLLECT, (true, false, Never)),
            (OutOfOrder, PUNCTUATION, SUM, (true, true, Never)),
            (OutOfOrder, COUNT, SUM, (true, false, Invert)),
            (OutOfOrder, COUNT, MAX, (true, false, UnlessExtremum)),
            (OutOfOrder, COUNT, VARIANCE, (true, false, Recompute)),
            (OutOfOrder, COUNT, COLLECT, (true, false, Recompute)),
            (OutOfOrder, LAST_N_EVERY_T, SUM, (true, true, Invert)),
            (OutOfOrder, LAST_T_EVERY_N, MAX, (true, true, Never)),
        ];
        for (order, window, function, (keep, splits, remove)) in table {
            let got = strategy(order, &[window], &[function]);
            assert_eq!(got, (keep, splits, vec![remove]), "{order:?} {window:?} {function:?}");
        }
    }

    /// Several queries on one operator: the most demanding one decides, and nothing is kept once it is removed.
    #[test]
    fn one_demanding_query_decides_for_all() {
        let both = strategy(Order::OutOfOrder, &[CF, SESSION, COUNT], &[SUM, MAX]);
        assert_eq!(both, (true, false, vec![Removal::Invert, Removal::UnlessExtremum]));
        let without = strategy(Order::OutOfOrder, &[CF, SESSION], &[SUM, MAX]);
        assert_eq!(without, (false, false, vec![Removal::Never; 2]));
    }

    #[test]
    fn every_ruling_names_its_source() {
        for order in [Order::InOrder, Order::OutOfOrder] {
            let functions = vec![SUM, MAX, COLLECT];
            let strategy = Strategy::of(&Workload { order, windows: vec![CF, COUNT], functions });
            let mut sources = vec![strategy.keep_rows.source, strategy.split.source];
            sources.extend(strategy.remove.iter().map(|ruling| ruling.source));
            assert!(sources.iter().all(|source| source.starts_with('§')));
        }
    }
}
