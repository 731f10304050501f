//! The bytes of a sketch, in the format of Apache DataSketches.
//!
//! | bytes | list | set | registers |
//! |---|---|---|---|
//! | 0, 1, 2 | words of preamble (2), version 1, family 7 | 3, 1, 7 | 10, 1, 7 |
//! | 3, 4 | precision, log2 of the places (3) | precision, log2 of the places | precision, log2 of the exceptions' places |
//! | 5 | flags | flags | flags |
//! | 6 | number of coupons | 0 | least rank, in registers of 4 bits |
//! | 7 | mode (0), and type in bits 2 and 3 | 1, type | 2, type |
//! | 8 | coupons | number of coupons, coupons | running estimate, two sums of 2^-rank, number of least ranks, number of exceptions; then registers, exceptions |
//!
//! Apache's crate reads and writes the format, but trusts what it reads. There is no checksum; the two sums serve as
//! one, as they are exact and change with any register. Swapped registers, the running estimate's last digits, and the
//! coupons themselves cannot be verified.

use datasketches::hll::{HllSketch, HllType, HllUnion};

use super::dense::{Dense, Sums};
use super::sparse::Sparse;
use super::{PRECISIONS, State};
use crate::{Error, Result};
use windowkit_kernels::simd::murmur::ADDRESS_BITS;

const EMPTY: u8 = 4;
const COMPACT: u8 = 8;
const OUT_OF_ORDER: u8 = 16;
/// The sums and counts of a Java union that has yet to compute them.
const REBUILD: u8 = 32;
const LIST: u8 = 0;
const SET: u8 = 1;
const REGISTERS: u8 = 2;
const TYPE_4: u8 = 0;
const TYPE_6: u8 = 1;
const TYPE_8: u8 = 2;
const LIST_8: u8 = TYPE_8 << 2 | LIST;
const SET_8: u8 = TYPE_8 << 2 | SET;
const LIST_PLACES: usize = 8;
/// Where registers of 8 bits begin.
pub(super) const REGISTERS_FROM: usize = 40;

/// The image that Apache's crate and all other implementations read, with registers of 8 bits.
pub(super) fn write(precision: u32, state: &State) -> Vec<u8> {
    match state {
        State::Sparse(sparse) => write_few(precision, sparse.iter(), sparse.len()),
        State::Dense(dense) => write_many(precision, &dense.ranks, dense.running, dense.sums),
    }
}

/// The image of `len` coupons, in this order.
pub(super) fn write_few(precision: u32, coupons: impl Iterator<Item = u32>, len: usize) -> Vec<u8> {
    let precision = precision as u8;
    let flags = if len == 0 { EMPTY | COMPACT } else { COMPACT };
    let mut image = Vec::with_capacity(len_of_few(len));
    if len < LIST_PLACES {
        image.extend([2, 1, 7, precision, 3, flags, len as u8, LIST_8]);
    } else {
        let most = precision - 3;
        let places = (5..most).find(|places| 4 * len <= 3 << places).unwrap_or(most);
        image.extend([3, 1, 7, precision, places, flags, 0, SET_8]);
        image.extend((len as u32).to_le_bytes());
    }
    coupons.for_each(|coupon| image.extend(coupon.to_le_bytes()));
    image
}

/// How many bytes that image has.
pub(super) fn len_of_few(len: usize) -> usize {
    if len < LIST_PLACES { 8 + 4 * len } else { 12 + 4 * len }
}

/// The image of registers, of 8 bits each.
pub(super) fn write_many(precision: u32, ranks: &[u8], running: Option<f64>, sums: Sums) -> Vec<u8> {
    let flags = if running.is_none() { OUT_OF_ORDER } else { 0 };
    let mut image = Vec::with_capacity(REGISTERS_FROM + ranks.len());
    image.extend([10, 1, 7, precision as u8, 0, flags, 0, TYPE_8 << 2 | REGISTERS]);
    for number in [running.unwrap_or(0.0), sums.inverses[0], sums.inverses[1]] {
        image.extend(number.to_le_bytes());
    }
    image.extend(sums.zeros.to_le_bytes());
    image.extend([0; 4]);
    image.extend(ranks);
    image
}

