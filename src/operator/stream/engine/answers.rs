//! Results of windows that are ready: their partials, from slices or from the aggregate store above them, and their columns.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StructArray, new_null_array};
use arrow_buffer::BooleanBuffer;

use super::slice_manager::SliceManager;
use crate::aggregate::Partials;
use crate::interrupt::{Pace, check};
use crate::kernels::Ranges;
use crate::operator::batching::BATCH_ROWS;
use crate::operator::lowered::{Lowered, lowered};
use crate::operator::schema::rank_fields;
use crate::operator::stream::keys::StreamKeys;
use crate::operator::stream::outgoing::{Answer, Answered, NONE, Outgoer, Outgoing, Ranks};
use crate::operator::stream::queries::{Queries, Registered};
use crate::operator::stream::results::WindowColumns;
use crate::slice::{Delta, Wanted};
use crate::{Error, Result};

/// The results of the windows to be emitted, query by query, with its place in the operator.
pub(super) fn answer(
    queries: &Queries,
    slices: &mut SliceManager,
    mut outgoing: Vec<Outgoing>,
    delta: &Delta,
    keys: &StreamKeys,
) -> Result<Answers> {
    let mut results = Answers::default();
    if outgoing.iter().all(|outgoing| outgoing.windows.is_empty()) {
        return Ok(results);
    }
    let withdrawn: Vec<Vec<Outgoer>> = outgoing.iter_mut().map(withdrawn).collect();
    let gathered = gather(queries, slices, &outgoing, delta)?;
    for (query, (outgoing, withdrawn)) in outgoing.iter().zip(withdrawn).enumerate() {
        let (partials, rows) = (&queries.registered()[query].partials, &outgoing.of_rows);
        let all = &outgoing.windows[..];
        if partials.iter().all(|&at| slices.above.has(at)) {
            // The aggregate store above the slices answers windows in any order.
            for windows in all.chunks(BATCH_ROWS) {
                let answers: Vec<Box<dyn Partials>> = answers_above(slices, partials, windows, delta)?.into();
                results.add(queries, query, (windows, rows), keys, Some(&answers))?;
            }
        } else {
            let (all, most) = batches(all, gathered.slices, |each| gathered.range(each));
            for windows in all.into_iter().flat_map(|windows| windows.chunks(most)) {
                let of_slices: Vec<&dyn Partials> =
                    partials.iter().filter_map(|&at| gathered.partial(at)).collect();
                let ranges: Vec<(u32, u32)> = windows.iter().map(|each| gathered.range(each)).collect();
                let mut of_slices = answers(&of_slices, &ranges)?.into_iter();
                let mut above = answers_above(slices, partials, windows, delta)?;
                let next =
                    |&at: &usize| if slices.above.has(at) { above.pop_front() } else { of_slices.next() };
                let answers: Vec<Box<dyn Partials>> = partials.iter().filter_map(next).collect();
                results.add(queries, query, (windows, rows), keys, Some(&answers))?;
            }
        }
        if !withdrawn.is_empty() {
            results.add(queries, query, (&withdrawn, rows), keys, None)?;
        }
    }
    Ok(results)
}

/// The partials of windows, as far as the aggregate store above the slices answers these `partials`.
fn answers_above(
    slices: &mut SliceManager,
    partials: &[usize],
    windows: &[Outgoer],
    delta: &Delta,
) -> Result<VecDeque<Box<dyn Partials>>> {
    let wanted =
        |each: &Outgoer| Wanted { key: each.key, slices: each.found.lo as usize..each.found.hi as usize };
    slices.above.answer(
        (&slices.store, delta),
        &slices.timelines,
        partials,
        windows.iter().map(wanted),
        check,
    )
}

