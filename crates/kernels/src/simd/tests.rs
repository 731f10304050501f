//! Every kernel, at every level of the machine, against the definition evaluated window by window.

use super::level::at_each_level;
use super::*;
use proptest::prelude::*;
use std::fmt::Debug;

/// Cases of a property: few when interpreted or compiled without optimisation.
const CASES: u32 = match (cfg!(miri), cfg!(debug_assertions)) {
    (true, _) => 3,
    (false, true) => 20,
    (false, false) => 100,
};

/// Windows of a column as the positions of their valid values.
fn windows<T>(column: Column<'_, T>, size: usize, slide: usize) -> Vec<Vec<usize>> {
    let there = |i: &usize| column.validity.is_none_or(|validity| validity.get(*i));
    (0..)
        .map(|k| k * slide)
        .take_while(|start| start + size <= column.len())
        .map(|start| (start..start + size).filter(there).collect())
        .collect()
}

/// An element type and its difficult values.
trait Hard: Element {
    fn hard() -> BoxedStrategy<Self>;
    /// Equal as SQL has it: NaN to NaN, -0.0 to 0.0.
    fn same(self, other: Self) -> bool;
    /// Less as SQL has it: NaN is the greatest.
    fn less(self, other: Self) -> bool;
}

macro_rules! hard_integers {
    ($($t:ty),*) => { $(
        impl Hard for $t {
            fn hard() -> BoxedStrategy<$t> {
                prop_oneof![4 => any::<$t>(), 2 => 0 as $t..4, 1 => Just(<$t>::MIN), 1 => Just(<$t>::MAX)].boxed()
            }
            fn same(self, other: $t) -> bool { self == other }
            fn less(self, other: $t) -> bool { self < other }
        }
    )* };
}
hard_integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! hard_floats {
    ($($t:ty),*) => { $(
        impl Hard for $t {
            fn hard() -> BoxedStrategy<$t> {
                let special = [<$t>::NAN, -<$t>::NAN, <$t>::INFINITY, <$t>::NEG_INFINITY, 0.0, -0.0,
                    <$t>::MIN_POSITIVE / 4.0, <$t>::MAX, <$t>::MIN];
                let small = (-20i8..20).prop_map(|v| <$t>::from(v) / 8.0);
                prop_oneof![8 => -1e3..1e3 as $t, 8 => small, 2 => prop::sample::select(special.to_vec())].boxed()
            }
            fn same(self, other: $t) -> bool { self == other || (self.is_nan() && other.is_nan()) }
            fn less(self, other: $t) -> bool { self < other || (!self.is_nan() && other.is_nan()) }
        }
    )* };
}
hard_floats!(f32, f64);

/// A column with room before and after it, possibly with nulls, and windows over it.
#[derive(Debug, Clone)]
struct Case<T> {
    values: Vec<T>,
    from: usize,
    bits: Option<(Vec<u8>, usize)>,
    size: usize,
    slide: usize,
}

impl<T: Element> Case<T> {
    fn column(&self) -> Column<'_, T> {
        let validity = self.bits.as_ref().map(|(bits, offset)| Validity::new(bits, *offset).skip(self.from));
        Column::new(&self.values[self.from..], validity)
    }
}

/// Lengths around the edges of vectors, tiles and blocks, and windows that fit them or not.
fn case<T: Hard>() -> impl Strategy<Value = Case<T>> {
    let long: usize = if cfg!(miri) { 200 } else { 2600 };
    let len = prop_oneof![2 => 0..40usize, 3 => 0..300usize, 2 => 0..long];
    let size = prop_oneof![
        4 => 1..40usize,
        2 => prop::sample::select(vec![63usize, 64, 65, 127, 128, 129, 511, 512, 513, 575, 583, 1023, 1024, 1025]),
        2 => 1..long,
    ];
    let slide = prop_oneof![4 => Just(1usize), 2 => 1..20usize, 1 => 1..400usize];
    (len, size, slide, 0..9usize, 0..20usize, prop_oneof![Just(None), (0..=10u8).prop_map(Some)])
        .prop_flat_map(|(len, size, slide, from, offset, density)| {
            let bit = (0..10u8).prop_map(move |draw| draw < density.unwrap_or(10));
            let there = prop::collection::vec(bit, len + from);
            (prop::collection::vec(T::hard(), len + from), there).prop_map(move |(values, there)| {
                let bits = density.map(|_| {
                    let mut bits = vec![0xA5; (offset + values.len()).div_ceil(8)];
                    for (i, &there) in there.iter().enumerate() {
                        let bit = offset + i;
                        bits[bit / 8] = bits[bit / 8] & !(1 << (bit % 8)) | u8::from(there) << (bit % 8);
                    }
                    (bits, offset)
                });
                // Most windows fit their column, some are one too long.
                let size = if size > len + 1 { size % (len + 2) + 1 } else { size };
                Case { values, from, bits, size, slide }
            })
        })
}

