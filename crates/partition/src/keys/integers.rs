//! Keys of one integer column: a direct table while the values are close together, a hash table otherwise.

use std::hash::BuildHasher;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::NONE;
use super::numbering::{Numbering, nulls_of, number_all};
use crate::Result;

/// How many entries of a direct table there may be for each key.
const SPARSE: i128 = 8;

/// Distinct integers, or values stored as integers, as 64-bit patterns.
pub(super) struct IntegerKeys {
    data_type: DataType,
    values: Vec<i64>,
    null: Option<u32>,
    lookup: Lookup,
    hasher: FixedState,
    is_closed: bool,
}

enum Lookup {
    /// `ids[value - base]`.
    Direct { base: i64, ids: Vec<u32> },
    /// Ids by their values' hash; all values are from `low` to `high`.
    Hashed { table: HashTable<u32>, low: i64, high: i64 },
}

impl IntegerKeys {
    pub(super) fn supports(data_type: &DataType) -> bool {
        (data_type.is_integer() || data_type.is_temporal())
            && data_type.primitive_width().is_some_and(|width| width <= 8)
    }

    pub(super) fn new(data_type: DataType) -> Self {
        let (lookup, hasher) = (Lookup::Direct { base: 0, ids: Vec::new() }, FixedState::default());
        Self { data_type, values: Vec::new(), null: None, lookup, hasher, is_closed: false }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let lookup = match &self.lookup {
            Lookup::Direct { ids, .. } => ids.capacity() * size_of::<u32>(),
            Lookup::Hashed { table, .. } => table.allocation_size(),
        };
        self.values.capacity() * size_of::<i64>() + lookup
    }

    pub(super) fn assign(&mut self, column: &ArrayRef, out: &mut Vec<u32>) -> Result<()> {
        let values = read(column);
        let is_hashed = matches!(self.lookup, Lookup::Hashed { .. });
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None if is_hashed => number_all(self, values.len(), |row| Some(values[row]), out),
            None => out.extend(values.iter().enumerate().map(|(row, &value)| {
                self.known(value).unwrap_or_else(|| self.id_of_new(value, values[row..].iter()))
            })),
            Some(nulls) if is_hashed => {
                number_all(self, values.len(), |row| nulls.is_valid(row).then(|| values[row]), out);
            }
            Some(nulls) => {
                let valid = |from: usize| nulls.valid_indices().skip_while(move |&row| row < from);
                out.extend(values.iter().enumerate().map(|(row, &value)| match self.known(value) {
                    _ if nulls.is_null(row) => self.id_of_null(),
                    Some(id) => id,
                    None => self.id_of_new(value, valid(row).map(|row| &values[row])),
                }));
            }
        }
        Ok(())
    }

    /// The id of a value that the direct table covers.
    #[inline]
    fn known(&self, value: i64) -> Option<u32> {
        match &self.lookup {
            Lookup::Direct { base, ids } => {
                ids.get(value.wrapping_sub(*base) as usize).copied().filter(|&id| id != NONE)
            }
            Lookup::Hashed { .. } => None,
        }
    }

    /// The id of any value. `rest` are the values from it to the end of the batch: what the table should have room for.
    #[inline(never)]
    fn id_of_new<'a>(&mut self, value: i64, rest: impl Iterator<Item = &'a i64>) -> u32 {
        if self.is_closed && matches!(self.lookup, Lookup::Direct { .. }) {
            return self.known(value).unwrap_or(NONE);
        }
        let covered = match &self.lookup {
            Lookup::Direct { base, ids } => (value.wrapping_sub(*base) as usize) < ids.len(),
            Lookup::Hashed { .. } => true,
        };
        if !covered {
            self.make_room(rest);
        }
        self.id_of(value)
    }

    fn id_of(&mut self, value: i64) -> u32 {
        let Self { values, hasher, .. } = self;
        let id = values.len() as u32;
        match &mut self.lookup {
            Lookup::Direct { base, ids } => {
                let entry = &mut ids[value.wrapping_sub(*base) as usize];
                if *entry != NONE {
                    return *entry;
                }
                // First of all: a key that was added half-way would remain if there were no memory for the rest.
                values.reserve(1);
                *entry = id;
                values.push(value);
            }
            Lookup::Hashed { table, low, high } => {
                let hash = hasher.hash_one(value);
                let null = self.null;
                if let Some(&id) = table.find(hash, |&id| values[id as usize] == value && Some(id) != null) {
                    return id;
                }
                if self.is_closed {
                    return NONE;
                }
                values.reserve(1);
                table.insert_unique(hash, id, |&id| hasher.hash_one(values[id as usize]));
                values.push(value);
                (*low, *high) = (value.min(*low), value.max(*high));
                // Checked whenever the number of keys has doubled: by then a direct table may be the smaller one.
                let (low, high) = (*low, *high);
                if values.len().is_power_of_two() && span(low, high) <= SPARSE * values.len() as i128 {
                    self.lookup = self.direct(low, high);
                }
            }
        }
        id
    }

    fn id_of_null(&mut self) -> u32 {
        if self.is_closed {
            return self.null.unwrap_or(NONE);
        }
        *self.null.get_or_insert_with(|| {
            self.values.push(0);
            self.values.len() as u32 - 1
        })
    }

    /// Makes the direct table cover these values, or abandons it if it would be much larger than the data.
    fn make_room<'a>(&mut self, rest: impl Iterator<Item = &'a i64>) {
        let Lookup::Direct { base, ids } = &self.lookup else { return };
        let covered =
            if ids.is_empty() { (i64::MAX, i64::MIN) } else { (*base, base + (ids.len() as i64 - 1)) };
        let mut rows = 0;
        let (low, high) = rest.fold(covered, |(low, high), &value| {
            rows += 1;
            (low.min(value), high.max(value))
        });
        // Up to four table entries for each row at hand are less than what a hash table of the rows would take. Rows that came
        // before count by their keys alone: an index may have seen any number of them.
        if span(low, high) <= (1 << 16).max(4 * rows).max(SPARSE * self.values.len() as i128) {
            // Room to grow on the side that grew: ascending keys must not cost a new table with each batch.
            let grown = ids.len() as i64;
            let low = if low < covered.0 { low.saturating_sub(grown) } else { low };
            let high = if high > covered.1 { high.saturating_add(grown) } else { high };
            self.lookup = self.direct(low, high);
        } else {
            let mut table = HashTable::with_capacity(self.values.len());
            let hash = |&id: &u32| self.hasher.hash_one(self.values[id as usize]);
            self.valid().for_each(|(id, value)| {
                table.insert_unique(self.hasher.hash_one(value), id, hash);
            });
            self.lookup = Lookup::Hashed { table, low, high };
        }
    }

    /// A direct table of the keys so far, for values from `low` to `high`.
    fn direct(&self, low: i64, high: i64) -> Lookup {
        let mut ids = vec![NONE; (high - low) as usize + 1];
        self.valid().for_each(|(id, value)| ids[(value - low) as usize] = id);
        Lookup::Direct { base: low, ids }
    }

    /// Ids and values of all keys except null.
    fn valid(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        let ids = 0..self.values.len() as u32;
        ids.zip(self.values.iter().copied()).filter(|&(id, _)| Some(id) != self.null)
    }

    /// The values of these ids, or of all.
    pub(super) fn values(&self, of: Option<&[u32]>) -> Result<ArrayRef> {
        let nulls = nulls_of(self.null, of, self.len());
        match of {
            None => stored_array(&self.data_type, &self.values, nulls),
            Some(ids) => {
                let values: Vec<i64> = ids.iter().map(|&id| self.values[id as usize]).collect();
                stored_array(&self.data_type, &values, nulls)
            }
        }
    }
}

