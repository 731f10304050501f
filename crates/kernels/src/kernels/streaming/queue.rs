//! A queue in chunks: both ends, and any place in between by its number, in worst-case constant time.
//!
//! A growing ring buffer copies all its values at once now and then, which is the very spike that a worst-case bound
//! excludes. Here values never move. Only the directory of chunks grows, and its entries move over a few at a time
//! while chunks are added; so the cost of a push is bounded by a constant: one chunk allocated, a few pointers moved.

use std::mem::size_of;

/// Approximate bytes of a chunk: large enough that few operations meet an edge, small enough to be allocated at once.
const CHUNK_BYTES: usize = 4096;

/// Directory entries moved per chunk added. Twice as many chunks as there were must come before the next growth, so
/// that even 1 would do.
const MOVES: usize = 2;

type Chunk<T> = Option<Box<[T]>>;

/// A first-in, first-out queue whose places have numbers: the n-th value ever pushed is at number n, from 0.
#[derive(Clone)]
pub struct ChunkedQueue<T> {
    head: u64,
    tail: u64,
    /// Ring of chunks: chunk `c` is at `c % directory.len()`, which is a power of two.
    directory: Vec<Chunk<T>>,
    /// The directory before it grew, while chunks below `moved` are still in it.
    old: Vec<Chunk<T>>,
    moved: u64,
    /// The last chunk that was freed: a sliding window needs no allocator.
    spare: Chunk<T>,
    /// What changed since [`ChunkedQueue::begin`].
    log: Log<T>,
}

/// How the values of a queue were when a change began.
#[derive(Clone)]
struct Log<T> {
    is_open: bool,
    head: u64,
    /// 0 if the log is not open: values from here on are new.
    tail: u64,
    /// Values that were replaced, and at which number.
    replaced: Vec<(u64, T)>,
    /// The chunks that the head has left, oldest first.
    left: Vec<Box<[T]>>,
}

impl<T> Log<T> {
    fn new() -> Self {
        Self { is_open: false, head: 0, tail: 0, replaced: Vec::new(), left: Vec::new() }
    }
}

/// Entries of a log for which memory is kept.
const KEPT: usize = 1024;

impl<T: Copy> ChunkedQueue<T> {
    /// log2 of the values in a chunk.
    const SHIFT: u32 = match CHUNK_BYTES.checked_div(size_of::<T>()) {
        None => CHUNK_BYTES.ilog2(),
        Some(0) => 0,
        Some(values) => values.ilog2(),
    };

    /// An empty queue, whose first value will be at number 0.
    pub fn new() -> Self {
        let directory = (0..4).map(|_| None).collect();
        Self { head: 0, tail: 0, directory, old: Vec::new(), moved: 0, spare: None, log: Log::new() }
    }

    /// The number of the oldest value.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The number that the next value will have.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// How many values there are.
    #[inline]
    pub fn len(&self) -> u64 {
        self.tail - self.head
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Adds a value at the back.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.tail & Self::within() == 0 {
            self.add_chunk(value);
        }
        let tail = self.tail;
        self.tail += 1;
        self.set(tail, value);
    }

