//! Aggregates of a query from Python.

use std::sync::Arc;

use pyo3::prelude::*;

use super::callees::Callee;
use super::user::PyFunction;
use crate::aggregate::{Arrays, User};
use crate::operator::AggregateSpec;

/// A `windowkit.aggregation.Aggregate`.
#[derive(FromPyObject)]
pub(super) struct PyAggregate {
    function: String,
    columns: Vec<String>,
    name: String,
    condition: Option<String>,
    parameters: Vec<f64>,
    user: Option<Py<PyAny>>,
}

/// The aggregates in the form that the core takes; a user-defined function that occurs twice is shared, and is one of
/// the `callees`.
pub(super) fn aggregate_specs(
    py: Python<'_>,
    aggregates: Vec<PyAggregate>,
    callees: &mut Vec<Callee>,
) -> PyResult<Vec<AggregateSpec>> {
    let mut functions: Vec<(Callee, User)> = Vec::new();
    let mut shared = |object: Py<PyAny>| -> PyResult<User> {
        if let Some((_, function)) = functions.iter().find(|(other, _)| other.is(&object)) {
            return Ok(function.clone());
        }
        let callee = Callee::new(object);
        let function = User(Arc::new(Arrays(Arc::new(PyFunction::new(py, callee.clone())?))));
        callees.push(callee.clone());
        functions.push((callee, function.clone()));
        Ok(function)
    };
    let specs = aggregates.into_iter().map(|aggregate| {
        let PyAggregate { function, columns, name, condition: filter, parameters, user } = aggregate;
        let user = user.map(&mut shared).transpose()?;
        Ok(AggregateSpec { function, columns, name, filter, parameters, user })
    });
    specs.collect()
}
