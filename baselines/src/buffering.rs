//! Buffering: rows wait in a buffer that sorts them until none can come before them, and are then processed in order (Li
//! 2008, §6.1.5 and §8.2: in-order processing with slack).
//!
//! | | |
//! |---|---|
//! | needs | any function; any order; windows over time, of a number of rows and sessions |
//! | time | O(log n) per row for n rows that wait, and what rows in order take |
//! | space | each row that waits: its values, time, key and place |
//! | refuses | nothing but windows that no technique takes |
//! | source | Li 2008, §6.1.5.2, with *consistent* slack: a row that is too late is dropped from all windows |
//!
//! The slack is the allowed lateness: rows wait until the watermark is that far ahead of them, windows are emitted that much
//! later, and nothing is emitted twice. Rows in order are processed by `pairs`, which shares slices, or by a tuple buffer
//! where there are sessions. Rows of a stream in order do not wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::row_store::RowStore;
use crate::stream::Stream;
use crate::{Method, Setting, Stats, Technique, Windows};
use windowkit::Result;
use windowkit::aggregate::{Input, Partials};
use windowkit::slice::strategy::Order;
use windowkit::window::Window;

/// A buffer without rows.
///
/// # Errors
/// `InvalidValue` for a window type that no technique knows, or a lateness below zero.
pub(crate) fn make(setting: Setting) -> Result<Box<dyn Technique>> {
    let Setting { windows, own, order, lateness, partials } = setting;
    let empty = || -> Vec<Box<dyn Partials>> { partials.iter().map(|partials| partials.empty()).collect() };
    let of =
        |order| Setting { windows: windows.clone(), own: own.clone(), order, lateness, partials: empty() };
    // Checks what is given, by its own name.
    let (stream, _) = Stream::new("buffering", of(order))?;
    let has_sessions = windows.iter().any(|window| matches!(window, Window::Session(_)));
    let method = if has_sessions { Method::TupleBuffer } else { Method::Pairs };
    let inner = method.make(Setting { lateness: 0, ..of(Order::InOrder) })?;
    let slack = if order == Order::InOrder { 0 } else { lateness };
    let store = RowStore::new(empty());
    Ok(Box::new(Buffering { stream, slack, order, inner, store, waiting: BinaryHeap::new(), partials }))
}

struct Buffering {
    stream: Stream,
    slack: i64,
    order: Order,
    /// What processes rows in order.
    inner: Box<dyn Technique>,
    store: RowStore,
    /// Time, place and key of rows, the earliest first.
    waiting: BinaryHeap<Reverse<(i64, u64, u32)>>,
    partials: Vec<Box<dyn Partials>>,
}

impl Buffering {
    /// How far the operator behind the buffer is.
    fn held_back(&self) -> i64 {
        self.stream.watermark().saturating_sub(self.slack)
    }

    /// Hands on the rows up to this time, in order.
    fn release(&mut self, until: i64) -> Result<Windows> {
        let (mut keys, mut times, mut places) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(&Reverse((time, place, key))) = self.waiting.peek()
            && time <= until
        {
            self.waiting.pop();
            keys.push(key);
            times.push(time);
            places.push(place);
        }
        if places.is_empty() {
            return Ok(Windows::none(&self.partials));
        }
        let mut inputs = Vec::with_capacity(self.store.width());
        self.store.gather(&places, |_, input| {
            inputs.push(input.clone());
            Ok(())
        })?;
        self.store.release(places.into_iter());
        self.inner.push(&keys, &times, &inputs)
    }
}

impl Technique for Buffering {
    fn name(&self) -> &'static str {
        "buffering"
    }

    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows> {
        self.stream.check(keys, times, inputs)?;
        if self.order == Order::InOrder {
            return self.inner.push(keys, times, inputs);
        }
        let (base, least) = (self.store.push(inputs), self.held_back());
        for (row, (&key, &time)) in keys.iter().zip(times).enumerate() {
            if time < least {
                self.stream.counts.late += 1;
                continue;
            }
            let place = base + row as u64;
            self.store.hold(place);
            self.waiting.push(Reverse((time, place, key)));
        }
        Ok(Windows::none(&self.partials))
    }

    fn advance(&mut self, watermark: i64) -> Result<Windows> {
        self.stream.advance(watermark)?;
        let until = self.held_back();
        Ok(self.release(until)?.and(self.inner.advance(until)?))
    }

    fn close(&mut self) -> Result<Windows> {
        let windows = self.release(i64::MAX)?.and(self.inner.close()?);
        self.waiting = BinaryHeap::new();
        Ok(windows)
    }

    fn stats(&self) -> Stats {
        let inner = self.inner.stats();
        let waiting = self.waiting.capacity() * size_of::<(i64, u64, u32)>();
        Stats {
            rows: inner.rows + self.waiting.len(),
            bytes: inner.bytes + waiting + self.store.bytes(),
            late: self.stream.counts.late,
            ..inner
        }
    }
}
