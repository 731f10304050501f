//! What every operator over a stream is asked, whatever evaluates its windows.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::running::Running;
use super::stream::Stats;
use crate::window::Measure;
use crate::{Error, Result};

/// An operator over a stream: rows and watermarks in, windows out.
pub trait Face: Send {
    /// The schema of rows.
    fn input(&self) -> &SchemaRef;

    /// The schema of results.
    fn schema(&self) -> &SchemaRef;

    /// How far the stream is complete.
    fn watermark(&self) -> Option<i64>;

    /// Whether [`Face::close`] was called.
    fn is_closed(&self) -> bool;

    /// Takes in rows, all or (if it fails) none of them, and hands out the windows that this makes final, and those that
    /// late rows change.
    ///
    /// # Errors
    /// `InvalidValue` after [`Face::close`], for batches of another schema, and for rows out of order where order was
    /// promised; `Overflow` where a result does not fit its type; what a user's function raises.
    fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>>;

    /// Moves the watermark: no window that ends at or before it is waited for any longer. Hands out those.
    ///
    /// # Errors
    /// `InvalidValue` after [`Face::close`], and for a watermark before the last one; `Overflow` where a result does not
    /// fit its type; what a user's function raises.
    fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>>;

    /// Ends the stream: hands out all windows that are left.
    ///
    /// # Errors
    /// As [`Face::advance`].
    fn close(&mut self) -> Result<Vec<RecordBatch>>;

    /// Rows that came too late or without a time, with the reason, those handed out before left out.
    fn take_late(&mut self) -> Vec<RecordBatch>;

    /// The schema of [`Face::take_late`].
    fn late_schema(&self) -> &SchemaRef;

    /// What it holds and did.
    fn stats(&self) -> Stats;

    /// The operator of general stream slicing, for what only that one has.
    ///
    /// # Errors
    /// `InvalidValue` of any other.
    fn slicing(&mut self) -> Result<&mut Running>;
}

impl Face for Running {
    fn input(&self) -> &SchemaRef {
        Running::input(self)
    }

    fn schema(&self) -> &SchemaRef {
        Running::schema(self)
    }

    fn watermark(&self) -> Option<i64> {
        Running::watermark(self)
    }

    fn is_closed(&self) -> bool {
        Running::is_closed(self)
    }

    fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        Running::push(self, batches)
    }

    fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        Running::advance(self, watermark)
    }

    fn close(&mut self) -> Result<Vec<RecordBatch>> {
        Running::close(self)
    }

    fn take_late(&mut self) -> Vec<RecordBatch> {
        Running::take_late(self)
    }

    fn late_schema(&self) -> &SchemaRef {
        Running::late_schema(self)
    }

    fn stats(&self) -> Stats {
        Running::stats(self)
    }

    fn slicing(&mut self) -> Result<&mut Running> {
        Ok(self)
    }
}

/// Refuses a call after the end of the stream.
pub(crate) fn check_open(closed: bool, call: &str) -> Result<()> {
    match closed {
        false => Ok(()),
        true => {
            Err(Error::InvalidValue(format!("{call}: the operator is closed; nothing comes after close()")))
        }
    }
}

/// Refuses a watermark before the last one.
pub(crate) fn check_watermark(measure: &Measure, last: Option<i64>, watermark: i64) -> Result<()> {
    match last.filter(|&last| watermark < last) {
        None => Ok(()),
        Some(last) => Err(Error::InvalidValue(format!(
            "watermark: {watermark} is before the last one, {last} (both in {} of '{}'); a watermark never goes back",
            measure.unit_name(),
            measure.column()
        ))),
    }
}
