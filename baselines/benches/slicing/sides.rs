//! What is measured: a side is a name and how to make it for a workload.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use windowkit::aggregate::{Function, Input, Operand, Partials};
use windowkit::operator::{
    AggregateSpec, Length, Operator, Options, Plan, StoreKind, WindowKind, WindowSpec,
};
use windowkit::slice::strategy::Order;
use windowkit::window::{Counted, Mark, Session, Sliding, Window};
use windowkit::{Error, Result};
use windowkit_baselines::{Method, Setting, Technique};

use crate::data::{Batch, RATE, SECOND};

/// A query over one column of integers, and its stream's order.
#[derive(Clone)]
pub struct Workload {
    pub windows: Vec<Window>,
    pub function: &'static str,
    pub parameters: &'static [f64],
    pub order: Order,
    pub lateness: i64,
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

/// A side: a name, and how to make it.
pub struct Side {
    pub name: &'static str,
    pub make: fn(&Workload) -> Result<Box<dyn Worker>>,
}

/// All sides. A side that refuses a workload is left out where it does. Slicing keeps rows besides its slices where a
/// workload needs them, as windows of a number of rows do; these it holds in one way only, the lazy one.
pub fn sides() -> Vec<Side> {
    vec![
        Side { name: "slicing lazy", make: |workload| Slicing::make(workload, StoreKind::Lazy) },
        Side { name: "slicing eager", make: |workload| Slicing::make(workload, StoreKind::Eager) },
        Side { name: "tuple_buffer", make: |workload| Reference::make(workload, Method::TupleBuffer) },
        Side { name: "aggregate_tree", make: |workload| Reference::make(workload, Method::AggregateTree) },
        Side {
            name: "aggregate_buckets",
            make: |workload| Reference::make(workload, Method::AggregateBuckets),
        },
        Side { name: "tuple_buckets", make: |workload| Reference::make(workload, Method::TupleBuckets) },
        Side { name: "pairs", make: |workload| Reference::make(workload, Method::Pairs) },
        Side { name: "cutty", make: |workload| Reference::make(workload, Method::Cutty) },
    ]
}

/// General stream slicing: the stream operator as Python has it, Arrow batches in and out.
struct Slicing {
    running: Operator,
    plan: Arc<Plan>,
    loaded: Option<RecordBatch>,
}

impl Slicing {
    fn make(workload: &Workload, store: StoreKind) -> Result<Box<dyn Worker>> {
        let plan = Arc::new(workload.plan()?);
        let options = Options {
            order: workload.order,
            allowed_lateness: workload.lateness,
            progress: None,
            store,
            late_limit: None,
        };
        let running = Operator::new(vec![("q".into(), plan.clone())], options)?;
        if store == StoreKind::Eager && running.store_forms().iter().all(|&(how, _)| how != "eager") {
            return Err(Error::InvalidValue("store: what this workload stores is not held in a tree".into()));
        }
        Ok(Box::new(Self { running, plan, loaded: None }))
    }
}

impl Worker for Slicing {
    fn load(&mut self, batch: Batch) -> Result<()> {
        let times: ArrayRef = Arc::new(Int64Array::from(batch.times));
        self.loaded = Some(RecordBatch::try_new(self.plan.input().clone(), vec![times, batch.values])?);
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
struct Reference {
    technique: Box<dyn Technique>,
    workload: Workload,
    loaded: Option<(Batch, Vec<Input>)>,
}

impl Reference {
    fn make(workload: &Workload, method: Method) -> Result<Box<dyn Worker>> {
        let technique = method.make(workload.setting()?)?;
        Ok(Box::new(Self { technique, workload: workload.clone(), loaded: None }))
    }
}

impl Worker for Reference {
    fn load(&mut self, batch: Batch) -> Result<()> {
        let times: ArrayRef = Arc::new(Int64Array::from(batch.times.clone()));
        let inputs = self.workload.inputs(&times, &batch.values)?;
        self.loaded = Some((batch, inputs));
        Ok(())
    }

    fn push(&mut self) -> Result<usize> {
        let (batch, inputs) = self.loaded.take().expect("a batch was loaded");
        Ok(self.technique.push(&batch.keys, &batch.times, &inputs)?.len())
    }

    fn advance(&mut self, watermark: i64) -> Result<usize> {
        Ok(self.technique.advance(watermark)?.len())
    }

    fn bytes(&self) -> usize {
        self.technique.stats().bytes
    }
}

impl Workload {
    /// Sums over these windows, of rows in order.
    pub fn new(windows: Vec<Window>) -> Self {
        Self { windows, function: "sum", parameters: &[], order: Order::InOrder, lateness: 0 }
    }

    pub fn out_of_order(self) -> Self {
        Self { order: Order::OutOfOrder, ..self }
    }

    pub fn function(self, function: &'static str, parameters: &'static [f64]) -> Self {
        Self { function, parameters, ..self }
    }

    /// The function, bound to no column yet.
    pub fn bound(&self) -> Result<Function> {
        Function::parse(self.function, &[], self.parameters)
    }

    pub fn partials(&self) -> Result<Vec<Box<dyn Partials>>> {
        let own = self.bound()?.partials();
        own.into_iter()
            .map(|(partial, inputs)| partial.column(&vec![DataType::Int64; inputs.len()]))
            .collect()
    }

    /// The same as a query over columns "t" and "v", of no keys.
    fn plan(&self) -> Result<Plan> {
        let field = |name: &str| Field::new(name, DataType::Int64, false);
        let units = |length: i64| Length::Units(length.into());
        let rows = |rows: usize| Length::Rows(rows as i128);
        let kind = |window: &Window| match window {
            Window::Sliding(window) => Ok(WindowKind::Sliding {
                size: units(window.size()),
                slide: units(window.slide()),
                start_time: Some(units(window.offset())),
                partial: false,
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
            ..AggregateSpec::new(self.function, &columns, "result")
        };
        let schema = Arc::new(Schema::new(vec![field("t"), field("v")]));
        Plan::new(schema, Vec::new(), "t".into(), windows, vec![aggregate])
    }

    fn setting(&self) -> Result<Setting> {
        let (windows, partials) = (self.windows.clone(), self.partials()?);
        Ok(Setting { windows, own: Vec::new(), order: self.order, lateness: self.lateness, partials })
    }

    /// What each partial reads of a batch.
    pub fn inputs(&self, times: &ArrayRef, values: &ArrayRef) -> Result<Vec<Input>> {
        let column = |operand: &Operand| match operand {
            Operand::Column(_) => values.clone(),
            Operand::Time => times.clone(),
        };
        let own = self.bound()?.partials();
        Ok(own
            .into_iter()
            .map(|(_, operands)| Input { columns: operands.iter().map(column).collect(), taken: None })
            .collect())
    }
}

/// So many concurrent tumbling windows, of lengths from 1 to 20 seconds at equal distances (§6.2.1).
pub fn concurrent(windows: usize) -> Vec<Window> {
    let length = |at: usize| match windows {
        1 => 20 * SECOND,
        _ => SECOND + 19 * SECOND * at as i64 / (windows as i64 - 1),
    };
    (0..windows).map(length).map(|length| Window::Sliding(Sliding::new(length, length, 0))).collect()
}

/// The same with a session of one second (§6.2.2).
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
    (0..windows).map(rows).map(|rows| Window::Counted(Counted::new(rows, rows, false))).collect()
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
        let options = Options {
            order: Order::OutOfOrder,
            allowed_lateness: 0,
            progress: None,
            store: StoreKind::Auto,
            late_limit: None,
        };
        let mut running = Operator::new(vec![("q".into(), plan)], options)?;
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
