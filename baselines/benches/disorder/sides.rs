//! What is compared, on streams of one key column, a time and a value.

use windowkit::Result;
use windowkit::aggregate::Input;
use windowkit::operator::{Flush, StoreKind};
use windowkit::window::{Sliding, Window};
use windowkit_baselines::{Method, Technique};

use crate::shared::sides::{Batch, Reference, Slices, Worker, Workload, lowered};

/// Windows from slices: the stream operator that Python has, Arrow batches in and out.
pub fn slices(workload: &Workload) -> Result<Box<dyn Worker>> {
    Slices::make(workload, StoreKind::Auto, Flush::default())
}

/// Windows from slices, where a call emits at most [`FLUSHED`] of them (slow flush).
pub fn slow_flush(workload: &Workload) -> Result<Box<dyn Worker>> {
    Slices::make(workload, StoreKind::Auto, Flush { at_most: Some(FLUSHED), later: None })
}

/// Windows that a slow flush emits a call, at most.
const FLUSHED: u64 = 16_384;

pub fn wid(workload: &Workload) -> Result<Box<dyn Worker>> {
    Reference::make(workload, Method::Wid, true)
}

/// In-order processing: rows wait in a buffer that sorts them.
pub fn buffering(workload: &Workload) -> Result<Box<dyn Worker>> {
    Reference::make(workload, Method::Buffering, true)
}

/// Rows are stored, and each window is computed from its rows when it ends.
pub fn rows(workload: &Workload) -> Result<Box<dyn Worker>> {
    Reference::make(workload, Method::TupleBuffer, true)
}

/// Window ids over panes: a tumbling query of panes, and a query over its results (Li 2008, §6.2, Fig. 6-14). For maxima,
/// of one key and one window.
pub struct Paned {
    panes: Box<dyn Technique>,
    windows: Box<dyn Technique>,
    workload: Workload,
    loaded: Option<(Batch, Vec<Input>)>,
}

impl Paned {
    pub fn make(workload: &Workload) -> Result<Box<dyn Worker>> {
        assert_eq!(workload.function, "max", "the maximum of maxima is one");
        let [Window::Sliding(window)] = workload.windows[..] else { panic!("one window over time") };
        let pane = gcd(window.size(), window.slide());
        let panes = Workload { windows: sliding(pane, pane), ..workload.clone() };
        // A pane has the time at which it starts.
        let [panes, windows] = [&panes, workload].map(|workload| Method::Wid.make(workload.setting()?));
        Ok(Box::new(Self { panes: panes?, windows: windows?, workload: workload.clone(), loaded: None }))
    }
}

impl Worker for Paned {
    fn load(&mut self, batch: Batch) -> Result<()> {
        let inputs = self.workload.inputs(&batch)?;
        self.loaded = Some((batch, inputs));
        Ok(())
    }

    fn push(&mut self) -> Result<usize> {
        let (batch, inputs) = self.loaded.take().expect("a batch was loaded");
        Ok(self.panes.push(&batch.keys, &batch.times, &inputs)?.len())
    }

    fn advance(&mut self, watermark: i64) -> Result<usize> {
        let panes = self.panes.advance(watermark)?;
        let maxima = Input { columns: vec![lowered(&panes)?], taken: None };
        self.windows.push(&panes.keys, &panes.starts, &[maxima])?;
        Ok(lowered(&self.windows.advance(watermark)?)?.len())
    }

    fn bytes(&self) -> usize {
        self.panes.stats().bytes + self.windows.stats().bytes
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// One window over time.
pub fn sliding(size: i64, slide: i64) -> Vec<Window> {
    vec![Window::Sliding(Sliding::new(size, slide, 0))]
}
