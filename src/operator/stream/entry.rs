//! A query of an operator, whichever engines run its windows.

use std::sync::Arc;

use super::sharing::Class;
use crate::operator::plan::Plan;
use crate::operator::policy::Refinement;
use crate::slice::strategy::Order;
use crate::window::Window;
use crate::{Error, Result};

/// A query of an operator, whichever engine runs it.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Entry {
    pub(in crate::operator) name: String,
    pub(in crate::operator) plan: Arc<Plan>,
    /// Only rows and windows that begin after this belong to it; all of them if it was there from the start.
    pub(in crate::operator) since: Option<i64>,
    /// For how long after its end a window is updated.
    pub(in crate::operator) lateness: i64,
    /// The class of each of its windows: classes say which engine runs a window.
    pub(in crate::operator) classes: Vec<Class>,
}

impl Entry {
    /// A query of an operator with these options.
    ///
    /// # Errors
    /// What a user-defined function raises.
    pub(super) fn new(
        name: String,
        (plan, lateness): (Arc<Plan>, i64),
        since: Option<i64>,
        order: Order,
    ) -> Result<Self> {
        let classes = Class::of(&name, &plan, order, lateness)?;
        let discards = plan.policy().is_some_and(|policy| policy.refinement() == Refinement::Discarding);
        if discards && lateness > 0 {
            return Err(Error::InvalidValue(format!(
                "refinement: it is 'discarding' for '{name}', whose allowed_lateness is {lateness}; an update covers \
                 all rows of a window, so allowed are 'accumulating' and 'retracting', or an allowed_lateness of 0"
            )));
        }
        Ok(Self { name, plan, since, lateness, classes })
    }

    /// Windows that ended at or before this have expired once the watermark is there.
    pub(super) fn horizon(&self, watermark: Option<i64>) -> Option<i64> {
        watermark.map(|watermark| watermark.saturating_sub(self.lateness))
    }
}

/// The classes of all windows of these queries.
pub(super) fn classes(entries: &[Entry]) -> impl Iterator<Item = &Class> {
    entries.iter().flat_map(|entry| &entry.classes)
}

/// The windows of all queries.
pub(super) fn all_windows(entries: &[Entry]) -> impl Iterator<Item = &Window> {
    entries.iter().flat_map(|entry| entry.plan.windows().iter().map(|(_, window)| window))
}
