//! What was seen of all sources of a stream, and up to when it is complete by that.

use arrow_buffer::BooleanBuffer;

use super::clock::Clock;
use super::delay::{By, Delay};
use super::present::Present;
use super::source::Source;
use crate::Result;
use crate::interrupt::Pace;

/// What was seen of all sources.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) delay: Delay,
    /// By number; those without rows never spoke.
    pub(super) sources: Vec<Source>,
    /// Up to when those were complete that have ended: the greatest of them.
    pub(super) ended: Option<i64>,
    pub(super) present: Present,
}

impl Seen {
    /// Whether a source is left out, as it has been silent.
    pub(super) fn is_idle(&self, source: &Source, clock: Clock) -> bool {
        self.delay.idle.is_some_and(|idle| clock.heard - source.seen > idle)
    }

    /// Which of these rows are further ahead of the others than is allowed, if any are.
    pub(super) fn ahead(&mut self, times: &[i64]) -> Option<BooleanBuffer> {
        self.present.ahead(times, self.delay.future?)
    }

    /// Takes note of rows, the latest of which has time `most`, with the number of each one's source if there are several.
    pub(super) fn see(
        &mut self,
        (times, most): (&[i64], i64),
        sources: &[u32],
        Clock { heard, .. }: Clock,
    ) -> Result<()> {
        let future = self.delay.future.filter(|_| !self.present.is_unknown());
        for (source, time) in future.map(|future| self.present.held(future)).into_iter().flatten() {
            let source = &mut self.sources[source as usize];
            source.see(self.delay.by, time);
            source.seen = heard;
        }
        if times.is_empty() {
            return Ok(());
        }
        self.make_room(sources.iter().max().map_or(1, |&most| most as usize + 1))?;
        let source_of = |row: usize| sources.get(row).copied().unwrap_or_default();
        if self.delay.future.is_some() && self.present.is_unknown() {
            let each = times.iter().enumerate();
            each.for_each(|(row, &time)| self.present.hold(source_of(row), time));
            return Ok(());
        }
        if let (By::Time(_), [], [source, ..]) = (self.delay.by, sources, &mut self.sources[..]) {
            // Nothing but the latest row matters.
            source.see(self.delay.by, most);
            source.rows += times.len() as u64 - 1;
            source.seen = heard;
            return Ok(());
        }
        let mut pace = Pace::new();
        for (row, &time) in times.iter().enumerate() {
            pace.check(1)?;
            let source = &mut self.sources[source_of(row) as usize];
            source.see(self.delay.by, time);
            source.seen = heard;
        }
        Ok(())
    }

    fn make_room(&mut self, sources: usize) -> Result<()> {
        while self.sources.len() < sources {
            self.sources.push(Source::new(&self.delay)?);
        }
        Ok(())
    }

    /// Waits for rows of a source.
    pub(super) fn announce(&mut self, source: u32, Clock { heard, .. }: Clock) -> Result<()> {
        self.make_room(source as usize + 1)?;
        let source = &mut self.sources[source as usize];
        (source.is_announced, source.seen) = (true, heard);
        Ok(())
    }

    /// Waits no longer for rows of a source; returns whether it was one.
    pub(super) fn end(&mut self, source: u32, clock: Clock) -> Result<bool> {
        let Some(known) = self.sources.get_mut(source as usize) else { return Ok(false) };
        let ended = std::mem::replace(known, Source::new(&self.delay)?);
        if ended.is_live() {
            self.ended = self.ended.max(ended.watermark(&self.delay, clock)?);
        }
        Ok(self.present.end(source) || ended.is_live())
    }

    /// Up to when the stream is complete, by its sources: the least of those that are not idle, or else the greatest of
    /// all, whichever of them was idle first, or ended.
    pub(super) fn watermark(&self, clock: Clock) -> Result<Option<i64>> {
        let (mut awake, mut quiet) = (Vec::new(), self.ended);
        for source in self.sources.iter().filter(|source| source.is_live()) {
            let watermark = source.watermark(&self.delay, clock)?;
            match self.is_idle(source, clock) {
                true => quiet = quiet.max(watermark),
                false => awake.push(watermark),
            }
        }
        // None of one is none of all.
        Ok(awake.into_iter().min().unwrap_or(quiet))
    }
}
