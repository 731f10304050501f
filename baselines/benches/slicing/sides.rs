//! What is measured: a side is a name and how to make it for a workload.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use windowkit::Result;
use windowkit::operator::{AggregateSpec, Flush, Operator, Plan, StoreKind, WindowKind, WindowSpec};
use windowkit::slice::strategy::Order;
use windowkit::window::{Counted, Mark, Partial, Session, Sliding, Window};
use windowkit_baselines::Method;

use crate::data::{RATE, SECOND};
use crate::shared::sides::{Batch, Make, Reference, Slices, Workload, operator};

/// All sides. A side that refuses a workload is left out where it does. Slicing keeps rows besides its slices where a
/// workload needs them, as windows of a number of rows do; these it holds in one way only, the lazy one.
pub const SIDES: [(&str, Make); 8] = [
    ("slicing lazy", |workload| Slices::make(workload, StoreKind::Lazy, Flush::default())),
    ("slicing eager", |workload| Slices::make(workload, StoreKind::Eager, Flush::default())),
    ("tuple_buffer", |workload| Reference::make(workload, Method::TupleBuffer, false)),
    ("aggregate_tree", |workload| Reference::make(workload, Method::AggregateTree, false)),
    ("aggregate_buckets", |workload| Reference::make(workload, Method::AggregateBuckets, false)),
    ("tuple_buckets", |workload| Reference::make(workload, Method::TupleBuckets, false)),
    ("pairs", |workload| Reference::make(workload, Method::Pairs, false)),
    ("cutty", |workload| Reference::make(workload, Method::Cutty, false)),
];

/// So many concurrent tumbling windows, of lengths from 1 to 20 seconds at equal distances (§6.2.1).
pub fn concurrent(windows: usize) -> Vec<Window> {
    let length = |at: usize| match windows {
        1 => 20 * SECOND,
        _ => SECOND + 19 * SECOND * at as i64 / (windows as i64 - 1),
    };
    (0..windows).map(length).map(|length| Window::Sliding(Sliding::new(length, length, 0))).collect()
}

/// Concurrent tumbling windows, and a session of one second (§6.2.2).
pub fn with_session(windows: usize) -> Vec<Window> {
    let session = Window::Session(Session::new(SECOND));
    concurrent(windows).into_iter().chain([session]).collect()
}

/// So many concurrent tumbling windows of a number of rows: as many as come in 1 to 20 seconds, at equal distances
/// (§6.3.2, §6.3.4).
pub fn counted(windows: usize) -> Vec<Window> {
    let rows = |at: usize| match windows {
        1 => 20 * RATE as usize,
        _ => RATE as usize + 19 * RATE as usize * at / (windows - 1),
    };
    (0..windows).map(rows).map(|rows| Window::Counted(Counted::new(rows, rows, Partial::NONE))).collect()
}

/// Slicing of windows between marks that calls set, of rows out of order: a call in the past splits a slice.
pub struct Splitting {
    running: Operator,
}

impl Splitting {
    /// One slice of these rows, with the function of a workload.
    pub fn of(workload: &Workload, batch: Batch) -> Result<Self> {
        let field = |name: &str, kind| Field::new(name, kind, false);
        let fields =
            [field("t", DataType::Int64), field("v", DataType::Int64), field("m", DataType::Boolean)];
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let kind = WindowKind::Punctuation { column: "m".into(), mark: Mark::End };
        let windows = vec![WindowSpec { name: "w".into(), kind }];
        let aggregate = AggregateSpec::new(workload.function, &["v"], "result");
        let plan = Arc::new(Plan::new(schema.clone(), Vec::new(), "t".into(), windows, vec![aggregate])?);
        let mut running = operator(plan, Order::OutOfOrder, 0, StoreKind::Auto)?;
        let marks: ArrayRef = Arc::new(BooleanArray::from(vec![false; batch.times.len()]));
        let times: ArrayRef = Arc::new(Int64Array::from(batch.times));
        running.push(&[RecordBatch::try_new(schema, vec![times, batch.values, marks])?])?;
        Ok(Self { running })
    }

    /// Splits the slice; how often that was done so far.
    pub fn split(&mut self, at: i64) -> Result<u64> {
        self.running.punctuate(at, None)?;
        Ok(self.running.stats().splits)
    }
}
