//! Baselines: the techniques of window aggregation that general stream slicing is compared with.
//!
//! Traub et al. 2019, §3 and Table 1; Li 2008, §6.1 and §8.2. Each technique is behind [`Technique`], which is shaped like windowkit's stream operator:
//! it takes rows with dense keys and times; a watermark makes windows final; late rows within the allowed lateness cause
//! updates. All use windowkit's [`Partials`], so that a function means the same everywhere, and give a reason for what they
//! do not support.
//!
//! | technique | idea | does not support |
//! |---|---|---|
//! | [`tuple_buffer`](Method::TupleBuffer) | rows in order; a window is computed when it ends | |
//! | [`aggregate_tree`](Method::AggregateTree) | a binary tree of partials over rows in order | functions whose partials grow with their rows |
//! | [`aggregate_buckets`](Method::AggregateBuckets) | a partial per window | with rows out of order: functions that do not commute, and windows of a number of rows |
//! | [`tuple_buckets`](Method::TupleBuckets) | a list of rows per window | |
//! | [`wid`](Method::Wid) | a hash table of partials by key and window id; bins at both ends of each row's windows where arrivals end them | sessions, windows of a number of rows; with rows out of order: functions that do not commute |
//! | [`buffering`](Method::Buffering) | rows are held back and sorted, then processed in order | late rows: it takes none |
//! | [`pairs`](Method::Pairs) | slices at starts and ends of windows | rows out of order; all but tumbling and sliding windows |
//! | [`cutty`](Method::Cutty) | slices at starts of windows, a tree over them | rows out of order; windows whose edges depend on rows; functions whose partials grow with their rows |
//!
//! All support tumbling and sliding windows over time, and most those over the number of a key's rows; those that store rows
//! or windows also support sessions, and `wid` windows that every so many arrivals end (Li 2008, §6.1.4). No technique
//! supports other windows: the papers' experiments have none. The README has a table.
//!
//! # Which windows are emitted, and when
//! A window over time is final when its end is not after the watermark; a session `[first, last + gap)` when the
//! watermark is after its end, as a row exactly on the end still joins. Windows without rows are not emitted. A row before
//! the watermark is late. A late row changes those of its windows that have not expired, i.e. whose end is after the
//! watermark less the allowed lateness. Of these, final ones are emitted again at once, as updates. A row is too late if
//! all windows that it would open by itself have expired: it is counted, and changes nothing.
//!
//! A window of a number of rows is final when the watermark is at its last row or after, as rows of one time keep the order
//! in which they came; it expires with that row. A late row shifts all rows behind it, so that every later window of its key
//! changes, and is emitted again if it is final.
//!
//! A window of the last stretch of time that every so many arrivals end is final when the watermark is at the time of the row
//! that ends it, and expires with it. A row is too late for it if all windows that reach back to it have expired.
//!
//! `buffering` has a rule of its own: it holds rows back for as long as the allowed lateness, and processes the stream as if
//! the watermark were that far behind and no row could come late.
//!
//! This is the rule of windowkit's operator: whether a row is too late depends on its time alone. A row that is not too late
//! may therefore join a session that has expired; that session is emitted again if the row extends it past that point.

mod aggregate_buckets;
mod aggregate_tree;
mod buckets;
mod buffering;
mod by_rows;
mod cutty;
mod edges;
mod flat_fat;
mod in_order;
mod lists;
mod pairs;
mod rank_buckets;
mod ranks;
mod row_store;
mod sessions;
mod slots;
mod stream;
mod sum_without_invert;
#[cfg(test)]
mod tests;
mod tuple_buckets;
mod tuple_buffer;
mod wid;
mod wid_bins;

use std::sync::Arc;

use arrow_array::{BooleanArray, cast::AsArray};
use arrow_select::filter::filter;

use windowkit::aggregate::{Input, Kind, Partials};
use windowkit::slice::strategy::Order;
use windowkit::window::Window;
use windowkit::{Error, Result};

pub use edges::ContextFree;
pub use sum_without_invert::SumWithoutInvert;

