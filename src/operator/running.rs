//! An operator over a stream with all its queries: those that slices answer, and those that need rows.
//!
//! Which one a query is follows from the decision tree of Traub et al. (2019, Fig. 4) and from its windows. Both parts see
//! every row and every watermark, and a call takes place in both or in none. So a query that needs rows costs the others
//! nothing, and once it is gone its rows are, too.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;

use super::keeping::Keeper;
use super::plan::Plan;
use super::stream::{
    Contents, Entry, Late, Options, Queries, Reason, Stats, Stream, bound, check_schema, head, strategy,
    write_head,
};
use crate::slice::strategy::{Order, Strategy};
use crate::state::{Reader, Writer, broken};
use crate::window::Window;
use crate::{Error, Result};

/// A stream operator.
pub struct Running {
    pub(super) options: Options,
    /// All queries in the order they came; `own` are those that slices answer.
    pub(super) entries: Vec<Entry>,
    /// Whether there ever was more than one.
    pub(super) several: bool,
    pub(super) strategy: Strategy,
    pub(super) sliced: Option<Stream>,
    pub(super) kept: Option<Keeper>,
    /// Late rows, but those that the part of slices knows of.
    pub(super) late: Late,
    /// What parts that are gone did, and rows that both parts took.
    pub(super) past: Stats,
    pub(super) closed: bool,
}

/// Whether slices answer a query: no window is told by rows, and no function needs them in order.
pub(super) fn is_sliced(plan: &Plan, order: Order) -> Result<bool> {
    Ok(!plan.needs_rows() && !strategy(std::iter::once(plan), order)?.keep_rows.answer)
}

impl Running {
    /// An operator for these queries, which are bound to one schema.
    ///
    /// # Errors
    /// `InvalidValue` if they have different keys or time columns, or columns of one name and different types.
    pub fn new(queries: Vec<(String, Arc<Plan>)>, options: Options) -> Result<Self> {
        let entries = queries.into_iter().map(|(name, plan)| {
            let own = is_sliced(&plan, options.order)?;
            Ok(Entry { name, plan, since: None, own })
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let several = entries.len() > 1;
        Self::with(entries, several, options, (None, None))
    }

    /// An operator whose stream has come so far.
    pub(super) fn with(
        entries: Vec<Entry>,
        several: bool,
        options: Options,
        reached: (Option<i64>, Option<i64>),
    ) -> Result<Self> {
        if options.order == Order::InOrder && options.allowed_lateness != 0 {
            return Err(Error::InvalidValue(format!(
                "allowed_lateness: {} is given for a stream in order, where no row is late; it is for \
                 order='out-of-order'",
                options.allowed_lateness
            )));
        }
        let (sliced, kept) = parts(&entries, several)?;
        let sliced = sliced.map(|queries| Stream::part(queries, options, reached)).transpose()?;
        let kept = kept.map(|queries| Keeper::new(queries, options, reached)).transpose()?;
        let Some(leader) = entries.first() else {
            return Err(Error::InvalidValue("queries: none given; an operator has at least one".into()));
        };
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), options.order)?;
        let late = Late::new(leader.plan.input());
        let past = Stats::default();
        Ok(Self { options, entries, several, strategy, sliced, kept, late, past, closed: false })
    }

    /// The schema of results: keys, `query_name` once there was more than one query, `window_name` if a query has more
    /// than one window, the window, `window_rows` if a window is measured by rows, `window_number` if one is told by rows,
    /// all queries' aggregates, and `update`.
    pub fn schema(&self) -> &SchemaRef {
        self.queries().schema()
    }

    /// The queries of one of the parts, and with them all.
    fn queries(&self) -> &Queries {
        match (&self.sliced, &self.kept) {
            (Some(sliced), _) => sliced.queries(),
            (None, Some(kept)) => kept.queries(),
            (None, None) => unreachable!("an operator has at least one query"),
        }
    }

    fn leader(&self) -> &Plan {
        &self.entries[0].plan
    }

    /// The schema of rows.
    pub fn input(&self) -> &SchemaRef {
        self.leader().input()
    }

    /// What is stored, and why (Traub et al. 2019, Figs. 4-6).
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// How the stream comes.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Whether [`Running::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The names of the queries that rows are kept for.
    pub fn keeping(&self) -> Vec<&str> {
        self.entries.iter().filter(|entry| !entry.own).map(|entry| entry.name.as_str()).collect()
    }

