//! Plans that are made of others: of other rows, of some of the windows, and with options of the query.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use super::{Plan, Spec};
use crate::dictionary::compared;
use crate::operator::fill::Fill;
use crate::operator::policy::Policy;
use crate::operator::schema::{find, with_results};
use crate::slice::Edges;
use crate::types::named;
use crate::window::{Measure, Window};
use crate::{Error, Result};

impl Plan {
    /// The plan of the rows that this one's aggregates are asked for, which are read for their keys and times: the
    /// result has all their columns, then the aggregates.
    ///
    /// # Errors
    /// `UnknownColumn` for a column that they do not have; `InvalidType` if keys or times have other types than those of
    /// this plan; `InvalidValue` for a column with the name of an aggregate, or another number of keys.
    pub fn of_labels(&self, labels: SchemaRef, by: Vec<String>, time: String) -> Result<Self> {
        if by.len() != self.by.len() {
            return Err(Error::InvalidValue(format!(
                "by: {} keys of the labels are given; the events have {}, and each has its own",
                by.len(),
                self.by.len()
            )));
        }
        let keys: Vec<usize> = by.iter().map(|name| find(&labels, "by", name)).collect::<Result<_>>()?;
        for (&key, &own) in keys.iter().zip(&self.by) {
            let (key, own) = (labels.field(key), self.input.field(own));
            if compared(key.data_type(), own.data_type()).is_none() {
                return Err(unlike("key", key, own));
            }
        }
        let at = find(&labels, "time", &time)?;
        let measure = Measure::new(&time, labels.field(at).data_type())?;
        if !measure.is_comparable(&self.measure) {
            return Err(unlike("time", labels.field(at), self.input.field(self.time)));
        }
        let results = self.output.fields().iter().map(|field| field.as_ref().clone()).collect();
        Ok(Self {
            output: with_results(&labels, results)?,
            input: labels,
            by: keys,
            time: at,
            measure,
            partials: Vec::new(),
            aggregates: Vec::new(),
            spec: Spec { by, time, aggregates: Vec::new(), ..self.spec.clone() },
            ..self.clone()
        })
    }

    /// The plan for slices that arrive as columns (keys, start, with sessions last, states): the same query, with the
    /// types of keys and extrema that arrive, such as large strings for strings.
    ///
    /// # Errors
    /// `InvalidValue` if the number of columns is not that of the query's slices.
    pub fn for_slices(&self, slices: &Schema) -> Result<Self> {
        let fixed = self.by.len() + 1 + usize::from(self.edges.gap().is_some());
        let states = self.state_columns();
        let expected = fixed + states.iter().sum::<usize>();
        if slices.fields().len() != expected {
            return Err(Error::InvalidValue(format!(
                "schema: slices of this query have {expected} columns, {} given",
                slices.fields().len()
            )));
        }
        let mut fields: Vec<Field> = self.input.fields().iter().map(|field| field.as_ref().clone()).collect();
        for (position, &column) in self.by.iter().enumerate() {
            fields[column] =
                fields[column].clone().with_data_type(slices.field(position).data_type().clone());
        }
        let mut position = fixed;
        for (stored, width) in self.partials.iter().zip(states) {
            let like_inputs = stored.partial.states_like_inputs();
            for (at, &column) in stored.inputs.iter().enumerate().take(like_inputs) {
                // The measure takes the type of the starts, from which the windows' edges are built.
                if column != self.time {
                    let arrived = slices.field(position + at).data_type().clone();
                    fields[column] = fields[column].clone().with_data_type(arrived);
                }
            }
            position += width;
        }
        let plan = Self::bind(Arc::new(Schema::new(fields)), self.spec.clone(), true)?;
        plan.with_max_windows(self.max_windows).with_fill(self.fill.as_deref().map(<[Fill]>::to_vec))
    }

    /// This plan for rows with weights in a column of this name: 1, and -1 where a row retracts an earlier one.
    ///
    /// # Errors
    /// `UnknownColumn`, `InvalidType` or `InvalidValue` if there is no such column of signed integers, or if windows or
    /// functions do not allow it.
    pub fn with_weight(self, weight: Option<String>) -> Result<Self> {
        if weight == self.spec.weight {
            return Ok(self);
        }
        let bound = Self::bind(self.input.clone(), Spec { weight, ..self.spec.clone() }, true)?;
        Ok(Self { max_windows: self.max_windows, policy: self.policy, ..bound })
    }

    /// This plan for rows that are a sample, each of which was kept with a known probability: in place of each aggregate
    /// its estimate, and then the standard error of that.
    ///
    /// # Errors
    /// `InvalidValue` for functions of which there is no estimate, for windows that rows determine, and with weights.
    pub fn of_sample(&self) -> Result<Self> {
        let bound = Self::bind(self.input.clone(), Spec { is_sample: true, ..self.spec.clone() }, true)?;
        Ok(Self { max_windows: self.max_windows, policy: self.policy.clone(), ..bound })
    }

