//! Columns of partial aggregates of any kind: a small core, and what only some of them can do.

use std::any::Any;

use arrow_array::ArrayRef;

use super::properties::Properties;
use super::rows::{Rows, Run};
use crate::kernels::Ranges;
use crate::{Error, Result};

/// A column of partial aggregates, one per slot.
///
/// Where a method takes another column, it must be of the same kind, as made by [`Partials::empty`].
pub trait Partials: Any + Send + Sync {
    /// See [`super::Aggregate::properties`].
    fn properties(&self) -> Properties;

    /// See [`super::Aggregate::update`].
    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()>;

    /// See [`super::Aggregate::merge`].
    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()>;

    /// Appends the slots of another column.
    fn append(&mut self, other: Box<dyn Partials>);

    /// A column of this kind without slots.
    fn empty(&self) -> Box<dyn Partials>;

    /// A column with one slot per group of slots, `slots[groups[g]..groups[g + 1]]`, combined in that order.
    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>>;

    /// A column with one slot per range of slots: the windows' aggregates. Those of lists, multisets and HyperLogLog are
    /// views of the slots here; to append or regroup such a column copies the values of all its windows.
    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>>;

    /// See [`super::Aggregate::state`].
    fn state(&self) -> Result<Vec<ArrayRef>>;

    /// See [`super::Aggregate::lower`].
    fn lower(&self) -> Result<ArrayRef>;

    /// Bytes held.
    fn bytes(&self) -> usize;

    /// The slots as states of fixed size, if they are.
    fn states(&self) -> Option<&dyn States> {
        None
    }

    /// The slots as states of fixed size, mutable.
    fn states_mut(&mut self) -> Option<&mut dyn States> {
        None
    }

    /// An empty set of tree nodes that are sorted runs, where partials are multisets that support them.
    fn run_nodes(&self) -> Option<Box<dyn RunNodes>> {
        None
    }

    /// Whether [`Partials::take_out`] can remove any value.
    fn takes_out(&self) -> bool {
        false
    }

    /// Removes from slots the contents of the slots of `lost`, another column: slot n of it was combined into slot
    /// `slots[n]`, in which `left[n]` says whether a value remains. Returns for each whether that was possible; the
    /// others are unchanged (Traub et al. 2019, Fig. 6).
    ///
    /// # Errors
    /// Errors of a user-defined function.
    fn take_out(&mut self, slots: &[u32], lost: &dyn Partials, left: &[bool]) -> Result<Vec<bool>> {
        let _ = (lost, left);
        Ok(vec![false; slots.len()])
    }

    /// Whether [`Partials::without`] can subtract any other column of the kind.
    fn subtracts(&self) -> bool {
        self.takes_out()
    }

    /// The slots less the contents of the same slots of another column; `left` says in which of them a value remains.
    ///
    /// # Errors
    /// `InvalidValue` if a slot does not contain what is taken from it, as far as that is known, or the kind does not
    /// subtract; errors of a user-defined function.
    fn without(&self, lost: &dyn Partials, left: &[bool]) -> Result<Box<dyn Partials>> {
        let each: Vec<u32> = (0..left.len() as u32).collect();
        let mut rest = self.regroup(&each, &each)?;
        match rest.take_out(&each, lost, left)?.contains(&false) {
            false => Ok(rest),
            true => Err(without_inverse()),
        }
    }

    /// Maintains the data held besides the slots.
    ///
    /// # Errors
    /// Errors of a user-defined function, or of Arrow.
    fn keep_up(&mut self, what: Upkeep) -> Result<()> {
        let _ = what;
        Ok(())
    }
}

/// A partial that [`Partials::subtracts`] excludes was asked to.
pub(super) fn without_inverse() -> Error {
    Error::Internal("values are taken back from a partial that has no inverse".into())
}

/// Maintenance of the data that a column holds besides its slots, such as values that slots point to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Call every function that is still to be called for the rows so far.
    Settle,
    /// Drop values that no slot points to.
    Shrink,
    /// Drop such values once they are the majority, where that is known without looking at all slots. Amortised O(1) per value
    /// taken in.
    Compact,
    /// Reorder rows of one time in different slots by the order of the slots, instead of the order in which they were
    /// folded. O(values).
    Renumber,
}

