//! A function over whole arrays, and the types that it declares.

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::DataType;

use crate::aggregate::properties::Properties;
use crate::types::named;
use crate::{Error, Result};

/// An aggregate function over arrays: one entry per row, slice or window.
pub trait ArrayFunction: Send + Sync + 'static {
    /// The name used in errors.
    fn name(&self) -> &str;

    /// States of single rows, none of whose inputs is null.
    fn lift(&self, inputs: &[ArrayRef]) -> Result<ArrayRef>;

    /// States of pairs, `earlier` before `later` in time.
    fn combine(&self, earlier: &ArrayRef, later: &ArrayRef) -> Result<ArrayRef>;

    /// Results.
    fn lower(&self, states: &ArrayRef) -> Result<ArrayRef>;

    /// `rest` for each `combine(part, rest)`, if there is an exact inverse.
    fn invert(&self, whole: &ArrayRef, part: &ArrayRef) -> Option<Result<ArrayRef>>;

    /// Its properties.
    fn properties(&self) -> Properties;

    /// The state of no rows, as an array of one entry, if there is one.
    fn identity(&self, states: &DataType) -> Result<Option<ArrayRef>>;
}

/// The types of a function, taken from what it returns for arrays without entries.
pub(super) struct Signature {
    pub(super) state: DataType,
    pub(super) output: DataType,
    pub(super) identity: Option<ArrayRef>,
}

impl Signature {
    pub(super) fn of<F: ArrayFunction>(function: &F, inputs: &[DataType]) -> Result<Self> {
        let inputs: Vec<ArrayRef> = inputs.iter().map(new_empty_array).collect();
        let states = checked(function, "lift", function.lift(&inputs)?, 0, None)?;
        let state = states.data_type().clone();
        checked(function, "combine", function.combine(&states, &states)?, 0, Some(&state))?;
        if let Some(inverted) = function.invert(&states, &states) {
            checked(function, "invert", inverted?, 0, Some(&state))?;
        }
        let output = checked(function, "lower", function.lower(&states)?, 0, None)?.data_type().clone();
        let identity = function.identity(&state)?;
        let identity =
            identity.map(|array| checked(function, "identity", array, 1, Some(&state))).transpose()?;
        Ok(Self { state, output, identity })
    }
}

/// An array that a function returned, if it has the required length and type.
pub(super) fn checked<F: ArrayFunction>(
    function: &F,
    what: &str,
    array: ArrayRef,
    len: usize,
    kind: Option<&DataType>,
) -> Result<ArrayRef> {
    if array.len() != len {
        return Err(Error::InvalidValue(format!(
            "{}: {what} returned {} entries for {len}; it must return as many as it is given",
            function.name(),
            array.len()
        )));
    }
    if let Some(kind) = kind.filter(|&kind| kind != array.data_type()) {
        return Err(Error::InvalidValue(format!(
            "{}: {what} returned {}; expected {kind}, as returned for empty arrays",
            function.name(),
            named(array.data_type()),
            kind = named(kind)
        )));
    }
    Ok(array)
}
