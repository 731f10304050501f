//! Emission policies from Python.

use pyo3::prelude::*;

use crate::Result;
use crate::operator::{Flush, Length, Plan, Policy, Term, length};

/// A `windowkit.emission.Emission`.
#[derive(FromPyObject)]
pub(super) struct PyPolicy {
    terms: Vec<PyTerm>,
    refinement: String,
    at_most: Option<u64>,
    later: Option<Length>,
}

/// A `windowkit.triggers.Term`.
#[derive(FromPyObject)]
struct PyTerm {
    kind: String,
    number: i128,
    share: f64,
    columns: Vec<String>,
    length: Option<Length>,
}

impl PyPolicy {
    /// The policy, bound to the schema of a plan.
    pub(super) fn bound(self, plan: &Plan) -> Result<Policy> {
        let Self { terms, refinement, at_most, later } = self;
        let later = later.map(|later| length(plan.measure(), "later", later)).transpose()?;
        let term =
            |PyTerm { kind, number, share, columns, length }| Term { kind, number, share, columns, length };
        let terms: Vec<Term> = terms.into_iter().map(term).collect();
        Policy::new(&terms, &refinement, Flush { at_most, later }, plan.input(), plan.measure())
    }
}
