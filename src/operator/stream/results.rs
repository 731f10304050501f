//! The columns of an operator's results, which all of its queries share: keys, windows, and the aggregates of each query, which
//! are null in the results of others.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, new_null_array,
};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::entry::{Entry, all_windows};
use super::names::Names;
use crate::operator::plan::Plan;
use crate::operator::schema::{extent_fields, rank_fields, shown};
use crate::types::named;
use crate::window::Measure;
use crate::{Error, Result};

/// What results say of windows besides their keys and aggregates, one entry per window.
pub(super) struct WindowColumns {
    pub(super) extents: ArrayRef,
    /// Which of the query's windows each is.
    pub(super) which: Vec<u32>,
    pub(super) updates: BooleanArray,
    /// The ranks of their rows; null where a window is not measured by rows.
    pub(super) ranks: Option<ArrayRef>,
    /// Their numbers; null where a window has none.
    pub(super) numbers: Option<ArrayRef>,
}

/// The columns of a query among those of results.
#[derive(Debug, Clone)]
pub(super) struct OwnColumns {
    /// Which of the aggregates are its own.
    pub(super) aggregates: Vec<usize>,
    /// The names of its windows.
    pub(super) names: Names,
}

/// The columns of results.
#[derive(Debug, Clone)]
pub(super) struct ResultColumns {
    schema: SchemaRef,
    /// What the column of windows shows, and its fields.
    shown: Measure,
    extents: Fields,
    aggregates: Vec<Field>,
    /// Which columns there are, besides keys, extents and aggregates.
    query_names: bool,
    window_names: bool,
    ranks: bool,
    numbers: bool,
}

impl ResultColumns {
    /// The columns of these queries, which have these aggregates; with the name of the query, if there are `several`.
    ///
    /// # Errors
    /// `InvalidValue` where two would have one name.
    pub(super) fn of(entries: &[Entry], aggregates: Vec<Field>, several: bool) -> Result<Self> {
        let shown = shown(entries[0].plan.measure(), all_windows(entries));
        let mut this = Self {
            schema: Arc::new(Schema::empty()),
            extents: extent_fields(&shown),
            shown,
            aggregates,
            query_names: several,
            window_names: entries.iter().any(|entry| entry.plan.windows().len() > 1),
            ranks: all_windows(entries).any(|window| window.is_ranked()),
            numbers: all_windows(entries).any(|window| window.is_numbered()),
        };
        this.schema = this.schema_of(entries)?;
        Ok(this)
    }

    fn schema_of(&self, entries: &[Entry]) -> Result<SchemaRef> {
        let leader = &entries[0].plan;
        let mut fields: Vec<Field> = leader.output().fields()[..leader.by().len()]
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        if self.query_names {
            fields.push(Field::new("query_name", DataType::Utf8, false));
        }
        if self.window_names {
            fields.push(Field::new("window_name", DataType::Utf8, false));
        }
        let sessions = all_windows(entries).all(|window| window.is_session());
        let vanish = all_windows(entries).any(|window| window.may_vanish());
        let name = if sessions { "session_window" } else { "window" };
        fields.push(Field::new(name, DataType::Struct(self.extents.clone()), vanish));
        if self.ranks {
            let nullable = vanish || !all_windows(entries).all(|window| window.is_ranked());
            fields.push(Field::new("window_rows", DataType::Struct(rank_fields()), nullable));
        }
        if self.numbers {
            fields.push(Field::new(
                "window_number",
                DataType::Int64,
                !all_windows(entries).all(|window| window.is_numbered()),
            ));
        }
        // A query without a column has nulls there.
        let nullable = |field: &Field| {
            let everywhere = entries
                .iter()
                .all(|entry| entry.plan.output().fields().iter().any(|own| own.name() == field.name()));
            field.clone().with_nullable(field.is_nullable() || vanish || !everywhere)
        };
        fields.extend(self.aggregates.iter().map(nullable));
        fields.push(Field::new("update", DataType::Boolean, false));
        for (at, field) in fields.iter().enumerate() {
            if fields[..at].iter().any(|other| other.name() == field.name()) {
                return Err(Error::InvalidValue(format!(
                    "aggs: results would have two columns '{}'; give one of them another name with .alias()",
                    field.name()
                )));
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// The schema of results.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The column of windows with these edges.
    ///
    /// # Errors
    /// `Overflow` if the type of times cannot hold one of them.
    pub(super) fn extents(&self, starts: Vec<i64>, ends: Vec<i64>) -> Result<ArrayRef> {
        let edges = vec![self.shown.array(starts)?, self.shown.array(ends)?];
        Ok(Arc::new(StructArray::try_new(self.extents.clone(), edges, None)?))
    }

    /// A batch of results of one query.
    ///
    /// `keys`, `starts` and `ends` have an entry per window; `which` says which of the query's windows each is, and
    /// `lowered` are the query's aggregates.
    pub(super) fn batch(
        &self,
        (name, own): (&str, &OwnColumns),
        keys: Vec<ArrayRef>,
        windows: WindowColumns,
        lowered: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let WindowColumns { extents, which, updates, ranks, numbers } = windows;
        let rows = which.len();
        let mut columns = keys;
        columns.reserve_exact(self.schema.fields().len() - columns.len());
        if self.query_names {
            let names = std::iter::repeat_n(name, rows);
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        if self.window_names {
            columns.push(own.names.column(&which)?);
        }
        columns.push(extents);
        let nothing = |kind: DataType| new_null_array(&kind, rows);
        if self.ranks {
            columns.push(ranks.unwrap_or_else(|| nothing(DataType::Struct(rank_fields()))));
        }
        if self.numbers {
            columns.push(numbers.unwrap_or_else(|| nothing(DataType::Int64)));
        }
        let mut aggregates: Vec<Option<ArrayRef>> = vec![None; self.aggregates.len()];
        for (&column, values) in own.aggregates.iter().zip(lowered) {
            aggregates[column] = Some(values);
        }
        let aggregates = aggregates.into_iter().zip(&self.aggregates);
        columns.extend(
            aggregates.map(|(own, field)| own.unwrap_or_else(|| new_null_array(field.data_type(), rows))),
        );
        columns.push(Arc::new(updates));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// Extents of withdrawn windows.
    pub(super) fn no_extents(&self, rows: usize) -> ArrayRef {
        new_null_array(&DataType::Struct(self.extents.clone()), rows)
    }
}

/// The places of a query's aggregates among all, to which they are added.
///
/// # Errors
/// `InvalidValue` for columns of one name and different types.
pub(super) fn place_aggregates(aggregates: &mut Vec<Field>, plan: &Plan, name: &str) -> Result<Vec<usize>> {
    let mut columns = Vec::new();
    let fields = plan.output().fields();
    for field in &fields[fields.len() - plan.aggregates().len()..] {
        let column = place(aggregates, field.as_ref(), |other| other.name() == field.name());
        if field.is_nullable() {
            aggregates[column].set_nullable(true);
        }
        if aggregates[column].data_type() != field.data_type() {
            return Err(Error::InvalidValue(format!(
                "query: '{}' of '{name}' is {}, but {} in another query; give one of them another name with \
             .alias()",
                field.name(),
                named(field.data_type()),
                named(aggregates[column].data_type())
            )));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// The place of an item equal to `item`, which is added if it is missing.
pub(super) fn place<T: Clone>(items: &mut Vec<T>, item: &T, alike: impl Fn(&T) -> bool) -> usize {
    items.iter().position(alike).unwrap_or_else(|| {
        items.push(item.clone());
        items.len() - 1
    })
}