/// Slots that are states of fixed size: operations that change them in place, and that aggregate any range of them.
///
/// A technique that keeps a tree of partials only does arithmetic on slots: the combinations are written down as a
/// program, and each column runs it in one call.
pub trait States {
    /// Whether states refer to nothing, so that states of one column can be written to another.
    fn is_plain(&self) -> bool;

    /// As [`Partials::regroup`] of the slots of this column, followed by those of another. Of plain states only.
    fn regroup_both(&self, later: &dyn Partials, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>>;

    /// As [`Partials::answer`] for ranges in any order.
    fn answer_any(&self, ranges: &[(u32, u32)]) -> Box<dyn Partials>;

    /// Empty running totals of partials of this kind, where they are plain states with an exact inverse.
    fn totals(&self) -> Option<Box<dyn Totals>>;

    /// See [`super::Aggregate::update_runs`].
    fn update_runs(&mut self, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool>;

    /// Grows to `len` slots; new ones are identities, without values.
    fn grow(&mut self, len: usize);

    /// Resets slots to identities.
    fn reset(&mut self, slots: &[u32]);

    /// For each `(to, earlier, later)`, in this order, slot `to` becomes `earlier` combined with `later`.
    fn combine(&mut self, program: &[(u32, u32, u32)]);

    /// Writes the slots of another column to slots `at`, growing to `len` slots. Of plain states only.
    fn write(&mut self, at: &[u32], from: &dyn Partials, len: usize);
}

/// Running totals, one per place, of partials of one kind.
pub trait Totals: Send + Sync {
    /// Grows to `len` totals; new ones are empty.
    fn grow(&mut self, len: usize);

    /// Resets totals to empty.
    fn reset(&mut self, at: &[u32]);

    /// For each `(to, before, slot)`, in this order: total `to` becomes total `before` and slot `slot` of `from`, a column
    /// of the same kind.
    fn extend(&mut self, program: &[(u32, u32, u32)], from: &dyn Partials);

    /// For each `(to, from)`, in this order: total `to` becomes total `from`.
    fn copy(&mut self, program: &[(u32, u32)]);

    /// The partials of ranges, each as the totals up to its start and up to its end.
    fn between(&self, ranges: &[(u32, u32)]) -> Box<dyn Partials>;

    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// Nodes of trees over slices, each the values of its slices as a sorted run.
pub trait RunNodes: Send + Sync {
    /// Makes a node of the values of slots of columns.
    fn lift(&mut self, node: u32, slots: &[(&dyn Partials, u32)]);

    /// Makes a node of two others.
    fn merge(&mut self, node: u32, earlier: u32, later: u32);

    /// Drops a node.
    fn drop_node(&mut self, node: u32);

    /// Columns of which slot i has the values of nodes `nodes[offsets[i]..offsets[i + 1]]`.
    fn answer(&self, nodes: &[u32], offsets: &[usize]) -> Box<dyn Partials>;

    /// Bytes held.
    fn bytes(&self) -> usize;
}

impl dyn Partials {
    /// The column as its concrete type, if it has that type.
    pub fn downcast_ref<P: Partials>(&self) -> Option<&P> {
        (self as &dyn Any).downcast_ref()
    }

    /// Another column of the same kind as its concrete type.
    pub(super) fn alike<P: Partials>(&self) -> &P {
        self.downcast_ref().expect("columns of one kind")
    }

    /// An owned column of this kind as its concrete type.
    pub(super) fn into_alike<P: Partials>(self: Box<Self>) -> P {
        *(self as Box<dyn Any>).downcast().expect("columns of one kind")
    }

    /// Whether slots are states that refer to nothing.
    pub fn is_plain(&self) -> bool {
        self.states().is_some_and(States::is_plain)
    }

    /// See [`States::totals`].
    pub fn totals(&self) -> Option<Box<dyn Totals>> {
        self.states().and_then(States::totals)
    }

    /// See [`States::answer_any`].
    pub fn answer_any(&self, ranges: &[(u32, u32)]) -> Option<Box<dyn Partials>> {
        self.states().map(|states| states.answer_any(ranges))
    }

    /// See [`super::Aggregate::update_runs`].
    pub fn update_runs(&mut self, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        self.states_mut().map_or(Ok(false), |states| states.update_runs(inputs, runs, len))
    }
}
