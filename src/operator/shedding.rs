//! Load shedding: when the state of a stream would take more memory than it may, what the operator holds is reduced to a
//! sample, and so is what it takes in from then on (Tatbul et al., *Load Shedding in a Data Stream Manager*, VLDB 2003).
//!
//! | | |
//! |---|---|
//! | sample | a key, or a row, is in it if a hash of it, or of its number, is below p; p is 1 and is halved each time, so that each sample contains the next one |
//! | keys | the others are dropped with all they have; those in the sample are exact |
//! | rows | each row in the sample stands for 1 / p; slices are dropped by the toss of a coin, and those that stay count twice |
//! | time | a hash per row once p is below 1, O(1) per row to know when to look at the state, and O(state) per halving |
//! | order | all is decided when a call has been committed, and rows are picked as the decisions before it say |

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::policy::Refinement;
use crate::interrupt::check;
use crate::keys::{hash_rows, hashable, remix};
use crate::memory::{attempted, spared};
use crate::state::tally;
use crate::{Error, Result};

/// p is never below 2^-32: a count of 2^31 rows that are kept still fits int64.
const DEEPEST: u32 = 32;

/// The column that says which share of the keys is in the sample.
pub(super) const SHARE: &str = "shed_share";

/// Rows that may arrive for each key before the state is measured again, which takes O(keys).
const ROWS_PER_KEY: f64 = 0.125;

/// What is kept where memory runs short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// Some keys, with all of their rows.
    Keys,
    /// Some rows of each key.
    Rows,
}

/// How much memory the state of a stream may take, and what is kept where it would take more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shed {
    /// Bytes of the state, as [`super::Stats::bytes`] counts them.
    pub bytes: u64,
    /// What is kept.
    pub keep: Keep,
    /// Determines which keys, or rows, are kept.
    pub seed: u64,
}

/// What a step does besides what is known of it elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drawn {
    /// Rows that are dropped.
    pub(super) shed: u64,
    /// Rows among which they are.
    pub(super) seen: u64,
}

/// What a stream holds: what was dropped, and what the sample is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Shedding {
    pub(super) shed: Shed,
    /// -log2 p.
    level: u32,
    /// Rows that came so far, by whose numbers they are picked.
    #[serde(deserialize_with = "tally")]
    next: u64,
    #[serde(deserialize_with = "tally")]
    rows: u64,
    #[serde(deserialize_with = "tally")]
    keys: u64,
    #[serde(deserialize_with = "tally")]
    slices: u64,
    /// Rows since the state was measured, and how many keys there were then.
    #[serde(skip)]
    unmeasured: u64,
    #[serde(skip)]
    known: usize,
    /// The bytes of a state of which nothing could be dropped.
    #[serde(skip)]
    futile: u64,
    /// The schema of results, if they have a column of their own.
    #[serde(skip)]
    pub(super) schema: Option<SchemaRef>,
}

/// What was dropped for want of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedStats {
    /// Rows that were not taken in.
    pub rows: u64,
    /// Keys that were dropped with all that was held of them.
    pub keys: u64,
    /// Slices that were dropped.
    pub slices: u64,
    /// -log2 of the share of keys, or rows, that is kept at present.
    pub level: u32,
}

/// Which keys, or slices, are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    seed: u64,
    level: u32,
}

impl Shed {
    /// The plan of a query of such a stream.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` for a query that cannot be answered from a sample.
    pub(super) fn bind(&self, plan: Arc<Plan>) -> Result<Arc<Plan>> {
        if plan.policy().is_some_and(|policy| policy.refinement() == Refinement::Retracting) {
            return Err(Error::InvalidValue(
                "shed: it is given with refinement='retracting'; early results of what is dropped would never be retracted, so \
                 allowed are 'accumulating' and 'discarding'"
                    .into(),
            ));
        }
        match self.keep {
            Keep::Rows => Ok(Arc::new(plan.of_sample()?)),
            Keep::Keys if plan.by().is_empty() => Err(Error::InvalidValue(
                "shed: keep='keys' is given for a query without keys (by=[]); allowed are queries with keys, and keep='rows'"
                    .into(),
            )),
            Keep::Keys => {
                let types = plan.by().iter().map(|&column| plan.input().field(column).data_type());
                types.into_iter().try_for_each(hashable)?;
                Ok(plan)
            }
        }
    }
}

impl Shedding {
    /// The shedding of a stream of which nothing was dropped yet.
    pub(super) fn new(shed: Shed) -> Self {
        Self {
            shed,
            level: 0,
            next: 0,
            rows: 0,
            keys: 0,
            slices: 0,
            unmeasured: 0,
            known: 0,
            futile: 0,
            schema: None,
        }
    }

