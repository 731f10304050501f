//! Windows determined by rows, where rows come in order: what must be known of a key's earlier rows so that slices are cut
//! where windows begin and end, and nowhere else. No row is kept then (Traub et al. 2019, §5.1, Fig. 4).

use arrow_array::ArrayRef;
use serde::{Deserialize, Serialize};

/// The rank of no row.
pub const NO_RANK: u64 = u64::MAX;

/// How far the rows of a key have brought its windows of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The number of the next window to end or, where windows count rows, the rank at which slices are cut next, counted from
    /// their first row.
    pub number: i64,
    /// The rank of the first row of the window that is open or, if none is, of the row before which the last one ended;
    /// [`NO_RANK`] before the first window. Where windows count rows, the rank of their first row.
    pub edge: u64,
    /// Whether a window is open that shares no rows with others.
    pub is_open: bool,
    /// From when to when its rows keep that window open, where they do.
    pub extent: (i64, i64),
}

impl Position {
    /// Before the first row.
    pub const START: Self = Self { number: 0, edge: NO_RANK, is_open: false, extent: (0, 0) };

    /// The window that is open after so many rows of its key.
    pub(super) fn window(&self, rows: u64, end: Option<i64>) -> Ended {
        Ended { window: 0, key: 0, lo: self.edge, hi: rows, origin: 0, end, number: self.number }
    }
}

/// The positions of all keys in their windows of one type.
pub struct OfKeys<'a> {
    all: &'a mut [Position],
    /// How many window types there are, and which of them this is.
    types: usize,
    at: usize,
}

impl<'a> OfKeys<'a> {
    /// The positions of keys in the window type `at`, where each key has a position in each of `types` types.
    pub fn new(all: &'a mut [Position], (at, types): (usize, usize)) -> Self {
        Self { all, types, at }
    }

    /// The position of a key.
    #[inline]
    pub fn of(&mut self, key: u32) -> &mut Position {
        &mut self.all[key as usize * self.types + self.at]
    }
}

/// Keys of rows, and the ranks of rows among those of their keys.
#[derive(Debug, Clone, Copy)]
pub enum Ranks<'a> {
    /// All rows are of one key; the first has this rank.
    One(u32, u64),
    /// Keys and ranks, row by row.
    Each(&'a [u32], &'a [u64]),
}

/// Rows in order.
#[derive(Debug, Clone, Copy)]
pub struct OrderedRows<'a> {
    /// Their times, ascending.
    pub times: &'a [i64],
    /// Their keys and ranks.
    pub ranks: Ranks<'a>,
    /// The columns of [`Rules::columns`](super::Rules::columns), in that order.
    pub columns: &'a [ArrayRef],
    /// Only rows from this one on belong to the windows.
    pub from: usize,
}

impl OrderedRows<'_> {
    /// The key and the rank of a row.
    #[inline]
    fn rank(&self, row: usize) -> (u32, u64) {
        match self.ranks {
            Ranks::One(key, first) => (key, first + row as u64),
            Ranks::Each(keys, ranks) => (keys[row], ranks[row]),
        }
    }

    /// The rows of the windows: each with its place, its key and its rank.
    pub fn each(&self) -> impl Iterator<Item = (usize, u32, u64)> + '_ {
        (self.from..self.times.len()).map(|row| {
            let (key, rank) = self.rank(row);
            (row, key, rank)
        })
    }

    /// The rows of the windows, in stretches of one key that follow each other: the first of them, how many there are, the
    /// key, and the rank of the first.
    pub fn stretches(&self) -> impl Iterator<Item = (usize, usize, u32, u64)> + '_ {
        let mut from = self.from;
        std::iter::from_fn(move || {
            let (row, left) = (from, self.times.len() - from);
            let count = if let Ranks::One(..) = self.ranks { left } else { left.min(1) };
            from += count;
            (count > 0).then(|| {
                let (key, rank) = self.rank(row);
                (row, count, key, rank)
            })
        })
    }
}

/// A window that has ended: ranks of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Which window type it is of.
    pub window: usize,
    /// Its key.
    pub key: u32,
    /// The rank of its first row.
    pub lo: u64,
    /// The rank after its last row.
    pub hi: u64,
    /// The rank of the first row of its key that belongs to windows of the type, where they count rows.
    pub origin: u64,
    /// Its end on the measure, unless that is the time of its last row.
    pub end: Option<i64>,
    /// Its number, if it has one.
    pub number: i64,
}

/// What follows from rows: where slices are cut, and which windows end.
#[derive(Debug, Default)]
pub struct Edges {
    /// The window type that is looked at.
    pub window: usize,
    /// The rows before which slices are cut.
    pub cuts: Vec<u32>,
    /// The windows that have ended; those of one key and type in their order.
    pub ended: Vec<Ended>,
}

impl Edges {
    /// Cuts before a row.
    #[inline]
    pub fn cut(&mut self, row: usize) {
        self.cuts.push(row as u32);
    }

    /// Begins a window at a row of this rank.
    pub(super) fn begin(&mut self, position: &mut Position, row: usize, rank: u64) {
        self.cut(row);
        (position.edge, position.is_open) = (rank, true);
    }

    /// Ends the window of a key that is open, if one is, before the row of this rank; `end` is its end on the measure, unless
    /// that is the time of its last row.
    pub fn end(&mut self, position: &mut Position, (key, rank): (u32, u64), end: Option<i64>) {
        if position.is_open {
            self.ended.push(Ended { window: self.window, key, ..position.window(rank, end) });
            (position.edge, position.is_open) = (rank, false);
            position.number += 1;
        }
    }
}
