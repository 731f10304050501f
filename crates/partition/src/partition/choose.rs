//! Which method suits given keys: the selection rule of Katsipoulakis et al. 2017, §7, and where to go beyond it.

use super::Method;
use super::parameters::check_workers;
use crate::{Error, Result};

/// "Significantly less" in the paper's rule: by this factor.
const FEWER: f64 = 10.0;
/// A method whose cost is higher by less than this fraction counts as equally good.
const AS_GOOD: f64 = 0.01;

/// The input of a choice: how rows are distributed over keys, in one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// Rows.
    pub rows: u64,
    /// Distinct keys.
    pub groups: u64,
    /// Rows of the heaviest key.
    pub heaviest: u64,
    /// The sum over keys of their squared rows.
    pub squares: f64,
}

impl Statistics {
    /// The statistics of rows given by dense ids of their keys.
    pub fn of(keys: &[u32]) -> Self {
        let mut counts = vec![0_u64; keys.iter().max().map_or(0, |&most| most as usize + 1)];
        keys.iter().for_each(|&key| counts[key as usize] += 1);
        Self {
            rows: keys.len() as u64,
            groups: counts.iter().filter(|&&count| count > 0).count() as u64,
            heaviest: counts.iter().copied().max().unwrap_or_default(),
            squares: counts.iter().map(|&count| (count as f64).powi(2)).sum(),
        }
    }

    fn check(&self) -> Result<()> {
        let Self { rows, groups, heaviest, squares } = *self;
        let (n, most) = (rows as f64, heaviest as f64);
        let one_key_at_least = heaviest <= rows && groups <= rows && (rows == 0) == (groups == 0);
        let fair = rows == 0 || most * groups as f64 >= n;
        let within = squares >= most * most * (1.0 - 1e-9) && squares <= most * n * (1.0 + 1e-9);
        if one_key_at_least && fair && within {
            return Ok(());
        }
        Err(Error::InvalidValue(format!(
            "statistics: {rows} rows of {groups} keys, {heaviest} of which have the heaviest key, cannot have counts \
             whose squares add up to {squares}"
        )))
    }
}

/// A method and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The method that suits the keys.
    pub method: Method,
    /// The method of the paper's rule.
    pub rule: Method,
    /// Why, in words.
    pub reason: String,
}

/// The expected costs of a method: rows of the fullest worker, and aggregation.
#[derive(Debug, Clone, Copy)]
struct Expected {
    method: Method,
    most: f64,
    aggregation: f64,
}

impl Expected {
    fn total(&self) -> f64 {
        self.most + self.aggregation
    }

    fn words(&self) -> String {
        format!(
            "{} about {:.0} rows on the fullest worker and {:.0} partial results to aggregate",
            self.method.name(),
            self.most,
            self.aggregation
        )
    }
}

