//! The clock, as the sources of a stream are judged by it.

/// A pause between two calls counts as this part of the time for which a source must be silent at most.
const PART: i64 = 10;

/// The clock, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    /// In how much time sources could speak: a restored operator begins to listen anew.
    pub(super) heard: i64,
    pub(super) now: Option<i64>,
}

impl Clock {
    /// Sets the clock, which never goes back. While nobody calls, no source can speak, so that a long pause since the last
    /// call counts as a short one, unless the caller has waited for rows all the time. Where silence matters, it does from
    /// so many microseconds on.
    pub(super) fn set(&mut self, now: i64, silence: Option<i64>, has_waited: bool) {
        let pause = self.now.map_or(0, |before| now.saturating_sub(before));
        let most = silence.map_or(0, |least| if has_waited { i64::MAX } else { (least / PART).max(1) });
        self.heard = self.heard.saturating_add(pause.clamp(0, most));
        self.now = self.now.max(Some(now));
    }
}
