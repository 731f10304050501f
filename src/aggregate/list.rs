//! Values, or whole rows, in the order of time: what `collect_list` and `collect_rows` return. Holistic; commutative only
//! because it keeps times.
//!
//! Rows are appended with their times; when slots are put in order each slot's rows are sorted by time and then by
//! arrival. The slots of one key ascend in time and do not overlap, so that a window is one stretch of rows.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, Int64Array, StructArray, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Fields};

use super::by_slot::{BySlot, grouped, once};
use super::lift::{cast_to, columns};
use super::multiset::{list, offsets};
use super::partials::{Partials, Upkeep};
use super::properties::{Kind, Properties};
use super::rows::Rows;
use super::store::{Position, Store};
use crate::dictionary::{plain, widened};
use crate::kernels::Ranges;
use crate::poll::{PIECE, Poll, sort_by_key};
use crate::{Error, Result};

/// A column of lists of values.
pub struct List {
    /// The names of the columns, where the values are rows: structs of several columns.
    fields: Option<Fields>,
    output: DataType,
    store: Store,
    len: usize,
    held: Held,
    /// Called while the rows of a single slot are sorted, however many they are.
    poll: Poll,
}

/// Values of slots.
enum Held {
    /// Rows in order of arrival, with their slots.
    Rows { slots: Vec<u32>, rows: Vec<Row>, index: OnceLock<Arc<Sorted>> },
    /// Rows by slot and time.
    Sorted(Arc<Sorted>),
    /// A range of slots per slot.
    View(Arc<Sorted>, Vec<(u32, u32)>),
}

/// When a value arrived, and where it is stored; positions are also arrival numbers.
type Row = (i64, Position);

/// Slot s has `rows[offsets[s]..offsets[s + 1]]`.
struct Sorted {
    offsets: Vec<usize>,
    rows: Vec<Row>,
}

/// The rows of each slot, by time.
#[derive(Clone, Copy)]
struct InOrder<'a> {
    sorted: &'a Arc<Sorted>,
    /// The range of slots that each slot is, in a view.
    ranges: Option<&'a [(u32, u32)]>,
    len: usize,
}

impl List {
    pub(super) fn new(input: &DataType, poll: Poll) -> Self {
        let output = widened(input);
        Self::held_as(None, plain(&output).clone(), output, poll)
    }

    /// A column of lists of rows, whose columns have these names and types.
    pub(super) fn of_rows(names: &[String], inputs: &[DataType], poll: Poll) -> Self {
        let output = row_fields(names, inputs.iter().map(widened));
        let held = row_fields(names, output.iter().map(|field| plain(field.data_type()).clone()));
        Self::held_as(Some(held.clone()), DataType::Struct(held), DataType::Struct(output), poll)
    }

    fn held_as(fields: Option<Fields>, held: DataType, output: DataType, poll: Poll) -> Self {
        Self { fields, output, store: Store::new(held), len: 0, held: Held::rows(), poll }
    }

    fn with(&self, len: usize, held: Held) -> Self {
        Self {
            fields: self.fields.clone(),
            output: self.output.clone(),
            store: self.store.clone(),
            len,
            held,
            poll: self.poll,
        }
    }

    /// What is listed of a batch.
    fn listed(&self, inputs: &[ArrayRef]) -> Result<ArrayRef> {
        let Some(fields) = &self.fields else {
            let [values] = columns(inputs)?;
            return cast_to(values, self.store.data_type());
        };
        let columns = inputs.iter().zip(fields).map(|(input, field)| cast_to(input, field.data_type()));
        // A row is there whatever its columns hold, so it is never null itself.
        Ok(Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, None)?))
    }

    /// The rows of each slot, by time; put in order now, where they were not yet.
    fn in_order(&self) -> Result<InOrder<'_>> {
        let Held::Rows { slots, rows, index } = &self.held else {
            return Ok(self.held.in_order(self.len).expect("they are no longer rows as they arrived"));
        };
        let sorted = once(index, || Ok(Arc::new(Sorted::of(slots, rows, self.len, self.poll)?)))?;
        Ok(InOrder { sorted, ranges: None, len: self.len })
    }

    /// All rows, slot by slot.
    fn rows(&mut self) -> (&mut Vec<u32>, &mut Vec<Row>) {
        if let Some(in_order) = self.held.in_order(self.len) {
            let (mut slots, mut rows) = (Vec::new(), Vec::new());
            for (slot, own) in in_order.slots().enumerate() {
                rows.extend_from_slice(own);
                slots.resize(rows.len(), slot as u32);
            }
            self.held = Held::Rows { slots, rows, index: OnceLock::new() };
        }
        match &mut self.held {
            Held::Rows { slots, rows, index } => {
                *index = OnceLock::new();
                (slots, rows)
            }
            _ => unreachable!("they were made rows"),
        }
    }

    /// The values of these rows.
    fn values<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Result<ArrayRef> {
        cast_to(&self.store.take_polling(rows.map(|row| row.1), self.poll)?, &self.output)
    }
}

