//! What windows determined by rows are given, a key's rows and how a call changed them, and what they report: windows to
//! emit, and where slices are cut.

use serde::{Deserialize, Serialize};

use arrow_array::ArrayRef;

use crate::Result;

/// A key's rows in the order of time, and of arrival where times are equal.
#[derive(Debug, Clone, Copy)]
pub struct KeyRows<'a> {
    /// The time of each row, ascending.
    pub times: &'a [i64],
    /// The columns of [`Rules::columns`](super::Rules::columns), in that order, one entry per row.
    pub columns: &'a [ArrayRef],
    /// The number of each row in the order of arrival, where windows are listed over all rows of a key; otherwise empty.
    pub arrivals: &'a [u32],
}

/// The parameters of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call {
    /// The watermark before it.
    pub before: Option<i64>,
    /// The watermark after it.
    pub now: Option<i64>,
    /// Windows that ended at or before this have expired.
    pub horizon: Option<i64>,
    /// New rows are at or after this, and follow the existing rows of that time.
    pub floor: Option<i64>,
    /// The arrival number of the call's first row.
    pub base: u64,
    /// Windows start after this, if it is given.
    pub since: Option<i64>,
    /// Whether the stream ends.
    pub closing: bool,
    /// Whether rows may come out of order.
    pub is_out_of_order: bool,
}

impl Call {
    /// Whether the watermark has reached this time, if there is one.
    pub fn has_reached(&self, time: Option<i64>) -> bool {
        time.is_some_and(|time| self.now.is_some_and(|now| time <= now))
    }
}

/// The places of a call's rows among a key's, ascending.
#[derive(Debug, Clone, Copy)]
pub enum New<'a> {
    /// All places from this one on.
    From(usize),
    /// These places.
    At(&'a [usize]),
}

impl New<'_> {
    /// The first of `rows` rows that is new, or their number.
    fn first(&self, rows: usize) -> usize {
        match self {
            New::From(from) => *from,
            New::At(places) => places.first().copied().unwrap_or(rows),
        }
    }

    /// All of `rows` rows that are new.
    fn places(&self, rows: usize) -> impl Iterator<Item = usize> + use<'_> {
        let (from, these) = match self {
            New::From(from) => (*from, &[][..]),
            New::At(places) => (rows, *places),
        };
        (from..rows).chain(these.iter().copied())
    }

    /// Whether this place is among them.
    pub fn has(&self, place: usize) -> bool {
        match self {
            New::From(from) => *from <= place,
            New::At(places) => places.binary_search(&place).is_ok(),
        }
    }

    /// How many lie before this place.
    fn before(&self, place: usize) -> usize {
        match self {
            New::From(from) => place.saturating_sub(*from),
            New::At(places) => places.partition_point(|&row| row < place),
        }
    }
}

/// Reads columns of rows given by their arrival numbers.
pub trait ReadRows {
    /// The columns at these positions.
    ///
    /// # Errors
    /// Errors of Arrow.
    fn read(&self, positions: &[usize], ats: &[u64]) -> Result<Vec<ArrayRef>>;
}

/// A punctuation by a call: it separates the rows that had arrived by then, up to its time, from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// Its time.
    pub time: i64,
    /// The arrival number that the next row was to get at that moment.
    pub at: u64,
    /// Its key, or `None` for all keys.
    pub key: Option<u32>,
}

/// One query's rows of a key, and how a call changed them.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The key.
    pub key: u32,
    /// The time of each row, ascending.
    pub times: &'a [i64],
    /// The arrival number of each row: ascending where times are equal.
    pub ats: &'a [u64],
    /// The marks of the first rows, a bit per column of marks; later rows are unmarked.
    pub marks: &'a [u64],
    /// The positions of the columns of marks, by bit.
    pub mark_columns: &'a [usize],
    /// Punctuations by calls, ascending.
    pub points: &'a [Point],
    /// The rank of the first row.
    pub base: u64,
    /// The call's rows among these.
    pub new: New<'a>,
    /// Whether existing rows kept their places, before all new ones, so that no final window has changed.
    pub is_appended: bool,
    /// The parameters of the call.
    pub call: Call,
    /// Reads columns of rows.
    pub reader: &'a dyn ReadRows,
}

