//! Advancing measures: what type a column must have to carry windows, and its units.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int64Array, PrimitiveArray, cast::AsArray, types::*};
use arrow_buffer::ScalarBuffer;
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};

use crate::dictionary::plain;
use crate::types::named;
use crate::{Error, Result};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// A column type that windows can range over; its values are integers in the column's own unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    column: String,
    given: DataType,
}

impl Measure {
    /// The measure of a column of this type.
    ///
    /// # Errors
    /// `InvalidType` for anything but timestamps, dates, durations and integers.
    pub fn new(column: &str, given: &DataType) -> Result<Self> {
        Self::named("time", column, given)
    }

    /// As [`Measure::new`], of a column that an argument of this name names.
    pub fn named(argument: &str, column: &str, given: &DataType) -> Result<Self> {
        use DataType::*;
        let given = values(given);
        match given {
            Timestamp(..) | Date32 | Date64 | Duration(_) => {}
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => {}
            _ => {
                return Err(Error::InvalidType(format!(
                    "{argument}: column '{column}' is {given}; a time column is a timestamp, a date, a duration or an \
                     integer",
                    given = named(given)
                )));
            }
        }
        Ok(Self { column: column.to_owned(), given: given.clone() })
    }

    /// The column's name.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The type of window starts and ends: the column's own, and int64 for all integers.
    pub fn data_type(&self) -> DataType {
        if self.given.is_integer() { DataType::Int64 } else { self.given.clone() }
    }

    /// This measure with its timestamps shown by the clocks of a zone; timestamps without a zone stay as they are.
    pub fn in_zone(self, zone: &str) -> Self {
        let given = match self.given {
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(unit, Some(zone.into())),
            other => other,
        };
        Self { given, ..self }
    }

    /// Whether equal values of both are the same moment. So they are in any two zones; but without a zone, a timestamp is
    /// the time of some clock.
    pub fn is_comparable(&self, other: &Self) -> bool {
        match (&self.given, &other.given) {
            (DataType::Timestamp(own, Some(_)), DataType::Timestamp(other, Some(_))) => own == other,
            _ => self.data_type() == other.data_type(),
        }
    }

