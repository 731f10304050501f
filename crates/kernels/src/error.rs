//! What can go wrong, grouped the way callers want to catch it.

use std::sync::Arc;

use arrow_schema::ArrowError;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that names the argument, what was given, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A value outside what its argument allows.
    #[error("{0}")]
    InvalidValue(String),
    /// A type that is not supported in its place.
    #[error("{0}")]
    InvalidType(String),
    /// A column that the schema does not have.
    #[error("{0}")]
    UnknownColumn(String),
    /// A true result that does not fit its type.
    #[error("{0}")]
    Overflow(String),
    /// More memory is needed than the process may use.
    #[error("{0}")]
    Memory(String),
    /// A user-defined function failed.
    #[error("{message}")]
    User {
        /// Which function, and with what.
        message: String,
        /// What it raised.
        cause: Cause,
    },
    /// Whoever called wanted the work to end.
    #[error("interrupted by {}", .0.0)]
    Interrupted(Cause),
    /// A broken invariant of this crate: a bug, never the caller's fault.
    #[error("{0}")]
    Internal(String),
}

/// The exception or error that a user-defined function, or an interrupt, raised.
#[derive(Debug, Clone)]
pub struct Cause(pub Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cause {}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::OffsetOverflowError(bytes) => Error::Overflow(format!(
                "a column of answers takes {bytes} bytes; Arrow's strings and binaries hold {}",
                i32::MAX
            )),
            error => Error::Internal(format!("Arrow: {error}")),
        }
    }
}
