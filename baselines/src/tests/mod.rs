//! Every technique on the same random streams, against the definition evaluated naively; and every refusal.

mod functions;
mod oracle;
mod table;

use std::collections::BTreeMap;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray, cast::AsArray};
use arrow_schema::DataType;
use proptest::prelude::*;
use proptest::sample::subsequence;
use windowkit::Error;
use windowkit::aggregate::{Arrays, Partial, User};
use windowkit::poll::never;
use windowkit::window::{Arrivals, Counted, Partial as Incomplete, Session, Sliding};

use super::*;
use functions::{PLAIN, Raises, Tested, defined, every, inputs, partials, results};
use oracle::Oracle;

/// Key, time, value or null, and whether the filter takes it.
type Row = (u32, i64, Option<i8>, bool);

#[derive(Debug, Clone)]
enum Event {
    Rows(Vec<Row>),
    Watermark(i64),
    End,
}

/// Key, window, start, end, ranks, and whether it is an update; with each result as a string.
type Answers = BTreeMap<(u32, u32, i64, i64, Option<(u64, u64)>, bool), Vec<String>>;

fn lowered(functions: &[Tested], windows: &Windows) -> Answers {
    let results = results(functions, &windows.partials);
    assert!(results.iter().all(|result| result.len() == windows.len()));
    let mut answers = Answers::new();
    for at in 0..windows.len() {
        let Windows { keys, windows, starts, ends, ranks, updates, .. } = windows;
        let name = (keys[at], windows[at], starts[at], ends[at], ranks[at], updates[at]);
        let texts = results.iter().map(|result| result[at].clone()).collect();
        assert_eq!(answers.insert(name, texts), None, "a window comes once");
    }
    answers
}

/// Whether answers are the same, up to the rounding of floats.
fn alike(got: &Answers, wanted: &Answers) -> bool {
    let near = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        _ if a == b => true,
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => false,
    };
    let same = |((a, got), (b, wanted)): ((_, &Vec<String>), (_, &Vec<String>))| {
        a == b && got.len() == wanted.len() && got.iter().zip(wanted).all(near)
    };
    got.len() == wanted.len() && got.iter().zip(wanted).all(same)
}

fn setting(windows: &[Window], order: Order, lateness: i64, functions: &[Tested]) -> Setting {
    Setting { windows: windows.to_vec(), own: Vec::new(), order, lateness, partials: partials(functions) }
}

/// What a technique must refuse, and in which words.
fn refusal(method: Method, windows: &[Window], order: Order, functions: &[Tested]) -> Option<&'static str> {
    let sessions = windows.iter().any(|window| matches!(window, Window::Session(_)));
    let counted = windows.iter().any(|window| matches!(window, Window::Counted(_)));
    let commute = functions.iter().all(Tested::commutes);
    match method {
        Method::Wid if sessions => Some("session window"),
        Method::Wid if counted => Some("window of a number of rows"),
        Method::Wid if order == Order::OutOfOrder && !commute => Some("function that does not commute"),
        Method::Wid => None,
        Method::Pairs | Method::Cutty if order == Order::OutOfOrder => Some("rows out of order"),
        Method::Pairs | Method::Cutty if sessions => Some("session window"),
        Method::AggregateBuckets if order == Order::OutOfOrder && counted => {
            Some("window of a number of rows, of rows out of order")
        }
        Method::AggregateBuckets if order == Order::OutOfOrder && !commute => {
            Some("function that does not commute")
        }
        Method::AggregateTree | Method::Cutty if functions.iter().any(Tested::grows) => {
            Some("partials grow with their rows")
        }
        _ => None,
    }
}