    /// Nanoseconds in one unit of the measure; none for plain integers.
    pub fn nanos_per_unit(&self) -> Option<i64> {
        match &self.given {
            DataType::Timestamp(unit, _) | DataType::Duration(unit) => Some(match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            }),
            DataType::Date32 => Some(NANOS_PER_DAY),
            DataType::Date64 => Some(1_000_000),
            _ => None,
        }
    }

    /// The finest length that this measure can represent, in nanoseconds; none for plain integers.
    pub fn resolution(&self) -> Option<i64> {
        if self.given == DataType::Date64 { Some(NANOS_PER_DAY) } else { self.nanos_per_unit() }
    }

    /// The name of the unit in errors.
    pub fn unit_name(&self) -> &'static str {
        match &self.given {
            DataType::Timestamp(unit, _) | DataType::Duration(unit) => match unit {
                TimeUnit::Second => "seconds",
                TimeUnit::Millisecond => "milliseconds",
                TimeUnit::Microsecond => "microseconds",
                TimeUnit::Nanosecond => "nanoseconds",
            },
            DataType::Date32 | DataType::Date64 => "days",
            _ => "units",
        }
    }

    /// Whether times are points of the calendar, rather than numbers or durations.
    pub fn is_calendar(&self) -> bool {
        matches!(self.given, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
    }

    /// A time in errors: as its type writes it, in UTC if there is a zone; a number for integers and durations.
    pub fn shown(&self, time: i64) -> String {
        let (kind, zone) = match &self.given {
            DataType::Timestamp(unit, zone) => {
                (DataType::Timestamp(*unit, None), if zone.is_some() { "Z" } else { "" })
            }
            DataType::Date32 | DataType::Date64 => (self.given.clone(), ""),
            _ => return time.to_string(),
        };
        let text = cast(&Int64Array::from(vec![time]), &kind).and_then(|array| {
            ArrayFormatter::try_new(&array, &FormatOptions::default())?.value(0).try_to_string()
        });
        // Beyond the calendar there are times, too.
        text.map_or_else(|_| time.to_string(), |text| text + zone)
    }

    /// The column's values; those under nulls are arbitrary. Zero-copy for 64-bit columns.
    ///
    /// # Errors
    /// `InvalidValue` for an unsigned value above the range of int64.
    pub fn read(&self, array: &dyn Array) -> Result<ScalarBuffer<i64>> {
        let kind = values(array.data_type());
        if kind != array.data_type() {
            return self.read(&cast(array, kind)?);
        }
        Ok(match array.data_type() {
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>();
                if let Some(big) = values.iter().flatten().find(|&v| i64::try_from(v).is_err()) {
                    return Err(Error::InvalidValue(format!(
                        "time: column '{}' holds {big}; allowed are values up to {}",
                        self.column,
                        i64::MAX
                    )));
                }
                ScalarBuffer::new(values.values().inner().clone(), 0, values.len())
            }
            DataType::Int64 => array.as_primitive::<Int64Type>().values().clone(),
            DataType::Date32 => read_as::<Date32Type>(array, i64::from),
            DataType::Date64 => reinterpret::<Date64Type>(array),
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => reinterpret::<TimestampSecondType>(array),
                TimeUnit::Millisecond => reinterpret::<TimestampMillisecondType>(array),
                TimeUnit::Microsecond => reinterpret::<TimestampMicrosecondType>(array),
                TimeUnit::Nanosecond => reinterpret::<TimestampNanosecondType>(array),
            },
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => reinterpret::<DurationSecondType>(array),
                TimeUnit::Millisecond => reinterpret::<DurationMillisecondType>(array),
                TimeUnit::Microsecond => reinterpret::<DurationMicrosecondType>(array),
                TimeUnit::Nanosecond => reinterpret::<DurationNanosecondType>(array),
            },
            _ => cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().values().clone(),
        })
    }

    /// Window edges as an array of [`Measure::data_type`].
    ///
    /// # Errors
    /// `Overflow` for an edge that a 32-bit date cannot hold.
    pub fn array(&self, edges: Vec<i64>) -> Result<ArrayRef> {
        Ok(match self.data_type() {
            DataType::Int64 => Arc::new(Int64Array::from(edges)),
            DataType::Date32 => {
                let days = edges.into_iter().map(|edge| {
                    i32::try_from(edge).map_err(|_| {
                        Error::Overflow(format!(
                            "time: a window of column '{}' would end at day {edge}; allowed are days of 32 bits",
                            self.column
                        ))
                    })
                });
                Arc::new(PrimitiveArray::<Date32Type>::from(days.collect::<Result<Vec<i32>>>()?))
            }
            DataType::Date64 => Arc::new(PrimitiveArray::<Date64Type>::from(edges)),
            DataType::Timestamp(unit, zone) => match unit {
                TimeUnit::Second => zoned::<TimestampSecondType>(edges, zone),
                TimeUnit::Millisecond => zoned::<TimestampMillisecondType>(edges, zone),
                TimeUnit::Microsecond => zoned::<TimestampMicrosecondType>(edges, zone),
                TimeUnit::Nanosecond => zoned::<TimestampNanosecondType>(edges, zone),
            },
            DataType::Duration(unit) => match unit {
                TimeUnit::Second => Arc::new(PrimitiveArray::<DurationSecondType>::from(edges)),
                TimeUnit::Millisecond => Arc::new(PrimitiveArray::<DurationMillisecondType>::from(edges)),
                TimeUnit::Microsecond => Arc::new(PrimitiveArray::<DurationMicrosecondType>::from(edges)),
                TimeUnit::Nanosecond => Arc::new(PrimitiveArray::<DurationNanosecondType>::from(edges)),
            },
            other => return Err(Error::Internal(format!("no measure has type {other}"))),
        })
    }
}

fn reinterpret<T: ArrowPrimitiveType<Native = i64>>(array: &dyn Array) -> ScalarBuffer<i64> {
    array.as_primitive::<T>().values().clone()
}

/// The type of the values of a column, however they are encoded.
fn values(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::RunEndEncoded(_, field) => values(field.data_type()),
        other => plain(other),
    }
}

fn read_as<T: ArrowPrimitiveType>(array: &dyn Array, widen: impl Fn(T::Native) -> i64) -> ScalarBuffer<i64> {
    array.as_primitive::<T>().values().iter().map(|&v| widen(v)).collect()
}

fn zoned<T: ArrowTimestampType>(edges: Vec<i64>, zone: Option<Arc<str>>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(edges.into(), None).with_timezone_opt(zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("+02:00".into()));
        for given in
            [DataType::Int64, DataType::Date32, DataType::Date64, zoned, DataType::Duration(TimeUnit::Second)]
        {
            let measure = Measure::new("t", &given).unwrap();
            let array = measure.array(vec![-5, 0, 7]).unwrap();
            assert_eq!(array.data_type(), &given);
            assert_eq!(&measure.read(&array).unwrap()[..], &[-5, 0, 7]);
        }
    }

    #[test]
    fn refuses_floats_by_name() {
        let error = Measure::new("t", &DataType::Float64).unwrap_err();
        assert!(error.to_string().contains("'t' is double"), "{error}");
    }
}