/// Runs `check` on cases of type `T`, at each level.
fn check<T: Hard>(check: impl Fn(&Case<T>)) {
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in case::<T>())| at_each_level(|_| check(&case)));
}

/// `out` of a kernel that appends to existing values.
fn appended<R: Debug + Clone + PartialEq>(first: R, kernel: impl FnOnce(&mut Vec<R>)) -> Vec<R> {
    let mut out = vec![first.clone()];
    kernel(&mut out);
    assert_eq!(out[0], first, "what was there before is there still");
    out.split_off(1)
}

fn extrema<T: Hard>() {
    check::<T>(|case| {
        let column = case.column();
        let windows = windows(column, case.size, case.slide);
        let least = appended(case_first(case), |out| sliding_min(column, case.size, case.slide, out));
        let greatest = appended(case_first(case), |out| sliding_max(column, case.size, case.slide, out));
        assert_eq!((least.len(), greatest.len()), (windows.len(), windows.len()));
        for (k, window) in windows.iter().enumerate() {
            let values = window.iter().map(|&i| column.values[i]);
            let min = values.clone().reduce(|a, b| if b.less(a) { b } else { a }).unwrap_or(T::GREATEST);
            let max = values.reduce(|a, b| if a.less(b) { b } else { a }).unwrap_or(T::LEAST);
            assert!(least[k].same(min), "minimum of window {k}: {:?}, not {min:?}", least[k]);
            assert!(greatest[k].same(max), "maximum of window {k}: {:?}, not {max:?}", greatest[k]);
        }
    });
}

/// Some value that equals itself.
fn case_first<T: Hard>(_: &Case<T>) -> T {
    T::LEAST
}

macro_rules! for_types {
    ($($name:ident: $function:ident<$t:ty>),* $(,)?) => { $(
        #[test]
        fn $name() { $function::<$t>(); }
    )* };
}

for_types! {
    extrema_of_i8: extrema<i8>, extrema_of_i16: extrema<i16>, extrema_of_i32: extrema<i32>,
    extrema_of_i64: extrema<i64>, extrema_of_u8: extrema<u8>, extrema_of_u16: extrema<u16>,
    extrema_of_u32: extrema<u32>, extrema_of_u64: extrema<u64>, extrema_of_f32: extrema<f32>,
    extrema_of_f64: extrema<f64>,
}

fn integer_sums<T: Hard>()
where
    T::Sum: TryFrom<i128>,
    i128: From<T>,
{
    check::<T>(|case| {
        let column = case.column();
        let windows = windows(column, case.size, case.slide);
        let exact: Vec<i128> =
            windows.iter().map(|window| window.iter().map(|&i| i128::from(column.values[i])).sum()).collect();
        let mut out = Vec::new();
        let result = sliding_sum(column, case.size, case.slide, &mut out);
        match exact.iter().position(|&sum| T::Sum::try_from(sum).is_err()) {
            Some(window) => assert_eq!(result, Err(SumOverflow { window })),
            None => {
                assert_eq!(result, Ok(()));
                let want: Vec<T::Sum> = exact.iter().filter_map(|&sum| T::Sum::try_from(sum).ok()).collect();
                assert_eq!(out, want);
            }
        }
        let means = appended(0.0, |out| sliding_mean(column, case.size, case.slide, out));
        assert_eq!(means.len(), windows.len());
        for (mean, (sum, window)) in means.iter().zip(exact.iter().zip(&windows)) {
            let want = *sum as f64 / window.len() as f64;
            assert!(mean.same(want), "a mean of {mean}, not {want}");
        }
    });
}

