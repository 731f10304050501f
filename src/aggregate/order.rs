//! Values as keys that compare as the values do: for functions that order values, or test them for equality.
//!
//! NaN is greatest and equals NaN, -0.0 equals 0.0, strings and binaries compare by bytes, structs and lists by their
//! fields and items, one after the other, nulls first; as in Spark.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, UInt64Array, cast::AsArray, types::*,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};

use super::lift::cast_to;
use super::partials::Upkeep;
use super::store::{NOWHERE, Position, Store};
use crate::algebra::{of_physical, ordinals, physical};
use crate::dictionary::{plain, widened};
use crate::keys::{decoded, encodable, encoded, holds};
use crate::{Error, Result};

/// Keys of one column.
pub trait Keys: Clone + Send + Sync + 'static {
    /// A value's key.
    type Key: Copy + Default + Send + Sync + 'static;

    /// Keys of values; those of nulls are arbitrary.
    fn read(&mut self, values: &ArrayRef) -> Result<Vec<Self::Key>>;

    /// How the values compare.
    fn compare(&self, a: Self::Key, b: Self::Key) -> Ordering;

    /// The values, in the type of results; null where `nulls` says so.
    fn values(&self, keys: &[Self::Key], nulls: Option<NullBuffer>) -> Result<ArrayRef>;

    /// Takes over the data that the keys of `other` refer to, and makes them keys of `self`.
    fn adopt<'a>(&mut self, other: Self, keys: impl Iterator<Item = &'a mut Self::Key>) {
        let _ = (other, keys);
    }

    /// Compacts the data that these keys refer to, of which there are about `live`; the caller holds no others.
    fn keep_up<'a>(
        &mut self,
        what: Upkeep,
        live: usize,
        keys: impl Iterator<Item = &'a mut Self::Key>,
    ) -> Result<()> {
        let _ = (what, live, keys);
        Ok(())
    }

    /// Whether keys refer to nothing.
    fn are_plain(&self) -> bool {
        true
    }

    /// Bytes of what keys refer to.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Keys without any values.
    fn emptied(&self) -> Self {
        self.clone()
    }
}

/// Keys that are equal where values are, as small as they can be: for multisets.
pub trait Codes: Keys<Key: Ord> {
    /// Whether codes themselves compare as the values do.
    const ORDERED: bool = true;

    /// A number that compares with others as the values do.
    #[inline]
    fn rank_key(&self, code: Self::Key) -> Self::Key {
        code
    }

    /// The code of which this is the [`Codes::rank_key`].
    #[inline]
    fn of_key(&self, key: Self::Key) -> Self::Key {
        key
    }

    /// The numbers that codes stand for; an error if the values are not numbers.
    fn numbers(&self, codes: &[Self::Key]) -> Result<Vec<f64>>;

    /// The integers that codes of temporal values stand for; an error for other values.
    fn integers(&self, codes: &[Self::Key]) -> Result<Vec<i64>> {
        let _ = codes;
        Err(Error::Internal("these values are not temporal".into()))
    }

    /// The type of results that are values.
    fn output(&self) -> &DataType;
}

/// How values of a type are converted to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Everything that fits 64 bits.
    Word,
    /// Decimals.
    Wide,
    /// Strings and binaries, and what is encoded as binaries.
    Text,
}

/// The family of a type that has an order.
pub(super) fn family(input: &DataType) -> Option<Family> {
    use DataType::*;
    Some(match plain(input) {
        Null | Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => {
            Family::Word
        }
        number if number.is_integer() || number.is_floating() => Family::Word,
        Decimal128(..) => Family::Wide,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Family::Text,
        other if is_encoded(other) && encodable(other) && !holds(other, has_no_order) => Family::Text,
        _ => return None,
    })
}

/// Whether values are kept as bytes that compare as they do: of types with values within, or of more than 128 bits.
fn is_encoded(kind: &DataType) -> bool {
    use DataType::*;
    matches!(kind, Struct(_) | List(_) | LargeList(_) | FixedSizeList(..) | Decimal256(..))
}

/// A month may be longer than thirty days, or not.
fn has_no_order(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_))
}

/// Values of at most 64 bits.
#[derive(Debug, Clone)]
pub struct Words {
    values: DataType,
    output: DataType,
    /// What values are computed in: int64, uint64 or float64.
    physical: DataType,
}

const TOP: u64 = 1 << 63;

