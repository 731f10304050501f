//! A key's rows in the order of time, and of arrival where times are equal, and the slices that they make up.

use super::context::{Shown, Undone};
use super::fresh::{Fresh, Own};
use super::told::{Numbered, Reopened, Told};

/// A slice: rows from one place to the next slice's, and the slots that hold its partials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    /// Place of its first row.
    pub(super) lo: u32,
    slot: u32,
    /// Slots of rows that came later, as long as they are not made one with the first.
    more: Vec<u32>,
}

/// Slots that a slice may have before those of rows put in among others are made one with them.
const CHAIN: usize = 8;

impl Slice {
    /// A slice of one slot.
    pub(super) fn new(lo: usize, slot: u32) -> Self {
        Self { lo: lo as u32, slot, more: Vec::new() }
    }

    /// Its slots, in the order of their rows' arrival.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.slot).chain(self.more.iter().copied())
    }

    /// Number of its slots.
    pub(super) fn width(&self) -> usize {
        1 + self.more.len()
    }

    /// Whether it can have one slot more of rows that lie among its own.
    pub(super) fn has_room(&self) -> bool {
        self.width() < CHAIN
    }

    /// The same at another place.
    pub(super) fn moved(&self, lo: usize) -> Self {
        Self { lo: lo as u32, ..self.clone() }
    }

    /// The same at another place, and with one slot more.
    pub(super) fn with(&self, lo: usize, slot: u32) -> Self {
        let mut moved = self.moved(lo);
        moved.more.push(slot);
        moved
    }

    /// Gets one slot more, of rows after its own.
    pub(super) fn grow(&mut self, slot: u32) {
        self.more.push(slot);
    }

    /// Has its first `width` slots only.
    fn shorten(&mut self, width: usize) {
        self.more.truncate(width - 1);
    }
}

/// A row on its way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) time: i64,
    /// Its arrival number.
    pub(super) at: u64,
    /// Bit n is set if the n-th column of marks is true.
    pub(super) marks: u64,
}

/// A key's rows and slices.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) times: Vec<i64>,
    pub(super) ats: Vec<u64>,
    /// Marks of the first rows; those of others have none.
    marks: Vec<u64>,
    pub(super) slices: Vec<Slice>,
    /// How many rows were forgotten of each query whose windows have ranks: the rank of its first row.
    pub(super) gone: Vec<u64>,
    /// Windows between marks that were handed out, by query and window, ascending.
    pub(super) told: Vec<Told>,
    /// The types of windows that are told by rows and have numbers.
    pub(super) numbers: Vec<Numbered>,
    /// Sessions that were handed out and that late rows opened again.
    pub(super) reopened: Vec<Reopened>,
    /// What users' windows were shown.
    pub(super) shown: Vec<Shown>,
    /// No watermark before this one makes a window final.
    pub(super) due: Option<i64>,
}

/// What a line was before a call: its rows from place `at` on, its slices from `slice` on, and what it told.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) key: u32,
    at: usize,
    rows: Vec<Row>,
    slice: usize,
    /// Slots of the slice before these.
    width: usize,
    slices: Vec<Slice>,
    told: Vec<Told>,
    numbers: Vec<Numbered>,
    reopened: Vec<Reopened>,
    pub(super) undone: Vec<Undone>,
    pub(super) due: Option<i64>,
}

impl Before {
    /// Notes the slices from `slice` on, which are about to be replaced.
    pub(super) fn note_slices(&mut self, line: &Line, slice: usize) {
        (self.slice, self.slices) = (slice, line.slices[slice..].to_vec());
        self.width = slice.checked_sub(1).map_or(1, |last| line.slices[last].width());
    }
}

