//! The kernels of `simd` by themselves, at the level of this machine, on whatever part of a buffer.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use windowkit::simd::*;
use windowkit_fuzz::{exact_sum, is_sum};

#[derive(Arbitrary, Debug)]
struct Case {
    float: bool,
    bytes: Vec<u8>,
    bits: Option<Vec<u8>>,
    skip: u8,
    bit_offset: u8,
    size: u16,
    slide: u16,
}

fuzz_target!(|case: Case| {
    if case.float {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300, 1e-300];
        let float = |&byte: &u8| match byte {
            250.. => special[usize::from(byte - 250)],
            _ => (f64::from(byte) - 125.0) / 10.0,
        };
        check(&case, &case.bytes.iter().map(float).collect::<Vec<f64>>(), |value| value.is_nan());
    } else {
        let integer = |&byte: &u8| match byte {
            254 => i16::MIN,
            255 => i16::MAX,
            _ => i16::from(byte % 50),
        };
        check(&case, &case.bytes.iter().map(integer).collect::<Vec<i16>>(), |_| false);
    }
});

fn check<T: Element + PartialOrd + std::fmt::Debug + Into<f64>>(
    case: &Case,
    all: &[T],
    is_nan: impl Fn(T) -> bool + Copy,
) {
    // A part of the buffer, at any alignment, and as many bits, which may begin within a byte.
    let values = &all[usize::from(case.skip).min(all.len())..];
    let bit_offset = usize::from(case.bit_offset % 16);
    let bits = case.bits.as_ref().map(|bits| {
        let bytes = (values.len() + bit_offset).div_ceil(8).max(1);
        bits.iter().copied().chain([0xA5]).cycle().take(bytes).collect::<Vec<u8>>()
    });
    let validity = bits.as_ref().map(|bits| Validity::new(bits, bit_offset));
    let column = Column::new(values, validity);
    let there = |at: usize| validity.is_none_or(|validity| validity.get(at));
    let (size, slide) = (usize::from(case.size % 500) + 1, usize::from(case.slide % 500) + 1);

    let below = |a: T, b: T| a < b || (is_nan(b) && !is_nan(a));
    let same = |a: T, b: T| !below(a, b) && !below(b, a);
    let least = |rows: &[usize], max: bool| {
        let wins =
            |a: usize, b: usize| if max { below(values[b], values[a]) } else { below(values[a], values[b]) };
        rows.iter().copied().reduce(|best, next| if wins(next, best) { next } else { best })
    };
    let windows: Vec<Vec<usize>> = (0..)
        .map(|k| k * slide)
        .take_while(|start| start + size <= values.len())
        .map(|start| (start..start + size).filter(|&at| there(at)).collect())
        .collect();
    assert_eq!(windows.len(), window_count(values.len(), size, slide));

    let (mut mins, mut maxs, mut args, mut means, mut sums) = (vec![], vec![], vec![], vec![], vec![]);
    sliding_min(column, size, slide, &mut mins);
    sliding_max(column, size, slide, &mut maxs);
    sliding_arg_min(column, size, slide, &mut args);
    sliding_mean(column, size, slide, &mut means);
    sliding_sum(column, size, slide, &mut sums).expect("sums of 16 bits fit");
    assert_eq!([mins.len(), maxs.len(), args.len(), means.len(), sums.len()], [windows.len(); 5]);
    for (at, rows) in windows.iter().enumerate() {
        assert!(
            same(mins[at], least(rows, false).map_or(T::GREATEST, |row| values[row])),
            "min of window {at}"
        );
        assert!(same(maxs[at], least(rows, true).map_or(T::LEAST, |row| values[row])), "max of window {at}");
        assert_eq!(args[at], least(rows, false).map_or(u64::MAX, |row| row as u64), "argmin of window {at}");
        let floats: Vec<f64> = rows.iter().map(|&row| values[row].into()).collect();
        if !floats.is_empty() {
            let shares: Vec<f64> = floats.iter().map(|value| value / floats.len() as f64).collect();
            let slack = 2f64.powi(-51) * shares.iter().map(|share| share.abs()).sum::<f64>();
            let near = (means[at] - exact_sum(shares.iter().copied())).abs() <= slack + f64::MIN_POSITIVE;
            assert!(near || is_sum(means[at], &shares), "mean of window {at}: {}", means[at]);
        }
    }

    if let Some(validity) = validity {
        let mut counts = vec![];
        sliding_valid_count(validity, values.len(), size, slide, &mut counts);
        let want: Vec<i64> = windows.iter().map(|rows| rows.len() as i64).collect();
        assert_eq!(counts, want);
    }
}