/// Of the hash table: a direct one needs no numbering block by block.
impl Numbering for IntegerKeys {
    type Key<'a> = Option<i64>;

    fn len(&self) -> usize {
        self.len()
    }

    fn hash(&self, value: Option<i64>) -> u64 {
        value.map_or(0, |value| self.hasher.hash_one(value))
    }

    fn candidate(&self, hash: u64) -> Option<u32> {
        match &self.lookup {
            Lookup::Hashed { table, .. } => table.find(hash, |_| true).copied(),
            Lookup::Direct { .. } => None,
        }
    }

    fn is(&self, id: u32, value: Option<i64>) -> bool {
        value == Some(self.values[id as usize]) && Some(id) != self.null
    }

    fn number(&mut self, value: Option<i64>, _: u64) -> u32 {
        match value {
            // The table may be a direct one by now.
            Some(value) => self.id_of_new(value, std::iter::once(&value)),
            None => self.id_of_null(),
        }
    }
}

/// How many integers there are from `low` to `high`.
fn span(low: i64, high: i64) -> i128 {
    i128::from(high) - i128::from(low) + 1
}

/// Values of this type that are stored as these integers.
pub(super) fn stored_array(
    data_type: &DataType,
    values: &[i64],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let buffer = match data_type.primitive_width() {
        Some(1) => Buffer::from_iter(values.iter().map(|&value| value as i8)),
        Some(2) => Buffer::from_iter(values.iter().map(|&value| value as i16)),
        Some(4) => Buffer::from_iter(values.iter().map(|&value| value as i32)),
        _ => Buffer::from_slice_ref(values),
    };
    let data = ArrayData::builder(data_type.clone()).len(values.len()).add_buffer(buffer).nulls(nulls);
    Ok(make_array(data.build()?))
}

/// The stored integers, sign-extended to 64 bits whatever the type: only equality matters. Zero-copy at 64 bits.
pub(super) fn read(column: &ArrayRef) -> ScalarBuffer<i64> {
    let data = column.to_data();
    let (buffer, offset, len) = (data.buffers()[0].clone(), data.offset(), data.len());
    match column.data_type().primitive_width() {
        Some(1) => ScalarBuffer::<i8>::new(buffer, offset, len).iter().map(|&value| value.into()).collect(),
        Some(2) => ScalarBuffer::<i16>::new(buffer, offset, len).iter().map(|&value| value.into()).collect(),
        Some(4) => ScalarBuffer::<i32>::new(buffer, offset, len).iter().map(|&value| value.into()).collect(),
        _ => ScalarBuffer::<i64>::new(buffer, offset, len),
    }
}
