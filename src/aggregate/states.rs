//! Columns of states as partials of any kind.

use arrow_array::ArrayRef;

use super::column::Column;
use super::lift::Aggregate;
use super::partials::{Partials, States, Totals, Upkeep};
use super::properties::Properties;
use super::rows::{Rows, Run};
use super::totals::RunningTotals;
use crate::Result;
use crate::kernels::Ranges;

impl<A: Aggregate> Partials for Column<A> {
    fn properties(&self) -> Properties {
        self.monoid().properties()
    }

    fn update(&mut self, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        A::update(self, inputs, rows, len)
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        A::merge(self, state, rows, len)
    }

    fn append(&mut self, other: Box<dyn Partials>) {
        let mut other: Self = other.into_alike();
        let context = other.monoid().clone();
        self.monoid_mut().adopt(context, other.parts_mut().1);
        self.append(other);
    }

    fn empty(&self) -> Box<dyn Partials> {
        Box::new(Column::new(self.monoid().emptied()))
    }

    fn regroup(&self, slots: &[u32], groups: &[u32]) -> Result<Box<dyn Partials>> {
        Ok(Box::new(self.regroup(slots, groups)))
    }

    fn answer(&self, ranges: &Ranges) -> Result<Box<dyn Partials>> {
        Ok(Box::new(self.answer(ranges)))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        A::state(self)
    }

    fn lower(&self) -> Result<ArrayRef> {
        A::lower(self)
    }

    fn bytes(&self) -> usize {
        self.bytes() + self.monoid().bytes()
    }

    fn states(&self) -> Option<&dyn States> {
        Some(self)
    }

    fn nodes(&mut self) -> Option<&mut dyn States> {
        Some(self)
    }

    fn takes_out(&self) -> bool {
        self.monoid().inverts()
    }

    fn take_out(&mut self, slots: &[u32], lost: &dyn Partials, left: &[bool]) -> Result<Vec<bool>> {
        Ok(self.take_out(slots, lost.alike(), left))
    }

    fn keep_up(&mut self, what: Upkeep) -> Result<()> {
        let (monoid, states) = self.parts_mut();
        monoid.keep_up(states, what)
    }
}

impl<A: Aggregate> States for Column<A> {
    fn is_plain(&self) -> bool {
        self.monoid().is_plain()
    }

    fn answer_any(&self, ranges: &[(u32, u32)]) -> Box<dyn Partials> {
        Box::new(self.answer_any(ranges))
    }

    fn totals(&self) -> Option<Box<dyn Totals>> {
        RunningTotals::of(self)
    }

    fn update_runs(&mut self, inputs: &[ArrayRef], runs: &[Run], len: usize) -> Result<bool> {
        A::update_runs(self, inputs, runs, len)
    }

    fn grow(&mut self, len: usize) {
        self.grow(len);
    }

    fn reset(&mut self, slots: &[u32]) {
        self.reset(slots);
    }

    fn combine(&mut self, program: &[(u32, u32, u32)]) {
        self.combine_slots(program);
    }

    fn write(&mut self, at: &[u32], from: &dyn Partials, len: usize) {
        self.write(at, from.alike(), len);
    }
}