/// A way to aggregate windows over a stream of rows.
pub trait Technique: Send {
    /// Its name, one of [`Method::NAMES`].
    fn name(&self) -> &'static str;

    /// Adds rows: a dense key and a time each, and what each partial reads. Returns the windows that late rows among
    /// them change. Codes of dictionaries have 32 bits, which suffice for the values of all batches.
    ///
    /// # Errors
    /// `InvalidValue` for rows out of order where they were said to be in order; `Overflow` for a time whose windows do
    /// not fit int64. Nothing has changed then.
    fn push(&mut self, keys: &[u32], times: &[i64], inputs: &[Input]) -> Result<Windows>;

    /// Moves the watermark and returns the windows that became final.
    ///
    /// # Errors
    /// `InvalidValue` for a watermark before the last one.
    fn advance(&mut self, watermark: i64) -> Result<Windows>;

    /// Ends the stream: returns all windows that are left, unfinished ones of rows if they are requested, and keeps
    /// nothing.
    ///
    /// # Errors
    /// As [`Technique::advance`].
    fn close(&mut self) -> Result<Windows>;

    /// What it holds, and has done so far.
    fn stats(&self) -> Stats;
}

/// Windows and their aggregates: slot `i` of each partial is that of window `i`.
pub struct Windows {
    /// Key of each window.
    pub keys: Vec<u32>,
    /// Which of the query's windows it is.
    pub windows: Vec<u32>,
    /// Start of each window.
    pub starts: Vec<i64>,
    /// End of each window.
    pub ends: Vec<i64>,
    /// Ranks of its rows, `[lo, hi)`, of windows of a number of rows; of windows that arrivals end, ranks in the order of
    /// arrival of the rows counted for it.
    pub ranks: Vec<Option<(u64, u64)>>,
    /// Whether it was emitted before, with another result.
    pub updates: Vec<bool>,
    /// One column for each partial of the setting.
    pub partials: Vec<Box<dyn Partials>>,
}

impl Windows {
    /// Number of windows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no window.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// No windows, of partials like these.
    fn none(partials: &[Box<dyn Partials>]) -> Self {
        Self::new(Vec::new(), partials.iter().map(|partials| partials.empty()).collect())
    }

    /// These windows, and then others.
    fn and(mut self, other: Self) -> Self {
        self.keys.extend(other.keys);
        self.windows.extend(other.windows);
        self.starts.extend(other.starts);
        self.ends.extend(other.ends);
        self.ranks.extend(other.ranks);
        self.updates.extend(other.updates);
        self.partials.iter_mut().zip(other.partials).for_each(|(own, other)| own.append(other));
        self
    }

    /// Names and extents of these windows, with the aggregates of all.
    fn new(emitted: Vec<Emitted>, partials: Vec<Box<dyn Partials>>) -> Self {
        Self {
            keys: emitted.iter().map(|window| window.key).collect(),
            windows: emitted.iter().map(|window| window.window).collect(),
            starts: emitted.iter().map(|window| window.start).collect(),
            ends: emitted.iter().map(|window| window.end).collect(),
            ranks: emitted.iter().map(|window| window.ranks).collect(),
            updates: emitted.iter().map(|window| window.update).collect(),
            partials,
        }
    }
}

/// A window on its way out.
#[derive(Debug, Clone, Copy)]
struct Emitted {
    key: u32,
    window: u32,
    start: i64,
    end: i64,
    /// As [`Windows::ranks`].
    ranks: Option<(u64, u64)>,
    update: bool,
}

/// What a technique holds and has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rows held; of buckets, a row counts once for each that it is in.
    pub rows: usize,
    /// Partials held, for each function.
    pub partials: usize,
    /// Bytes of rows, partials and what finds them.
    pub bytes: usize,
    /// States joined so far, a row folded into one included.
    pub combines: u64,
    /// Rows that came too late.
    pub late: u64,
    /// Windows emitted, updates included.
    pub windows: u64,
    /// Windows emitted again.
    pub updates: u64,
}

