//! Rows on their way in: which are taken, and which key they go to.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::filter_record_batch;

use super::{Keeper, Outcome, Row};
use crate::Result;
use crate::operator::parts::out_of_bounds;
use crate::operator::stream::{check_order, nth_valid};
use crate::slice::strategy::Order;
use crate::window::Punctuation;

impl Keeper {
    /// Takes in rows of the stream's schema, and lists what is due then.
    ///
    /// # Errors
    /// `InvalidValue` for rows out of order where order was promised; `Overflow` where a result does not fit its type;
    /// what a user's function raises.
    pub(in crate::operator) fn take_in(&mut self, batches: &[RecordBatch]) -> Result<Outcome> {
        let mut latest = self.latest;
        let base = self.heap.next();
        let mut rows = Vec::new();
        let mut before = 0;
        for batch in batches {
            let (accepted, times) = self.accept((batch, before), &mut latest)?;
            before += batch.num_rows();
            self.put(&accepted, &times, &mut rows)?;
        }
        if !rows.is_sorted() {
            rows.sort_unstable();
        }
        let watermark = match (self.options.order, self.options.disorder, latest) {
            (Order::InOrder, _, Some(latest)) => Some(latest),
            (Order::OutOfOrder, Some(disorder), Some(latest)) => Some(latest.saturating_sub(disorder)),
            _ => None,
        };
        let call = super::Call { base, ..self.call(watermark.max(self.watermark), false) };
        Ok(Outcome { latest, ..self.process(rows, None, call)? })
    }

    /// The rows of a batch that windows take, and their times; `before` rows of the same call come before it.
    fn accept(
        &self,
        (batch, before): (&RecordBatch, usize),
        latest: &mut Option<i64>,
    ) -> Result<(RecordBatch, Vec<i64>)> {
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
            let place = |row| before + nth_valid(time, row);
            check_order(leader, &times, times.is_sorted(), (*latest).max(self.watermark), place)?;
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

    /// Keeps rows, and says where each goes.
    fn put(&mut self, batch: &RecordBatch, times: &[i64], rows: &mut Vec<(u32, Row)>) -> Result<()> {
        let by = self.queries.leader().by().to_vec();
        let keys: Vec<ArrayRef> = by.iter().map(|&column| batch.column(column).clone()).collect();
        let mut ids = Vec::with_capacity(times.len());
        self.keys.assign(&keys, times.len(), &mut ids)?;
        let mut marks = vec![0u64; times.len()];
        for (bit, &column) in self.mark_columns.iter().enumerate() {
            for row in Punctuation::marks(batch.column(column)).set_indices() {
                marks[row] |= 1 << bit;
            }
        }
        let base = self.heap.next();
        let read = self.heap.read().to_vec();
        let columns: Vec<ArrayRef> = read.iter().map(|&column| batch.column(column).clone()).collect();
        self.heap.push(&columns, times.len())?;
        rows.extend(
            ids.iter()
                .zip(times)
                .zip(&marks)
                .zip(base..)
                .map(|(((&key, &time), &marks), at)| (key, Row { time, at, marks })),
        );
        Ok(())
    }
}
