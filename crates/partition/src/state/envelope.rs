//! The envelope of snapshots: a magic number, a version, the length of the body, its checksum, and the body.

use super::Reader;
use crate::{Error, Result};

/// Magic number, version, two bytes of 0, length of the body, its checksum.
const HEADER: usize = 8 + 2 + 2 + 8 + 4;

/// The envelope of snapshots of one kind.
pub struct Envelope {
    /// What they begin with.
    pub magic: [u8; 8],
    /// The version to write, and the last to read.
    pub version: u16,
    /// The first version to read.
    pub since: u16,
    /// What they are snapshots of, for the error if bytes are not a snapshot.
    pub of: &'static str,
}

impl Envelope {
    /// Where a body begins that [`Envelope::seal`] takes.
    pub fn room() -> Vec<u8> {
        vec![0; HEADER]
    }

    /// A body in its envelope; it follows [`Envelope::room`].
    pub fn seal(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let (header, body) = bytes.split_at_mut(HEADER);
        let (version, len) = (self.version.to_le_bytes(), (body.len() as u64).to_le_bytes());
        let fields: [&[u8]; 5] = [&self.magic, &version, &[0; 2], &len, &crc32fast::hash(body).to_le_bytes()];
        header.copy_from_slice(&fields.concat());
        bytes
    }

    /// The body.
    ///
    /// # Errors
    /// `InvalidValue` if it is not such a snapshot, has another version, is truncated, or is damaged.
    pub fn open<'a>(&self, snapshot: &'a [u8]) -> Result<Reader<'a>> {
        let refused = |why: String| Error::InvalidValue(format!("snapshot: {why}"));
        let Some(header) = snapshot.strip_prefix(&self.magic) else {
            return Err(refused(format!("these bytes are not a snapshot of {}", self.of)));
        };
        let mut header = Reader::of(header, "snapshot");
        let cut_off = |_| refused("it is truncated".into());
        let version = u16::from_le_bytes(header.array().map_err(cut_off)?);
        if version < self.since || version > self.version {
            let known = match self.since == self.version {
                true => format!("version {}", self.version),
                false => format!("versions {} to {}", self.since, self.version),
            };
            return Err(refused(format!("it is of version {version}; this windowkit reads {known}")));
        }
        let zeros: [u8; 2] = header.array().map_err(cut_off)?;
        let (len, checksum) = (header.number().map_err(cut_off)?, header.u32().map_err(cut_off)?);
        let body = header.rest();
        let there = body.len() as u64;
        if there < len {
            return Err(refused(format!("it is truncated: {there} of {len} bytes")));
        }
        if there > len {
            return Err(refused(format!("it is damaged: {} bytes follow it", there - len)));
        }
        if crc32fast::hash(body) != checksum || zeros != [0; 2] {
            return Err(refused("it is damaged: its checksum does not match".into()));
        }
        Ok(Reader::of(body, "snapshot"))
    }
}
