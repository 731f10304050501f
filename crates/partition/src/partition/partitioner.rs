//! A stream's partitioner: parameters, loads, the place within windows, and a method's state.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::affinity::Affinity;
use super::cardinality::{Exact, Filtered, Sketched};
use super::cardinality_imbalance::CardinalityImbalance;
use super::counted::{Counted, Rule};
use super::hybrid::Hybrid;
use super::oblivious::{Hash, Shuffle};
use super::partial_key::PartialKey;
use super::undo::{State, Undo};
use super::waterfill::Waterfill;
use super::window::Clock;
use super::{Candidates, CardinalityKind, Decide, Loads, Method, Parameters, WindowLength};
use crate::keys::hash_rows;
use crate::state::{Envelope, Writer};
use crate::{Error, Result};
use windowkit_kernels::memory::attempted;
use windowkit_kernels::poll::{Poll, never};

/// Rows that are hashed at once.
const BLOCK: usize = 1 << 14;
/// The envelope of snapshots. `version` increases with every change of a method's decisions, and of the fields and
/// variants of what is stored; `since` follows it unless the older bytes are still read as what they were, as after a
/// method was added in the last place.
const SNAPSHOT: Envelope = Envelope {
    magic: *b"wkpart\r\n",
    version: 4,
    since: 4,
    of: "a partitioner; allowed is what snapshot() gave",
};

/// Assigns rows to workers, batch after batch.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use windowkit_partition::{CardinalityKind, Method, Parameters, Partitioner};
///
/// let mut partitioner = Partitioner::new(Parameters {
///     workers: 4,
///     method: Method::Shuffle,
///     candidates: 1,
///     cardinality: CardinalityKind::Hll,
///     bias: 0.5,
///     window: None,
///     seed: 0,
/// })?;
/// let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
/// let mut workers = Vec::new();
/// partitioner.assign(&[(vec![keys], None, 10)], &mut workers)?;
/// assert_eq!(workers.len(), 10);
/// assert_eq!(partitioner.loads().iter().sum::<u64>(), 10);
/// # Ok::<(), windowkit_partition::Error>(())
/// ```
pub struct Partitioner {
    parameters: Parameters,
    state: State,
    undo: Undo,
}

/// Key columns, times if there are any, and the number of rows.
pub type Batch = (Vec<ArrayRef>, Option<ArrayRef>, usize);

impl Partitioner {
    /// A partitioner that has not seen any rows.
    ///
    /// # Errors
    /// `InvalidValue` for parameters outside what is allowed.
    pub fn new(parameters: Parameters) -> Result<Self> {
        parameters.check()?;
        let state = State::new(method(&parameters)?, parameters.workers);
        Ok(Self { parameters, state, undo: Undo::default() })
    }

    /// The parameters it was made from.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Appends the worker of each row of some batches. All or nothing: after an error the state is as before.
    ///
    /// # Errors
    /// `InvalidType` for columns that cannot be keys or times, and for keys of other types than before; `InvalidValue` for
    /// times that are missing, null, or of an earlier window; those of memory.
    pub fn assign(&mut self, batches: &[Batch], workers: &mut Vec<i32>) -> Result<()> {
        self.assign_polling(batches, workers, never)
    }

    /// As [`Partitioner::assign`], of long batches: `poll` is called before each block of rows.
    ///
    /// # Errors
    /// As [`Partitioner::assign`], and those of `poll`; the state is as before then.
    pub fn assign_polling(&mut self, batches: &[Batch], workers: &mut Vec<i32>, poll: Poll) -> Result<()> {
        let len = workers.len();
        let done = attempted(|| self.tried(batches, workers, poll));
        self.undo.settle(&mut self.state, done.is_ok());
        done.inspect_err(|_| workers.truncate(len))
    }

    fn tried(&mut self, batches: &[Batch], workers: &mut Vec<i32>, poll: Poll) -> Result<()> {
        // All that can be refused comes first.
        let mut clock = self.state.clock.clone();
        let mut cuts = Vec::with_capacity(batches.len());
        let mut known = self.state.kinds.clone();
        for (keys, times, rows) in batches {
            let none: Vec<ArrayRef> = keys.iter().map(|column| column.slice(0, 0)).collect();
            hash_rows(&none, 0, self.parameters.seed, &mut Vec::new())?;
            let types = keys.iter().map(|column| column.data_type());
            check_kinds(&mut known, types.map(kind).collect())?;
            cuts.push(clock.cut(self.parameters.window, *rows, times.as_ref())?);
        }
        workers.reserve(batches.iter().map(|(.., rows)| rows).sum());
        self.undo.begin(&self.state);
        (self.state.clock, self.state.kinds) = (clock, known);
        self.decide(batches, cuts, workers, poll)
    }

