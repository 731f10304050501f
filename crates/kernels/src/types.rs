//! What errors call types: as the library does whose data was given.

use std::cell::Cell;
use std::fmt;

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

/// Whose names types have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Types as pyarrow calls them.
    #[default]
    Arrow,
    /// Types as Polars calls them.
    Polars,
    /// Types as Spark's SQL calls them.
    Spark,
}

thread_local! {
    static NAMES: Cell<Names> = const { Cell::new(Names::Arrow) };
}

impl Names {
    /// Makes errors of this thread use these names; returns those that they used before.
    pub fn replaced(self) -> Self {
        NAMES.replace(self)
    }
}

/// A type as errors show it.
pub struct Named<'a>(Names, &'a DataType);

/// How errors of this thread name a type.
///
/// ```
/// # use arrow_schema::DataType;
/// # use windowkit_kernels::types::{Names, named};
/// assert_eq!(named(&DataType::Utf8).to_string(), "string");
/// Names::Spark.replaced();
/// assert_eq!(named(&DataType::Int64).to_string(), "bigint");
/// ```
pub fn named(of: &DataType) -> Named<'_> {
    Named(NAMES.get(), of)
}

fn unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Names::Arrow => self.of_arrow(to),
            Names::Polars => self.of_polars(to),
            Names::Spark => self.of_spark(to),
        }
    }
}

impl<'a> Named<'a> {
    fn within(&self, of: &'a DataType) -> Self {
        Named(self.0, of)
    }

