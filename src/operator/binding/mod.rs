//! Windows as a query states them, bound to the units of a measure: every check that needs no rows.

mod binder;
mod calendar;

use arrow_schema::Schema;

use self::binder::Binder;
use super::schema::find;
use super::window_spec::{GapSpec, Length, Moment, WindowKind, WindowSpec};
use crate::Result;
use crate::window::{
    Arrivals, Band, Between, Counted, Gap, Global, Landmark, LastRows, LastTime, Measure, Partial,
    Punctuation, RowSession, Session, Sliding, User, Window,
};

/// A window in units of the measure, its columns found in the schema.
pub(super) fn bind_window(spec: &WindowSpec, measure: &Measure, input: &Schema) -> Result<Window> {
    let binder = Binder { name: &spec.name, measure };
    Ok(match &spec.kind {
        WindowKind::Tumbling { size, start_time, partial } => {
            binder.sliding((*size, *size), *start_time, *partial)?
        }
        WindowKind::Sliding { size, slide, start_time, partial } => {
            binder.sliding((*size, *slide), *start_time, *partial)?
        }
        WindowKind::Arrivals { size, slide } => binder.arrivals(*size, *slide)?,
        WindowKind::Session { gap } => Window::Session(Session::new(binder.positive("gap", *gap)?)),
        WindowKind::RowSession { gap, at_most } => binder.row_session(gap, *at_most, input)?,
        WindowKind::Band { start, end } => binder.band(*start, *end)?,
        WindowKind::Landmark { every, start, period, start_time } => {
            binder.landmark(*every, (*start, *period), *start_time)?
        }
        WindowKind::RowLandmark { every, partial } => match every {
            Length::Rows(every) => {
                Window::Counted(Counted::landmark(binder.rows("every", *every)?, *partial))
            }
            _ => return binder.refused(format!("{} begins with the first row; allowed are rows", spec.name)),
        },
        WindowKind::Local { size, slide, start_time, calendar } => {
            binder.local((*size, *slide), *start_time, calendar)?
        }
        WindowKind::LocalLandmark { every, period, start_time, calendar } => {
            binder.local_landmark((*every, *period), *start_time, calendar)?
        }
        WindowKind::Punctuation { column, mark } => {
            Window::Punctuation(Punctuation::new(binder.marks(input, column)?, *mark))
        }
        WindowKind::Between { enter, leave, exclusive } => {
            let (enter, leave) = (binder.marks(input, enter)?, binder.marks(input, leave)?);
            Window::Between(Between::new(enter, leave, *exclusive))
        }
        WindowKind::Global => Window::Global(Global),
        WindowKind::User(window, columns) => {
            let columns: Result<Vec<usize>> =
                columns.iter().map(|column| find(input, "windows", column)).collect();
            Window::User(User::new(window.clone(), columns?))
        }
    })
}

/// A window whose windows have ids, in units of the measure, and where window 0 begins; `None` if its windows have none.
///
/// # Errors
/// As [`bind_window`].
pub(super) fn bind_numbered(spec: &WindowSpec, measure: &Measure) -> Result<Option<(Window, i64)>> {
    let start_time = match &spec.kind {
        WindowKind::Tumbling { start_time, .. } | WindowKind::Sliding { start_time, .. } => *start_time,
        WindowKind::Landmark { start_time, .. } => *start_time,
        // Types of a calendar number their windows themselves.
        WindowKind::Band { .. } | WindowKind::Local { .. } | WindowKind::LocalLandmark { .. } => None,
        WindowKind::Session { .. } | WindowKind::RowSession { .. } | WindowKind::Arrivals { .. } => {
            return Ok(None);
        }
        WindowKind::Punctuation { .. } | WindowKind::Between { .. } => return Ok(None),
        WindowKind::RowLandmark { .. } => return Ok(None),
        WindowKind::Global | WindowKind::User(..) => return Ok(None),
    };
    // None of these reads a column besides the time.
    let window = bind_window(spec, measure, &Schema::empty())?;
    if window.ids().is_none() {
        return Ok(None);
    }
    Ok(Some((window, Binder { name: &spec.name, measure }.offset(start_time)?)))
}