for_types! {
    sums_of_i8: integer_sums<i8>, sums_of_i16: integer_sums<i16>, sums_of_i32: integer_sums<i32>,
    sums_of_i64: integer_sums<i64>, sums_of_u8: integer_sums<u8>, sums_of_u16: integer_sums<u16>,
    sums_of_u32: integer_sums<u32>, sums_of_u64: integer_sums<u64>,
}

/// A sum of floats without error: a fixed-point number of 2200 bits, in limbs of 32 that may carry over late.
struct Exact {
    limbs: [i64; 70],
}

impl Exact {
    /// The exponent of the first limb's lowest bit, below that of the least float.
    const LOWEST: i32 = -1100;

    fn new() -> Self {
        Self { limbs: [0; 70] }
    }

    fn add(&mut self, value: f64) {
        let bits = value.abs().to_bits();
        let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
        let (exponent, mantissa) =
            if exponent == 0 { (-1074, fraction) } else { (exponent - 1075, fraction | 1 << 52) };
        let shift = (exponent - Self::LOWEST) as usize;
        let sign = if value < 0.0 { -1 } else { 1 };
        let wide = u128::from(mantissa) << (shift % 32);
        for limb in 0..3 {
            self.limbs[shift / 32 + limb] += sign * i64::from((wide >> (32 * limb)) as u32);
        }
    }

    fn carry(&mut self) {
        for i in 0..self.limbs.len() - 1 {
            let carry = self.limbs[i] >> 32;
            self.limbs[i] -= carry << 32;
            self.limbs[i + 1] += carry;
        }
    }

    /// The magnitude as the nearest float, but for an error of a few units.
    fn magnitude(mut self) -> f64 {
        self.carry();
        if self.limbs[69] < 0 {
            self.limbs = self.limbs.map(|limb| -limb);
            self.carry();
        }
        let limbs = self.limbs.iter().enumerate().rev();
        // Powers of two are exact; two factors keep them in range.
        limbs.fold(0.0, |sum, (i, &limb)| {
            let exponent = Self::LOWEST + 32 * i as i32;
            sum + limb as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
        })
    }
}

/// How far `sum` is from the exact sum of `values`.
fn error(sum: f64, values: impl Iterator<Item = f64>) -> f64 {
    let mut exact = Exact::new();
    values.for_each(|value| exact.add(value));
    exact.add(-sum);
    exact.magnitude()
}

const U: f64 = f64::EPSILON / 2.0;

fn float_sums<T: Hard + Element<Sum = f64>>() {
    check::<T>(|case| {
        let column = case.column();
        let windows = windows(column, case.size, case.slide);
        let sums = appended(0.0, |out| sliding_sum(column, case.size, case.slide, out).unwrap());
        let means = appended(0.0, |out| sliding_mean(column, case.size, case.slide, out));
        assert_eq!((sums.len(), means.len()), (windows.len(), windows.len()));
        for (k, window) in windows.iter().enumerate() {
            let values = window.iter().map(|&i| column.values[i].to_f64());
            let (sum, mean) = (sums[k], means[k]);
            let (finite, others): (Vec<f64>, Vec<f64>) = values.clone().partition(|value| value.is_finite());
            if finite.iter().map(|value| value.abs() / 2.0).sum::<f64>() > f64::MAX / 2.0 {
                // Finite values may add up to an infinity on the way, by the order of additions.
                continue;
            }
            if !others.is_empty() {
                let want: f64 = others.iter().sum();
                assert!(sum.same(want), "window {k}: {sum}, not {want}");
                assert!(mean.same(want), "window {k}: {mean}, not {want}");
                continue;
            }
            let absolute: f64 = values.clone().map(f64::abs).sum();
            let off = error(sum, values);
            let bound = U * sum.abs() * 1.001 + (case.size as f64 * U).powi(2) * absolute;
            assert!(off <= bound, "window {k}: off by {off}, more than {bound}");
            let want = if window.is_empty() { f64::NAN } else { sum / window.len() as f64 };
            assert!(mean.same(want), "window {k}: a mean of {mean}, not {want}");
        }
    });
}

