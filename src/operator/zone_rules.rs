//! The rules of time zones by which what a snapshot holds was cut into windows: they are not in the snapshot itself, and a
//! later release may have others.

use serde::{Deserialize, Serialize};

use crate::window::{Window, Zone};
use crate::{Error, Result};

/// When the clock of a zone was set over a stretch of time, by the tz database that was compiled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ZoneRules {
    zone: String,
    database: String,
    /// The first and the last second that they matter for.
    from: i64,
    to: i64,
    rules: u64,
}

impl ZoneRules {
    /// The rules over times of the measure `[from, to]` and as much on either side as windows at these reach; `None` for
    /// windows that no zone cuts.
    pub(super) fn of(window: &Window, (from, to): (i64, i64)) -> Option<Self> {
        let calendar = window.calendar()?;
        let zone = calendar.zone()?;
        let (reach, second) = (window.reach(), calendar.second());
        let from = from.saturating_sub(reach).div_euclid(second);
        let to = to.saturating_add(reach).div_euclid(second);
        let rules = zone.rules(from, to);
        Some(Self { zone: zone.name().to_owned(), database: Zone::database().to_owned(), from, to, rules })
    }

    /// Refuses what was cut by other rules than those of this release.
    ///
    /// # Errors
    /// `InvalidValue`.
    pub(super) fn check(&self) -> Result<()> {
        let Self { zone, database, from, to, rules } = self;
        if Zone::named(zone)?.rules(*from, *to) == *rules {
            return Ok(());
        }
        Err(Error::InvalidValue(format!(
            "snapshot: its rows were cut into windows by the rules that release {database} of the tz database has for \
             {zone:?}; those of this windowkit, of release {}, differ for times of these rows. Allowed are a windowkit with \
             the rules of before, or a new operator that is given the rows again",
            Zone::database()
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::window::{Local, LocalLandmark, Periods, Sliding, Unit};

    /// Days in New York in units of milliseconds.
    fn days() -> Periods {
        let zone: Arc<Zone> = Zone::named("America/New_York").unwrap();
        Periods::new(Some(zone), Unit::Days, 1, 0, 0, 86_400_000)
    }

    #[test]
    fn rules_are_those_of_windows_in_a_zone() {
        let (noon, hour) = (1_700_000_000_000, 3_600_000);
        let local = Window::Local(Local::new(&days(), 1, 1, 0));
        let own = ZoneRules::of(&local, (noon, noon + hour)).unwrap();
        assert_eq!((own.zone.as_str(), own.database.as_str()), ("America/New_York", Zone::database()));
        // A window may begin a day earlier, and there is room for a clock that is set.
        assert!(own.from < noon / 1_000 - 86_400 && own.from > noon / 1_000 - 8 * 86_400, "{own:?}");
        assert!(own.to > (noon + hour) / 1_000 + 86_400, "{own:?}");
        own.check().unwrap();
        let growing = Window::LocalLandmark(LocalLandmark::of_days(days().of(7, 4), 1));
        ZoneRules::of(&growing, (i64::MIN, i64::MAX)).unwrap().check().unwrap();
        assert_eq!(ZoneRules::of(&Window::Sliding(Sliding::new(5, 5, 0)), (0, 5)), None);
    }

    #[test]
    fn other_rules_are_refused() {
        let local = Window::Local(Local::new(&days(), 1, 1, 0));
        let own = ZoneRules::of(&local, (0, 0)).unwrap();
        let other = ZoneRules { rules: !own.rules, database: "2031b".into(), ..own };
        let error = other.check().unwrap_err().to_string();
        assert!(error.contains("release 2031b of the tz database has for \"America/New_York\""), "{error}");
        assert!(error.contains(Zone::database()), "{error}");
    }
}
