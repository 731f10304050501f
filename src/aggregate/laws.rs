//! The laws that every function declares, checked on random rows of every type it supports.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray, cast::AsArray,
    types::Int64Type,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;

use super::function::types;
use super::lift::cast_to;
use super::*;
use crate::Result;
use crate::kernels::Ranges;
use crate::poll::{Poll, never};

/// Rows of one value (or null), the other column's, a time, and whether the filter accepts them.
type Row = (Option<i8>, Option<i8>, i64, bool);

const TIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

fn kinds() -> Vec<DataType> {
    vec![
        DataType::Int8,
        DataType::UInt64,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(9, 2),
        DataType::Decimal128(38, 0),
        DataType::Boolean,
        DataType::Date32,
        DataType::Duration(TimeUnit::Millisecond),
        TIME,
        DataType::Utf8,
        DataType::Binary,
        DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into()),
    ]
}

/// Small numbers as values of any type; of floats one is NaN and one negative zero.
fn values(numbers: impl Iterator<Item = Option<i8>>, kind: &DataType) -> ArrayRef {
    let numbers: Vec<Option<i64>> = numbers
        .map(|n| n.map(|n| if kind.is_unsigned_integer() { n.unsigned_abs().into() } else { n.into() }))
        .collect();
    let integers: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
    let odd = |n: i64| match n {
        7 => f64::NAN,
        -7 => -0.0,
        n => n as f64,
    };
    match kind {
        DataType::Float32 | DataType::Float64 => {
            let floats: Float64Array = numbers.iter().map(|n| n.map(odd)).collect();
            cast_to(&(Arc::new(floats) as ArrayRef), kind).unwrap()
        }
        DataType::Date32 => cast_to(&cast_to(&integers, &DataType::Int32).unwrap(), kind).unwrap(),
        DataType::Binary | DataType::Utf8 | DataType::Dictionary(..) => {
            let texts: StringArray = numbers.iter().map(|n| n.map(|n| n.to_string())).collect();
            cast_to(&(Arc::new(texts) as ArrayRef), kind).unwrap()
        }
        _ => cast_to(&integers, kind).unwrap(),
    }
}

fn function(name: &str) -> Function {
    let parameters: &[f64] = match name {
        "quantile" | "quantile_disc" | "approx_quantile" | "frequent" => &[0.3],
        "top_k" => &[2.0],
        // A small sketch, which few values fill.
        "approx_count_distinct" | "hll_sketch" => &[4.0],
        _ => &[],
    };
    Function::parse(name, &["own", "other"].map(String::from), parameters).unwrap()
}

/// A function over columns of one type, and the columns of its partials.
struct Case {
    function: Function,
    inputs: Vec<DataType>,
    partials: Vec<Box<dyn Partials>>,
}

impl Case {
    fn new(function: &Function, kind: &DataType) -> Result<Self> {
        let inputs = vec![kind.clone(); function.columns()];
        function.output_type(&inputs, &TIME)?;
        let partials = function.partials();
        let partials = partials
            .iter()
            .map(|(partial, operands)| partial.column(&types(operands, &inputs, &TIME), never));
        Ok(Self { function: function.clone(), partials: partials.collect::<Result<_>>()?, inputs })
    }

    fn with(&self, each: impl Fn(&dyn Partials) -> Box<dyn Partials>) -> Self {
        let partials = self.partials.iter().map(|partial| each(&**partial)).collect();
        Self { function: self.function.clone(), inputs: self.inputs.clone(), partials }
    }

    /// Folds rows into slots: row r into slot `slots[r]`, as a filter lets them.
    fn push(&mut self, rows: &[Row], slots: &[u32], len: usize, filtered: bool) {
        let own =
            values(rows.iter().map(|row| row.0), &self.inputs.first().cloned().unwrap_or(DataType::Int64));
        let other =
            values(rows.iter().map(|row| row.1), &self.inputs.first().cloned().unwrap_or(DataType::Int64));
        let times: Vec<i64> = rows.iter().map(|row| row.2).collect();
        let taken = filtered.then(|| rows.iter().map(|row| row.3).collect::<Vec<bool>>().into());
        for ((_, operands), partials) in self.function.partials().into_iter().zip(&mut self.partials) {
            let columns = operands.iter().map(|operand| match operand {
                Operand::Column(0) => own.clone(),
                Operand::Column(_) => other.clone(),
                Operand::Time => Arc::new(TimestampMicrosecondArray::from(times.clone())),
            });
            let input = Input { columns: columns.collect(), taken: taken.clone() };
            input.feed(&mut **partials, Rows::all(slots, &times), len).unwrap();
        }
    }

