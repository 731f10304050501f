//! What calls rely on of a key's rows, slices and windows: looked through when a snapshot is taken up.
//!
//! The checksum of a snapshot says that it is what was written, not who wrote it. What numbers say is another's; but a call
//! would fail where the rows of a window are not cut off by slices, or where a window was told that is none.

use super::Keeper;
use super::due::{Call, is_calendar};
use super::line::Line;
use super::told::{Numbered, Told};
use crate::Result;
use crate::operator::stream::Asked;
use crate::state::broken;
use crate::window::Window;

/// Greatest rank and number of a window: what is counted from there on fits.
const MOST: u64 = 1 << 62;

impl Keeper {
    /// Refuses what no operator holds. O(rows).
    ///
    /// # Errors
    /// `InvalidValue` if the contents contradict each other.
    pub(super) fn check(&self) -> Result<()> {
        let call = self.call(self.watermark, false);
        let is_whole = |(key, line): (u32, &Line)| {
            self.has_ranks(line) && self.has_told(key, line, call) && self.is_cut(key, line)
        };
        match self.points.is_sorted() && (0..).zip(&self.lines).all(is_whole) {
            true => Ok(()),
            false => broken(),
        }
    }

    /// Whether times are such as are taken, and windows by ranks that are not told have all their rows.
    fn has_ranks(&self, line: &Line) -> bool {
        let (least, most) = self.queries.edges().bounds();
        let is_within = |time: Option<&i64>| time.is_none_or(|time| (least..=most).contains(time));
        let asked = self.queries.asked();
        let has_rows = |(query, asked): (usize, &Asked)| {
            let gone = line.gone.get(query).copied().unwrap_or_default();
            let times = &line.times[line.first_of(asked.since)..];
            let fixed = self.floor().map_or(0, |floor| times.partition_point(|&time| time <= floor));
            gone <= MOST
                && asked.plan.windows().iter().all(|(_, window)| match window {
                    Window::Counted(kind) => kind.first_needed(gone + fixed as u64) >= gone,
                    _ => true,
                })
        };
        is_within(line.times.first())
            && is_within(line.times.last())
            && line.gone.len() <= asked.len()
            && asked.iter().enumerate().all(has_rows)
    }

    /// Whether windows that were told by rows, and have numbers, are such as are final.
    fn has_told(&self, key: u32, line: &Line, call: Call) -> bool {
        let of = |each: &Numbered| (each.query, each.window);
        let is_numbered = |each: &Numbered| match self.window_of(of(each)) {
            Window::Punctuation(_) => true,
            Window::User(user) => !is_calendar(user),
            _ => false,
        };
        let is_one = |(at, each): (usize, &Numbered)| {
            let (rows, others) = (0..=MOST as i64, &line.numbers[..at]);
            is_numbered(each) && rows.contains(&each.next) && others.iter().all(|other| of(other) != of(each))
        };
        let has_number = |told: &Told| {
            let own = line.numbers.iter().find(|each| of(each) == (told.query, told.window));
            own.is_some_and(|own| (0..own.next).contains(&told.number))
        };
        let place = |told: &Told| (told.query, told.window, told.time, told.first);
        line.numbers.iter().enumerate().all(is_one)
            && line.told.iter().chain(line.shown.iter().flat_map(|shown| shown.told())).all(has_number)
            && line.told.is_sorted_by(|a, b| place(a) < place(b))
            && line.told.chunk_by(|a, b| (a.query, a.window) == (b.query, b.window)).all(|told| {
                let known = line.numbers.iter().find(|each| of(each) == (told[0].query, told[0].window));
                known.is_some_and(|known| self.has_ended(key, line, known, told, call))
            })
            && line.numbers.iter().all(|known| self.has_ended(key, line, known, &[], call))
    }

    fn window_of(&self, (query, window): (usize, usize)) -> &Window {
        &self.queries.asked()[query].plan.windows()[window].1
    }

    /// Whether windows between marks are among those that are final, and these begin at one.
    fn has_ended(&self, key: u32, line: &Line, known: &Numbered, told: &[Told], call: Call) -> bool {
        let Window::Punctuation(kind) = self.window_of((known.query, known.window)) else {
            return told.is_empty();
        };
        let (cuts, offset) =
            (self.cuts_of(kind, key), line.first_of(self.queries.asked()[known.query].since));
        let first = known.first_of(line, offset);
        let begins = first == offset || cuts.before(line, first).is_some();
        let mut finals = cuts.windows(line, first).filter(|&(.., closed)| call.has_reached(closed));
        begins && told.iter().all(|told| finals.any(|(lo, hi, _)| line.places_of(told) == Some((lo, hi))))
    }

    /// Whether slices begin wherever rows tell that they do. Other edges are those of windows that a call hands out, which
    /// cuts slices there.
    fn is_cut(&self, key: u32, line: &Line) -> bool {
        let begins =
            |place: usize| line.slices.binary_search_by_key(&place, |slice| slice.lo as usize).is_ok();
        self.cuts(key, line, 0, &[]).into_iter().all(|(place, _)| begins(place))
    }
}
