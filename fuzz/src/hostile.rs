//! What the targets of hostile bytes share: queries, rows, and bytes that were good until some of them were replaced.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use arbitrary::Arbitrary;
use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    StringArray, StringViewArray,
};
use arrow_data::UnsafeFlag;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use windowkit::Error;
use windowkit::aggregate::Function;
use windowkit::operator::{
    AggregateSpec, By, Delay, GapSpec, Length, Options, Plan, StoreKind, WindowKind, WindowSpec,
};
use windowkit::slice::strategy::Order;
use windowkit::state::check_stream;
use windowkit::window::{Mark, Partial};

/// Panics that are caught, as Python's door and Arrow's reader do, are no findings; others end the target anyway.
pub fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// Bytes to put elsewhere in good bytes.
#[derive(Arbitrary, Debug)]
pub struct Damage(Vec<(u16, Patch)>);

#[derive(Arbitrary, Debug)]
enum Patch {
    Byte(u8),
    Half(u16),
    Word(u32),
    Number(u64),
    /// Another place of the same bytes.
    Copy(u16, u8),
    Cut(u8),
    Grow(u8),
}

impl Damage {
    /// Damages bytes from a place on.
    pub fn apply(&self, bytes: &mut Vec<u8>, first: usize) {
        for (at, patch) in &self.0 {
            let len = bytes.len();
            if len <= first {
                return;
            }
            let place = |at: &u16| first + usize::from(*at) % (len - first);
            let at = place(at);
            let given: Vec<u8> = match patch {
                Patch::Byte(byte) => vec![*byte],
                Patch::Half(half) => half.to_le_bytes().into(),
                Patch::Word(word) => word.to_le_bytes().into(),
                Patch::Number(number) => number.to_le_bytes().into(),
                Patch::Copy(from, count) => {
                    let from = place(from);
                    bytes[from..(from + usize::from(*count)).min(len)].to_vec()
                }
                Patch::Cut(count) => {
                    bytes.drain(at..(at + usize::from(*count)).min(len));
                    continue;
                }
                Patch::Grow(count) => {
                    let more = vec![bytes[at]; usize::from(*count)];
                    bytes.splice(at..at, more);
                    continue;
                }
            };
            let count = given.len().min(len - at);
            bytes[at..at + count].copy_from_slice(&given[..count]);
        }
    }

