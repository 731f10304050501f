//! The costs of an assignment of rows to workers (Katsipoulakis et al. 2017, §2.3 and §3.1).

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::parameters::check_workers;
use crate::{Error, Result};

/// The costs of one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The window, as it was given; 0 for a stream without windows.
    pub window: i64,
    /// Rows.
    pub rows: u64,
    /// Distinct keys, ‖S‖: the least that aggregation can cost (Prop. 1).
    pub groups: u64,
    /// Rows of the fullest worker.
    pub most_rows: u64,
    /// Distinct keys of the worker that has most.
    pub most_groups: u64,
    /// I, the rows by which the fullest worker exceeds the mean (Eq. 1).
    pub imbalance: f64,
    /// CI, the same in distinct keys (Eq. 6).
    pub cardinality_imbalance: f64,
    /// HI, the same in the hybrid load of Eq. 9 (Eq. 10).
    pub hybrid_imbalance: f64,
    /// Γ, distinct keys of each worker, summed over workers (Eq. 2, Eq. 4).
    pub aggregation: u64,
}

/// The costs of each window of some rows, in the order of windows.
///
/// `keys` are dense ids of the rows' keys, `assignment` the rows' workers, `windows` the rows' windows in any order; none
/// if all are of one. `bias` is p of Eq. 9. Where all workers have the same load, its normalisation (Eq. 7, Eq. 8) is 0.
///
/// O(rows · log rows + windows · workers); O(rows) for windows in order.
///
/// # Errors
/// `InvalidValue` for lengths that differ, a worker that does not exist, or a bias outside [0, 1].
pub fn cost(
    keys: &[u32],
    assignment: &[i32],
    windows: Option<&[i64]>,
    workers: u32,
    bias: f64,
) -> Result<Vec<Cost>> {
    check_workers(workers.into())?;
    if !(0.0..=1.0).contains(&bias) {
        return Err(Error::InvalidValue(format!("bias: {bias} is outside [0, 1]")));
    }
    if assignment.len() != keys.len() {
        return Err(Error::InvalidValue(format!(
            "assignment: {} workers for {} keys; every row has one worker",
            assignment.len(),
            keys.len()
        )));
    }
    if let Some(windows) = windows
        && windows.len() != keys.len()
    {
        return Err(Error::InvalidValue(format!(
            "times: {} times for {} keys; every row has one time",
            windows.len(),
            keys.len()
        )));
    }
    if let Some(row) =
        assignment.iter().position(|&worker| u32::try_from(worker).map_or(true, |w| w >= workers))
    {
        return Err(Error::InvalidValue(format!(
            "assignment: row {row} has worker {}; allowed is 0 to {}",
            assignment[row],
            workers - 1
        )));
    }
    let window = |row: usize| windows.map_or(0, |windows| windows[row]);
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    if !windows.is_none_or(|windows| windows.is_sorted()) {
        order.sort_by_key(|&row| window(row as usize));
    }

    // The last window that each key, and each pair of key and worker, was seen in.
    let mut groups_seen: HashMap<u32, u32, FixedState> = HashMap::default();
    let mut pairs_seen: HashMap<(u32, i32), u32, FixedState> = HashMap::default();
    let mut costs = Vec::new();
    for rows in order.chunk_by(|&a, &b| window(a as usize) == window(b as usize)) {
        let stamp = costs.len() as u32;
        let mut loads = vec![0_u64; workers as usize];
        let mut cardinalities = vec![0_u64; workers as usize];
        let mut groups = 0;
        for &row in rows {
            let (key, worker) = (keys[row as usize], assignment[row as usize]);
            loads[worker as usize] += 1;
            if pairs_seen.insert((key, worker), stamp) != Some(stamp) {
                cardinalities[worker as usize] += 1;
                groups += u64::from(groups_seen.insert(key, stamp) != Some(stamp));
            }
        }
        let (of_rows, of_keys) = (normalised(&loads), normalised(&cardinalities));
        let hybrid: Vec<f64> =
            of_rows.iter().zip(&of_keys).map(|(rows, keys)| bias * rows + (1.0 - bias) * keys).collect();
        let most = |counts: &[u64]| counts.iter().copied().max().unwrap_or_default();
        let over =
            |counts: &[u64]| most(counts) as f64 - counts.iter().sum::<u64>() as f64 / f64::from(workers);
        costs.push(Cost {
            window: window(rows[0] as usize),
            rows: rows.len() as u64,
            groups,
            most_rows: most(&loads),
            most_groups: most(&cardinalities),
            imbalance: over(&loads),
            cardinality_imbalance: over(&cardinalities),
            hybrid_imbalance: hybrid.iter().copied().fold(0.0, f64::max)
                - hybrid.iter().sum::<f64>() / f64::from(workers),
            aggregation: cardinalities.iter().sum(),
        });
    }
    Ok(costs)
}

