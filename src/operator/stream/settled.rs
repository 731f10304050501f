//! Slices that lie before all that can still change: one where no window needs them apart.
//!
//! A window that began long ago, as those of a landmark, a long band or the global one do, needs what lies between its
//! start and its end, but none of the edges that others had there. So once those have expired, their slices are made one,
//! and the number of slices is that of the edges in use (Traub et al. 2019, §5.2: "we merge slices").

use super::Stream;
use super::queries::Asked;
use crate::window::Window;

/// Whether a window with rows on both sides of an edge between two times, the later one included, may still be handed out
/// or changed, with windows that ended at or before `horizon` having expired.
fn keeps_apart(asked: &Asked, window: &Window, horizon: i64, (earlier, later): (i64, i64)) -> bool {
    let lies_between = |edge: i64| earlier < edge && edge <= later;
    match window {
        Window::Sliding(sliding) => {
            let start = sliding.last_start(later);
            lies_between(start) && start > horizon.saturating_sub(sliding.size())
        }
        Window::Band(band) => lies_between(band.extent().0) && band.extent().1 > horizon,
        Window::Landmark(landmark) => {
            // A window is told if it has rows that the one before has not: the last edge before its end tells which.
            let next = landmark.first_wid(later);
            let tells = next.is_some_and(|(_, end)| end > horizon && lies_between(end - landmark.every()));
            let begins = landmark.landmark(later).is_some_and(|start| {
                let expired = landmark.period().is_some_and(|period| start.saturating_add(period) <= horizon);
                lies_between(start) && !expired && asked.since.is_none_or(|since| start > since)
            });
            tells || begins
        }
        // Sessions by their gap; others are refused when their query comes.
        _ => false,
    }
}

/// Whether slices are kept for windows of this type that others have no use for.
fn reaches_back(window: &Window) -> bool {
    matches!(window, Window::Landmark(_) | Window::Band(_) | Window::Global(_))
}

impl Stream {
    /// Makes slices one that no window needs apart, once they are many.
    pub(super) fn merge_settled(&mut self) {
        let asked = self.queries.asked();
        let windows =
            || asked.iter().flat_map(|asked| asked.plan.windows().iter().map(move |(_, w)| (asked, w)));
        let Some(watermark) = self.watermark.filter(|_| windows().any(|(_, window)| reaches_back(window)))
        else {
            return;
        };
        let horizon = watermark.saturating_sub(self.options.allowed_lateness);
        let is_needed = |earlier: i64, later: i64| {
            // No slice has rows of before and after a query came.
            let comes_between =
                |asked: &Asked| asked.since.is_some_and(|since| earlier <= since && since < later);
            asked.iter().any(comes_between)
                || windows().any(|(asked, window)| keeps_apart(asked, window, horizon, (earlier, later)))
        };
        let (cutter, gap) = (&mut self.cutter, self.queries.edges().gap());
        let merged = self.slices.merge_settled(|t| cutter.slice_of(t).1 <= horizon, is_needed, gap);
        self.eager.distrust(merged.into_iter());
    }
}
