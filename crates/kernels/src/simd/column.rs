//! What the kernels read: values of a primitive type and optionally a validity bitmap.

/// A validity bitmap as in Arrow: bit `offset + i`, counted from the lowest bit of the first byte, says whether value
/// `i` is valid.
#[derive(Debug, Clone, Copy)]
pub struct Validity<'a> {
    bits: &'a [u8],
    offset: usize,
}

impl<'a> Validity<'a> {
    /// A bitmap that starts `offset` bits into `bits`.
    pub fn new(bits: &'a [u8], offset: usize) -> Self {
        Self { bits, offset }
    }

    /// The largest number of values that the bitmap covers.
    pub fn capacity(&self) -> usize {
        (self.bits.len() * 8).saturating_sub(self.offset)
    }

    /// The bitmap from value `n` on.
    pub fn skip(&self, n: usize) -> Self {
        let bit = self.offset + n;
        Self { bits: &self.bits[(bit / 8).min(self.bits.len())..], offset: bit % 8 }
    }

    /// The 64 bits from value `i` on; 0 past the bitmap's end.
    #[inline(always)]
    pub(super) fn word(&self, i: usize) -> u64 {
        let (byte, shift) = ((self.offset + i) / 8, (self.offset + i) % 8);
        if let Some(bytes) = self.bits.get(byte..byte + 9) {
            let low = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            return low >> shift | u64::from(bytes[8]) << 1 << (63 - shift);
        }
        self.last_word(byte, shift)
    }

    #[cold]
    fn last_word(&self, byte: usize, shift: usize) -> u64 {
        let bytes = self.bits.iter().skip(byte).take(9).enumerate();
        let bits = bytes.fold(0u128, |bits, (i, &byte)| bits | u128::from(byte) << (8 * i));
        (bits >> shift) as u64
    }

    /// Whether value `i` is valid. Panics if `i` is past the bitmap's end.
    #[inline]
    pub fn get(&self, i: usize) -> bool {
        let bit = self.offset + i;
        self.bits[bit / 8] >> (bit % 8) & 1 == 1
    }
}

/// Values and optionally their validity. Kernels skip nulls; the value stored under a null does not matter.
///
/// ```
/// use windowkit_kernels::simd::{Column, Validity, sliding_min};
///
/// let mut out = Vec::new();
/// sliding_min(Column::from(&[3, 1, 2, 5][..]), 2, 1, &mut out);
/// assert_eq!(out, [1, 1, 2]);
///
/// // The second value is null: bit 1 is 0.
/// out.clear();
/// sliding_min(Column::new(&[3, 1, 2, 5], Some(Validity::new(&[0b1101], 0))), 2, 1, &mut out);
/// assert_eq!(out, [3, 2, 2]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Column<'a, T> {
    pub(super) values: &'a [T],
    pub(super) validity: Option<Validity<'a>>,
}

impl<'a, T> Column<'a, T> {
    /// Panics if the bitmap is shorter than the values.
    pub fn new(values: &'a [T], validity: Option<Validity<'a>>) -> Self {
        if let Some(validity) = validity {
            assert!(
                validity.capacity() >= values.len(),
                "a bitmap of {} values for {} values",
                validity.capacity(),
                values.len()
            );
        }
        Self { values, validity }
    }

    /// Number of values, nulls included.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values, null or not.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<'a, T: Copy> Column<'a, T> {
    /// Values `start..start + len`.
    pub(super) fn slice(&self, start: usize, len: usize) -> Column<'a, T> {
        let validity = self.validity.map(|v| v.skip(start));
        Column { values: &self.values[start..start + len], validity }
    }
}

impl<'a, T> From<&'a [T]> for Column<'a, T> {
    fn from(values: &'a [T]) -> Self {
        Self { values, validity: None }
    }
}

/// Number of windows `values[k * slide..k * slide + size]` of a column of `len` values. Panics if `size` or `slide` is 0.
///
/// ```
/// assert_eq!(windowkit_kernels::simd::window_count(10, 3, 1), 8);
/// assert_eq!(windowkit_kernels::simd::window_count(10, 3, 5), 2);
/// assert_eq!(windowkit_kernels::simd::window_count(2, 3, 1), 0);
/// ```
pub fn window_count(len: usize, size: usize, slide: usize) -> usize {
    assert!(size > 0 && slide > 0, "size {size} and slide {slide} must be at least 1");
    if len < size { 0 } else { (len - size) / slide + 1 }
}