/// The estimate of coupons, also of the one that is too many: it does not depend on the precision, of which the
/// highest has room for all.
pub(super) fn estimate_of_few(sparse: &Sparse) -> f64 {
    let image = write_few(*PRECISIONS.end(), sparse.iter(), sparse.len());
    HllSketch::deserialize(&image).expect("an image of our own").estimate()
}

/// The estimate of this many coupons, whichever they are.
pub(super) fn estimate_of_so_many(coupons: usize) -> f64 {
    let any = (0..coupons as u32).map(|address| 1 << ADDRESS_BITS | address);
    let image = write_few(*PRECISIONS.end(), any, coupons);
    HllSketch::deserialize(&image).expect("an image of our own").estimate()
}

/// Writes the parts of registers that an estimate needs into an image of them.
pub(super) fn set_sums(image: &mut [u8], Sums { inverses: [low, high], zeros }: Sums) {
    image[16..24].copy_from_slice(&low.to_le_bytes());
    image[24..32].copy_from_slice(&high.to_le_bytes());
    image[32..36].copy_from_slice(&zeros.to_le_bytes());
}

/// The coupons in an image in the format that [`write_few`] uses for this precision; `None` for any other image.
pub(super) fn coupons(image: &[u8], precision: u32) -> Option<&[[u8; 4]]> {
    let (&[_, 1, 7, written, _, COMPACT, count, mode], rest) = image.split_first_chunk::<8>()? else {
        return None;
    };
    let (count, body) = match (image[0], mode) {
        (2, LIST_8) if image[4] == 3 => (u32::from(count), rest),
        (3, SET_8) if count == 0 => {
            let (&count, body) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(count), body)
        }
        _ => return None,
    };
    let (coupons, []) = body.as_chunks::<4>() else { return None };
    (u32::from(written) == precision && coupons.len() == count as usize).then_some(coupons)
}

/// A sketch in the representation of Apache's crate, which estimates, merges and writes other types.
pub(super) fn apache(precision: u32, state: &State) -> HllSketch {
    // Tests check that our images can be read, here and in other languages.
    HllSketch::deserialize(&write(precision, state)).expect("an image of our own")
}

/// The precision and state of a sketch of Apache's crate.
pub(super) fn from_union(union: &HllUnion) -> (u32, State) {
    let image = union.to_sketch(HllType::Hll8).serialize();
    let precision = u32::from(image[3]);
    let words = |from: usize| image[from..].as_chunks().0.iter().map(|&word| u32::from_le_bytes(word));
    let coupons = match image[7] & 3 {
        LIST => words(8),
        SET => words(12),
        _ => {
            let number = |from| f64::from_le_bytes(image[from..from + 8].try_into().expect("8 bytes"));
            let running = (image[5] & OUT_OF_ORDER == 0).then(|| number(8));
            return (precision, State::Dense(Dense::of(image[40..].to_vec(), running)));
        }
    };
    let mut sparse = Sparse::new(precision);
    sparse.extend(&coupons.collect::<Vec<_>>());
    (precision, State::Sparse(sparse))
}

/// Reads an image of any mode and type, after checking everything in it that can be checked.
pub(super) fn read(image: &[u8]) -> Result<(u32, State)> {
    let header = Header::read(image)?;
    let sketch = HllSketch::deserialize(image).map_err(|error| damaged(&error.to_string()))?;
    let union = HllUnion::new(header.precision).map_err(|error| damaged(&error.to_string()));
    let mut union = union?;
    union.update(&sketch);
    let (precision, state) = from_union(&union);
    match &state {
        State::Sparse(sparse) => header.check_coupons(image, sparse)?,
        State::Dense(dense) => header.check_registers(image, dense, &apache(precision, &state))?,
    }
    Ok((precision, state))
}

struct Header {
    precision: u8,
    places: u8,
    flags: u8,
    state: u8,
    mode: u8,
    kind: u8,
}