    /// Damages the body of a snapshot, and makes its length and checksum fit again.
    pub fn apply_sealed(&self, snapshot: &mut Vec<u8>) {
        const HEADER: usize = 24;
        self.apply(snapshot, HEADER);
        let (head, body) = snapshot.split_at_mut(HEADER);
        head[12..20].copy_from_slice(&(body.len() as u64).to_le_bytes());
        head[20..24].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
}

/// A row: key, time, value; each with its nulls.
pub type Row = (u8, u8, u8);

/// Rows of every kind of column.
pub fn rows(rows: &[Row]) -> RecordBatch {
    let some = |byte: u8| (byte % 11 != 10).then_some(byte);
    let text = |byte: u8| {
        some(byte).map(|byte| "long enough to be no part of a view"[..usize::from(byte) % 30].to_owned())
    };
    let column = |of: &dyn Fn(&Row) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int64Array>())
    };
    let texts = |row: &Row| text(row.2);
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in rows {
        match some(row.2) {
            Some(value) => lists.append_value((0..value % 4).map(|each| Some(i64::from(each)))),
            None => lists.append_null(),
        }
    }
    let keys =
        rows.iter().map(|row| some(row.0).map(|key| ["a", "b", "", "another key"][usize::from(key) % 4]));
    let columns: [(&str, ArrayRef); 10] = [
        ("k", column(&|row| some(row.0).map(|key| i64::from(key % 4)))),
        ("t", column(&|row| some(row.1).map(i64::from))),
        ("v", column(&|row| some(row.2).map(i64::from))),
        ("f", Arc::new(rows.iter().map(|row| some(row.2).map(f64::from)).collect::<Float64Array>())),
        ("s", Arc::new(rows.iter().map(texts).collect::<StringArray>())),
        ("w", Arc::new(rows.iter().map(texts).collect::<StringViewArray>())),
        ("x", Arc::new(rows.iter().map(|row| text(row.2).map(String::into_bytes)).collect::<BinaryArray>())),
        ("d", Arc::new(keys.collect::<DictionaryArray<Int32Type>>())),
        (
            "b",
            Arc::new(
                rows.iter().map(|row| some(row.2).map(|value| value % 2 == 0)).collect::<BooleanArray>(),
            ),
        ),
        ("l", Arc::new(lists.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// A query over such rows.
#[derive(Arbitrary, Debug)]
pub struct Query {
    keys: u8,
    windows: [u8; 2],
    aggregates: [(u8, u8); 3],
    lateness: Option<u8>,
    delay: Option<u8>,
    eager: Option<bool>,
}

impl Query {
    /// The query, with those of its aggregates that take their columns.
    pub fn plan(&self) -> Arc<Plan> {
        let keys: [&[&str]; 7] = [&["k"], &["d"], &["s"], &["w"], &["k", "x"], &[], &["l"]];
        let keys = keys[usize::from(self.keys) % keys.len()];
        let mut aggregates = vec![AggregateSpec::new("count_all", &[], "n")];
        for (at, &(function, column)) in self.aggregates.iter().enumerate() {
            let found = aggregate(function, column);
            aggregates.extend(found.map(|each| AggregateSpec { name: format!("a{at}"), ..each }));
        }
        let windows = self.windows.iter().enumerate().map(|(at, &kind)| window(at, kind)).collect();
        Arc::new(bound(keys, windows, aggregates).unwrap())
    }

    /// Options of a stream.
    pub fn options(&self) -> Options {
        let order = if self.lateness.is_some() { Order::OutOfOrder } else { Order::InOrder };
        Options {
            order,
            allowed_lateness: i64::from(self.lateness.unwrap_or(0)),
            progress: self.delay.filter(|_| self.lateness.is_some()).map(|delay| Delay {
                by: By::Time(i64::from(delay)),
                source: None,
                idle: None,
                future: None,
                heartbeat: None,
            }),
            store: match self.eager {
                None => StoreKind::Auto,
                Some(false) => StoreKind::Lazy,
                Some(true) => StoreKind::Eager,
            },
            late_limit: None,
            shed: None,
            updates: true,
        }
    }
}

fn bound(keys: &[&str], windows: Vec<WindowSpec>, aggregates: Vec<AggregateSpec>) -> Result<Plan, Error> {
    thread_local!(static INPUT: SchemaRef = rows(&[]).schema());
    let keys = keys.iter().map(|&key| key.to_owned()).collect();
    Plan::new(INPUT.with(SchemaRef::clone), keys, "t".into(), windows, aggregates)
}

/// A function of a column, and of as many others and parameters as it takes; `None` if it does not take the column.
fn aggregate(function: u8, column: u8) -> Option<AggregateSpec> {
    thread_local!(static KNOWN: RefCell<HashMap<(usize, usize), Option<AggregateSpec>>> = RefCell::default());
    const COLUMNS: [&str; 10] = ["k", "v", "f", "s", "w", "x", "d", "b", "l", "t"];
    let functions = Function::names();
    let (function, column) = (usize::from(function) % functions.len(), usize::from(column) % COLUMNS.len());
    let find = || {
        let (function, column) = (functions[function], COLUMNS[column]);
        let reads = [vec![], vec![column], vec![column, "v"], vec![column, "t"]];
        let parameters = [vec![], vec![0.5], vec![12.0], vec![0.5, 64.0], vec![200.0]];
        let forms = reads.iter().flat_map(|read| parameters.iter().map(move |given| (read, given)));
        let mut forms = forms.map(|(read, given)| AggregateSpec {
            parameters: given.clone(),
            ..AggregateSpec::new(function, read, "a")
        });
        forms.find(|each| bound(&[], vec![window(0, 0)], vec![each.clone()]).is_ok())
    };
    KNOWN.with_borrow_mut(|known| known.entry((function, column)).or_insert_with(find).clone())
}

fn window(at: usize, kind: u8) -> WindowSpec {
    let (units, rows) = (Length::Units, Length::Rows);
    let sliding = |size, slide| WindowKind::Sliding { size, slide, start_time: None, partial: Partial::NONE };
    let kinds = [
        WindowKind::Tumbling { size: units(10), start_time: None, partial: Partial::NONE },
        sliding(units(10), units(3)),
        WindowKind::Session { gap: units(4) },
        WindowKind::Tumbling { size: rows(3), start_time: None, partial: Partial::END },
        sliding(rows(4), rows(2)),
        sliding(rows(3), units(5)),
        sliding(units(9), rows(2)),
        WindowKind::Arrivals { size: units(9), slide: rows(2) },
        WindowKind::Landmark { every: units(5), start: None, period: Some(units(40)), start_time: None },
        WindowKind::Punctuation { column: "b".into(), mark: Mark::End },
        WindowKind::Punctuation { column: "b".into(), mark: Mark::Start },
        WindowKind::Between { enter: "b".into(), leave: "b".into(), exclusive: true },
        WindowKind::RowSession { gap: GapSpec::Length(units(4)), at_most: Some(units(9)) },
        WindowKind::Global,
    ];
    WindowSpec { name: format!("w{at}"), kind: kinds[usize::from(kind) % kinds.len()].clone() }
}

/// A batch as an Arrow IPC stream.
pub fn written(batch: &RecordBatch) -> Vec<u8> {
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(batch).unwrap();
    stream.into_inner().unwrap()
}

/// The batches of an Arrow IPC stream, validated or not; `None` where Arrow cannot read it.
pub fn read(bytes: &[u8], validated: bool) -> Option<Vec<RecordBatch>> {
    let read = || -> Result<Vec<RecordBatch>, ArrowError> {
        let mut stream = StreamReader::try_new(Cursor::new(bytes), None)?;
        if !validated {
            let mut flag = UnsafeFlag::new();
            // SAFETY: what reads the batches checks them first, and that this suffices is what is tested.
            unsafe { flag.set(true) };
            // SAFETY: as above.
            stream = unsafe { stream.with_skip_validation(flag.get()) };
        }
        stream.collect()
    };
    // As it is before Arrow reads a snapshot: Arrow would allocate whatever lengths ask for.
    check_stream(bytes)?;
    // Arrow panics on some schemas and lengths.
    std::panic::catch_unwind(read).ok()?.ok()
}

/// Whether a batch has the columns that queries are bound to.
pub fn is_bound(batch: &RecordBatch) -> bool {
    let wanted = rows(&[]).schema();
    let types = |schema: &arrow_schema::Schema| -> Vec<_> {
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    };
    types(&wanted) == types(batch.schema_ref()) && batch.columns().iter().all(|column| column.len() < 1 << 16)
}
