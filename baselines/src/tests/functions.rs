//! Functions over columns of several types: what they read of a row, and what they are of the rows of a window.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, StringArray, cast::AsArray,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use windowkit::aggregate::{
    ArrayFunction, Arrays, Function, Input, Kind, Operand, Partials, Properties, Rows, User,
};
use windowkit::poll::never;
use windowkit::{Error, Result};

use super::Row;
use crate::SumWithoutInvert;

/// A function, the columns it reads, and whether it is filtered.
#[derive(Debug, Clone)]
pub(super) struct Tested {
    name: &'static str,
    function: Function,
    columns: &'static [char],
    filtered: bool,
}

/// Those with a definition of their own below; the ones behind the first five are not of plain states.
const DEFINED: [(&str, &[char], bool); 8] = [
    ("sum", &['i'], false),
    ("max", &['i'], true),
    ("mean", &['i'], false),
    ("first", &['i'], false),
    ("last", &['i'], true),
    ("median", &['i'], false),
    ("count_distinct", &['i'], true),
    ("collect_list", &['i'], false),
];

/// How many of [`DEFINED`] have partials that do not grow with their rows.
pub(super) const PLAIN: usize = 5;

/// A function of every kind of partial, over every kind of column.
const EVERY: [(&str, &[char], bool); 31] = [
    ("count_all", &[], false),
    ("count_all", &[], true),
    ("count", &['f'], false),
    ("sum", &['i'], false),
    ("sum", &['i'], true),
    ("sum", &['f'], false),
    (SumWithoutInvert::NAME, &['i'], false),
    ("mean", &['i'], false),
    ("min", &['f'], false),
    ("max", &['i'], false),
    ("min", &['s'], false),
    ("max", &['d'], false),
    ("stddev_samp", &['i'], false),
    ("geometric_mean", &['f'], false),
    ("first", &['s'], false),
    ("last", &['i'], false),
    ("first_valid", &['i'], false),
    ("arg_max", &['s', 'i'], false),
    ("arg_min", &['i', 's'], false),
    ("min_count", &['i'], false),
    ("max_count", &['s'], false),
    ("m4", &['i'], false),
    ("median", &['i'], false),
    ("quantile", &['f'], false),
    ("count_distinct", &['s'], false),
    ("mode", &['d'], false),
    ("collect_list", &['i'], false),
    ("collect_set", &['s'], false),
    ("collect_rows", &['s', 'i'], false),
    ("greatest", &['b'], false),
    ("joined", &['i'], true),
];

/// Partials that [`EVERY`] lacks: the slots and merges of sketches are tested in windowkit.
const ELSEWHERE: [&str; 2] = ["sketch", "hyperloglog"];

#[test]
fn every_kind_of_partial_is_tested() {
    let kinds =
        |function: &Function| function.partials().into_iter().map(|(partial, _)| partial.name().to_owned());
    let tested: BTreeSet<String> = every().iter().flat_map(|tested| kinds(&tested.function)).collect();
    for name in Function::names() {
        // A function takes nothing, a share, or a precision.
        let parameters: [&[f64]; 3] = [&[], &[0.5], &[4.0]];
        let function =
            parameters.into_iter().find_map(|given| Function::parse(name, &names(&['i']), given).ok());
        for kind in kinds(&function.expect("one of these")) {
            assert!(
                tested.contains(&kind) || ELSEWHERE.contains(&kind.as_str()),
                "{name}: no technique is tested with its partial {kind}; add it to EVERY"
            );
        }
    }
}

/// The first of [`DEFINED`].
pub(super) fn defined(count: usize) -> Vec<Tested> {
    DEFINED.iter().take(count).map(Tested::of).collect()
}

/// All of [`EVERY`].
pub(super) fn every() -> Vec<Tested> {
    EVERY.iter().map(Tested::of).collect()
}

impl Tested {
    pub(super) fn of(&(name, columns, filtered): &(&'static str, &'static [char], bool)) -> Self {
        let function = match name {
            "greatest" | "joined" => {
                let text = Text { commutative: name == "greatest" };
                Function::User(User(Arc::new(Arrays(Arc::new(text)))), 1)
            }
            SumWithoutInvert::NAME => Function::User(SumWithoutInvert::user(), 1),
            "quantile" => Function::parse(name, &[], &[0.25]).expect("a function of the core"),
            _ => Function::parse(name, &names(columns), &[]).expect("a function of the core"),
        };
        Self { name, function, columns, filtered }
    }