    /// Combines groups of slots.
    fn regroup(&self, groups: &[&[u32]]) -> Self {
        let (slots, starts) = placed(groups);
        self.with(|partials| partials.regroup(&slots, &starts).unwrap())
    }

    /// Combines groups of these slots and, after them, those of another column; none unless all are plain.
    fn regroup_both(&self, later: &Self, groups: &[&[u32]]) -> Option<Self> {
        let (slots, starts) = placed(groups);
        let each = self.partials.iter().zip(&later.partials).map(|(own, later)| {
            let states = own.states().filter(|states| states.is_plain())?;
            Some(states.regroup_both(&**later, &slots, &starts).unwrap())
        });
        let partials = each.collect::<Option<_>>()?;
        Some(Self { function: self.function.clone(), inputs: self.inputs.clone(), partials })
    }

    /// The results, which are of the type that the function declares.
    fn lower(&self) -> ArrayRef {
        let partials: Vec<&dyn Partials> = self.partials.iter().map(|partials| &**partials).collect();
        let results = self.function.lower(&partials, &self.inputs, &TIME).unwrap();
        let declared = self.function.output_type(&self.inputs, &TIME).unwrap();
        assert_eq!(*results.data_type(), declared, "{:?} of {:?}", self.function, self.inputs);
        results
    }

    fn properties(&self) -> Properties {
        self.function.properties(&self.inputs, &TIME).unwrap()
    }
}

/// The slots of groups, one group after the other, and where each begins.
fn placed(groups: &[&[u32]]) -> (Vec<u32>, Vec<u32>) {
    let mut at = 0;
    let starts = groups.iter().map(|group| {
        at += group.len() as u32;
        at - group.len() as u32
    });
    let starts = starts.collect();
    (groups.concat(), starts)
}

/// Whether results are equal: all NaNs are, negative zero equals zero, and floats are compared up to rounding, which no
/// function is free of.
fn equal(a: &ArrayRef, b: &ArrayRef) -> bool {
    let DataType::Float64 = a.data_type() else {
        let text = |array: &ArrayRef| format!("{array:?}").replace("-0.0,", "0.0,");
        return a.as_ref() == b.as_ref() || text(a) == text(b);
    };
    let (a, b) = (
        a.as_primitive::<arrow_array::types::Float64Type>(),
        b.as_primitive::<arrow_array::types::Float64Type>(),
    );
    a.len() == b.len()
        && a.iter().zip(b).all(|pair| match pair {
            (Some(a), Some(b)) => {
                // Near 0 a root has half of the digits of its square.
                let apart = (a - b).abs().min((a * a - b * b).abs());
                a == b || (a.is_nan() && b.is_nan()) || apart <= 1e-9 * (1.0 + a.abs().max(b.abs()))
            }
            (a, b) => a.is_none() && b.is_none(),
        })
}

fn rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
    let number = || prop::option::weighted(0.8, -8i8..9);
    prop::collection::vec((number(), number(), 0i64..50, any::<bool>()), 3..most)
}

