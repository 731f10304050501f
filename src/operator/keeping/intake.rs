//! Rows on their way in: which are taken, and which key they go to.

use arrow_array::{ArrayRef, RecordBatch};

use super::fresh::Fresh;
use super::{Keeper, Outcome};
use crate::operator::stream::Gate;
use crate::window::Punctuation;
use crate::{Error, Result};

impl Keeper {
    /// Takes in rows of the stream's schema, and lists what is due then.
    ///
    /// # Errors
    /// `InvalidValue` for rows out of order where order was promised; `Overflow` where a result does not fit its type;
    /// what a user's function raises.
    pub(in crate::operator) fn take_in(&mut self, batches: &[RecordBatch]) -> Result<Outcome> {
        let gate = Gate {
            order: self.options.order,
            watermark: self.watermark,
            cutoff: self.cutoff(),
            bounds: self.queries.edges().bounds(),
        };
        let (leader, mut latest) = (self.queries.leader(), self.latest);
        let (mut rows, mut before) = (Vec::new(), 0);
        for batch in batches {
            let (accepted, _) = gate.accept(leader, (batch, before), &mut latest, None)?;
            let times = leader.measure().read(accepted.column(leader.time()))?.to_vec();
            rows.push((accepted, times));
            before += batch.num_rows();
        }
        let fresh = self.put(rows)?;
        let watermark = self.options.watermark(latest);
        let call = super::Call { base: fresh.base, ..self.call(watermark.max(self.watermark), false) };
        Ok(Outcome { latest, ..self.process(fresh, None, call)? })
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
