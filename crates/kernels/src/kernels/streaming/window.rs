//! A window over a stream of Arrow values: any of the functions, any of their types, nulls skipped.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, UInt64Array, cast::AsArray, new_null_array, types::*,
};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::DataType;

use super::functions::rows;
use super::rows::{Algorithm, Rows};
use crate::kernels::Function;
use crate::memory::attempted;
use crate::poll::{Poll, never};
use crate::types::named;
use crate::{Error, Result};

/// One row's value, without its Arrow type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// No value.
    Null,
    /// An integer, perhaps a negative one.
    Signed(i64),
    /// An integer that is not negative.
    Unsigned(u64),
    /// A float.
    Float(f64),
}

/// The aggregate of rows that come in at one end and leave at the other.
///
/// Rows are numbered from 0 in the order they come; a null is a row, but no value. Operations take O(1) per row, in the
/// worst case or on average as the [`Algorithm`] has it; memory is n + 2 partial aggregates of 0 (count) to 40 bytes.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int32Array, cast::AsArray, types::Int64Type};
/// use arrow_schema::DataType;
/// use windowkit_kernels::Function;
/// use windowkit_kernels::streaming::{Algorithm, StreamWindow};
///
/// let sum = Function::parse("sum", 1)?;
/// let mut window = StreamWindow::new(sum, &DataType::Int32, Algorithm::Daba)?;
/// let rows: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
/// window.insert(&rows)?;
/// window.evict(1)?;
/// assert_eq!(window.query()?.as_primitive::<Int64Type>().value(0), 3);
/// # Ok::<(), windowkit_kernels::Error>(())
/// ```
pub struct StreamWindow {
    input: DataType,
    output: DataType,
    rows: Box<dyn Rows>,
}

