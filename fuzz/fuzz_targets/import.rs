//! Batches of a known schema from the C data interface that are odd in any way that can be told: refused, or rows that stay
//! within their buffers.
#![no_main]

use arrow_array::StructArray;
use libfuzzer_sys::fuzz_target;
use windowkit::Error;
use windowkit::bounds::check_columns;
use windowkit::import::KnownSchema;
use windowkit::operator::Operator;
use windowkit_fuzz::hostile::{Query, Row, quiet, rows};
use windowkit_fuzz::odd::Produced;

/// Which of the arrays or schemas, how it is changed, where, and to what.
type Change = (bool, u8, u8, u8, Number);

#[derive(arbitrary::Arbitrary, Debug)]
enum Number {
    Small(i8),
    Any(i64),
    Bit(u8),
}

fuzz_target!(|case: (Query, Vec<Row>, [u8; 2], Vec<Change>)| {
    quiet();
    let (query, given, [from, len], changes) = case;
    let whole = rows(&given);
    let from = usize::from(from) % (whole.num_rows() + 1);
    let batch = whole.slice(from, usize::from(len).min(whole.num_rows() - from));
    let mut produced = Produced::new(&StructArray::from(batch.clone()).into());
    for (of_array, node, what, which, value) in &changes {
        let value = match *value {
            Number::Small(value) => value.into(),
            Number::Any(value) => value,
            Number::Bit(bit) => 1 << (bit % 64),
        };
        let (node, what, which) = (usize::from(*node), usize::from(*what), usize::from(*which));
        if *of_array {
            produced.change_array(node, what, which, value);
        } else {
            produced.change_schema(node, what, which, value);
        }
    }
    let known = KnownSchema::new(batch.schema()).unwrap();
    let (schema, array) = produced.structs();
    // SAFETY: these are such structs, and outlive what is imported: the operator is dropped before them.
    match unsafe { known.import(schema, array) } {
        Ok(Some(imported)) => {
            if changes.is_empty() {
                assert_eq!(imported, batch);
            }
            if check_columns("data", &imported, 0..imported.num_columns()).is_ok() {
                let mut operator =
                    Operator::new(vec![("q".to_owned(), query.plan())], query.options()).unwrap();
                let _ = operator.push(&[imported]);
                let _ = operator.close();
            }
        }
        Ok(None) => assert!(!changes.is_empty()),
        Err(Error::InvalidValue(text)) => {
            assert!(!changes.is_empty() && text.starts_with("data: malformed Arrow data: "), "{text}");
        }
        Err(error) => panic!("{error:?}"),
    }
});
