//! Which method suits some keys: the selection rule of Katsipoulakis et al. 2017, §7, and where to go beyond it.

use super::Method;
use super::parameters::check_workers;
use crate::{Error, Result};

/// "Significantly less" in the paper's rule: by this factor.
const FEWER: f64 = 10.0;
/// A method that is dearer by less than this part of the whole is as good.
const AS_GOOD: f64 = 0.01;

/// What a choice is made from: how rows are spread over keys, in one window.
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
            "statistics: {rows} rows of {groups} keys, {heaviest} of them of the heaviest, with squares that add up to \
             {squares}, cannot be; allowed is what keys can have"
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

/// What a method is expected to cost: rows of the fullest worker, and aggregation.
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
/// hash, shuffle, waterfill and what the rule says; the simplest of those within one percent.
///
/// # Errors
/// `InvalidValue` for a number of workers outside 1 to 2^16, or for statistics that no keys have.
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

    // The most of V sums of independent keys: a normal tail, above the heaviest key, which is on one of them.
    let deviation = ((statistics.squares - heaviest * heaviest).max(0.0) / v).sqrt();
    let chance = deviation * (2.0 * v.ln()).sqrt();
    let level = (1.0 + 0.008) * mean;
    let candidates = [
        Expected {
            method: Method::Hash,
            most: (mean + chance).max(heaviest + (n - heaviest) / v),
            aggregation: groups,
        },
        Expected { method: Method::Shuffle, most: mean.ceil(), aggregation: (v * groups).min(n) },
        Expected {
            method: Method::Waterfill,
            most: level,
            aggregation: (groups + (0.01 * groups).max(v - 1.0)).min(v * groups).min(n),
        },
        Expected {
            method: Method::LoadAffinity,
            most: heaviest.max(mean + chance / v.sqrt()),
            aggregation: groups,
        },
    ];
    let considered: Vec<Expected> = candidates
        .into_iter()
        .filter(|expected| expected.method != Method::LoadAffinity || rule == Method::LoadAffinity)
        .collect();
    let least = considered.iter().map(Expected::total).fold(f64::INFINITY, f64::min);
    let Some(best) = considered.iter().find(|expected| expected.total() <= least * (1.0 + AS_GOOD)) else {
        return Err(Error::Internal("no method is the best".into()));
    };
    reason += &format!(" Expected: {}", best.words());
    for other in considered.iter().filter(|other| other.method != best.method) {
        reason += &format!("; {}", other.words());
    }
    reason += ".";
    if best.method != rule {
        reason += &match best.method {
            Method::Waterfill => format!(
                " The heaviest key has {:.1} % of the rows, {:.1} times a fair share: waterfill splits it and the few like \
                 it, and beats what the rule says.",
                100.0 * heaviest / n,
                heaviest / mean
            ),
            _ => " No key is heavy, and the hash alone spreads them evenly: nothing is gained by more than that.".into(),
        };
    }
    Ok(Choice { method: best.method, rule, reason })
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
    fn impossible_statistics_are_refused() {
        let impossible = Statistics { rows: 10, groups: 3, heaviest: 2, squares: 12.0 };
        assert!(choose(&impossible, 4).is_err());
        let nothing = Statistics { rows: 0, groups: 0, heaviest: 0, squares: 0.0 };
        assert_eq!(choose(&nothing, 4).unwrap().method, Method::Hash);
    }
}