/// A change of a window, as [`StreamWindow::change`] takes it.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// See [`StreamWindow::insert`].
    Insert(&'a ArrayRef),
    /// See [`StreamWindow::insert_number`].
    InsertNumber(Number),
    /// See [`StreamWindow::evict`].
    Evict(u64),
    /// Values, size and least number of values: see [`StreamWindow::slide`].
    Slide(&'a ArrayRef, u64, u64),
    /// See [`StreamWindow::clear`].
    Clear,
}

impl StreamWindow {
    /// An empty window of `function` over values of type `input`.
    ///
    /// # Errors
    /// `InvalidType` for a type that the function has no meaning for.
    pub fn new(function: Function, input: &DataType, algorithm: Algorithm) -> Result<Self> {
        let output = function.output_type(input).map_err(|error| match error {
            Error::InvalidType(text) => Error::InvalidType(text.replacen("array:", "type:", 1)),
            error => error,
        })?;
        let Some(rows) = rows(function, input, &output, algorithm) else {
            return Err(Error::InvalidType(format!(
                "type: a window cannot hold values of type {input}; allowed are booleans, integers, floats, \
                 decimal128, dates, times, timestamps and durations",
                input = named(input)
            )));
        };
        Ok(Self { input: input.clone(), output, rows })
    }

    /// The type of the values.
    pub fn input(&self) -> &DataType {
        &self.input
    }

    /// The type of the answers.
    pub fn output(&self) -> &DataType {
        &self.output
    }

    /// How many rows are in the window, nulls included.
    pub fn len(&self) -> u64 {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of the rows are null.
    pub fn null_count(&self) -> u64 {
        self.rows.null_count()
    }

    /// Adds rows at the back: all, or none if it fails.
    ///
    /// # Errors
    /// `InvalidType` if they are not of type [`StreamWindow::input`].
    pub fn insert(&mut self, values: &ArrayRef) -> Result<()> {
        self.change(Change::Insert(values), never).map(|_| ())
    }

    /// Adds one row given as a plain number, or a null.
    ///
    /// # Errors
    /// `InvalidValue` if the type of the values cannot hold it.
    pub fn insert_number(&mut self, number: Number) -> Result<()> {
        self.change(Change::InsertNumber(number), never).map(|_| ())
    }

    /// Removes the `rows` oldest rows.
    ///
    /// # Errors
    /// `InvalidValue` if there are fewer; then none is removed.
    pub fn evict(&mut self, rows: u64) -> Result<()> {
        self.change(Change::Evict(rows), never).map(|_| ())
    }

    /// The aggregate of all rows in the window, as an array of one.
    ///
    /// # Errors
    /// `Overflow` if it does not fit its type; the window is as before.
    pub fn query(&self) -> Result<ArrayRef> {
        self.rows.query()
    }

    /// Adds rows one after the other, keeps the `size` newest, and returns the answer after each: null where there are
    /// fewer than `min_periods` values.
    ///
    /// # Errors
    /// `InvalidType` as for [`StreamWindow::insert`], `InvalidValue` for a size of 0, `Overflow` if an answer does not
    /// fit its type. The window is then as before.
    pub fn slide(&mut self, values: &ArrayRef, size: u64, min_periods: u64) -> Result<ArrayRef> {
        let answers = self.change(Change::Slide(values, size, min_periods), never)?;
        answers.ok_or_else(|| Error::Internal("a slide without answers".into()))
    }

    /// Removes all rows; the numbering continues.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Makes a change as a whole or not at all. The answers are those of a slide.
    ///
    /// # Errors
    /// Errors of the change, of memory, and of `poll`, which is called once for some thousand rows; the window is as before
    /// then.
    pub fn change(&mut self, change: Change<'_>, poll: Poll) -> Result<Option<ArrayRef>> {
        self.rows.begin();
        let done = attempted(|| self.made(change, poll));
        self.rows.settle(done.is_ok());
        done
    }

    fn made(&mut self, change: Change<'_>, poll: Poll) -> Result<Option<ArrayRef>> {
        match change {
            Change::Insert(values) => self.rows.insert(&self.read(values)?, poll)?,
            Change::InsertNumber(number) => self.rows.insert(&self.read(&self.array(number)?)?, poll)?,
            Change::Evict(rows) if rows > self.len() => {
                return Err(Error::InvalidValue(format!(
                    "n: {rows} rows cannot be evicted from a window of {}",
                    self.len()
                )));
            }
            Change::Evict(rows) => self.rows.evict(rows),
            Change::Slide(_, 0, _) => {
                return Err(Error::InvalidValue("size: 0 was given; a window has at least one row".into()));
            }
            Change::Slide(values, size, min_periods) => {
                return self.rows.slide(&self.read(values)?, size, min_periods, poll).map(Some);
            }
            Change::Clear => self.rows.clear(),
        }
        Ok(None)
    }

    /// A plain number as an array of one, of the type of the values.
    fn array(&self, number: Number) -> Result<ArrayRef> {
        let array: ArrayRef = match number {
            Number::Null => new_null_array(&self.input, 1),
            Number::Signed(value) => Arc::new(Int64Array::from(vec![value])),
            Number::Unsigned(value) => Arc::new(UInt64Array::from(vec![value])),
            Number::Float(value) => Arc::new(Float64Array::from(vec![value])),
        };
        let strict = CastOptions { safe: false, ..Default::default() };
        let value = cast_with_options(&array, &self.input, &strict).map_err(|error| {
            Error::InvalidValue(format!("value: it does not fit {}: {error}", self.input))
        })?;
        if let Number::Float(given) = number
            && given.is_finite()
            && self.input != DataType::Float64
            && !cast(&value, &DataType::Float64)?.as_primitive::<Float64Type>().value(0).is_finite()
        {
            return Err(Error::InvalidValue(format!(
                "value: {given:?} is out of the range of {}",
                self.input
            )));
        }
        Ok(value)
    }

    fn read(&self, values: &ArrayRef) -> Result<ArrayRef> {
        if values.data_type() != &self.input {
            return Err(Error::InvalidType(format!(
                "values: {} in a window over {}; cast them first",
                named(values.data_type()),
                named(&self.input)
            )));
        }
        self.rows.read(values)
    }
}

#[cfg(test)]
mod tests;
