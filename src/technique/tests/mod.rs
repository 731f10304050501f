//! Every technique on the same random streams, against the definition evaluated naively; and every refusal.

mod oracle;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, cast::AsArray, types::*};
use arrow_schema::DataType;
use proptest::prelude::*;

use super::*;
use crate::aggregate::{Function, Operand};
use crate::window::{Counted, Session, Sliding};
use oracle::{Oracle, texts};

/// Key, time, value or null, and whether the filter takes it.
type Row = (u32, i64, Option<i8>, bool);

#[derive(Debug, Clone)]
enum Event {
    Rows(Vec<Row>),
    Watermark(i64),
    End,
}

/// Functions and whether they are filtered; those behind the first five are not of plain states.
const FUNCTIONS: [(&str, bool); 8] = [
    ("sum", false),
    ("max", true),
    ("mean", false),
    ("first", false),
    ("last", true),
    ("median", false),
    ("count_distinct", true),
    ("collect_list", false),
];
const PLAIN: usize = 5;

fn functions(count: usize) -> Vec<(Function, bool)> {
    FUNCTIONS[..count].iter().map(|&(name, own)| (Function::parse(name, &[]).unwrap(), own)).collect()
}

fn partials(functions: &[(Function, bool)]) -> Vec<Box<dyn Partials>> {
    let own = functions.iter().flat_map(|(function, _)| function.partials());
    own.map(|(partial, operands)| partial.column(&vec![DataType::Int64; operands.len()]).unwrap()).collect()
}

fn inputs(functions: &[(Function, bool)], rows: &[Row]) -> Vec<Input> {
    let values: ArrayRef = Arc::new(rows.iter().map(|row| row.2.map(i64::from)).collect::<Int64Array>());
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    let taken: BooleanArray = rows.iter().map(|row| Some(row.3)).collect();
    let of = |operand: &Operand| match operand {
        Operand::Column(_) => values.clone(),
        Operand::Time => times.clone(),
    };
    let each = |(function, filtered): &(Function, bool)| {
        let taken = filtered.then(|| taken.clone());
        let partials = function.partials().into_iter();
        let input = |operands: Vec<Operand>| Input {
            columns: operands.iter().map(of).collect(),
            taken: taken.clone(),
        };
        partials.map(|(_, operands)| input(operands)).collect::<Vec<_>>()
    };
    functions.iter().flat_map(each).collect()
}

/// Key, window, start, end, ranks, and whether it is an update; with a text of each result.
type Answers = BTreeMap<(u32, u32, i64, i64, Option<(u64, u64)>, bool), Vec<String>>;

/// An entry of a result, as text.
fn text(array: &dyn Array, at: usize) -> String {
    if array.is_null(at) {
        return "null".into();
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(at).to_string(),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(at)),
        DataType::List(_) => {
            let list = array.as_list::<i32>().value(at);
            let items: Vec<String> = (0..list.len()).map(|item| text(&*list, item)).collect();
            format!("[{}]", items.join(", "))
        }
        other => unreachable!("no result here is {other}"),
    }
}

fn lowered(functions: &[(Function, bool)], windows: &Windows) -> Answers {
    let mut partials = windows.partials.iter();
    let results: Vec<ArrayRef> = functions
        .iter()
        .map(|(function, _)| {
            let own: Vec<&dyn Partials> =
                partials.by_ref().take(function.partials().len()).map(|own| &**own).collect();
            let inputs = vec![DataType::Int64; function.columns()];
            function.lower(&own, &inputs, &DataType::Int64).unwrap()
        })
        .collect();
    assert!(results.iter().all(|result| result.len() == windows.len()));
    let mut answers = Answers::new();
    for at in 0..windows.len() {
        let Windows { keys, windows, starts, ends, ranks, updates, .. } = windows;
        let name = (keys[at], windows[at], starts[at], ends[at], ranks[at], updates[at]);
        let texts = results.iter().map(|result| text(&**result, at)).collect();
        assert_eq!(answers.insert(name, texts), None, "a window comes once");
    }
    answers
}

fn setting(windows: &[Window], order: Order, lateness: i64, functions: &[(Function, bool)]) -> Setting {
    Setting { windows: windows.to_vec(), own: Vec::new(), order, lateness, partials: partials(functions) }
}

