//! Windows over sorted times, as ranges of rows.
#![no_main]

use arbitrary::Arbitrary;
use arrow_buffer::ScalarBuffer;
use libfuzzer_sys::fuzz_target;
use windowkit::kernels::by_time::{fixed, row_ending};
use windowkit::kernels::{Closed, Segments};

#[derive(Arbitrary, Debug)]
struct Case {
    begin: i32,
    gaps: Vec<u8>,
    size: u8,
    slide: u8,
    offset: i16,
    closed: u8,
    split: u8,
}

fuzz_target!(|case: Case| {
    let mut times: Vec<i64> = Vec::new();
    let mut now = i64::from(case.begin);
    for &gap in case.gaps.iter().take(300) {
        // Ties, small steps and long pauses.
        now += i64::from(if gap < 200 { gap % 8 } else { gap });
        times.push(now);
    }
    let rows = times.len() as i64;
    let split = i64::from(case.split).min(rows);
    let segments = Segments::new(ScalarBuffer::from(vec![0, split, rows]), times.len()).unwrap();
    let (size, slide) = (i64::from(case.size) + 1, i64::from(case.slide) + 1);
    let groups = [(0, split as usize), (split as usize, times.len())];

    let (closed, [first, last]) = [
        (Closed::Both, [size, 0]),
        (Closed::Right, [size - 1, 0]),
        (Closed::Left, [size, 1]),
        (Closed::Neither, [size - 1, 1]),
    ][usize::from(case.closed % 4)];
    let got = row_ending(&times, &segments, size, closed).unwrap();
    let mut ranges = got.iter();
    for (from, to) in groups {
        for row in from..to {
            let inside = |&other: &usize| (last..=first).contains(&(times[row] - times[other]));
            let rows: Vec<usize> = (from..to).filter(inside).collect();
            let (lo, hi) = ranges.next().unwrap();
            assert_eq!((lo..hi).collect::<Vec<_>>(), rows, "row {row}");
        }
    }
    assert!(ranges.next().is_none());

    let got = fixed(&times, &segments, size, slide, case.offset.into()).unwrap();
    let mut want = Vec::new();
    for (group, (from, to)) in groups.into_iter().enumerate() {
        let Some(&(mut least)) = times[from..to].first() else { continue };
        least -= size;
        let most = times[to - 1];
        let offset = i64::from(case.offset);
        let mut k = (least - offset).div_euclid(slide);
        while offset + k * slide <= most {
            let start = offset + k * slide;
            let inside = |&row: &usize| (start..start + size).contains(&times[row]);
            let rows: Vec<usize> = (from..to).filter(inside).collect();
            if let (Some(&lo), Some(&hi)) = (rows.first(), rows.last()) {
                want.push((group as i64, start, (lo, hi + 1)));
            }
            k += 1;
        }
    }
    let got: Vec<_> =
        got.groups.iter().zip(&got.starts).zip(got.ranges.iter()).map(|((&g, &s), r)| (g, s, r)).collect();
    assert_eq!(got, want);
});
