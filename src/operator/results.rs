//! The results of one query for operators elsewhere: windows and their aggregates as the columns of a stream's results.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StructArray, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take;

use super::output::lowered;
use super::plan::{Plan, extent_fields, rank_fields};
use super::stream::{Entry, Queries, Told};
use crate::Result;
use crate::aggregate::Partials;
use crate::keys::KeyIndex;

/// What results of a query look like.
pub(crate) struct Results(Queries);

/// Windows on their way out, an entry per window.
pub(crate) struct Named<'a> {
    /// Ids of their keys.
    pub(crate) keys: &'a [u32],
    /// Which of the query's windows each is.
    pub(crate) windows: &'a [u32],
    pub(crate) starts: &'a [i64],
    pub(crate) ends: &'a [i64],
    /// Ranks of their rows, of windows that are measured by rows.
    pub(crate) ranks: &'a [Option<(u64, u64)>],
    pub(crate) updates: &'a [bool],
}

impl Results {
    /// Those of this query, by itself.
    ///
    /// # Errors
    /// `InvalidValue` if a column of results has the name of one of the operator's own.
    pub(crate) fn of(plan: Arc<Plan>) -> Result<Self> {
        let only = Entry { name: "q1".into(), plan, since: None, own: true };
        Ok(Self(Queries::among(vec![only], false)?))
    }

    /// The schema of results.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    /// The query.
    pub(crate) fn plan(&self) -> &Plan {
        self.0.leader()
    }

    /// Windows as a batch, none if there are none; slot `i` of each partial is that of window `i`.
    pub(crate) fn batch(
        &self,
        keys: &KeyIndex,
        windows: Named<'_>,
        partials: &[Box<dyn Partials>],
    ) -> Result<Vec<RecordBatch>> {
        if windows.keys.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, plan) = (UInt32Array::from(windows.keys.to_vec()), self.plan());
        let keys = keys.values()?.into_iter().map(|values| take(&values, &ids, None));
        let keys = keys.collect::<std::result::Result<_, _>>()?;
        let measure = plan.measure();
        let (starts, ends) = (measure.array(windows.starts.to_vec())?, measure.array(windows.ends.to_vec())?);
        let extents = StructArray::try_new(extent_fields(measure), vec![starts, ends], None)?;
        let rank = |of: fn((u64, u64)) -> u64| -> ArrayRef {
            let ranks = windows.ranks.iter().map(|ranks| ranks.map_or(0, of) as i64);
            Arc::new(Int64Array::from_iter_values(ranks))
        };
        let ranked: Vec<bool> = windows.ranks.iter().map(Option::is_some).collect();
        let ranks = vec![rank(|(lo, _)| lo), rank(|(_, hi)| hi)];
        let ranks = StructArray::try_new(rank_fields(), ranks, Some(ranked.into()))?;
        let answers: Vec<&dyn Partials> = partials.iter().map(AsRef::as_ref).collect();
        let told = Told {
            extents: Arc::new(extents),
            which: windows.windows.to_vec(),
            updates: BooleanArray::from(windows.updates.to_vec()),
            ranks: Some(Arc::new(ranks)),
            numbers: None,
        };
        Ok(vec![self.0.batch(0, keys, told, lowered(plan, &answers)?)?])
    }
}
