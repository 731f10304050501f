//! The functions that a query names, and how each is lowered from partials.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};

use super::estimate::Estimate;
use super::hyperloglog::HyperLogLogs;
use super::list::row_fields;
use super::m4::{fields, m4};
use super::mean::{geometric_mean, mean};
use super::moments::variance;
use super::multiset::{Statistic, counted_fields, evaluate};
use super::partial::Partial;
use super::partials::Partials;
use super::properties::{Kind, Properties};
use super::quantile::quantile_type;
use super::sketch::Sketches;
use super::user::User;
use crate::algebra::{is_number, mean_type, sum_type};
use crate::dictionary::{plain, widened};
use crate::poll::never;
use crate::sketch::PRECISIONS;
use crate::types::named;
use crate::{Error, Result};

/// An aggregate function by name.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {
    /// Lowered as its partial is, whose `lower` need not be its state.
    Plain(Partial),
    /// Sum over count.
    Mean,
    /// e to the mean of logarithms.
    GeometricMean,
    /// Variance, or its root, over `n - 1` if `sample`, else over `n`.
    Variance {
        /// Divide by one less than the number of values.
        sample: bool,
        /// Take the square root.
        root: bool,
    },
    /// Least, greatest, first and last value.
    M4 {
        /// And where they lie in time.
        times: bool,
    },
    /// Exact results that need all values. Fingerprints in snapshots contain the variant's name, which must not change.
    Ask(Statistic),
    /// The value below which about this share of the values lies.
    ApproxQuantile(f64),
    /// About how many distinct values there are, by a sketch of this precision.
    ApproxCountDistinct(u32),
    /// What a sample of the rows says of all of them, or (true) the standard error of that.
    Estimate(Estimate, bool),
    /// A user-defined one, of this many columns.
    User(User, usize),
}

/// The input of a partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// The column of this number among the function's own.
    Column(usize),
    /// The query's time column.
    Time,
}

const NUMBERS: &str = "integers, floats and decimal128";

impl Function {
    /// The functions without parameters, by name.
    fn named() -> [(&'static str, Function); 26] {
        use Partial::*;
        let variance = |sample, root| Function::Variance { sample, root };
        [
            ("count_all", Function::Plain(CountAll)),
            ("count", Function::Plain(Count)),
            ("sum", Function::Plain(Sum)),
            ("min", Function::Plain(Min)),
            ("max", Function::Plain(Max)),
            ("min_count", Function::Plain(MinCount)),
            ("max_count", Function::Plain(MaxCount)),
            ("arg_min", Function::Plain(ArgMin)),
            ("arg_max", Function::Plain(ArgMax)),
            ("mean", Function::Mean),
            ("geometric_mean", Function::GeometricMean),
            ("var_samp", variance(true, false)),
            ("var_pop", variance(false, false)),
            ("stddev_samp", variance(true, true)),
            ("stddev_pop", variance(false, true)),
            ("first", Function::Plain(First)),
            ("last", Function::Plain(Last)),
            ("first_valid", Function::Plain(FirstValid)),
            ("last_valid", Function::Plain(LastValid)),
            ("m4", Function::M4 { times: false }),
            ("m4_times", Function::M4 { times: true }),
            ("median", Function::Ask(Statistic::Quantile(0.5))),
            ("count_distinct", Function::Ask(Statistic::Distinct)),
            ("mode", Function::Ask(Statistic::Mode)),
            ("collect_list", Function::Plain(List)),
            ("collect_set", Function::Plain(Values)),
        ]
    }

    /// Names that [`Function::parse`] accepts.
    pub fn names() -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Self::named().into_iter().map(|(name, _)| name).collect();
        names.extend(["quantile", "quantile_disc", "approx_quantile", "approx_count_distinct", "hll_sketch"]);
        names.extend(["top_k", "frequent", "collect_rows"]);
        names
    }

