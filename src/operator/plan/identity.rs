//! What distinguishes queries, so that a snapshot is restored with those of its operator.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{AggregateSpec, Plan, Spec};
use crate::aggregate::Properties;

/// A query over columns: a fingerprint of each of its parts, which stays the same across releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::operator) struct Identity {
    columns: u64,
    keys: u64,
    time: u64,
    windows: u64,
    aggregates: u64,
    policy: u64,
    weight: u64,
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

impl Identity {
    /// The parts in which it differs from another, as a query names them.
    pub(in crate::operator) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let parts = [
            ("columns", self.columns == other.columns),
            ("keys", self.keys == other.keys),
            ("time", self.time == other.time),
            ("windows", self.windows == other.windows),
            ("aggregates", self.aggregates == other.aggregates),
            ("emission policy", self.policy == other.policy),
            ("weight", self.weight == other.weight),
        ];
        parts.into_iter().filter_map(|(part, is_equal)| (!is_equal).then_some(part)).collect()
    }
}

impl Plan {
    /// What distinguishes it from other queries.
    pub(in crate::operator) fn identity(&self) -> Identity {
        let Spec { by, time, aggregates, weight, .. } = &self.spec;
        let fields = self.input.fields().iter();
        let columns = fields.map(|field| (field.name(), field.data_type().to_string()));
        Identity {
            columns: fingerprint(&columns.collect::<Vec<_>>()),
            keys: fingerprint(by),
            time: fingerprint(time),
            windows: fingerprint(&self.windows),
            aggregates: fingerprint(&aggregates.iter().map(AggregateSpec::identity).collect::<Vec<_>>()),
            policy: fingerprint(&self.policy.as_ref().map(|policy| policy.signature())),
            weight: fingerprint(weight),
        }
    }
}

/// A number that distinguishes values of a type by the form that the type declares.
fn fingerprint<T: Serialize + ?Sized>(part: &T) -> u64 {
    xxh3_64(&postcard::to_stdvec(part).expect("the lengths of all lists are known"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::operator::{Length, WindowKind, WindowSpec};
    use crate::window::Partial;

    /// Operators are restored over the columns of their snapshots, so that only callers in Rust can give others.
    #[test]
    fn queries_over_other_columns_differ() {
        let plan = |value: DataType| {
            let fields = [("k", DataType::Utf8), ("t", DataType::Int64), ("v", value)];
            let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
            let (size, start_time) = (Length::Units(10), None);
            let kind = WindowKind::Tumbling { size, start_time, partial: Partial::NONE };
            let windows = vec![WindowSpec { name: "w".into(), kind }];
            let sum = AggregateSpec {
                function: "sum".into(),
                columns: vec!["v".into()],
                name: "sum".into(),
                filter: None,
                parameters: Vec::new(),
                user: None,
            };
            let input = Arc::new(Schema::new(fields.to_vec()));
            Plan::new(input, vec!["k".into()], "t".into(), windows, vec![sum]).unwrap().identity()
        };
        let identity = plan(DataType::Int64);
        assert_eq!(identity.differences(&plan(DataType::Int64)), [""; 0]);
        assert_eq!(identity.differences(&plan(DataType::Float64)), ["columns"]);
    }
}