/// Every function with every type it supports.
fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for name in Function::names() {
        for kind in kinds() {
            if let Ok(case) = Case::new(&function(name), &kind) {
                cases.push((format!("{name} of {kind}"), case));
            }
        }
    }
    assert!(cases.len() > 200, "each function has a meaning for some types: {}", cases.len());
    cases
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Three slots, with rows in the order of their times as slices of one key have them.
    #[test]
    fn functions_are_associative_and_commute_as_they_declare(mut rows in rows(24), filtered in any::<bool>()) {
        rows.sort_by_key(|row| row.2);
        let slots: Vec<u32> = (0..rows.len()).map(|row| (3 * row / rows.len()) as u32).collect();
        for (name, mut case) in cases() {
            case.push(&rows, &slots, 3, filtered);
            let all = case.regroup(&[&[0, 1, 2]]).lower();
            let left = case.regroup(&[&[0, 1], &[2]]).regroup(&[&[0, 1]]).lower();
            let right = case.regroup(&[&[0], &[1, 2]]).regroup(&[&[0, 1]]).lower();
            prop_assert!(equal(&left, &right) && equal(&left, &all), "{name}: {left:?} {right:?} {all:?}");
            prop_assert!(case.properties().associative, "{name}");
            let back = case.regroup(&[&[2, 0, 1]]).lower();
            prop_assert!(equal(&all, &back) && case.properties().commutative, "{name}: {all:?} {back:?}");
        }
    }

    /// Slots of two columns are combined as those of one.
    #[test]
    fn two_plain_columns_are_as_one(mut rows in rows(24), filtered in any::<bool>(), cut in 1u32..3) {
        rows.sort_by_key(|row| row.2);
        let slots: Vec<u32> = (0..rows.len()).map(|row| (3 * row / rows.len()) as u32).collect();
        let first = slots.partition_point(|&slot| slot < cut);
        let later_slots: Vec<u32> = slots[first..].iter().map(|slot| slot - cut).collect();
        let mut plain = 0;
        for (name, mut all) in cases() {
            let empty = || all.with(|partials| partials.empty());
            let (mut early, mut late) = (empty(), empty());
            all.push(&rows, &slots, 3, filtered);
            early.push(&rows[..first], &slots[..first], cut as usize, filtered);
            late.push(&rows[first..], &later_slots, 3 - cut as usize, filtered);
            for groups in [&[&[0u32, 1, 2][..]][..], &[&[0], &[1], &[2]], &[&[2], &[0, 1]], &[&[0, 2], &[1]]] {
                let Some(both) = early.regroup_both(&late, groups) else { continue };
                let (both, one) = (both.lower(), all.regroup(groups).lower());
                prop_assert!(equal(&both, &one), "{name} {groups:?}: {both:?} {one:?}");
                plain += 1;
            }
        }
        prop_assert!(plain > 200, "{plain}");
    }

    #[test]
    fn a_slot_without_rows_changes_nothing(rows in rows(12)) {
        for (name, mut case) in cases() {
            let slots = vec![1; rows.len()];
            // The filter accepts no row of slots 0 and 2.
            let mut padded = vec![(Some(1), Some(1), 0, false), (None, None, 0, false)];
            padded.extend(rows.iter().map(|row| (row.0, row.1, row.2, true)));
            let slots: Vec<u32> = [0, 2].into_iter().chain(slots).collect();
            case.push(&padded, &slots, 3, true);
            let alone = case.regroup(&[&[1]]).lower();
            for group in [[0, 1], [1, 0], [2, 1], [1, 2]] {
                prop_assert!(equal(&case.regroup(&[&group]).lower(), &alone), "{name} {group:?}");
            }
        }
    }

    /// Results computed by the inverse, where there is one, equal those combined without it.
    #[test]
    fn windows_that_overlap_are_their_slots_combined(mut rows in rows(60), steps in prop::collection::vec((0u32..3, 0u32..3), 1..12)) {
        rows.sort_by_key(|row| row.2);
        let slots: Vec<u32> = (0..rows.len()).map(|row| (row / 3) as u32).collect();
        let len = rows.len().div_ceil(3);
        let (mut lo, mut hi) = (0, 1);
        let mut ranges = Ranges::default();
        let mut groups = Vec::new();
        for (step_lo, step_hi) in steps {
            lo += step_lo;
            hi = (hi + step_hi).max(lo + 1);
            if hi > len as u32 {
                break;
            }
            ranges.push(lo, hi);
            groups.push((lo..hi).collect::<Vec<u32>>());
        }
        let groups: Vec<&[u32]> = groups.iter().map(Vec::as_slice).collect();
        for (name, mut case) in cases() {
            case.push(&rows, &slots, len, false);
            let windows = case.with(|partials| partials.answer(&ranges).unwrap());
            let wanted = case.regroup(&groups);
            prop_assert!(equal(&windows.lower(), &wanted.lower()), "{name}: {:?} {:?}", windows.lower(), wanted.lower());
            // Answers are partials themselves: all of them are combined as their slots are.
            let every: Vec<u32> = (0..groups.len() as u32).collect();
            if !every.is_empty() && !matches!(name.split(' ').next(), Some("collect_list" | "collect_rows")) {
                let slots: Vec<u32> = groups.concat();
                let (twice, once) = (windows.regroup(&[&every]), case.regroup(&[&slots]));
                prop_assert!(equal(&twice.lower(), &once.lower()), "{name} {:?} {:?}", twice.lower(), once.lower());
            }
        }
    }

    /// What is subtracted leaves what was there without it.
    #[test]
    fn what_is_taken_back_leaves_the_rest(rows in rows(24), filtered in any::<bool>()) {
        // But for NaN and infinities, which stay in sums of floats.
        let plain = |number: Option<i8>| number.map(|number| number.rem_euclid(6) + 1);
        let rows: Vec<Row> = rows.into_iter().map(|row| (plain(row.0), plain(row.1), row.2, row.3)).collect();
        let slots: Vec<u32> = (0..rows.len() as u32).map(|row| row % 2).collect();
        let mut subtracting = 0;
        for (name, mut case) in cases() {
            if !case.partials.iter().all(|partials| partials.subtracts()) {
                continue;
            }
            subtracting += 1;
            case.push(&rows, &slots, 2, filtered);
            let has_value = |row: &Row| (!filtered || row.3) && (row.0.is_some() || case.function.columns() == 0);
            let left = [rows.iter().step_by(2).any(has_value)];
            let (whole, lost) = (case.regroup(&[&[0, 1]]), case.regroup(&[&[1]]));
            let rest = whole.partials.iter().zip(&lost.partials);
            let rest = rest.map(|(whole, lost)| whole.without(&**lost, &left).unwrap()).collect();
            let rest = Case { partials: rest, function: case.function.clone(), inputs: case.inputs.clone() };
            let wanted = case.regroup(&[&[0]]);
            prop_assert!(equal(&rest.lower(), &wanted.lower()), "{name}: {:?} {:?}", rest.lower(), wanted.lower());
        }
        prop_assert!(subtracting > 100, "{subtracting}");
    }

    /// Slices can be sent: their states, merged elsewhere, give the same results.
    #[test]
    fn states_come_back(mut rows in rows(40), filtered in any::<bool>()) {
        rows.sort_by_key(|row| row.2);
        let len = rows.len().div_ceil(4);
        let slots: Vec<u32> = (0..rows.len()).map(|row| (row / 4) as u32).collect();
        let times: Vec<i64> = (0..len).map(|slot| rows[4 * slot].2).collect();
        let own: Vec<u32> = (0..len as u32).collect();
        for (name, mut case) in cases() {
            case.push(&rows, &slots, len, filtered);
            let mut there = case.with(|partials| partials.empty());
            for (from, to) in case.partials.iter().zip(&mut there.partials) {
                let states = from.state().unwrap();
                to.merge(&states, Rows::all(&own, &times), len).unwrap();
            }
            let widths = case.function.partials();
            for ((partial, operands), column) in widths.iter().zip(&case.partials) {
                let inputs = types(operands, &case.inputs, &TIME);
                let width = partial.state_columns(inputs.first().unwrap_or(&DataType::Int64));
                prop_assert_eq!(column.state().unwrap().len(), width, "{}", name);
            }
            prop_assert!(equal(&case.lower(), &there.lower()), "{name}: {:?} {:?}", case.lower(), there.lower());
            let (one, other) = (case.regroup(&[&own]).lower(), there.regroup(&[&own]).lower());
            prop_assert!(equal(&one, &other), "{name} in one: {one:?} {other:?}");
        }
    }

    /// Columns that were filled separately and then appended equal one filled at once, also after more rows.
    #[test]
    fn columns_are_appended(rows in rows(30), more in rows(20)) {
        for (name, mut case) in cases() {
            let mut other = case.with(|partials| partials.empty());
            let mut together = case.with(|partials| partials.empty());
            let slots = |rows: &[Row], base: u32| (0..rows.len()).map(|row| base + (row % 3) as u32).collect::<Vec<u32>>();
            case.push(&rows, &slots(&rows, 0), 3, false);
            other.push(&more, &slots(&more, 0), 3, true);
            together.push(&rows, &slots(&rows, 0), 3, false);
            together.push(&more, &slots(&more, 3), 6, true);
            for (own, theirs) in case.partials.iter_mut().zip(other.partials) {
                own.append(theirs);
            }
            prop_assert!(equal(&case.lower(), &together.lower()), "{name}");
            let mut put_in_order = case.regroup(&[&[0, 3], &[1], &[2, 4, 5]]);
            let mut wanted = together.regroup(&[&[0, 3], &[1], &[2, 4, 5]]);
            for case in [&mut put_in_order, &mut wanted] {
                case.push(&rows, &slots(&rows, 1), 4, false);
            }
            prop_assert!(equal(&put_in_order.lower(), &wanted.lower()), "{name} after more rows");
        }
    }
}