    /// Whether its partials grow with their rows.
    pub(super) fn grows(&self) -> bool {
        [
            "median",
            "quantile",
            "count_distinct",
            "mode",
            "collect_list",
            "collect_set",
            "collect_rows",
            "joined",
        ]
        .contains(&self.name)
    }

    pub(super) fn commutes(&self) -> bool {
        self.name != "joined"
    }

    fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|&name| column(name, &[]).data_type().clone()).collect()
    }

    fn partials(&self) -> Vec<Box<dyn Partials>> {
        let types = self.types();
        let of = |operand: &Operand| match *operand {
            Operand::Column(at) => types[at].clone(),
            Operand::Time => DataType::Int64,
        };
        let own = self.function.partials().into_iter();
        own.map(|(partial, operands)| {
            partial.column(&operands.iter().map(of).collect::<Vec<_>>(), never).unwrap()
        })
        .collect()
    }

    fn inputs(&self, rows: &[Row]) -> Vec<Input> {
        let values: Vec<Option<i8>> = rows.iter().map(|row| row.2).collect();
        let columns: Vec<ArrayRef> = self.columns.iter().map(|&name| column(name, &values)).collect();
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
        let taken = self.filtered.then(|| rows.iter().map(|row| Some(row.3)).collect::<BooleanArray>());
        let of = |operand: &Operand| match *operand {
            Operand::Column(at) => columns[at].clone(),
            Operand::Time => times.clone(),
        };
        let own = self.function.partials().into_iter();
        own.map(|(_, operands)| Input { columns: operands.iter().map(of).collect(), taken: taken.clone() })
            .collect()
    }

    /// The results of all slots, as strings.
    fn lowered(&self, partials: &[&dyn Partials]) -> Vec<String> {
        let results = self.function.lower(partials, &self.types(), &DataType::Int64).unwrap();
        let options = FormatOptions::new().with_null("null");
        let formatter = ArrayFormatter::try_new(&*results, &options).unwrap();
        (0..results.len()).map(|at| formatter.value(at).to_string()).collect()
    }

    /// The result over the rows of a window, in their order: what the function means, or else the fold of all rows into one
    /// partial. The core's own tests say what that is; here it matters which rows were combined, and in which order.
    pub(super) fn over(&self, rows: &[Row]) -> String {
        let taken: Vec<Row> = rows.iter().filter(|row| !self.filtered || row.3).copied().collect();
        self.meaning(&taken).unwrap_or_else(|| {
            let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
            let slots = vec![0; rows.len()];
            let mut partials = self.partials();
            for (partials, input) in partials.iter_mut().zip(self.inputs(rows)) {
                input.feed(&mut **partials, Rows::all(&slots, &times), 1).unwrap();
                *partials = partials.regroup(&[0], &[0]).unwrap();
            }
            self.lowered(&partials.iter().map(|partials| &**partials).collect::<Vec<_>>()).remove(0)
        })
    }

    /// What some functions of integers mean.
    fn meaning(&self, rows: &[Row]) -> Option<String> {
        if self.columns != ['i'] {
            return None;
        }
        let mut known: Vec<i64> = rows.iter().filter_map(|row| row.2).map(i64::from).collect();
        let or_null = |value: Option<String>| value.unwrap_or("null".into());
        let any = (!known.is_empty()).then_some(());
        Some(match self.name {
            "sum" | SumWithoutInvert::NAME => or_null(any.map(|()| known.iter().sum::<i64>().to_string())),
            "max" => or_null(known.iter().max().map(i64::to_string)),
            "mean" => {
                or_null(any.map(|()| (known.iter().sum::<i64>() as f64 / known.len() as f64).to_string()))
            }
            "first" => or_null(rows.first().and_then(|row| row.2).map(|value| value.to_string())),
            "last" => or_null(rows.last().and_then(|row| row.2).map(|value| value.to_string())),
            "median" => or_null(any.map(|()| {
                known.sort_unstable();
                let (low, high) = (known[(known.len() - 1) / 2], known[known.len() / 2]);
                ((low + high) as f64 / 2.0).to_string()
            })),
            "count_distinct" => known.iter().collect::<BTreeSet<_>>().len().to_string(),
            "collect_list" => {
                format!("[{}]", known.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
            }
            _ => return None,
        })
    }
}

/// Empty partials of functions, as a setting has them.
pub(super) fn partials(functions: &[Tested]) -> Vec<Box<dyn Partials>> {
    functions.iter().flat_map(Tested::partials).collect()
}