    /// The function of this name; `columns` are the names of those it is to read, which a row has too.
    ///
    /// # Errors
    /// `InvalidValue` for a name outside [`Function::names`], or parameters outside what the function allows; for rows
    /// without columns.
    pub fn parse(name: &str, columns: &[String], parameters: &[f64]) -> Result<Self> {
        match name {
            "approx_count_distinct" | "hll_sketch" => {
                let precision = only(name, "log2_k", parameters)?;
                if !PRECISIONS.map(f64::from).any(|allowed| allowed == precision) {
                    return Err(Error::InvalidValue(format!(
                        "log2_k: {precision} is given to {name}; allowed are whole numbers from {} to {}",
                        PRECISIONS.start(),
                        PRECISIONS.end()
                    )));
                }
                return Ok(match name {
                    "hll_sketch" => Function::Plain(Partial::HyperLogLog(precision as u32)),
                    _ => Function::ApproxCountDistinct(precision as u32),
                });
            }
            "quantile" | "quantile_disc" | "approx_quantile" => {
                let q = only(name, "q", parameters)?;
                if !(0.0..=1.0).contains(&q) {
                    return Err(Error::InvalidValue(format!(
                        "q: {q} is given to {name}; allowed are numbers from 0 to 1"
                    )));
                }
                return Ok(match name {
                    "quantile" => Function::Ask(Statistic::Quantile(q)),
                    "quantile_disc" => Function::Ask(Statistic::Discrete(q)),
                    _ => Function::ApproxQuantile(q),
                });
            }
            "top_k" => {
                let k = only(name, "k", parameters)?;
                if k.fract() != 0.0 || !(1.0..=f64::from(i32::MAX)).contains(&k) {
                    return Err(Error::InvalidValue(format!(
                        "k: {k} is given to {name}; allowed are whole numbers from 1 to {}",
                        i32::MAX
                    )));
                }
                return Ok(Function::Ask(Statistic::Top(k as u32)));
            }
            "frequent" => {
                let share = only(name, "share", parameters)?;
                if !(share > 0.0 && share <= 1.0) {
                    return Err(Error::InvalidValue(format!(
                        "share: {share} is given to {name}; allowed are numbers above 0, up to 1"
                    )));
                }
                return Ok(Function::Ask(Statistic::Frequent(share)));
            }
            _ => {}
        }
        let named = Self::named().into_iter().find(|(other, _)| *other == name).map(|(_, function)| function);
        let of_rows = (name == "collect_rows").then(|| Function::Plain(Partial::Rows(columns.to_vec())));
        let function = named.or(of_rows).ok_or_else(|| {
            let allowed = Self::names().join(", ");
            Error::InvalidValue(format!("aggs: '{name}' is not an aggregate function; allowed are {allowed}"))
        })?;
        if function == Function::Plain(Partial::Rows(Vec::new())) {
            return Err(Error::InvalidValue(format!("aggs: {name} reads at least one column; 0 given")));
        }
        if !parameters.is_empty() {
            return Err(Error::InvalidValue(format!(
                "aggs: {name} takes no parameters; {} given",
                parameters.len()
            )));
        }
        Ok(function)
    }

    /// This function as it is estimated from a sample of the rows, or (true) the standard error of that; none if there is no
    /// estimate of it.
    pub fn estimated(&self, is_error: bool) -> Option<Self> {
        let estimate = match self {
            Function::Plain(Partial::CountAll) => Estimate::CountAll,
            Function::Plain(Partial::Count) => Estimate::Count,
            Function::Plain(Partial::Sum) => Estimate::Sum,
            Function::Mean => Estimate::Mean,
            _ => return None,
        };
        Some(Function::Estimate(estimate, is_error))
    }

    /// How many columns the function reads.
    pub fn columns(&self) -> usize {
        match self {
            Function::Plain(Partial::CountAll) | Function::Estimate(Estimate::CountAll, _) => 0,
            Function::Plain(Partial::ArgMin | Partial::ArgMax) => 2,
            Function::Plain(Partial::Rows(names)) => names.len(),
            Function::User(_, columns) => *columns,
            _ => 1,
        }
    }

