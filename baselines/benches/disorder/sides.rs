//! What is compared, on streams of one key column, a time and a value.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use windowkit::Result;
use windowkit::aggregate::{Function, Input, Operand};
use windowkit::operator::{
    AggregateSpec, Flush, Length, Operator, Options, Plan, Policy, StoreKind, WindowKind, WindowSpec,
};
use windowkit::slice::strategy::Order;
use windowkit::window::{Sliding, Window};
use windowkit_baselines::{Method, Setting, Technique, Windows};

/// One window over time and one function of the value.
#[derive(Clone, Copy)]
pub struct Workload {
    pub size: i64,
    pub slide: i64,
    pub function: &'static str,
    pub parameters: &'static [f64],
    pub order: Order,
    /// Whether a key is read; otherwise all rows have one.
    pub keyed: bool,
}

/// Rows on their way to a side.
pub struct Batch {
    pub keys: Vec<u32>,
    pub times: Vec<i64>,
    pub values: Vec<i64>,
}

/// A side at work on one stream.
pub trait Worker {
    /// Takes a batch as the side wants it, before the clock runs.
    fn load(&mut self, batch: Batch);

    /// Pushes what was loaded, then moves the watermark; returns how many windows came.
    fn step(&mut self, watermark: i64) -> usize;
}

/// How a side is made.
pub type Make = fn(&Workload) -> Box<dyn Worker>;

/// Windows from slices: the stream operator that Python has, Arrow batches in and out.
pub fn slices(workload: &Workload) -> Box<dyn Worker> {
    Box::new(Slices::new(workload, Flush::default()))
}

/// The same, emitting at most so many windows a call (slow flush).
pub fn slow_flush(workload: &Workload) -> Box<dyn Worker> {
    Box::new(Slices::new(workload, Flush { at_most: Some(FLUSHED), later: None }))
}

/// Windows that a slow flush emits a call, at most.
const FLUSHED: u64 = 16_384;

pub fn wid(workload: &Workload) -> Box<dyn Worker> {
    Box::new(Reference::new(workload, Method::Wid))
}

/// In-order processing: rows wait in a buffer that sorts them.
pub fn buffering(workload: &Workload) -> Box<dyn Worker> {
    Box::new(Reference::new(workload, Method::Buffering))
}

/// Rows are stored, and each window is computed from its rows when it ends.
pub fn rows(workload: &Workload) -> Box<dyn Worker> {
    Box::new(Reference::new(workload, Method::TupleBuffer))
}

struct Slices {
    running: Operator,
    plan: Arc<Plan>,
    keyed: bool,
    loaded: Option<RecordBatch>,
}

impl Slices {
    fn new(workload: &Workload, flush: Flush) -> Self {
        let plan = workload.plan(flush).expect("a query that is allowed");
        let options = Options {
            order: workload.order,
            allowed_lateness: 0,
            progress: None,
            store: StoreKind::Auto,
            late_limit: None,
        };
        let running = Operator::new(vec![("q".into(), plan.clone())], options).expect("a query");
        Self { running, plan, keyed: workload.keyed, loaded: None }
    }
}

impl Worker for Slices {
    fn load(&mut self, batch: Batch) {
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(batch.times)), Arc::new(Int64Array::from(batch.values))];
        if self.keyed {
            columns.push(Arc::new(UInt32Array::from(batch.keys)));
        }
        let batch = RecordBatch::try_new(self.plan.input().clone(), columns);
        self.loaded = Some(batch.expect("columns of the query"));
    }

    fn step(&mut self, watermark: i64) -> usize {
        let batch = self.loaded.take().expect("a batch was loaded");
        let mut emitted = self.running.push(&[batch]).expect("rows of the stream");
        emitted.extend(self.running.advance(watermark).expect("a watermark of the stream"));
        emitted.iter().map(RecordBatch::num_rows).sum()
    }
}

struct Reference {
    technique: Box<dyn Technique>,
    workload: Workload,
    loaded: Option<(Batch, Vec<Input>)>,
}

impl Reference {
    fn new(workload: &Workload, method: Method) -> Self {
        Self { technique: workload.technique(method), workload: *workload, loaded: None }
    }
}

impl Worker for Reference {
    fn load(&mut self, batch: Batch) {
        let inputs = self.workload.inputs(&batch.times, &batch.values);
        self.loaded = Some((batch, inputs));
    }