/// Runs all techniques and the oracle side by side.
fn agree(
    windows: &[Window],
    order: Order,
    lateness: i64,
    functions: &[Tested],
    events: &[Event],
) -> std::result::Result<(), TestCaseError> {
    let mut oracle = Oracle::new(windows, if order == Order::InOrder { 0 } else { lateness });
    let mut techniques = Vec::new();
    // Of rows out of order, buffering has a definition of its own.
    let alike_all = |method: &Method| order == Order::InOrder || *method != Method::Buffering;
    for method in Method::ALL.into_iter().filter(alike_all) {
        match (
            method.make(setting(windows, order, lateness, functions)),
            refusal(method, windows, order, functions),
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
    let mut emitted = 0;
    for event in events.iter().chain([&Event::End]) {
        let wanted = match event {
            Event::Rows(rows) => oracle.push(rows, functions),
            Event::Watermark(watermark) => oracle.advance(*watermark, functions),
            Event::End => oracle.close(functions),
        };
        emitted += wanted.len() as u64;
        for technique in &mut techniques {
            let windows = match event {
                Event::Rows(rows) => {
                    let keys: Vec<u32> = rows.iter().map(|row| row.0).collect();
                    let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
                    technique.push(&keys, &times, &inputs(functions, rows)).unwrap()
                }
                Event::Watermark(watermark) => technique.advance(*watermark).unwrap(),
                Event::End => technique.close().unwrap(),
            };
            let got = lowered(functions, &windows);
            prop_assert!(alike(&got, &wanted), "{} at {event:?}: {got:?}, not {wanted:?}", technique.name());
        }
    }
    for technique in techniques {
        let stats = technique.stats();
        prop_assert_eq!((stats.late, stats.windows), (oracle.late(), emitted), "{}", technique.name());
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
            .prop_map(|(size, slide, partial)| Window::Counted(Counted::new(size.max(slide), slide, Incomplete { start: false, end: partial }))),
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

/// The events as a stream in order: rows sorted, none before a watermark.
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
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_are_the_definition(
        windows in prop::collection::vec(any_window(), 1..4),
        events in any_events(),
        lateness in prop_oneof![Just(0i64), 1i64..40, Just(1000)],
        functions in prop_oneof![
            Just(defined(PLAIN)), Just(defined(usize::MAX)), subsequence(every(), 1..=4), subsequence(every(), 1..=4),
        ],
    ) {
        agree(&windows, Order::OutOfOrder, lateness, &functions, &events)?;
        agree(&windows, Order::InOrder, lateness, &functions, &in_order(&events))?;
        // Only what all techniques take.
        let all: Vec<Window> =
            windows.iter().filter(|window| !matches!(window, Window::Session(_))).cloned().collect();
        if !all.is_empty() {
            agree(&all, Order::InOrder, lateness, &defined(PLAIN), &in_order(&events))?;
        }
        // And what aggregate buckets take out of order.
        let over_time: Vec<Window> =
            windows.into_iter().filter(|window| !matches!(window, Window::Counted(_))).collect();
        if !over_time.is_empty() {
            agree(&over_time, Order::OutOfOrder, lateness, &functions, &events)?;
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
            Window::Counted(Counted::new(50, 20, Incomplete::NONE)),
            Window::Counted(Counted::new(7, 7, Incomplete::END)),
            Window::Sliding(Sliding::new(60, 25, 3)),
            Window::Sliding(Sliding::new(20, 20, 0)),
            Window::Session(Session::new(4)),
        ];
        agree(&windows, Order::OutOfOrder, 30, &defined(PLAIN), &events)?;
        agree(&windows, Order::OutOfOrder, 0, &defined(usize::MAX), &events)?;
        agree(&windows[2..], Order::OutOfOrder, 0, &defined(usize::MAX), &events)?;
        agree(&windows[..4], Order::InOrder, 0, &defined(PLAIN), &in_order(&events))?;
        agree(&windows[..2], Order::InOrder, 0, &defined(usize::MAX), &in_order(&events))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Windows that every so many arrivals end, beside windows over time: bins of Li 2008, Fig. 6-7.
    #[test]
    fn bins_are_the_definition(
        ended in prop::collection::vec((1i64..30, 1usize..5), 1..3),
        others in prop::collection::vec((1i64..30, 1i64..30), 0..2),
        events in any_events(),
        lateness in prop_oneof![Just(0i64), 1i64..40, Just(1000)],
        functions in prop_oneof![Just(defined(PLAIN)), Just(defined(usize::MAX)), subsequence(every(), 1..=4)],
    ) {
        let ended = ended.into_iter().map(|(size, rows)| Window::Arrivals(Arrivals::new(size, rows)));
        let others = others.into_iter().map(|(a, b)| Window::Sliding(Sliding::new(a.max(b), a.min(b), 0)));
        let windows: Vec<Window> = ended.chain(others).collect();
        for (order, events) in [(Order::OutOfOrder, &events), (Order::InOrder, &in_order(&events))] {
            let lateness = if order == Order::InOrder { 0 } else { lateness };
            let Ok(mut technique) = Method::Wid.make(setting(&windows, order, lateness, &functions)) else {
                prop_assert!(refusal(Method::Wid, &windows, order, &functions).is_some());
                continue;
            };
            let mut oracle = Oracle::new(&windows, lateness);
            for event in events.iter().chain([&Event::End]) {
                let (wanted, got) = step(&mut oracle, &mut *technique, event, &functions);
                prop_assert!(alike(&got, &wanted), "{event:?}: {got:?}, not {wanted:?}");
            }
            prop_assert_eq!((technique.stats().late, technique.stats().partials), (oracle.late(), 0));
        }
    }

    /// Rows out of order are held back: results are those of a stream whose watermark is that far behind, in which no row
    /// comes late.
    #[test]
    fn buffering_is_the_definition_of_a_stream_held_back(
        windows in prop::collection::vec(any_window(), 1..4),
        events in any_events(),
        slack in prop_oneof![Just(0i64), 1i64..40, Just(1000)],
        functions in prop_oneof![Just(defined(PLAIN)), Just(defined(usize::MAX)), subsequence(every(), 1..=4)],
    ) {
        let mut technique =
            Method::Buffering.make(setting(&windows, Order::OutOfOrder, slack, &functions)).unwrap();
        let (mut oracle, mut behind, mut late) = (Oracle::new(&windows, 0), i64::MIN, 0);
        let mut waiting: Vec<Row> = Vec::new();
        for event in events.iter().chain([&Event::End]) {
            let until = match event {
                Event::Rows(rows) => {
                    let (taken, dropped): (Vec<Row>, Vec<Row>) = rows.iter().partition(|row| row.1 >= behind);
                    waiting.extend(taken);
                    late += dropped.len() as u64;
                    let (_, got) = step(&mut Oracle::new(&windows, 0), &mut *technique, event, &functions);
                    prop_assert!(got.is_empty(), "{got:?} before the watermark");
                    continue;
                }
                Event::Watermark(watermark) => watermark.saturating_sub(slack),
                Event::End => i64::MAX,
            };
            // What the operator behind the buffer is given, and when.
            behind = until;
            let (now, later): (Vec<Row>, Vec<Row>) = waiting.into_iter().partition(|row| row.1 <= until);
            waiting = later;
            let mut wanted = oracle.push(&now, &functions);
            wanted.extend(match event {
                Event::End => oracle.close(&functions),
                _ => oracle.advance(until, &functions),
            });
            let windows = match event {
                Event::Watermark(watermark) => technique.advance(*watermark).unwrap(),
                _ => technique.close().unwrap(),
            };
            let got = lowered(&functions, &windows);
            prop_assert!(alike(&got, &wanted), "{event:?}: {got:?}, not {wanted:?}");
        }
        let stats = technique.stats();
        prop_assert_eq!((stats.late, stats.rows, stats.partials), (late, 0, 0));
    }
}

/// What an event must bring, and brings.
fn step(
    oracle: &mut Oracle<'_>,
    technique: &mut dyn Technique,
    event: &Event,
    functions: &[Tested],
) -> (Answers, Answers) {
    let (wanted, windows) = match event {
        Event::Rows(rows) => {
            let keys: Vec<u32> = rows.iter().map(|row| row.0).collect();
            let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
            (oracle.push(rows, functions), technique.push(&keys, &times, &inputs(functions, rows)))
        }
        Event::Watermark(watermark) => (oracle.advance(*watermark, functions), technique.advance(*watermark)),
        Event::End => (oracle.close(functions), technique.close()),
    };
    (wanted, lowered(functions, &windows.unwrap()))
}

/// Proptest once found this: a row that comes late takes the rank, and so the window, of the one before it in its batch.
#[test]
fn a_late_row_takes_a_rank_in_its_own_batch() {
    let windows = [Window::Counted(Counted::new(1, 1, Incomplete::NONE))];
    let rows = Event::Rows(vec![(1, -48, None, false), (1, -50, None, false)]);
    agree(&windows, Order::OutOfOrder, 0, &defined(PLAIN), &[rows]).unwrap();
}

/// User-defined windows: from one power of two to the next but one, and of the negative times one window.
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
    let functions = defined(PLAIN);
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
            let own: Vec<Row> = own.copied().collect();
            if !own.is_empty() {
                let texts = functions.iter().map(|asked| asked.over(&own)).collect();
                wanted.insert((key, 1, start, end, None, false), texts);
            }
        }
    }
    assert!(alike(&got, &wanted), "{got:?}, not {wanted:?}");
    for method in Method::ALL.into_iter().filter(|&method| method != Method::Cutty) {
        let error = method.make(of(Order::InOrder)).err().unwrap().to_string();
        assert!(error.contains("user-defined window") && error.contains(method.name()), "{error}");
    }
}

#[test]
fn what_is_given_wrong_is_refused_and_changes_nothing() {
    let functions = defined(1);
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
    }
}

