//! The parameters of a partitioner, and their allowed values.

use serde::{Deserialize, Serialize};

use super::WindowLength;
use crate::{Error, Result};

/// How rows are assigned; see the [crate](crate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// Hash for all keys except the heavy ones, whose rows level the workers.
    Waterfill,
    /// Round robin.
    Shuffle,
    /// By the key's hash.
    Hash,
    /// The least loaded candidate.
    PartialKey,
    /// The candidate with the fewest distinct keys.
    CardinalityImbalance,
    /// Affinity; new keys by distinct keys.
    Affinity,
    /// Affinity; new keys by rows.
    LoadAffinity,
    /// The mean of rows and distinct keys.
    Hybrid,
}

/// Name, abbreviation (the paper's, where it is one of the paper's), method.
const METHODS: [(&str, &str, Method); 8] = [
    ("waterfill", "wf", Method::Waterfill),
    ("shuffle", "sh", Method::Shuffle),
    ("hash", "fld", Method::Hash),
    ("partial-key", "pk", Method::PartialKey),
    ("cm", "cm", Method::CardinalityImbalance),
    ("am", "am", Method::Affinity),
    ("cam", "cam", Method::LoadAffinity),
    ("lm", "lm", Method::Hybrid),
];

impl Method {
    /// The method of this name or abbreviation, in any case, with `_` for `-`.
    ///
    /// # Errors
    /// `InvalidValue` for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        let lower = name.to_lowercase().replace('_', "-");
        let found = METHODS.iter().find(|(long, short, _)| *long == lower || *short == lower);
        found.map(|&(_, _, method)| method).ok_or_else(|| {
            let allowed: Vec<String> = METHODS.iter().map(|(long, ..)| format!("'{long}'")).collect();
            Error::InvalidValue(format!("method: '{name}' is unknown; allowed are {}", allowed.join(", ")))
        })
    }

    /// All methods.
    pub fn all() -> impl Iterator<Item = Self> {
        METHODS.iter().map(|&(.., method)| method)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(.., method)| *method == self).map_or("", |(name, ..)| name)
    }

    /// Whether the method chooses among the candidates of a key.
    pub fn has_candidates(self) -> bool {
        match self {
            Method::Waterfill | Method::Shuffle | Method::Hash => false,
            Method::PartialKey => true,
            counts => counts.has_cardinalities(),
        }
    }

    /// Whether the method counts the distinct keys of each worker.
    pub fn has_cardinalities(self) -> bool {
        match self {
            Method::Waterfill | Method::Shuffle | Method::Hash | Method::PartialKey => false,
            Method::CardinalityImbalance | Method::Affinity | Method::LoadAffinity | Method::Hybrid => true,
        }
    }
}

/// How distinct keys are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CardinalityKind {
    /// Exact sets: the paper's naive structure.
    Exact,
    /// HyperLogLog: the paper's sketch.
    Hll,
    /// A growing membership filter.
    Filter,
}

impl CardinalityKind {
    /// The kind of this name, in any case.
    ///
    /// # Errors
    /// `InvalidValue` for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        match name.to_lowercase().as_str() {
            "exact" => Ok(Self::Exact),
            "hll" => Ok(Self::Hll),
            "filter" => Ok(Self::Filter),
            _ => Err(Error::InvalidValue(format!(
                "cardinality: '{name}' is unknown; allowed are 'exact', 'hll', 'filter'"
            ))),
        }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Hll => "hll",
            Self::Filter => "filter",
        }
    }
}

/// The parameters of a [`Partitioner`](super::Partitioner).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Number of workers, 1 to 2^16.
    pub workers: u32,
    /// The method.
    pub method: Method,
    /// Candidates of a key, 1 to the number of workers; read by the methods that have candidates.
    pub candidates: u32,
    /// How distinct keys are counted by the methods that do.
    pub cardinality: CardinalityKind,
    /// The weight p of rows against distinct keys in LM (Eq. 9).
    pub bias: f64,
    /// The window length; `None` for one window without end.
    pub window: Option<WindowLength>,
    /// Seed of all hash functions.
    pub seed: u64,
}

/// At most this many workers.
pub(super) const MOST_WORKERS: u32 = 1 << 16;

impl Parameters {
    /// Checks what needs no data.
    ///
    /// # Errors
    /// `InvalidValue`: workers, candidates, bias or window outside what is allowed.
    pub fn check(&self) -> Result<()> {
        check_workers(self.workers.into())?;
        if self.candidates == 0 || (self.method.has_candidates() && self.candidates > self.workers) {
            return Err(Error::InvalidValue(format!(
                "candidates: {} for {} workers; a key has at least 1 candidate and at most one for each worker",
                self.candidates, self.workers
            )));
        }
        if !(0.0..=1.0).contains(&self.bias) {
            return Err(Error::InvalidValue(format!(
                "bias: {} is outside [0, 1]; it is the weight of rows against distinct keys",
                self.bias
            )));
        }
        self.window.as_ref().map_or(Ok(()), WindowLength::check)
    }
}

/// Checks a number of workers.
pub(super) fn check_workers(workers: i64) -> Result<u32> {
    u32::try_from(workers).ok().filter(|workers| (1..=MOST_WORKERS).contains(workers)).ok_or_else(|| {
        Error::InvalidValue(format!("workers: {workers} is out of range; allowed is 1 to {MOST_WORKERS}"))
    })
}
