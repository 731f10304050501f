//! Punctuation by a call.

use arrow_array::{ArrayRef, RecordBatch};

use super::Running;
use crate::operator::keeping::Keeper;
use crate::operator::stream::Entry;
use crate::slice::strategy::Order;
use crate::window::Window;
use crate::{Error, Result};

impl Running {
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
}
