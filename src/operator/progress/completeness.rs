//! How complete windows are by now: which share of their rows can be expected to have arrived, by how far earlier rows were
//! behind the latest one.

use std::collections::HashMap;

/// Ranks at which the delays of a source are looked up.
const RANKS: usize = 256;

/// How far one in twenty samples of n rows is off at some rank, times √n (Massart 1990: the bound of Dvoretzky, Kiefer and
/// Wolfowitz).
const ONE_IN_TWENTY: f64 = 1.3581;

/// What is expected of the rows of one source.
pub(super) struct Arrivals {
    /// The time of its latest row.
    pub(super) latest: i64,
    pub(super) rows: u64,
    /// How far rows were behind the latest one, at evenly spaced ranks.
    pub(super) delays: Vec<i64>,
    /// By how much the ranks of the sketch may be wrong.
    pub(super) rank_error: f64,
}

/// What is expected of the rows of a stream.
pub(super) struct Completeness(Vec<Arrivals>);

/// Ranks, evenly spaced.
pub(super) fn ranks() -> Vec<f64> {
    (0..RANKS).map(|at| (at as f64 + 0.5) / RANKS as f64).collect()
}

impl Arrivals {
    /// Which share of the rows between `start` and `end` has arrived, if as many come at each time.
    fn share(&self, (start, end): (i64, i64)) -> f64 {
        let length = (i128::from(end) - i128::from(start)).max(1);
        // Of a row as late as that, the times up to this one are there.
        let there = |&delay: &i64| {
            let times = i128::from(self.latest) - i128::from(delay) - i128::from(start) + 1;
            times.clamp(0, length) as f64
        };
        self.delays.iter().map(there).sum::<f64>() / (length as f64 * self.delays.len().max(1) as f64)
    }

    /// How much that may be wrong, but for one in twenty streams.
    fn error(&self) -> f64 {
        self.rank_error + 0.5 / RANKS as f64 + ONE_IN_TWENTY / (self.rows as f64).sqrt()
    }
}

impl Completeness {
    /// What is expected by what was seen of the sources that had rows; `None` if there are none.
    pub(super) fn of(sources: Vec<Arrivals>) -> Option<Self> {
        (!sources.is_empty()).then_some(Self(sources))
    }

    /// The share of rows that has arrived of each of these windows, and how much it may be wrong.
    pub(super) fn of_windows(
        &self,
        extents: impl Iterator<Item = Option<(i64, i64)>>,
    ) -> Vec<Option<(f64, f64)>> {
        // Many rows are of few windows.
        let mut known = HashMap::new();
        let error = self.mean(Arrivals::error).min(1.0);
        let mut of =
            |extent| (*known.entry(extent).or_insert_with(|| self.mean(|each| each.share(extent))), error);
        extents.map(|extent| extent.map(&mut of)).collect()
    }

    /// The mean over sources, each of which counts by its rows.
    fn mean(&self, of: impl Fn(&Arrivals) -> f64) -> f64 {
        let rows: u64 = self.0.iter().map(|each| each.rows).sum();
        self.0.iter().map(|each| of(each) * each.rows as f64).sum::<f64>() / rows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(latest: i64, rows: u64, delays: &[i64]) -> Arrivals {
        Arrivals { latest, rows, delays: delays.to_vec(), rank_error: 0.0 }
    }

    #[test]
    fn a_window_is_as_complete_as_its_times_are() {
        // Half of all rows come at once, and half of them ten later.
        let stream = Completeness(vec![arrivals(29, 1_000_000, &[0, 10])]);
        let shares = |extents: &[(i64, i64)]| -> Vec<f64> {
            let found = stream.of_windows(extents.iter().copied().map(Some));
            found.into_iter().flatten().map(|(share, _)| share).collect()
        };
        assert_eq!(shares(&[(0, 20), (10, 30), (20, 30), (20, 40), (40, 50)]), [1.0, 0.75, 0.5, 0.25, 0.0]);
        assert_eq!(stream.of_windows([None].into_iter()), [None]);
    }

    #[test]
    fn sources_count_by_their_rows() {
        let stream = Completeness(vec![arrivals(9, 300, &[0]), arrivals(-1, 100, &[0])]);
        let [Some((share, error))] = stream.of_windows([Some((0, 10))].into_iter())[..] else {
            panic!("none")
        };
        assert_eq!(share, 0.75);
        assert!((0.08..0.12).contains(&error));
    }

    #[test]
    fn times_at_the_limits_do_not_overflow() {
        let stream = Completeness(vec![arrivals(i64::MAX, 1, &[i64::MAX, 0])]);
        let found = stream.of_windows([Some((i64::MIN, i64::MAX)), Some((5, 5))].into_iter());
        assert!(
            found.into_iter().flatten().all(|(share, error)| (0.0..=1.0).contains(&share) && error == 1.0)
        );
    }
}
