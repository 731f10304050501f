//! Batches in the C data interface that are not quite what they should be: made from good ones, for the tests here and for
//! the fuzzer, which includes this file. None is undefined by itself: pointers are null or to what is there, and lengths
//! that could be are those of buffers that long.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::rc::Rc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_data::{ArrayData, layout};
use arrow_schema::DataType;

/// How many ways there are to change an array, and a schema.
pub const OF_ARRAYS: usize = 13;
pub const OF_SCHEMAS: usize = 10;

/// Beyond what is counted.
const BEYOND: i64 = 1 << 56;

/// A batch and its schema, as a producer hands them over. It must outlive what is imported.
pub struct Produced {
    /// Each before those within it.
    schemas: Vec<Described>,
    arrays: Vec<Node>,
    released: Rc<Cell<usize>>,
}

impl Produced {
    pub fn new(data: &ArrayData) -> Self {
        let released = Rc::new(Cell::new(0));
        let (mut schemas, mut arrays) = (vec![], vec![]);
        let array = Node::add(&mut arrays, data, &FFI_ArrowArray::new(data));
        // SAFETY: it is there, and nothing else refers to it.
        unsafe { (*array).private_data = Rc::as_ptr(&released).cast_mut().cast() };
        Described::add(&mut schemas, &FFI_ArrowSchema::try_from(data.data_type()).unwrap());
        Self { schemas, arrays, released }
    }

    /// The structs to import from.
    pub fn structs(&self) -> (NonNull<FFI_ArrowSchema>, NonNull<FFI_ArrowArray>) {
        (NonNull::new(self.schemas[0].schema).unwrap(), NonNull::new(self.arrays[0].array).unwrap())
    }

    /// How often the array has been released.
    pub fn released(&self) -> usize {
        self.released.get()
    }

    /// Arrays in it, and schemas.
    pub fn len(&self) -> (usize, usize) {
        (self.arrays.len(), self.schemas.len())
    }

    /// Changes one of the arrays.
    pub fn change_array(&mut self, node: usize, what: usize, which: usize, value: i64) {
        let node = node % self.arrays.len();
        self.arrays[node].change(what % OF_ARRAYS, which, value);
    }

    /// Changes one of the schemas.
    pub fn change_schema(&mut self, node: usize, what: usize, which: usize, value: i64) {
        let node = node % self.schemas.len();
        self.schemas[node].change(what % OF_SCHEMAS, which, value);
    }
}

unsafe extern "C" fn release_array(array: *mut FFI_ArrowArray) {
    // SAFETY: who releases an array has it, and where it counts, the counter outlives it.
    unsafe {
        (*array).release = None;
        if let Some(released) = (*array).private_data.cast::<Cell<usize>>().as_ref() {
            released.set(released.get() + 1);
        }
    }
}

unsafe extern "C" fn release_schema(schema: *mut FFI_ArrowSchema) {
    // SAFETY: who releases a schema has it.
    unsafe { (*schema).release = None };
}

/// Memory of exactly as many bytes.
struct Memory(*mut u8, Layout);

