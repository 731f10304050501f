//! Kinds of joins: which rows of the two sides are in the result.

use crate::{Error, Result};

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The side whose rows lead.
    Left,
    /// The other one.
    Right,
}

impl Which {
    /// Its name in errors.
    pub fn name(self) -> &'static str {
        match self {
            Which::Left => "left",
            Which::Right => "right",
        }
    }

    /// The side that is not this one.
    pub fn other(self) -> Self {
        match self {
            Which::Left => Which::Right,
            Which::Right => Which::Left,
        }
    }
}

/// Which rows are in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs of partners.
    Inner,
    /// Pairs, and the rows of the left side without a partner.
    Left,
    /// Pairs, and the rows of the right side without a partner.
    Right,
    /// Pairs, and the rows of both sides without a partner.
    Full,
    /// The rows of the left side that have a partner, once.
    Semi,
    /// The rows of the left side that have none.
    Anti,
}

impl JoinKind {
    /// The kind of this name.
    ///
    /// # Errors
    /// `InvalidValue` for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "inner" => JoinKind::Inner,
            "left" => JoinKind::Left,
            "right" => JoinKind::Right,
            "full" => JoinKind::Full,
            "semi" => JoinKind::Semi,
            "anti" => JoinKind::Anti,
            _ => {
                return Err(Error::InvalidValue(format!(
                    "how: '{name}' is unknown; allowed are 'inner', 'left', 'right', 'full', 'semi' and 'anti'"
                )));
            }
        })
    }

    /// Whether the result has pairs, and so the columns of both sides.
    pub fn has_pairs(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }

    /// Whether the result has the rows of a side that have no partner.
    pub fn keeps(self, which: Which) -> bool {
        match which {
            Which::Left => matches!(self, JoinKind::Left | JoinKind::Full | JoinKind::Anti),
            Which::Right => matches!(self, JoinKind::Right | JoinKind::Full),
        }
    }
}
