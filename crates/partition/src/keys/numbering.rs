//! How keys of many rows are looked up.
//!
//! | | |
//! |---|---|
//! | technique | a block of rows at a time, one step for all of them after the other: what is read from memory for one row does not wait for another's |
//! | time | O(1) a row; where keys outgrow the caches, several misses are under way at once |
//! | first appeared | group prefetching: Chen, Ailamaki, Gibbons & Mowry, *Improving Hash Join Performance through Prefetching*, ICDE 2004; here the processor finds the independent reads itself |

use std::hash::{BuildHasher, Hash};

use arrow_buffer::NullBuffer;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::NONE;

/// Rows of a block.
const BLOCK: usize = 128;

/// Rows that are numbered one by one, before it is looked at again whether that is best.
const ROUND: usize = 2048;

/// From so many keys on, they outgrow the caches; in tests, a few are enough.
const MANY: usize = if cfg!(test) { 8 } else { 1 << 15 };

/// The ids of keys, by hash.
pub(super) trait Numbering {
    /// What is looked up.
    type Key<'a>: Copy;

    /// How many keys there are.
    fn len(&self) -> usize;

    /// The hash of a key.
    fn hash(&self, key: Self::Key<'_>) -> u64;

    /// The id of a key that may have this hash, if there is one.
    fn candidate(&self, hash: u64) -> Option<u32>;

    /// Whether the key with this id is this one.
    fn is(&self, id: u32, key: Self::Key<'_>) -> bool;

    /// The id of a key of this hash, which gets one if it has none; [`NONE`](super::NONE) once no key is added any more.
    fn number(&mut self, key: Self::Key<'_>, hash: u64) -> u32;
}

/// Appends the ids of the keys of so many rows to `out`, as if they were numbered one by one.
pub(super) fn number_all<'a, N: Numbering>(
    ids: &mut N,
    rows: usize,
    key: impl Fn(usize) -> N::Key<'a>,
    out: &mut Vec<u32>,
) {
    out.reserve(rows);
    let (mut hashes, mut found) = ([0; BLOCK], [None; BLOCK]);
    // New keys would be looked up twice.
    let (mut from, mut are_known) = (0, true);
    while from < rows {
        let known = ids.len();
        let is_plain = known < MANY || !are_known;
        let block = from..rows.min(from + if is_plain { ROUND } else { BLOCK });
        from = block.end;
        if is_plain {
            out.extend(block.clone().map(|row| {
                let key = key(row);
                ids.number(key, ids.hash(key))
            }));
        } else {
            for (row, hash) in block.clone().zip(&mut hashes) {
                *hash = ids.hash(key(row));
            }
            for (&hash, found) in hashes[..block.len()].iter().zip(&mut found) {
                *found = ids.candidate(hash);
            }
            for (row, found) in block.clone().zip(&mut found) {
                *found = found.filter(|&id| ids.is(id, key(row)));
            }
            let each = block.clone().zip(hashes).zip(found);
            out.extend(each.map(|((row, hash), found)| found.unwrap_or_else(|| ids.number(key(row), hash))));
        }
        are_known = ids.len() - known <= block.len() / 4;
    }
}

/// The nulls among these ids, or among all of so many, of which one may be that of null.
pub(super) fn nulls_of(null: Option<u32>, of: Option<&[u32]>, all: usize) -> Option<NullBuffer> {
    let null = null?;
    let nulls: NullBuffer = match of {
        None => (0..all as u32).map(|id| id != null).collect(),
        Some(ids) => ids.iter().map(|&id| id != null).collect(),
    };
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}

/// Keys as they are stored, by id.
pub(super) trait Store {
    /// What is looked up.
    type Key<'a>: Copy + Hash;

    /// How many keys there are.
    fn len(&self) -> usize;

    /// Bytes held.
    fn bytes(&self) -> usize;

    /// Whether the key with this id is this one.
    fn is(&self, id: u32, key: Self::Key<'_>) -> bool;

    /// Adds a key, whole or, if there is no memory for it, not at all.
    fn add(&mut self, key: Self::Key<'_>);
}

/// Stored keys, with a hash table of their ids.
pub(super) struct Hashed<S> {
    pub(super) store: S,
    /// Half of a key's hash, and its id: a table that grows reads nothing else, and another key is seldom looked at.
    table: HashTable<(u32, u32)>,
    hasher: FixedState,
    is_closed: bool,
}

impl<S: Store> Hashed<S> {
    /// Of a store that has no key yet.
    pub(super) fn new(store: S) -> Self {
        Self { store, table: HashTable::new(), hasher: FixedState::default(), is_closed: false }
    }

    /// Adds no key from now on.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether no key is added any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.store.bytes() + self.table.allocation_size()
    }
}

impl<S: Store> Numbering for Hashed<S> {
    type Key<'a> = S::Key<'a>;

    fn len(&self) -> usize {
        self.store.len()
    }

    #[inline]
    fn hash(&self, key: Self::Key<'_>) -> u64 {
        self.hasher.hash_one(key) >> 32
    }

    fn candidate(&self, half: u64) -> Option<u32> {
        let half = half as u32;
        self.table.find(place(half), |&(own, _)| own == half).map(|&(_, id)| id)
    }

    fn is(&self, id: u32, key: Self::Key<'_>) -> bool {
        self.store.is(id, key)
    }

    #[inline]
    fn number(&mut self, key: Self::Key<'_>, half: u64) -> u32 {
        let (Self { store, table, is_closed, .. }, half) = (self, half as u32);
        if let Some(&(_, id)) = table.find(place(half), |&(own, id)| own == half && store.is(id, key)) {
            return id;
        }
        if *is_closed {
            return NONE;
        }
        // First of all: a key that was added half-way would remain if there were no memory for the rest.
        table.reserve(1, |&(half, _)| place(half));
        let id = store.len() as u32;
        store.add(key);
        table.insert_unique(place(half), (half, id), |&(half, _)| place(half));
        id
    }
}

/// Where the table has keys of this half of a hash: its first bits say in which group, its last ones which of that.
fn place(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
