//! A key's windows, query by query: which a call has handed out, and where slices must be cut for them.

use arrow_array::ArrayRef;

use super::Keeper;
use super::due::{Call, Due, Listing, News, View, earlier, is_calendar};
use super::line::{Before, Line};
use crate::Result;
use crate::slice::gallop;
use crate::window::{KeyRows, Window};

impl Keeper {
    /// Lists what is due of a key, query by query, notes what is told, and when there is more. `news` are the places of
    /// the call's rows.
    #[allow(clippy::too_many_arguments, reason = "a struct of them would have one user")]
    pub(super) fn list<'a>(
        &self,
        key: u32,
        line: &mut Line,
        before: &mut Before,
        news: News<'_>,
        is_appended: bool,
        call: Call,
        due: &'a mut [Vec<Due>],
    ) -> Result<Listing<'a>> {
        let mut out = Listing {
            due,
            told: std::mem::take(&mut line.told),
            numbers: std::mem::take(&mut line.numbers),
            reopened: std::mem::take(&mut line.reopened),
            edges: Vec::new(),
            from: line.len(),
            is_shrunk: false,
        };
        let mut shown = std::mem::take(&mut line.shown);
        let mut next = None;
        let mut places = Vec::new();
        let result = self.queries.asked().iter().enumerate().try_for_each(|(query, asked)| {
            let offset = line.first_of(asked.since);
            let news = match news {
                News::From(from) => News::From(from.saturating_sub(offset)),
                News::At(all) => {
                    places.clear();
                    places.extend(all.iter().filter(|&&row| row >= offset).map(|row| row - offset));
                    News::At(&places)
                }
            };
            for (window, (_, kind)) in asked.plan.windows().iter().enumerate() {
                let view = View {
                    query,
                    window,
                    key,
                    line,
                    offset,
                    since: asked.since,
                    base: line.gone.get(query).copied().unwrap_or_default(),
                    times: &line.times[offset..],
                    news,
                    is_appended,
                    call,
                };
                let read = |ats: &[u64]| self.read_for(kind, ats);
                let later = match kind {
                    Window::Counted(kind) => view.counted(kind, &mut out),
                    Window::LastTime(kind) => view.last_time(kind, &mut out),
                    Window::LastRows(kind) => view.last_rows(kind, &mut out),
                    Window::Punctuation(kind) => view.punctuated(&self.cuts_of(kind, key), &mut out),
                    Window::User(user) if !is_calendar(user) => {
                        let undone = &mut before.undone;
                        view.of_user(user, self.options.order, &mut shown, undone, read, &mut out)?
                    }
                    Window::User(_) => view.by_time(kind, &read(&line.ats[offset..])?, &mut out)?,
                    _ => view.by_time(kind, &[], &mut out)?,
                };
                next = earlier(next, later);
            }
            Ok(())
        });
        line.told = std::mem::take(&mut out.told);
        line.numbers = std::mem::take(&mut out.numbers);
        line.reopened = std::mem::take(&mut out.reopened);
        (line.shown, line.due) = (shown, next);
        result.map(|()| out)
    }

    /// All edges from place `from` on that windows got as their rows came.
    pub(super) fn late_edges(&self, line: &Line, from: usize, call: Call) -> Result<Vec<usize>> {
        let mut edges = Vec::new();
        let upto = |times: &[i64]| match call.closing {
            true => times.len(),
            false => call.now.map_or(0, |now| times.partition_point(|&time| time <= now)),
        };
        for (query, asked) in self.queries.asked().iter().enumerate() {
            let offset = line.first_of(asked.since);
            let times = &line.times[offset..];
            let since = from.saturating_sub(offset);
            let base = line.gone.get(query).copied().unwrap_or_default();
            for (window, (_, kind)) in asked.plan.windows().iter().enumerate() {
                match kind {
                    Window::LastTime(kind) => {
                        let (rows, end) = (kind.rows() as u64, base + upto(times) as u64);
                        let first = ((base + since as u64) / rows + 1) * rows;
                        let ends = (first..=end).step_by(kind.rows());
                        edges.extend(ends.map(|hi| offset + kind.extent((hi - base) as usize - 1, times).0));
                    }
                    Window::LastRows(kind) => {
                        let mut row = since;
                        while let Some(&time) = times.get(row) {
                            let edge = kind.edge_after(time);
                            row += gallop(&times[row..], |&time| time < edge);
                            if call.now.is_some_and(|now| edge <= now) {
                                edges.push(offset + row.saturating_sub(kind.rows()));
                            }
                        }
                    }
                    Window::User(user) if is_calendar(user) => {
                        let mut listed = Vec::new();
                        let columns = self.read_for(kind, &line.ats[offset..])?;
                        kind.list(&KeyRows { times, columns: &columns }, since, &mut listed)?;
                        edges.extend(
                            listed
                                .iter()
                                .flat_map(|each| [offset + each.lo as usize, offset + each.hi as usize]),
                        );
                    }
                    Window::User(_) => {
                        let own =
                            line.shown.iter().filter(|each| (each.query, each.window) == (query, window));
                        edges.extend(own.flat_map(|own| own.edges_from(since)).map(|edge| offset + edge));
                    }
                    _ => {}
                }
            }
        }
        edges.retain(|&edge| from <= edge);
        Ok(edges)
    }

    fn read_for(&self, kind: &Window, ats: &[u64]) -> Result<Vec<ArrayRef>> {
        kind.columns().into_iter().map(|column| self.heap.column(column, ats)).collect()
    }
}
