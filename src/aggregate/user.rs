//! Functions of users' own, from Rust: a name, types, and a column of partials.
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

/// An aggregate function of a user's own.
pub trait UserAggregate: Send + Sync {
    /// How errors and planners name it.
    fn name(&self) -> &str;

    /// What holds of it.
    fn properties(&self) -> Properties;

    /// The type of its results over columns of types `inputs`.
    ///
    /// # Errors
    /// `InvalidType` if it has no meaning for these; the message begins with the type that it has none for.
    fn output_type(&self, inputs: &[DataType]) -> Result<DataType>;

    /// An empty column of partials over columns of types `inputs`.
    ///
    /// # Errors
    /// As [`UserAggregate::output_type`].
    fn column(&self, inputs: &[DataType]) -> Result<Box<dyn Partials>>;

    /// Number of columns of [`Partials::state`].
    fn state_columns(&self) -> usize {
        1
    }
}

/// A function of a user's own, told apart from others by identity.
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
