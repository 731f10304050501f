//! User-defined aggregate functions, called back from the core.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3_arrow::{PyArray, PyDataType};

use super::callees::Callee;
use super::errors::{exception, of_user};
use super::given::Given;
use crate::aggregate::{ArrayFunction, Kind, Properties};
use crate::{Error, Result};

/// A `windowkit.language.aggregation.UserFunction`.
pub(super) struct PyFunction {
    object: Callee,
    name: String,
    properties: Properties,
    has_identity: bool,
}

impl PyFunction {
    /// Reads the object's attributes.
    pub(super) fn new(py: Python<'_>, callee: Callee) -> PyResult<Self> {
        let object = callee.bind(py);
        let invertible = !object.getattr("invert")?.is_none();
        Ok(Self {
            name: object.getattr("name")?.extract()?,
            properties: Properties {
                associative: true,
                commutative: object.getattr("commutative")?.extract()?,
                invertible,
                kind: Kind::Algebraic,
            },
            has_identity: !object.getattr("identity")?.is_none(),
            object: callee.clone(),
        })
    }

    /// Calls one of the functions with arrays; returns its result as an array.
    fn call(&self, what: &str, inputs: &[&ArrayRef]) -> Result<ArrayRef> {
        Python::attach(|py| {
            let call = || -> PyResult<ArrayRef> {
                let arrays = inputs
                    .iter()
                    .map(|&array| PyArray::from_array_ref(array.clone()).to_pyarrow(py).map(Bound::unbind))
                    .collect::<PyResult<Vec<_>>>()?;
                let result = self.object.bind(py).getattr(what)?.call1(PyTuple::new(py, arrays)?)?;
                array(&result)
            };
            call().map_err(|error| self.failed(py, what, error))
        })
    }

    fn failed(&self, py: Python<'_>, what: &str, error: PyErr) -> Error {
        of_user(py, error, |shown| format!("{}: {what} failed with {shown}", self.name))
    }
}

/// Anything that is an Arrow array, or that pyarrow can convert to one, as an array of one chunk.
pub(super) fn array(given: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let given = match given.getattr_opt("combine_chunks")? {
        Some(combine) => combine.call0()?,
        None => given.clone(),
    };
    let given = if given.hasattr("__arrow_c_array__")? {
        given
    } else {
        given.py().import("pyarrow")?.getattr("array")?.call1((given,))?
    };
    let array = given.extract::<Given<PyArray>>()?.array("result");
    array.map_err(|error| exception(given.py(), &error))
}

impl ArrayFunction for PyFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn lift(&self, inputs: &[ArrayRef]) -> Result<ArrayRef> {
        self.call("lift", &inputs.iter().collect::<Vec<_>>())
    }

    fn combine(&self, earlier: &ArrayRef, later: &ArrayRef) -> Result<ArrayRef> {
        self.call("combine", &[earlier, later])
    }

    fn lower(&self, states: &ArrayRef) -> Result<ArrayRef> {
        self.call("lower", &[states])
    }

    fn invert(&self, whole: &ArrayRef, part: &ArrayRef) -> Option<Result<ArrayRef>> {
        self.properties.invertible.then(|| self.call("invert", &[whole, part]))
    }

    fn properties(&self) -> Properties {
        self.properties
    }

    fn identity(&self, states: &DataType) -> Result<Option<ArrayRef>> {
        if !self.has_identity {
            return Ok(None);
        }
        Python::attach(|py| {
            let make = || -> PyResult<ArrayRef> {
                let pyarrow = py.import("pyarrow")?;
                let kind = PyDataType::new(states.clone()).into_pyarrow(py)?;
                let value = self.object.bind(py).getattr("identity")?;
                let value = match value.getattr_opt("as_py")? {
                    Some(as_py) => as_py.call0()?,
                    None => value,
                };
                array(&pyarrow.getattr("array")?.call1((vec![value], kind))?)
            };
            make().map(Some).map_err(|error| self.failed(py, "identity", error))
        })
    }
}
