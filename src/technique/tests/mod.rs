//! Every technique on the same random streams, against the definition evaluated naively; and every refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, cast::AsArray, types::*};
use arrow_schema::DataType;
use proptest::prelude::*;

use super::*;
use crate::aggregate::{Function, Operand};
use crate::window::{Session, Sliding};

/// Key, time, value or null, and whether the filter takes it.
type Row = (u32, i64, Option<i8>, bool);

#[derive(Debug, Clone)]
enum Event {
    Rows(Vec<Row>),
    Watermark(i64),
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

/// Key, window, start, end, and whether it is an update; with a text of each result.
type Answers = BTreeMap<(u32, u32, i64, i64, bool), Vec<String>>;

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
        let Windows { keys, windows, starts, ends, updates, .. } = windows;
        let name = (keys[at], windows[at], starts[at], ends[at], updates[at]);
        let texts = results.iter().map(|result| text(&**result, at)).collect();
        assert_eq!(answers.insert(name, texts), None, "a window comes once");
    }
    answers
}

/// A row that is kept, and its state in each of the query's sessions.
#[derive(Debug, Clone)]
struct Kept {
    row: Row,
    sessions: Vec<Member>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Member {
    /// Part of a session that takes rows, and not told yet.
    Fresh,
    /// Part of a session that takes rows, and told.
    Told,
    /// Part of a session that has expired.
    Expired,
    /// Within the gap of a session that has expired.
    Apart,
}

impl Member {
    fn is_live(self) -> bool {
        matches!(self, Member::Fresh | Member::Told)
    }
}

/// The definition: extents evaluated over all rows that have arrived.
struct Oracle<'a> {
    windows: &'a [Window],
    lateness: i64,
    watermark: i64,
    rows: Vec<Kept>,
    told: BTreeSet<(u32, usize, i64)>,
    late: u64,
}