/// Chooses a method for keys like these. O(1).
///
/// The paper's rule is: shuffle if groups are significantly fewer (here: ten times) than a worker's mean load, else AM or
/// cAM. What is chosen is the method with the least expected sum of the fullest worker's rows and aggregation, among
/// hash, shuffle, waterfill, partial-key and what the rule says; the simplest of those within one percent.
///
/// # Errors
/// `InvalidValue` for a number of workers outside 1 to 2^16, or for impossible statistics.
pub fn choose(statistics: &Statistics, workers: u32) -> Result<Choice> {
    check_workers(workers.into())?;
    statistics.check()?;
    let (v, n, groups) = (f64::from(workers), statistics.rows as f64, statistics.groups as f64);
    let (mean, heaviest) = (n / v, statistics.heaviest as f64);
    let few = groups * FEWER <= mean;
    let rule = if few { Method::Shuffle } else { Method::LoadAffinity };
    let mut reason = format!(
        "{} distinct keys are {} than the {mean:.0} rows of a worker's share, so the rule of the paper (§7) is {}.",
        statistics.groups,
        if few { "significantly fewer" } else { "not significantly fewer" },
        rule.name()
    );
    if workers == 1 || statistics.rows == 0 {
        reason += " With one worker, or without rows, every method does the same; hash is the simplest.";
        return Ok(Choice { method: Method::Hash, rule, reason });
    }

    let expectations = expectations(statistics, workers);
    let is_considered =
        |expected: &&Expected| expected.method != Method::LoadAffinity || rule == Method::LoadAffinity;
    let considered: Vec<&Expected> = expectations.iter().filter(is_considered).collect();
    let least = considered.iter().map(|expected| expected.total()).fold(f64::INFINITY, f64::min);
    let Some(best) = considered.iter().find(|expected| expected.total() <= least * (1.0 + AS_GOOD)) else {
        return Err(Error::Internal("no method is the best".into()));
    };
    reason += &format!(" Expected: {}", best.words());
    for other in considered.iter().filter(|other| other.method != best.method) {
        reason += &format!("; {}", other.words());
    }
    reason += ".";
    if best.method != rule {
        let (per_key, share) = (n / groups, 100.0 * heaviest / n);
        reason += &match best.method {
            Method::Waterfill => format!(
                " The heaviest key has {share:.1} % of the rows, {:.1} times a fair share: waterfill splits it and the few \
                 like it, and beats what the rule says.",
                heaviest / mean
            ),
            Method::Shuffle => format!(
                " A key has {per_key:.1} rows on average, so that spreading the rows of one over workers adds little to \
                 aggregate, and shuffle levels them exactly."
            ),
            Method::PartialKey => format!(
                " The heaviest key has {:.1} times a fair share: two workers for each key level what the hash leaves \
                 uneven, and there are few keys to aggregate twice.",
                heaviest / mean
            ),
            Method::LoadAffinity => {
                " No key is too heavy for one worker, and affinity levels the others.".into()
            }
            _ => format!(
                " The heaviest key has {share:.1} % of the rows, {:.2} times a fair share, and the hash alone spreads the \
                 keys evenly: more than that costs more than it gains.",
                heaviest / mean
            ),
        };
    }
    Ok(Choice { method: best.method, rule, reason })
}

