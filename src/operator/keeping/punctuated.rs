//! Windows between marks, and between punctuations by calls: where these cut a key's rows.

use super::Keeper;
use super::due::{Listing, View, earlier};
use super::line::Line;
use super::told::Told;
use crate::window::{Mark, Punctuation};

/// A punctuation by a call: between the rows that had come by then, up to its time, and all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) time: i64,
    /// The arrival number of the next row then.
    pub(super) at: u64,
    /// Whose; every key's if there is none.
    pub(super) key: Option<u32>,
}

/// Where marks and punctuations cut a key's rows.
pub(super) struct Cuts<'a> {
    pub(super) points: &'a [Point],
    pub(super) key: u32,
    pub(super) mark: Mark,
    /// The bit of the column of marks.
    pub(super) bit: u32,
}

impl Cuts<'_> {
    fn marked(&self, line: &Line, place: usize) -> bool {
        line.marks_of(place) >> self.bit & 1 == 1
    }

    /// Whether the row at this place is marked as the last of its window, so that no other can come after it.
    pub(super) fn closes(&self, line: &Line, place: usize) -> bool {
        self.mark == Mark::End && self.marked(line, place)
    }

    /// Whether there is a cut before the row at this place, or after the last; the time of what cuts first.
    pub(super) fn before(&self, line: &Line, place: usize) -> Option<i64> {
        let mark = match self.mark {
            Mark::End => self.marked(line, place - 1).then(|| line.times[place - 1]),
            Mark::Start => (place < line.len() && self.marked(line, place)).then(|| line.times[place]),
        };
        if self.points.is_empty() {
            return mark;
        }
        let before = (line.times[place - 1], line.ats[place - 1]);
        let after = (place < line.len()).then(|| (line.times[place], line.ats[place]));
        // A row of its time that came before it lies before it.
        let from = self.points.partition_point(|point| (point.time, point.at) <= before);
        let point = self.points[from..]
            .iter()
            .take_while(|point| after.is_none_or(|after| (point.time, point.at) <= after))
            .find(|point| point.key.is_none_or(|key| key == self.key))
            .map(|point| point.time);
        earlier(mark, point)
    }

    /// The windows of a key's rows from place `from` on, where one begins: the places where each begins and ends, and the
    /// time of what ends it; none of the last rows if nothing has yet.
    pub(super) fn windows(
        &self,
        line: &Line,
        from: usize,
    ) -> impl Iterator<Item = (usize, usize, Option<i64>)> {
        let mut lo = from;
        (from + 1..=line.len()).filter_map(move |hi| {
            let closed = self.before(line, hi);
            let is_one = closed.is_some() || hi == line.len();
            is_one.then(|| (std::mem::replace(&mut lo, hi), hi, closed))
        })
    }
}

impl Keeper {
    /// Where a punctuation window cuts a key's rows.
    pub(super) fn cuts_of(&self, kind: &Punctuation, key: u32) -> Cuts<'_> {
        let bit = self.mark_columns.iter().position(|&column| column == kind.column());
        Cuts { points: &self.points, key, mark: kind.mark(), bit: bit.unwrap_or_default() as u32 }
    }
}

impl View<'_> {
    /// Windows between marks.
    pub(super) fn punctuated(&self, cuts: &Cuts<'_>, out: &mut Listing<'_>) -> Option<i64> {
        let (mut finals, mut next) = (Vec::new(), None);
        let own = (self.query, self.window);
        let known = out.numbers.iter().find(|each| (each.query, each.window) == own);
        let mut lo = known.map_or(self.offset, |known| known.first_of(self.line, self.offset));
        let is_own = |told: &Told| (told.query, told.window) == own;
        if self.is_appended {
            // Windows that were told stay as they are.
            let after = out.told.partition_point(|told| (told.query, told.window) <= own);
            if let Some(last) = out.told[..after].last().filter(|last| is_own(last)) {
                let first = self.line.place_from((last.time, last.first)).max(self.offset);
                lo = lo.max(first + last.rows as usize);
            }
        }
        for (lo, hi, closed) in cuts.windows(self.line, lo) {
            if self.call.closing || self.call.has_reached(closed) {
                finals.push(self.told_by_rows(lo - self.offset, hi - self.offset));
            } else {
                next = earlier(next, closed);
            }
        }
        let told: Vec<Told> = match self.is_appended {
            true => Vec::new(),
            false => out.told.extract_if(.., |told| is_own(told)).collect(),
        };
        let numbered = self.compare(&told, &finals, out);
        let fresh = numbered.into_iter().map(|(at, number)| self.as_told(&finals[at], number));
        out.told.extend(fresh.collect::<Vec<_>>());
        out.told.sort_unstable_by_key(|told| (told.query, told.window, told.time, told.first));
        next
    }
}