impl View<'_> {
    /// A view of the first rows, up to this place.
    pub fn upto_place(self, end: usize) -> Self {
        let marks = &self.marks[..end.min(self.marks.len())];
        Self { times: &self.times[..end], ats: &self.ats[..end], marks, ..self }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The place of the first new row.
    pub fn changed(&self) -> usize {
        self.new.first(self.len())
    }

    /// The places of the new rows, ascending.
    pub fn new_places(&self) -> impl Iterator<Item = usize> + '_ {
        self.new.places(self.len())
    }

    /// Whether some of these rows are new.
    pub fn has_new(&self, lo: usize, hi: usize) -> bool {
        self.new_before(lo) < self.new_before(hi)
    }

    /// How many new rows lie before this place.
    pub fn new_before(&self, place: usize) -> usize {
        self.new.before(place)
    }

    /// How many rows are at or before `t`.
    pub fn upto(&self, t: Option<i64>) -> usize {
        t.map_or(0, |t| self.times.partition_point(|&time| time <= t))
    }

    /// How many rows were final before the call: no row can come before them.
    pub fn final_before(&self) -> usize {
        let upto = self.upto(self.call.before);
        upto - self.new_before(upto)
    }

    /// How many are final now.
    pub fn final_rows(&self) -> usize {
        if self.call.closing { self.len() } else { self.upto(self.call.now) }
    }

    /// How many rows keep their places, whatever arrives.
    pub fn fixed_rows(&self) -> usize {
        self.upto(self.call.floor)
    }

    /// The time at which the next row is final.
    pub fn next_row(&self) -> Option<i64> {
        self.times.get(self.final_rows()).copied()
    }

    /// The first row in a window of this length, or of any length, that contains a row at or after the first changed
    /// one.
    pub fn first_within(&self, length: Option<i64>) -> usize {
        match (self.times.get(self.changed()), length) {
            (Some(&time), Some(length)) => {
                self.times.partition_point(|&other| other < time.saturating_sub(length))
            }
            (None, Some(_)) => self.len(),
            (_, None) => 0,
        }
    }

    /// The rank of the row at a place.
    pub fn rank(&self, place: usize) -> u64 {
        self.base + place as u64
    }

    /// The place of the first row that is not before this time and arrival number.
    pub fn place_from(&self, (time, at): (i64, u64)) -> usize {
        place_from(self.times, self.ats, (time, at))
    }

    /// Whether the row at a place is marked by the column at this position.
    pub fn is_marked(&self, column: usize, place: usize) -> bool {
        let bit = self.mark_columns.iter().position(|&own| own == column).unwrap_or_default();
        self.marks.get(place).is_some_and(|marks| marks >> bit & 1 == 1)
    }
}

/// The place of the first of these rows, in the order of time and arrival, that is not before this time and arrival number.
pub fn place_from(times: &[i64], ats: &[u64], (time, at): (i64, u64)) -> usize {
    let from = times.partition_point(|&other| other < time);
    let of_time =
        times[from..].iter().zip(&ats[from..]).take_while(|&(&other, &own)| other == time && own < at);
    from + of_time.count()
}

/// A window to be emitted: places of its rows among its query's, empty if the window is withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emission {
    /// Place of its first row.
    pub lo: usize,
    /// Place after its last row.
    pub hi: usize,
    /// Start and end on the measure.
    pub extent: (i64, i64),
    /// Its number, if it has one.
    pub number: i64,
    /// Whether it was emitted before.
    pub update: bool,
}

/// The outcome of a call for the windows of one type of one key.
#[derive(Debug, Default)]
pub struct Ready {
    /// Windows to be emitted.
    pub windows: Vec<Emission>,
    /// Edges of windows that the call made final or changed.
    pub edges: Vec<usize>,
    /// Edges before this place are unchanged; all are if it is `None`.
    pub from: Option<usize>,
    /// Whether some edge was removed.
    pub is_shrunk: bool,
}

impl Ready {
    /// Adds the window of rows `lo..hi`.
    pub fn emit(&mut self, lo: usize, hi: usize, extent: (i64, i64), update: bool) {
        self.emit_numbered(lo, hi, extent, 0, update);
    }

    /// Adds the window of rows `lo..hi` that has this number.
    pub fn emit_numbered(&mut self, lo: usize, hi: usize, extent: (i64, i64), number: i64, update: bool) {
        self.windows.push(Emission { lo, hi, extent, number, update });
    }

    /// Records that edges from this place on may have changed.
    pub fn looks_from(&mut self, place: usize) {
        self.from = Some(self.from.map_or(place, |from| from.min(place)));
    }

    /// Records that an edge was removed.
    pub fn drop_edge(&mut self, edge: usize) {
        self.looks_from(edge);
        self.is_shrunk = true;
    }
}

/// Places before which slices are cut.
#[derive(Debug, Default)]
pub struct RowCuts {
    /// Where a number of rows is reached: rows inserted earlier move the cut.
    pub by_rank: Vec<usize>,
    /// By time, or by a mark.
    pub by_edge: Vec<usize>,
}

impl RowCuts {
    /// Adds the places from `from` on whose rank is `begin` plus a multiple of `step`, zero included.
    pub fn every(&mut self, view: &View<'_>, from: usize, family: (u64, u64)) {
        let ranks = ranks_from(view.rank(from), family).take_while(|&rank| rank < view.rank(view.len()));
        self.by_rank.extend(ranks.map(|rank| (rank - view.base) as usize));
    }
}

/// The ranks from `from` on that are `begin` plus a multiple of `step`, zero included.
pub(super) fn ranks_from(from: u64, (begin, step): (u64, u64)) -> impl Iterator<Item = u64> {
    let first = if from <= begin { begin } else { begin + (from - begin).div_ceil(step) * step };
    (first..).step_by(step as usize)
}

/// The earlier of two times, if there are any.
pub fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
