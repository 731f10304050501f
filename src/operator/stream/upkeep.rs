//! What is kept, for how long, and in what form.

use arrow_array::RecordBatch;

use super::Stream;
use super::agenda::Agenda;
use super::due::{NEVER, Reopened};
use super::options::{Options, StoreKind};
use super::queries::{Asked, Queries};
use crate::slice::strategy::{Order, Strategy};
use crate::slice::{Calendar, Cutter, Delta, Eager, Store, Timelines, Wants};
use crate::window::Window;
use crate::{Error, Result};

/// Keys without slices that may gather before they are forgotten.
const IDLE_KEYS: usize = 4096;

/// So many window types ask so often for slices that a tree above these pays.
const MANY_WINDOWS: usize = 16;

impl Stream {
    /// Other queries, with the slices there are.
    pub(super) fn change(&mut self, queries: Queries) -> Result<()> {
        let strategy = checked_strategy(&queries, self.options.order)?;
        let cutter = cutter(&queries);
        let partials = queries.columns(Some((&self.queries, self.store.partials())), self.slices.slots())?;
        self.store = Store::new(partials, self.slices.slots());
        (self.queries, self.strategy, self.cutter) = (queries, strategy, cutter);
        self.expect_anew();
        let cutter = &mut self.cutter;
        let edges = self.queries.edges();
        self.slices.remerge(|t| cutter.slice_of(t), |t| edges.gap_at(t));
        self.plant();
        self.forget();
        Ok(())
    }

    /// Begins anew above the slices, if the store is eager.
    pub(super) fn plant(&mut self) {
        self.eager = eager(&self.queries, self.options, &self.store);
        let slices = &self.slices;
        self.eager.distrust((0..slices.keys() as u32).filter(|&key| !slices.of(key).is_empty()));
    }

    /// Brings what is above the slices up to date.
    pub(super) fn grow(&mut self, delta: &Delta) -> Result<()> {
        self.eager.update(&self.store, delta, &self.slices)
    }

    /// Up to when windows have expired.
    fn horizon(&self) -> Option<i64> {
        Some(self.watermark?.saturating_sub(self.options.allowed_lateness))
    }

    /// Knows nothing of windows to come any longer: there are other queries.
    pub(super) fn expect_anew(&mut self) {
        self.agenda = Agenda::new(&self.queries);
        self.expiring = self.expiring.is_some().then(|| Agenda::new(&self.queries));
    }

    /// Moves agendas on to the watermark and the horizon.
    pub(super) fn turn_agendas(&mut self) {
        let bounds = self.queries.edges().bounds();
        if let (Some(watermark), Some(horizon)) = (self.watermark, self.horizon()) {
            self.agenda.move_to(watermark, bounds);
            if let Some(expiring) = &mut self.expiring {
                expiring.move_to(horizon, bounds);
            }
        }
    }

    /// How slices are held, and why.
    pub fn store_told(&self) -> (&'static str, &'static str) {
        let all = self.store.partials().len();
        let plain = self.store.partials().iter().filter(|partials| partials.is_plain()).count();
        let runs = self.eager.runs();
        match (self.eager.has_states(), self.options.store) {
            (false, StoreKind::Lazy) => ("lazy", "as asked for"),
            (_, _) if runs == all => {
                ("eager", "values in order, runs of which are merged when a window first asks for them")
            }
            (false, _) if runs > 0 => (
                "lazy",
                "few window types; but values in order are runs, merged when a window first asks for them",
            ),
            (false, _) => ("lazy", "few window types: what is due is combined from slices in one go"),
            (true, _) if plain + runs == 0 => {
                ("lazy", "no partial is a plain state or values in order, which trees are made of")
            }
            (true, _) if plain + runs < all => (
                "eager",
                "but for partials that are no plain states or values in order: those are combined when a window is due",
            ),
            (true, StoreKind::Eager) => ("eager", "as asked for"),
            (true, _) => (
                "eager",
                "many window types: each combines two running totals, or few nodes of a tree, instead of many slices",
            ),
        }
    }

