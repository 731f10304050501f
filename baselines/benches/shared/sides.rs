//! The sides of a comparison: windowkit's operator, and the reference techniques.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use windowkit::aggregate::{Function, Input, Operand, Partials, User};
use windowkit::operator::{
    AggregateSpec, Flush, Length, Operator, Options, Plan, Policy, StoreKind, WindowKind, WindowSpec,
};
use windowkit::poll::never;
use windowkit::slice::strategy::Order;
use windowkit::window::{Partial, Window};
use windowkit::{Error, Result};
use windowkit_baselines::{Method, Setting, SumWithoutInvert, Technique, Windows};

/// Windows over a column of times, a function of one of integers, and the stream's order.
#[derive(Clone)]
pub struct Workload {
    pub windows: Vec<Window>,
    pub function: &'static str,
    pub parameters: &'static [f64],
    pub order: Order,
    pub lateness: i64,
    /// Whether a key is read; otherwise all rows have one.
    pub keyed: bool,
}

/// Rows on their way to a side.
pub struct Batch {
    pub keys: Vec<u32>,
    pub times: Vec<i64>,
    pub values: ArrayRef,
}

impl Batch {
    /// Rows of one key.
    pub fn new(times: Vec<i64>, values: impl Iterator<Item = i64>) -> Self {
        Self { keys: vec![0; times.len()], times, values: Arc::new(Int64Array::from_iter_values(values)) }
    }
}

/// A side at work on one stream.
pub trait Worker: Send {
    /// Takes a batch as the side wants it, before the clock runs.
    fn load(&mut self, batch: Batch) -> Result<()>;

    /// Pushes what was loaded; returns how many windows came.
    fn push(&mut self) -> Result<usize>;

    /// Moves the watermark; returns how many windows came.
    fn advance(&mut self, watermark: i64) -> Result<usize>;

    /// Bytes that it says it holds.
    fn bytes(&self) -> usize;
}

/// Hands in a batch and its watermark; how long that took.
pub fn step(worker: &mut dyn Worker, batch: Batch, watermark: i64) -> Duration {
    worker.load(batch).expect("columns of the workload");
    let start = Instant::now();
    worker.push().expect("rows of the stream");
    worker.advance(watermark).expect("a watermark of the stream");
    start.elapsed()
}

/// How a side is made; it may refuse a workload.
pub type Make = fn(&Workload) -> Result<Box<dyn Worker>>;

/// General stream slicing: the stream operator as Python has it, Arrow batches in and out.
pub struct Slices {
    running: Operator,
    plan: Arc<Plan>,
    keyed: bool,
    loaded: Option<RecordBatch>,
}

impl Slices {
    pub fn make(workload: &Workload, store: StoreKind, flush: Flush) -> Result<Box<dyn Worker>> {
        let plan = Arc::new(workload.plan(flush)?);
        let running = operator(plan.clone(), workload.order, workload.lateness, store)?;
        if store == StoreKind::Eager && running.store_forms().iter().all(|&(how, _)| how != "eager") {
            return Err(Error::InvalidValue("store: what this workload stores is not held in a tree".into()));
        }
        Ok(Box::new(Self { running, plan, keyed: workload.keyed, loaded: None }))
    }
}

/// An operator of one query.
pub fn operator(plan: Arc<Plan>, order: Order, allowed_lateness: i64, store: StoreKind) -> Result<Operator> {
    let options = Options {
        order,
        allowed_lateness,
        progress: None,
        store,
        late_limit: None,
        shed: None,
        updates: true,
    };
    Operator::new(vec![("q".into(), plan)], options)
}

impl Worker for Slices {
    fn load(&mut self, batch: Batch) -> Result<()> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(batch.times)), batch.values];
        if self.keyed {
            columns.push(Arc::new(UInt32Array::from(batch.keys)));
        }
        self.loaded = Some(RecordBatch::try_new(self.plan.input().clone(), columns)?);
        Ok(())
    }

    fn push(&mut self) -> Result<usize> {
        let batch = self.loaded.take().expect("a batch was loaded");
        Ok(self.running.push(&[batch])?.iter().map(RecordBatch::num_rows).sum())
    }

    fn advance(&mut self, watermark: i64) -> Result<usize> {
        Ok(self.running.advance(watermark)?.iter().map(RecordBatch::num_rows).sum())
    }

    fn bytes(&self) -> usize {
        self.running.stats().bytes
    }
}

/// A reference technique.
pub struct Reference {
    technique: Box<dyn Technique>,
    workload: Workload,
    /// Whether windows have results, as the operator's have, and not only partials.
    lowers: bool,
    loaded: Option<(Batch, Vec<Input>)>,
}

impl Reference {
    pub fn make(workload: &Workload, method: Method, lowers: bool) -> Result<Box<dyn Worker>> {
        let technique = method.make(workload.setting()?)?;
        Ok(Box::new(Self { technique, workload: workload.clone(), lowers, loaded: None }))
    }

    fn count(&self, windows: &Windows) -> Result<usize> {
        if self.lowers { Ok(lowered(windows)?.len()) } else { Ok(windows.len()) }
    }
}