impl Words {
    pub(super) fn new(input: &DataType) -> Self {
        let values = plain(input);
        let physical = physical(values).unwrap_or(DataType::Int64);
        Self { values: values.clone(), output: widened(input), physical }
    }
}

impl Codes for Words {
    fn numbers(&self, keys: &[u64]) -> Result<Vec<f64>> {
        Ok(match self.physical {
            DataType::Float64 => keys.iter().map(|&key| float(key)).collect(),
            DataType::UInt64 => keys.iter().map(|&key| key as f64).collect(),
            _ => keys.iter().map(|&key| integer(key) as f64).collect(),
        })
    }

    fn integers(&self, keys: &[u64]) -> Result<Vec<i64>> {
        Ok(keys.iter().map(|&key| integer(key)).collect())
    }

    fn output(&self) -> &DataType {
        &self.output
    }
}

/// The integer of a key.
pub(super) fn integer(key: u64) -> i64 {
    (key ^ TOP) as i64
}

fn float(key: u64) -> f64 {
    f64::from_bits(if key & TOP == 0 { !key } else { key ^ TOP })
}

impl Keys for Words {
    type Key = u64;

    fn read(&mut self, values: &ArrayRef) -> Result<Vec<u64>> {
        ordinals(&cast_to(values, &self.values)?)
    }

    fn compare(&self, a: u64, b: u64) -> Ordering {
        a.cmp(&b)
    }

    fn values(&self, keys: &[u64], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let values: ArrayRef = match self.physical {
            DataType::Float64 => {
                Arc::new(Float64Array::new(keys.iter().map(|&key| float(key)).collect(), nulls))
            }
            DataType::UInt64 => Arc::new(UInt64Array::new(keys.to_vec().into(), nulls)),
            _ => Arc::new(Int64Array::new(keys.iter().map(|&key| integer(key)).collect(), nulls)),
        };
        cast_to(&of_physical(&values, &self.values)?, &self.output)
    }
}

/// Decimals, unscaled.
#[derive(Debug, Clone)]
pub struct Wides {
    values: DataType,
    output: DataType,
}

impl Wides {
    pub(super) fn new(input: &DataType) -> Self {
        Self { values: plain(input).clone(), output: widened(input) }
    }

    fn decimals(&self, keys: &[i128], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let DataType::Decimal128(precision, scale) = self.values else {
            return Err(Error::Internal(format!("{} is not decimal128", self.values)));
        };
        let decimals = Decimal128Array::new(keys.to_vec().into(), nulls);
        Ok(Arc::new(decimals.with_precision_and_scale(precision, scale)?))
    }
}

impl Codes for Wides {
    fn numbers(&self, keys: &[i128]) -> Result<Vec<f64>> {
        let numbers = cast_to(&self.decimals(keys, None)?, &DataType::Float64)?;
        Ok(numbers.as_primitive::<Float64Type>().values().to_vec())
    }

    fn output(&self) -> &DataType {
        &self.output
    }
}

impl Keys for Wides {
    type Key = i128;

    fn read(&mut self, values: &ArrayRef) -> Result<Vec<i128>> {
        Ok(cast_to(values, &self.values)?.as_primitive::<Decimal128Type>().values().to_vec())
    }

    fn compare(&self, a: i128, b: i128) -> Ordering {
        a.cmp(&b)
    }

    fn values(&self, keys: &[i128], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        cast_to(&self.decimals(keys, nulls)?, &self.output)
    }
}

/// Strings and binaries, each referred to by its location.
#[derive(Clone)]
pub struct Texts {
    output: DataType,
    store: Store,
}

impl Texts {
    pub(super) fn new(input: &DataType) -> Self {
        Self { output: widened(input), store: Store::new(view_type(input)) }
    }

    fn bytes(&self, at: Position) -> &[u8] {
        bytes_of(&self.store.chunks()[(at >> 32) as usize], (at & 0xffff_ffff) as usize)
    }
}

/// The view type that strings or binaries of a type are read as.
pub(super) fn view_type(input: &DataType) -> DataType {
    match plain(input) {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8View,
        _ => DataType::BinaryView,
    }
}

/// Strings or binaries as views, and so are those that other values are encoded as.
pub(super) fn views(values: &ArrayRef) -> Result<ArrayRef> {
    // Two steps: a dictionary of fixed-size binaries has no direct way to views.
    let values = cast_to(values, plain(values.data_type()))?;
    if is_encoded(values.data_type()) {
        return encoded(&values);
    }
    cast_to(&values, &view_type(values.data_type()))
}