/// The fields of rows with columns of these names and types.
pub(super) fn row_fields(names: &[String], kinds: impl Iterator<Item = DataType>) -> Fields {
    names.iter().zip(kinds).map(|(name, kind)| Field::new(name, kind, true)).collect()
}

impl Held {
    fn rows() -> Self {
        Held::Rows { slots: Vec::new(), rows: Vec::new(), index: OnceLock::new() }
    }

    /// The rows of each of `len` slots, unless they are as they arrived.
    fn in_order(&self, len: usize) -> Option<InOrder<'_>> {
        match self {
            Held::Rows { .. } => None,
            Held::Sorted(sorted) => Some(InOrder { sorted, ranges: None, len }),
            Held::View(sorted, ranges) => Some(InOrder { sorted, ranges: Some(ranges), len }),
        }
    }
}

impl Sorted {
    /// No rows, and room for so many.
    fn with_capacity(slots: usize, rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(slots + 1);
        offsets.push(0);
        Self { offsets, rows: Vec::with_capacity(rows) }
    }

    /// Rows that arrived with these slots.
    fn of(slots: &[u32], rows: &[Row], len: usize, poll: Poll) -> Result<Self> {
        let by_slot = BySlot::polled(slots, len, poll)?;
        let mut sorted = Self::with_capacity(len, rows.len());
        for slot in 0..len {
            sorted.push(by_slot.entries(slot..slot + 1).map(|entry| rows[entry as usize]), poll)?;
        }
        Ok(sorted)
    }

    /// Adds a slot with these rows.
    fn push(&mut self, rows: impl Iterator<Item = Row>, poll: Poll) -> Result<()> {
        let from = self.rows.len();
        self.rows.extend(rows);
        if self.rows.len() / PIECE > from / PIECE {
            poll()?;
        }
        sort_by_key(&mut self.rows[from..], |&row| row, poll)?;
        self.offsets.push(self.rows.len());
        Ok(())
    }

    fn slots(&self, from: usize, to: usize) -> &[Row] {
        &self.rows[self.offsets[from]..self.offsets[to]]
    }

    fn bytes(&self) -> usize {
        self.offsets.capacity() * size_of::<usize>() + self.rows.capacity() * size_of::<Row>()
    }
}

impl<'a> InOrder<'a> {
    fn slot(self, slot: usize) -> &'a [Row] {
        let (from, to) = self.ranges.map_or((slot, slot + 1), |ranges| {
            let (from, to) = ranges[slot];
            (from as usize, to as usize)
        });
        self.sorted.slots(from, to)
    }

    fn slots(self) -> impl Iterator<Item = &'a [Row]> {
        (0..self.len).map(move |slot| self.slot(slot))
    }

    fn rows(self) -> impl Iterator<Item = &'a Row> {
        self.slots().flatten()
    }

    /// Where the rows of each slot end.
    fn ends(self) -> Vec<usize> {
        let lens = self.slots().map(<[Row]>::len);
        lens.scan(0, |end, len| {
            *end += len;
            Some(*end)
        })
        .collect()
    }
}

