//! How the watermark of a stream follows its rows, from Python.

use arrow_schema::{DataType, Schema};
use pyo3::prelude::*;

use crate::operator::{By, Delay, Heartbeat, Length, find, length};
use crate::types::named;
use crate::window::Measure;
use crate::{Error, Result};

/// A `windowkit.language.progress.Delay`: a time, a number of rows, or a share, of which one is there.
#[derive(FromPyObject)]
pub(super) struct PyDelay {
    time: Option<Length>,
    rows: Option<u64>,
    share: Option<f64>,
    source: Option<String>,
    idle: Option<Length>,
    future: Option<Length>,
    heartbeat: Option<Length>,
}

impl PyDelay {
    /// How the watermark follows rows of a schema, in units of their times.
    pub(super) fn bound(self, input: &Schema, measure: &Measure) -> Result<Delay> {
        let Self { time, rows, share, source, idle, future, heartbeat } = self;
        let by = match (time, rows, share) {
            (Some(time), None, None) => By::Time(length(measure, "delay", time)?),
            (None, Some(rows), None) => By::Rows(rows),
            (None, None, Some(share)) => By::Share(share),
            _ => {
                return Err(Error::InvalidValue(
                    "delay: expected a time, a number of rows, or a share".into(),
                ));
            }
        };
        let source = source.map(|name| find(input, "source", &name)).transpose()?;
        let future = future.map(|future| length(measure, "future", future)).transpose()?;
        let heartbeat = heartbeat.map(|after| {
            let after = microseconds(after)?;
            let kind = measure.data_type();
            let unit = measure.nanos_per_unit().filter(|_| !matches!(kind, DataType::Duration(_)));
            let refused = || {
                Error::InvalidType(format!(
                    "heartbeat: it is given where column '{}' is {}; the clock tells timestamps and dates",
                    measure.column(),
                    named(&kind)
                ))
            };
            Ok::<_, Error>(Heartbeat { after, unit: unit.ok_or_else(refused)? })
        });
        let (idle, heartbeat) = (idle.map(microseconds).transpose()?, heartbeat.transpose()?);
        Ok(Delay { by, source, idle, future, heartbeat })
    }
}

/// A time of the clock.
fn microseconds(given: Length) -> Result<i64> {
    match given {
        Length::Nanoseconds(count) => i64::try_from(count / 1_000).ok(),
        _ => None,
    }
    .ok_or_else(|| Error::InvalidType("idle: it is no duration of the clock".into()))
}
