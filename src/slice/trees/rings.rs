//! Where the nodes or totals of each key are stored: rooms of one shared column, sized to the key's needs.

/// A key's room: slots `base..base + len`; none yet if `len` is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) base: usize,
    /// A power of two.
    pub(super) len: usize,
}

/// The rooms of all keys.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    rooms: Vec<Room>,
    slots: usize,
    /// Bases of released rooms, by the logarithm of their lengths.
    free: Vec<Vec<usize>>,
}

impl Rooms {
    /// A key's room.
    pub(super) fn of(&self, key: u32) -> Room {
        self.rooms[key as usize]
    }

    /// Slots of all rooms, including released ones.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.rooms.capacity() * size_of::<Room>()
    }

    /// Gives a key a room of at least `needed` slots and `least`, a power of two; returns its former room if it has
    /// moved. A room is released if it is too small, or much too large.
    pub(super) fn make(&mut self, key: u32, needed: usize, least: usize) -> Option<Room> {
        if self.rooms.len() <= key as usize {
            self.rooms.resize(key as usize + 1, Room::default());
        }
        let old = self.rooms[key as usize];
        if old.len >= needed && old.len <= (16 * needed).max(least) && old.len > 0 {
            return None;
        }
        let len = needed.next_power_of_two().max(least);
        self.free.resize(usize::BITS as usize, Vec::new());
        if old.len > 0 {
            self.free[old.len.trailing_zeros() as usize].push(old.base);
        }
        let base = self.free[len.trailing_zeros() as usize].pop().unwrap_or_else(|| {
            self.slots += len;
            self.slots - len
        });
        self.rooms[key as usize] = Room { base, len };
        Some(old)
    }
}