/// The slices that windows need, for those partials that the aggregate store above the slices does not answer.
fn gather(
    queries: &Queries,
    slices: &SliceManager,
    outgoing: &[Outgoing],
    delta: &Delta,
) -> Result<Gathered> {
    let mut which: Vec<usize> = Vec::new();
    let emitted = queries.registered().iter().zip(outgoing);
    for (registered, _) in emitted.filter(|(_, outgoing)| !outgoing.windows.is_empty()) {
        which.extend(registered.partials.iter().filter(|&&at| !slices.above.has(at)));
    }
    if which.is_empty() {
        return Ok(Gathered::default());
    }
    which.sort_unstable();
    which.dedup();
    // The slices of each key that some window needs, one key after the other.
    let windows = || outgoing.iter().flat_map(|outgoing| &outgoing.windows);
    let keys = Numbers::of(windows().map(|each| each.key), slices.timelines.keys());
    let mut needed = vec![(u32::MAX, 0); keys.len()];
    let mut pace = Pace::new();
    pace.check(needed.len())?;
    for each in windows() {
        pace.check(1)?;
        let (lo, hi) = &mut needed[keys.number(each.key)];
        (*lo, *hi) = (each.found.lo.min(*lo), each.found.hi.max(*hi));
    }
    let (mut wanted, mut places, mut count) = (Vec::new(), vec![0; needed.len()], 0);
    for (number, &(lo, hi)) in needed.iter().enumerate().filter(|(_, (lo, hi))| lo < hi) {
        wanted.push(Wanted { key: keys.key(number), slices: lo as usize..hi as usize });
        places[number] = count as i64 - i64::from(lo);
        count += (hi - lo) as usize;
    }
    if u32::try_from(count).is_err() {
        return Err(Error::InvalidValue(format!(
            "watermark: windows of {count} slices are final at once; at most {} can be, so advance in smaller steps",
            u32::MAX
        )));
    }
    let partials = slices.store.gather(delta, &slices.timelines, (&wanted, &which), check)?;
    Ok(Gathered { which, partials, keys, places, slices: count })
}

/// Where windows are fewer than one to so many keys, only the keys of these have numbers.
const SPARSE: usize = 8;

/// Numbers of the keys of windows, in their order.
enum Numbers {
    /// So many keys, each with its own number.
    All(usize),
    /// These keys, which ascend.
    Some(Vec<u32>),
}

impl Default for Numbers {
    fn default() -> Self {
        Self::All(0)
    }
}

impl Numbers {
    /// Numbers of the keys of these windows, where the stream has `all` keys.
    fn of(windows: impl Iterator<Item = u32> + Clone, all: usize) -> Self {
        if windows.clone().take(all / SPARSE + 1).count() > all / SPARSE {
            return Self::All(all);
        }
        let mut keys: Vec<u32> = windows.collect();
        keys.sort_unstable();
        keys.dedup();
        Self::Some(keys)
    }

    fn len(&self) -> usize {
        match self {
            Self::All(keys) => *keys,
            Self::Some(keys) => keys.len(),
        }
    }

    fn key(&self, number: usize) -> u32 {
        match self {
            Self::All(_) => number as u32,
            Self::Some(keys) => keys[number],
        }
    }

    /// The number of a key that has one.
    fn number(&self, key: u32) -> usize {
        match self {
            Self::All(_) => key as usize,
            Self::Some(keys) => keys.partition_point(|&other| other < key),
        }
    }
}

/// The results of windows, query by query.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) results: Vec<Answer>,
    /// Windows all of whose rows were taken back, if the query's results can be retracted.
    pub(super) vanished: Vec<Answer>,
}

