//! Lists the rows of the result, some at a time.

use super::condition::Condition;
use super::kind::{JoinKind, Which};
use super::part::NONE;
use super::partners::Partners;
use super::side::Side;
use crate::Result;
use crate::interrupt::Pace;

/// Some rows of the result: rows of both sides, [`NONE`] where there is none, and the places of their windows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) left: Vec<u32>,
    pub(super) right: Vec<u32>,
    /// Empty if rows are not joined by windows.
    pub(super) windows: Vec<Option<i64>>,
}

/// What is listed of the rows of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Pairs with their partners.
    Pairs,
    /// Pairs, and rows without partners.
    PairsAndRest,
    /// Rows with partners, once.
    Some,
    /// Rows without partners.
    Rest,
}

/// A walk over the rows of a side, in their order.
pub(super) struct Lister {
    which: Which,
    what: What,
    partners: Partners,
    row: usize,
    place: Place,
}

/// Where it is within a row.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Before it.
    Before,
    /// At this partner.
    At(u32),
    /// In one of its windows.
    In(InWindow),
}

/// The place within a window.
#[derive(Debug, Clone, Copy)]
struct InWindow {
    /// The place of the window.
    id: i64,
    /// The last window of the row.
    last: i64,
    /// Where partners in the window begin and end.
    begin: u32,
    end: u32,
    /// The next one of them.
    at: u32,
}

impl What {
    /// What a join lists of its left side.
    pub(super) fn of(kind: JoinKind) -> Self {
        match kind {
            JoinKind::Inner | JoinKind::Right => What::Pairs,
            JoinKind::Left | JoinKind::Full => What::PairsAndRest,
            JoinKind::Semi => What::Some,
            JoinKind::Anti => What::Rest,
        }
    }

    fn has_pairs(self) -> bool {
        matches!(self, What::Pairs | What::PairsAndRest)
    }

    fn has_rest(self) -> bool {
        matches!(self, What::Rest | What::PairsAndRest)
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    fn push(&mut self, which: Which, own: u32, other: u32) {
        let (left, right) = match which {
            Which::Left => (own, other),
            Which::Right => (other, own),
        };
        self.left.push(left);
        self.right.push(right);
    }
}

impl Lister {
    pub(super) fn new(which: Which, what: What, partners: Partners) -> Self {
        Self { which, what, partners, row: 0, place: Place::Before }
    }

    /// The side whose rows it lists.
    pub(super) fn which(&self) -> Which {
        self.which
    }

    /// Up to `count` rows, none only at the end.
    ///
    /// # Errors
    /// That of an interrupt.
    pub(super) fn next(
        &mut self,
        condition: &Condition,
        own: &Side,
        other: &Side,
        count: usize,
    ) -> Result<Rows> {
        let (mut rows, mut pace) = (Rows::default(), Pace::new());
        while rows.len() < count && self.row < self.partners.len() {
            pace.check(1)?;
            match condition.windows() {
                None => self.list(other, count, &mut rows),
                Some(_) => self.list_windows(condition, own, other, count, &mut rows)?,
            }
        }
        Ok(rows)
    }

    /// Lists a row with its partners, as far as there is room.
    fn list(&mut self, other: &Side, count: usize, rows: &mut Rows) {
        let (row, [begin, end]) = (self.row as u32, self.partners.of_row(self.row));
        if begin == end || !self.what.has_pairs() {
            if (begin == end && self.what.has_rest()) || (begin < end && self.what == What::Some) {
                rows.push(self.which, row, NONE);
            }
            self.row += 1;
            return;
        }
        let from = if let Place::At(at) = self.place { at } else { begin };
        let to = end.min(from + (count - rows.len()) as u32);
        for &(_, partner) in &other.order.slots[from as usize..to as usize] {
            rows.push(self.which, row, partner);
        }
        self.place = Place::At(to);
        if to == end {
            (self.row, self.place) = (self.row + 1, Place::Before);
        }
    }

    /// Lists a row with its partners in each of its windows, as far as there is room.
    fn list_windows(
        &mut self,
        condition: &Condition,
        own: &Side,
        other: &Side,
        count: usize,
        rows: &mut Rows,
    ) -> Result<()> {
        let (row, [first, most]) = (self.row as u32, self.partners.of_row(self.row));
        let mut pace = Pace::new();
        let mut window = match self.place {
            Place::In(window) => window,
            _ if first == most && !self.what.has_rest() => {
                self.row += 1;
                return Ok(());
            }
            _ => match own.windows(row)? {
                Some((id, last)) => {
                    let mut window = InWindow { id, last, begin: first, end: first, at: first };
                    window.find(condition, other, most, &mut pace)?;
                    window
                }
                None => {
                    if self.what.has_rest() {
                        rows.push(self.which, row, NONE);
                        rows.windows.push(None);
                    }
                    self.row += 1;
                    return Ok(());
                }
            },
        };
        while rows.len() < count {
            pace.check(1)?;
            let is_alone = window.begin == window.end;
            if is_alone || !self.what.has_pairs() {
                if if is_alone { self.what.has_rest() } else { self.what == What::Some } {
                    rows.push(self.which, row, NONE);
                }
            } else {
                let to = window.end.min(window.at + (count - rows.len()) as u32);
                for &(_, partner) in &other.order.slots[window.at as usize..to as usize] {
                    rows.push(self.which, row, partner);
                }
                window.at = to;
            }
            rows.windows.resize(rows.len(), Some(window.id));
            if window.at < window.end && self.what.has_pairs() {
                break;
            }
            if window.id >= window.last {
                (self.row, self.place) = (self.row + 1, Place::Before);
                return Ok(());
            }
            window.id = condition.next(window.id)?;
            window.find(condition, other, most, &mut pace)?;
        }
        self.place = Place::In(window);
        Ok(())
    }
}

impl InWindow {
    /// Finds the partners in its window among those up to `most`.
    fn find(&mut self, condition: &Condition, other: &Side, most: u32, pace: &mut Pace) -> Result<()> {
        let places = |at: u32| condition.places(other.order.slots[at as usize].0);
        while self.begin < most && places(self.begin)?.is_some_and(|(_, to)| to < self.id) {
            pace.check(1)?;
            self.begin += 1;
        }
        self.end = self.end.max(self.begin);
        while self.end < most && places(self.end)?.is_some_and(|(from, _)| from <= self.id) {
            pace.check(1)?;
            self.end += 1;
        }
        self.at = self.begin;
        Ok(())
    }
}
