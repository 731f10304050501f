//! Where the rows of a call go: to cells, each of them rows of one slice, a slot of the call's partials.

use crate::aggregate::Run;

/// Rows to be added to a slice: a slot, and the times of its first and last row.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Their key.
    pub key: u32,
    /// Their first time.
    pub first: i64,
    /// Their last time.
    pub last: i64,
}

/// The keys of rows.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// All have this one.
    One(u32),
    /// One each.
    Each(&'a [u32]),
}

/// Where rows go.
#[derive(Debug)]
pub enum Cut<'a> {
    /// Rows in order, run by run.
    Runs(&'a [Run]),
    /// The cell of each row.
    Slots(&'a [u32]),
    /// Some rows in order, others not.
    Parted(&'a Parted),
}

/// Rows of one key, in two parts.
#[derive(Debug, Default)]
pub struct Parted {
    /// Numbers of the rows that no row with a later time precedes.
    pub front: Vec<u32>,
    /// Their times, which ascend.
    pub front_times: Vec<i64>,
    /// Their runs.
    pub runs: Vec<Run>,
    /// Numbers of the other rows.
    pub late: Vec<u32>,
    /// Their times.
    pub late_times: Vec<i64>,
    /// Their cells.
    pub late_slots: Vec<u32>,
}

impl Parted {
    /// Separates rows; returns the first and the last time of all rows, of which there is at least one.
    pub(super) fn part(&mut self, times: &[i64]) -> (i64, i64) {
        let Self { front, front_times, late, late_times, .. } = self;
        front.resize(times.len(), 0);
        front_times.resize(times.len(), 0);
        late.resize(times.len(), 0);
        late_times.resize(times.len(), 0);
        let (mut fronts, mut lates) = (0, 0);
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        // Each row is written to both parts, but counted in one: no branch to predict.
        for (row, &t) in times.iter().enumerate() {
            let is_late = t < most;
            (front[fronts], front_times[fronts]) = (row as u32, t);
            (late[lates], late_times[lates]) = (row as u32, t);
            fronts += usize::from(!is_late);
            lates += usize::from(is_late);
            (least, most) = (least.min(t), most.max(t));
        }
        front.truncate(fronts);
        front_times.truncate(fronts);
        late.truncate(lates);
        late_times.truncate(lates);
        (least, most)
    }

    /// The cell of each of all `rows` rows.
    pub fn slots(&self, rows: usize) -> Vec<u32> {
        let mut slots = vec![0; rows];
        for run in &self.runs {
            self.front[run.from..run.to].iter().for_each(|&row| slots[row as usize] = run.slot);
        }
        for (&row, &slot) in self.late.iter().zip(&self.late_slots) {
            slots[row as usize] = slot;
        }
        slots
    }
}

/// The cell of each row of these runs, which follow one another.
pub(super) fn slots_of(runs: &[Run]) -> Vec<u32> {
    runs.iter().flat_map(|run| std::iter::repeat_n(run.slot, run.to - run.from)).collect()
}
