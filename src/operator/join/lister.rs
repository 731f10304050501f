//! Lists the rows of the result, some at a time.

use super::condition::Condition;
use super::kind::{JoinKind, Which};
use super::partners::{Partners, Range};
use super::side::Side;
use crate::Result;
use crate::interrupt::Pace;
use crate::operator::numbered::NONE;

/// Some rows of the result, as they are listed: row by row of the side that leads.
#[derive(Debug)]
pub(super) struct Listed {
    which: Which,
    runs: Vec<Run>,
    /// The place of the window of each run; empty if rows are not joined by windows.
    windows: Vec<Option<i64>>,
    rows: usize,
}

/// A row of the side that leads, with some of its partners.
#[derive(Debug, Clone, Copy)]
struct Run {
    row: u32,
    partners: Range,
}

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

impl Listed {
    /// How many rows of the result they are.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// The side that leads.
    pub(super) fn which(&self) -> Which {
        self.which
    }

    fn push(&mut self, row: u32, partners: Range) {
        self.runs.push(Run { row, partners });
        self.rows += partners.len().max(1) as usize;
    }

    /// They themselves, where `other` is the side that does not lead.
    pub(super) fn rows(&self, other: &Side) -> Rows {
        let (mut own, mut others) = (Vec::with_capacity(self.rows), Vec::with_capacity(self.rows));
        let mut windows = Vec::with_capacity(if self.windows.is_empty() { 0 } else { self.rows });
        for &Run { row, partners } in &self.runs {
            match partners {
                Range::NONE => others.push(NONE),
                Range { begin, end: Range::ONE } => others.push(begin),
                Range { begin, end } => {
                    let partners = &other.order.slots[begin as usize..end as usize];
                    others.extend(partners.iter().map(|&(_, partner)| partner));
                }
            }
            own.resize(others.len(), row);
        }
        for (run, &window) in self.runs.iter().zip(&self.windows) {
            windows.resize(windows.len() + run.partners.len().max(1) as usize, window);
        }
        let (left, right) = if self.which == Which::Left { (own, others) } else { (others, own) };
        Rows { left, right, windows }
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
    ) -> Result<Listed> {
        let runs = Vec::with_capacity(count.min(self.partners.len() - self.row));
        let mut rows = Listed { which: self.which, runs, windows: Vec::new(), rows: 0 };
        let mut pace = Pace::new();
        while rows.len() < count && self.row < self.partners.len() {
            pace.check(1)?;
            match condition.windows() {
                None => self.list(count, &mut rows),
                Some(_) => self.list_windows(condition, own, other, count, &mut rows)?,
            }
        }
        Ok(rows)
    }

    /// Lists a row with its partners, as far as there is room.
    fn list(&mut self, count: usize, rows: &mut Listed) {
        let (row, partners) = (self.row as u32, self.partners.of_row(self.row));
        let is_alone = partners.len() == 0;
        if is_alone || !self.what.has_pairs() {
            if if is_alone { self.what.has_rest() } else { self.what == What::Some } {
                rows.push(row, Range::NONE);
            }
            self.row += 1;
            return;
        }
        if partners.len() == 1 {
            rows.push(row, partners);
            self.row += 1;
            return;
        }
        let begin = if let Place::At(at) = self.place { at } else { partners.begin };
        let end = partners.end.min(begin + (count - rows.len()) as u32);
        rows.push(row, Range { begin, end });
        self.place = Place::At(end);
        if end == partners.end {
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
        rows: &mut Listed,
    ) -> Result<()> {
        let (row, Range { begin: first, end: most }) = (self.row as u32, self.partners.of_row(self.row));
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
                        rows.push(row, Range::NONE);
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
                    rows.push(row, Range::NONE);
                }
            } else {
                let to = window.end.min(window.at + (count - rows.len()) as u32);
                rows.push(row, Range { begin: window.at, end: to });
                window.at = to;
            }
            rows.windows.resize(rows.runs.len(), Some(window.id));
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
