//! How the C data interface describes a field, and where it puts its values.

#![allow(unsafe_code, reason = "the C data interface hands over pointers")]

use std::fmt::Display;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, ArrayDataBuilder, BufferSpec, layout};
use arrow_schema::{DataType, FieldRef};

use crate::{Error, Result};

/// The most rows that there can be, counted from the beginning of a buffer: their bits can still be counted.
const MOST: usize = 1 << 56;

/// A field, but for its metadata, which nothing here reads.
pub(super) struct Layout {
    name: Option<String>,
    format: String,
    flags: i64,
    kind: DataType,
    /// Whether the first buffer says which values are null.
    has_nulls: bool,
    buffers: Vec<Bytes>,
    /// Whether more buffers, which views point to, and one with their lengths follow.
    has_views: bool,
    children: Vec<Self>,
    dictionary: Option<Box<Self>>,
}

/// How many bytes a buffer has.
enum Bytes {
    Bits,
    /// So many a row.
    Fixed(usize),
    /// So many a row, and for the end of the last.
    Offsets(usize),
    /// As many as the offsets of this many bytes before it say.
    Values(usize),
}

impl Layout {
    /// The layout of values of a type.
    pub(super) fn of(kind: &DataType) -> Result<Self> {
        let described = FFI_ArrowSchema::try_from(kind).map_err(Error::from)?;
        Ok(Self::described(&described, kind))
    }

    fn described(field: &FFI_ArrowSchema, kind: &DataType) -> Self {
        let own = layout(kind);
        let mut width = 0;
        let bytes = |spec: &BufferSpec| match *spec {
            BufferSpec::FixedWidth { byte_width, .. } if has_offsets(kind) => {
                width = byte_width;
                Bytes::Offsets(byte_width)
            }
            BufferSpec::FixedWidth { byte_width, .. } => Bytes::Fixed(byte_width),
            BufferSpec::BitMap => Bytes::Bits,
            BufferSpec::VariableWidth | BufferSpec::AlwaysNull => Bytes::Values(width),
        };
        let children = field.children().zip(fields(kind));
        let dictionary = match kind {
            DataType::Dictionary(_, values) => field.dictionary().map(|field| (field, values)),
            _ => None,
        };
        Self {
            name: field.name().map(str::to_owned),
            format: field.format().to_owned(),
            flags: field.flags,
            kind: kind.clone(),
            has_nulls: own.can_contain_null_mask,
            buffers: own.buffers.iter().map(bytes).collect(),
            has_views: own.variadic,
            children: children.map(|(field, own)| Self::described(field, own.data_type())).collect(),
            dictionary: dictionary.map(|(field, values)| Box::new(Self::described(field, values))),
        }
    }

    /// Whether this is how a field is described.
    fn is(&self, field: &FFI_ArrowSchema) -> bool {
        self.name.as_deref() == field.name() && self.flags == field.flags && self.has_fields(field)
    }

    /// Whether this is how a type is described, and those within it.
    pub(super) fn has_fields(&self, kind: &FFI_ArrowSchema) -> bool {
        // The number first: children are looked for at as many places as it says.
        self.children.len() as i64 == kind.n_children
            && self.format == kind.format()
            && self.children.iter().zip(kind.children()).all(|(child, given)| child.is(given))
            && match (&self.dictionary, kind.dictionary()) {
                (None, None) => true,
                // No field: names and flags of values are as the producer likes.
                (Some(own), Some(values)) => own.has_fields(values),
                _ => false,
            }
    }