impl Worker for Reference {
    fn load(&mut self, batch: Batch) -> Result<()> {
        let inputs = self.workload.inputs(&batch)?;
        self.loaded = Some((batch, inputs));
        Ok(())
    }

    fn push(&mut self) -> Result<usize> {
        let (batch, inputs) = self.loaded.take().expect("a batch was loaded");
        let windows = self.technique.push(&batch.keys, &batch.times, &inputs)?;
        self.count(&windows)
    }

    fn advance(&mut self, watermark: i64) -> Result<usize> {
        let windows = self.technique.advance(watermark)?;
        self.count(&windows)
    }

    fn bytes(&self) -> usize {
        self.technique.stats().bytes
    }
}

/// The results of windows, of the first partial.
pub fn lowered(windows: &Windows) -> Result<ArrayRef> {
    windows.partials[0].lower()
}

impl Workload {
    /// Sums over these windows, of rows in order and of one key.
    pub fn new(windows: Vec<Window>) -> Self {
        let (function, order) = ("sum", Order::InOrder);
        Self { windows, function, parameters: &[], order, lateness: 0, keyed: false }
    }

    pub fn out_of_order(self) -> Self {
        Self { order: Order::OutOfOrder, ..self }
    }

    pub fn function(self, function: &'static str, parameters: &'static [f64]) -> Self {
        Self { function, parameters, ..self }
    }

    pub fn keyed(self) -> Self {
        Self { keyed: true, ..self }
    }

    /// The function, where it is one of the benchmarks and not one of windowkit's.
    fn own(&self) -> Option<User> {
        (self.function == SumWithoutInvert::NAME).then(SumWithoutInvert::user)
    }

    /// The function, bound to no column yet.
    fn bound(&self) -> Result<Function> {
        match self.own() {
            Some(own) => Ok(Function::User(own, 1)),
            None => Function::parse(self.function, &[], self.parameters),
        }
    }

    pub fn partials(&self) -> Result<Vec<Box<dyn Partials>>> {
        let own = self.bound()?.partials();
        own.into_iter()
            .map(|(partial, inputs)| partial.column(&vec![DataType::Int64; inputs.len()], never))
            .collect()
    }

    /// The workload's windows and functions as a query over columns "t" and "v", by "k" if there are keys.
    fn plan(&self, flush: Flush) -> Result<Plan> {
        let units = |length: i64| Length::Units(length.into());
        let rows = |rows: usize| Length::Rows(rows as i128);
        let kind = |window: &Window| match window {
            Window::Sliding(window) => Ok(WindowKind::Sliding {
                size: units(window.size()),
                slide: units(window.slide()),
                start_time: Some(units(window.offset())),
                partial: Partial::NONE,
            }),
            Window::Session(session) => Ok(WindowKind::Session { gap: units(session.gap()) }),
            Window::Counted(counted) => Ok(WindowKind::Sliding {
                size: rows(counted.size()),
                slide: rows(counted.slide()),
                start_time: None,
                partial: counted.partial(),
            }),
            other => Err(Error::Internal(format!("no experiment has {other:?}"))),
        };
        let spec = |(at, window)| Ok(WindowSpec { name: format!("w{at}"), kind: kind(window)? });
        let windows = self.windows.iter().enumerate().map(spec).collect::<Result<_>>()?;
        let columns = vec!["v"; self.bound()?.columns()];
        let aggregate = AggregateSpec {
            parameters: self.parameters.to_vec(),
            user: self.own(),
            ..AggregateSpec::new(self.function, &columns, "result")
        };
        let mut fields = vec![("t", DataType::Int64), ("v", DataType::Int64)];
        let mut by = Vec::new();
        if self.keyed {
            fields.push(("k", DataType::UInt32));
            by.push("k".to_owned());
        }
        let field = |(name, kind)| Field::new(name, kind, false);
        let schema = Arc::new(Schema::new(fields.into_iter().map(field).collect::<Vec<_>>()));
        let plan = Plan::new(schema.clone(), by, "t".into(), windows, vec![aggregate])?;
        let policy = (flush != Flush::default())
            .then(|| Policy::new(&[], "accumulating", flush, &schema, plan.measure()))
            .transpose()?;
        plan.with_policy(policy)
    }

    pub fn setting(&self) -> Result<Setting> {
        let (windows, partials) = (self.windows.clone(), self.partials()?);
        Ok(Setting { windows, own: Vec::new(), order: self.order, lateness: self.lateness, partials })
    }

    /// What each partial reads of a batch.
    pub fn inputs(&self, batch: &Batch) -> Result<Vec<Input>> {
        let times: ArrayRef = Arc::new(Int64Array::from(batch.times.clone()));
        let column = |operand: &Operand| match operand {
            Operand::Column(_) => batch.values.clone(),
            Operand::Time => times.clone(),
        };
        let own = self.bound()?.partials();
        Ok(own
            .into_iter()
            .map(|(_, operands)| Input { columns: operands.iter().map(column).collect(), taken: None })
            .collect())
    }
}
