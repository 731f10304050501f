//! Computes windows over an Arrow array: from types to kernels and back.
//!
//! Each function is a [`Lift`] over the native values of the array; dates, times, timestamps and durations are their
//! integers, booleans bytes. [`Job`] chooses the kernel.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array, make_array, new_null_array};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::choice::choose;
use super::dense::{Dense, Widened, ranks};
use super::exact::{self, Lowering};
use super::frames::Pause;
use super::job::{Job, Overflown};
use super::validity::{counts, validity};
use super::{Algorithm, Frames, Function};
use crate::algebra::{
    Arg, Count, End, ExactSum, Extremum, FloatSum, Keyed, Lift, Place, Placed, Twofold, Variance, divided,
};
use crate::poll::Poll;
use crate::select::take;
use crate::simd::{self, Column, Degree, Element, Scaled};
use crate::types::named;
use crate::{Error, Result};

/// What to compute for each window.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// The function.
    pub function: Function,
    /// How it is evaluated.
    pub algorithm: Algorithm,
    /// Windows with fewer values are null; 1 if not given, and 0 for a count.
    pub min_periods: Option<u64>,
}

/// The answer for each window, in order. `poll` is called once for some hundred windows: they may have any number of
/// rows, and computing them in parts would change the order in which floats are added.
///
/// # Errors
/// `InvalidType` if the function does not support the array's type, `InvalidValue` if the algorithm cannot compute it,
/// `Overflow` if the sum or mean of a window does not fit its type; that of `poll`.
pub fn answer(array: &ArrayRef, frames: &Frames, question: &Question, poll: Poll) -> Result<ArrayRef> {
    let function = question.function;
    if u32::try_from(array.len()).is_err() {
        return Err(Error::InvalidValue(format!(
            "array: {} rows are too many; a call takes up to 2^32 - 1",
            array.len()
        )));
    }
    let decoded = if function.is_positional() { array.clone() } else { decode(array)? };
    let output = function.output_type(decoded.data_type())?;
    let choice = choose(function, decoded.data_type(), frames, array.len(), question.algorithm)?;
    let nulls = decoded.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let pause = Pause::new(poll);
    let job = Job {
        frames,
        algorithm: choice.algorithm,
        nulls: nulls.as_ref(),
        windows: frames.count()?,
        base: 0,
        edge: None,
        pause: &pause,
    };
    let least = function.least().max(question.min_periods.unwrap_or(0));
    let valid = validity(frames, job.nulls, least);
    let answers = match function.is_positional() {
        true => job.positional(function, &decoded, valid),
        false => job.values(function, &decoded, valid, &output),
    };
    pause.unless_ended(answers)
}

/// `array` without a dictionary or runs, and in a type that has native values.
fn decode(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values)?,
        _ => array.clone(),
    })
}

/// The buffers of an array of `output` as the native values of `array`.
fn native<T: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// An array of `values`.
pub(super) fn build<T: ArrowNativeType>(
    values: Vec<T>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone())
        .len(values.len())
        .add_buffer(Buffer::from_vec(values))
        .nulls(nulls)
        .build()?;
    Ok(make_array(data))
}