    /// The values of an array.
    ///
    /// # Safety
    /// The array is as the C data interface has one of this type, or as it can be told here that it is not; `owner` keeps it.
    pub(super) unsafe fn read(
        &self,
        array: &FFI_ArrowArray,
        owner: &Arc<FFI_ArrowArray>,
    ) -> std::result::Result<ArrayData, String> {
        if array.is_released() {
            return Err(self.fault("its array was taken before"));
        }
        let counted = |number: i64| usize::try_from(number).ok().filter(|&number| number <= MOST);
        let (Some(rows), Some(offset)) = (counted(array.length), counted(array.offset)) else {
            return Err(self.fault("an offset or a length is below zero, or beyond all memory"));
        };
        let own = usize::from(self.has_nulls) + self.buffers.len();
        let views = self.has_views.then(|| array.n_buffers.saturating_sub(own as i64 + 1));
        if views.map_or(array.n_buffers != own as i64, |views| views < 0) {
            return Err(self.fault(format!("there are {} buffers, and its type has {own}", array.n_buffers)));
        }
        if array.n_children != self.children.len() as i64 {
            let (given, own) = (array.n_children, self.children.len());
            return Err(self.fault(format!("there are {given} arrays within it, and its type has {own}")));
        }
        if array.dictionary.is_null() != self.dictionary.is_none() {
            return Err(self.fault("either its type has a dictionary or its array"));
        }
        if (array.n_buffers > 0 && array.buffers.is_null())
            || (array.n_children > 0 && array.children.is_null())
        {
            return Err(self.fault("a pointer to pointers is null"));
        }

        let all = rows + offset;
        // SAFETY: as many pointers as the type has, by `n_buffers`, are where one points that is not null.
        let start = |at: usize| unsafe { array.buffers.add(at).read_unaligned() };
        let buffer = |at: usize, bytes: usize| match NonNull::new(start(at).cast_mut().cast::<u8>()) {
            // SAFETY: a buffer is as long as its array says, and the owner keeps it.
            Some(start) if bytes > 0 => {
                Ok(unsafe { Buffer::from_custom_allocation(start, bytes, owner.clone()) })
            }
            None if bytes > 0 => Err(self.fault(format!("buffer {at} is null"))),
            // Producers may let it point anywhere.
            _ => Ok(Buffer::default()),
        };
        let mut data = ArrayDataBuilder::new(self.kind.clone()).len(rows).offset(offset);
        if self.has_nulls {
            // How many there are is counted anew.
            if !start(0).is_null() {
                data = data.null_bit_buffer(Some(buffer(0, all.div_ceil(8))?));
            } else if array.null_count > 0 {
                return Err(
                    self.fault(format!("{} rows are null, and it does not say which", array.null_count))
                );
            }
        }
        let mut buffers: Vec<Buffer> = Vec::with_capacity(own);
        for (at, bytes) in (usize::from(self.has_nulls)..).zip(&self.buffers) {
            let bytes = match *bytes {
                Bytes::Bits => all.div_ceil(8),
                Bytes::Fixed(width) => all.checked_mul(width).ok_or_else(|| self.fault("it is too long"))?,
                // Producers may leave out those of no rows.
                Bytes::Offsets(_) if all == 0 => 0,
                Bytes::Offsets(width) => (all + 1) * width,
                Bytes::Values(_) if rows == 0 => 0,
                Bytes::Values(width) => buffers
                    .last()
                    .and_then(|offsets| last(offsets, width))
                    .ok_or_else(|| self.fault("its last offset is below zero, or beyond all memory"))?,
            };
            buffers.push(buffer(at, bytes)?);
        }
        if let Some(views) = views.filter(|&views| views > 0) {
            let lens = start(own + views as usize).cast::<i64>();
            if lens.is_null() {
                return Err(self.fault("the lengths of its buffers are null"));
            }
            for view in 0..views as usize {
                // SAFETY: the last buffer has the length of each of those before it.
                let len = unsafe { lens.add(view).read_unaligned() };
                let bytes = counted(len).ok_or_else(|| self.fault("the length of a buffer is below zero"))?;
                buffers.push(buffer(own + view, bytes)?);
            }
        }
        data = data.buffers(buffers);

        for (at, child) in self.children.iter().enumerate() {
            // SAFETY: as many pointers as the type has, by `n_children`, are where one points that is not null, and each
            // that is not null itself points to an array.
            let given = unsafe { array.children.add(at).read_unaligned().as_ref() };
            let given = given.ok_or_else(|| child.fault("its array is null"))?;
            // SAFETY: as its parent.
            data = data.add_child_data(unsafe { child.read(given, owner)? });
        }
        // SAFETY: a dictionary that is not null points to an array.
        if let (Some(own), Some(values)) = (&self.dictionary, unsafe { array.dictionary.as_ref() }) {
            // SAFETY: as its parent.
            data = data.add_child_data(unsafe { own.read(values, owner)? });
        }
        // SAFETY: buffers are as long as the type requires of so many rows. What is in them is checked by who reads it.
        Ok(unsafe { data.build_unchecked() })
    }

    fn fault(&self, what: impl Display) -> String {
        match self.name.as_deref() {
            None | Some("") => what.to_string(),
            Some(name) => format!("field '{name}': {what}"),
        }
    }
}

/// Whether a type has a buffer of offsets, one more than rows.
fn has_offsets(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::Map(..)
    )
}

/// The fields within a type, in the order in which the C data interface has them.
fn fields(kind: &DataType) -> Vec<&FieldRef> {
    match kind {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item],
        DataType::RunEndEncoded(ends, values) => vec![ends, values],
        _ => vec![],
    }
}

/// The last of offsets of so many bytes each; `None` if it is below zero, or beyond all memory.
fn last(offsets: &[u8], width: usize) -> Option<usize> {
    let last = &offsets[offsets.len() - width..];
    let last = match <[u8; 4]>::try_from(last) {
        Ok(last) => i64::from(i32::from_ne_bytes(last)),
        Err(_) => i64::from_ne_bytes(last.try_into().ok()?),
    };
    usize::try_from(last).ok().filter(|&last| last <= MOST)
}
