//! Window ids of columns: the Bucket operator of Li 2008, §6.1.3.1, for use without a query.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StructArray, cast::AsArray, make_array, types::Int64Type};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field};

use super::binding::bind_numbered;
use super::window_spec::WindowSpec;
use crate::dictionary::plain;
use crate::window::{Ids, Measure, Window};
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
                "times: their type is {times}; times are timestamps, dates, durations or integers"
            ))
        })?;
        let (window, zero) = bind_numbered(spec, &measure)?;
        Ok(Self { name: spec.name.clone(), window, measure, zero })
    }

    fn ids(&self) -> Result<&dyn Ids> {
        self.window.ids().ok_or_else(|| Error::Internal(format!("{} has no ids", self.name)))
    }

    /// The range of ids of each time: a struct of `first` and `last`, null for a time that is null or in no window.
    ///
    /// # Errors
    /// `Overflow` for a time so far away that an id or an edge of its windows does not fit 64 bits.
    pub fn of_times(&self, times: &ArrayRef) -> Result<ArrayRef> {
        let beyond = |t: i64| {
            Error::Overflow(format!(
                "times: {t} is too far from 0 for {}: an id or an edge of a window it is in does not fit 64 bits",
                self.name
            ))
        };
        let (values, nulls) = (self.measure.read(times)?, times.logical_nulls());
        let found = self.ids()?.ids_of_all(&values, nulls.as_ref(), self.zero, &beyond)?;
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
                ids.data_type()
            )));
        }
        let beyond = |id: i64| {
            Error::Overflow(format!("ids: the extent of window {id} of {} does not fit 64 bits", self.name))
        };
        let exact = CastOptions { safe: false, ..CastOptions::default() };
        let ids = cast_with_options(ids, &DataType::Int64, &exact)
            .map_err(|error| Error::InvalidValue(format!("ids: {error}; ids are integers of 64 bits")))?;
        let (values, nulls) = (ids.as_primitive::<Int64Type>().values(), ids.logical_nulls());
        let found = self.ids()?.extents_of_all(values, nulls.as_ref(), self.zero, &beyond)?;
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
