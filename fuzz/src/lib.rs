//! What the fuzz targets share: columns made of a fuzzer's bytes, and the definition of every function, evaluated
//! naively over the values of one window.

pub mod hostile;
#[path = "../../src/import/odd.rs"]
pub mod odd;

use std::sync::Arc;

use arbitrary::Arbitrary;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, cast::AsArray, types::*};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use windowkit::Error;
use windowkit::kernels::{Algorithm, Frames, Function, Question, Rolling, Segments, answer};
use windowkit::poll::never;

/// The types of columns.
#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Decimal128,
}

/// A value, exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    Integer(i128),
    Float(f64),
}

impl Value {
    /// NaN is the greatest, -0.0 equals 0.0.
    pub fn is_below(self, other: Value) -> bool {
        match (self, other) {
            (Value::Integer(a), Value::Integer(b)) => a < b,
            (Value::Float(a), Value::Float(b)) => a < b || (b.is_nan() && !a.is_nan()),
            _ => unreachable!("values of one column"),
        }
    }

    pub fn is(self, other: Value) -> bool {
        !self.is_below(other) && !other.is_below(self)
    }

    pub fn float(self) -> f64 {
        match self {
            Value::Integer(value) => value as f64,
            Value::Float(value) => value,
        }
    }
}

/// A column of a fuzzer's bytes, one value a byte: small numbers, so that there are ties, and a few extreme ones.
#[derive(Arbitrary, Debug)]
pub struct Bytes {
    pub kind: Kind,
    bytes: Vec<u8>,
    /// Which values are null; cycled. Empty for no nulls.
    nulls: Vec<u8>,
    /// Rows that the array starts later than its buffers.
    offset: u8,
}

impl Bytes {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The column; without `extremes`, all values are small.
    pub fn column(&self, extremes: bool) -> (ArrayRef, Vec<Option<Value>>) {
        use Kind::*;
        match self.kind {
            Int8 => self.integers::<Int8Type>(extremes),
            Int16 => self.integers::<Int16Type>(extremes),
            Int32 => self.integers::<Int32Type>(extremes),
            Int64 => self.integers::<Int64Type>(extremes),
            UInt8 => self.integers::<UInt8Type>(extremes),
            UInt16 => self.integers::<UInt16Type>(extremes),
            UInt32 => self.integers::<UInt32Type>(extremes),
            UInt64 => self.integers::<UInt64Type>(extremes),
            Decimal128 => {
                let most = 10i128.pow(38) - 1;
                self.build::<Decimal128Type>(|byte| match byte {
                    250 if extremes => (most, Value::Integer(most)),
                    251 if extremes => (-most, Value::Integer(-most)),
                    _ => (i128::from(byte) - 125, Value::Integer(i128::from(byte) - 125)),
                })
            }
            Float32 => self.build::<Float32Type>(|byte| {
                let value = float(byte, extremes, f32::MAX.into()) as f32;
                (value, Value::Float(value.into()))
            }),
            Float64 => self.build::<Float64Type>(|byte| {
                let value = float(byte, extremes, 1e300);
                (value, Value::Float(value))
            }),
        }
    }

    fn integers<T: ArrowPrimitiveType>(&self, extremes: bool) -> (ArrayRef, Vec<Option<Value>>)
    where
        T::Native: TryFrom<i128> + Into<i128> + Bounded,
    {
        self.build::<T>(|byte| {
            let value = match byte {
                250..252 if extremes => T::Native::MOST,
                252..254 if extremes => T::Native::LEAST,
                _ => T::Native::try_from(i128::from(byte % 101)).unwrap_or(T::Native::MOST),
            };
            (value, Value::Integer(value.into()))
        })
    }

