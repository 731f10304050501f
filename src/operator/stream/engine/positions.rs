//! Windows determined by rows that come in order: how far the rows of each key have brought them, in place of these rows
//! (Traub et al. 2019, §5.1, Fig. 4).
//!
//! | | |
//! |---|---|
//! | needs | rows in order, and windows whose edges follow from the rows up to there ([`InOrder`]) |
//! | time | O(1) per row and window type, and per window besides the combinations |
//! | space | a position per key and window type; slices as long as a window needs them |
//! | first appeared | general stream slicing, which keeps no tuples of such windows in order (Traub et al. 2019, §5.1) |
//!
//! Rows are counted key by key: the rank of a row is its place among all rows of its key. Window types say before which
//! rows slices are cut and which windows end, in ranks; slices know the ranks of their first rows, and so which of them a
//! window has.

use arrow_array::{ArrayRef, RecordBatch};
use serde::{Deserialize, Serialize};

use super::due::Due;
use super::horizon::WatermarkMove;
use crate::aggregate::Run;
use crate::interrupt::Pace;
use crate::operator::stream::outgoing::{OfRows, Outgoing};
use crate::operator::stream::queries::{Queries, Registered, windows};
use crate::slice::{Cut, Eager, Keys, Slice, Timelines};
use crate::state::{Reader, Writer, broken};
use crate::window::{Ended, InOrder, OfKeys, OrderedRows, Position, Ranks, RowEdges};
use crate::{Error, Result};

/// No cell.
const NONE: u32 = u32::MAX;

/// Greatest rank of a row, and greatest number of a window: counting on from there cannot overflow.
const MOST: u64 = 1 << 62;

/// So many slices of a key that are dropped at once leave room that is worth freeing.
const MANY: usize = 8;

/// How many simple steps a key takes.
const VISIT: usize = 8;

/// How many rows a key has had.
#[derive(Debug, Clone, Copy, Default)]
struct Ranked {
    /// The rank of the first row in its slices.
    base: u64,
    /// The rank of its next row.
    next: u64,
    /// The call that changed it last, and the last cell of its rows in that call.
    call: u32,
    cell: u32,
}

/// Rows of a call that belong to one slice.
#[derive(Debug, Clone, Copy)]
struct Cell {
    key: u32,
    /// The rank of the first of them.
    rank: u64,
    first: i64,
    last: i64,
    /// Whether they begin the slice.
    is_new: bool,
}

/// The positions of all keys.
#[derive(Debug, Default)]
pub(super) struct Positions {
    keys: Vec<Ranked>,
    /// By key, one per window type.
    positions: Vec<Position>,
    /// How many window types each query has, and all have.
    types: Vec<usize>,
    width: usize,
    call: u32,
    /// What the keys were before the call that it has changed.
    undo: Vec<(u32, Ranked)>,
    undo_positions: Vec<Position>,
    /// What follows from the call's rows so far.
    edges: RowEdges,
    cells: Vec<Cell>,
    /// Where the last rows went.
    runs: Vec<Run>,
    slots: Vec<u32>,
    ranks: Vec<u64>,
    /// By which watermark keys may have windows that are final though no row ends them, where these are found by time.
    due: Due,
}

/// The window types of queries, with the number of each query, and of the type among its own.
fn all(queries: &Queries) -> impl Iterator<Item = ((usize, usize), &Registered, &dyn InOrder)> {
    queries.registered().iter().enumerate().flat_map(|(query, registered)| {
        let own = registered.plan.windows().iter().enumerate();
        own.filter_map(move |(at, (_, window))| Some(((query, at), registered, window.in_order()?)))
    })
}

impl Positions {
    /// No keys yet.
    pub(super) fn new(queries: &Queries) -> Self {
        let types = queries.registered().iter().map(|registered| registered.plan.windows().len());
        Self { types: types.clone().collect(), width: types.sum(), ..Self::default() }
    }