/// `invert(combine(a, b), a) == b` for those that declare it, and only those have an inverse.
#[test]
fn inverses_are_exact() {
    fn check<M: Aggregate<State: PartialEq + std::fmt::Debug>>(monoid: M, states: &[M::State]) {
        assert_eq!(monoid.properties().invertible, monoid.inverts());
        if !monoid.inverts() {
            return;
        }
        for &a in states {
            for &b in states {
                assert_eq!(monoid.evict(monoid.combine(a, b), a), Some(b));
            }
        }
    }
    check(crate::algebra::Count, &[0, 1, 7, 1 << 40]);
    let exact = |kind: DataType| sum::Integers::<i128>::new(&kind, kind.clone());
    check(exact(DataType::Int64), &[0, -1, i64::MAX.into(), i128::from(u64::MAX) << 32]);
    check(exact(DataType::Duration(TimeUnit::Second)), &[0, -5]);
    let decimal = DataType::Decimal128(38, 0);
    let sum = sum::Integers::<i256>::new(&decimal, decimal.clone());
    check(sum, &[0, i128::MAX, i128::MIN].map(i256::from_i128));
    check(sum::Floats::new(false), &[0.1, 1e300].map(crate::algebra::Twofold::new));
    check(sum::Floats::new(true), &[crate::algebra::Twofold::new(0.1)]);
}