    /// What was dropped so far.
    pub(super) fn dropped(&self) -> ShedStats {
        ShedStats { rows: self.rows, keys: self.keys, slices: self.slices, level: self.level }
    }

    /// Whether the state must be measured: it may have come to be too large.
    pub(super) fn is_due(&self) -> bool {
        self.unmeasured > 0 && self.unmeasured as f64 >= ROWS_PER_KEY * self.known as f64
    }

    /// Whether a state of so many bytes is too large: of one without slack, also one that soon will be.
    pub(super) fn is_above(&mut self, bytes: usize, is_tight: bool) -> bool {
        let (bytes, most) = (bytes as u64, self.shed.bytes);
        if bytes <= most && !is_tight {
            self.futile = 0;
        }
        // What cannot be reduced is not worked on for each row.
        bytes > if is_tight { most - most / 4 } else { most.max(self.futile + self.futile / 8) }
    }

    /// The sample that has half of what the present one has, unless that is the smallest one.
    pub(super) fn half(&self) -> Option<Sample> {
        (self.level < DEEPEST).then(|| Sample { level: self.level + 1, ..self.sample() })
    }

    /// Takes note that a state of so many keys is no concern until more rows come.
    pub(super) fn measured(&mut self, keys: usize) {
        (self.unmeasured, self.known) = (0, keys);
    }

    /// Takes note that nothing can be dropped of a state of so many keys and bytes.
    pub(super) fn cannot_help(&mut self, keys: usize, bytes: usize) {
        self.measured(keys);
        self.futile = bytes as u64;
    }

    fn sample(&self) -> Sample {
        Sample { seed: self.shed.seed, level: self.level }
    }

    /// Takes note that what is not in this sample was dropped: keys, and slices.
    pub(super) fn drop_to(&mut self, sample: Sample, (keys, slices): (usize, usize)) {
        self.level = sample.level;
        self.keys += keys as u64;
        self.slices += slices as u64;
    }

    /// Which of so many rows are in the sample, unless all are; those of a call that were looked at before are known to
    /// `drawn`. Keys are in the columns `by`.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn pick(
        &self,
        (rows, count): (&RecordBatch, usize),
        by: &[usize],
        drawn: &mut Drawn,
    ) -> Result<Option<BooleanBuffer>> {
        let first = self.next + drawn.seen;
        drawn.seen += count as u64;
        if self.level == 0 {
            return Ok(None);
        }
        let sample = self.sample();
        let kept = match self.shed.keep {
            Keep::Rows => BooleanBuffer::collect_bool(count, |row| sample.has_number(first + row as u64)),
            Keep::Keys => {
                let keys: Vec<ArrayRef> = by.iter().map(|&column| rows.column(column).clone()).collect();
                sample.of_keys(&keys, count)?
            }
        };
        drawn.shed += (count - kept.count_set_bits()) as u64;
        Ok(Some(kept))
    }

    /// How many rows each row of the sample stands for.
    pub(super) fn weight(&self) -> f64 {
        if self.shed.keep == Keep::Rows { (1u64 << self.level) as f64 } else { 1.0 }
    }

    /// The share of the keys, or rows, that is in the sample.
    pub(super) fn share(&self) -> f64 {
        0.5f64.powi(self.level as i32)
    }

    /// Takes note that the watermark has moved, at which all keys are visited anyway: rows that have waited for it take more
    /// room than they did.
    pub(super) fn moved(&mut self) {
        (self.unmeasured, self.known) = (self.unmeasured + 1, 0);
    }

    /// Takes note of the rows of a call.
    pub(super) fn drew(&mut self, drawn: Drawn) {
        self.next += drawn.seen;
        self.rows += drawn.shed;
        self.unmeasured += drawn.seen - drawn.shed;
    }

    /// Adds the share of keys to results, if these are of a sample of keys.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn marked(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(schema) = &self.schema else { return Ok(batch) };
        let share = self.share();
        let mut columns = batch.columns().to_vec();
        columns.insert(schema.index_of(SHARE)?, Arc::new(Float64Array::from(vec![share; batch.num_rows()])));
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    }

    /// The schema of results whose other columns are these, if they have a column of their own: before so many others.
    ///
    /// # Errors
    /// `InvalidValue` if they have a column of the name already.
    pub(super) fn extended(&self, schema: &SchemaRef, before: usize) -> Result<Option<SchemaRef>> {
        if self.shed.keep == Keep::Rows {
            return Ok(None);
        }
        if schema.fields().iter().any(|field| field.name() == SHARE) {
            return Err(Error::InvalidValue(format!(
                "shed: results would have two columns '{SHARE}'; shed=windowkit.shed(..., keep='keys') adds it, so give the \
                 other one another name"
            )));
        }
        let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.insert(fields.len() - before, Field::new(SHARE, DataType::Float64, false));
        Ok(Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))))
    }

    /// What was restored, for results with the schema of another one; `None` if no sample is so small.
    pub(super) fn with_schema_of(self, other: Option<Self>) -> Option<Self> {
        (self.level <= DEEPEST).then(|| Self { schema: other.and_then(|other| other.schema), ..self })
    }
}