impl Answers {
    /// Adds a batch of results, or of withdrawn windows if there are no answers.
    pub(super) fn add(
        &mut self,
        queries: &Queries,
        query: usize,
        (windows, of_rows): (&[Outgoer], &[Ranks]),
        keys: &StreamKeys,
        answers: Option<&[Box<dyn Partials>]>,
    ) -> Result<()> {
        check()?;
        let registered = &queries.registered()[query];
        let plan = &registered.plan;
        let rows = windows.len();
        let Lowered { columns: lowered, rows: of_windows } = match answers {
            Some(answers) => lowered(plan, &answers.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
            None => {
                let fields = plan.output().fields();
                let aggregates = &fields[fields.len() - plan.aggregates().len()..];
                let columns =
                    aggregates.iter().map(|field| new_null_array(field.data_type(), rows)).collect();
                Lowered { columns, rows: None }
            }
        };
        let mut key_columns: Vec<ArrayRef> = Vec::with_capacity(queries.schema().fields().len());
        let numbers: Vec<u32> = windows.iter().map(|each| each.key).collect();
        key_columns.extend(keys.columns_of(&numbers)?);
        let extents: ArrayRef = match answers {
            Some(_) => {
                let starts = windows.iter().map(|each| each.found.start).collect();
                let ends = windows.iter().map(|each| each.found.end).collect();
                queries.results().extents(starts, ends)?
            }
            None => queries.results().no_extents(rows),
        };
        let (ranks, numbers) = match of_rows.is_empty() {
            true => (None, None),
            false => rank_columns(windows, of_rows, |window| {
                let window = &plan.windows()[window as usize].1;
                (window.is_ranked(), window.is_numbered())
            })?,
        };
        let which: Vec<u32> = windows.iter().map(|each| each.window).collect();
        let updates = BooleanBuffer::collect_bool(rows, |at| windows[at].update);
        let columns = WindowColumns { extents, which, updates: updates.clone().into(), ranks, numbers };
        let of_query = (registered.name.as_str(), &registered.columns);
        let batch = queries.results().batch(of_query, key_columns, columns, lowered)?;
        let windows = match plan.policy() {
            None => Vec::new(),
            Some(_) => windows.iter().map(|each| each.answered(registered, of_rows)).collect(),
        };
        let answer = Answer { entry: registered.entry, batch, updates, windows };
        match of_windows {
            Some(rows) if rows.contains(&0) => self.add_weighed(answer, &rows, plan.policy().is_some()),
            _ => {
                self.results.push(answer);
                Ok(())
            }
        }
    }

    /// Adds results of windows some of which have no rows left. Such a window is left out, or retracted; without a policy,
    /// an update that leaves no row in a window has the values of none.
    fn add_weighed(&mut self, answer: Answer, rows: &[i64], retracts: bool) -> Result<()> {
        let stays = |at: usize| rows[at] > 0 || !retracts && answer.updates.value(at);
        let staying = BooleanBuffer::collect_bool(rows.len(), stays);
        if retracts {
            self.vanished.push(answer.only(&!&staying)?);
        }
        if staying.count_set_bits() > 0 {
            self.results.push(answer.only(&staying)?);
        }
        Ok(())
    }
}

/// Removes withdrawn windows; sorts the others by window and key, if some are determined by rows.
fn withdrawn(outgoing: &mut Outgoing) -> Vec<Outgoer> {
    if outgoing.of_rows.is_empty() {
        return Vec::new();
    }
    let withdrawn = outgoing.windows.extract_if(.., |each| each.found.lo == each.found.hi).collect();
    outgoing.windows.sort_by_key(|each| (each.window, each.key));
    withdrawn
}

impl Outgoer {
    /// What an emission policy needs to know of a window.
    fn answered(&self, registered: &Registered, of_rows: &[Ranks]) -> Answered {
        let is_there = self.found.lo < self.found.hi;
        let extent = is_there.then_some((self.found.start, self.found.end));
        let ranks = |&((first, last), number): &Ranks| ((first as i64, last as i64), number);
        let (ranks, number) = of_rows.get(self.of_rows as usize).map(ranks).unwrap_or_default();
        let window = &registered.plan.windows()[self.window as usize].1;
        let identity = window.identity(extent.unwrap_or_default(), ranks, number);
        Answered { key: self.key, window: registered.windows[self.window as usize], extent, identity }
    }
}

/// The columns of ranks and of numbers; `has` says which of them each window type has.
fn rank_columns(
    windows: &[Outgoer],
    of_rows: &[Ranks],
    has: impl Fn(u32) -> (bool, bool),
) -> Result<(Option<ArrayRef>, Option<ArrayRef>)> {
    let of = |each: &Outgoer| (each.of_rows != NONE).then(|| of_rows[each.of_rows as usize]);
    let ranked: Vec<bool> = windows.iter().map(|each| has(each.window).0).collect();
    let rank = |which: fn((u64, u64)) -> u64| -> ArrayRef {
        let ranks = windows.iter().zip(&ranked);
        let ranks = ranks
            .map(|(each, &ranked)| of(each).filter(|_| ranked).map_or(0, |(ranks, _)| which(ranks) as i64));
        Arc::new(Int64Array::from_iter_values(ranks))
    };
    let both = vec![rank(|ranks| ranks.0), rank(|ranks| ranks.1)];
    let ranks = StructArray::try_new(rank_fields(), both, Some(ranked.clone().into()))?;
    let number = |each: &Outgoer| of(each).filter(|_| has(each.window).1).map(|(_, number)| number);
    let numbers: Int64Array = windows.iter().map(number).collect();
    Ok((Some(Arc::new(ranks)), Some(Arc::new(numbers))))
}

/// Partials of slices that windows need, one slice after the other.
#[derive(Default)]
struct Gathered {
    /// Which partials these are.
    which: Vec<usize>,
    partials: Vec<Box<dyn Partials>>,
    keys: Numbers,
    /// Where slice 0 of each key would be, by its number: may be negative.
    places: Vec<i64>,
    slices: usize,
}

impl Gathered {
    /// Where the slices of a window are.
    fn range(&self, window: &Outgoer) -> (u32, u32) {
        let place = self.places[self.keys.number(window.key)];
        ((place + i64::from(window.found.lo)) as u32, (place + i64::from(window.found.hi)) as u32)
    }

