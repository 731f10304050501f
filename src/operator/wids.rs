//! Window ids of columns: the Bucket operator of Li 2008, §6.1.3.1, for use without a query.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StructArray, cast::AsArray, make_array, types::Int64Type};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field};

use super::binding::bind_numbered;
use super::schema::shown;
use super::window_spec::WindowSpec;
use crate::dictionary::plain;
use crate::interrupt::check;
use crate::types::named;
use crate::window::{Beyond, Ids, Measure, Ranges, Window};
use crate::{Error, Result};

/// The windows of one type, numbered, over times of one type.
#[derive(Debug)]
pub struct Wids {
    name: String,
    window: Window,
    measure: Measure,
    /// Where window 0 begins.
    zero: i64,
}

impl Wids {
    /// # Errors
    /// `InvalidType` for windows without ids, for times that no window ranges over, and for lengths of another kind;
    /// `InvalidValue` for lengths that the type cannot represent.
    pub fn new(spec: &WindowSpec, times: &DataType) -> Result<Self> {
        let measure = Measure::new("times", times).map_err(|_| {
            Error::InvalidType(format!(
                "times: their type is {times}; times are timestamps, dates, durations or integers",
                times = named(times)
            ))
        })?;
        Self::of(spec, measure)?.ok_or_else(|| {
            Error::InvalidType(format!(
                "window: {} has no window ids, as its windows are not known before the rows, or not numbered; allowed are \
                 bands, and tumbling, sliding and landmark windows over time or integers",
                spec.name
            ))
        })
    }

    /// The ids of windows over the times of a column; `None` for windows without ids.
    ///
    /// # Errors
    /// As [`Wids::new`].
    pub(super) fn of(spec: &WindowSpec, measure: Measure) -> Result<Option<Self>> {
        let bound = bind_numbered(spec, &measure)?;
        Ok(bound.map(|(window, zero)| {
            let measure = shown(&measure, [&window]);
            Self { name: spec.name.clone(), window, measure, zero }
        }))
    }

    fn ids(&self) -> Result<&dyn Ids> {
        self.window.ids().ok_or_else(|| Error::Internal(format!("{} has no ids", self.name)))
    }

    /// What the windows are called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What they are.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// What its times are, in the zone of the windows if there is one.
    pub(super) fn measure(&self) -> &Measure {
        &self.measure
    }

    /// The first and the last id of the windows of a time; `None` if it is in no window.
    ///
    /// # Errors
    /// As [`Wids::of_times`].
    pub(super) fn range(&self, time: i64) -> Result<Option<(i64, i64)>> {
        let ids = self.ids()?;
        let reach = ids.reach();
        let is_within = i64::MIN + reach <= time && time <= i64::MAX - reach;
        let range = if is_within { ids.ids_at(time, self.zero) } else { Err(Beyond) };
        range.map_err(|_| self.too_far(time))
    }

    /// The range of ids of each of a column of times; no range under nulls.
    ///
    /// # Errors
    /// As [`Wids::of_times`].
    pub(super) fn ranges(&self, times: &[i64], nulls: Option<&NullBuffer>) -> Result<Ranges> {
        self.ids()?.ids_of_all(times, nulls, self.zero, &|time| self.too_far(time), check)
    }

    /// Starts and ends of a column of windows; none under nulls.
    ///
    /// # Errors
    /// As [`Wids::extents`].
    pub(super) fn edges(&self, ids: &[i64], nulls: Option<&NullBuffer>) -> Result<Ranges> {
        self.ids()?.extents_of_all(ids, nulls, self.zero, &|id| self.beyond(id), check)
    }

    /// Start and end of a window; `None` if there is none.
    ///
    /// # Errors
    /// As [`Wids::extents`].
    pub(super) fn extent(&self, id: i64) -> Result<Option<(i64, i64)>> {
        self.ids()?.extent_of(id, self.zero).map_err(|_| self.beyond(id))
    }

    fn beyond(&self, id: i64) -> Error {
        Error::Overflow(format!("ids: the extent of window {id} of {} does not fit 64 bits", self.name))
    }

    fn too_far(&self, time: i64) -> Error {
        Error::Overflow(format!(
            "{}: {time} is too far from 0 for {}: an id or an edge of a window it is in does not fit 64 bits",
            self.measure.column(),
            self.name
        ))
    }

    /// The range of ids of each time: a struct of `first` and `last`, null for a time that is null or in no window.
    ///
    /// # Errors
    /// `Overflow` for a time so far away that an id or an edge of its windows does not fit 64 bits.
    pub fn of_times(&self, times: &ArrayRef) -> Result<ArrayRef> {
        let (values, nulls) = (self.measure.read(times)?, times.logical_nulls());
        let found = self.ranges(&values, nulls.as_ref())?;
        let column = |ids: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(ids)) };
        pairs([("first", column(found.from)), ("last", column(found.to))], found.nulls)
    }

    /// The extent of each window: a struct of `start` and `end`, null for an id that is null or of no window.
    ///
    /// # Errors
    /// `InvalidType` if ids are not integers, `Overflow` for an extent that the type of times cannot hold.
    pub fn extents(&self, ids: &ArrayRef) -> Result<ArrayRef> {
        if !plain(ids.data_type()).is_integer() {
            return Err(Error::InvalidType(format!(
                "ids: an array of {} was given; ids are integers",
                named(ids.data_type())
            )));
        }
        let exact = CastOptions { safe: false, ..CastOptions::default() };
        let ids = cast_with_options(ids, &DataType::Int64, &exact)
            .map_err(|error| Error::InvalidValue(format!("ids: {error}; ids are integers of 64 bits")))?;
        let (values, nulls) = (ids.as_primitive::<Int64Type>().values(), ids.logical_nulls());
        let found = self.edges(values, nulls.as_ref())?;
        let (starts, ends) = (self.measure.array(found.from)?, self.measure.array(found.to)?);
        pairs([("start", starts), ("end", ends)], found.nulls)
    }
}

/// A struct of two columns; nulls are also in the columns, for readers that take these alone.
fn pairs(columns: [(&str, ArrayRef); 2], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, column)| {
            let data = column.to_data().into_builder().nulls(nulls.clone()).build()?;
            Ok((Field::new(name, data.data_type().clone(), true), make_array(data)))
        })
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    Ok(Arc::new(StructArray::try_new(fields.into(), columns, nulls)?))
}