impl Oracle<'_> {
    fn sliding(&self) -> impl Iterator<Item = (usize, Sliding)> + use<'_> {
        self.windows.iter().enumerate().filter_map(|(number, window)| match window {
            Window::Sliding(window) => Some((number, *window)),
            _ => None,
        })
    }

    fn sessions(&self) -> Vec<(usize, Session)> {
        let each = self.windows.iter().enumerate();
        each.filter_map(|(number, window)| match window {
            Window::Session(window) => Some((number, *window)),
            _ => None,
        })
        .collect()
    }

    fn expired(&self) -> i64 {
        self.watermark.saturating_sub(self.lateness)
    }

    fn keys(&self) -> BTreeSet<u32> {
        self.rows.iter().map(|kept| kept.row.0).collect()
    }

    /// First and last time of the sessions of a key that take rows.
    fn live(&self, key: u32, at: usize, session: Session, more: Option<i64>) -> Vec<(i64, i64)> {
        let own = self.rows.iter().filter(|kept| kept.row.0 == key && kept.sessions[at].is_live());
        let mut times: Vec<i64> = own.map(|kept| kept.row.1).chain(more).collect();
        times.sort_unstable();
        session.windows(&times)
    }

    fn admit(&mut self, row: Row) -> bool {
        let (key, t, ..) = row;
        let late = t < self.watermark;
        let in_time = self.sliding().any(|(_, w)| w.wids(t).any(|start| w.extent(start).1 > self.expired()));
        let members: Vec<Member> = self
            .sessions()
            .into_iter()
            .enumerate()
            .map(|(at, (_, session))| {
                let near = |kept: &Kept| {
                    let other = kept.row.1;
                    kept.row.0 == key
                        && kept.sessions[at] == Member::Expired
                        && session.joins(t.min(other), t.max(other))
                };
                let live = self.live(key, at, session, Some(t));
                let (first, last) = live.into_iter().find(|&(first, last)| first <= t && t <= last).unwrap();
                let gone = session.extent(first, last).1 < self.expired();
                match late {
                    true if self.rows.iter().any(near) => Member::Apart,
                    true if gone => Member::Expired,
                    _ => Member::Fresh,
                }
            })
            .collect();
        if late && !in_time && members.iter().all(|member| !member.is_live()) {
            self.late += 1;
            return false;
        }
        self.rows.push(Kept { row, sessions: members });
        true
    }

    /// Values of a window, in the order of time and arrival.
    fn values(&self, key: u32, start: i64, end: i64, at: Option<usize>) -> Vec<(Option<i8>, bool)> {
        let inside = |kept: &&Kept| {
            kept.row.0 == key
                && (start..end).contains(&kept.row.1)
                && at.is_none_or(|at| kept.sessions[at].is_live())
        };
        let mut rows: Vec<&Kept> = self.rows.iter().filter(inside).collect();
        rows.sort_by_key(|kept| kept.row.1);
        rows.into_iter().map(|kept| (kept.row.2, kept.row.3)).collect()
    }

    /// Windows over time that end after `since` and not after the watermark, of `rows` only those with one of them.
    fn due(&self, since: i64, rows: &[Row]) -> BTreeSet<(u32, usize, i64)> {
        let mut due = BTreeSet::new();
        for &(key, t, ..) in rows {
            for (number, window) in self.sliding() {
                let ends = |start: &i64| {
                    let end = window.extent(*start).1;
                    since < end && end <= self.watermark
                };
                due.extend(window.wids(t).filter(ends).map(|start| (key, number, start)));
            }
        }
        due
    }

    fn answers(&mut self, due: BTreeSet<(u32, usize, i64)>, functions: &[(Function, bool)]) -> Answers {
        let mut answers = Answers::new();
        for (key, number, start) in due {
            let Window::Sliding(window) = self.windows[number] else { unreachable!("sessions come below") };
            let update = !self.told.insert((key, number, start));
            let end = window.extent(start).1;
            let values = self.values(key, start, end, None);
            answers.insert((key, number as u32, start, end, update), texts(&values, functions));
        }
        for (at, (number, session)) in self.sessions().into_iter().enumerate() {
            for key in self.keys() {
                for (first, last) in self.live(key, at, session, None) {
                    let (start, end) = session.extent(first, last);
                    let inside = |kept: &Kept| {
                        kept.row.0 == key
                            && (first..=last).contains(&kept.row.1)
                            && kept.sessions[at].is_live()
                    };
                    let own = || self.rows.iter().filter(|kept| inside(kept));
                    if end >= self.watermark || own().all(|kept| kept.sessions[at] == Member::Told) {
                        continue;
                    }
                    let update = own().any(|kept| kept.sessions[at] == Member::Told);
                    let values = self.values(key, first, last + 1, Some(at));
                    answers.insert((key, number as u32, start, end, update), texts(&values, functions));
                    self.rows.iter_mut().filter(|kept| inside(kept)).for_each(|kept| {
                        kept.sessions[at] = Member::Told;
                    });
                }
            }
        }
        answers
    }

    fn push(&mut self, rows: &[Row], functions: &[(Function, bool)]) -> Answers {
        let kept: Vec<Row> = rows.iter().copied().filter(|&row| self.admit(row)).collect();
        let late: Vec<Row> = kept.into_iter().filter(|row| row.1 < self.watermark).collect();
        let due = self.due(self.expired(), &late);
        self.answers(due, functions)
    }

    fn advance(&mut self, watermark: i64, functions: &[(Function, bool)]) -> Answers {
        let before = std::mem::replace(&mut self.watermark, watermark);
        let rows: Vec<Row> = self.rows.iter().map(|kept| kept.row).collect();
        let due = self.due(before, &rows);
        let answers = self.answers(due, functions);
        for (at, (_, session)) in self.sessions().into_iter().enumerate() {
            for key in self.keys() {
                for (first, last) in self.live(key, at, session, None) {
                    if session.extent(first, last).1 < self.expired() {
                        let gone =
                            |kept: &&mut Kept| kept.row.0 == key && (first..=last).contains(&kept.row.1);
                        self.rows
                            .iter_mut()
                            .filter(gone)
                            .for_each(|kept| kept.sessions[at] = Member::Expired);
                    }
                }
            }
        }
        answers
    }
}