    fn of_arrow(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DataType::*;
        let plain = match self.1 {
            Null => "null",
            Boolean => "bool",
            Int8 => "int8",
            Int16 => "int16",
            Int32 => "int32",
            Int64 => "int64",
            UInt8 => "uint8",
            UInt16 => "uint16",
            UInt32 => "uint32",
            UInt64 => "uint64",
            Float16 => "halffloat",
            Float32 => "float",
            Float64 => "double",
            Utf8 => "string",
            LargeUtf8 => "large_string",
            Utf8View => "string_view",
            Binary => "binary",
            LargeBinary => "large_binary",
            BinaryView => "binary_view",
            Date32 => "date32[day]",
            Date64 => "date64[ms]",
            Interval(IntervalUnit::YearMonth) => "month_interval",
            Interval(IntervalUnit::DayTime) => "day_time_interval",
            Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval",
            FixedSizeBinary(size) => return write!(to, "fixed_size_binary[{size}]"),
            Timestamp(of, None) => return write!(to, "timestamp[{}]", unit(*of)),
            Timestamp(of, Some(zone)) => return write!(to, "timestamp[{}, tz={zone}]", unit(*of)),
            Time32(of) => return write!(to, "time32[{}]", unit(*of)),
            Time64(of) => return write!(to, "time64[{}]", unit(*of)),
            Duration(of) => return write!(to, "duration[{}]", unit(*of)),
            Decimal32(digits, scale) => return write!(to, "decimal32({digits}, {scale})"),
            Decimal64(digits, scale) => return write!(to, "decimal64({digits}, {scale})"),
            Decimal128(digits, scale) => return write!(to, "decimal128({digits}, {scale})"),
            Decimal256(digits, scale) => return write!(to, "decimal256({digits}, {scale})"),
            List(item) => return write!(to, "list<{}: {}>", item.name(), self.within(item.data_type())),
            LargeList(item) => {
                return write!(to, "large_list<{}: {}>", item.name(), self.within(item.data_type()));
            }
            ListView(item) => {
                return write!(to, "list_view<{}: {}>", item.name(), self.within(item.data_type()));
            }
            LargeListView(item) => {
                return write!(to, "large_list_view<{}: {}>", item.name(), self.within(item.data_type()));
            }
            FixedSizeList(item, size) => {
                let of = self.within(item.data_type());
                return write!(to, "fixed_size_list<{}: {of}>[{size}]", item.name());
            }
            Struct(fields) => {
                to.write_str("struct<")?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(to, "{comma}{}: {}", field.name(), self.within(field.data_type()))?;
                }
                ">"
            }
            Map(entries, _) => match entries.data_type() {
                Struct(of) if of.len() == 2 => {
                    let [key, value] = [0, 1].map(|at| self.within(of[at].data_type()));
                    return write!(to, "map<{key}, {value}>");
                }
                _ => "map",
            },
            Dictionary(codes, values) => {
                let [codes, values] = [codes, values].map(|of| self.within(of));
                return write!(to, "dictionary<values={values}, indices={codes}>");
            }
            RunEndEncoded(ends, values) => {
                let [ends, values] = [ends, values].map(|of| self.within(of.data_type()));
                return write!(to, "run_end_encoded<run_ends: {ends}, values: {values}>");
            }
            Union(..) => "union",
        };
        to.write_str(plain)
    }

    fn of_polars(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DataType::*;
        let plain = match self.1 {
            Null => "Null",
            Boolean => "Boolean",
            Int8 => "Int8",
            Int16 => "Int16",
            Int32 => "Int32",
            Int64 => "Int64",
            UInt8 => "UInt8",
            UInt16 => "UInt16",
            UInt32 => "UInt32",
            UInt64 => "UInt64",
            Float16 => "Float16",
            Float32 => "Float32",
            Float64 => "Float64",
            Utf8 | LargeUtf8 | Utf8View => "String",
            Binary | LargeBinary | BinaryView => "Binary",
            Date32 => "Date",
            Time32(_) | Time64(_) => "Time",
            Dictionary(_, values) if matches!(**values, Utf8 | LargeUtf8 | Utf8View) => "Categorical",
            Timestamp(of, None) => return write!(to, "Datetime('{}')", unit(*of)),
            Timestamp(of, Some(zone)) => return write!(to, "Datetime('{}', '{zone}')", unit(*of)),
            Duration(of) => return write!(to, "Duration('{}')", unit(*of)),
            Decimal32(digits, scale) | Decimal64(digits, scale) | Decimal128(digits, scale) => {
                return write!(to, "Decimal({digits}, {scale})");
            }
            List(item) | LargeList(item) => return write!(to, "List({})", self.within(item.data_type())),
            FixedSizeList(item, size) => {
                return write!(to, "Array({}, {size})", self.within(item.data_type()));
            }
            Struct(fields) => {
                to.write_str("Struct({")?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(to, "{comma}'{}': {}", field.name(), self.within(field.data_type()))?;
                }
                "})"
            }
            // Polars has no others.
            _ => return self.of_arrow(to),
        };
        to.write_str(plain)
    }

    fn of_spark(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DataType::*;
        let plain = match self.1 {
            Null => "void",
            Boolean => "boolean",
            Int8 => "tinyint",
            Int16 => "smallint",
            Int32 => "int",
            Int64 => "bigint",
            Float32 => "float",
            Float64 => "double",
            Utf8 | LargeUtf8 | Utf8View => "string",
            Binary | LargeBinary | BinaryView => "binary",
            Date32 => "date",
            Timestamp(_, None) => "timestamp_ntz",
            Timestamp(_, Some(_)) => "timestamp",
            Time64(_) => "time",
            Duration(_) => "interval day to second",
            Decimal32(digits, scale) | Decimal64(digits, scale) | Decimal128(digits, scale) => {
                return write!(to, "decimal({digits},{scale})");
            }
            List(item) | LargeList(item) => return write!(to, "array<{}>", self.within(item.data_type())),
            Struct(fields) => {
                to.write_str("struct<")?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(to, "{comma}{}:{}", field.name(), self.within(field.data_type()))?;
                }
                ">"
            }
            Map(entries, _) => match entries.data_type() {
                Struct(of) if of.len() == 2 => {
                    let [key, value] = [0, 1].map(|at| self.within(of[at].data_type()));
                    return write!(to, "map<{key},{value}>");
                }
                _ => "map",
            },
            // Spark has no others.
            _ => return self.of_arrow(to),
        };
        to.write_str(plain)
    }
}
