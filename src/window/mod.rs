//! Window types, each given by three functions after Li, *Window Queries over Data Streams* (2008), chapter 5:
//!
//! - `windows()`: which windows exist over a stretch of the measure,
//! - `extent(w)`: which part of the measure window `w` covers — the definition, and what tests evaluate,
//! - `wids(t)`: which windows a row at `t` belongs to — the inverse of `extent`, and what runs.
//!
//! Their class decides what must be stored (Traub et al. 2019, §4.3): a *context-free* window (CF) has all its edges
//! known before any row; a session's edges depend on the rows (*context aware*), but its fragments merge, so no
//! tuples are kept for it either.

pub mod measure;
mod session;
mod sliding;

pub use measure::Measure;
pub use session::Session;
pub use sliding::Sliding;

/// A window type over one advancing measure, in units of that measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Sliding windows; tumbling ones are those whose slide is their size.
    Sliding(Sliding),
    /// Sessions, closed by a gap without rows.
    Session(Session),
}

impl Window {
    /// How far from its rows a window's edges can lie.
    pub fn reach(&self) -> i64 {
        match self {
            // Both the first window's start and, in between, `start + slide` are computed.
            Window::Sliding(w) => w.size().saturating_add(w.slide()),
            Window::Session(w) => w.gap(),
        }
    }
}