    /// The column, of its own, by whose order of values the result is chosen or put in order, if there is one.
    pub fn ordered_by(&self) -> Option<usize> {
        use Partial::{ArgMax, ArgMin, Max, MaxCount, Min, MinCount, Values};
        match self {
            Function::Plain(Min | Max | MinCount | MaxCount | Values) | Function::M4 { .. } => Some(0),
            Function::Ask(Statistic::Distinct) => None,
            // Of values that are equally frequent the least comes first.
            Function::Ask(_) | Function::ApproxQuantile(_) => Some(0),
            Function::Plain(ArgMin | ArgMax) => Some(1),
            _ => None,
        }
    }

    /// The partials it is lowered from, each with what it reads, in the order that [`Function::lower`] takes them.
    pub fn partials(&self) -> Vec<(Partial, Vec<Operand>)> {
        use Partial::*;
        let own: Vec<Operand> = (0..self.columns()).map(Operand::Column).collect();
        let of = |partial: Partial| (partial, own.clone());
        match self {
            Function::Plain(partial) => vec![of(partial.clone())],
            Function::Mean => vec![of(Sum), of(Count)],
            Function::GeometricMean => vec![of(LogSum), of(Count)],
            Function::Variance { .. } => vec![of(Moments)],
            Function::Ask(_) => vec![of(Values)],
            Function::ApproxQuantile(_) => vec![of(Sketch)],
            Function::ApproxCountDistinct(precision) => vec![of(HyperLogLog(*precision))],
            Function::Estimate(estimate, is_error) => {
                estimate.terms(*is_error).iter().map(|&term| of(Term(term))).collect()
            }
            Function::User(user, _) => vec![of(User(user.clone()))],
            Function::M4 { times: false } => vec![of(Min), of(Max), of(FirstValid), of(LastValid)],
            Function::M4 { times: true } => {
                let by_value = |partial| (partial, vec![Operand::Time, Operand::Column(0)]);
                vec![by_value(ArgMin), by_value(ArgMax), of(FirstValid), of(LastValid)]
            }
        }
    }