impl Job<'_> {
    /// Counts, first and last values.
    fn positional(
        &self,
        function: Function,
        array: &ArrayRef,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        if function == Function::Count {
            let counts = match self.algorithm {
                None => counts(self.frames, self.nulls),
                Some(_) => {
                    let mut counts = simd::room(self.windows);
                    self.each_position(array, &Count, |_, count| counts.push(count));
                    counts
                }
            };
            return Ok(Arc::new(Int64Array::new(counts.into(), nulls)));
        }
        let mut rows = simd::room(self.windows);
        match (self.algorithm, function) {
            (None, _) => {
                let ranks = self.nulls.map(ranks);
                let last = function == Function::Last;
                let position = |(lo, hi): (usize, usize)| if last { hi.wrapping_sub(1) } else { lo };
                let ranges = self.frames.iter(ranks.as_deref());
                rows.extend(
                    ranges.map(|(lo, hi)| if lo < hi { position((lo, hi)) } else { usize::nowhere() }),
                );
            }
            (Some(_), function) => {
                self.each_position(array, &End::new(function == Function::Last), |_, row| rows.push(row));
            }
        }
        let rows = self.rows_of(rows);
        Ok(take(array, &UInt32Array::new(rows.into(), nulls), None)?)
    }

    fn each_position<F: Lift<()>>(&self, array: &ArrayRef, fold: &F, emit: impl FnMut(usize, F::State)) {
        let values = vec![(); array.len() - self.nulls.map_or(0, NullBuffer::null_count)];
        self.each(&values, fold, emit);
    }

    /// Functions of values.
    fn values(
        &self,
        function: Function,
        array: &ArrayRef,
        nulls: Option<NullBuffer>,
        output: &DataType,
    ) -> Result<ArrayRef> {
        use DataType::*;
        macro_rules! numbers {
            ($t:ty) => {
                self.numbers::<$t>(function, &native::<$t>(array), nulls, array.data_type(), output)
            };
        }
        match array.data_type() {
            Int8 => numbers!(i8),
            Int16 => numbers!(i16),
            Int32 | Date32 | Time32(_) => numbers!(i32),
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => numbers!(i64),
            UInt8 => numbers!(u8),
            UInt16 => numbers!(u16),
            UInt32 => numbers!(u32),
            UInt64 => numbers!(u64),
            Float32 => numbers!(f32),
            Float64 => numbers!(f64),
            Null => {
                let way = if *output == Null { &Float64 } else { output };
                let answers = self.values(function, &cast(array, &Float64)?, nulls, way)?;
                Ok(if *output == Null { new_null_array(output, answers.len()) } else { answers })
            }
            Boolean => self.by_way_of(&UInt8, function, array, nulls, output),
            Float16 => self.by_way_of(&Float32, function, array, nulls, output),
            Decimal128(..) => self.decimals(function, array, nulls, output),
            other => Err(Error::Internal(format!("{} passed for values of type {other}", function.name()))),
        }
    }

    /// As `values` of `array` cast to `way`, whose values have the same order.
    fn by_way_of(
        &self,
        way: &DataType,
        function: Function,
        array: &ArrayRef,
        nulls: Option<NullBuffer>,
        output: &DataType,
    ) -> Result<ArrayRef> {
        let through = if output == array.data_type() { way } else { output };
        Ok(cast(&self.values(function, &cast(array, way)?, nulls, through)?, output)?)
    }

    fn numbers<T: Element + Widened + Keyed<Key = u64> + ArrowNativeType>(
        &self,
        function: Function,
        values: &[T],
        nulls: Option<NullBuffer>,
        input: &DataType,
        output: &DataType,
    ) -> Result<ArrayRef>
    where
        T::Sum: ArrowNativeType,
    {
        match function {
            Function::Min => build(self.extremes::<T, false>(values), nulls, output),
            Function::Max => build(self.extremes::<T, true>(values), nulls, output),
            Function::ArgMin => build(self.args::<T, false>(values), nulls, output),
            Function::ArgMax => build(self.args::<T, true>(values), nulls, output),
            Function::Variance { ddof, root } => {
                let simd = |column: Column<'_, T>, _, size, slide, out: &mut Vec<f64>| {
                    if root {
                        simd::sliding_std(column, size, slide, ddof as usize, out);
                    } else {
                        simd::sliding_variance(column, size, slide, ddof as usize, out);
                    }
                    Ok(())
                };
                let ranges = |job: &Job<'_>, values: &[T], out: &mut Vec<f64>| {
                    let dense = Dense::mapped(values, job.nulls, Element::to_f64);
                    job.variances(&dense.values, ddof, root, out);
                    Ok(())
                };
                build(self.never_overflown(values, simd, ranges), nulls, output)
            }
            Function::Sum => {
                let simd = |column: Column<'_, T>, _, size, slide, out: &mut Vec<T::Sum>| {
                    simd::sliding_sum(column, size, slide, out)
                };
                let sums = self.run(values, simd, |job, values, out| {
                    if let Some(sums) = T::floats(out) {
                        job.float_sums(values, |_, sum| sum.value(), sums);
                        return Ok(());
                    }
                    exact::integers(job, values, None, &|_, sum| T::narrow(sum), out)
                });
                let sums = match (sums, &nulls) {
                    (Err(_), Some(answered)) => {
                        // Perhaps only windows that are null overflowed: check the others alone.
                        let mut sums = simd::room(self.windows);
                        let lower = |_, sum| T::narrow(sum);
                        exact::integers(self, values, Some(answered), &lower, &mut sums).map(|()| sums)
                    }
                    (sums, _) => sums,
                };
                build(sums.map_err(|window| self.overflow("sum", window, output))?, nulls, output)
            }
            Function::Mean if matches!(input, DataType::Duration(_)) => {
                let mut means = simd::room(self.windows);
                // A mean lies between the least and the greatest value, so that it fits.
                let lower = |count, sum: i128| divided(sum, 1, count as i64).map(|mean| mean as i64);
                exact::integers(self, values, nulls.as_ref(), &lower, &mut means)
                    .map_err(|window| self.overflow("mean", window, output))?;
                build(means, nulls, output)
            }
            Function::Mean => {
                let simd = |column: Column<'_, T>, _, size, slide, out: &mut Vec<f64>| {
                    simd::sliding_mean(column, size, slide, out);
                    Ok(())
                };
                let ranges = |job: &Job<'_>, values: &[T], out: &mut Vec<f64>| {
                    if T::FLOAT {
                        job.float_sums(values, |count, sum| sum.value() / count as f64, out);
                        return Ok(());
                    }
                    exact::integers(job, values, None, &|count, sum| Some(sum as f64 / count as f64), out)
                };
                build(self.never_overflown(values, simd, ranges), nulls, output)
            }
            Function::Count | Function::First | Function::Last => {
                Err(Error::Internal("validity alone answers it".into()))
            }
        }
    }

    fn extremes<T: Element + Widened, const MAX: bool>(&self, values: &[T]) -> Vec<T> {
        let simd = |column: Column<'_, T>, _, size, slide, out: &mut Vec<T>| {
            if MAX {
                simd::sliding_max(column, size, slide, out);
            } else {
                simd::sliding_min(column, size, slide, out);
            }
            Ok(())
        };
        self.never_overflown(values, simd, |job, values, out| {
            let dense = T::widened(values, job.nulls);
            job.each(&dense.values, &Extremum::<T::Wide, MAX>::new(job.vectors()), |_, extreme| {
                out.push(T::narrowed(extreme));
            });
            Ok(())
        })
    }

    fn args<T: Element + Keyed<Key = u64>, const MAX: bool>(&self, values: &[T]) -> Vec<u64> {
        let simd = |column: Column<'_, T>, base: usize, size, slide, out: &mut Vec<u64>| {
            let from = out.len();
            if MAX {
                simd::sliding_arg_max(column, size, slide, out);
            } else {
                simd::sliding_arg_min(column, size, slide, out);
            }
            if base > 0 {
                out[from..].iter_mut().for_each(|row| *row = row.wrapping_add(base as u64));
            }
            Ok(())
        };
        self.never_overflown(values, simd, |job, values, out| {
            let keys = Dense::mapped(
                values,
                job.nulls,
                |value| if MAX { !value.ordinal() } else { value.ordinal() },
            );
            job.arg_least(&keys.values, out);
            Ok(())
        })
    }

    fn arg_least<K: Ord + Copy + Default>(&self, keys: &[K], out: &mut Vec<u64>) {
        let mut rows = simd::room(self.windows);
        self.each(keys, &Arg::new(()), |_, Placed { place, .. }| rows.push(place));
        out.extend(self.rows_of(rows).into_iter().map(|row| u64::from(row) + self.base as u64));
    }

    fn float_sums<T: Element>(
        &self,
        values: &[T],
        lower: impl Fn(usize, Twofold) -> f64,
        out: &mut Vec<f64>,
    ) {
        let dense = Dense::mapped(values, self.nulls, Element::to_f64);
        self.floats(&dense.values, Degree::Sum, out, |values, emit| {
            let sum = FloatSum { vectors: self.vectors() };
            self.each(values, &sum, |count, sum| emit(lower(count, sum)));
        });
    }

    /// Appends the floats that `answers` computes from `values`; from smaller values again where intermediate results
    /// overflowed.
    fn floats(
        &self,
        values: &[f64],
        degree: Degree,
        out: &mut Vec<f64>,
        answers: impl Fn(&[f64], &mut dyn FnMut(f64)),
    ) {
        let (from, mut nonfinite) = (out.len(), false);
        answers(values, &mut |answer| {
            nonfinite |= !answer.is_finite();
            out.push(answer);
        });
        let scaled = if nonfinite { Scaled::new(values.iter().copied(), degree) } else { None };
        let Some(scaled) = scaled else { return };
        let nonfinite: Vec<i64> = scaled.nonfinite.iter().map(|&flag| flag.into()).collect();
        let (mut excepted, mut again) = (Vec::new(), Vec::new());
        self.each(&nonfinite, &ExactSum::<i64>::new(), |_, number| excepted.push(number > 0));
        answers(&scaled.values, &mut |answer| again.push(answer));
        scaled.repair(&mut out[from..], &again, excepted.into_iter());
    }

    fn variances(&self, values: &[f64], ddof: u32, root: bool, out: &mut Vec<f64>) {
        let degree = if root { Degree::Deviation } else { Degree::Variance };
        self.floats(values, degree, out, |values, emit| {
            self.each(values, &Variance, |_, moment| {
                emit(moment.variance(ddof.into(), root).unwrap_or(f64::NAN));
            });
        });
    }

    fn decimals(
        &self,
        function: Function,
        array: &ArrayRef,
        nulls: Option<NullBuffer>,
        output: &DataType,
    ) -> Result<ArrayRef> {
        let values = &native::<i128>(array)[..];
        let mut numbers = simd::room(self.windows);
        match function {
            Function::Variance { ddof, root } => {
                let floats = native::<f64>(&cast(array, &DataType::Float64)?);
                // With nulls the cast keeps their places, which are removed as usual.
                let mut variances = simd::room(self.windows);
                self.variances(&Dense::of(&floats, self.nulls).values, ddof, root, &mut variances);
                return build(variances, nulls, output);
            }
            Function::ArgMin | Function::ArgMax => {
                let max = function == Function::ArgMax;
                let keys =
                    Dense::mapped(
                        values,
                        self.nulls,
                        |value| if max { !value.ordinal() } else { value.ordinal() },
                    );
                let mut rows = simd::room(self.windows);
                self.arg_least(&keys.values, &mut rows);
                return build(rows, nulls, output);
            }
            Function::Min => {
                let dense = Dense::of(values, self.nulls);
                self.each(&dense.values, &Extremum::<_, false>::new(false), |_, least| numbers.push(least));
            }
            Function::Max => {
                let dense = Dense::of(values, self.nulls);
                self.each(&dense.values, &Extremum::<_, true>::new(false), |_, most| numbers.push(most));
            }
            _ => {
                let lowering = Lowering::new(function, array.data_type(), output)?;
                exact::decimals(self, values, nulls.as_ref(), &lowering, &mut numbers)
                    .map_err(|window| self.overflow(function.name(), window, output))?;
            }
        }
        // The value stored under a null may be out of the range of the type, which a builder would reject.
        if let Some(nulls) = &nulls {
            numbers
                .iter_mut()
                .zip(nulls)
                .for_each(|(number, valid)| *number = if valid { *number } else { 0 });
        }
        build(numbers, nulls, output)
    }

    fn overflow(&self, what: &str, window: Overflown, output: &DataType) -> Error {
        let rows = match self.frames.iter(None).nth(window) {
            Some((lo, hi)) => format!("rows {lo} to {}", hi - 1),
            None => "a window".to_owned(),
        };
        Error::Overflow(format!(
            "array: the {what} of {rows} does not fit {output}; cast it to a wider type",
            output = named(output)
        ))
    }
}