    /// Appends the worker of each row of batches, each with its stretches of rows in one window and whether another
    /// window ended before. It only fails if it ends early.
    fn decide(
        &mut self,
        batches: &[Batch],
        cuts: Vec<Vec<(bool, Range<usize>)>>,
        workers: &mut Vec<i32>,
        poll: Poll,
    ) -> Result<()> {
        let mut hashes = Vec::new();
        for ((keys, ..), runs) in batches.iter().zip(cuts) {
            for (ended, run) in runs {
                if ended {
                    self.undo.note_end();
                    self.state.end_window();
                }
                let block =
                    if keys.iter().all(|column| is_flat(column.data_type())) { BLOCK } else { run.len() };
                let mut at = run.start;
                while at < run.end {
                    poll()?;
                    let rows = block.min(run.end - at);
                    hashes.clear();
                    if self.state.method.reads_keys() {
                        let keys: Vec<ArrayRef> = keys.iter().map(|column| column.slice(at, rows)).collect();
                        hash_rows(&keys, rows, self.parameters.seed, &mut hashes)?;
                    } else {
                        hashes.resize(rows, 0);
                    }
                    self.undo.note(&hashes);
                    self.state.decide(&hashes, workers);
                    at += rows;
                }
            }
        }
        Ok(())
    }

    /// Forgets all rows and windows.
    pub fn reset(&mut self) {
        self.state.reset();
        self.undo = Undo::default();
    }

    /// Rows per worker in the current window.
    pub fn loads(&self) -> &[u64] {
        self.state.loads.all()
    }

    /// Distinct keys per worker in the current window.
    ///
    /// # Errors
    /// `InvalidValue` if the method does not count them.
    pub fn cardinalities(&self) -> Result<Vec<f64>> {
        self.state.method.cardinalities().ok_or_else(|| {
            Error::InvalidValue(format!(
                "method: '{}' counts no distinct keys; 'cm', 'am', 'cam' and 'lm' do, and cost() does for any assignment",
                self.parameters.method.name()
            ))
        })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.state.bytes()
    }

    /// The method and its current state, in words.
    pub fn explain(&self) -> String {
        let Parameters { workers, method, candidates, cardinality, bias, window, .. } = &self.parameters;
        let mut text = format!("{} over {workers} workers", method.name());
        if method.has_candidates() {
            text += &format!(", {candidates} candidates a key");
        }
        if method.has_cardinalities() {
            text += &format!(", cardinality '{}'", cardinality.name());
        }
        if *method == Method::Hybrid {
            text += &format!(", bias {bias}");
        }
        match window {
            None => {}
            Some(WindowLength::Rows(rows)) => text += &format!(", windows of {rows} rows"),
            Some(window @ WindowLength::Time { .. }) => text += &format!(", windows of event time, {window}"),
        }
        let rows: u64 = self.state.loads.all().iter().sum();
        let mean = rows as f64 / f64::from(*workers);
        let most = self.state.loads.all().iter().copied().max().unwrap_or_default();
        text += &format!("\n{rows} rows in this window, after {} others", self.state.windows);
        if rows > 0 {
            text += &format!(
                "; the fullest worker has {most}, {:.4} times the mean of {mean:.1}",
                most as f64 / mean
            );
        }
        if let Some(more) = self.state.method.explain(&self.state.loads) {
            text = text + "\n" + &more;
        }
        text
    }

    /// The state as bytes, as [`restore`](Self::restore) takes them: versioned, and checked by a CRC-32.
    pub fn snapshot(&self) -> Vec<u8> {
        let State { method, loads, clock, windows, kinds } = &self.state;
        let mut to = Writer::default();
        to.value(&(&self.parameters, windows, clock, kinds, loads));
        method.save(&mut to);
        to.sealed(&SNAPSHOT)
    }