impl Memory {
    /// A copy that begins so many bytes after an aligned place.
    fn copy(bytes: &[u8], shift: usize) -> Self {
        let layout = Layout::from_size_align(shift + bytes.len().max(1), 64).unwrap();
        // SAFETY: the layout has bytes, and as many as are copied.
        unsafe {
            let start = alloc(layout);
            start.add(shift).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Self(start, layout)
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated so.
        unsafe { dealloc(self.0, self.1) };
    }
}

struct Node {
    kind: DataType,
    array: *mut FFI_ArrowArray,
    /// Rows from the beginning of its buffers.
    all: i64,
    buffers: Vec<*const c_void>,
    sizes: Vec<usize>,
    pointers: Vec<*mut FFI_ArrowArray>,
    memory: Vec<Memory>,
}

impl Node {
    /// Adds an array, and those within it.
    fn add(to: &mut Vec<Self>, data: &ArrayData, given: &FFI_ArrowArray) -> *mut FFI_ArrowArray {
        let (kind, own) = (data.data_type().clone(), layout(data.data_type()));
        let all = data.offset() + data.len();
        let nulls = own.can_contain_null_mask.then(|| all.div_ceil(8));
        let values = data.buffers().iter().map(|buffer| buffer.len());
        let views = own.variadic.then(|| (data.buffers().len() - 1) * 8);
        let sizes: Vec<usize> = nulls.into_iter().chain(values).chain(views).collect();
        let mut memory = vec![];
        let mut copied = |(at, &size): (usize, &usize)| {
            let start = given.buffer(at);
            if start.is_null() {
                return null();
            }
            // SAFETY: arrow exports buffers of these sizes.
            memory.push(Memory::copy(unsafe { std::slice::from_raw_parts(start, size) }, 0));
            memory.last().unwrap().0.cast_const().cast()
        };
        let mut buffers: Vec<*const c_void> = sizes.iter().enumerate().map(&mut copied).collect();
        let before = to.len();
        let (mut pointers, dictionary) = match given.dictionary() {
            Some(values) => (vec![], Self::add(to, &data.child_data()[0], values)),
            None => {
                let child = |(at, data)| Self::add(to, data, given.child(at));
                (data.child_data().iter().enumerate().map(child).collect(), null_mut())
            }
        };
        let array = Box::into_raw(Box::new(FFI_ArrowArray {
            length: given.length,
            null_count: given.null_count,
            offset: given.offset,
            n_buffers: buffers.len() as i64,
            n_children: pointers.len() as i64,
            buffers: buffers.as_mut_ptr(),
            children: pointers.as_mut_ptr(),
            dictionary,
            release: Some(release_array),
            private_data: null_mut(),
        }));
        to.insert(before, Self { kind, array, all: all as i64, buffers, sizes, pointers, memory });
        array
    }

    fn change(&mut self, what: usize, which: usize, value: i64) {
        // SAFETY: it is there until this is dropped.
        let array = unsafe { &mut *self.array };
        // What cannot be, or what can be beside another number.
        let counted = |other: i64| match value {
            0..=BEYOND => value % (self.all - other.clamp(0, self.all) + 1),
            _ => value,
        };
        let buffer = which % self.buffers.len().max(1);
        let views = matches!(self.kind, DataType::Utf8View | DataType::BinaryView);
        match what {
            0 => array.length = counted(array.offset),
            1 => array.offset = counted(array.length),
            2 => array.null_count = value,
            // Of views, the last of these has the lengths of others.
            3 => array.n_buffers = if views { value.min(3) } else { value },
            4 => array.n_children = value,
            5 => array.buffers = null_mut(),
            6 => array.children = null_mut(),
            7 => array.dictionary = if array.dictionary.is_null() { self.array } else { null_mut() },
            8 => array.release = None,
            9 if !self.buffers.is_empty() => self.set_buffer(buffer, null()),
            10 if !self.pointers.is_empty() => {
                let child = which % self.pointers.len();
                // SAFETY: there are as many.
                unsafe { self.pointers.as_mut_ptr().add(child).write(null_mut()) };
            }
            // Elsewhere, where it is not aligned.
            11 if !self.buffers.is_empty() && !self.buffers[buffer].is_null() => {
                let shift = 1 + (value & 7) as usize;
                let copy = Memory::copy(self.bytes(buffer), shift);
                self.set_buffer(buffer, copy.0.cast_const().wrapping_add(shift).cast());
                self.memory.push(copy);
            }
            12 if !self.buffers.is_empty() && !self.buffers[buffer].is_null() => {
                self.spoil(buffer, which, value);
            }
            _ => {}
        }
    }

    fn bytes(&self, buffer: usize) -> &[u8] {
        // SAFETY: a buffer is of this size, wherever it is.
        unsafe { std::slice::from_raw_parts(self.buffers[buffer].cast(), self.sizes[buffer]) }
    }

