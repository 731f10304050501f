//! The table of the README: which technique takes which workload, and why not.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use windowkit::window::{Global, LastRows, Mark, Partial, Punctuation};

const README: &str = include_str!("../../README.md");

/// The cells of the table: the order of the stream, the workload, the technique, and what it says.
fn cells() -> Vec<(Order, &'static str, &'static str, &'static str)> {
    let split = |line: &'static str| -> Vec<&'static str> {
        line.trim_matches('|').split('|').map(|cell| cell.trim_matches([' ', '`'])).collect()
    };
    let mut lines = README.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"));
    let names = split(lines.next().expect("a header"));
    let row = |line| {
        let row = split(line);
        assert_eq!(row.len(), names.len(), "{line}");
        let (order, workload) = match row[0].split_once(": ") {
            Some(("in order", workload)) => (Order::InOrder, workload),
            Some(("out of order", workload)) => (Order::OutOfOrder, workload),
            _ => panic!("no order begins {line}"),
        };
        let cells = names.iter().zip(row).skip(1);
        cells.map(|(&name, cell)| (order, workload, name, cell)).collect::<Vec<_>>()
    };
    lines.flat_map(row).collect()
}

/// The reasons that the letters below the table stand for.
fn reasons() -> BTreeMap<&'static str, &'static str> {
    README.lines().filter_map(|line| line.strip_prefix("- *")?.split_once("*: ")).collect()
}

/// For each row of the table the windows and the function that are tried.
fn workload(name: &str) -> (Vec<Window>, Tested) {
    let tumbling = || vec![Window::Sliding(Sliding::new(10, 10, 0))];
    let sum = || Tested::of(&("sum", &['i'], false));
    match name {
        "tumbling and sliding windows over time" => {
            ([tumbling(), vec![Window::Sliding(Sliding::new(10, 3, 0))]].concat(), sum())
        }
        "windows of a number of rows" => (
            vec![
                Window::Counted(Counted::new(3, 3, Partial::NONE)),
                Window::Counted(Counted::new(4, 2, Partial::NONE)),
            ],
            sum(),
        ),
        "sessions" => (vec![Window::Session(Session::new(5))], sum()),
        "band, landmark and global windows" => (vec![Window::Global(Global)], sum()),
        "the last rows at times, or the last time at rows" => {
            (vec![Window::LastRows(LastRows::new(3, 5, 0))], sum())
        }
        "the last time, each time so many rows have arrived" => {
            (vec![Window::Arrivals(Arrivals::new(9, 2))], sum())
        }
        "windows between punctuations, and user-defined windows" => {
            (vec![Window::Punctuation(Punctuation::new(0, Mark::End))], sum())
        }
        "distributive and algebraic functions" => (tumbling(), Tested::of(&("stddev_samp", &['i'], false))),
        "holistic functions" => (tumbling(), Tested::of(&("median", &['i'], false))),
        "user-defined functions" => (tumbling(), Tested::of(&("greatest", &['i'], false))),
        "user-defined functions that do not commute" => (tumbling(), Tested::of(&("joined", &['i'], false))),
        other => panic!("no test has the workload '{other}'"),
    }
}

#[test]
fn the_table_has_every_technique_and_workload_in_both_orders() {
    let cells = cells();
    let techniques: BTreeSet<_> = cells.iter().map(|cell| cell.2).collect();
    assert_eq!(techniques, Method::NAMES.into_iter().collect());
    let workloads: BTreeSet<_> = cells.iter().map(|cell| cell.1).collect();
    assert_eq!((workloads.len(), cells.len()), (11, 2 * 11 * Method::ALL.len()));
    let said: BTreeSet<String> = cells.iter().map(|cell| cell.3.to_owned()).collect();
    let known = reasons().into_keys().map(|letter| format!("no *{letter}*"));
    assert_eq!(said, known.chain(["yes".into()]).collect());
}

#[test]
fn each_takes_what_the_table_says() {
    let in_order: Vec<Row> = [(0, 5), (1, 3), (1, 8), (4, 1), (11, 2), (12, 7), (19, 6), (30, 4)]
        .map(|(t, value)| (0, t, Some(value), true))
        .into();
    let out_of_order: Vec<Row> = [4, 0, 1, 2, 7, 3, 5, 6].map(|at: usize| in_order[at]).into();
    for (order, name, technique, cell) in cells() {
        let (windows, function) = workload(name);
        let functions = [function];
        let rows = if order == Order::InOrder { &in_order } else { &out_of_order };
        let at = Method::NAMES.iter().position(|&known| known == technique).expect("a technique");
        let made = Method::ALL[at].make(setting(&windows, order, 0, &functions));
        if let Some(letter) = cell.strip_prefix("no ").map(|letter| letter.trim_matches('*')) {
            let error = made.err().unwrap_or_else(|| panic!("{technique} takes {name}")).to_string();
            let why = format!(": {}; allowed are ", reasons()[letter]);
            assert!(error.starts_with(&format!("technique: {technique} takes no ")), "{error}");
            assert!(error.contains(&why), "{name}: {error}, not {why}");
            continue;
        }
        let mut technique = made.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut oracle = Oracle::new(&windows, 0);
        let mut wanted = oracle.push(rows, &functions);
        wanted.extend(oracle.close(&functions));
        let keys = vec![0; rows.len()];
        let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
        let pushed = technique.push(&keys, &times, &inputs(&functions, rows)).unwrap();
        let mut got = lowered(&functions, &pushed);
        got.extend(lowered(&functions, &technique.close().unwrap()));
        assert!(!wanted.is_empty() && alike(&got, &wanted), "{name}: {got:?}, not {wanted:?}");
    }
}