/// What a technique is made for.
pub struct Setting {
    /// The query's windows.
    pub windows: Vec<Window>,
    /// User-defined windows; their numbers follow those of `windows`.
    pub own: Vec<Arc<dyn ContextFree>>,
    /// Whether rows come in the order of their times, whatever their keys.
    pub order: Order,
    /// How long after its end a window takes late rows, in units of the measure.
    pub lateness: i64,
    /// An empty column of each partial.
    pub partials: Vec<Box<dyn Partials>>,
}

/// The techniques by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Rows in order; a window is computed when it ends: any function, any window, any order.
    TupleBuffer,
    /// A tree of partials over rows in order.
    AggregateTree,
    /// A partial per window.
    AggregateBuckets,
    /// A list of rows per window.
    TupleBuckets,
    /// A hash table of partials by window id, and bins at both ends of a row's windows.
    Wid,
    /// A buffer that sorts rows, before an operator of rows in order.
    Buffering,
    /// Slices at starts and ends of windows over time, of streams in order.
    Pairs,
    /// Slices at starts of windows, of streams in order, and a tree over them.
    Cutty,
}

impl Method {
    /// All of them: those of Table 1 in its order, those of Li 2008, and slicing ones.
    pub const ALL: [Method; 8] = [
        Method::TupleBuffer,
        Method::AggregateTree,
        Method::AggregateBuckets,
        Method::TupleBuckets,
        Method::Wid,
        Method::Buffering,
        Method::Pairs,
        Method::Cutty,
    ];

    /// Their names.
    pub const NAMES: [&'static str; 8] = [
        "tuple_buffer",
        "aggregate_tree",
        "aggregate_buckets",
        "tuple_buckets",
        "wid",
        "buffering",
        "pairs",
        "cutty",
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Makes it for a setting.
    ///
    /// # Errors
    /// `InvalidValue` with the reason if it does not support the setting.
    pub fn make(self, setting: Setting) -> Result<Box<dyn Technique>> {
        match self {
            Method::TupleBuffer => tuple_buffer::make(setting),
            Method::AggregateTree => aggregate_tree::make(setting),
            Method::AggregateBuckets => aggregate_buckets::make(setting),
            Method::TupleBuckets => tuple_buckets::make(setting),
            Method::Wid => wid::make(setting),
            Method::Buffering => buffering::make(setting),
            Method::Pairs => pairs::make(setting),
            Method::Cutty => cutty::make(setting),
        }
    }
}

/// The error for what a technique does not support, with the reason and what it does support.
fn refused(name: &str, what: &str, why: &str, allowed: &str) -> Error {
    Error::InvalidValue(format!("technique: {name} takes no {what}: {why}; allowed are {allowed}"))
}

/// Refuses functions whose partials grow with their rows, for techniques that keep a state per node of a tree. Such are
/// holistic ones, and in this crate functions that do not commute, the rows of which are kept until all have come.
fn shared_states(name: &str, partials: &mut [Box<dyn Partials>]) -> Result<()> {
    let grows = |partials: &mut Box<dyn Partials>| {
        let properties = partials.properties();
        partials.states_mut().is_none() && (properties.kind == Kind::Holistic || !properties.commutative)
    };
    match partials.iter_mut().any(grows) {
        false => Ok(()),
        true => Err(refused(
            name,
            "function whose partials grow with their rows",
            "each level of its tree would hold all rows again (Traub et al. 2019, §6.3.2)",
            "distributive and algebraic functions that commute",
        )),
    }
}

/// The rows of `mask` of what a partial reads.
fn filtered(input: &Input, mask: &BooleanArray) -> Result<Input> {
    let columns = input.columns.iter().map(|column| filter(column, mask));
    let columns = columns.collect::<std::result::Result<_, _>>()?;
    let taken = input.taken.as_ref().map(|taken| filter(taken, mask)).transpose()?;
    Ok(Input { columns, taken: taken.map(|taken| taken.as_boolean().clone()) })
}
