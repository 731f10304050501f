use arrow_schema::{DataType, Field, Schema};

use super::{Flush, Policy, Term};
use crate::operator::Length;
use crate::window::Measure;

fn bound(terms: &[(&str, i128, f64, &[&str])], refinement: &str, flush: Flush) -> Policy {
    let input =
        Schema::new(vec![Field::new("t", DataType::Int64, true), Field::new("b", DataType::Boolean, true)]);
    let term = |&(kind, number, share, columns): &(&str, i128, f64, &[&str])| {
        let length = match kind {
            "every" => Some(Length::Units(number)),
            "ticks" | "waits" => Some(Length::Nanoseconds(number * 1_000)),
            _ => None,
        };
        let columns = columns.iter().map(|&name| name.into()).collect();
        Term { kind: kind.into(), number, share, columns, length }
    };
    let terms: Vec<Term> = terms.iter().map(term).collect();
    Policy::new(&terms, refinement, flush, &input, &Measure::new("t", &DataType::Int64).unwrap()).unwrap()
}

/// Snapshots are recognised by these texts, so a release that changes one cannot restore those of the release before.
#[test]
fn signatures_last() {
    let all = bound(
        &[
            ("at", 0, 0.25, &[]),
            ("rows", 3, 0.0, &[]),
            ("every", 10, 0.0, &[]),
            ("and", 2, 0.0, &[]),
            ("on", 0, 0.0, &["b"]),
            ("ticks", 9, 0.0, &[]),
            ("waits", 8, 0.0, &[]),
            ("or", 2, 0.0, &[]),
            ("then", 2, 0.0, &[]),
            ("repeat", 1, 0.0, &[]),
            ("rows", 1, 0.0, &[]),
            ("rows", 2, 0.0, &[]),
            ("then", 2, 0.0, &[]),
            ("or", 4, 0.0, &[]),
        ],
        "retracting",
        Flush { at_most: Some(5), later: Some(7) },
    );
    assert_eq!(
        all.signature(),
        "emit retracting or(and(rows(3), every(10)), repeat(on(1), or(every(9us), waited(8us))), then(rows(1), rows(2))) at(25/100) \
         at_most(5) later(7)"
    );
    assert_eq!(bound(&[], "accumulating", Flush::default()).signature(), "emit accumulating");
    assert_eq!(bound(&[], "discarding", Flush::default()).signature(), "emit discarding");
}

/// A firing resets latches and moves a stage on; a final window sets the stage back.
#[test]
fn words_are_latches_and_then_stages() {
    let policy = bound(
        &[("on", 0, 0.0, &["b"]), ("every", 10, 0.0, &[]), ("then", 2, 0.0, &[])],
        "accumulating",
        Flush::default(),
    );
    let mut words = [1, 0, 0];
    assert!(policy.fires(1, &words));
    policy.fired(1, &mut words);
    assert_eq!(words, [0, 0, 1]);
    words[0] = 1;
    assert!(!policy.fires(1, &words), "the second stage waits for the watermark");
    policy.begin_again(&mut words);
    assert_eq!(words, [1, 0, 0]);
    assert!(policy.is_sound(&words) && !policy.is_sound(&[2, 0, 0]) && !policy.is_sound(&[0, 0, 2]));
}
