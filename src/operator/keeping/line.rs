//! A key's rows in the order of time, and of arrival where times are equal, and the slices that they make up.

use super::told::{Numbered, Reopened, Told};

/// A slice: rows from one place to the next slice's, and the slots that hold its partials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    /// Place of its first row.
    pub(super) lo: u32,
    slot: u32,
    /// Slots of rows that came later, as long as they are not made one with the first.
    more: Option<Box<[u32]>>,
}

/// Slots that a slice may have before they are made one.
const CHAIN: usize = 8;

impl Slice {
    /// A slice of one slot.
    pub(super) fn new(lo: usize, slot: u32) -> Self {
        Self { lo: lo as u32, slot, more: None }
    }

    /// Its slots, in the order of their rows' arrival.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.slot).chain(self.more.iter().flat_map(|more| more.iter().copied()))
    }

    /// Number of its slots.
    pub(super) fn width(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.len())
    }

    /// Whether it can have one slot more.
    pub(super) fn has_room(&self) -> bool {
        self.width() < CHAIN
    }

    /// The same at another place.
    pub(super) fn moved(&self, lo: usize) -> Self {
        Self { lo: lo as u32, ..self.clone() }
    }

    /// The same at another place, and with one slot more.
    pub(super) fn with(&self, lo: usize, slot: u32) -> Self {
        let more = self.slots().skip(1).chain([slot]).collect();
        Self { lo: lo as u32, slot: self.slot, more: Some(more) }
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
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pub(super) times: Vec<i64>,
    pub(super) ats: Vec<u64>,
    pub(super) marks: Vec<u64>,
    pub(super) slices: Vec<Slice>,
    /// How many rows of each query were forgotten: the rank of its first row.
    pub(super) gone: Vec<u64>,
    /// Windows that are told by rows and were handed out, by query and window, ascending.
    pub(super) told: Vec<Told>,
    /// The types of such windows.
    pub(super) numbers: Vec<Numbered>,
    /// Sessions that were handed out and that late rows opened again.
    pub(super) reopened: Vec<Reopened>,
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
    slices: Vec<Slice>,
    told: Vec<Told>,
    numbers: Vec<Numbered>,
    reopened: Vec<Reopened>,
    due: Option<i64>,
}

impl Before {
    /// Notes the slices from `slice` on, which are about to be replaced.
    pub(super) fn note_slices(&mut self, line: &Line, slice: usize) {
        (self.slice, self.slices) = (slice, line.slices[slice..].to_vec());
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
            + self.told.capacity() * size_of::<Told>()
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

    /// The row at a place.
    pub(super) fn row(&self, place: usize) -> Row {
        Row { time: self.times[place], at: self.ats[place], marks: self.marks[place] }
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
            slices: Vec::new(),
            told: self.told.clone(),
            numbers: self.numbers.clone(),
            reopened: self.reopened.clone(),
            due: self.due,
        }
    }

    /// Becomes what it was.
    pub(super) fn take_back(&mut self, before: Before) {
        self.truncate(before.at);
        before.rows.into_iter().for_each(|row| self.push(row));
        self.slices.truncate(before.slice);
        self.slices.extend(before.slices);
        (self.told, self.numbers, self.reopened) = (before.told, before.numbers, before.reopened);
        self.due = before.due;
    }

    fn truncate(&mut self, len: usize) {
        self.times.truncate(len);
        self.ats.truncate(len);
        self.marks.truncate(len);
    }

    pub(super) fn push(&mut self, row: Row) {
        self.times.push(row.time);
        self.ats.push(row.at);
        self.marks.push(row.marks);
    }

    /// The place of the first of these rows, which ascend and came after all there are.
    pub(super) fn place_of(&self, rows: &[Row]) -> usize {
        rows.first().map_or(self.len(), |row| self.upto(row.time))
    }

    /// Puts rows, which ascend and came after all there are, where they belong. O(rows from the first of them on).
    pub(super) fn insert(&mut self, rows: &[Row]) {
        let at = self.place_of(rows);
        let later: Vec<Row> = (at..self.len()).map(|place| self.row(place)).collect();
        self.truncate(at);
        let mut later = later.into_iter().peekable();
        for &row in rows {
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
        for marks in &mut self.marks {
            let own = *marks;
            let moved = bits.iter().enumerate().filter(|&(bit, _)| own >> bit & 1 == 1);
            *marks = moved.filter_map(|(_, bit)| *bit).fold(0, |marks, bit| marks | 1 << bit);
        }
    }

    /// Forgets the slices before `slice`, and their rows. `own` says after which time each query's rows lie.
    pub(super) fn forget(&mut self, slice: usize, own: impl Iterator<Item = Option<i64>>) {
        let rows = if slice == self.slices.len() { self.len() } else { self.slices[slice].lo as usize };
        for (query, since) in own.enumerate() {
            if self.gone.len() <= query {
                self.gone.resize(query + 1, 0);
            }
            self.gone[query] += rows.saturating_sub(self.first_of(since)) as u64;
        }
        self.times.drain(..rows);
        self.ats.drain(..rows);
        self.marks.drain(..rows);
        self.slices.drain(..slice);
        self.slices.iter_mut().for_each(|slice| slice.lo -= rows as u32);
        match (self.times.first(), self.ats.first()) {
            (Some(&time), Some(&at)) => self.told.retain(|told| (told.time, told.first) >= (time, at)),
            _ => self.told.clear(),
        }
        if self.times.capacity() > 64 + 8 * self.len() {
            let room = 2 * self.len();
            self.times.shrink_to(room);
            self.ats.shrink_to(room);
            self.marks.shrink_to(room);
        }
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
                let before = line.before(0, line.place_of(&rows));
                line.insert(&rows);
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