/// Results of a window's values, by what the functions mean.
fn texts(values: &[(Option<i8>, bool)], functions: &[(Function, bool)]) -> Vec<String> {
    let names = &FUNCTIONS[..functions.len()];
    let each = |&(name, filtered): &(&str, bool)| {
        let rows: Vec<Option<i8>> = values.iter().filter(|row| !filtered || row.1).map(|row| row.0).collect();
        let mut known: Vec<i64> = rows.iter().flatten().map(|&value| value.into()).collect();
        let or_null = |value: Option<String>| value.unwrap_or("null".into());
        let float = |value: f64| format!("{value:?}");
        let any = (!known.is_empty()).then_some(());
        match name {
            "sum" => or_null(any.map(|()| known.iter().sum::<i64>().to_string())),
            "max" => or_null(known.iter().max().map(i64::to_string)),
            "mean" => or_null(any.map(|()| float(known.iter().sum::<i64>() as f64 / known.len() as f64))),
            "first" => or_null(rows.first().copied().flatten().map(|value| value.to_string())),
            "last" => or_null(rows.last().copied().flatten().map(|value| value.to_string())),
            "median" => or_null(any.map(|()| {
                known.sort_unstable();
                let (low, high) = (known[(known.len() - 1) / 2], known[known.len() / 2]);
                float((low + high) as f64 / 2.0)
            })),
            "count_distinct" => known.iter().collect::<BTreeSet<_>>().len().to_string(),
            "collect_list" => {
                format!("[{}]", known.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
            }
            other => unreachable!("{other} has no meaning here"),
        }
    };
    names.iter().map(each).collect()
}

fn setting(windows: &[Window], order: Order, lateness: i64, functions: &[(Function, bool)]) -> Setting {
    Setting { windows: windows.to_vec(), own: Vec::new(), order, lateness, partials: partials(functions) }
}

/// What a technique must refuse, and in which words.
fn refusal(method: Method, windows: &[Window], order: Order, functions: usize) -> Option<&'static str> {
    let sessions = windows.iter().any(|window| matches!(window, Window::Session(_)));
    match method {
        Method::Pairs | Method::Cutty if order == Order::OutOfOrder => Some("rows out of order"),
        Method::Pairs | Method::Cutty if sessions => Some("session window"),
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
    let mut oracle = Oracle {
        windows,
        lateness: if order == Order::InOrder { 0 } else { lateness },
        watermark: i64::MIN,
        rows: Vec::new(),
        told: BTreeSet::new(),
        late: 0,
    };
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
    for event in events.iter().chain([&Event::Watermark(i64::MAX)]) {
        let wanted = match event {
            Event::Rows(rows) => oracle.push(rows, &functions),
            Event::Watermark(watermark) => oracle.advance(*watermark, &functions),
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
            };
            let got = lowered(&functions, &windows);
            prop_assert_eq!(&got, &wanted, "{} at {:?}", technique.name(), event);
        }
    }
    for technique in techniques {
        let stats = technique.stats();
        prop_assert_eq!((stats.late, stats.windows), (oracle.late, told), "{}", technique.name());
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
            Event::Watermark(_) => Vec::new(),
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
        let sliding: Vec<Window> = windows.into_iter().filter(|window| matches!(window, Window::Sliding(_))).collect();
        if !sliding.is_empty() {
            agree(&sliding, Order::InOrder, lateness, PLAIN, &in_order(&events))?;
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
        let windows =
            [Window::Sliding(Sliding::new(60, 25, 3)), Window::Sliding(Sliding::new(20, 20, 0)), Window::Session(Session::new(4))];
        agree(&windows, Order::OutOfOrder, 30, PLAIN, &events)?;
        agree(&windows, Order::OutOfOrder, 0, FUNCTIONS.len(), &events)?;
        agree(&windows[..2], Order::InOrder, 0, PLAIN, &in_order(&events))?;
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
                wanted.insert((key, 1, start, end, false), texts(&values, &functions));
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
