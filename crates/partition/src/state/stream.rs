//! Lengths in an Arrow IPC stream, checked against the available bytes before anything is allocated for them.

use arrow_ipc::{Buffer, FieldNode, MessageHeader, RecordBatch, root_as_message};

/// The marker before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Largest number of rows of an array, so that no sum of lengths in bits can overflow.
const ROWS: i64 = 1 << 40;

/// Checks that messages and their buffers lie within the stream; `None` if they do not.
pub fn check(stream: &[u8]) -> Option<()> {
    let mut rest = stream;
    while let Some(after) = rest.strip_prefix(&CONTINUATION) {
        let (len, after) = after.split_first_chunk()?;
        let len = usize::try_from(i32::from_le_bytes(*len)).ok()?;
        if len == 0 {
            return after.is_empty().then_some(());
        }
        let (head, after) = after.split_at_checked(len)?;
        let message = root_as_message(head).ok()?;
        let (body, after) = after.split_at_checked(usize::try_from(message.bodyLength()).ok()?)?;
        match message.header_type() {
            MessageHeader::Schema => {}
            MessageHeader::RecordBatch => check_batch(message.header_as_record_batch()?, body.len())?,
            MessageHeader::DictionaryBatch => {
                check_batch(message.header_as_dictionary_batch()?.data()?, body.len())?;
            }
            _ => return None,
        }
        rest = after;
    }
    None
}

fn check_batch(batch: RecordBatch<'_>, len: usize) -> Option<()> {
    let counted = |rows: i64| (0..=ROWS).contains(&rows);
    let of_node =
        |node: &FieldNode| counted(node.length()) && (0..=node.length()).contains(&node.null_count());
    let of_buffer = |buffer: &Buffer| {
        let (from, bytes) = (usize::try_from(buffer.offset()).ok()?, usize::try_from(buffer.length()).ok()?);
        from.checked_add(bytes).filter(|&to| to <= len)
    };
    let mut nodes = batch.nodes().into_iter().flatten();
    let mut buffers = batch.buffers().into_iter().flatten();
    let is_whole = batch.compression().is_none()
        && counted(batch.length())
        && nodes.all(of_node)
        && buffers.all(|buffer| of_buffer(buffer).is_some());
    is_whole.then_some(())
}