/// A window is of the rows of several batches, each with a dictionary of its own.
#[test]
fn windows_join_the_dictionaries_of_all_batches() {
    let windows = [
        Window::Sliding(Sliding::new(1000, 1000, 0)),
        Window::Counted(Counted::new(250, 100, Incomplete::NONE)),
    ];
    let kind = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    for method in Method::ALL {
        let partials = [Partial::Max, Partial::Last];
        let partials = partials.map(|partial| partial.column(std::slice::from_ref(&kind), never).unwrap());
        let (own, order, lateness) = (Vec::new(), Order::InOrder, 0);
        // Window ids are none of windows of a number of rows.
        let taken = if method == Method::Wid { 1 } else { windows.len() };
        let setting =
            Setting { windows: windows[..taken].to_vec(), own, order, lateness, partials: partials.into() };
        let mut technique = method.make(setting).unwrap();
        let mut seen = Vec::new();
        let mut note = |windows: Windows| {
            let columns: Vec<ArrayRef> = windows.partials.iter().map(|own| own.lower().unwrap()).collect();
            for at in 0..windows.len() {
                let text = |column: &ArrayRef| {
                    let column = column.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
                    column.into_iter().nth(at).flatten().unwrap_or_default().to_owned()
                };
                seen.push((windows.windows[at], text(&columns[0]), text(&columns[1])));
            }
        };
        for first in (0..400).step_by(100) {
            let times: Vec<i64> = (first..first + 100).collect();
            let texts = times.iter().map(|t| format!("v{t:04}")).collect::<Vec<_>>();
            let column: ArrayRef = Arc::new(
                texts.iter().map(|text| Some(text.as_str())).collect::<DictionaryArray<Int32Type>>(),
            );
            let input = Input { columns: vec![column], taken: None };
            note(technique.push(&[0; 100], &times, &[input.clone(), input]).unwrap());
            note(technique.advance(first + 99).unwrap());
        }
        note(technique.close().unwrap());
        let wanted = [(1, 249), (1, 349), (0, 399)]
            .map(|(window, last)| (window, format!("v{last:04}"), format!("v{last:04}")));
        let wanted = wanted.into_iter().filter(|window| (window.0 as usize) < taken);
        assert_eq!(seen, wanted.collect::<Vec<_>>(), "{}", method.name());
    }
}

#[test]
fn an_error_of_a_function_is_handed_on() {
    let windows = [Window::Sliding(Sliding::new(10, 10, 0))];
    for method in Method::ALL {
        let user = Partial::User(User(Arc::new(Arrays(Arc::new(Raises)))));
        let partials = vec![user.column(&[DataType::Int64], never).unwrap()];
        let (windows, own, order) = (windows.to_vec(), Vec::new(), Order::InOrder);
        let mut technique = method.make(Setting { windows, own, order, lateness: 0, partials }).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![5, 13]));
        let pushed = technique.push(&[0, 0], &[1, 2], &[Input { columns: vec![column], taken: None }]);
        // Those that store rows call the function when a window is final, and some only when its result is asked for.
        let closed = pushed.and_then(|_| technique.close());
        let error =
            closed.and_then(|windows| windows.partials[0].lower()).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("not this one"), "{}", method.name());
    }
}
