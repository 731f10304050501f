//! How a call of an operator of queries sees keys that are complete further than the stream: [`Ahead`] has their watermarks.

use super::queries::Queries;
use crate::operator::progress::Ahead;
use crate::window::Call;

/// How far a call moves the stream, and a key whose watermark moves by itself.
#[derive(Clone, Copy)]
pub(super) struct Reach<'a> {
    /// The watermark of the stream before the call, and after it.
    pub(super) before: Option<i64>,
    pub(super) after: Option<i64>,
    /// The only key whose watermark moves, and where to.
    pub(super) key_watermark: Option<(u32, i64)>,
    pub(super) ahead: &'a Ahead,
}

impl Reach<'_> {
    /// Whether no key is ahead of the stream, before the call or after it.
    pub(super) fn is_uniform(&self) -> bool {
        self.ahead.is_empty() && self.key_watermark.is_none()
    }

    /// Up to when a key is complete before the call.
    pub(super) fn before(&self, key: u32) -> Option<i64> {
        self.ahead.watermark_of(self.before, key)
    }

    /// Up to when a key is complete after the call.
    pub(super) fn after(&self, key: u32) -> Option<i64> {
        let own = self.key_watermark.filter(|own| own.0 == key).map(|own| own.1);
        self.ahead.watermark_of(self.after, key).max(own)
    }
}

/// The parameters of a call, which may differ from key to key.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    /// The parameters of keys that are not ahead.
    pub(super) common: Call,
    /// The only key whose watermark moves, and where to.
    pub(super) key_watermark: Option<(u32, i64)>,
    pub(super) ahead: &'a Ahead,
    pub(super) queries: &'a Queries,
    pub(super) lateness: i64,
}

impl Calls<'_> {
    /// The parameters of a key.
    pub(super) fn of(&self, key: u32) -> Call {
        let mark = self.ahead.of(key);
        let moved = self.key_watermark.filter(|own| own.0 == key).map(|own| own.1);
        if mark.is_none() && moved.is_none() {
            return self.common;
        }
        let before = self.common.before.max(mark);
        let horizon = before.map(|before| before.saturating_sub(self.lateness));
        let floor = before.zip(horizon).map(|(before, horizon)| match self.common.is_out_of_order {
            true => self.queries.cutoff_at(horizon).map_or(before, |cutoff| cutoff.min(before)),
            false => before,
        });
        Call { before, now: self.common.now.max(mark).max(moved), horizon, floor, ..self.common }
    }
}