/// Eq. 7 and Eq. 8.
fn normalised(counts: &[u64]) -> Vec<f64> {
    let least = counts.iter().copied().min().unwrap_or_default();
    let range = counts.iter().copied().max().unwrap_or_default() - least;
    counts.iter().map(|&count| if range == 0 { 0.0 } else { (count - least) as f64 / range as f64 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// §2.2's example: worker 1 has x and y, worker 2 has x, y and z.
    #[test]
    fn the_example_of_section_2_2() {
        let counts = [(0, 0, 12), (1, 0, 123), (0, 1, 43), (1, 1, 1), (2, 1, 4)];
        let (mut keys, mut workers) = (vec![], vec![]);
        for (key, worker, rows) in counts {
            keys.extend(vec![key; rows]);
            workers.extend(vec![worker; rows]);
        }
        let costs = cost(&keys, &workers, None, 2, 0.25).unwrap();
        // 135 and 48 rows, 2 and 3 keys; hybrid loads 0.25 · 1 + 0.75 · 0 and 0.25 · 0 + 0.75 · 1.
        assert_eq!(
            costs,
            [Cost {
                window: 0,
                rows: 183,
                groups: 3,
                most_rows: 135,
                most_groups: 3,
                imbalance: 43.5,
                cardinality_imbalance: 0.5,
                hybrid_imbalance: 0.25,
                aggregation: 5,
            }]
        );
    }

    proptest! {
        #[test]
        fn aggregation_is_within_proposition_1(
            rows in prop::collection::vec((0..6_u32, 0..4_i32, 0..3_i64), 0..60)
        ) {
            let keys: Vec<u32> = rows.iter().map(|row| row.0).collect();
            let workers: Vec<i32> = rows.iter().map(|row| row.1).collect();
            let windows: Vec<i64> = rows.iter().map(|row| row.2).collect();
            let costs = cost(&keys, &workers, Some(&windows), 4, 0.5).unwrap();
            let all: HashSet<i64> = windows.iter().copied().collect();
            prop_assert_eq!(costs.len(), all.len());
            for cost in costs {
                let own: Vec<_> = rows.iter().filter(|row| row.2 == cost.window).collect();
                let groups = own.iter().map(|row| row.0).collect::<HashSet<_>>().len() as u64;
                let pairs = own.iter().map(|row| (row.0, row.1)).collect::<HashSet<_>>().len() as u64;
                let most = (0..4).map(|w| own.iter().filter(|row| row.1 == w).count()).max().unwrap();
                prop_assert_eq!((cost.rows, cost.groups, cost.aggregation), (own.len() as u64, groups, pairs));
                prop_assert_eq!(cost.imbalance, most as f64 - own.len() as f64 / 4.0);
                prop_assert!(cost.groups <= cost.aggregation && cost.aggregation <= 4 * cost.groups);
                prop_assert!((0.0..=1.0).contains(&cost.hybrid_imbalance));
            }
        }
    }
}