/// One rule for sums of floats: slots, kernels and streams agree to the last digit where plain sums would not.
#[test]
fn sums_of_floats_are_rounded_alike_everywhere() {
    use crate::kernels::streaming::{Algorithm, StreamWindow};
    use crate::kernels::{self, Frames, Rolling, Segments};
    let numbers: Vec<f64> =
        (0..300).map(|n: i32| f64::from(n % 7 - 3) * 10f64.powi(n % 31 - 15) + 0.1).collect();
    let values: ArrayRef = Arc::new(Float64Array::from(numbers.clone()));
    let slots: Vec<u32> = (0..300).map(|row| row / 30).collect();
    let times: Vec<i64> = (0..300).collect();
    for name in ["sum", "mean"] {
        let mut case = Case::new(&function(name), &DataType::Float64).unwrap();
        for partials in &mut case.partials {
            partials.update(std::slice::from_ref(&values), Rows::all(&slots, &times), 10).unwrap();
        }
        let mut there = case.with(|partials| partials.empty());
        for (from, to) in case.partials.iter().zip(&mut there.partials) {
            let slots: Vec<u32> = (0..10).collect();
            to.merge(&from.state().unwrap(), Rows::all(&slots, &times[..10]), 10).unwrap();
        }
        let all: Vec<u32> = (0..10).collect();
        let query = case.regroup(&[&all]).lower();
        assert_eq!(&query, &there.regroup(&[&all]).lower(), "a snapshot of {name} is another");

        let function = kernels::Function::parse(name, 1).unwrap();
        let frames = Frames::Rolling(Rolling::new(300, 1, false, false).unwrap(), Segments::whole(300));
        let question = kernels::Question { function, algorithm: kernels::Algorithm::Auto, min_periods: None };
        assert_eq!(
            &query,
            &kernels::answer(&values, &frames, &question, never).unwrap(),
            "{name} of a kernel"
        );

        for algorithm in [Algorithm::Daba, Algorithm::TwoStacks] {
            let mut window = StreamWindow::new(function, &DataType::Float64, algorithm).unwrap();
            window.insert(&values).unwrap();
            assert_eq!(&query, &window.query().unwrap(), "{name} of a stream");
        }
    }
}

/// A function over arrays that does not commute, and says so.
struct Concat;

impl ArrayFunction for Concat {
    fn name(&self) -> &str {
        "concat"
    }