    /// Restores the partitioner from a snapshot.
    ///
    /// # Errors
    /// `InvalidValue` for bytes that are not a snapshot, have another version, or are damaged.
    pub fn restore(bytes: &[u8]) -> Result<Self> {
        let mut from = SNAPSHOT.open(bytes)?;
        let (parameters, windows, clock, kinds, loads): (_, _, Clock, _, Loads) = from.value()?;
        let mut partitioner = Self::new(parameters)?;
        let Parameters { workers, window, .. } = partitioner.parameters;
        if loads.0.len() != workers as usize || !clock.is_within(window) {
            return Err(from.damaged("loads of other workers, or a place outside its window"));
        }
        if loads.all().iter().try_fold(0_u64, |sum, &load| sum.checked_add(load)).is_none() {
            return Err(from.damaged("more rows than there can be"));
        }
        let state = &mut partitioner.state;
        (state.windows, state.clock, state.kinds, state.loads) = (windows, clock, kinds, loads);
        state.method.load(&mut from)?;
        if from.left() > 0 {
            return Err(from.damaged(&format!("{} bytes too many", from.left())));
        }
        Ok(partitioner)
    }
}

/// Rejects keys of other types than before; records the types of the first.
fn check_kinds(known: &mut Option<Vec<String>>, given: Vec<String>) -> Result<()> {
    match known {
        None => *known = Some(given),
        Some(known) => {
            let agree = |(old, new): (&String, &String)| old == new || old == NULL || new == NULL;
            if known.len() != given.len() || !known.iter().zip(&given).all(agree) {
                return Err(Error::InvalidType(format!(
                    "keys: they are [{}], but were [{}]; keys must have the same types in all batches until reset()",
                    given.join(", "),
                    known.join(", ")
                )));
            }
            // A column of only nulls does not determine a type yet.
            for (old, new) in known.iter_mut().zip(given).filter(|(old, _)| *old == NULL) {
                *old = new;
            }
        }
    }
    Ok(())
}

const NULL: &str = "Null";

/// A type's name, the same for types whose equal values are equal keys.
fn kind(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, values) => kind(values),
        DataType::RunEndEncoded(_, values) => kind(values.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "Utf8".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "Binary".into()
        }
        integer if integer.is_integer() => "Int".into(),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => "Float".into(),
        nested if nested.is_nested() => "nested".into(),
        other => other.to_string(),
    }
}

/// Whether hashing a slice costs no more than its rows: dictionaries and nested types have additional values.
fn is_flat(data_type: &DataType) -> bool {
    data_type.is_primitive()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
        )
}

fn method(parameters: &Parameters) -> Result<Box<dyn Decide>> {
    let candidates = Candidates::new(parameters.workers, parameters.candidates);
    match parameters.method {
        Method::Waterfill => Ok(Box::new(Waterfill::new(parameters.workers)?)),
        Method::Shuffle => Ok(Box::new(Shuffle::new(parameters.workers, parameters.seed))),
        Method::Hash => Ok(Box::new(Hash(Candidates::new(parameters.workers, 1)))),
        Method::PartialKey => Ok(Box::new(PartialKey::new(candidates))),
        Method::CardinalityImbalance => counting(parameters, candidates, CardinalityImbalance),
        Method::Affinity => counting(parameters, candidates, Affinity::LeastKeys),
        Method::LoadAffinity => counting(parameters, candidates, Affinity::LeastRows),
        Method::Hybrid => counting(parameters, candidates, Hybrid::new(parameters.bias)),
    }
}

/// A method that counts the distinct keys of each worker, in the structure that was asked for.
fn counting(
    parameters: &Parameters,
    candidates: Candidates,
    rule: impl Rule<Exact> + Rule<Sketched> + Rule<Filtered> + 'static,
) -> Result<Box<dyn Decide>> {
    let workers = parameters.workers;
    Ok(match parameters.cardinality {
        CardinalityKind::Exact => Box::new(Counted::<Exact, _>::new(workers, candidates, rule)?),
        CardinalityKind::Hll => Box::new(Counted::<Sketched, _>::new(workers, candidates, rule)?),
        CardinalityKind::Filter => Box::new(Counted::<Filtered, _>::new(workers, candidates, rule)?),
    })
}
