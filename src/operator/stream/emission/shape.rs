//! Which columns of an operator's results belong to one of its queries, and which windows the rows are of.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, new_null_array,
};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};

use crate::operator::plan::Plan;
use crate::operator::schema::extent_fields;
use crate::operator::shedding::SHARE;
use crate::operator::stream::entry::Entry;
use crate::operator::stream::names::Names;
use crate::window::Window;
use crate::{Error, Result};

/// The columns of a query in the results of an operator.
pub(super) struct Shape {
    schema: SchemaRef,
    name: String,
    plan: Arc<Plan>,
    names: Names,
    /// Positions of the columns that the query has values in: keys, window, ranks and numbers if it has them, aggregates.
    own: Vec<usize>,
    /// Which of them is the column of windows, and its type here, whatever zone results show windows in: that changes
    /// as queries come and go.
    extents: (usize, DataType),
    query_name: Option<usize>,
    window_name: Option<usize>,
}

impl Shape {
    /// The shape of a query's results among results of this schema.
    pub(super) fn new(entry: &Entry, schema: &SchemaRef) -> Result<Self> {
        let plan = entry.plan.clone();
        let place = |name: &str| schema.fields().iter().position(|field| field.name() == name);
        let keys = plan.by().len();
        // Results have no column of such a name but these, since names are unique.
        let after_keys = |name: &str| place(name).filter(|&at| at >= keys);
        let extent = after_keys("session_window").or_else(|| after_keys("window"));
        let Some(extent) = extent else {
            return Err(Error::Internal("results have no column of windows".into()));
        };
        let before_extent = |name: &str| after_keys(name).filter(|&at| at < extent);
        let (query_name, window_name) = (before_extent("query_name"), before_extent("window_name"));
        let has = |is: fn(&Window) -> bool| plan.windows().iter().any(|(_, window)| is(window));
        let follows = |name: &str, at: usize| after_keys(name).filter(|&place| place == at);
        let ranks = follows("window_rows", extent + 1);
        let numbers = follows("window_number", extent + 1 + usize::from(ranks.is_some()));
        let fields = plan.output().fields();
        let aggregates = fields[fields.len() - plan.aggregates().len()..].iter();
        // Before the last column, where results are of a sample of keys.
        let is_marked = |at: &usize| at + 2 == schema.fields().len() && fields.find(SHARE).is_none();
        let marked = after_keys(SHARE).filter(is_marked);
        let (own_ranks, own_numbers) = (has(|window| window.is_ranked()), has(|window| window.is_numbered()));
        let own = (0..keys)
            .chain([extent])
            .chain(ranks.filter(|_| own_ranks))
            .chain(numbers.filter(|_| own_numbers))
            .chain(aggregates.filter_map(|field| place(field.name())))
            .chain(marked);
        Ok(Self {
            own: own.collect(),
            extents: (keys, DataType::Struct(extent_fields(plan.measure()))),
            names: Names::new(plan.windows().iter().map(|(name, _)| name.as_str())),
            name: entry.name.clone(),
            plan,
            schema: schema.clone(),
            query_name,
            window_name,
        })
    }

    /// How many columns results have besides `emission` and `weight`.
    pub(super) fn width(&self) -> usize {
        self.schema.fields().len()
    }

    /// Results without `emission` and `weight`.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn plain(&self, results: &RecordBatch) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(self.schema.clone(), results.columns()[..self.width()].to_vec())?)
    }

    pub(super) fn windows(&self) -> &[(String, Window)] {
        self.plan.windows()
    }

    /// Where a window with this extent ends at the latest, if it is final at this watermark. One by rows goes on beyond its
    /// last row, to what ends it.
    pub(super) fn end(&self, window: u32, end: i64, watermark: Option<i64>) -> i64 {
        match self.windows()[window as usize].1.by_time() {
            Some(_) => end,
            None => end.max(watermark.unwrap_or(end)),
        }
    }

    /// The query's windows of which there may come to be fewer than early results were emitted of. A user's own
    /// window says itself which ones are gone.
    pub(super) fn may_vanish(&self) -> impl Iterator<Item = u32> + '_ {
        let windows = (0..).zip(self.windows());
        windows.filter(|(_, (_, window))| window.may_vanish() && !window.observes()).map(|(number, _)| number)
    }

    /// Whether a final window that ends here may still be updated, where windows that ended by `horizon` have expired.
    pub(super) fn may_change(&self, window: u32, end: i64, horizon: Option<i64>) -> bool {
        let Some(horizon) = horizon else { return true };
        let window = &self.windows()[window as usize].1;
        if window.observes() && window.is_numbered() {
            // A user's own window may change or remove any window that it has added.
            return true;
        }
        match window.by_time().is_some() && !window.is_session() {
            true => end > horizon,
            // A row that is accepted may join it.
            false => end >= window.takes_from(horizon, self.plan.edges().bounds()),
        }
    }

    /// The columns that the query has values in.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn own(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut columns: Vec<ArrayRef> = self.own.iter().map(|&at| batch.column(at).clone()).collect();
        let (at, kind) = &self.extents;
        columns[*at] = cast(&columns[*at], kind)?;
        Ok(columns)
    }

    /// Their types.
    pub(super) fn own_types(&self) -> Vec<DataType> {
        let mut types: Vec<DataType> =
            self.own.iter().map(|&at| self.schema.field(at).data_type().clone()).collect();
        self.extents.1.clone_into(&mut types[self.extents.0]);
        types
    }

    /// Results of another shape of the query, in which there were other queries.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn moved(&self, known: &Self, batch: &RecordBatch) -> Result<RecordBatch> {
        let names = match known.window_name {
            Some(at) => batch.column(at).clone(),
            None => self.names.column(&vec![0; batch.num_rows()])?,
        };
        let updates = batch.column(known.width() - 1).clone();
        self.batch(known.own(batch)?, names, updates)
    }

    /// Retractions of results with these own columns; `which` is the number of each one's window in the query.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn retractions(&self, own: Vec<ArrayRef>, which: &[u32]) -> Result<RecordBatch> {
        let updates = Arc::new(BooleanArray::from(vec![false; which.len()]));
        self.batch(own, self.names.column(which)?, updates)
    }

    fn batch(&self, own: Vec<ArrayRef>, names: ArrayRef, updates: ArrayRef) -> Result<RecordBatch> {
        let rows = updates.len();
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.schema.fields().len()];
        for (&at, values) in self.own.iter().zip(own) {
            columns[at] = Some(cast(&values, self.schema.field(at).data_type())?);
        }
        if let Some(at) = self.query_name {
            let queries = StringArray::from_iter_values(std::iter::repeat_n(self.name.as_str(), rows));
            columns[at] = Some(Arc::new(queries));
        }
        if let Some(at) = self.window_name {
            columns[at] = Some(names);
        }
        if let Some(update) = columns.last_mut() {
            *update = Some(updates);
        }
        let columns = columns.into_iter().zip(self.schema.fields());
        let columns =
            columns.map(|(own, field)| own.unwrap_or_else(|| new_null_array(field.data_type(), rows)));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &options)?)
    }
}