/// What a technique must refuse, and in which words.
fn refusal(method: Method, windows: &[Window], order: Order, functions: usize) -> Option<&'static str> {
    let sessions = windows.iter().any(|window| matches!(window, Window::Session(_)));
    let counted = windows.iter().any(|window| matches!(window, Window::Counted(_)));
    match method {
        Method::Pairs | Method::Cutty if order == Order::OutOfOrder => Some("rows out of order"),
        Method::Pairs | Method::Cutty if sessions => Some("session window"),
        Method::AggregateBuckets if order == Order::OutOfOrder && counted => {
            Some("window of a number of rows, of rows out of order")
        }
        Method::AggregateTree | Method::Cutty if functions > PLAIN => Some("partials grow with their rows"),
        _ => None,
    }
}

/// Runs all techniques and the oracle side by side.
fn agree(
    windows: &[Window],
    order: Order,
    lateness: i64,
    count: usize,
    events: &[Event],
) -> std::result::Result<(), TestCaseError> {
    let functions = functions(count);
    let mut oracle = Oracle::new(windows, if order == Order::InOrder { 0 } else { lateness });
    let mut techniques = Vec::new();
    for method in Method::ALL {
        match (
            method.make(setting(windows, order, lateness, &functions)),
            refusal(method, windows, order, count),
        ) {
            (Ok(technique), None) => techniques.push(technique),
            (Err(error), Some(why)) => {
                let message = error.to_string();
                prop_assert!(message.contains(why) && message.contains(method.name()), "{message}");
            }
            (Ok(_), Some(why)) => prop_assert!(false, "{} takes {why}", method.name()),
            (Err(error), None) => prop_assert!(false, "{}: {error}", method.name()),
        }
    }
    let mut told = 0;
    for event in events.iter().chain([&Event::End]) {
        let wanted = match event {
            Event::Rows(rows) => oracle.push(rows, &functions),
            Event::Watermark(watermark) => oracle.advance(*watermark, &functions),
            Event::End => oracle.close(&functions),
        };
        told += wanted.len() as u64;
        for technique in &mut techniques {
            let windows = match event {
                Event::Rows(rows) => {
                    let keys: Vec<u32> = rows.iter().map(|row| row.0).collect();
                    let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
                    technique.push(&keys, &times, &inputs(&functions, rows)).unwrap()
                }
                Event::Watermark(watermark) => technique.advance(*watermark).unwrap(),
                Event::End => technique.close().unwrap(),
            };
            let got = lowered(&functions, &windows);
            prop_assert_eq!(&got, &wanted, "{} at {:?}", technique.name(), event);
            // A copy goes on as the technique would; what it was copied from is put through a call that is forgotten.
            if let Event::Watermark(watermark) = event {
                let copy = technique.copy().unwrap();
                technique.advance(watermark.saturating_add(20)).unwrap();
                *technique = copy;
            }
        }
    }
    for technique in techniques {
        let stats = technique.stats();
        prop_assert_eq!((stats.late, stats.windows), (oracle.late(), told), "{}", technique.name());
        prop_assert_eq!((stats.rows, stats.partials), (0, 0), "{} keeps what is over", technique.name());
    }
    Ok(())
}

fn any_window() -> impl Strategy<Value = Window> {
    prop_oneof![
        3 => (1i64..30, 1i64..30, -20i64..20)
            .prop_map(|(size, slide, offset)| Window::Sliding(Sliding::new(size.max(slide), slide, offset))),
        1 => (1i64..30, -20i64..20).prop_map(|(size, offset)| Window::Sliding(Sliding::new(size, size, offset))),
        2 => (1i64..12).prop_map(|gap| Window::Session(Session::new(gap))),
        3 => (1usize..9, 1usize..9, any::<bool>())
            .prop_map(|(size, slide, partial)| Window::Counted(Counted::new(size.max(slide), slide, partial))),
    ]
}

