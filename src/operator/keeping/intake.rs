//! Rows on their way in: which are taken, and which key they go to.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::filter_record_batch;

use super::fresh::Fresh;
use super::{Keeper, Outcome};
use crate::operator::parts::out_of_bounds;
use crate::operator::stream::check_order;
use crate::slice::strategy::Order;
use crate::window::Punctuation;
use crate::{Error, Result};

impl Keeper {
    /// Takes in rows of the stream's schema, and lists what is due then.
    ///
    /// # Errors
    /// `InvalidValue` for rows out of order where order was promised; `Overflow` where a result does not fit its type;
    /// what a user's function raises.
    pub(in crate::operator) fn take_in(&mut self, batches: &[RecordBatch]) -> Result<Outcome> {
        let mut latest = self.latest;
        let mut rows = Vec::new();
        for batch in batches {
            rows.push(self.accept(batch, &mut latest)?);
        }
        let fresh = self.put(rows)?;
        let watermark = match (self.options.order, self.options.disorder, latest) {
            (Order::InOrder, _, Some(latest)) => Some(latest),
            (Order::OutOfOrder, Some(disorder), Some(latest)) => Some(latest.saturating_sub(disorder)),
            _ => None,
        };
        let call = super::Call { base: fresh.base, ..self.call(watermark.max(self.watermark), false) };
        Ok(Outcome { latest, ..self.process(fresh, None, call)? })
    }

    /// The rows of a batch that windows take, and their times.
    fn accept(&self, batch: &RecordBatch, latest: &mut Option<i64>) -> Result<(RecordBatch, Vec<i64>)> {
        let leader = self.queries.leader();
        let mut accepted = batch.clone();
        let time = batch.column(leader.time());
        if let Some(nulls) = time.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            accepted = filter_record_batch(batch, &BooleanArray::new(nulls.inner().clone(), None))?;
        }
        let times = leader.measure().read(accepted.column(leader.time()))?;
        let (Some(&least), Some(&most)) = (times.iter().min(), times.iter().max()) else {
            return Ok((accepted, Vec::new()));
        };
        if self.options.order == Order::InOrder {
            check_order(leader, &times, times.is_sorted(), (*latest).max(self.watermark))?;
        }
        let bounds = self.queries.edges().bounds();
        if let Some(&outside) = [least, most].iter().find(|&&t| t < bounds.0 || t > bounds.1) {
            return Err(out_of_bounds(leader, outside));
        }
        *latest = Some(most).max(*latest);
        match self.cutoff().filter(|&cutoff| least < cutoff) {
            None => Ok((accepted, times.to_vec())),
            Some(cutoff) => {
                let taken = BooleanBuffer::collect_bool(times.len(), |row| times[row] >= cutoff);
                let times = times.iter().copied().filter(|&time| time >= cutoff).collect();
                Ok((filter_record_batch(&accepted, &BooleanArray::new(taken, None))?, times))
            }
        }
    }

    /// Keeps rows, and says whose they are.
    fn put(&mut self, mut batches: Vec<(RecordBatch, Vec<i64>)>) -> Result<Fresh> {
        let base = self.heap.next();
        batches.retain(|(_, times)| !times.is_empty());
        let rows: usize = batches.iter().map(|(_, times)| times.len()).sum();
        if u32::try_from(rows).is_err() {
            return Err(Error::InvalidValue(format!(
                "batch: {rows} rows at once; at most {} can be, so push in smaller batches",
                u32::MAX
            )));
        }
        let by = self.queries.leader().by();
        let mut ids = Vec::with_capacity(rows);
        let mut marks = vec![0u64; if self.mark_columns.is_empty() { 0 } else { rows }];
        for (batch, own) in &batches {
            let first = ids.len();
            let keys: Vec<ArrayRef> = by.iter().map(|&column| batch.column(column).clone()).collect();
            self.keys.assign(&keys, own.len(), &mut ids)?;
            for (bit, &column) in self.mark_columns.iter().enumerate() {
                for row in Punctuation::marks(batch.column(column)).set_indices() {
                    marks[first + row] |= 1 << bit;
                }
            }
        }
        let read = |(batch, _): &(RecordBatch, Vec<i64>)| -> Vec<ArrayRef> {
            self.heap.read().iter().map(|&column| batch.column(column).clone()).collect()
        };
        let columns: Vec<Vec<ArrayRef>> = batches.iter().map(read).collect();
        self.heap.push(&columns, rows)?;
        let times = match batches.len() {
            1 => batches.swap_remove(0).1,
            _ => batches.into_iter().flat_map(|(_, times)| times).collect(),
        };
        Ok(Fresh::new(base, times, marks, &ids, self.keys.len()))
    }
}
