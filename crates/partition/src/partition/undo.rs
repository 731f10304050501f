//! What a partitioner has come to, and how a call is taken back.
//!
//! Decisions follow from the rows alone. So a call is taken back by a copy of an earlier state, and the hashes of the rows
//! between that and the call: they are decided again. A copy is made anew once these rows would need as much memory as it
//! does, so that it costs some bytes a row; all of it is at most three times the state, and a few MiB.

use super::window::Clock;
use super::{Decide, Loads};

/// Rows passed to a method at once: few enough for their hashes to stay in the first-level cache.
const CHUNK: usize = 1024;
/// Rows that are noted at least, and at most: to decide them again takes milliseconds.
const LEAST: usize = 1 << 14;
const MOST: usize = 1 << 21;

/// What changes from row to row.
pub(super) struct State {
    pub(super) method: Box<dyn Decide>,
    pub(super) loads: Loads,
    pub(super) clock: Clock,
    pub(super) windows: u64,
    /// The types of key columns, once there were any: keys of other types have other hashes.
    pub(super) kinds: Option<Vec<String>>,
}

impl State {
    /// Before any row.
    pub(super) fn new(method: Box<dyn Decide>, workers: u32) -> Self {
        let loads = Loads(vec![0; workers as usize]);
        Self { method, loads, clock: Clock::default(), windows: 0, kinds: None }
    }

    /// Forgets all rows and windows.
    pub(super) fn reset(&mut self) {
        self.method.reset();
        self.loads.0.fill(0);
        (self.clock, self.windows, self.kinds) = (Clock::default(), 0, None);
    }

    /// The next row belongs to another window.
    pub(super) fn end_window(&mut self) {
        self.loads.0.fill(0);
        self.method.end_window();
        self.windows += 1;
    }

    /// Appends the worker of each row, given by its key's hash.
    pub(super) fn decide(&mut self, hashes: &[u64], workers: &mut Vec<i32>) {
        for chunk in hashes.chunks(CHUNK) {
            self.method.decide(chunk, &mut self.loads, workers);
        }
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.loads.all()) + self.method.bytes()
    }

    fn copied(&self) -> Self {
        let Self { method, loads, clock, windows, kinds } = self;
        Self {
            method: method.copied(),
            loads: loads.clone(),
            clock: clock.clone(),
            windows: *windows,
            kinds: kinds.clone(),
        }
    }
}

/// How to get back to the state before the last call.
#[derive(Default)]
pub(super) struct Undo {
    /// A state before some rows.
    base: Option<State>,
    /// The hashes of these rows, and where among them windows ended.
    hashes: Vec<u64>,
    ends: Vec<usize>,
    /// How many there may be.
    most: usize,
    call: Option<Call>,
}

/// The call that can be taken back.
struct Call {
    /// What was noted before it.
    hashes: usize,
    ends: usize,
    clock: Clock,
    kinds: Option<Vec<String>>,
    /// Whether it had too many rows to note them.
    is_long: bool,
}

impl Undo {
    /// A call begins with this state.
    pub(super) fn begin(&mut self, state: &State) {
        if self.base.is_none() {
            self.hashes.clear();
            self.ends.clear();
            self.base = Some(state.copied());
            self.most = (state.bytes() / size_of::<u64>()).clamp(LEAST, MOST);
        }
        self.call = Some(Call {
            hashes: self.hashes.len(),
            ends: self.ends.len(),
            clock: state.clock.clone(),
            kinds: state.kinds.clone(),
            is_long: false,
        });
    }

    /// Notes the rows of a call, before they are decided.
    pub(super) fn note(&mut self, hashes: &[u64]) {
        let Some(call) = &mut self.call else { return };
        call.is_long |= self.hashes.len() + hashes.len() > self.most;
        if !call.is_long {
            self.hashes.extend_from_slice(hashes);
        }
    }

    /// Notes that a window ends here.
    pub(super) fn note_end(&mut self) {
        if self.call.as_ref().is_some_and(|call| !call.is_long) {
            self.ends.push(self.hashes.len());
        }
    }

    /// Keeps what the call did, or takes it back.
    pub(super) fn settle(&mut self, state: &mut State, keeps: bool) {
        let Some(call) = self.call.take() else { return };
        if !keeps && let Some(mut base) = self.base.take() {
            let (mut from, mut workers) = (0, Vec::with_capacity(CHUNK));
            for &end in &self.ends[..call.ends] {
                replay(&mut base, &self.hashes[from..end], &mut workers);
                base.end_window();
                from = end;
            }
            replay(&mut base, &self.hashes[from..call.hashes], &mut workers);
            (base.clock, base.kinds) = (call.clock, call.kinds);
            *state = base;
        } else if call.is_long {
            self.base = None;
        }
    }
}

fn replay(state: &mut State, hashes: &[u64], workers: &mut Vec<i32>) {
    for chunk in hashes.chunks(CHUNK) {
        workers.clear();
        state.decide(chunk, workers);
    }
}
