//! Bytes that may be damaged, read from the front.

use crate::{Error, Result};

/// What is left of some bytes. Every read checks the length, and says what it was reading if there is too little.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; errors call them `what`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or_else(|| self.damaged(&format!("they end {} bytes too early", count - self.bytes.len())))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    /// The next byte.
    ///
    /// # Errors
    /// `InvalidValue` if none is left.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// The next 4 bytes, little-endian.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next 8 bytes, little-endian.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next 8 bytes as a float, little-endian.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left.
    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// The next `count` integers of 8 bytes.
    ///
    /// # Errors
    /// `InvalidValue` if fewer are left; nothing is allocated then.
    pub fn u64s(&mut self, count: usize) -> Result<Vec<u64>> {
        let bytes = self.take(count.saturating_mul(8))?;
        Ok(bytes.as_chunks().0.iter().map(|&chunk| u64::from_le_bytes(chunk)).collect())
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The error that says how these bytes are damaged.
    pub fn damaged(&self, how: &str) -> Error {
        Error::InvalidValue(format!("{}: its bytes are damaged: {how}", self.what))
    }
}
