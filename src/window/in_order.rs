//! Windows determined by rows, where rows come in order: what must be known of a key's earlier rows so that slices are cut
//! where windows begin and end, and nowhere else. No row is kept then (Traub et al. 2019, §5.1, Fig. 4).

use arrow_array::ArrayRef;
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use crate::Result;

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
}

/// The positions of all keys in their windows of one type.
pub struct OfKeys<'a> {
    all: &'a mut [Position],
    /// How many window types there are, and which of them this is.
    types: usize,
    at: usize,
}

impl<'a> OfKeys<'a> {
    /// Those of the window type `at`, of `types` types that each key has a position of.
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
    /// The columns of [`Rules::columns`], in that order.
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
    /// Those of a key and a type in their order.
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

    /// Ends the window of a key that is open, if one is, before the row of this rank.
    pub fn end(&mut self, rules: &dyn InOrder, position: &mut Position, key: u32, rank: u64) {
        if position.is_open {
            self.ended.push(Ended { window: self.window, key, ..rules.open_window(position, rank) });
            (position.edge, position.is_open) = (rank, false);
            position.number += 1;
        }
    }
}

/// A window type that is determined by rows, and where its windows begin and end by the rows up to there: where rows come in
/// order, none of them is looked at again.
///
/// The defaults are for windows that share no rows.
pub trait InOrder: Rules {
    /// Moves positions by rows, and says where these cut slices and which windows they end.
    ///
    /// # Errors
    /// Where a row's values make no window.
    fn follow(&self, rows: &OrderedRows<'_>, positions: &mut OfKeys<'_>, edges: &mut Edges) -> Result<()>;

    /// The watermark from which on an open window is final, whatever rows come; `None` if a row must end it.
    fn final_at(&self, position: &Position) -> Option<i64> {
        let _ = position;
        None
    }

    /// Where an open window ends, unless that is the time of its last row.
    fn end_of(&self, position: &Position) -> Option<i64> {
        let _ = position;
        None
    }

    /// The window that is open after so many rows of its key.
    fn open_window(&self, position: &Position, rows: u64) -> Ended {
        let Position { number, edge, .. } = *position;
        Ended { window: 0, key: 0, lo: edge, hi: rows, origin: 0, end: self.end_of(position), number }
    }

    /// The windows that the end of the stream would end after so many rows of a key.
    fn unfinished(&self, position: &Position, rows: u64) -> Vec<Ended> {
        match position.is_open {
            true => vec![self.open_window(position, rows)],
            false => Vec::new(),
        }
    }

    /// At most how many windows a row is in.
    fn windows_per_row(&self) -> u64 {
        1
    }

    /// The rank of the first row that windows still need, after so many rows of a key.
    fn needed(&self, position: &Position, rows: u64) -> u64 {
        if position.is_open { position.edge } else { rows }
    }

    /// Whether an operator could have this position after so many rows; `begins` says whether a slice begins at a rank.
    fn is_sound(&self, position: &Position, rows: u64, begins: &dyn Fn(u64) -> bool) -> bool {
        match position.is_open {
            true => position.edge < rows && begins(position.edge),
            false => position.edge == NO_RANK || position.edge <= rows,
        }
    }
}
