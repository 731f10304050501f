//! Tests what is kept above slices on a stream: rows are added, dropped, or rolled back, and all windows compared after
//! each call.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::super::cells::Cell;
use super::super::{Cut, Delta, Store, Timelines, Wanted};
use crate::Error;
use crate::aggregate::{Input, Partial};
use crate::poll::{Poll, never};

/// Slices are as long as this.
const LENGTH: i64 = 4;

/// What is kept above slices.
pub(super) trait Above: Sized {
    /// The result of a window.
    type Answer: Debug + PartialEq;

    /// The partial that it is tested with, of int64 values.
    const PARTIAL: Partial;

    fn new(store: &Store) -> Self;

    /// Applies the changes of a call.
    fn update(&mut self, given: (&Store, &Delta), timelines: &Timelines, poll: Poll) -> crate::Result<()>;

    fn answers(
        &mut self,
        state: (&Store, &Delta),
        timelines: &Timelines,
        windows: &[Wanted],
    ) -> Vec<Self::Answer>;

    /// The result of a window with these values, by definition.
    fn defined(values: &[i64]) -> Self::Answer;

    /// A call that affected these keys is rolled back.
    fn invalidate(&mut self, keys: Vec<u32>);

    /// Slices were dropped.
    fn forget(&mut self, timelines: &Timelines);
}

/// A key, a time and a value.
type Row = (u32, i64, Option<i64>);

/// Rows of a call; whether they are rolled back, and the time before which everything is dropped afterwards.
#[derive(Debug, Clone)]
pub(super) struct Call {
    rows: Vec<Row>,
    fails: bool,
    forgets: i64,
}

fn rows(times: std::ops::Range<i64>, most: usize) -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0u32..3, times, prop::option::weighted(0.9, -9i64..9)), 0..most)
}

fn floor(time: i64) -> i64 {
    time.div_euclid(LENGTH) * LENGTH
}

/// Calls whose rows come out of order, but not after the time when they would be dropped.
pub(super) fn out_of_order() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec((rows(0..60, 8), 0i64..6, any::<bool>()), 1..25).prop_map(|calls| {
        let mut base = 0;
        let call = |(mut rows, step, fails): (Vec<Row>, i64, bool)| {
            rows.iter_mut().for_each(|row| row.1 += base);
            base += step;
            Call { rows, fails, forgets: floor(base) }
        };
        calls.into_iter().map(call).collect()
    })
}

/// Calls whose rows come in order.
pub(super) fn in_order() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec((rows(0..9, 30), -4i64..30, 0u8..4), 1..25).prop_map(|calls| {
        let (mut base, mut forgets) = (0, i64::MIN);
        let call = |(mut rows, ahead, fate): (Vec<Row>, i64, u8)| {
            let (mut now, fails) = (base, fate == 0);
            for row in &mut rows {
                now += row.1 / 4;
                row.1 = now;
            }
            if !fails {
                forgets = forgets.max(floor(now - ahead));
                base = now.max(forgets);
            }
            Call { rows, fails, forgets }
        };
        calls.into_iter().map(call).collect()
    })
}

/// Compares all windows after each call with the definition; returns what remains once all slices are dropped.
pub(super) fn tried<A: Above>(calls: Vec<Call>) -> Result<A, TestCaseError> {
    let mut store = Store::new(vec![A::PARTIAL.column(&[DataType::Int64], never).unwrap()], &[], 0);
    let mut timelines = Timelines::default();
    let mut above = A::new(&store);
    let mut kept: Vec<Row> = Vec::new();
    for Call { rows, fails, forgets } in calls {
        let mut delta = store.delta();
        let values: ArrayRef = Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>());
        let slots: Vec<u32> = (0..rows.len() as u32).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
        let input = Input { columns: vec![values], taken: None };
        delta.update(&[input], &times, &Cut::Slots(&slots), rows.len()).unwrap();
        // Many cells are put in the order of their keys first, though slots have that of the rows.
        let base = timelines.slots() as u32;
        let mut cells: Vec<(u32, i64, u32)> =
            rows.iter().zip(base..).map(|(row, slot)| (row.0, row.1, slot)).collect();
        cells.iter().for_each(|_| _ = timelines.open());
        if rows.len() % 2 == 0 {
            cells.sort_by_key(|cell| cell.0);
        }
        for (key, time, slot) in cells {
            let start = floor(time);
            timelines.add((Cell { key, first: time, last: time }, slot), (start, start + LENGTH), None);
        }
        timelines.close();
        let poll: Poll = if fails && rows.len() % 3 == 0 { interrupted } else { never };
        let is_done = above.update((&store, &delta), &timelines, poll).is_ok();
        prop_assert!(is_done || fails);
        let all: Vec<Row> = kept.iter().chain(&rows).copied().collect();
        for key in 0..3 {
            let slices = timelines.of(key);
            let ends = |lo: usize| lo + 1..=slices.len();
            let windows =
                (0..slices.len()).flat_map(|lo| ends(lo).map(move |hi| Wanted { key, slices: lo..hi }));
            let windows: Vec<Wanted> = windows.collect();
            if windows.is_empty() || !is_done {
                continue;
            }
            let answers = above.answers((&store, &delta), &timelines, &windows);
            prop_assert_eq!(answers.len(), windows.len());
            for (Wanted { slices: own, .. }, answer) in windows.iter().zip(answers) {
                let within = slices.firsts[own.start]..=slices.lasts[own.end - 1];
                let rows = all.iter().filter(|row| row.0 == key && within.contains(&row.1));
                let values: Vec<i64> = rows.filter_map(|row| row.2).collect();
                prop_assert_eq!(answer, A::defined(&values));
            }
        }
        if fails {
            above.invalidate(rows.iter().map(|row| row.0).collect());
            timelines.take_back();
        } else {
            store.append(delta);
            timelines.settle();
            kept = all;
        }
        forget(&mut timelines, forgets);
        above.forget(&timelines);
        kept.retain(|row| row.1 >= forgets);
    }
    forget(&mut timelines, i64::MAX);
    above.forget(&timelines);
    Ok(above)
}

fn interrupted() -> crate::Result<()> {
    Err(Error::InvalidValue("enough".into()))
}

fn forget(timelines: &mut Timelines, cutoff: i64) {
    for key in 0..timelines.keys() as u32 {
        timelines.forget(key, timelines.expired(key, cutoff, None), 0);
    }
}

/// The sum of values; `None` of no values.
pub(super) fn sum(values: &[i64]) -> Option<i64> {
    (!values.is_empty()).then(|| values.iter().sum())
}