    /// The positions of a key, by window type.
    fn of(&self, key: u32) -> &[Position] {
        let width = self.width;
        &self.positions[key as usize * width..][..width]
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let positions = self.positions.capacity() * size_of::<Position>();
        self.keys.capacity() * size_of::<Ranked>() + positions + self.due.bytes()
    }

    /// Begins a call.
    pub(super) fn begin(&mut self) {
        self.edges.ended.clear();
        self.cells.clear();
        self.call = self.call.wrapping_add(1);
        if self.call == 0 {
            // Once in 2^32 calls: no key may look as if this call had changed it.
            self.keys.iter_mut().for_each(|ranked| ranked.call = 0);
            self.call = 1;
        }
    }

    /// Makes room for keys.
    fn make_room(&mut self, keys: usize) {
        if self.keys.len() < keys {
            self.positions.resize(keys * self.width, Position::START);
            self.keys.resize(keys, Ranked::default());
        }
    }

    /// Takes note of what a key is, before the call changes it.
    #[inline]
    fn note(&mut self, key: u32) -> &mut Ranked {
        if self.keys[key as usize].call != self.call {
            self.note_first(key);
        }
        &mut self.keys[key as usize]
    }

    fn note_first(&mut self, key: u32) {
        let width = self.width;
        // Room first: a change that was made is in the undo log.
        self.undo.reserve(1);
        self.undo_positions.extend_from_slice(&self.positions[key as usize * width..][..width]);
        let ranked = &mut self.keys[key as usize];
        self.undo.push((key, *ranked));
        (ranked.call, ranked.cell) = (self.call, NONE);
    }

    /// Follows rows of a call, which are those of `batch` from row `from` on, and finds their cells.
    ///
    /// # Errors
    /// `Overflow` and `InvalidValue` where a row's values make no window; `InvalidValue` for too many rows in open windows.
    pub(super) fn follow(
        &mut self,
        queries: &Queries,
        (batch, from): (&RecordBatch, usize),
        (times, keys, key_count): (&[i64], Keys<'_>, usize),
    ) -> Result<()> {
        self.make_room(key_count);
        self.edges.cuts.clear();
        self.ranks.clear();
        let ranks = match keys {
            Keys::One(key) => {
                let ranked = self.note(key);
                let first = ranked.next;
                ranked.next += times.len() as u64;
                Ranks::One(key, first)
            }
            Keys::Each(keys) => {
                self.ranks.reserve(keys.len());
                for &key in keys {
                    let ranked = self.note(key);
                    let rank = ranked.next;
                    ranked.next += 1;
                    self.ranks.push(rank);
                }
                Ranks::Each(keys, &self.ranks)
            }
        };
        let types = self.width;
        for (at, (_, registered, rules)) in all(queries).enumerate() {
            let from_row = registered.since.map_or(0, |since| times.partition_point(|&time| time <= since));
            let columns = rules.columns().into_iter();
            let columns: Vec<ArrayRef> =
                columns.map(|column| batch.column(column).slice(from, times.len())).collect();
            self.edges.window = at;
            let rows = OrderedRows { times, ranks, columns: &columns, from: from_row };
            rules.follow(&rows, &mut OfKeys::new(&mut self.positions, (at, types)), &mut self.edges)?;
        }
        self.edges.cuts.sort_unstable();
        self.edges.cuts.dedup();
        self.cut(times, keys)
    }

    /// Finds the cells of rows.
    fn cut(&mut self, times: &[i64], keys: Keys<'_>) -> Result<()> {
        let Self { keys: ranked, cells, edges, runs, slots, ranks, .. } = self;
        let mut cuts = edges.cuts.iter().map(|&row| row as usize).peekable();
        let mut cell = |own: &mut Ranked,
                        (key, rank): (u32, u64),
                        is_new: bool,
                        (first, last): (i64, i64)| {
            if !is_new && own.cell != NONE {
                cells[own.cell as usize].last = last;
                return Ok(own.cell);
            }
            if is_new && u32::try_from(rank - own.base).is_err() {
                return Err(Error::InvalidValue(format!(
                    "windows: a key has more than {} rows in windows that are open; at most so many are allowed",
                    u32::MAX
                )));
            }
            own.cell = cells.len() as u32;
            cells.push(Cell { key, rank, first, last, is_new });
            Ok(own.cell)
        };
        runs.clear();
        slots.clear();
        match keys {
            Keys::One(key) => {
                let own = &mut ranked[key as usize];
                let (rank, mut from) = (own.next - times.len() as u64, 0);
                while from < times.len() {
                    let is_new = cuts.next_if_eq(&from).is_some();
                    let to = cuts.peek().copied().unwrap_or(times.len());
                    let stretch = (times[from], times[to - 1]);
                    let slot = cell(own, (key, rank + from as u64), is_new, stretch)?;
                    runs.push(Run { slot, from, to });
                    from = to;
                }
            }
            Keys::Each(keys) => {
                slots.reserve(keys.len());
                for (row, (&key, &time)) in keys.iter().zip(times).enumerate() {
                    let is_new = cuts.next_if_eq(&row).is_some();
                    let own = &mut ranked[key as usize];
                    slots.push(cell(own, (key, ranks[row]), is_new, (time, time))?);
                }
            }
        }
        Ok(())
    }

    /// Where the last rows went, and how many cells there are.
    pub(super) fn rows(&self) -> (Cut<'_>, usize) {
        let cut = if self.runs.is_empty() { Cut::Slots(&self.slots) } else { Cut::Runs(&self.runs) };
        (cut, self.cells.len())
    }

    /// Keys and times of the call's rows, ascending: at least one of each slice.
    pub(super) fn touched(&self) -> Vec<(u32, i64)> {
        let mut touched: Vec<(u32, i64)> = self.cells.iter().map(|cell| (cell.key, cell.first)).collect();
        touched.sort_unstable();
        touched
    }

    /// Adds the call's cells to slices.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn add_to(&self, timelines: &mut Timelines) -> Result<()> {
        timelines.make_room(self.keys.len());
        let mut pace = Pace::new();
        for &Cell { key, rank, first, last, is_new } in &self.cells {
            pace.check(VISIT)?;
            let slot = timelines.open();
            if is_new || timelines.of(key).is_empty() {
                let lo = (rank - self.keys[key as usize].base) as u32;
                timelines.push(key, Slice::new(lo, slot).over((first, last)));
            } else {
                timelines.grow(key, slot, last);
            }
        }
        Ok(())
    }