    /// This plan for results in which windows without rows are filled, between a key's first and last window of each
    /// type: `fill` says how for each aggregate.
    ///
    /// # Errors
    /// `InvalidValue` if windows do not follow each other in time, `InvalidType` if a type has no zero.
    pub fn with_fill(self, fill: Option<Vec<Fill>>) -> Result<Self> {
        let Some(fill) = fill else { return Ok(self) };
        if let Some((name, _)) = self.windows.iter().find(|(_, window)| window.series().is_none()) {
            return Err(Error::InvalidValue(format!(
                "fill: windows of {name} do not follow each other in time, so that none are known to be missing; allowed \
                 are tumbling and sliding windows over time or integers, and those of a calendar"
            )));
        }
        let first = self.output.fields().len() - self.aggregates.len();
        let (names, results) = self.output.fields().split_at(first);
        let results =
            results.iter().zip(&fill).map(|(field, how)| how.of(field)).collect::<Result<Vec<_>>>()?;
        let fields: Vec<_> = names.iter().cloned().chain(results.into_iter().map(Arc::new)).collect();
        Ok(Self { output: Arc::new(Schema::new(fields)), fill: Some(fill.into()), ..self })
    }

    /// This plan, allowed to make so many windows in one call; any number if `None`.
    pub fn with_max_windows(self, max_windows: Option<u64>) -> Self {
        Self { max_windows, ..self }
    }

    /// This plan with an emission policy, for streams.
    ///
    /// # Errors
    /// `InvalidValue` for a policy that would never fire.
    pub fn with_policy(self, policy: Option<Policy>) -> Result<Self> {
        if let Some(policy) = &policy {
            policy.check(&self.windows)?;
        }
        Ok(Self { policy: policy.map(Arc::new), ..self })
    }

    /// This plan for a stream whose windows do not change after they were emitted ([`Window::sealed`]).
    ///
    /// # Errors
    /// `InvalidValue` for windows that may.
    pub(in crate::operator) fn sealed(&self) -> Result<Self> {
        let sealed = |(name, window): &(String, Window)| match window.sealed() {
            Some(window) => Ok((name.clone(), window)),
            None => Err(Error::InvalidValue(format!(
                "updates: False is given for windows of {name}, which may change after they were emitted: those of a \
                 ContextAware, which says so itself, and those that count rows in the order of arrival, which take rows \
                 after the one that ends them; leave out updates, or give other windows"
            ))),
        };
        let windows: Vec<_> = self.windows.iter().map(sealed).collect::<Result<_>>()?;
        let edges = Edges::of(windows.iter().map(|(_, window)| window));
        Ok(Self { windows, edges, ..self.clone() })
    }

    /// This plan for a stream, which cuts slices where bounded input has rows in order ([`Window::sliced`]).
    pub(in crate::operator) fn sliced(&self) -> Option<Self> {
        let sliced: Vec<Option<Window>> = self.windows.iter().map(|(_, window)| window.sliced()).collect();
        sliced.iter().any(Option::is_some).then(|| {
            let own = self.windows.iter().zip(sliced);
            let windows: Vec<_> = own
                .map(|((name, window), sliced)| (name.clone(), sliced.unwrap_or_else(|| window.clone())))
                .collect();
            let edges = Edges::of(windows.iter().map(|(_, window)| window));
            Self { windows, edges, ..self.clone() }
        })
    }

    /// This plan with some of its windows only, given by their numbers: at least one.
    pub(in crate::operator) fn with_windows(&self, which: impl Fn(usize) -> bool) -> Self {
        let windows = self.windows.iter().enumerate().filter(|&(at, _)| which(at));
        let windows: Vec<(String, Window)> = windows.map(|(_, window)| window.clone()).collect();
        let mut spec = self.spec.clone();
        spec.windows.retain(|spec| windows.iter().any(|(name, _)| *name == spec.name));
        let edges = Edges::of(windows.iter().map(|(_, window)| window));
        Self { windows, edges, spec, ..self.clone() }
    }
}

/// The error for a column of labels that cannot be compared with that of the events.
fn unlike(role: &str, label: &Field, event: &Field) -> Error {
    Error::InvalidType(format!(
        "{}: column '{}' of the labels is {}, and {role} '{}' of the events is {}; both must have one type: cast one of \
         them to that of the other",
        if role == "key" { "by" } else { "time" },
        label.name(),
        named(label.data_type()),
        event.name(),
        named(event.data_type())
    ))
}