impl Header {
    /// Reads the first 8 bytes and checks that the image is as long as they say.
    fn read(image: &[u8]) -> Result<Self> {
        let Some((&[words, version, family, precision, places, flags, state, mode], _)) =
            image.split_first_chunk::<8>()
        else {
            return Err(damaged(&format!("{} bytes are too few; the smallest sketch has 8", image.len())));
        };
        if (version, family) != (1, 7) {
            return Err(damaged(&format!(
                "they are of family {family}, version {version}; HyperLogLog is family 7, version 1"
            )));
        }
        if !PRECISIONS.contains(&precision.into()) {
            return Err(damaged(&format!("a precision of {precision}; allowed is 4 to 21")));
        }
        if flags & !(EMPTY | COMPACT | OUT_OF_ORDER | REBUILD) != 0 {
            return Err(damaged(&format!("unknown flags {flags:#010b}")));
        }
        let header = Self { precision, places, flags, state, mode: mode & 3, kind: mode >> 2 & 3 };
        let preamble = [2, 3, 10].get(usize::from(header.mode));
        if preamble != Some(&words) || header.kind > TYPE_8 || mode > 15 {
            return Err(damaged(&format!("a mode of {mode:#x} with {words} words of preamble")));
        }
        header.check_length(image)?;
        header.check_ranks(image)?;
        Ok(header)
    }

    /// Rejects ranks above 63, which no hash has, before Apache's crate shifts by them.
    fn check_ranks(&self, image: &[u8]) -> Result<()> {
        let registers = 1_usize << self.precision;
        let highest = match (self.mode, self.kind) {
            (REGISTERS, TYPE_8) => image[40..40 + registers].iter().max().copied(),
            // Half a byte over the least rank; 15 stands for an exception, which has six bits.
            (REGISTERS, TYPE_4) => image[40..40 + registers / 2]
                .iter()
                .flat_map(|&pair| [pair & 15, pair >> 4])
                .filter(|&over| over < 15)
                .max()
                .map(|over| over.saturating_add(self.state)),
            _ => None,
        };
        match highest {
            Some(rank) if rank > 63 => Err(damaged(&format!("a rank of {rank}; the highest is 63"))),
            _ => Ok(()),
        }
    }

    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn check_length(&self, image: &[u8]) -> Result<()> {
        let registers = 1_usize << self.precision;
        let at = |from| word(image, from).ok_or_else(|| damaged("they end within the preamble"));
        let (length, padded) = match self.mode {
            LIST if self.is(EMPTY) => (8, 8 + 4 * LIST_PLACES),
            LIST if self.is(COMPACT) => (8 + 4 * usize::from(self.state), 0),
            LIST => (8 + 4 * LIST_PLACES, 0),
            SET if self.places > 26 => return Err(damaged(&format!("2^{} places of coupons", self.places))),
            SET if self.is(COMPACT) => (12 + 4 * at(8)? as usize, 0),
            SET => (12 + (4 << self.places), 0),
            _ => match self.kind {
                TYPE_8 => (40 + registers, 0),
                TYPE_6 => (40 + registers / 4 * 3 + 1, 0),
                _ => {
                    let exceptions = at(36)? as usize;
                    if self.places > 26 || exceptions > registers {
                        return Err(damaged(&format!("{exceptions} exceptions in 2^{} places", self.places)));
                    }
                    let fixed = 40 + registers / 2;
                    if self.is(COMPACT) {
                        (fixed + 4 * exceptions, 0)
                    } else if exceptions == 0 {
                        // Room for exceptions to come.
                        (fixed, fixed + (4 << self.places.max(self.precision)))
                    } else {
                        (fixed + (4 << self.places), 0)
                    }
                }
            },
        };
        let (body, padding) = image.split_at_checked(length).unwrap_or((image, &[]));
        if body.len() < length || image.len() > length.max(padded) || padding.iter().any(|&byte| byte != 0) {
            return Err(damaged(&format!("{} bytes, where their preamble says {length}", image.len())));
        }
        Ok(())
    }