    /// Removes the oldest value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let value = self.get(self.head);
        if (self.head + 1) & Self::within() == 0 {
            self.drop_chunk(self.head >> Self::SHIFT);
        }
        self.head += 1;
        Some(value)
    }

    /// The value at `number`, which must be in the queue.
    #[inline]
    pub fn get(&self, number: u64) -> T {
        debug_assert!((self.head..self.tail).contains(&number), "{number} is not in the queue");
        let chunk = number >> Self::SHIFT;
        let directory = if chunk < self.moved { &self.old } else { &self.directory };
        match &directory[chunk as usize & (directory.len() - 1)] {
            Some(values) => values[(number & Self::within()) as usize],
            None => unreachable!("a value without a chunk"),
        }
    }

    /// Replaces the value at `number`, which must be in the queue.
    #[inline]
    pub fn set(&mut self, number: u64, value: T) {
        debug_assert!((self.head..self.tail).contains(&number), "{number} is not in the queue");
        if number < self.log.tail {
            let before = self.get(number);
            self.log.replaced.push((number, before));
        }
        *self.place(number >> Self::SHIFT, number & Self::within()) = value;
    }

    /// Notes from here on what changes, at O(1) for each change, until [`ChunkedQueue::settle`].
    #[inline]
    pub fn begin(&mut self) {
        (self.log.is_open, self.log.head, self.log.tail) = (true, self.head, self.tail);
    }

    /// Keeps what changed since [`ChunkedQueue::begin`], or takes it back. Allocates nothing.
    #[inline]
    pub fn settle(&mut self, keeps: bool) {
        if !self.log.is_open {
            return;
        }
        if !keeps {
            self.take_back();
        }
        let log = &mut self.log;
        (log.is_open, log.tail) = (false, 0);
        log.replaced.clear();
        log.left.clear();
        if log.replaced.capacity() > KEPT {
            log.replaced = Vec::new();
        }
        if log.left.capacity() > KEPT {
            log.left = Vec::new();
        }
    }

    #[cold]
    fn take_back(&mut self) {
        let (head, tail) = (self.log.head, self.log.tail);
        // One past the last chunk that has, or is about to get, a value.
        let after = |tail: u64| (tail + Self::within()) >> Self::SHIFT;
        let first = self.head >> Self::SHIFT;
        for new in after(tail).max(first)..after(self.tail) {
            self.take_chunk(new);
        }
        // Those left fit into the directory, since it never becomes smaller.
        for chunk in first..after(tail) {
            if chunk < self.moved {
                let (from, to) = (self.old.len() - 1, self.directory.len() - 1);
                self.directory[chunk as usize & to] = self.old[chunk as usize & from].take();
            }
        }
        (self.old, self.moved) = (Vec::new(), 0);
        let mask = self.directory.len() - 1;
        for (chunk, values) in (head >> Self::SHIFT..).zip(self.log.left.drain(..)) {
            self.directory[chunk as usize & mask] = Some(values);
        }
        (self.head, self.tail) = (head, tail);
        while let Some((number, value)) = self.log.replaced.pop() {
            *self.place(number >> Self::SHIFT, number & Self::within()) = value;
        }
    }

    /// Removes all values; numbers continue. What changed before is kept.
    pub fn clear(&mut self) {
        // Numbers continue at a chunk's edge, which is where a push expects to add a chunk.
        let next = (self.tail + Self::within()) & !Self::within();
        *self = Self { head: next, tail: next, ..Self::new() };
    }

    const fn within() -> u64 {
        (1 << Self::SHIFT) - 1
    }

    #[inline]
    fn place(&mut self, chunk: u64, offset: u64) -> &mut T {
        let directory = if chunk < self.moved { &mut self.old } else { &mut self.directory };
        let mask = directory.len() - 1;
        match &mut directory[chunk as usize & mask] {
            Some(values) => &mut values[offset as usize],
            None => unreachable!("a value without a chunk"),
        }
    }

    /// Adds the chunk that `tail` lies in. It is filled with `value`, so that nothing in it is ever uninitialised.
    #[cold]
    fn add_chunk(&mut self, value: T) {
        let (first, number) = (self.head >> Self::SHIFT, self.tail >> Self::SHIFT);
        if number - first == self.directory.len() as u64 {
            debug_assert!(self.moved <= first, "the old directory is empty before the new one is full");
            // Zeroed pages: the allocator need not touch them, and neither do we.
            let wider = vec![None; 2 * self.directory.len()];
            self.old = std::mem::replace(&mut self.directory, wider);
            self.moved = number;
        }
        for _ in 0..MOVES {
            self.move_entry(first);
        }
        let chunk = self.spare.take().unwrap_or_else(|| vec![value; 1 << Self::SHIFT].into());
        let mask = self.directory.len() - 1;
        self.directory[number as usize & mask] = Some(chunk);
    }

    /// Moves the newest entry of the old directory over.
    fn move_entry(&mut self, first: u64) {
        if self.moved > first {
            self.moved -= 1;
            let (from, to) = (self.old.len() - 1, self.directory.len() - 1);
            self.directory[self.moved as usize & to] = self.old[self.moved as usize & from].take();
        }
        if self.moved <= first {
            self.old = Vec::new();
        }
    }

    #[cold]
    fn drop_chunk(&mut self, chunk: u64) {
        if chunk << Self::SHIFT < self.log.tail {
            // Room first: without memory for it nothing may have changed.
            self.log.left.reserve(1);
            let taken = self.take_chunk(chunk);
            return self.log.left.extend(taken);
        }
        self.spare = self.take_chunk(chunk);
    }

    fn take_chunk(&mut self, chunk: u64) -> Chunk<T> {
        let directory = if chunk < self.moved { &mut self.old } else { &mut self.directory };
        let mask = directory.len() - 1;
        directory[chunk as usize & mask].take()
    }
}