/// Batches of rows around a time that advances, and watermarks behind it.
fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let row = (0u32..3, -25i64..15, prop::option::weighted(0.9, -9i8..9), any::<bool>());
    let step = (0i64..20, prop::collection::vec(row, 0..12), prop::option::of(0i64..30));
    prop::collection::vec(step, 1..14).prop_map(|steps| {
        let (mut now, mut watermark) = (-50, i64::MIN);
        let mut events = Vec::new();
        for (step, rows, slack) in steps {
            now += step;
            events
                .push(Event::Rows(rows.into_iter().map(|(key, t, v, own)| (key, now + t, v, own)).collect()));
            if let Some(slack) = slack {
                watermark = watermark.max(now - slack);
                events.push(Event::Watermark(watermark));
            }
        }
        events
    })
}

/// The same events as a stream in order: rows sorted, none before a watermark.
fn in_order(events: &[Event]) -> Vec<Event> {
    let mut times: Vec<i64> = events
        .iter()
        .flat_map(|event| match event {
            Event::Rows(rows) => rows.iter().map(|row| row.1).collect(),
            Event::Watermark(_) | Event::End => Vec::new(),
        })
        .collect();
    times.sort_unstable();
    let (mut times, mut least) = (times.into_iter(), i64::MIN);
    let each = |event: &Event| match event {
        Event::Rows(rows) => Event::Rows(
            rows.iter()
                .map(|row| {
                    least = least.max(times.next().expect("a time per row"));
                    (row.0, least, row.2, row.3)
                })
                .collect(),
        ),
        Event::Watermark(watermark) => {
            least = least.max(*watermark);
            Event::Watermark(*watermark)
        }
        Event::End => Event::End,
    };
    events.iter().map(each).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn all_are_the_definition(
        windows in prop::collection::vec(any_window(), 1..4),
        events in any_events(),
        lateness in prop_oneof![Just(0i64), 1i64..40, Just(1000)],
        count in prop_oneof![Just(PLAIN), Just(FUNCTIONS.len())],
    ) {
        agree(&windows, Order::OutOfOrder, lateness, count, &events)?;
        agree(&windows, Order::InOrder, lateness, count, &in_order(&events))?;
        // Only what all techniques take.
        let all: Vec<Window> =
            windows.iter().filter(|window| !matches!(window, Window::Session(_))).cloned().collect();
        if !all.is_empty() {
            agree(&all, Order::InOrder, lateness, PLAIN, &in_order(&events))?;
        }
        // And what aggregate buckets take out of order.
        let over_time: Vec<Window> =
            windows.into_iter().filter(|window| !matches!(window, Window::Counted(_))).collect();
        if !over_time.is_empty() {
            agree(&over_time, Order::OutOfOrder, lateness, count, &events)?;
        }
    }

}

proptest! {
    // Each case is of hundreds of rows, and the definition is slow.
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Enough rows of one key that trees and lists grow, are begun anew and are cleared.
    #[test]
    fn all_are_the_definition_of_many_rows(
        rows in prop::collection::vec((-30i64..5, -9i8..9), 200..500), batch in 1usize..60, slack in 0i64..40,
    ) {
        let rows: Vec<Row> =
            rows.into_iter().enumerate().map(|(at, (t, v))| (0, at as i64 + t, Some(v), v > 0)).collect();
        let mut events = Vec::new();
        for (at, rows) in rows.chunks(batch).enumerate() {
            events.extend([Event::Rows(rows.to_vec()), Event::Watermark(((at + 1) * batch) as i64 - slack)]);
        }
        let windows = [
            Window::Counted(Counted::new(50, 20, false)),
            Window::Counted(Counted::new(7, 7, true)),
            Window::Sliding(Sliding::new(60, 25, 3)),
            Window::Sliding(Sliding::new(20, 20, 0)),
            Window::Session(Session::new(4)),
        ];
        agree(&windows, Order::OutOfOrder, 30, PLAIN, &events)?;
        agree(&windows, Order::OutOfOrder, 0, FUNCTIONS.len(), &events)?;
        agree(&windows[2..], Order::OutOfOrder, 0, FUNCTIONS.len(), &events)?;
        agree(&windows[..4], Order::InOrder, 0, PLAIN, &in_order(&events))?;
        agree(&windows[..2], Order::InOrder, 0, FUNCTIONS.len(), &in_order(&events))?;
    }
}

/// Windows of a user's own: from one power of two to the next but one, and of the negative times one window.
struct Doubling;

impl Doubling {
    fn edge(power: u32) -> i64 {
        1 << power
    }
}