impl Line {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + (self.times.capacity() + self.ats.capacity() + self.marks.capacity()) * size_of::<u64>()
            + self.slices.capacity() * size_of::<Slice>()
            + self.gone.capacity() * size_of::<u64>()
            + self.told.capacity() * size_of::<Told>()
            + self.numbers.capacity() * size_of::<Numbered>()
            + self.reopened.capacity() * size_of::<Reopened>()
            + self.shown.iter().map(Shown::bytes).sum::<usize>()
    }

    /// How many rows lie at or before `t`.
    pub(super) fn upto(&self, t: i64) -> usize {
        // Mostly all of them.
        match self.times.last() {
            Some(&last) if last > t => self.times.partition_point(|&time| time <= t),
            _ => self.len(),
        }
    }

    /// The place of the first row of a query whose stream begins after `since`.
    pub(super) fn first_of(&self, since: Option<i64>) -> usize {
        since.map_or(0, |since| self.times.partition_point(|&time| time <= since))
    }

    /// The place of the first row that is not before this time and arrival number.
    pub(super) fn place_from(&self, (time, at): (i64, u64)) -> usize {
        let from = self.times.partition_point(|&other| other < time);
        from + self.times[from..]
            .iter()
            .zip(&self.ats[from..])
            .take_while(|&(&other, &own)| other == time && own < at)
            .count()
    }

    /// The places `lo..hi` of the rows of a window that was told, if they are there.
    pub(super) fn places_of(&self, told: &Told) -> Option<(usize, usize)> {
        let lo = self.place_from((told.time, told.first));
        let hi = lo.checked_add(told.rows as usize).filter(|&hi| lo < hi && hi <= self.len())?;
        let is_there = (self.times[lo], self.ats[lo], self.ats[hi - 1]) == (told.time, told.first, told.last);
        is_there.then_some((lo, hi))
    }

    /// The row at a place.
    pub(super) fn row(&self, place: usize) -> Row {
        Row { time: self.times[place], at: self.ats[place], marks: self.marks_of(place) }
    }

    /// The marks of the row at a place.
    pub(super) fn marks_of(&self, place: usize) -> u64 {
        self.marks.get(place).copied().unwrap_or_default()
    }

    /// The places of a slice's rows.
    pub(super) fn rows_of(&self, slice: usize) -> (usize, usize) {
        let hi = self.slices.get(slice + 1).map_or(self.len(), |next| next.lo as usize);
        (self.slices[slice].lo as usize, hi)
    }

    /// What it is now, so far as rows put in at place `at` or after may change it; but for the slices.
    pub(super) fn before(&self, key: u32, at: usize) -> Before {
        Before {
            key,
            at,
            rows: (at..self.len()).map(|place| self.row(place)).collect(),
            slice: self.slices.len(),
            width: self.slices.last().map_or(1, Slice::width),
            slices: Vec::new(),
            told: self.told.clone(),
            numbers: self.numbers.clone(),
            reopened: self.reopened.clone(),
            undone: Vec::new(),
            due: self.due,
        }
    }

    /// Becomes what it was.
    pub(super) fn take_back(&mut self, before: Before) {
        self.truncate(before.at);
        before.rows.into_iter().for_each(|row| self.push(row));
        self.slices.truncate(before.slice);
        if let Some(last) = self.slices.last_mut() {
            last.shorten(before.width);
        }
        self.slices.extend(before.slices);
        before.undone.into_iter().for_each(|undone| undone.take_back(&mut self.shown));
        (self.told, self.numbers, self.reopened) = (before.told, before.numbers, before.reopened);
        self.due = before.due;
    }

    fn truncate(&mut self, len: usize) {
        self.times.truncate(len);
        self.ats.truncate(len);
        self.marks.truncate(len);
    }

    pub(super) fn push(&mut self, row: Row) {
        if row.marks != 0 {
            self.marks.resize(self.times.len(), 0);
            self.marks.push(row.marks);
        }
        self.times.push(row.time);
        self.ats.push(row.at);
    }

    /// The place of a row of this time that comes after all there are; that after all rows if there is none.
    pub(super) fn place_of(&self, time: Option<i64>) -> usize {
        time.map_or(self.len(), |time| self.upto(time))
    }

    /// Puts a key's rows, none of which comes before any there is, at the end. O(rows).
    pub(super) fn append(&mut self, fresh: &Fresh, own: Own) {
        let old = self.len();
        self.times.extend(fresh.rows_of(own).map(|row| fresh.times[row]));
        self.ats.extend(fresh.rows_of(own).map(|row| fresh.base + row as u64));
        if let Some(marks) = fresh.marks() {
            self.marks.resize(old, 0);
            self.marks.extend(fresh.rows_of(own).map(|row| marks[row]));
        }
    }

    /// Puts rows, which ascend and came after all there are, where they belong. O(rows from the first of them on).
    pub(super) fn insert(&mut self, rows: impl Iterator<Item = Row>) {
        let mut rows = rows.peekable();
        let at = self.place_of(rows.peek().map(|row| row.time));
        let later: Vec<Row> = (at..self.len()).map(|place| self.row(place)).collect();
        self.truncate(at);
        let mut later = later.into_iter().peekable();
        for row in rows {
            while let Some(other) = later.next_if(|other| other.time <= row.time) {
                self.push(other);
            }
            self.push(row);
        }
        later.for_each(|row| self.push(row));
    }

    /// Becomes one of `queries` queries: `places` has the place of each former one, and `bits` that of each column of marks.
    pub(super) fn change(&mut self, queries: usize, places: &[Option<usize>], bits: &[Option<usize>]) {
        let mut gone = vec![0; queries];
        for (place, &rows) in places.iter().zip(&self.gone) {
            if let Some(place) = *place {
                gone[place] = rows;
            }
        }
        self.gone = gone;
        let place = |query: usize| places.get(query).copied().flatten();
        self.told.retain_mut(|told| place(told.query).inspect(|&query| told.query = query).is_some());
        self.numbers.retain_mut(|each| place(each.query).inspect(|&query| each.query = query).is_some());
        self.reopened.retain_mut(|each| place(each.query).inspect(|&query| each.query = query).is_some());
        self.shown.retain_mut(|each| place(each.query).inspect(|&query| each.move_to(query)).is_some());
        for marks in &mut self.marks {
            let own = *marks;
            let moved = bits.iter().enumerate().filter(|&(bit, _)| own >> bit & 1 == 1);
            *marks = moved.filter_map(|(_, bit)| *bit).fold(0, |marks, bit| marks | 1 << bit);
        }
    }

    /// Forgets the slices before `slice`, and their rows. `own` says after which time each query's rows lie, and whether
    /// its windows have ranks.
    pub(super) fn forget(&mut self, slice: usize, own: impl Iterator<Item = (Option<i64>, bool)>) {
        let rows = if slice == self.slices.len() { self.len() } else { self.slices[slice].lo as usize };
        for (query, (since, _)) in own.enumerate().filter(|(_, (_, is_ranked))| *is_ranked) {
            if self.gone.len() <= query {
                self.gone.resize(query + 1, 0);
            }
            self.gone[query] += rows.saturating_sub(self.first_of(since)) as u64;
        }
        self.times.drain(..rows);
        self.ats.drain(..rows);
        self.marks.drain(..rows.min(self.marks.len()));
        self.slices.drain(..slice);
        self.slices.iter_mut().for_each(|slice| slice.lo -= rows as u32);
        match (self.times.first(), self.ats.first()) {
            (Some(&time), Some(&at)) => self.told.retain(|told| (told.time, told.first) >= (time, at)),
            _ => self.told.clear(),
        }
        if self.times.is_empty() {
            let Self { gone, numbers, reopened, shown, .. } = std::mem::take(self);
            *self = Self { gone, numbers, reopened, shown, ..Self::default() };
        } else if self.times.capacity() > 64 + 8 * self.len() {
            let room = 2 * self.len();
            self.times.shrink_to(room);
            self.ats.shrink_to(room);
            self.marks.shrink_to(room);
        }
    }

    /// Whether nothing is left of it that a row to come may need: no rows, no ranks and no numbers.
    pub(super) fn is_done(&self) -> bool {
        let has_rank = self.gone.iter().any(|&gone| gone > 0);
        let has_number = self.numbers.iter().any(|each| each.next > 0);
        self.len() == 0 && !has_rank && !has_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rows lie in the order of (time, arrival), and a call that is taken back leaves no trace.
        #[test]
        fn rows_are_in_order(calls in prop::collection::vec((prop::collection::vec(0i64..20, 0..6), any::<bool>()), 0..12)) {
            let (mut line, mut kept, mut next) = (Line::default(), Vec::new(), 0);
            for (times, fails) in calls {
                let mut rows: Vec<Row> =
                    times.iter().enumerate().map(|(at, &time)| Row { time, at: next + at as u64, marks: 0 }).collect();
                next += rows.len() as u64;
                rows.sort_unstable();
                let before = line.before(0, line.place_of(rows.first().map(|row| row.time)));
                line.insert(rows.iter().copied());
                if fails {
                    line.take_back(before);
                } else {
                    kept.extend(rows);
                    kept.sort_unstable();
                }
                let got: Vec<Row> = (0..line.len()).map(|place| line.row(place)).collect();
                prop_assert_eq!(&got, &kept);
            }
        }
    }
}
