//! Rows that no part of an operator takes.

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;

use super::Running;
use crate::Result;
use crate::operator::keeping::Keeper;
use crate::operator::stream::{Reason, Stream};

impl Running {
    /// Rows of batches that no part takes, with the reason, and how many rows are taken.
    pub(super) fn late_of(&self, batches: &[RecordBatch]) -> Result<(Vec<RecordBatch>, u64)> {
        let kept = self.kept.as_ref().map(Keeper::cutoff);
        let sliced = self.sliced.as_ref().map(Stream::least_taken);
        // None of a part is below any other: that part takes every row.
        let cutoff = kept.into_iter().chain(sliced).min().flatten();
        let leader = self.leader();
        let (mut late, mut taken) = (Vec::new(), 0);
        for batch in batches {
            let time = batch.column(leader.time());
            let mut valid = batch.clone();
            if let Some(nulls) = time.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                let null = BooleanArray::new(!nulls.inner(), None);
                late.push(self.late.batch(&filter_record_batch(batch, &null)?, Reason::NullTime)?);
                valid = filter_record_batch(batch, &BooleanArray::new(nulls.inner().clone(), None))?;
            }
            taken += valid.num_rows() as u64;
            let Some(cutoff) = cutoff else { continue };
            let times = leader.measure().read(valid.column(leader.time()))?;
            let refused = BooleanBuffer::collect_bool(times.len(), |row| times[row] < cutoff);
            let count = refused.count_set_bits();
            if count > 0 {
                taken -= count as u64;
                let refused = BooleanArray::new(refused, None);
                late.push(self.late.batch(&filter_record_batch(&valid, &refused)?, Reason::TooLate)?);
            }
        }
        Ok((late, taken))
    }

    /// Rows that came too late or without a time, with the reason, those handed out before left out.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        let mut late = self.late.take();
        late.extend(self.sliced.iter_mut().flat_map(Stream::take_late));
        late
    }

    /// The schema of [`Running::take_late`].
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }
}
