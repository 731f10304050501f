//! User-defined functions in Rust: a name, types, and a column of partials.
//!
//! A function over plain values is a [`Monoid`](super::Monoid) with an [`Aggregate`](super::Aggregate), and
//! [`UserAggregate::column`] a [`Column`](super::Column) of it. A function over whole arrays is an
//! [`ArrayFunction`](super::ArrayFunction), and [`Arrays`](super::Arrays) makes it one of these.

use std::fmt;
use std::sync::Arc;

use arrow_schema::DataType;

use super::partials::Partials;
use super::properties::Properties;
use crate::Result;
use crate::poll::Poll;

/// A user-defined aggregate function.
pub trait UserAggregate: Send + Sync {
    /// The name used in errors and by planners.
    fn name(&self) -> &str;

    /// Its properties.
    fn properties(&self) -> Properties;

    /// The type of its results over columns of types `inputs`.
    ///
    /// # Errors
    /// `InvalidType` if it does not support these; the message begins with the unsupported type.
    fn output_type(&self, inputs: &[DataType]) -> Result<DataType>;

    /// An empty column of partials over columns of types `inputs`; as for [`Partial::column`](super::Partial::column),
    /// `poll` is called where much is to be done for a single slot.
    ///
    /// # Errors
    /// As [`UserAggregate::output_type`].
    fn column(&self, inputs: &[DataType], poll: Poll) -> Result<Box<dyn Partials>>;

    /// Number of columns of [`Partials::state`].
    fn state_columns(&self) -> usize {
        1
    }
}

/// A user-defined function, compared with others by identity.
#[derive(Clone)]
pub struct User(pub Arc<dyn UserAggregate>);

impl PartialEq for User {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name())
    }
}