    /// Forgets slices that no row and no window to come needs.
    pub(super) fn forget(&mut self) {
        if let Some(needed) = self.first_needed() {
            self.slices.forget(needed, self.queries.widest_gap());
            self.eager.forget(&self.slices);
            let slices = &self.slices;
            let is_there =
                |known: &Reopened| slices.of(known.key).first().is_some_and(|slice| slice.first <= known.at);
            self.reopened.retain(is_there);
        }
        self.merge_settled();
    }

    /// Ends it: nothing of it is needed any longer.
    pub(in crate::operator) fn end(&mut self) {
        self.closed = true;
        self.slices = Timelines::restore(std::iter::empty(), self.slices.merges());
        let partials = self.store.partials().iter().map(|partials| partials.empty()).collect();
        self.store = Store::new(partials, 0);
        self.plant();
        self.reopened.clear();
        self.keys.keep(&[]);
    }

    /// Moves slots together, and forgets keys, once that is worth it.
    pub(super) fn tidy(&mut self) {
        if self.store.is_loose(&self.slices) {
            // A user's function that fails here fails again where a window needs it, in the call that asks for that.
            let _ = self.store.compact(&mut self.slices);
        }
        // What could not be dropped now is by the next call.
        let _ = self.store.drop_values();
        let known = self.keys.len();
        if known > IDLE_KEYS && self.slices.len() < known / 2 {
            self.drop_keys();
        }
    }

    /// Gives keys with slices new numbers, and forgets the others.
    pub(super) fn drop_keys(&mut self) {
        let kept: Vec<u32> =
            (0..self.slices.keys() as u32).filter(|&key| !self.slices.of(key).is_empty()).collect();
        if !self.keys.keep(&kept) {
            return;
        }
        let numbers = self.slices.drop_keys();
        self.plant();
        self.reopened.retain_mut(|reopened| match numbers[reopened.key as usize] {
            Some(number) => {
                reopened.key = number;
                true
            }
            None => false,
        });
    }

    /// The least time of a row that is taken: that of the earliest window, as a row alone would open it, which has not
    /// expired, or else the time at which windows have expired. None while every row is taken.
    ///
    /// A session that takes a row then is there as a whole: it ends at or after this, and such ones are kept.
    pub(super) fn cutoff(&self) -> Option<i64> {
        let (least, most) = self.queries.edges().bounds();
        let horizon = self.horizon()?;
        let alive = |window: &Window| match window {
            // Windows that end after the horizon.
            Window::Sliding(sliding) => {
                if horizon > most {
                    i64::MAX
                } else {
                    sliding.first_covering(horizon.max(least))
                }
            }
            // A session is over once the watermark has passed its end.
            Window::Session(session) => horizon.saturating_sub(session.gap()),
            Window::Band(band) if horizon < band.extent().1 => horizon.min(band.extent().0),
            // The window that a row opens by itself is the one that ends next.
            Window::Landmark(landmark) if horizon <= most => landmark
                .first_wid(horizon.max(least))
                .map_or(horizon, |(_, end)| horizon.min(end - landmark.every())),
            Window::Global(_) if horizon < NEVER => i64::MIN,
            // Others are refused when their query comes.
            _ => horizon,
        };
        let agenda = self.expiring.as_ref().unwrap_or(&self.agenda);
        let of_query = |(query, asked): (usize, &Asked)| {
            let windows = asked.plan.windows();
            let alive = match agenda.least_start(query) {
                // What the agenda knows need not be computed.
                Some(least) => agenda.others(query).map(|at| alive(&windows[at].1)).fold(least, i64::min),
                None => windows.iter().map(|(_, window)| alive(window)).min()?,
            };
            Some(asked.since.map_or(alive, |since| alive.max(since.saturating_add(1))))
        };
        self.queries.asked().iter().enumerate().filter_map(of_query).min()
    }