    fn step(&mut self, watermark: i64) -> usize {
        let (batch, inputs) = self.loaded.take().expect("a batch was loaded");
        let pushed = self.technique.push(&batch.keys, &batch.times, &inputs).expect("rows of the stream");
        let advanced = self.technique.advance(watermark).expect("a watermark of the stream");
        // As the operator does.
        [&pushed, &advanced].into_iter().map(|windows| lowered(windows).len()).sum()
    }
}

/// Window ids over panes: a tumbling query of panes, and a query over its results (Li 2008, §6.2, Fig. 6-14). For maxima,
/// of one key.
pub struct Paned {
    panes: Box<dyn Technique>,
    windows: Box<dyn Technique>,
    workload: Workload,
    loaded: Option<(Batch, Vec<Input>)>,
}

impl Paned {
    pub fn make(workload: &Workload) -> Box<dyn Worker> {
        assert_eq!(workload.function, "max", "the maximum of maxima is one");
        let pane = gcd(workload.size, workload.slide);
        let panes = Workload { size: pane, slide: pane, ..*workload }.technique(Method::Wid);
        // A pane has the time at which it starts.
        let windows = workload.technique(Method::Wid);
        Box::new(Self { panes, windows, workload: *workload, loaded: None })
    }
}

impl Worker for Paned {
    fn load(&mut self, batch: Batch) {
        let inputs = self.workload.inputs(&batch.times, &batch.values);
        self.loaded = Some((batch, inputs));
    }

    fn step(&mut self, watermark: i64) -> usize {
        let (batch, inputs) = self.loaded.take().expect("a batch was loaded");
        self.panes.push(&batch.keys, &batch.times, &inputs).expect("rows of the stream");
        let panes = self.panes.advance(watermark).expect("a watermark of the stream");
        let maxima = Input { columns: vec![lowered(&panes)], taken: None };
        self.windows.push(&panes.keys, &panes.starts, &[maxima]).expect("panes of the stream");
        lowered(&self.windows.advance(watermark).expect("a watermark of the stream")).len()
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The results of windows, of the first partial.
fn lowered(windows: &Windows) -> ArrayRef {
    windows.partials[0].lower().expect("results that fit their type")
}

impl Workload {
    fn function(&self) -> Function {
        Function::parse(self.function, &[], self.parameters).expect("a function")
    }

    fn plan(&self, flush: Flush) -> Result<Arc<Plan>> {
        let units = |length: i64| Length::Units(length.into());
        let mut fields = vec![("t", DataType::Int64), ("v", DataType::Int64)];
        if self.keyed {
            fields.push(("k", DataType::UInt32));
        }
        let fields: Vec<Field> =
            fields.into_iter().map(|(name, kind)| Field::new(name, kind, false)).collect();
        let schema = Arc::new(Schema::new(fields));
        let kind = WindowKind::Sliding {
            size: units(self.size),
            slide: units(self.slide),
            start_time: None,
            partial: false,
        };
        let windows = vec![WindowSpec { name: "w".into(), kind }];
        let columns = vec!["v"; self.function().columns()];
        let aggregate = AggregateSpec {
            parameters: self.parameters.to_vec(),
            ..AggregateSpec::new(self.function, &columns, "result")
        };
        let by = if self.keyed { vec!["k".to_owned()] } else { Vec::new() };
        let plan = Plan::new(schema.clone(), by, "t".into(), windows, vec![aggregate])?;
        let policy = (flush != Flush::default())
            .then(|| Policy::new(&[], "accumulating", flush, &schema, plan.measure()))
            .transpose()?;
        Ok(Arc::new(plan.with_policy(policy)))
    }

    fn technique(&self, method: Method) -> Box<dyn Technique> {
        let column = |(partial, inputs): (windowkit::aggregate::Partial, Vec<Operand>)| {
            partial.column(&vec![DataType::Int64; inputs.len()]).expect("a partial of integers")
        };
        let setting = Setting {
            windows: vec![Window::Sliding(Sliding::new(self.size, self.slide, 0))],
            own: Vec::new(),
            order: self.order,
            lateness: 0,
            partials: self.function().partials().into_iter().map(column).collect(),
        };
        method.make(setting).expect("a technique that takes windows over time")
    }

    fn inputs(&self, times: &[i64], values: &[i64]) -> Vec<Input> {
        let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let times: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
        let column = |operand: &Operand| match operand {
            Operand::Column(_) => values.clone(),
            Operand::Time => times.clone(),
        };
        let own = self.function().partials();
        own.into_iter()
            .map(|(_, operands)| Input { columns: operands.iter().map(column).collect(), taken: None })
            .collect()
    }
}