    fn partial(&self, partial: usize) -> Option<&dyn Partials> {
        let at = self.which.binary_search(&partial).ok()?;
        Some(self.partials[at].as_ref())
    }
}

/// Whether a range may follow another: neither of its ends lies before the other's.
fn follows(before: (u32, u32), after: (u32, u32)) -> bool {
    before.0 <= after.0 && before.1 <= after.1
}

/// Groups the windows of one query whose partials are computed together: all of them, or those of one window type,
/// whichever is less work given the number of types, slices and windows; and how many of a group make a batch.
fn batches(
    windows: &[Outgoer],
    slices: usize,
    range: impl Fn(&Outgoer) -> (u32, u32),
) -> (Vec<&[Outgoer]>, usize) {
    let types: Vec<&[Outgoer]> = windows.chunk_by(|a, b| follows(range(a), range(b))).collect();
    let height = (usize::BITS - slices.leading_zeros()) as usize;
    // Type by type, each pass reads its slices; together, there is one tree over the slices, and a window visits twice
    // its height in nodes.
    match types.len() * slices > slices + 2 * height * windows.len() && !windows.is_empty() {
        // The tree is built for each batch.
        true => (vec![windows], BATCH_ROWS.max(slices)),
        false => (types, BATCH_ROWS),
    }
}

/// The partials of windows, each a range of slices.
fn answers(partials: &[&dyn Partials], pairs: &[(u32, u32)]) -> Result<Vec<Box<dyn Partials>>> {
    let in_order = pairs.is_sorted_by(|&a, &b| follows(a, b));
    let ranges = |pairs: &[(u32, u32)]| {
        let mut ranges = Ranges::with_capacity(pairs.len());
        pairs.iter().for_each(|&(lo, hi)| ranges.push(lo, hi));
        ranges
    };
    let answer = |partials: &&dyn Partials| {
        check()?;
        if in_order {
            return partials.answer(&ranges(pairs));
        }
        if let Some(answer) = partials.answer_any(pairs) {
            return Ok(answer);
        }
        // Window type by window type, in the order they are listed.
        let mut all = partials.empty();
        for pairs in pairs.chunk_by(|&a, &b| follows(a, b)) {
            all.append(partials.answer(&ranges(pairs))?);
        }
        Ok(all)
    };
    partials.iter().map(answer).collect()
}