impl<T: Copy> Default for ChunkedQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::tests::{Op, config, operations};
    use super::*;

    /// So large that a chunk holds 4 of them, and a few hundred make the directory grow.
    type Large = [u64; 128];

    fn large(number: u64) -> Large {
        [number; 128]
    }

    proptest! {
        #![proptest_config(config())]
        #[test]
        fn equals_a_deque(operations in operations()) {
            let (mut queue, mut naive) = (ChunkedQueue::new(), VecDeque::new());
            for operation in operations {
                match operation {
                    Op::Insert => {
                        naive.push_back(queue.tail());
                        queue.push(large(queue.tail()));
                    }
                    Op::Evict => prop_assert_eq!(queue.pop(), naive.pop_front().map(large)),
                    Op::Clear => {
                        queue.clear();
                        naive.clear();
                    }
                }
                prop_assert_eq!(queue.len(), naive.len() as u64);
                for &number in [naive.front(), naive.get(naive.len() / 2), naive.back()].into_iter().flatten() {
                    prop_assert_eq!(queue.get(number), large(number));
                }
            }
            for (number, want) in (queue.head()..queue.tail()).zip(naive) {
                prop_assert_eq!(number, want);
                prop_assert_eq!(queue.get(number), large(number));
                queue.set(number, large(0));
                prop_assert_eq!(queue.get(number), large(0));
            }
        }
    }

    proptest! {
        #![proptest_config(config())]
        /// Calls of some operations each, of which some are taken back.
        #[test]
        fn what_is_taken_back_leaves_the_queue_as_it_was(
            calls in prop::collection::vec((0..60u64, 0..60u64, 0..60u64, any::<bool>()), 1..40),
        ) {
            let (mut queue, mut naive) = (ChunkedQueue::new(), VecDeque::new());
            for (pushed, popped, replaced, keeps) in calls {
                let before = naive.clone();
                let (head, tail) = (queue.head(), queue.tail());
                queue.begin();
                for step in 0..pushed.max(popped) {
                    if step < pushed {
                        queue.push(large(queue.tail()));
                        naive.push_back(queue.tail() - 1);
                    }
                    if step < popped {
                        prop_assert_eq!(queue.pop(), naive.pop_front().map(large));
                    }
                    if step < replaced && !naive.is_empty() {
                        let at = (step * 7) as usize % naive.len();
                        naive[at] += 1000;
                        queue.set(queue.head() + at as u64, large(naive[at]));
                    }
                }
                queue.settle(keeps);
                if !keeps {
                    naive = before;
                    prop_assert_eq!((queue.head(), queue.tail()), (head, tail));
                }
                prop_assert_eq!(queue.len(), naive.len() as u64);
                for (number, &value) in (queue.head()..queue.tail()).zip(&naive) {
                    prop_assert_eq!(queue.get(number), large(value));
                }
            }
        }
    }

    #[test]
    fn the_old_directory_is_empty_before_the_new_one_is_full() {
        let mut queue = ChunkedQueue::new();
        let mut grown = 0;
        for number in 0..if cfg!(miri) { 200 } else { 20_000 } {
            let before = queue.directory.len();
            queue.push(large(number));
            grown += usize::from(queue.directory.len() > before);
            // A debug assertion in add_chunk holds that `old` is used up whenever the directory grows.
            assert!(queue.old.is_empty() || queue.old.len() * 2 == queue.directory.len());
        }
        assert!(grown >= 3);
        assert!((0..queue.len()).all(|number| queue.get(number) == large(number)));
    }

    #[test]
    fn a_window_that_slides_allocates_nothing() {
        let mut queue = ChunkedQueue::new();
        (0..40).for_each(|number| queue.push(large(number)));
        let chunks = |queue: &ChunkedQueue<Large>| {
            let held = queue.directory.iter().chain(&queue.old).chain([&queue.spare]).flatten();
            let mut places: Vec<*const Large> = held.map(|chunk| chunk.as_ptr()).collect();
            places.sort();
            places
        };
        for _ in 0..8 {
            queue.pop();
            queue.push(large(0));
        }
        let before = chunks(&queue);
        for _ in 0..200 {
            queue.pop();
            queue.push(large(0));
        }
        assert_eq!(chunks(&queue), before);
    }

    #[test]
    fn values_of_no_size_are_counted() {
        let mut queue = ChunkedQueue::new();
        (0..10_000).for_each(|_| queue.push(()));
        assert_eq!(queue.len(), 10_000);
        assert_eq!((0..10_001).filter_map(|_| queue.pop()).count(), 10_000);
    }
}
