//! The first file of a store: what it is, which version of the format it has, and which features.
//!
//! A feature bit says that something is in the store that an older program does not know. It is
//! graded: without knowing the bits of `refuse` nobody may open the store at all, without those of
//! `read_only` nobody may write to it.

use crate::codec::Reader;
use crate::error::{corrupt, io_error};
use base::Disk;
use base::checksum::hash64;
use kv::{Error, ErrorKind, Result};

pub(crate) const NAME: &str = "format";
pub(crate) const NEW_NAME: &str = "format.new";
/// The same once more, for when the file is lost. Nothing but recovery reads it.
pub(crate) const COPY_NAME: &str = "format.copy";
const MAGIC: u64 = u64::from_le_bytes(*b"SEAMOUNT");
/// The version that this program writes, and the newest that it reads.
pub(crate) const VERSION: u32 = 1;
/// The feature bits that this program knows.
const KNOWN_REFUSE: u64 = 0;
const KNOWN_READ_ONLY: u64 = 0;
const COPY_BYTES: usize = 48;

/// What the file says. It holds it twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) version: u32,
    pub(crate) refuse: u64,
    pub(crate) read_only: u64,
    /// Tells this store from every other: its files cannot be mixed up with theirs.
    pub(crate) store: u64,
}

impl Format {
    pub(crate) fn new(store: u64) -> Self {
        Self { version: VERSION, refuse: KNOWN_REFUSE, read_only: KNOWN_READ_ONLY, store }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(COPY_BYTES);
        copy.extend_from_slice(&MAGIC.to_le_bytes());
        copy.extend_from_slice(&u64::from(self.version).to_le_bytes());
        copy.extend_from_slice(&self.refuse.to_le_bytes());
        copy.extend_from_slice(&self.read_only.to_le_bytes());
        copy.extend_from_slice(&self.store.to_le_bytes());
        let hash = hash64(MAGIC, &copy);
        copy.extend_from_slice(&hash.to_le_bytes());
        copy.repeat(2)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.chunks(COPY_BYTES).take(2).find_map(Self::decode_copy)
    }

    fn decode_copy(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (magic, version) = (reader.u64()?, reader.u64()?);
        let format = Self {
            version: u32::try_from(version).ok()?,
            refuse: reader.u64()?,
            read_only: reader.u64()?,
            store: reader.u64()?,
        };
        let hash = reader.u64()?;
        (magic == MAGIC && hash64(MAGIC, &bytes[..40]) == hash).then_some(format)
    }

    /// Whether this program may open the store, to write or only to read.
    pub(crate) fn check(&self, read_only: bool) -> Result<()> {
        let refused = |what: String| {
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("this store was made by a later program: {what}; use a newer one"),
            ))
        };
        if self.version > VERSION {
            return refused(format!("its format is {}, this one knows {VERSION}", self.version));
        }
        let unknown = self.refuse & !KNOWN_REFUSE;
        if unknown != 0 {
            return refused(format!("it has the unknown features {unknown:#x}"));
        }
        let unknown = self.read_only & !KNOWN_READ_ONLY;
        if unknown != 0 && !read_only {
            return refused(format!("it must not be written without the features {unknown:#x}"));
        }
        Ok(())
    }

    /// Reads the file; `None` when there is none.
    pub(crate) fn load(disk: &dyn Disk, name: &str) -> Result<Option<Self>> {
        let failed = |error| io_error("cannot read the format file", error);
        let file = match disk.open(name) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let len = file.len().map_err(failed)?.min(2 * COPY_BYTES as u64);
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, 0).map_err(failed)?;
        let format = Self::decode(&bytes)
            .ok_or_else(|| corrupt("both copies in the file \"format\" are damaged"))?;
        Ok(Some(format))
    }

    /// Writes the copy, if there is none. It is for bad days: failing is no failure.
    pub(crate) fn keep_copy(&self, disk: &dyn Disk) {
        if let Ok(file) = disk.create(COPY_NAME)
            && file.write_at(&self.encode(), 0).and_then(|()| file.sync()).is_err()
        {
            let _ = disk.remove(COPY_NAME);
        }
    }

    /// Writes the file, atomically.
    pub(crate) fn store(&self, disk: &dyn Disk) -> Result<()> {
        let failed = |error| io_error("cannot write the format file", error);
        match disk.remove(NEW_NAME) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let file = disk.create(NEW_NAME).map_err(failed)?;
        file.write_at(&self.encode(), 0).map_err(failed)?;
        file.sync().map_err(failed)?;
        disk.rename(NEW_NAME, NAME).map_err(failed)?;
        disk.sync_dir().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_damage_to_either_copy() {
        let format = Format::new(7);
        let bytes = format.encode();
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert_eq!(Format::decode(&bytes), Some(format), "byte {at}");
        }
    }

    #[test]
    fn refuses_the_future_in_words() {
        for format in [
            Format { version: 2, ..Format::new(1) },
            Format { refuse: 4, ..Format::new(1) },
            Format { read_only: 1, ..Format::new(1) },
        ] {
            let read = Format::decode(&format.encode()).unwrap();
            let error = read.check(false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("later program"), "{error}");
        }
    }
}