for_types! { sums_of_f32: float_sums<f32>, sums_of_f64: float_sums<f64> }

fn counts<T: Hard>() {
    check::<T>(|case| {
        let column = case.column();
        let Some(validity) = column.validity else { return };
        let want: Vec<i64> =
            windows(column, case.size, case.slide).iter().map(|window| window.len() as i64).collect();
        let got = appended(7, |out| sliding_valid_count(validity, column.len(), case.size, case.slide, out));
        assert_eq!(got, want);
        for least in [0, 1, case.size / 2, case.size] {
            let mut bits = vec![0x5A];
            let few = sliding_validity(validity, column.len(), case.size, case.slide, least, &mut bits);
            assert_eq!(few, want.iter().filter(|&&count| count < least as i64).count());
            assert_eq!(bits.len(), 1 + want.len().div_ceil(8));
            let enough = Validity::new(&bits, 8);
            for (k, &count) in want.iter().enumerate() {
                assert_eq!(
                    enough.get(k),
                    count >= least as i64,
                    "window {k} of {count} values, {least} asked for"
                );
            }
        }
    });
}

for_types! { counts_of_valid_values: counts<i8> }

/// The variance of values: two passes, with corrections for the mean's error (Chan, Golub, LeVeque 1983, Eq. 1.7).
fn variance(values: &[f64], ddof: usize) -> f64 {
    if values.len() <= ddof {
        return f64::NAN;
    }
    let count = values.len() as f64;
    // Deviations from one of the values first, so that the mean is exact enough.
    let deviations: Vec<f64> = values.iter().map(|value| value - values[0]).collect();
    let mean = deviations.iter().sum::<f64>() / count;
    let squares: f64 = deviations.iter().map(|deviation| (deviation - mean).powi(2)).sum();
    let rest: f64 = deviations.iter().map(|deviation| deviation - mean).sum();
    (squares - rest * rest / count) / (values.len() - ddof) as f64
}

fn variances<T: Hard>() {
    check::<T>(|case| {
        let column = case.column();
        let windows = windows(column, case.size, case.slide);
        for ddof in [0, 1] {
            let got = appended(0.0, |out| sliding_variance(column, case.size, case.slide, ddof, out));
            let roots = appended(0.0, |out| sliding_std(column, case.size, case.slide, ddof, out));
            assert_eq!((got.len(), roots.len()), (windows.len(), windows.len()));
            for (k, window) in windows.iter().enumerate() {
                let values: Vec<f64> = window.iter().map(|&i| column.values[i].to_f64()).collect();
                if values.iter().any(|value| value.abs() > 1e150) && values.iter().all(|v| v.is_finite()) {
                    // Squares overflow.
                    continue;
                }
                let want = variance(&values, ddof);
                let count = values.len() as f64;
                let bound = want * 4.0 * (count + 1.0) * (count + 8.0) * U;
                let close = (got[k] - want).abs() <= bound || got[k].same(want);
                assert!(close, "window {k}: {}, not {want}", got[k]);
                assert!(roots[k].same(got[k].sqrt()), "window {k}: a root of {}", roots[k]);
            }
        }
    });
}

for_types! {
    variances_of_i8: variances<i8>, variances_of_u32: variances<u32>, variances_of_f32: variances<f32>,
    variances_of_f64: variances<f64>,
}

