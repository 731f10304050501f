//! In what form slices are stored: what is kept above them for windows that need many, and why (Traub et al. 2019, §5.2: lazy
//! and eager slicing).

use crate::operator::stream::options::{Options, StoreKind};
use crate::operator::stream::queries::Queries;
use crate::slice::strategy::Order;
use crate::slice::{Eager, Store, Wants};
use crate::window::{InOrder, Window};

/// This many window types read slices so often that a tree above them pays off.
const MANY_WINDOWS: usize = 16;

/// In so many windows at a time, slices are read so often that running totals pay off.
const OVERLAPPING: u64 = 4;

/// What the aggregate store keeps above the slices of these queries. Unless nothing is wanted, sorted runs are kept:
/// without them each window would have to read all of its values.
pub(super) fn above(queries: &Queries, options: Options, store: &Store, keeps_rows: bool) -> Eager {
    let windows = queries.registered().iter().flat_map(|registered| registered.plan.windows());
    let of_a_row = |(_, window): &(_, Window)| match window.regular() {
        Some(own) => (own.size() / own.slide()).unsigned_abs(),
        None => window.in_order().map_or(1, InOrder::windows_per_row),
    };
    let above = match options.store {
        // Slices that are fitted to rows change anywhere.
        _ if keeps_rows => Wants::Nothing,
        StoreKind::Lazy => Wants::Nothing,
        StoreKind::Eager => Wants::All,
        StoreKind::Auto if windows.clone().count() >= MANY_WINDOWS => Wants::All,
        StoreKind::Auto
            if options.order == Order::InOrder && windows.map(of_a_row).any(|n| n >= OVERLAPPING) =>
        {
            Wants::Totals
        }
        StoreKind::Auto => Wants::Runs,
    };
    Eager::new(store, above, options.order == Order::InOrder)
}

/// How slices are stored, and why.
pub(super) fn form(store: &Store, above: &Eager, kind: StoreKind) -> (&'static str, &'static str) {
    let all = store.partials().len();
    let plain = store.partials().iter().filter(|partials| partials.is_plain()).count();
    let (totals, runs) = (above.totals(), above.runs());
    match (above.wants(), kind) {
        (Wants::Nothing, StoreKind::Lazy) => ("lazy", "as requested"),
        (_, _) if runs == all => {
            ("eager", "values in order are kept as runs, which are merged when a window first needs them")
        }
        (Wants::Totals, _) if totals == all => {
            ("eager", "windows overlap: each is the difference of two running totals, instead of many slices")
        }
        (Wants::Totals, _) if totals > 0 => (
            "eager",
            "windows overlap: where a function has an inverse, each is the difference of two running totals; others \
                 are combined when a window is ready",
        ),
        (Wants::Nothing | Wants::Runs | Wants::Totals, _) if runs > 0 => (
            "lazy",
            "few window types; but values in order are kept as runs, which are merged when a window first needs \
                 them",
        ),
        (Wants::Nothing | Wants::Runs | Wants::Totals, _) => {
            ("lazy", "few window types: windows that are ready are combined from slices in one go")
        }
        (Wants::All, _) if plain + runs == 0 => {
            ("lazy", "no partial is a plain state or values in order, which trees are made of")
        }
        (Wants::All, _) if plain + runs < all => (
            "eager",
            "but for partials that are no plain states or values in order: those are combined when a window is ready",
        ),
        (Wants::All, StoreKind::Eager) => ("eager", "as requested"),
        (Wants::All, _) => (
            "eager",
            "many window types: each combines two running totals, or few nodes of a tree, instead of many slices",
        ),
    }
}
