//! A log that grows without moving what it has: a call of ten million rows logs half a gigabyte, which took as long to
//! copy as the call may go on after Ctrl-C.

/// Entries of a page, once there are that many.
const PAGE: usize = 1 << 13;

/// Entries, the last ones first to leave.
pub struct Log<T> {
    /// Room was made in the last one, which may be empty.
    pages: Vec<Vec<T>>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T> Log<T> {
    /// Makes room for so many more entries, so that adding them cannot fail.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        self.page(more);
    }

    /// The page in which there is room for so many more entries.
    #[inline]
    fn page(&mut self, more: usize) -> &mut Vec<T> {
        let has_room = self.pages.last().is_some_and(|last| last.capacity() - last.len() >= more);
        if !has_room {
            self.grow(more);
        }
        self.pages.last_mut().expect("it has one now")
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        match self.pages.last_mut() {
            Some(last) if last.len() < PAGE => last.reserve(more),
            _ => {
                self.pages.reserve(1);
                self.pages.push(Vec::with_capacity(more));
            }
        }
    }

    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, entry: T) {
        self.page(1).push(entry);
    }

    /// The last entry.
    pub fn last(&self) -> Option<&T> {
        self.pages.iter().rev().find_map(|page| page.last())
    }

    /// Removes the last entry.
    pub fn pop(&mut self) -> Option<T> {
        while self.pages.len() > 1 && self.pages.last()?.is_empty() {
            self.pages.pop();
        }
        self.pages.last_mut()?.pop()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.pages.truncate(1);
        self.pages.iter_mut().for_each(Vec::clear);
    }

    /// All entries, the first ones first.
    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.pages.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A log is a list of which only the end is changed.
        #[test]
        fn a_log_is_a_list(steps in prop::collection::vec((0usize..5, 0usize..3 * PAGE), 1..12)) {
            let (mut log, mut list) = (Log::default(), Vec::new());
            for (step, count) in steps {
                match step {
                    0 => {
                        log.reserve(count);
                        (0..count).for_each(|value| log.push(value));
                        list.extend(0..count);
                    }
                    1 => (0..count).for_each(|value| {
                        log.push(value);
                        list.push(value);
                    }),
                    2 => log.reserve(count),
                    3 => (0..count).for_each(|_| assert_eq!(log.pop(), list.pop())),
                    _ => {
                        log.clear();
                        list.clear();
                    }
                }
                prop_assert_eq!(log.last(), list.last());
                prop_assert!(log.iter().eq(&list));
            }
        }
    }
}