#[test]
fn neither_offsets_nor_steps_nor_outliers_outside_cost_variances_their_precision() {
    // Noise that is exact at an offset of 1e9, a step of 1e9 up and down, and one value of 1e20.
    let len = if cfg!(miri) { 400 } else { 20_000 };
    let noise = |i: usize| ((i * 7919) % 1024) as f64 / 1024.0;
    let mut values: Vec<f64> = (0..len).map(|i| noise(i) + 1e9 * ((i / 700) % 2) as f64).collect();
    values[len / 2] = 1e20;
    let mut bits = vec![0xFF; len.div_ceil(8)];
    for i in (0..len).filter(|i| i % 7 == 0 || i % 700 < 30) {
        bits[i / 8] &= !(1 << (i % 8));
    }
    for validity in [None, Some(Validity::new(&bits, 0))] {
        let column = Column::new(&values, validity);
        for (size, slide) in
            [(2, 1), (10, 1), (100, 1), (100, 3), (100, 64), (300, 100), (5000, 1), (5000, 999)]
        {
            at_each_level(|_| {
                let got = appended(0.0, |out| sliding_variance(column, size, slide, 1, out));
                for (k, window) in windows(column, size, slide).iter().enumerate().step_by(1 + size / 100) {
                    let values: Vec<f64> = window.iter().map(|&i| column.values[i]).collect();
                    let want = variance(&values, 1);
                    let close = (got[k] - want).abs() <= 1e-9 * want || got[k].same(want);
                    assert!(close, "size {size}, slide {slide}, window {k}: {}, not {want}", got[k]);
                }
            });
        }
    }
}

fn positions<T: Hard>() {
    check::<T>(|case| {
        let column = case.column();
        let windows = windows(column, case.size, case.slide);
        let least = appended(7, |out| sliding_arg_min(column, case.size, case.slide, out));
        let greatest = appended(7, |out| sliding_arg_max(column, case.size, case.slide, out));
        assert_eq!((least.len(), greatest.len()), (windows.len(), windows.len()));
        for (k, window) in windows.iter().enumerate() {
            let positions = window.iter().copied();
            let x = column.values;
            let min = positions.clone().reduce(|a, b| if x[b].less(x[a]) { b } else { a });
            let max = positions.reduce(|a, b| if x[a].less(x[b]) { b } else { a });
            assert_eq!(least[k], min.map_or(u64::MAX, |i| i as u64), "minimum of window {k}");
            assert_eq!(greatest[k], max.map_or(u64::MAX, |i| i as u64), "maximum of window {k}");
        }
    });
}

for_types! {
    positions_of_i8: positions<i8>, positions_of_u16: positions<u16>, positions_of_i32: positions<i32>,
    positions_of_u32: positions<u32>, positions_of_i64: positions<i64>, positions_of_u64: positions<u64>,
    positions_of_f32: positions<f32>, positions_of_f64: positions<f64>,
}

fn reductions<T: Hard>() {
    check::<T>(|case| {
        let column = case.column();
        let there: Vec<usize> = windows(column, column.len().max(1), 1).concat();
        let x = column.values;
        let min = there.iter().copied().reduce(|a, b| if x[b].less(x[a]) { b } else { a });
        let max = there.iter().copied().reduce(|a, b| if x[a].less(x[b]) { b } else { a });
        assert!(
            reduce_min(column).is_some() == min.is_some() && reduce_max(column).is_some() == max.is_some()
        );
        assert!(reduce_min(column).is_none_or(|least| least.same(x[min.unwrap()])));
        assert!(reduce_max(column).is_none_or(|greatest| greatest.same(x[max.unwrap()])));
        let moments = reduce_moments(column);
        assert_eq!(moments.count, there.len() as f64);
        let values: Vec<f64> = there.iter().map(|&i| x[i].to_f64()).collect();
        if values.iter().all(|value| value.abs() < 1e100) {
            let want = variance(&values, 0);
            let got = moments.variance(0.0, false).unwrap_or(f64::NAN);
            let close = (got - want).abs() <= want * 1e-9 || want.is_nan();
            assert!(close, "a variance of {got}, not {want}");
            let absolute: f64 = values.iter().map(|value| value.abs()).sum();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let bound = absolute * 1e-12 / values.len() as f64;
            assert!(values.is_empty() || (moments.reference + moments.mean - mean).abs() <= bound);
        }
    });
}

for_types! {
    reductions_of_i8: reductions<i8>, reductions_of_u16: reductions<u16>, reductions_of_i64: reductions<i64>,
    reductions_of_u64: reductions<u64>, reductions_of_f32: reductions<f32>, reductions_of_f64: reductions<f64>,
}
