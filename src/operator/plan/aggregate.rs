//! An aggregate as a query states it, and bound to a schema.

use arrow_schema::{DataType, Field, Schema};

use crate::aggregate::{Function, Operand, User};
use crate::operator::schema::{find, has_own_order, is_boolean};
use crate::operator::stored::{Planned, Stored};
use crate::types::named;
use crate::{Error, Result};

/// An aggregate as a query states it.
#[derive(Debug, Clone)]
pub struct AggregateSpec {
    /// Name of the function, one of [`Function::names`].
    pub function: String,
    /// Its columns, as many as the function reads.
    pub columns: Vec<String>,
    /// Name of its result.
    pub name: String,
    /// A boolean column: only rows where it is true are aggregated.
    pub filter: Option<String>,
    /// Numeric parameters of the function, besides its columns.
    pub parameters: Vec<f64>,
    /// The function, if it is user-defined; `function` is then ignored.
    pub user: Option<User>,
}

impl AggregateSpec {
    /// A function of these columns, without filter and parameters.
    pub fn new(function: &str, columns: &[&str], name: &str) -> Self {
        Self {
            function: function.into(),
            columns: columns.iter().map(|&column| column.into()).collect(),
            name: name.into(),
            filter: None,
            parameters: Vec::new(),
            user: None,
        }
    }
}

/// Binds an aggregate or, of a sample, its estimate (false) or the error of that (true).
pub(super) fn bind_aggregate(
    (spec, estimate): (&AggregateSpec, Option<bool>),
    input: &Schema,
    time: usize,
    partials: &mut Vec<Stored>,
) -> Result<(Planned, Field)> {
    let function = match &spec.user {
        Some(user) => Function::User(user.clone(), spec.columns.len()),
        None => Function::parse(&spec.function, &spec.columns, &spec.parameters)?,
    };
    let function = match estimate {
        None => function,
        Some(is_error) => function.estimated(is_error).ok_or_else(|| no_estimate(&spec.name))?,
    };
    if spec.columns.len() != function.columns() {
        return Err(Error::InvalidValue(format!(
            "aggs: {} reads {} columns; {} given",
            spec.function,
            function.columns(),
            spec.columns.len()
        )));
    }
    let columns: Vec<usize> =
        spec.columns.iter().map(|name| find(input, "aggs", name)).collect::<Result<_>>()?;
    let filter = spec.filter.as_ref().map(|name| find(input, "where", name)).transpose()?;
    if let Some(filter) = filter.map(|filter| input.field(filter))
        && !is_boolean(filter.data_type())
    {
        return Err(Error::InvalidType(format!(
            "where: column '{}' is {}; allowed are booleans",
            filter.name(),
            named(filter.data_type())
        )));
    }
    // Batches may have dictionaries of different values, so that codes do not tell the order.
    if let Some(ordered) = function.ordered_by().map(|at| input.field(columns[at]))
        && has_own_order(ordered)
    {
        return Err(Error::InvalidType(format!(
            "aggs: column '{}' {} a dictionary with an order of its own, by which {} does not compare; allowed are its \
             codes as integers (in pandas .cat.codes, in Polars .to_physical()), or its values without that order",
            ordered.name(),
            if ordered.dict_is_ordered() == Some(true) { "is" } else { "holds" },
            spec.function
        )));
    }
    let inputs: Vec<DataType> =
        columns.iter().map(|&column| input.field(column).data_type().clone()).collect();
    let time_type = input.field(time).data_type();
    let output = function.output_type(&inputs, time_type).map_err(|error| match error {
        Error::InvalidType(why) => Error::InvalidType(format!(
            "aggs: {} is not defined for column '{}' of type {why}",
            spec.function,
            spec.columns.join("', '")
        )),
        other => other,
    })?;
    let own = function.partials().into_iter().map(|(partial, operands)| {
        let column = |operand: &Operand| match *operand {
            Operand::Column(at) => columns[at],
            Operand::Time => time,
        };
        let stored = Stored { partial, inputs: operands.iter().map(column).collect(), filter, weight: None };
        partials.iter().position(|known| *known == stored).unwrap_or_else(|| {
            partials.push(stored);
            partials.len() - 1
        })
    });
    let own = own.collect();
    let nullable = function.nullable();
    let name = if estimate == Some(true) { format!("{}_error", spec.name) } else { spec.name.clone() };
    let field = Field::new(&name, output, nullable);
    Ok((Planned { name, function, partials: own, inputs }, field))
}

fn no_estimate(name: &str) -> Error {
    Error::InvalidValue(format!(
        "shed: keep='rows' is given, and {name} has no unbiased estimate from a sample of the rows; allowed are count, sum and \
         mean, and keep='keys', with which all functions are exact"
    ))
}
