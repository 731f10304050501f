//! The properties of an aggregate function: the workload characteristics that determine strategies (Traub et al. 2019,
//! §4.2).

use serde::Serialize;

/// Algebraic properties of a function's `combine`, up to the rounding of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Properties {
    /// `combine(a, combine(b, c)) == combine(combine(a, b), c)`. True of every function of this crate.
    pub associative: bool,
    /// `combine(a, b) == combine(b, a)`: rows and slices may arrive in any order.
    pub commutative: bool,
    /// There is an exact inverse: a combined value can be removed again.
    pub invertible: bool,
    /// How large a partial is.
    pub kind: Kind,
}

/// The classes of Gray et al., *Data Cube* (1997), in ascending order of the cost of partials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// The partial is of constant size, and represents the result of its rows, perhaps with more precision.
    Distributive,
    /// The partial is of constant size, and the result is computed from several values in it.
    Algebraic,
    /// The partial is as large as its rows may make it.
    Holistic,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Distributive => "distributive",
            Kind::Algebraic => "algebraic",
            Kind::Holistic => "holistic",
        }
    }
}

impl Properties {
    /// An associative and commutative function of this kind, without an inverse.
    pub const fn commutative(kind: Kind) -> Self {
        Self { associative: true, commutative: true, invertible: false, kind }
    }

    /// These properties with an inverse, if `invertible`.
    pub const fn inverted(self, invertible: bool) -> Self {
        Self { invertible, ..self }
    }

    /// The properties of a function of this kind that combines both.
    pub fn and(self, other: Self) -> Self {
        Self {
            associative: self.associative && other.associative,
            commutative: self.commutative && other.commutative,
            invertible: self.invertible && other.invertible,
            kind: self.kind.max(other.kind),
        }
    }
}
