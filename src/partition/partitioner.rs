//! A stream's partitioner: parameters, loads, the place within windows, and a method's state.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::affinity::Affinity;
use super::cardinality::{Cardinality, Exact, Filtered, Sketched};
use super::cardinality_imbalance::CardinalityImbalance;
use super::counted::Counted;
use super::hybrid::Hybrid;
use super::oblivious::{Hash, Shuffle};
use super::partial_key::PartialKey;
use super::waterfill::Waterfill;
use super::window::Clock;
use super::{Candidates, CardinalityKind, Decide, Loads, Method, Parameters, WindowLength};
use crate::interrupt::check;
use crate::keys::hash_rows;
use crate::state::{Envelope, Reader};
use crate::{Error, Result};

/// Rows passed to a method at once: few enough for their hashes to stay in the first-level cache.
const CHUNK: usize = 1024;
/// Rows that are hashed at once.
const BLOCK: usize = 1 << 14;
/// Rows of a call that looks for interrupts: for so many, saving the state beforehand costs little.
const MANY: usize = 1 << 20;
/// The envelope of snapshots; its version increases with every change of a method's decisions or state.
const SNAPSHOT: Envelope = Envelope {
    magic: *b"wkpart\r\n",
    version: 3,
    since: 3,
    of: "a partitioner; allowed is what snapshot() gave",
};