    fn lift(&self, inputs: &[ArrayRef]) -> Result<ArrayRef> {
        cast_to(&inputs[0], &DataType::Utf8)
    }

    fn combine(&self, earlier: &ArrayRef, later: &ArrayRef) -> Result<ArrayRef> {
        let pairs = earlier.as_string::<i32>().iter().zip(later.as_string::<i32>());
        let joined = pairs.map(|(a, b)| Some(format!("{}{}", a?, b?)));
        Ok(Arc::new(joined.collect::<StringArray>()))
    }

    fn lower(&self, states: &ArrayRef) -> Result<ArrayRef> {
        Ok(states.clone())
    }

    fn invert(&self, _: &ArrayRef, _: &ArrayRef) -> Option<Result<ArrayRef>> {
        None
    }

    fn properties(&self) -> Properties {
        Properties { commutative: false, ..Properties::commutative(Kind::Holistic) }
    }

    fn identity(&self, _: &DataType) -> Result<Option<ArrayRef>> {
        Ok(None)
    }
}

#[test]
fn what_does_not_commute_is_combined_in_the_order_of_time() {
    let function = Function::User(User(Arc::new(Arrays(Arc::new(Concat)))), 1);
    let mut case = Case::new(&function, &DataType::Int64).unwrap();
    assert!(!case.properties().commutative);
    let rows: Vec<Row> = [(1, 30), (2, 10), (3, 20), (4, 10)].map(|(n, t)| (Some(n), None, t, true)).into();
    case.push(&rows, &[0, 0, 1, 1], 2, false);
    let texts = |case: &Case| -> Vec<String> {
        let lowered = case.lower();
        lowered.as_string::<i32>().iter().flatten().map(str::to_owned).collect()
    };
    assert_eq!(texts(&case), ["21", "43"]);
    assert_eq!(texts(&case.regroup(&[&[0, 1]])), ["2431"]);
    // In the order of slots the string would differ: the function does not commute.
    assert_ne!(texts(&case.regroup(&[&[0, 1]])).concat(), texts(&case).concat());
}

/// The least number of a window, as a user of the crate would write it: a monoid over plain values.
#[derive(Clone)]
struct Spread;

impl Monoid for Spread {
    type State = (i64, i64);

    fn identity(&self) -> (i64, i64) {
        (i64::MAX, i64::MIN)
    }

    fn combine(&self, earlier: (i64, i64), later: (i64, i64)) -> (i64, i64) {
        (earlier.0.min(later.0), earlier.1.max(later.1))
    }
}

impl Aggregate for Spread {
    fn properties(&self) -> Properties {
        Properties::commutative(Kind::Algebraic)
    }

    fn update(column: &mut Column<Self>, inputs: &[ArrayRef], rows: Rows<'_>, len: usize) -> Result<()> {
        let values = inputs[0].as_primitive::<Int64Type>();
        column.fold(rows, values.nulls(), len, |row| (values.value(row), values.value(row)));
        Ok(())
    }

    fn lower(column: &Column<Self>) -> Result<ArrayRef> {
        let spreads = column.states().iter().map(|state| (state.1 >= state.0).then(|| state.1 - state.0));
        Ok(Arc::new(spreads.collect::<Int64Array>()))
    }
}

impl UserAggregate for Spread {
    fn name(&self) -> &str {
        "spread"
    }

    fn properties(&self) -> Properties {
        Aggregate::properties(self)
    }

    fn output_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn column(&self, _: &[DataType], _: Poll) -> Result<Box<dyn Partials>> {
        Ok(Box::new(Column::new(self.clone())))
    }
}

#[test]
fn a_monoid_of_a_users_own_is_a_function() {
    let function = Function::User(User(Arc::new(Spread)), 1);
    let mut case = Case::new(&function, &DataType::Int64).unwrap();
    let rows: Vec<Row> = [Some(3), None, Some(-4), Some(8)].map(|n| (n, None, 0, true)).into();
    case.push(&rows, &[0, 1, 1, 2], 3, false);
    let spreads = |case: &Case| case.lower().as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    assert_eq!(spreads(&case), [Some(0), Some(0), Some(0)]);
    assert_eq!(spreads(&case.regroup(&[&[0, 1, 2]])), [Some(12)]);
    assert_eq!(spreads(&case.regroup(&[&[1]])), [Some(0)]);
}