    /// The time from which on slices are needed: by rows that are still taken, and by windows that have or will have one
    /// of these. None while all are.
    fn first_needed(&self) -> Option<i64> {
        let (least, most) = self.queries.edges().bounds();
        let cutoff = self.cutoff()?;
        let reaching = |asked: &Asked, window: &Window| match window {
            // Its windows have all since their landmark.
            Window::Landmark(landmark) if cutoff <= most => landmark
                .landmark(cutoff.max(least))
                .filter(|&first| asked.since.is_none_or(|since| first > since)),
            _ => None,
        };
        let of_query = |(query, asked): (usize, &Asked)| {
            let others = self.agenda.others(query);
            others.filter_map(|at| reaching(asked, &asked.plan.windows()[at].1)).min()
        };
        let reaching = self.queries.asked().iter().enumerate().filter_map(of_query);
        Some(reaching.fold(cutoff, i64::min))
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`.
    pub fn slices(&mut self) -> Result<RecordBatch> {
        let (least, most) = self.queries.edges().bounds();
        let (mut keys, mut times) = (Vec::new(), [const { Vec::new() }; 4]);
        for key in 0..self.slices.keys() as u32 {
            let slices = self.slices.of(key);
            for (at, slice) in slices.iter().enumerate() {
                let (mut start, end_of_slice) = self.cutter.slice_of(slice.first);
                let gap = self.queries.edges().gap_at(slice.first);
                let mut end = self.cutter.slice_of(slice.last).1.max(end_of_slice);
                // Where there is no edge, its rows are what it begins or ends with.
                let open = end > most && gap.is_none_or(|gap| gap == i64::MAX);
                if start == least {
                    start = slice.first;
                }
                if let Some(gap) = gap {
                    // A fragment begins with its session, or where a window cuts the session in two.
                    let joins = |a: i64, b: i64| b <= a.saturating_add(gap);
                    if at == 0 || !joins(slices[at - 1].last, slice.first) {
                        start = slice.first;
                    }
                    if slices.get(at + 1).is_none_or(|next| !joins(slice.last, next.first)) {
                        end = end.min(slice.last.saturating_add(gap));
                    }
                }
                if open {
                    end = slice.last;
                }
                keys.push(key);
                for (column, t) in times.iter_mut().zip([start, end, slice.first, slice.last]) {
                    column.push(t);
                }
            }
        }
        self.keys.slices(self.queries.leader(), keys, times)
    }
}

pub(super) fn checked_strategy(queries: &Queries, order: Order) -> Result<Strategy> {
    let strategy = queries.strategy(order)?;
    if strategy.keep_rows.answer {
        return Err(Error::InvalidValue(format!(
            "query: rows would have to be kept, as {} ({}), which this operator does not do",
            strategy.keep_rows.because, strategy.keep_rows.source
        )));
    }
    Ok(strategy)
}

/// What is kept above the slices of these queries. Sorted runs are, unless they are not wanted, as what a window costs
/// without is all its values.
pub(super) fn eager(queries: &Queries, options: Options, store: &Store) -> Eager {
    let windows = queries.asked().iter().map(|asked| asked.plan.windows().len());
    let above = match options.store {
        StoreKind::Lazy => Wants::Nothing,
        StoreKind::Auto if windows.sum::<usize>() < MANY_WINDOWS => Wants::Runs,
        StoreKind::Auto | StoreKind::Eager => Wants::All,
    };
    Eager::new(store, above, options.order == Order::InOrder)
}

/// What cuts slices and rows.
pub(super) fn cutter(queries: &Queries) -> Cutter {
    let edges = queries.edges();
    // What was there when a query came is none of its: no slice has rows of before and after.
    let cuts: Vec<i64> =
        queries.asked().iter().filter_map(|asked| asked.since).map(|since| since.saturating_add(1)).collect();
    let slices = edges.gap().map(|_| Calendar::new(edges, &cuts));
    Cutter::new(Calendar::with_gap(edges, &cuts), slices)
}