impl Binder<'_> {
    /// Windows over one measure, or over two.
    fn sliding(
        &self,
        (size, slide): (Length, Length),
        start_time: Option<Length>,
        partial: Partial,
    ) -> Result<Window> {
        match (size, slide) {
            (Length::Rows(size), Length::Rows(slide)) => {
                self.refuse("a start_time", start_time.is_some(), "over time or an integer column")?;
                let (size, slide) = (self.rows("size", size)?, self.rows("slide", slide)?);
                self.without_gaps(size, slide)?;
                Ok(Window::Counted(Counted::new(size, slide, partial)))
            }
            _ if partial != Partial::NONE => self.refused(format!(
                "{} has the option partial; allowed are windows whose size and slide are numbers of rows",
                self.name
            )),
            (Length::Rows(size), slide) => {
                let (size, slide) = (self.rows("size", size)?, self.positive("slide", slide)?);
                Ok(Window::LastRows(LastRows::new(size, slide, self.offset(start_time)?)))
            }
            (size, Length::Rows(slide)) => {
                self.refuse("a start_time", start_time.is_some(), "with a slide of time or integers")?;
                Ok(Window::LastTime(LastTime::new(self.positive("size", size)?, self.rows("slide", slide)?)))
            }
            (size, slide) => {
                let (size, slide) = (self.positive("size", size)?, self.positive("slide", slide)?);
                self.without_gaps(size, slide)?;
                Ok(Window::Sliding(Sliding::new(size, slide, self.offset(start_time)?)))
            }
        }
    }

    fn arrivals(&self, size: Length, slide: Length) -> Result<Window> {
        match (size, slide) {
            (Length::Nanoseconds(_) | Length::Units(_), Length::Rows(slide)) => {
                Ok(Window::Arrivals(Arrivals::new(self.positive("size", size)?, self.rows("slide", slide)?)))
            }
            _ => self.refused(format!(
                "{} counts rows in the order of arrival; allowed are windows whose size is a length of time or integers \
                 and whose slide is a number of rows",
                self.name
            )),
        }
    }

    fn row_session(&self, gap: &GapSpec, at_most: Option<Length>, input: &Schema) -> Result<Window> {
        let gap = match gap {
            GapSpec::Length(gap) => Gap::Fixed(self.positive("gap", *gap)?),
            GapSpec::Column(column) => Gap::Column(self.gaps(input, column)?),
        };
        let at_most = at_most.map(|length| self.positive("at_most", length)).transpose()?;
        if let (Gap::Fixed(gap), Some(most)) = (&gap, at_most)
            && most < *gap
        {
            return self.refused(format!(
                "the at_most of {} is less than its gap; allowed are lengths from that on",
                self.name
            ));
        }
        Ok(Window::RowSession(RowSession::new(gap, at_most)))
    }

    fn band(&self, start: Moment, end: Moment) -> Result<Window> {
        let (start, end) = (self.moment("start", start)?, self.moment("end", end)?);
        if start >= end {
            return self.refused(format!("the end of {} must be after its start", self.name));
        }
        Ok(Window::Band(Band::new(start, end)))
    }

    fn landmark(
        &self,
        every: Length,
        landmarks: (Option<Moment>, Option<Length>),
        start_time: Option<Length>,
    ) -> Result<Window> {
        let every = self.positive("every", every)?;
        Ok(Window::Landmark(match landmarks {
            (Some(start), None) => {
                self.refuse("a start_time", start_time.is_some(), "with a period")?;
                Landmark::at(every, self.moment("start", start)?)
            }
            (None, Some(period)) => {
                let (period, offset) = (self.positive("period", period)?, self.offset(start_time)?);
                self.whole_windows(every, period)?;
                Landmark::each(every, period, offset)
            }
            _ => {
                return self.refused(format!(
                    "{} has both start and period, or neither; exactly one is allowed",
                    self.name
                ));
            }
        }))
    }
}