/// The bytes of a row of views.
pub(super) fn bytes_of(views: &ArrayRef, row: usize) -> &[u8] {
    match views.data_type() {
        DataType::Utf8View => views.as_string_view().value(row).as_bytes(),
        _ => views.as_binary_view().value(row),
    }
}

/// Views as values of `output`, which they were made of.
///
/// # Errors
/// `Overflow` if they have more bytes than its offsets can address.
pub(super) fn from_views(views: &ArrayRef, output: &DataType) -> Result<ArrayRef> {
    if is_encoded(plain(output)) {
        return cast_to(&decoded(views.as_binary_view(), plain(output))?, output);
    }
    let views_of = match views.data_type() {
        DataType::Utf8View => views.as_string_view().views(),
        _ => views.as_binary_view().views(),
    };
    // The lower half of a view's lower half is its length.
    let bytes: usize = views_of.iter().map(|&view| view as u32 as usize).sum();
    let narrow = matches!(plain(output), DataType::Utf8 | DataType::Binary | DataType::FixedSizeBinary(_));
    if narrow && i32::try_from(bytes).is_err() {
        return Err(ArrowError::OffsetOverflowError(bytes).into());
    }
    match plain(output) {
        fixed @ DataType::FixedSizeBinary(_) => {
            cast_to(&cast_to(&cast_to(views, &DataType::Binary)?, fixed)?, output)
        }
        _ => cast_to(views, output),
    }
}

impl Keys for Texts {
    type Key = Position;

    fn read(&mut self, values: &ArrayRef) -> Result<Vec<Position>> {
        let len = values.len() as Position;
        let base = self.store.push(views(values)?);
        Ok((base..base + len).collect())
    }

    fn compare(&self, a: Position, b: Position) -> Ordering {
        self.bytes(a).cmp(self.bytes(b))
    }

    fn values(&self, keys: &[Position], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let valid = |row| nulls.as_ref().is_none_or(|nulls: &NullBuffer| nulls.is_valid(row));
        let keys = keys.iter().enumerate().map(|(row, &key)| if valid(row) { key } else { NOWHERE });
        from_views(&self.store.take(keys)?, &self.output)
    }

    fn adopt<'a>(&mut self, other: Self, keys: impl Iterator<Item = &'a mut Position>) {
        let base = self.store.append(other.store);
        keys.for_each(|key| *key += base);
    }

    fn keep_up<'a>(
        &mut self,
        what: Upkeep,
        live: usize,
        keys: impl Iterator<Item = &'a mut Position>,
    ) -> Result<()> {
        // Keys compare by the data they refer to, not by its location.
        if what == Upkeep::Renumber { Ok(()) } else { self.store.keep_up(what, live, keys) }
    }

    fn are_plain(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        self.store.bytes()
    }

    fn emptied(&self) -> Self {
        Self { output: self.output.clone(), store: Store::new(self.store.data_type().clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::Keyed;
    use arrow_schema::TimeUnit;

    #[test]
    fn keys_of_floats_compare_as_spark_compares_floats() {
        let ascending = [f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, -0.0, 1.5, f64::INFINITY, -f64::NAN];
        let keys: Vec<u64> = ascending.iter().map(|&value| value.ordinal()).collect();
        assert!(keys.is_sorted());
        assert_eq!((-0.0f64).ordinal(), 0.0f64.ordinal());
        assert_eq!(f64::NAN.ordinal(), (-f64::NAN).ordinal());
        assert!(ascending.iter().all(|&v| float(v.ordinal()) == v || v.is_nan()));
    }

    #[test]
    fn values_of_every_word_come_back() {
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 100]));
        for kind in [
            DataType::Int8,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float32,
            DataType::Date32,
            DataType::Time32(TimeUnit::Second),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Second),
            DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        ] {
            let narrow = cast_to(&integers, &DataType::Int32).unwrap();
            let values = cast_to(&integers, &kind).or_else(|_| cast_to(&narrow, &kind)).unwrap();
            let mut words = Words::new(&kind);
            let keys = words.read(&values).unwrap();
            assert!(keys.is_sorted());
            assert_eq!(&words.values(&keys, None).unwrap(), &values, "{kind}");
        }
    }
}