    /// Ends the windows that end without a row: as watermarks move, by a punctuation of one key or of all, and as the stream
    /// or a key ends, which changes no position.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn end(
        &mut self,
        queries: &Queries,
        moved: WatermarkMove,
        point: Option<Option<u32>>,
    ) -> Result<()> {
        let mut pace = Pace::new();
        let every = 0..self.keys.len() as u32;
        let only = |key: Option<u32>| key.map_or(every.clone(), |key| key..(key + 1).min(every.end));
        let of_call = only(moved.key_watermark.map(|(key, _)| key));
        let now = moved.key_watermark.map_or(moved.watermark, |(_, now)| Some(now));
        let is_found = self.due.is_known() && moved.key_watermark.is_none() && !moved.closing;
        for changed in 0..self.undo.len() {
            self.look_later(queries, self.undo[changed].0);
        }
        let reached = match now {
            Some(now) if is_found => {
                self.due.find(now, &mut pace)?;
                self.due.found().to_vec()
            }
            Some(_) => of_call.clone().collect(),
            None => Vec::new(),
        };
        let mut due = 0;
        for (at, (_, _, rules)) in all(queries).enumerate() {
            self.edges.window = at;
            for &key in &reached {
                pace.check(VISIT)?;
                if self.final_at(rules, (key, at)).is_some_and(|time| Some(time) <= now) {
                    self.end_window(rules, (key, at));
                    due += 1;
                }
            }
            for key in point.filter(|_| rules.is_punctuated()).map_or(0..0, only) {
                pace.check(VISIT)?;
                self.end_window(rules, (key, at));
            }
            for key in if moved.closing { of_call.clone() } else { 0..0 } {
                pace.check(VISIT)?;
                let left = rules.unfinished(&self.of(key)[at], self.keys[key as usize].next);
                self.edges.ended.extend(left.into_iter().map(|each| Ended { window: at, key, ..each }));
            }
        }
        if reached.len() == every.len() {
            self.due.count(every.len(), due);
        }
        Ok(())
    }

    /// Looks at a key again once one of its windows is final that no row ends.
    fn look_later(&mut self, queries: &Queries, key: u32) {
        if self.due.is_known() {
            let each = all(queries).enumerate();
            let next = each.filter_map(|(at, (_, _, rules))| self.final_at(rules, (key, at))).min();
            next.into_iter().for_each(|next| self.due.put(key, next));
        }
    }

    /// Finds keys by time from now on, if there are many.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn find_by_time(&mut self, queries: &Queries) -> Result<()> {
        if !self.due.would_pay() {
            return Ok(());
        }
        self.due.begin();
        let mut pace = Pace::new();
        for key in 0..self.keys.len() as u32 {
            pace.check(VISIT).inspect_err(|_| self.due.reset())?;
            self.look_later(queries, key);
        }
        Ok(())
    }

    /// The watermark from which on the open window of a key and type is final.
    fn final_at(&self, rules: &dyn InOrder, (key, at): (u32, usize)) -> Option<i64> {
        let position = &self.of(key)[at];
        if position.is_open { rules.final_at(position) } else { None }
    }

    /// Ends the open window of a key and type, if one is open.
    fn end_window(&mut self, rules: &dyn InOrder, (key, at): (u32, usize)) {
        if self.of(key)[at].is_open {
            let rank = self.note(key).next;
            let place = key as usize * self.width + at;
            let end = rules.end_of(&self.positions[place]);
            self.edges.end(&mut self.positions[place], (key, rank), end);
        }
    }

    /// Adds the windows that the call has ended to those that are emitted.
    ///
    /// # Errors
    /// An interrupt.
    pub(super) fn emit(
        &self,
        queries: &Queries,
        timelines: &Timelines,
        outgoing: &mut [Outgoing],
    ) -> Result<()> {
        let numbers: Vec<(usize, usize)> = all(queries).map(|(numbers, ..)| numbers).collect();
        let mut pace = Pace::new();
        for ended in &self.edges.ended {
            pace.check(VISIT)?;
            let (query, window) = numbers[ended.window];
            outgoing[query].push_of_rows(ended.key, self.over(timelines, window, ended)?);
        }
        Ok(())
    }

    /// Lists the open windows of a query and key that the end of the stream would end.
    ///
    /// # Errors
    /// `Internal` where slices are not cut as the windows need.
    pub(super) fn list_open(
        &self,
        (queries, timelines): (&Queries, &Timelines),
        query: usize,
        key: u32,
        outgoing: &mut Outgoing,
    ) -> Result<()> {
        let Some(ranked) = self.keys.get(key as usize) else { return Ok(()) };
        for (at, ((own, window), registered, rules)) in all(queries).enumerate() {
            for each in
                if own == query { rules.unfinished(&self.of(key)[at], ranked.next) } else { Vec::new() }
            {
                outgoing.push_of_rows(key, self.over(timelines, window, &Ended { key, ..each })?);
                outgoing.check(&registered.plan, window, 0, || 0)?;
            }
        }
        Ok(())
    }

    /// A window over slices.
    fn over(&self, timelines: &Timelines, window: usize, ended: &Ended) -> Result<OfRows> {
        let Ended { key, lo, hi, origin, end, number, .. } = *ended;
        let (los, spans) = (timelines.los(key), timelines.of(key));
        let Ranked { base, next, .. } = self.keys[key as usize];
        let place = |rank: u64| {
            let at = los.partition_point(|&lo| u64::from(lo) < rank - base);
            match los.get(at) {
                Some(&lo) if u64::from(lo) == rank - base => Ok(at),
                None if rank == next => Ok(at),
                _ => Err(Error::Internal(format!("no slice is cut at row {rank}, where a window is"))),
            }
        };
        let ranks = (lo - origin, hi - origin);
        let (lo, hi) = (place(lo)?, place(hi)?);
        let extent = (spans.firsts[lo], end.unwrap_or(spans.lasts[hi - 1]));
        Ok(OfRows { window: window as u32, lo, hi, extent, ranks, number, update: false })
    }

    /// Commits a call, and drops the slices that no window needs any longer of the keys that it has changed.
    pub(super) fn settle(&mut self, queries: &Queries, timelines: &mut Timelines, above: &mut Eager) {
        self.undo_positions.clear();
        for key in self.due.keep(self.keys.len()) {
            self.look_later(queries, key);
        }
        for at in 0..self.undo.len() {
            let key = self.undo[at].0;
            self.forget(queries, timelines, key);
            above.forget(timelines, key..key + 1);
        }
        self.undo.clear();
    }

    /// Rolls back a call.
    pub(super) fn take_back(&mut self) {
        let width = self.width;
        while let Some((key, ranked)) = self.undo.pop() {
            let left = self.undo_positions.len() - width;
            self.positions[key as usize * width..][..width].copy_from_slice(&self.undo_positions[left..]);
            self.undo_positions.truncate(left);
            self.keys[key as usize] = ranked;
        }
        self.undo_positions.clear();
        self.due.take_back();
    }

    /// Drops the slices of a key that no window needs any longer: many at a time, as the others are moved.
    fn forget(&mut self, queries: &Queries, timelines: &mut Timelines, key: u32) {
        let Ranked { base, next, .. } = self.keys[key as usize];
        let each = all(queries).zip(self.of(key));
        let needed = each.map(|((_, _, rules), position)| rules.needed(position, next)).fold(next, u64::min);
        let los = timelines.los(key);
        let (slices, rows) = match needed == next {
            true => (los.len(), next - base),
            false => {
                let at = los.partition_point(|&lo| u64::from(lo) <= needed - base).saturating_sub(1);
                (at, u64::from(los.get(at).copied().unwrap_or_default()))
            }
        };
        if slices > 0 && 4 * rows >= next - base {
            // Where all are dropped, none has a place that moves.
            timelines.forget(key, slices, if needed == next { 0 } else { rows as u32 });
            self.keys[key as usize].base += rows;
            if slices >= MANY {
                timelines.shrink(key);
            }
        }
    }

    /// Drops all slices of a key, and what is known of its windows.
    pub(super) fn discard(&mut self, timelines: &mut Timelines, key: u32) {
        let width = self.width;
        let Some(ranked) = self.keys.get_mut(key as usize) else { return };
        *ranked = Ranked::default();
        self.positions[key as usize * width..][..width].fill(Position::START);
        timelines.forget(key, timelines.of(key).len(), 0);
    }

    /// Sets the marks of the keys whose next rows or windows have a rank or a number that goes on from earlier ones.
    pub(super) fn mark_numbered(&self, queries: &Queries, is_live: &mut [bool]) {
        let is_ranked = windows(queries.registered()).any(|(_, window)| window.is_ranked());
        for (key, ranked) in (0..).zip(&self.keys) {
            let has_number = || self.of(key).iter().any(|position| position.number > 0);
            is_live[key as usize] |= is_ranked && ranked.next > 0 || has_number();
        }
    }

    /// Keeps these keys, which ascend: the n-th of them becomes key n.
    pub(super) fn keep_keys(&mut self, kept: &[u32]) {
        let (width, known) = (self.width, self.keys.len());
        let kept = &kept[..kept.partition_point(|&key| (key as usize) < known)];
        // In place, as there may be no memory.
        for (at, &key) in kept.iter().enumerate() {
            self.keys[at] = self.keys[key as usize];
            self.positions.copy_within(key as usize * width..(key as usize + 1) * width, at * width);
        }
        self.keys.truncate(kept.len());
        self.positions.truncate(kept.len() * width);
        self.due.reset();
        shrink(&mut self.keys);
        shrink(&mut self.positions);
    }

    /// Adapts to other queries: `places` has the new place of each former one.
    pub(super) fn change(&mut self, queries: &Queries, places: &[Option<usize>]) {
        let mut changed = Self { call: self.call, ..Self::new(queries) };
        changed.make_room(self.keys.len());
        changed.keys.clone_from(&self.keys);
        let (width, new_width) = (self.width, changed.width);
        let before = |types: &[usize], query: usize| types[..query].iter().sum::<usize>();
        for (query, place) in places.iter().enumerate().filter_map(|(query, place)| Some((query, (*place)?)))
        {
            let (from, to) = (before(&self.types, query), before(&changed.types, place));
            for key in 0..self.keys.len() {
                let own = &self.positions[key * width + from..][..self.types[query]];
                changed.positions[key * new_width + to..][..own.len()].copy_from_slice(own);
            }
        }
        *self = changed;
    }
}