/// Assigns rows to workers, batch after batch.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use windowkit::partition::{CardinalityKind, Method, Parameters, Partitioner};
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
/// # Ok::<(), windowkit::Error>(())
/// ```
pub struct Partitioner {
    parameters: Parameters,
    method: Box<dyn Decide>,
    loads: Loads,
    clock: Clock,
    windows: u64,
    /// The types of key columns, once there were any: keys of other types have other hashes.
    kinds: Option<Vec<String>>,
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
        let method = method(&parameters)?;
        let loads = Loads(vec![0; parameters.workers as usize]);
        Ok(Self { parameters, method, loads, clock: Clock::default(), windows: 0, kinds: None })
    }

    /// The parameters it was made from.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Appends the worker of each row of some batches. All or nothing: after an error the state is as before.
    ///
    /// # Errors
    /// `InvalidType` for columns that cannot be keys or times, and for keys of other types than before; `InvalidValue` for
    /// times that are missing, null, or of an earlier window.
    pub fn assign(&mut self, batches: &[Batch], workers: &mut Vec<i32>) -> Result<()> {
        // Everything that can fail comes first.
        let mut clock = self.clock.clone();
        let mut cuts = Vec::with_capacity(batches.len());
        let mut known = self.kinds.clone();
        for (keys, times, rows) in batches {
            let none: Vec<ArrayRef> = keys.iter().map(|column| column.slice(0, 0)).collect();
            hash_rows(&none, 0, self.parameters.seed, &mut Vec::new())?;
            let types = keys.iter().map(|column| column.data_type());
            check_kinds(&mut known, types.map(kind).collect())?;
            cuts.push(clock.cut(self.parameters.window, *rows, times.as_ref())?);
        }
        let rows = batches.iter().map(|(.., rows)| rows).sum();
        let before = (rows >= MANY && self.bytes() <= rows).then(|| self.snapshot());
        self.clock = clock;
        self.kinds = known;
        workers.reserve(rows);
        let len = workers.len();
        let done = self.decide(batches, cuts, before.is_some(), workers);
        if let (Err(_), Some(before)) = (&done, before) {
            *self = Self::restore(&before)?;
            workers.truncate(len);
        }
        done
    }

    /// Appends the worker of each row of batches, each with its stretches of rows in one window and whether another
    /// window ended before. It only fails if it looks for interrupts.
    fn decide(
        &mut self,
        batches: &[Batch],
        cuts: Vec<Vec<(bool, Range<usize>)>>,
        looks: bool,
        workers: &mut Vec<i32>,
    ) -> Result<()> {
        let mut hashes = Vec::new();
        for ((keys, ..), runs) in batches.iter().zip(cuts) {
            for (ended, run) in runs {
                if ended {
                    self.loads.0.fill(0);
                    self.method.end_window();
                    self.windows += 1;
                }
                let block =
                    if keys.iter().all(|column| is_flat(column.data_type())) { BLOCK } else { run.len() };
                let mut at = run.start;
                while at < run.end {
                    if looks {
                        check()?;
                    }
                    let rows = block.min(run.end - at);
                    hashes.clear();
                    if self.method.reads_keys() {
                        let keys: Vec<ArrayRef> = keys.iter().map(|column| column.slice(at, rows)).collect();
                        hash_rows(&keys, rows, self.parameters.seed, &mut hashes)?;
                    } else {
                        hashes.resize(rows, 0);
                    }
                    for chunk in hashes.chunks(CHUNK) {
                        self.method.decide(chunk, &mut self.loads, workers);
                    }
                    at += rows;
                }
            }
        }
        Ok(())
    }

    /// Forgets all rows and windows.
    pub fn reset(&mut self) {
        self.loads.0.fill(0);
        self.clock = Clock::default();
        self.kinds = None;
        self.windows = 0;
        self.method.reset();
    }

    /// Rows per worker in the current window.
    pub fn loads(&self) -> &[u64] {
        self.loads.all()
    }

    /// Distinct keys per worker in the current window.
    ///
    /// # Errors
    /// `InvalidValue` if the method does not count them.
    pub fn cardinalities(&self) -> Result<Vec<f64>> {
        self.method.cardinalities().ok_or_else(|| {
            Error::InvalidValue(format!(
                "method: '{}' counts no distinct keys; 'cm', 'am', 'cam' and 'lm' do, and cost() does for any assignment",
                self.parameters.method.name()
            ))
        })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(self.loads.all()) + self.method.bytes()
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
        let rows: u64 = self.loads.all().iter().sum();
        let mean = rows as f64 / f64::from(*workers);
        let most = self.loads.all().iter().copied().max().unwrap_or_default();
        text += &format!("\n{rows} rows in this window, after {} others", self.windows);
        if rows > 0 {
            text += &format!(
                "; the fullest worker has {most}, {:.4} times the mean of {mean:.1}",
                most as f64 / mean
            );
        }
        if let Some(more) = self.method.explain(&self.loads) {
            text = text + "\n" + &more;
        }
        text
    }

    /// The state as bytes, as [`restore`](Self::restore) takes them: versioned, and checked by a CRC-32.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_parameters(&self.parameters, &mut out);
        out.extend(self.windows.to_le_bytes());
        self.clock.write(&mut out);
        let kinds = self.kinds.as_deref().unwrap_or_default();
        out.extend((kinds.len() as u32).to_le_bytes());
        kinds.iter().for_each(|kind| write_text(kind, &mut out));
        self.loads.all().iter().for_each(|load| out.extend(load.to_le_bytes()));
        self.method.write(&mut out);
        SNAPSHOT.seal(&out)
    }

    /// Restores the partitioner from a snapshot.
    ///
    /// # Errors
    /// `InvalidValue` for bytes that are not a snapshot, have another version, or are damaged.
    pub fn restore(bytes: &[u8]) -> Result<Self> {
        let mut reader = SNAPSHOT.open(bytes)?;
        let parameters = read_parameters(&mut reader)?;
        let mut partitioner = Self::new(parameters)?;
        partitioner.windows = reader.number()?;
        partitioner.clock = Clock::read(&mut reader, partitioner.parameters.window)?;
        let kinds: Vec<String> = (0..reader.u32()?).map(|_| reader.text()).collect::<Result<_>>()?;
        partitioner.kinds = (!kinds.is_empty()).then_some(kinds);
        partitioner.loads = Loads(reader.u64s(partitioner.parameters.workers as usize)?);
        if partitioner.loads.all().iter().try_fold(0_u64, |sum, &load| sum.checked_add(load)).is_none() {
            return Err(reader.damaged("more rows than there can be"));
        }
        partitioner.method.read(&mut reader)?;
        if reader.left() > 0 {
            return Err(reader.damaged(&format!("{} bytes too many", reader.left())));
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
    Ok(match (parameters.method, parameters.cardinality) {
        (Method::Waterfill, _) => Box::new(Waterfill::new(parameters.workers)?),
        (Method::Shuffle, _) => Box::new(Shuffle::new(parameters.workers, parameters.seed)),
        (Method::Hash, _) => Box::new(Hash(Candidates::new(parameters.workers, 1))),
        (Method::PartialKey, _) => Box::new(PartialKey::new(candidates)),
        (_, CardinalityKind::Exact) => counting::<Exact>(parameters, candidates)?,
        (_, CardinalityKind::Hll) => counting::<Sketched>(parameters, candidates)?,
        (_, CardinalityKind::Filter) => counting::<Filtered>(parameters, candidates)?,
    })
}

fn counting<C: Cardinality + 'static>(
    parameters: &Parameters,
    candidates: Candidates,
) -> Result<Box<dyn Decide>> {
    let workers = parameters.workers;
    Ok(match parameters.method {
        Method::CardinalityImbalance => {
            Box::new(Counted::<C, _>::new(workers, candidates, CardinalityImbalance)?)
        }
        Method::Affinity => Box::new(Counted::<C, _>::new(workers, candidates, Affinity::LeastKeys)?),
        Method::LoadAffinity => Box::new(Counted::<C, _>::new(workers, candidates, Affinity::LeastRows)?),
        Method::Hybrid => Box::new(Counted::<C, _>::new(workers, candidates, Hybrid::new(parameters.bias))?),
        other => return Err(Error::Internal(format!("'{}' counts no distinct keys", other.name()))),
    })
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn write_parameters(parameters: &Parameters, out: &mut Vec<u8>) {
    out.extend(parameters.workers.to_le_bytes());
    write_text(parameters.method.name(), out);
    out.extend(parameters.candidates.to_le_bytes());
    write_text(parameters.cardinality.name(), out);
    out.extend(parameters.bias.to_le_bytes());
    let (kind, size, offset) = match parameters.window {
        None => (0, 0, 0),
        Some(WindowLength::Rows(rows)) => (1, rows as i64, 0),
        Some(WindowLength::Time { size, offset, is_duration: true }) => (2, size, offset),
        Some(WindowLength::Time { size, offset, is_duration: false }) => (3, size, offset),
    };
    out.push(kind);
    out.extend(size.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.extend(parameters.seed.to_le_bytes());
}

fn read_parameters(reader: &mut Reader<'_>) -> Result<Parameters> {
    let workers = reader.u32()?;
    let method = Method::parse(&reader.text()?)?;
    let candidates = reader.u32()?;
    let cardinality = CardinalityKind::parse(&reader.text()?)?;
    let bias = reader.f64()?;
    let (kind, size, offset) = (reader.u8()?, reader.number()? as i64, reader.number()? as i64);
    let window = match kind {
        0 => None,
        1 => Some(WindowLength::Rows(size as u64)),
        2 | 3 => Some(WindowLength::Time { size, offset, is_duration: kind == 2 }),
        _ => return Err(reader.damaged(&format!("a window of kind {kind}"))),
    };
    Ok(Parameters { workers, method, candidates, cardinality, bias, window, seed: reader.number()? })
}
