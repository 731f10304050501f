//! Where memory is limited: drops keys before the next call, with all that is held of them (`operator/shedding.rs` decides
//! which).

use super::{DistinctPlan, DistinctStats, DistinctStream};
use crate::keys::hashable;
use crate::memory::{attempted, spared};
use crate::operator::held::keep_keys;
use crate::operator::shedding::{Held, Keep, Sample, Shed, Shedding, Sheds};
use crate::{Error, Result};

/// The shedding of a stream of which nothing was dropped yet.
///
/// # Errors
/// `InvalidValue` or `InvalidType` where keys cannot be dropped.
pub(super) fn of_keys(shed: Shed, plan: &DistinctPlan) -> Result<Shedding> {
    if shed.keep == Keep::Rows {
        return Err(Error::InvalidValue(
            "shed: keep='rows' is given; without some rows it is not known which others are duplicates, so allowed is \
             keep='keys'"
                .into(),
        ));
    }
    if plan.by.is_empty() {
        return Err(Error::InvalidValue(
            "shed: it is given where duplicates are equal in nothing (by=[]); it drops keys, so that by= has to name some"
                .into(),
        ));
    }
    plan.by.iter().try_for_each(|&column| hashable(plan.input.field(column).data_type()))?;
    let mut shedding = Shedding::new(shed);
    shedding.schema = shedding.extended(&plan.output, 0)?;
    Ok(shedding)
}

impl Sheds for DistinctStream {
    fn shedding(&mut self) -> &mut Option<Shedding> {
        &mut self.shedding
    }

    fn held(&self) -> Option<Held> {
        let DistinctStats { keys, bytes, .. } = self.stats();
        (!self.closed).then_some(Held { keys, parts: keys, bytes })
    }

    fn tighten(&mut self, _: bool) {
        let (reached, within) = (self.reached, self.plan.within);
        let is_needed = |&key: &u32| {
            self.open.has(key as usize)
                || self.ahead.of(key).is_some()
                || self.last.matters(key, reached, within)
        };
        if let Ok(kept) = attempted(|| Ok((0..self.keys.len() as u32).filter(is_needed).collect::<Vec<_>>()))
        {
            self.keep_only(&kept);
        }
    }

    fn drop_half(&mut self, _: Keep, sample: Sample) -> Result<Option<(usize, usize)>> {
        let kept = sample.of_keys(&self.keys.plain_values()?, self.keys.len())?;
        let has_rows = |key: usize| self.open.has(key) || self.last.has(key as u32);
        if !kept.set_indices().any(has_rows) {
            return Ok(None);
        }
        let numbers: Vec<u32> = kept.set_indices_u32().collect();
        let dropped = (0..self.keys.len()).filter(|&key| !kept.value(key) && has_rows(key)).count();
        spared(|| {
            self.open.drop_others(|key| kept.value(key as usize));
            let others = (0..kept.len()).filter(|&key| !kept.value(key));
            others.for_each(|key| self.last.forget(key as u32));
            self.keep_only(&numbers);
        });
        Ok(Some((dropped, 0)))
    }
}

impl DistinctStream {
    /// Keeps these keys, which ascend, and forgets the others, of which nothing is held. What cannot be freed for want of
    /// memory is freed by a later call.
    fn keep_only(&mut self, kept: &[u32]) {
        let Self { keys, open, ahead, last, plan, .. } = self;
        let (stores, marks) = (std::slice::from_mut(open), std::slice::from_mut(ahead));
        if attempted(|| keep_keys(keys, stores, marks, kept)).is_ok() {
            last.keep_keys(kept);
        }
        let _ = attempted(|| self.open.shrink(plan.output.fields().len()));
        self.last.shrink();
    }
}
