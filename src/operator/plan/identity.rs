//! What distinguishes queries, so that a snapshot is restored with those of its operator.

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::{AggregateSpec, Plan, Spec};
use crate::aggregate::Properties;
use crate::window::Window;

/// A query over columns. Written field by field, it has the form that is declared here.
#[derive(Serialize)]
struct Identity<'a> {
    columns: Vec<(&'a String, String)>,
    by: &'a [String],
    time: &'a str,
    windows: &'a [(String, Window)],
    aggregates: Vec<AggregateIdentity<'a>>,
    policy: Option<String>,
    weight: Option<&'a str>,
}

/// An aggregate; a user-defined one is known by its name and properties.
#[derive(Serialize)]
struct AggregateIdentity<'a> {
    function: &'a str,
    columns: &'a [String],
    name: &'a str,
    filter: Option<&'a str>,
    parameters: &'a [f64],
    user: Option<(&'a str, Properties)>,
}

impl AggregateSpec {
    fn identity(&self) -> AggregateIdentity<'_> {
        let Self { function, columns, name, filter, parameters, user } = self;
        let user = user.as_ref().map(|user| (user.0.name(), user.0.properties()));
        AggregateIdentity { function, columns, name, filter: filter.as_deref(), parameters, user }
    }
}

impl Plan {
    /// A number that distinguishes queries over columns, and stays the same across releases.
    pub fn fingerprint(&self) -> u64 {
        let Spec { by, time, aggregates, weight, .. } = &self.spec;
        let columns = self.input.fields().iter();
        let identity = Identity {
            columns: columns.map(|field| (field.name(), field.data_type().to_string())).collect(),
            by,
            time,
            windows: &self.windows,
            aggregates: aggregates.iter().map(AggregateSpec::identity).collect(),
            policy: self.policy.as_ref().map(|policy| policy.signature()),
            weight: weight.as_deref(),
        };
        xxh3_64(&postcard::to_stdvec(&identity).expect("the lengths of all lists are known"))
    }
}