/// The expected costs of each method, the simplest first. AM, CM and LM are not among them: cAM has AM's aggregation
/// and levels rows rather than keys; CM and LM split keys as partial-key does, and level less.
fn expectations(statistics: &Statistics, workers: u32) -> [Expected; 5] {
    let (v, n, groups) = (f64::from(workers), statistics.rows as f64, statistics.groups as f64);
    let (mean, heaviest) = (n / v, statistics.heaviest as f64);
    // The most of V sums of independent keys: a normal tail, above the heaviest key, which is on one of them.
    let others = (statistics.squares - heaviest * heaviest).max(0.0);
    let chance = (others / v).sqrt() * (2.0 * v.ln()).sqrt();
    let by_hash = (mean + chance).max(heaviest + (n - heaviest) / v);
    // With two choices, ln ln V / ln 2 keys more than the mean (Azar et al. 1999), of the weight that a row's key has.
    let two_choices = chance.min(others / n * v.ln().max(1.0).ln() / std::f64::consts::LN_2);
    // Waterfill is counted on only if the extra pairs that levelling may take are within its allowance: V - 1, and about
    // one for each heavy key, of which there are as many as even keys would have such squares, if those were heavy.
    // Without a heavy key it moves buckets, which levels less closely.
    let hot = if heaviest > mean { v - 1.0 } else { 0.0 };
    let allowance = (0.01 * groups).max(mean / 8.0).max(hot).floor();
    let heavy = if 16.0 * statistics.squares >= n * mean { n * n / statistics.squares } else { 0.0 };
    let needed = heavy.min(16.0 * v).max(v - 1.0);
    let slack = if heaviest * 16.0 >= mean { 0.008 } else { 0.05 };
    let level = ((1.0 + slack) * mean).min(by_hash);
    let split = (0.01 * groups).max(needed).min(allowance);
    [
        Expected { method: Method::Hash, most: by_hash, aggregation: groups },
        Expected { method: Method::Shuffle, most: mean.ceil(), aggregation: (v * groups).min(n) },
        Expected {
            method: Method::Waterfill,
            most: if allowance >= needed { level } else { by_hash },
            aggregation: (groups + split).min(v * groups).min(n),
        },
        Expected {
            method: Method::PartialKey,
            most: (mean + two_choices / 2.0).max(heaviest / 2.0),
            aggregation: (2.0 * groups).min(n),
        },
        Expected {
            method: Method::LoadAffinity,
            most: heaviest.max(mean + two_choices),
            aggregation: groups,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(counts: &[u64], workers: u32) -> Choice {
        let statistics = Statistics {
            rows: counts.iter().sum(),
            groups: counts.len() as u64,
            heaviest: counts.iter().copied().max().unwrap_or_default(),
            squares: counts.iter().map(|&count| (count as f64).powi(2)).sum(),
        };
        choose(&statistics, workers).unwrap()
    }

    #[test]
    fn few_groups_are_shuffled() {
        // TPC-H Q1 at scale factor 1: four groups, one of them with half of the rows.
        let choice = chosen(&[1_478_493, 38_854, 2_920_374, 1_478_870], 32);
        assert_eq!((choice.method, choice.rule), (Method::Shuffle, Method::Shuffle), "{}", choice.reason);
    }

    #[test]
    fn many_even_groups_are_hashed() {
        let choice = chosen(&vec![4; 1_000_000], 8);
        assert_eq!((choice.method, choice.rule), (Method::Hash, Method::LoadAffinity), "{}", choice.reason);
    }

    #[test]
    fn skew_is_levelled_and_the_reason_says_so() {
        let zipf: Vec<u64> = (1..=500_000).map(|rank| 300_000_u64.div_ceil(rank)).collect();
        let choice = chosen(&zipf, 32);
        assert_eq!((choice.method, choice.rule), (Method::Waterfill, Method::LoadAffinity));
        assert!(choice.reason.contains("beats what the rule says"), "{}", choice.reason);
    }

    #[test]
    fn waterfill_is_not_said_to_level_what_its_allowance_cannot() {
        // 1,000 even keys on 256 workers, 400,000 rows: n / 8 V pairs are fewer than the 255 that levelling takes.
        let choice = chosen(&vec![400; 1_000], 256);
        assert_ne!(choice.method, Method::Waterfill, "{}", choice.reason);
        // Ten times the rows, and the allowance suffices.
        let choice = chosen(&vec![4_000; 1_000], 256);
        assert_eq!(choice.method, Method::Waterfill, "{}", choice.reason);
    }

    /// Measured: 384 even keys on 128 workers, 8 V² rows: 2.06 times the mean by waterfill, 1.04 by partial-key.
    #[test]
    fn waterfill_is_not_said_to_level_many_heavy_keys_in_few_rows() {
        let even =
            |keys: usize, workers: u64, times: u64| vec![times * 8 * workers * workers / keys as u64; keys];
        for (keys, workers) in [(96, 32), (256, 32), (512, 64), (384, 128), (1_024, 128)] {
            let choice = chosen(&even(keys, workers, 1), workers as u32);
            assert_ne!(choice.method, Method::Waterfill, "{keys} keys, {workers} workers: {}", choice.reason);
            let choice = chosen(&even(keys, workers, 16), workers as u32);
            assert_eq!(choice.method, Method::Waterfill, "{keys} keys, {workers} workers: {}", choice.reason);
        }
    }

    #[test]
    fn shuffle_against_the_rule_has_its_own_reason() {
        let choice = chosen(&vec![1; 1_000], 16);
        assert_eq!(
            (choice.method, choice.rule),
            (Method::Shuffle, Method::LoadAffinity),
            "{}",
            choice.reason
        );
        assert!(choice.reason.contains("A key has 1.0 rows on average"), "{}", choice.reason);
    }

    #[test]
    fn impossible_statistics_are_refused() {
        let impossible = Statistics { rows: 10, groups: 3, heaviest: 2, squares: 12.0 };
        assert!(choose(&impossible, 4).is_err());
        let nothing = Statistics { rows: 0, groups: 0, heaviest: 0, squares: 0.0 };
        assert_eq!(choose(&nothing, 4).unwrap().method, Method::Hash);
    }
}