/// What the partials of functions read of rows.
pub(super) fn inputs(functions: &[Tested], rows: &[Row]) -> Vec<Input> {
    functions.iter().flat_map(|asked| asked.inputs(rows)).collect()
}

/// For each function the results of all slots.
pub(super) fn results(functions: &[Tested], partials: &[Box<dyn Partials>]) -> Vec<Vec<String>> {
    let mut partials = partials.iter();
    let each = |asked: &Tested| {
        let own = partials.by_ref().take(asked.function.partials().len());
        asked.lowered(&own.map(|own| &**own).collect::<Vec<_>>())
    };
    functions.iter().map(each).collect()
}

/// The names of columns.
fn names(columns: &[char]) -> Vec<String> {
    columns.iter().map(char::to_string).collect()
}

/// A column of rows with these values.
fn column(name: char, values: &[Option<i8>]) -> ArrayRef {
    let each = values.iter().copied();
    let one_of = |pool: &[&'static str], value: i8| pool[value.rem_euclid(pool.len() as i8) as usize];
    match name {
        'i' => Arc::new(each.map(|value| value.map(i64::from)).collect::<Int64Array>()),
        'f' => {
            let pool = [0.5, -2.0, f64::NAN, f64::INFINITY, 1e6];
            let of = |value: i8| pool[value.rem_euclid(5) as usize];
            Arc::new(each.map(|value| value.map(of)).collect::<Float64Array>())
        }
        's' => {
            let of = |value: i8| {
                (value % 4 != 3).then(|| one_of(&["", "a", "b", "long enough not to be inlined"], value))
            };
            Arc::new(each.map(|value| value.and_then(of)).collect::<StringArray>())
        }
        'd' => Arc::new(
            each.map(|value| value.map(|value| one_of(&["x", "y"], value)))
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        'b' => Arc::new(each.map(|value| value.map(|value| value % 2 == 0)).collect::<BooleanArray>()),
        other => unreachable!("there is no column '{other}'"),
    }
}

/// A user's function over arrays: the greatest of all values as strings, or all of them joined, which does not commute.
pub(super) struct Text {
    pub(super) commutative: bool,
}

impl ArrayFunction for Text {
    fn name(&self) -> &str {
        "text"
    }

    fn lift(&self, inputs: &[ArrayRef]) -> Result<ArrayRef> {
        Ok(arrow_cast::cast(&inputs[0], &DataType::Utf8)?)
    }

    fn combine(&self, earlier: &ArrayRef, later: &ArrayRef) -> Result<ArrayRef> {
        let one = |(a, b): (Option<&str>, Option<&str>)| match self.commutative {
            true => a.max(b).map(str::to_owned),
            false => Some(format!("{}{}", a?, b?)),
        };
        let pairs = earlier.as_string::<i32>().iter().zip(later.as_string::<i32>());
        Ok(Arc::new(pairs.map(one).collect::<StringArray>()))
    }

    fn lower(&self, states: &ArrayRef) -> Result<ArrayRef> {
        Ok(states.clone())
    }

    fn invert(&self, _: &ArrayRef, _: &ArrayRef) -> Option<Result<ArrayRef>> {
        None
    }

    fn properties(&self) -> Properties {
        Properties { commutative: self.commutative, ..Properties::commutative(Kind::Algebraic) }
    }

    fn identity(&self, _: &DataType) -> Result<Option<ArrayRef>> {
        Ok(None)
    }
}

/// A user's function that fails with the value 13.
pub(super) struct Raises;

impl ArrayFunction for Raises {
    fn name(&self) -> &str {
        "raises"
    }

    fn lift(&self, inputs: &[ArrayRef]) -> Result<ArrayRef> {
        match inputs[0].as_primitive::<arrow_array::types::Int64Type>().values().contains(&13) {
            true => Err(Error::InvalidValue("not this one".into())),
            false => Ok(inputs[0].clone()),
        }
    }

    fn combine(&self, earlier: &ArrayRef, _: &ArrayRef) -> Result<ArrayRef> {
        Ok(earlier.clone())
    }

    fn lower(&self, states: &ArrayRef) -> Result<ArrayRef> {
        Ok(states.clone())
    }

    fn invert(&self, _: &ArrayRef, _: &ArrayRef) -> Option<Result<ArrayRef>> {
        None
    }

    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn identity(&self, _: &DataType) -> Result<Option<ArrayRef>> {
        Ok(None)
    }
}