    fn check_coupons(&self, image: &[u8], sparse: &Sparse) -> Result<()> {
        let (count, from) = match self.mode {
            LIST => (usize::from(self.state), 8),
            _ => (word(image, 8).map_or(0, |count| count as usize), 12),
        };
        if self.is(EMPTY) != (count == 0) {
            return Err(damaged(&format!("{count} coupons in a sketch flagged as empty or not")));
        }
        if self.is(OUT_OF_ORDER | REBUILD) && self.mode == LIST {
            return Err(damaged(&format!("flags {:#010b} on a list of coupons", self.flags)));
        }
        if sparse.is_over() {
            return Err(damaged(&format!("{count} coupons at precision {}", self.precision)));
        }
        let coupons: Vec<u32> =
            image[from..].as_chunks().0.iter().map(|&coupon| u32::from_le_bytes(coupon)).collect();
        let used = coupons.iter().filter(|&&coupon| coupon != 0).count();
        if sparse.len() != count || used != count {
            return Err(damaged(&format!(
                "{} distinct coupons, where there are said to be {count}",
                sparse.len()
            )));
        }
        if let Some(coupon) = coupons.iter().find(|&&coupon| coupon != 0 && coupon >> 26 == 0) {
            return Err(damaged(&format!("a coupon {coupon} of rank 0")));
        }
        if self.mode == SET && !self.is(COMPACT) && !coupons.iter().all(|&c| c == 0 || reachable(&coupons, c))
        {
            return Err(damaged("a coupon that is not in its place"));
        }
        if self.mode == LIST && coupons[..count].contains(&0) {
            return Err(damaged("a gap in the list of coupons"));
        }
        Ok(())
    }

    fn check_registers(&self, image: &[u8], dense: &Dense, sketch: &HllSketch) -> Result<()> {
        let number = |from: usize| f64::from_le_bytes(image[from..from + 8].try_into().expect("8 bytes"));
        if self.kind == TYPE_6 && image.last() != Some(&0) {
            return Err(damaged("something in the byte after the registers"));
        }
        let highest = dense.ranks.iter().max().copied().unwrap_or(0);
        if highest > 63 || self.is(EMPTY) {
            return Err(damaged(&format!(
                "a rank of {highest} in a sketch flagged with {:#010b}",
                self.flags
            )));
        }
        if !self.is(REBUILD) {
            let [low, high] = [number(16), number(24)];
            // Bit by bit: a damaged sign would make a zero that equals the true one.
            if [low, high].map(f64::to_bits) != dense.sums.inverses.map(f64::to_bits) {
                return Err(damaged(&format!(
                    "the sums of 2^-rank are {:?}, where they are said to be {:?}",
                    dense.sums.inverses,
                    [low, high]
                )));
            }
            // Java keeps a least rank for every type once it has merged; else it is that of registers of 4 bits.
            let count = dense.ranks.iter().filter(|&&rank| rank == self.state).count();
            let below = dense.ranks.iter().filter(|&&rank| rank < self.state).count();
            let said = word(image, 32).unwrap_or(0);
            if below > 0 || count != said as usize || (count == 0 && self.state > 0) {
                return Err(damaged(&format!(
                    "{count} registers have rank {}, and {below} a lower one, where it is said to be the least and \
                     that of {said}",
                    self.state
                )));
            }
        }
        if let Some(running) = dense.running {
            // Both estimate the same number, so that they differ by no more than their errors allow.
            let other = sketch.composite_estimate();
            let ratio = 1.0 + 16.0 / f64::from(1_u32 << self.precision).sqrt();
            if !(other / ratio..=other * ratio).contains(&running) {
                return Err(damaged(&format!(
                    "a running estimate of {running}, where the registers estimate {other}"
                )));
            }
        }
        Ok(())
    }
}

/// Whether a search for the coupon in DataSketches' hash set would find it.
fn reachable(table: &[u32], coupon: u32) -> bool {
    let mask = table.len() - 1;
    let stride = (coupon as usize & 0x3FF_FFFF) >> table.len().ilog2() | 1;
    let start = coupon as usize & mask;
    (0..table.len())
        .map(|step| table[start.wrapping_add(step * stride) & mask])
        .take_while(|&other| other != 0)
        .any(|other| other == coupon)
}

/// Four bytes as a number.
fn word(image: &[u8], from: usize) -> Option<u32> {
    Some(u32::from_le_bytes(image.get(from..from + 4)?.try_into().ok()?))
}

fn damaged(how: &str) -> Error {
    Error::InvalidValue(format!("data: the bytes are not a HyperLogLog sketch, or are damaged: {how}"))
}
