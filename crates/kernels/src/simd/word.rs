//! Numbers as the 8 bytes that are hashed.

/// A number that is hashed as 8 bytes: equal numbers have equal bytes.
pub trait Word: Copy + Send + Sync {
    /// The bytes, as a little-endian number: integers extended by their sign, floats as doubles with one NaN and one
    /// zero.
    fn word(self) -> u64;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Word for $integer {
            #[inline(always)]
            fn word(self) -> u64 {
                self as u64
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

impl Word for f64 {
    #[inline(always)]
    fn word(self) -> u64 {
        // NaN as Java's Double.doubleToLongBits has it.
        if self.is_nan() { 0x7FF8_0000_0000_0000 } else { (self + 0.0).to_bits() }
    }
}

impl Word for f32 {
    #[inline(always)]
    fn word(self) -> u64 {
        f64::from(self).word()
    }
}