    fn build<T: ArrowPrimitiveType>(
        &self,
        value: impl Fn(u8) -> (T::Native, Value),
    ) -> (ArrayRef, Vec<Option<Value>>) {
        let offset = usize::from(self.offset % 70);
        let null = |at: usize| {
            let bit = at % (self.nulls.len() * 8).max(1);
            self.nulls.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
        };
        let before = (0..offset).map(|at| Some(value(at as u8).0));
        let rows = self.bytes.iter().enumerate();
        let rows = rows.map(|(at, &byte)| (!null(at)).then(|| value(byte).0));
        let array: PrimitiveArray<T> = before.chain(rows).collect();
        let array: ArrayRef = match T::DATA_TYPE {
            DataType::Decimal128(..) => Arc::new(array.with_data_type(DataType::Decimal128(38, 3))),
            _ => Arc::new(array),
        };
        let values = self.bytes.iter().enumerate().map(|(at, &byte)| (!null(at)).then(|| value(byte).1));
        (array.slice(offset, self.bytes.len()), values.collect())
    }
}

trait Bounded {
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! bounded {
    ($($t:ty),*) => { $(impl Bounded for $t { const LEAST: Self = <$t>::MIN; const MOST: Self = <$t>::MAX; })* };
}
bounded!(i8, i16, i32, i64, u8, u16, u32, u64);

fn float(byte: u8, extremes: bool, most: f64) -> f64 {
    match byte {
        255 if extremes => f64::NAN,
        254 if extremes => f64::INFINITY,
        253 if extremes => f64::NEG_INFINITY,
        252 if extremes => -0.0,
        251 if extremes => most,
        250 if extremes => -most,
        249 if extremes => 1e-300,
        248 => 1e15,
        247 => -1e15,
        // Not multiples of a power of two, so that sums are rounded.
        _ => (f64::from(byte) - 123.0) / 10.0,
    }
}

/// Windows over a number of rows.
#[derive(Arbitrary, Debug)]
pub struct Shape {
    size: u16,
    slide: u16,
    over_start: bool,
    over_end: bool,
    /// Lengths of groups; one group if there is none.
    groups: Vec<u8>,
    min_periods: Option<u8>,
    algorithm: u8,
}

impl Shape {
    /// The rows of each window by the definition: every k is tried.
    pub fn windows(&self, rows: usize) -> Vec<(usize, usize)> {
        let (size, slide) = (self.size() as i64, self.slide() as i64);
        let offsets = self.offsets(rows);
        let mut windows = Vec::new();
        for (&begin, &end) in offsets.iter().zip(&offsets[1..]) {
            let len = end - begin;
            for k in -(size / slide) - 1..=len / slide {
                let (from, to) = (k * slide, k * slide + size);
                let holds_a_row = from.max(0) < to.min(len);
                if holds_a_row && (from >= 0 || self.over_start) && (to <= len || self.over_end) {
                    windows.push(((begin + from.max(0)) as usize, (begin + to.min(len)) as usize));
                }
            }
        }
        windows
    }

    fn size(&self) -> usize {
        usize::from(self.size % 600) + 1
    }

    fn slide(&self) -> usize {
        usize::from(self.slide % 600) + 1
    }

    fn offsets(&self, rows: usize) -> Vec<i64> {
        let mut offsets = vec![0];
        let mut reached = 0;
        for &group in &self.groups {
            reached = (reached + usize::from(group)).min(rows);
            offsets.push(reached as i64);
        }
        if reached < rows || offsets.len() == 1 {
            offsets.push(rows as i64);
        }
        offsets
    }