    fn set_buffer(&mut self, buffer: usize, to: *const c_void) {
        // Through the pointer, as the array has one to it.
        // SAFETY: there are as many.
        unsafe { self.buffers.as_mut_ptr().add(buffer).write(to) };
    }

    /// Writes over what is in a buffer.
    fn spoil(&mut self, buffer: usize, which: usize, value: i64) {
        let size = self.sizes[buffer];
        let width = match self.kind {
            DataType::Utf8 | DataType::Binary if buffer == 1 => 4,
            DataType::LargeUtf8 | DataType::LargeBinary if buffer == 1 => 8,
            // The lengths of others.
            DataType::Utf8View | DataType::BinaryView if buffer + 1 == self.buffers.len() => return,
            _ => 1,
        };
        if size < width {
            return;
        }
        // An offset may be the last, which has the length of the next buffer.
        let value = if width == 1 { value } else { value.min(self.sizes[2] as i64) };
        let at = which % (size / width) * width;
        let to = if width == 4 {
            (value as i32).min(self.sizes[2] as i32).to_ne_bytes().to_vec()
        } else {
            value.to_ne_bytes()[..width].to_vec()
        };
        // SAFETY: this is within the buffer, which is ours.
        unsafe { self.buffers[buffer].cast_mut().cast::<u8>().add(at).copy_from(to.as_ptr(), width) };
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: it was made by a box. Who took what is in it has left a released array.
        drop(unsafe { Box::from_raw(self.array) });
    }
}

struct Described {
    schema: *mut FFI_ArrowSchema,
    pointers: Vec<*mut FFI_ArrowSchema>,
    names: [*mut c_char; 2],
}

impl Described {
    /// Adds a schema, and those within it.
    fn add(to: &mut Vec<Self>, given: &FFI_ArrowSchema) -> *mut FFI_ArrowSchema {
        let owned = |text: &str| CString::new(text).unwrap().into_raw();
        let names = [owned(given.format()), owned(given.name().unwrap_or(""))];
        let before = to.len();
        let mut pointers: Vec<_> = given.children().map(|child| Self::add(to, child)).collect();
        let dictionary = given.dictionary().map_or(null_mut(), |values| Self::add(to, values));
        let schema = Box::into_raw(Box::new(FFI_ArrowSchema {
            format: names[0],
            name: if given.name.is_null() { null() } else { names[1] },
            metadata: null(),
            flags: given.flags,
            n_children: given.n_children,
            children: pointers.as_mut_ptr(),
            dictionary,
            release: Some(release_schema),
            private_data: null_mut(),
        }));
        to.insert(before, Self { schema, pointers, names });
        schema
    }

    fn change(&mut self, what: usize, which: usize, value: i64) {
        // SAFETY: it is there until this is dropped.
        let schema = unsafe { &mut *self.schema };
        match what {
            0 => schema.format = null(),
            1 => {
                const FORMATS: [&CStr; 8] = [c"", c"+s", c"n", c"u", c"l", c"w:-1", c"+us:0", c"\xff"];
                schema.format = FORMATS[which % FORMATS.len()].as_ptr();
            }
            2 => schema.name = null(),
            3 => schema.name = [c"", c"other", c"\xff"][which % 3].as_ptr(),
            4 => schema.flags = value,
            5 => schema.n_children = value,
            6 => schema.children = null_mut(),
            7 => schema.dictionary = if schema.dictionary.is_null() { self.schema } else { null_mut() },
            8 => schema.release = None,
            9 if !self.pointers.is_empty() => {
                let child = which % self.pointers.len();
                // SAFETY: there are as many.
                unsafe { self.pointers.as_mut_ptr().add(child).write(null_mut()) };
            }
            _ => {}
        }
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: it was made by a box, and its names as such strings.
        unsafe {
            drop(Box::from_raw(self.schema));
            self.names.into_iter().for_each(|name| drop(CString::from_raw(name)));
        }
    }
}