/// Frees what entries do not take, if that is most of it and there is memory for a copy of them.
fn shrink<T: Copy>(all: &mut Vec<T>) {
    let mut only = Vec::new();
    if all.capacity() > 4 * all.len() && only.try_reserve_exact(all.len()).is_ok() {
        only.extend_from_slice(all);
        *all = only;
    }
}

/// What is stored of a key.
#[derive(Serialize, Deserialize)]
struct Kept {
    key: u32,
    /// The ranks of the first row in its slices and of its next row.
    ranks: (u64, u64),
    positions: Vec<Position>,
}

impl Positions {
    /// Writes the positions of all keys.
    pub(super) fn save(&self, to: &mut Writer) {
        let known = (0..).zip(&self.keys).filter(|(_, ranked)| ranked.next > 0);
        let kept = known.map(|(key, &Ranked { base, next, .. })| Kept {
            key,
            ranks: (base, next),
            positions: self.of(key).to_vec(),
        });
        to.value(&kept.collect::<Vec<_>>());
    }

    /// Reads what [`Positions::save`] wrote for these queries and so many keys, which have these slices.
    ///
    /// # Errors
    /// `InvalidValue` if the contents contradict each other.
    pub(super) fn load(
        &mut self,
        from: &mut Reader<'_>,
        (queries, timelines): (&Queries, &Timelines),
        keys: usize,
    ) -> Result<()> {
        self.make_room(keys);
        let width = self.width;
        for Kept { key, ranks: (base, next), positions } in from.value::<Vec<Kept>>()? {
            let Some(ranked) = self.keys.get_mut(key as usize).filter(|ranked| ranked.next == 0) else {
                return broken();
            };
            (ranked.base, ranked.next) = (base, next);
            if next == 0 || positions.len() != width {
                return broken();
            }
            self.positions[key as usize * width..][..width].copy_from_slice(&positions);
        }
        if !(0..keys as u32).all(|key| self.is_sound((queries, timelines), key)) {
            return broken();
        }
        Ok(())
    }

    /// Whether slices of a key are cut as its windows need.
    fn is_sound(&self, (queries, timelines): (&Queries, &Timelines), key: u32) -> bool {
        let Ranked { base, next, .. } = self.keys[key as usize];
        let los = timelines.los(key);
        let begins = |rank: u64| {
            let lo = rank.checked_sub(base).and_then(|lo| u32::try_from(lo).ok());
            lo.is_some_and(|lo| los.binary_search(&lo).is_ok())
        };
        let has_rows = |&last: &u32| base.checked_add(last.into()).is_some_and(|last| last < next);
        next <= MOST
            && (base == next || base < next && los.first() == Some(&0))
            && (base < next || los.is_empty())
            && los.last().is_none_or(has_rows)
            && all(queries).zip(self.of(key)).all(|((_, _, rules), position)| {
                (0..=MOST as i64).contains(&position.number) && rules.is_sound(position, next, &begins)
            })
    }
}