    /// Asks every algorithm that can, and compares each answer: none must be null, some must satisfy `agrees`.
    ///
    /// `of` is the definition over the values of a window and their rows; `Err` where the answer does not fit its type.
    pub fn compare(
        &self,
        function: Function,
        array: &ArrayRef,
        values: &[Option<Value>],
        of: impl Fn(&[(usize, Value)]) -> Result<Option<Value>, ()>,
        agrees: impl Fn(Value, Value, &[(usize, Value)]) -> bool,
    ) {
        let rolling =
            Rolling::new(self.size() as i64, self.slide() as i64, self.over_start, self.over_end).unwrap();
        let segments = Segments::new(ScalarBuffer::from(self.offsets(values.len())), values.len()).unwrap();
        let frames = Frames::Rolling(rolling, segments);
        let algorithm = Algorithm::ALL[usize::from(self.algorithm) % Algorithm::ALL.len()];
        let min_periods = self.min_periods.map(|least| u64::from(least).min(self.size() as u64));
        let question = Question { function, algorithm, min_periods };
        let least = min_periods.unwrap_or(0).max(u64::from(function != Function::Count));
        let windows: Vec<Vec<(usize, Value)>> = self
            .windows(values.len())
            .into_iter()
            .map(|(from, to)| (from..to).filter_map(|row| Some((row, values[row]?))).collect())
            .collect();
        let wants: Vec<Result<Option<Value>, ()>> = windows
            .iter()
            .map(|window| if (window.len() as u64) < least { Ok(None) } else { of(window) })
            .collect();
        match answer(array, &frames, &question, never) {
            Ok(answers) => {
                assert_eq!(answers.len(), windows.len(), "{function:?} by {algorithm:?}");
                for (at, want) in wants.into_iter().enumerate() {
                    let got = value_at(&answers, at);
                    let matches = match (got, want) {
                        (Some(got), Ok(Some(want))) => agrees(got, want, &windows[at]),
                        (None, Ok(None)) => true,
                        _ => false,
                    };
                    assert!(matches, "{function:?} by {algorithm:?}, window {at}: {got:?} is not {want:?}");
                }
            }
            Err(Error::Overflow(_)) => assert!(wants.contains(&Err(())), "nothing overflows"),
            // An algorithm that cannot do it says so; `auto` never.
            Err(Error::InvalidValue(text)) if text.starts_with("algorithm") => {
                assert_ne!(algorithm, Algorithm::Auto, "{text}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A value of an array, whatever its type.
pub fn value_at(array: &ArrayRef, at: usize) -> Option<Value> {
    if array.is_null(at) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Decimal128(..) => Value::Integer(array.as_primitive::<Decimal128Type>().value(at)),
        DataType::UInt64 => Value::Integer(array.as_primitive::<UInt64Type>().value(at).into()),
        data_type if data_type.is_floating() => {
            let float = arrow_cast::cast(&array.slice(at, 1), &DataType::Float64).unwrap();
            Value::Float(float.as_primitive::<Float64Type>().value(0))
        }
        _ => {
            let integer = arrow_cast::cast(&array.slice(at, 1), &DataType::Int64).unwrap();
            Value::Integer(integer.as_primitive::<Int64Type>().value(0).into())
        }
    })
}

/// The exact sum of finite floats, rounded about once: Shewchuk's expansions, which grow as they must (Python's
/// `math.fsum` does the same).
pub fn exact_sum(values: impl Iterator<Item = f64>) -> f64 {
    let mut parts: Vec<f64> = Vec::new();
    for mut value in values {
        let mut kept = 0;
        for at in 0..parts.len() {
            let mut part = parts[at];
            if value.abs() < part.abs() {
                std::mem::swap(&mut value, &mut part);
            }
            let high = value + part;
            let low = part - (high - value);
            if low != 0.0 {
                parts[kept] = low;
                kept += 1;
            }
            value = high;
        }
        parts.truncate(kept);
        parts.push(value);
    }
    parts.iter().rev().sum()
}

/// Whether `got` is the sum of `values` to Kahan's bound, `2^-52 sum|x|`, or as infinite or undefined as they are.
pub fn is_sum(got: f64, values: &[f64]) -> bool {
    let infinite = |sign: f64| values.contains(&(sign * f64::INFINITY));
    if values.iter().any(|value| value.is_nan()) || (infinite(1.0) && infinite(-1.0)) {
        return got.is_nan();
    }
    if infinite(1.0) || infinite(-1.0) {
        return got == if infinite(1.0) { f64::INFINITY } else { f64::NEG_INFINITY };
    }
    let magnitude = exact_sum(values.iter().map(|value| value.abs()));
    if magnitude > f64::MAX / 4.0 {
        // Partial sums may leave the range, in whichever order.
        return true;
    }
    (got - exact_sum(values.iter().copied())).abs() <= 2f64.powi(-52) * magnitude + f64::MIN_POSITIVE
}