impl ContextFree for Doubling {
    fn next_edge(&self, t: i64) -> i64 {
        (0..62).map(Self::edge).find(|&edge| edge > t).unwrap_or(i64::MAX)
    }

    fn starts_within(&self, t: i64, until: i64) -> bool {
        (0..62).map(Self::edge).any(|edge| t < edge && edge <= until)
    }

    fn windows(&self, since: i64, until: i64) -> Vec<(i64, i64)> {
        let all = (0..60).map(|power| (Self::edge(power), Self::edge(power + 2)));
        all.filter(|&(_, end)| since < end && end <= until).collect()
    }

    fn first_open(&self, t: i64) -> i64 {
        (0..60).find(|&power| Self::edge(power + 2) > t).map_or(i64::MAX, Self::edge)
    }
}

#[test]
fn cutty_takes_windows_of_users_own() {
    let functions = functions(PLAIN);
    let windows = [Window::Sliding(Sliding::new(10, 10, 0))];
    let of = |order| Setting { own: vec![Arc::new(Doubling)], ..setting(&windows, order, 0, &functions) };
    let rows: Vec<Row> = (-3..100).map(|t| ((t & 1) as u32, t, Some((t % 50) as i8), t % 3 == 0)).collect();
    let mut cutty = Method::Cutty.make(of(Order::InOrder)).unwrap();
    let mut got = Answers::new();
    for (at, rows) in rows.chunks(7).enumerate() {
        let keys: Vec<u32> = rows.iter().map(|row| row.0).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
        let pushed = cutty.push(&keys, &times, &inputs(&functions, rows)).unwrap();
        assert!(pushed.is_empty());
        got.extend(lowered(&functions, &cutty.advance(times[0].max(7 * at as i64 - 10)).unwrap()));
    }
    got.extend(lowered(&functions, &cutty.advance(200).unwrap()));
    got.retain(|name, _| name.1 == 1);
    let mut wanted = Answers::new();
    for key in 0..2 {
        for (start, end) in Doubling.windows(i64::MIN, 200) {
            let own = rows.iter().filter(|row| row.0 == key && (start..end).contains(&row.1));
            let values: Vec<_> = own.map(|row| (row.2, row.3)).collect();
            if !values.is_empty() {
                wanted.insert((key, 1, start, end, None, false), texts(&values, &functions));
            }
        }
    }
    assert_eq!(got, wanted);
    for method in Method::ALL.into_iter().filter(|&method| method != Method::Cutty) {
        let error = method.make(of(Order::InOrder)).err().unwrap().to_string();
        assert!(error.contains("user-defined window") && error.contains(method.name()), "{error}");
    }
}

#[test]
fn what_is_given_wrong_is_refused_and_changes_nothing() {
    let functions = functions(1);
    let windows = [Window::Sliding(Sliding::new(10, 10, 0))];
    for method in Method::ALL {
        let of = |order, lateness| method.make(setting(&windows, order, lateness, &functions));
        let error = of(Order::InOrder, -1).err().unwrap().to_string();
        assert!(error.contains("allowed_lateness: -1"), "{error}");
        let mut technique = of(Order::InOrder, 0).unwrap();
        let mut push = |times: &[i64]| {
            let rows: Vec<Row> = times.iter().map(|&t| (0, t, Some(1), true)).collect();
            technique
                .push(&vec![0; rows.len()], times, &inputs(&functions, &rows))
                .map(|windows| windows.len())
        };
        assert_eq!(push(&[1, 2]), Ok(0));
        assert!(
            matches!(push(&[3, 1]), Err(Error::InvalidValue(why)) if why.contains("time: 1 comes after 3"))
        );
        assert!(matches!(push(&[1]), Err(Error::InvalidValue(_))));
        assert!(matches!(push(&[i64::MAX]), Err(Error::Overflow(_))));
        assert_eq!(push(&[2]), Ok(0));
        assert_eq!(
            lowered(&functions, &technique.advance(10).unwrap()).into_values().collect::<Vec<_>>(),
            [["3"]]
        );
        let error = technique.advance(9).err().unwrap().to_string();
        assert!(error.contains("watermark: 9 is before the last one, 10"), "{error}");
        assert!(Method::parse(method.name()) == Ok(method));
    }
    assert!(Method::parse("buckets").unwrap_err().to_string().contains("tuple_buckets"));
}