    /// How slices are held, and why; none if there are only slices with rows.
    pub fn store_told(&self) -> Option<(&'static str, &'static str)> {
        self.sliced.as_ref().map(Stream::store_told)
    }

    /// How far the stream is complete.
    pub fn watermark(&self) -> Option<i64> {
        match (&self.sliced, &self.kept) {
            (Some(sliced), _) => sliced.watermark(),
            (None, kept) => kept.as_ref().and_then(Keeper::watermark),
        }
    }

    fn latest(&self) -> Option<i64> {
        match (&self.sliced, &self.kept) {
            (Some(sliced), _) => sliced.latest(),
            (None, kept) => kept.as_ref().and_then(Keeper::latest),
        }
    }

    /// See [`Stream::push`].
    ///
    /// # Errors
    /// As [`Stream::push`].
    pub fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        self.check_open("push")?;
        if let (Some(sliced), None) = (&mut self.sliced, &self.kept) {
            return sliced.push(batches);
        }
        let input = self.input().clone();
        batches.iter().try_for_each(|batch| check_schema(&input, batch))?;
        let (late, taken) = self.late_of(batches)?;
        let results = self.both(|kept| kept.take_in(batches), |sliced| sliced.try_push(batches))?;
        self.late.add(late);
        self.past.rows += taken;
        Ok(results)
    }

    /// See [`Stream::advance`].
    ///
    /// # Errors
    /// As [`Stream::advance`].
    pub fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>> {
        self.check_open("advance")?;
        if let Some(last) = self.watermark().filter(|&last| watermark < last) {
            let measure = self.leader().measure();
            return Err(Error::InvalidValue(format!(
                "watermark: {watermark} is before the last one, {last} (both in {} of '{}'); a watermark never goes \
                 back",
                measure.unit_name(),
                measure.column()
            )));
        }
        let watermark = Some(watermark);
        self.both(|kept| kept.moved(watermark, false), |sliced| sliced.try_move(watermark))
    }

    /// Ends the stream: hands out all windows that are left.
    ///
    /// # Errors
    /// As [`Stream::advance`].
    pub fn close(&mut self) -> Result<Vec<RecordBatch>> {
        self.check_open("close")?;
        let Some(kept) = &mut self.kept else {
            let results = match &mut self.sliced {
                Some(sliced) => sliced.close()?,
                None => Vec::new(),
            };
            self.closed = true;
            return Ok(results);
        };
        let _ = kept;
        let end = Some(i64::MAX);
        let results = self.both(|kept| kept.moved(end, true), |sliced| sliced.try_move(end))?;
        if let Some(kept) = &mut self.kept {
            kept.clear();
        }
        if let Some(sliced) = &mut self.sliced {
            sliced.end();
        }
        self.closed = true;
        Ok(results)
    }

    /// Puts a punctuation after the rows up to this time that have come: of the key that these columns of one row tell,
    /// or of all. In order it is a row, too: nothing comes before it any more.
    ///
    /// # Errors
    /// `InvalidValue` after [`Running::close`], if no window is told by punctuation, and for a time that no row could have
    /// any longer; what a user's function raises.
    pub fn punctuate(&mut self, time: i64, key: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        self.check_open("punctuate")?;
        let is_punctuated = |entry: &Entry| {
            entry.plan.windows().iter().any(|(_, window)| matches!(window, Window::Punctuation(_)))
        };
        if !self.entries.iter().any(is_punctuated) {
            return Err(Error::InvalidValue(
                "punctuate: no window of this operator is told by punctuation; those of windowkit.punctuation() are"
                    .into(),
            ));
        }
        let (column, in_order) = (self.leader().measure().column(), self.options.order == Order::InOrder);
        let least = match in_order {
            true => self.latest().max(self.watermark()),
            false => self.kept.as_ref().and_then(Keeper::cutoff),
        };
        if let Some(least) = least.filter(|&least| time < least) {
            return Err(Error::InvalidValue(format!(
                "punctuate: {time} is before {least} in column '{column}'; no row could have that time any longer"
            )));
        }
        let (low, high) =
            self.kept.as_ref().map_or((i64::MIN, i64::MAX), |kept| kept.queries().edges().bounds());
        if time < low || time > high {
            return Err(Error::Overflow(format!(
                "punctuate: {time} is so near the end of int64 that windows would not fit; allowed are times from {low} \
                 to {high}"
            )));
        }
        let watermark = if in_order { Some(time) } else { self.watermark() };
        self.both(|kept| kept.punctuate(time, key, watermark), |sliced| sliced.try_move(watermark))
    }

    /// Tries a call in both parts, and keeps it if neither fails.
    fn both(
        &mut self,
        in_kept: impl FnOnce(&mut Keeper) -> Result<super::keeping::Outcome>,
        in_sliced: impl FnOnce(&mut Stream) -> Result<super::stream::Outcome>,
    ) -> Result<Vec<RecordBatch>> {
        let base = self.kept.as_ref().map_or(0, Keeper::next);
        let kept = self.kept.as_mut().map(in_kept).transpose();
        let sliced = match &kept {
            Ok(_) => self.sliced.as_mut().map(in_sliced).transpose(),
            Err(error) => Err(error.clone()),
        };
        let failed = kept.as_ref().err().or(sliced.as_ref().err()).cloned();
        let kept = match failed.clone() {
            Some(error) => Some(Err(error)),
            None => kept?.map(Ok),
        };
        let sliced = match failed.clone() {
            Some(error) => Some(Err(error)),
            None => sliced?.map(Ok),
        };
        let mut results = Vec::new();
        let mut done = Ok(());
        if let (Some(part), Some(outcome)) = (&mut self.sliced, sliced) {
            done = done.and(part.keep(outcome).map(|own| results.extend(own)));
        }
        if let (Some(part), Some(outcome)) = (&mut self.kept, kept) {
            done = done.and(part.finish(outcome, base).map(|own| results.extend(own)));
        }
        done.and(failed.map_or(Ok(results), Err))
    }

    /// Rows of batches that no part takes, with the reason, and how many rows are taken.
    fn late_of(&self, batches: &[RecordBatch]) -> Result<(Vec<RecordBatch>, u64)> {
        let kept = self.kept.as_ref().map(Keeper::cutoff);
        let sliced = self.sliced.as_ref().map(Stream::least_taken);
        // None of a part is below any other: that part takes every row.
        let cutoff = kept.into_iter().chain(sliced).min().flatten();
        let leader = self.leader();
        let (mut late, mut taken) = (Vec::new(), 0);
        for batch in batches {
            let time = batch.column(leader.time());
            let mut valid = batch.clone();
            if let Some(nulls) = time.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                let null = BooleanArray::new(!nulls.inner(), None);
                late.push(self.late.batch(&filter_record_batch(batch, &null)?, Reason::NullTime)?);
                valid = filter_record_batch(batch, &BooleanArray::new(nulls.inner().clone(), None))?;
            }
            taken += valid.num_rows() as u64;
            let Some(cutoff) = cutoff else { continue };
            let times = leader.measure().read(valid.column(leader.time()))?;
            let refused = BooleanBuffer::collect_bool(times.len(), |row| times[row] < cutoff);
            let count = refused.count_set_bits();
            if count > 0 {
                taken -= count as u64;
                let refused = BooleanArray::new(refused, None);
                late.push(self.late.batch(&filter_record_batch(&valid, &refused)?, Reason::TooLate)?);
            }
        }
        Ok((late, taken))
    }

    /// Rows that came too late or without a time, with the reason, those handed out before left out.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        let mut late = self.late.take();
        late.extend(self.sliced.iter_mut().flat_map(Stream::take_late));
        late
    }

    /// The schema of [`Running::take_late`].
    pub fn late_schema(&self) -> &SchemaRef {
        self.late.schema()
    }

    /// What the operator holds and did.
    pub fn stats(&self) -> Stats {
        let none = Stats::default;
        let sliced = self.sliced.as_ref().map_or_else(none, Stream::stats);
        let kept = self.kept.as_ref().map_or_else(none, Keeper::stats);
        Stats {
            keys: sliced.keys.max(kept.keys),
            slices: sliced.slices + kept.slices,
            rows_kept: kept.rows_kept,
            bytes: sliced.bytes + kept.bytes,
            late: self.late.count() + sliced.late,
            late_bytes: self.late.bytes() + sliced.late_bytes,
            rows: self.past.rows + sliced.rows,
            ..added(added(self.past, sliced), kept)
        }
    }

    /// Adds a query. Its stream is that of times after all rows and watermarks so far, and its windows are those that
    /// begin there: of others it has not seen all rows.
    ///
    /// # Errors
    /// `InvalidValue` after [`Running::close`], for a name that there is, and for other keys or another time.
    pub fn add(&mut self, name: String, plan: Arc<Plan>) -> Result<()> {
        self.check_open("add")?;
        let own = is_sliced(&plan, self.options.order)?;
        let (watermark, latest) = (self.watermark(), self.latest());
        let mut entries = self.entries.clone();
        entries.push(Entry { name, plan, since: latest.max(watermark), own });
        let (sliced, kept) = parts(&entries, true)?;
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), self.options.order)?;
        let (mut sliced, mut kept) = (sliced, kept);
        // What can fail comes first, and only in the part that gets the query.
        if own {
            match (&mut self.sliced, sliced.take()) {
                (Some(part), Some(queries)) => part.change_to(queries, None)?,
                (part, Some(queries)) => {
                    *part = Some(Stream::part(queries, self.options, (watermark, latest))?)
                }
                (_, None) => {}
            }
        } else {
            match (&mut self.kept, kept.take()) {
                (Some(part), Some(queries)) => {
                    let places: Vec<_> = (0..part.queries().asked().len()).map(Some).collect();
                    part.change(queries, &places)?;
                }
                (part, Some(queries)) => {
                    *part = Some(Keeper::new(queries, self.options, (watermark, latest))?)
                }
                (_, None) => {}
            }
        }
        self.share(sliced, kept);
        if self.kept.is_some()
            && let Some(sliced) = &mut self.sliced
        {
            self.late.absorb(sliced.take_log());
        }
        (self.entries, self.several, self.strategy) = (entries, true, strategy);
        Ok(())
    }

    /// Removes a query; what only it needed is stored no longer.
    ///
    /// # Errors
    /// `InvalidValue` after [`Running::close`], for a name that there is not, and for the only query.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.check_open("remove")?;
        let Some(at) = self.entries.iter().position(|entry| entry.name == name) else {
            let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
            return Err(Error::InvalidValue(format!(
                "query: there is none named '{name}'; there are '{}'",
                names.join("', '")
            )));
        };
        if self.entries.len() == 1 {
            return Err(Error::InvalidValue(format!(
                "query: '{name}' is the only one; an operator has at least one query"
            )));
        }
        let mut entries = self.entries.clone();
        let gone = entries.remove(at);
        let (mut sliced, mut kept) = parts(&entries, self.several)?;
        let strategy = strategy(entries.iter().map(|entry| &*entry.plan), self.options.order)?;
        if gone.own {
            if let Some(part) = &mut self.sliced {
                let place = part.queries().asked().iter().position(|asked| asked.name == name);
                match sliced.take() {
                    Some(queries) => part.change_to(queries, place)?,
                    None => {
                        self.late.absorb(part.take_log());
                        self.past = added(self.past, Stats { late: 0, ..part.counts() });
                        self.past.rows += part.counts().rows;
                        self.sliced = None;
                    }
                }
            }
        } else if let Some(part) = &mut self.kept {
            match kept.take() {
                Some(queries) => {
                    let place = |asked: &super::stream::Asked| {
                        queries.asked().iter().position(|other| other.name == asked.name)
                    };
                    let places: Vec<_> = part.queries().asked().iter().map(place).collect();
                    part.change(queries, &places)?;
                }
                None => {
                    self.past = added(self.past, part.stats());
                    self.kept = None;
                }
            }
        }
        self.share(sliced, kept);
        (self.entries, self.strategy) = (entries, strategy);
        Ok(())
    }

    /// Tells parts whose own queries stay which others there are.
    fn share(&mut self, sliced: Option<Queries>, kept: Option<Queries>) {
        if let (Some(part), Some(queries)) = (&mut self.sliced, sliced) {
            part.set_queries(queries);
        }
        if let (Some(part), Some(queries)) = (&mut self.kept, kept) {
            part.set_queries(queries);
        }
    }

    /// All slices, key by key: keys, `t_start`, `t_end`, `t_first` and `t_last`; those that rows are kept of come last.
    pub fn slices(&mut self) -> Result<RecordBatch> {
        let mut all = Vec::new();
        if let Some(part) = &mut self.sliced {
            all.push(part.slices()?);
        }
        if let Some(part) = &mut self.kept {
            all.push(part.slices()?);
        }
        match &all[..] {
            [only] => Ok(only.clone()),
            [first, ..] => Ok(concat_batches(&first.schema(), &all)?),
            [] => Err(Error::Internal("an operator without queries".into())),
        }
    }

    /// All that the operator holds, as bytes for [`Running::restore`]. O(slices + rows kept).
    ///
    /// # Errors
    /// `Overflow` if the partial of a slice does not fit the type in which it travels; what a user's function raises.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        let queries = self.entries.iter().map(|entry| (entry.name.as_str(), &*entry.plan, entry.since));
        write_head(&mut to, self.input(), self.options, queries)?;
        to.number(u64::from(self.several));
        to.number(u64::from(self.closed));
        to.number(self.late.count());
        to.batches(self.late.schema(), self.late.batches())?;
        let Stats { rows, windows, updates, splits, merges, shifts, recomputations, .. } = self.past;
        for count in [rows, windows, updates, splits, merges, shifts, recomputations] {
            to.number(count);
        }
        to.bytes(&self.sliced.as_ref().map_or_else(|| Ok(Vec::new()), Stream::snapshot)?);
        if let Some(kept) = &self.kept {
            kept.save(&mut to)?;
        }
        Ok(to.finish())
    }

    /// What a snapshot is of.
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, or damaged.
    pub fn contents(snapshot: &[u8]) -> Result<Contents> {
        Stream::contents(snapshot)
    }

    /// The operator that a snapshot is of; `queries` are its queries, bound to the schema of [`Running::contents`].
    ///
    /// # Errors
    /// `InvalidValue`: it is no snapshot, of another version, cut off, damaged, or of other queries.
    pub fn restore(snapshot: &[u8], queries: Vec<(String, Arc<Plan>)>) -> Result<Self> {
        let mut from = Reader::new(snapshot)?;
        let (_, options, known) = head(&mut from)?;
        let entries = bound(queries, known)?.into_iter().map(|(name, plan, since)| {
            let own = is_sliced(&plan, options.order)?;
            Ok(Entry { name, plan, since, own })
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let several = from.number()? != 0;
        let mut this = Self::with(entries, several, options, (None, None))?;
        this.closed = from.number()? != 0;
        let late = from.number()?;
        let (late_schema, late_batches) = from.batches()?;
        let input = this.input().clone();
        this.late = Late::restore(&input, late_batches, late);
        if late_schema.fields() != this.late.schema().fields() {
            return broken();
        }
        let counts: Vec<u64> = (0..7).map(|_| from.number()).collect::<Result<_>>()?;
        let [rows, windows, updates, splits, merges, shifts, recomputations] = counts[..] else {
            return broken();
        };
        this.past =
            Stats { rows, windows, updates, splits, merges, shifts, recomputations, ..Stats::default() };
        let sliced = from.bytes()?;
        if this.sliced.is_some() == sliced.is_empty() {
            return broken();
        }
        if let Some(part) = &mut this.sliced {
            let own = this.entries.iter().filter(|entry| entry.own);
            let own = own.map(|entry| (entry.name.clone(), entry.plan.clone())).collect();
            let queries = part.queries().clone();
            *part = Stream::restore(sliced, own)?;
            // It is closed by itself only where it is the only part.
            if part.options() != options || part.is_closed() && !this.closed {
                return broken();
            }
            part.set_queries(queries);
        }
        if let Some(part) = &mut this.kept {
            *part = Keeper::load(&mut from, part.queries().clone(), options)?;
        }
        match from.is_empty() {
            true => Ok(this),
            false => broken(),
        }
    }

    fn check_open(&self, call: &str) -> Result<()> {
        if self.closed {
            return Err(Error::InvalidValue(format!(
                "{call}: the operator is closed; nothing comes after close()"
            )));
        }
        Ok(())
    }
}

/// The queries of each part, if it has any.
#[allow(clippy::type_complexity, reason = "a name would not say more than the pair")]
fn parts(entries: &[Entry], several: bool) -> Result<(Option<Queries>, Option<Queries>)> {
    // Whatever is wrong with the queries is wrong with all of them together.
    let of = |sliced: bool| {
        let own = entries.iter().cloned().map(|entry| Entry { own: entry.own == sliced, ..entry });
        Queries::among(own.collect(), several)
    };
    let some = |queries: Queries| (!queries.asked().is_empty()).then_some(queries);
    Ok((some(of(true)?), some(of(false)?)))
}

/// What two parts did, together; what they hold, and rows and late rows, are left as of the first.
fn added(a: Stats, b: Stats) -> Stats {
    Stats {
        splits: a.splits + b.splits,
        merges: a.merges + b.merges,
        shifts: a.shifts + b.shifts,
        recomputations: a.recomputations + b.recomputations,
        windows: a.windows + b.windows,
        updates: a.updates + b.updates,
        ..a
    }
}