impl Partials for List {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Holistic)
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let values = self.listed(inputs)?;
        let nulls = values.logical_nulls();
        let base = self.store.push(values);
        let (slots, own) = self.rows();
        for (row, (&slot, &time)) in rows.slots.iter().zip(rows.times).enumerate() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                slots.push(slot);
                own.push((time, base + row as Position));
            }
        }
        self.len = len;
        Ok(())
    }

    /// Lists of values and lists of their times.
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let [values, times] = columns(state)?;
        let item = |kind: &DataType| DataType::List(Arc::new(Field::new_list_field(kind.clone(), true)));
        let (values, times) =
            (cast_to(values, &item(self.store.data_type()))?, cast_to(times, &item(&DataType::Int64))?);
        let (values, times) = (values.as_list::<i32>(), times.as_list::<i32>());
        let base = self.store.push(values.values().clone());
        let when = times.values().as_primitive::<Int64Type>();
        let (slots, own) = self.rows();
        for (row, &slot) in rows.slots.iter().enumerate().filter(|&(row, _)| values.is_valid(row)) {
            let (from, others) = (values.value_offsets()[row], times.value_offsets()[row]);
            if values.value_length(row) != times.value_length(row) {
                return Err(Error::InvalidValue(format!(
                    "slices: row {row} has {} values and {} times",
                    values.value_length(row),
                    times.value_length(row)
                )));
            }
            for at in 0..values.value_length(row) {
                slots.push(slot);
                own.push((when.value((others + at) as usize), base + (from + at) as Position));
            }
        }
        self.len = len;
        Ok(())
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        let mut other = other.into_alike::<Self>();
        let base = self.len as u32;
        let arrived = self.store.append(other.store.clone());
        let (slots, rows) = self.rows();
        let (others, theirs) = other.rows();
        slots.extend(others.iter().map(|slot| base + slot));
        rows.extend(theirs.iter().map(|&(time, at)| (time, arrived + at)));
        self.len += other.len;
    }

    fn empty(&self) -> Box<dyn Partials> {
        let (fields, held, output) =
            (self.fields.clone(), self.store.data_type().clone(), self.output.clone());
        Box::new(Self::held_as(fields, held, output, self.poll))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        let in_order = self.in_order()?;
        // As many rows as these slots have if they have as many as others.
        let rows = in_order.sorted.rows.len() / self.len.max(1) * slots.len();
        let mut sorted = Sorted::with_capacity(groups.len(), rows);
        for slots in grouped(slots, groups) {
            sorted.push(slots.iter().flat_map(|&slot| in_order.slot(slot as usize)).copied(), self.poll)?;
        }
        Ok(Box::new(self.with(groups.len(), Held::Sorted(Arc::new(sorted)))))
    }

    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        let in_order = self.in_order()?;
        let sorted = if in_order.ranges.is_none() {
            in_order.sorted.clone()
        } else {
            let mut sorted = Sorted::with_capacity(self.len, 0);
            for slot in in_order.slots() {
                sorted.push(slot.iter().copied(), self.poll)?;
            }
            Arc::new(sorted)
        };
        let ranges: Vec<(u32, u32)> = ranges.iter().map(|(lo, hi)| (lo as u32, hi as u32)).collect();
        Ok(Box::new(self.with(ranges.len(), Held::View(sorted, ranges))))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let in_order = self.in_order()?;
        let offsets = offsets(&in_order.ends())?;
        let times = Int64Array::from_iter_values(in_order.rows().map(|row| row.0));
        Ok(vec![list(offsets.clone(), self.values(in_order.rows())?), list(offsets, Arc::new(times))])
    }

    fn lower(&self) -> Result<ArrayRef> {
        let in_order = self.in_order()?;
        Ok(list(offsets(&in_order.ends())?, self.values(in_order.rows())?))
    }

    fn keep_up(&mut self, what: Upkeep) -> Result<()> {
        if matches!(what, Upkeep::Shrink | Upkeep::Renumber) {
            let mut store = self.store.clone();
            let (_, rows) = self.rows();
            store.keep_up(what, rows.len(), rows.iter_mut().map(|row| &mut row.1))?;
            self.store = store;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let own = match &self.held {
            Held::Rows { slots, rows, .. } => {
                slots.capacity() * size_of::<u32>() + rows.capacity() * size_of::<Row>()
            }
            Held::Sorted(sorted) => sorted.bytes(),
            Held::View(sorted, ranges) => sorted.bytes() + ranges.capacity() * size_of::<(u32, u32)>(),
        };
        own + self.store.bytes()
    }
}
