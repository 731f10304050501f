//! Edges at places that a calendar determines: what cuts slices for windows in local time.

use serde::Serialize;

use super::periods::Periods;

/// Edges without a fixed distance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Timetable {
    /// Where periods begin.
    Periods(Periods),
    /// Where periods begin, and every so long after; the last edge of a period is nearer to its end.
    Within {
        /// The periods.
        periods: Periods,
        /// The distance of edges.
        every: i64,
    },
    /// Where periods begin, and every so many days of the calendar after.
    Days {
        /// The periods.
        periods: Periods,
        /// The number of days.
        every: i64,
    },
}

impl Timetable {
    /// Where these periods begin, whichever of them is number 0.
    pub fn of(periods: &Periods) -> Self {
        Timetable::Periods(periods.of(periods.count(), periods.phase().rem_euclid(periods.count())))
    }

    /// The last edge at or before `t`, and the next.
    pub fn around(&self, t: i64) -> (i64, i64) {
        match self {
            Timetable::Periods(periods) => periods.around(t),
            Timetable::Within { periods, every } => {
                let (from, to) = periods.around(t);
                let begun = t - t.saturating_sub(from) % every;
                (begun, begun.saturating_add(*every).min(to))
            }
            Timetable::Days { periods, every } => {
                let ((from, to), days) = (periods.around(t), periods.days());
                let first = days.index(from);
                let begun = first.saturating_add(days.index(t).saturating_sub(first) / every * every);
                // A day that the zone skipped has no length.
                let later = (1..4)
                    .map(|next| begun.saturating_add(every.saturating_mul(next)))
                    .map(|day| days.edge(day).unwrap_or(i64::MAX))
                    .find(|&edge| edge > t);
                (days.edge(begun).unwrap_or(i64::MIN).max(from), later.unwrap_or(i64::MAX).min(to))
            }
        }
    }

    /// About how far edges lie apart.
    pub fn distance(&self) -> i64 {
        match self {
            Timetable::Periods(periods) => periods.at_most(periods.count()),
            Timetable::Within { every, .. } => *every,
            Timetable::Days { periods, every } => periods.days().at_most(*every),
        }
    }

    /// The edges around `t` as [`Timetable::around`] has them, if there are no edges up to `since`.
    pub fn around_since(&self, since: Option<i64>, t: i64) -> (Option<i64>, i64) {
        let (from, to) = self.around(t);
        match since {
            Some(since) if to <= since => (None, self.around(since).1),
            Some(since) if from <= since => (None, to),
            _ => (Some(from), to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::periods::Unit;
    use super::super::zone::Zone;
    use super::*;
    use proptest::prelude::*;

    fn tables() -> impl Strategy<Value = Timetable> {
        let zone =
            prop_oneof![Just(None), Just(Zone::named("Pacific/Apia").ok()), Just(Zone::named("UTC").ok())];
        let unit = prop_oneof![Just(Unit::Days), Just(Unit::Months)];
        // A date has a day of 1, and no zone.
        (zone, unit, 1..5i64, -5..5i64, 1..40i64, 0..3u8, any::<bool>()).prop_map(
            |(zone, unit, count, phase, every, kind, dates)| {
                let day = if dates && zone.is_none() { 1 } else { 86_400 };
                let periods = Periods::new(zone, unit, count, phase, 0, day);
                match kind {
                    0 => Timetable::of(&periods),
                    1 => Timetable::Within { periods, every: every * day.min(3_600) },
                    _ => Timetable::Days { periods, every },
                }
            },
        )
    }

    proptest! {
        /// Whatever the time, also at both ends of int64, an edge is not after it, and the next one is.
        #[test]
        fn a_time_is_between_the_edges_around_it(
            table in tables(),
            t in prop_oneof![
                any::<i64>(), -1_000_000_000..2_000_000_000i64,
                i64::MIN..i64::MIN + 1_000_000, i64::MAX - 1_000_000..=i64::MAX,
            ],
        ) {
            let (from, to) = table.around(t);
            prop_assert!(from <= t, "{from} after {t}");
            prop_assert!(t < to || to == i64::MAX, "{to} not after {t}");
        }
    }

    /// Hours of a day of 25 hours, by sixes: the last one is short.
    #[test]
    fn edges_begin_anew_with_each_period() {
        let zone = Zone::named("America/New_York").unwrap();
        let periods = Periods::new(Some(zone), Unit::Days, 1, 0, 0, 86_400);
        let day = periods.edge(20_030).unwrap();
        let table = Timetable::Within { periods, every: 6 * 3_600 };
        let mut edges = vec![day];
        while edges.len() < 7 {
            edges.push(table.around(edges[edges.len() - 1]).1);
        }
        let hours: Vec<i64> = edges.iter().map(|edge| (edge - day) / 3_600).collect();
        assert_eq!(hours, [0, 6, 12, 18, 24, 25, 31]);
        assert_eq!(table.around_since(None, day - 1), (Some(day - 6 * 3_600), day));
        assert_eq!(table.around_since(Some(day), day + 5), (None, day + 6 * 3_600));
        assert_eq!(table.around_since(Some(day), day - 50_000), (None, day + 6 * 3_600));
        assert_eq!(table.around_since(Some(day - 1), day), (Some(day), day + 6 * 3_600));
    }
}