    /// The type of its result over values of types `inputs`, by times of type `time`.
    ///
    /// # Errors
    /// `InvalidType` if the function does not support these types; the message says which are allowed.
    pub fn output_type(&self, inputs: &[DataType], time: &DataType) -> Result<DataType> {
        for (partial, operands) in self.partials() {
            partial.column(&types(&operands, inputs, time), never)?;
        }
        let input = inputs.first().unwrap_or(&DataType::Int64);
        let refused = || Error::InvalidType(format!("{input}; allowed are {NUMBERS}", input = named(input)));
        Ok(match self {
            Function::Plain(Partial::CountAll | Partial::Count | Partial::MinCount | Partial::MaxCount) => {
                DataType::Int64
            }
            Function::Plain(Partial::Sum) => sum_type(plain(input)).ok_or_else(refused)?,
            Function::Plain(Partial::Values | Partial::List) => {
                DataType::List(Arc::new(Field::new_list_field(widened(input), true)))
            }
            Function::Plain(Partial::Rows(names)) => {
                let row = DataType::Struct(row_fields(names, inputs.iter().map(widened)));
                DataType::List(Arc::new(Field::new_list_field(row, true)))
            }
            Function::Plain(Partial::HyperLogLog(_)) => DataType::Binary,
            Function::Ask(Statistic::Distinct) | Function::ApproxCountDistinct(_) => DataType::Int64,
            Function::Ask(Statistic::Top(_) | Statistic::Frequent(_)) => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Struct(counted_fields(input)), true)))
            }
            Function::Estimate(estimate, is_error) => estimate.output_type(*is_error),
            Function::User(user, _) => user.0.output_type(inputs)?,
            Function::Ask(Statistic::Quantile(_)) => quantile_type(input).ok_or_else(|| {
                Error::InvalidType(format!(
                    "{input}; allowed are {NUMBERS}, durations and timestamps",
                    input = named(input)
                ))
            })?,
            Function::Plain(_) | Function::Ask(_) | Function::ApproxQuantile(_) => widened(input),
            Function::Mean => mean_type(plain(input)).ok_or_else(refused)?,
            Function::GeometricMean | Function::Variance { .. } if is_number(plain(input)) => {
                DataType::Float64
            }
            Function::GeometricMean | Function::Variance { .. } => return Err(refused()),
            Function::M4 { times } => DataType::Struct(fields(input, times.then(|| plain(time)))),
        })
    }

    /// The properties of the function over values of types `inputs`.
    ///
    /// # Errors
    /// As [`Function::output_type`].
    pub fn properties(&self, inputs: &[DataType], time: &DataType) -> Result<Properties> {
        let partials = self.partials();
        let kind = match self {
            Function::Plain(_) | Function::Ask(_) => Kind::Distributive,
            _ => Kind::Algebraic,
        };
        let mut properties = Properties::commutative(kind).inverted(true);
        for (partial, operands) in partials {
            properties = properties.and(partial.column(&types(&operands, inputs, time), never)?.properties());
        }
        Ok(properties)
    }

    /// Whether a result can be null.
    pub fn nullable(&self) -> bool {
        if let Function::Estimate(estimate, _) = self {
            return estimate.nullable();
        }
        !matches!(
            self,
            Function::Plain(
                Partial::CountAll
                    | Partial::Count
                    | Partial::Values
                    | Partial::List
                    | Partial::Rows(_)
                    | Partial::HyperLogLog(_)
            ) | Function::Ask(Statistic::Distinct | Statistic::Top(_) | Statistic::Frequent(_))
                | Function::ApproxCountDistinct(_)
        )
    }

    /// Results of all slots of these partials, over values of types `inputs`.
    ///
    /// # Errors
    /// `Overflow` where a result does not fit its type.
    pub fn lower(
        &self,
        partials: &[&dyn Partials],
        inputs: &[DataType],
        time: &DataType,
    ) -> Result<ArrayRef> {
        let input = inputs.first().unwrap_or(&DataType::Int64);
        match (self, partials) {
            (Function::Plain(_) | Function::User(..), [own]) => own.lower(),
            (Function::Mean, [sums, counts]) => mean(*sums, *counts, plain(input)),
            (Function::GeometricMean, [logs, counts]) => geometric_mean(*logs, *counts),
            (Function::Variance { sample, root }, [moments]) => variance(*moments, *sample, *root),
            (Function::Ask(statistic), [sets]) => evaluate(*sets, *statistic, input),
            (Function::ApproxQuantile(q), [sketches]) => match sketches.downcast_ref::<Sketches>() {
                Some(sketches) => sketches.quantiles(*q),
                None => Err(Error::Internal("an approximate quantile is of sketches".into())),
            },
            (Function::ApproxCountDistinct(_), [sketches]) => match sketches.downcast_ref::<HyperLogLogs>() {
                Some(sketches) => Ok(sketches.estimates()),
                None => Err(Error::Internal("an approximate distinct count is of sketches".into())),
            },
            (Function::Estimate(estimate, is_error), partials) => estimate.lower(partials, *is_error),
            (Function::M4 { times }, partials) => m4(partials, input, times.then(|| plain(time))),
            _ => Err(Error::Internal(format!("{self:?} does not lower {} partials", partials.len()))),
        }
    }
}

/// The one parameter that a function takes.
fn only(name: &str, parameter: &str, parameters: &[f64]) -> Result<f64> {
    match parameters {
        &[only] => Ok(only),
        _ => Err(Error::InvalidValue(format!(
            "aggs: {name} takes one parameter, {parameter}; {} given",
            parameters.len()
        ))),
    }
}

/// The types of a partial's inputs.
pub(crate) fn types(operands: &[Operand], inputs: &[DataType], time: &DataType) -> Vec<DataType> {
    let of = |operand: &Operand| match *operand {
        Operand::Column(at) => inputs.get(at).unwrap_or(&DataType::Null).clone(),
        Operand::Time => time.clone(),
    };
    operands.iter().map(of).collect()
}
