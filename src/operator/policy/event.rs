//! Events, which set a latch of a key: everything that the core knows of one kind of event is here.

use std::fmt;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::Schema;

use super::Term;
use crate::operator::Length;
use crate::operator::length::length;
use crate::operator::schema::{find, is_boolean};
use crate::types::named;
use crate::window::{Measure, Punctuation};
use crate::{Error, Result};

/// What sets a latch of a key: its rows, or the progress of time.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::operator) enum Event {
    /// A row with this column true.
    Marked(usize),
    /// The watermark passes a multiple of this.
    Passed(i64),
    /// The clock does, in microseconds.
    Ticked(i64),
    /// So many microseconds of the clock have passed since the first row of the key that came since it last fired.
    Waited(i64),
}

/// What determines whether an event occurs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::operator) enum Cause {
    /// Rows of the key.
    Rows,
    /// The watermark, of which keys may have their own.
    Watermark,
    /// The clock.
    Clock,
}

/// A time before and after a call.
type Progress = (Option<i64>, Option<i64>);

/// How far watermark and clock came in a call.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator) struct Moved {
    pub(in crate::operator) watermark: Progress,
    pub(in crate::operator) clock: Progress,
}

impl Event {
    /// Reads the term of an event; `None` if it is of another kind of trigger.
    ///
    /// # Errors
    /// As [`super::Policy::new`].
    pub(super) fn read(term: &Term, input: &Schema, measure: &Measure) -> Result<Option<Self>> {
        let Term { kind, columns, length: given, .. } = term;
        Ok(Some(match (kind.as_str(), columns.as_slice(), given) {
            ("on", [marks], _) => Self::Marked(booleans(input, "on", marks)?),
            ("ticks", [], Some(Length::Nanoseconds(count))) => {
                Self::Ticked(i64::try_from(count / 1_000).unwrap_or(i64::MAX).max(1))
            }
            ("waits", [], Some(Length::Nanoseconds(count))) => {
                Self::Waited(i64::try_from(count / 1_000).unwrap_or(i64::MAX).max(1))
            }
            ("every", [], Some(given)) => Self::Passed(length(measure, "every", *given)?.max(1)),
            _ => return Ok(None),
        }))
    }

    /// The rows that set it, if rows do. It cannot fail: whatever may be refused is refused by [`Event::read`].
    pub(in crate::operator) fn marked(&self, rows: &RecordBatch) -> Option<BooleanBuffer> {
        match self {
            Self::Marked(column) => Some(Punctuation::marks(rows.column(*column))),
            Self::Passed(_) | Self::Ticked(_) | Self::Waited(_) => None,
        }
    }

    /// How long it waits after the first row of a key, in microseconds of the clock, if it does.
    pub(in crate::operator) fn waits(&self) -> Option<i64> {
        if let Self::Waited(length) = *self { Some(length) } else { None }
    }

    /// Whether the progress of time in a call sets it, for all keys alike.
    pub(in crate::operator) fn is_passed(&self, moved: Moved) -> bool {
        match *self {
            Self::Marked(_) | Self::Waited(_) => false,
            Self::Passed(step) => passes(step, moved.watermark),
            Self::Ticked(step) => passes(step, moved.clock),
        }
    }

    /// What determines whether it occurs.
    pub(in crate::operator) fn cause(&self) -> Cause {
        match self {
            Self::Marked(_) => Cause::Rows,
            Self::Passed(_) => Cause::Watermark,
            Self::Ticked(_) | Self::Waited(_) => Cause::Clock,
        }
    }
}

/// Part of a policy's signature, which must not change.
impl fmt::Display for Event {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Marked(column) => write!(to, "on({column})"),
            Self::Passed(step) => write!(to, "every({step})"),
            Self::Ticked(step) => write!(to, "every({step}us)"),
            Self::Waited(length) => write!(to, "waited({length}us)"),
        }
    }
}

/// Whether a multiple of `step` lies after the first and not after the second time.
fn passes(step: i64, (before, after): Progress) -> bool {
    matches!((before, after), (Some(before), Some(after)) if before.div_euclid(step) < after.div_euclid(step))
}

/// The position of a column of booleans.
fn booleans(input: &Schema, argument: &str, name: &str) -> Result<usize> {
    let position = find(input, argument, name)?;
    match input.field(position).data_type() {
        kind if is_boolean(kind) => Ok(position),
        other => Err(Error::InvalidType(format!(
            "{argument}: column '{name}' is {other}; allowed are booleans",
            other = named(other)
        ))),
    }
}
