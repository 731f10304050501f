//! What can go wrong, sorted as a caller wants to catch it.

use arrow_schema::ArrowError;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that names the argument, what was given, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A value outside what its argument allows.
    #[error("{0}")]
    InvalidValue(String),
    /// A type without meaning in its place.
    #[error("{0}")]
    InvalidType(String),
    /// A column that the schema does not have.
    #[error("{0}")]
    UnknownColumn(String),
    /// A true result that its type cannot hold.
    #[error("{0}")]
    Overflow(String),
    /// A broken invariant of this crate: a defect, never the caller's fault.
    #[error("{0}")]
    Internal(String),
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Error::Internal(format!("Arrow: {error}"))
    }
}