/// What an operator holds, as far as that matters to what is dropped of it.
pub(super) struct Held {
    pub(super) keys: usize,
    /// What can be dropped, of which one is always kept: slices, or keys.
    pub(super) parts: usize,
    pub(super) bytes: usize,
}

/// An operator of which state may be dropped.
pub(super) trait Sheds {
    fn shedding(&mut self) -> &mut Option<Shedding>;

    /// What it holds; none once its stream has ended.
    fn held(&self) -> Option<Held>;

    /// Frees what nothing needs, which is otherwise only done once that is the larger part; without `numbered`, also the
    /// numbers of keys of which nothing else is held.
    fn tighten(&mut self, numbered: bool);

    /// Drops what is not in a sample, unless nothing would be left; returns how many keys these are, and slices.
    ///
    /// # Errors
    /// An interrupt, and `Memory`; nothing has changed then.
    fn drop_half(&mut self, keep: Keep, sample: Sample) -> Result<Option<(usize, usize)>>;
}

/// Drops what the state of an operator holds too much of, if the last call may have led to that; every call begins with it,
/// and so does whoever asks what the state is.
///
/// # Errors
/// An interrupt, and `Memory`; either nothing has changed then, or less is too much.
pub(super) fn relieve(of: &mut impl Sheds) -> Result<()> {
    if !of.shedding().as_ref().is_some_and(Shedding::is_due) {
        return Ok(());
    }
    // First what nothing needs, then the numbers of keys that are over.
    let (mut is_tight, mut steps) = (false, [true, false].into_iter());
    loop {
        // An interrupt may have left more behind than there would be.
        check()?;
        let held = of.held();
        let Some(shedding) = of.shedding() else { return Ok(()) };
        let Some(Held { keys, parts, bytes }) = held else {
            shedding.measured(0);
            return Ok(());
        };
        if !shedding.is_above(bytes, is_tight) {
            shedding.measured(keys);
            return Ok(());
        }
        if let Some(numbered) = steps.next() {
            spared(|| of.tighten(numbered));
            is_tight = true;
            continue;
        }
        let (keep, half) = (shedding.shed.keep, shedding.half().filter(|_| parts > 1));
        let dropped = match half {
            None => None,
            Some(sample) => attempted(|| of.drop_half(keep, sample))?.map(|dropped| (sample, dropped)),
        };
        let Some(shedding) = of.shedding() else { return Ok(()) };
        let Some((sample, dropped)) = dropped else {
            shedding.cannot_help(keys, bytes);
            return Ok(());
        };
        shedding.drop_to(sample, dropped);
    }
}

impl Sample {
    /// Whether something with this hash is kept.
    fn has(self, hash: u64) -> bool {
        hash.leading_zeros() >= self.level
    }

    /// Whether row number `row` is kept.
    fn has_number(self, row: u64) -> bool {
        self.has(remix(row, self.seed))
    }

    /// Which keys are kept.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn of_keys(self, keys: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        let mut hashes = Vec::with_capacity(rows);
        hash_rows(keys, rows, self.seed, &mut hashes)?;
        // A hash of their own: keys may have come here by the first bits of the other.
        Ok(BooleanBuffer::collect_bool(rows, |row| self.has(remix(hashes[row], self.seed))))
    }

    /// Whether a slice is kept by the toss of a coin, which is another one for each halving.
    pub(super) fn tosses(self, slice: usize) -> bool {
        remix(slice as u64, self.seed ^ (u64::from(self.level) << 32)) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_contain_the_next_ones_and_have_their_shares() {
        let sample = |level: u32, seed: u64| Sample { seed, level };
        for seed in 0..20 {
            for level in 0..6 {
                let kept: Vec<u64> = (0..4096).filter(|&row| sample(level, seed).has_number(row)).collect();
                let next: Vec<u64> =
                    (0..4096).filter(|&row| sample(level + 1, seed).has_number(row)).collect();
                assert!(next.iter().all(|row| kept.contains(row)));
                let (share, count) = (0.5f64.powi(level as i32), kept.len() as f64);
                let deviation = (4096.0 * share * (1.0 - share)).sqrt();
                assert!((count - 4096.0 * share).abs() <= 5.0 * deviation, "{count} at {share}");
            }
            let tossed = (0..4096).filter(|&slice| sample(3, seed).tosses(slice)).count();
            assert!((1888..=2208).contains(&tossed), "{tossed}");
        }
    }
}
