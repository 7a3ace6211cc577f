//! The record of a file of the local home that no settled inode owns: it waits to be used, or it is lent to
//! an inode whose bytes are in it and whose own record does not say so yet.

use super::codec::{Writer, unseal};
use super::inode::{get_time, put_time};
use crate::types::{Ino, Time};

const VERSION: u8 = 1;
const SYNCED: u8 = 1;
/// Programs from before say with it who serves the file, which nobody asks any more.
#[cfg(test)]
const SERVED: u8 = 2;
const SUSPECT: u8 = 4;
const FLAGS_END: u8 = 8;

/// Who has a backing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackingRecord {
    /// The inode whose bytes are in it; 0 for none, and then what is in it is nothing.
    pub ino: Ino,
    /// After the loss of power its bytes count, and not those that the inode's record names.
    pub synced: bool,
    /// When the file had last changed when it was lent: another time says that it was written to since.
    pub base: Time,
    /// A sync of it failed, and the host may have forgotten what it should have written: until it was written anew no
    /// other sync counts.
    pub suspect: bool,
}

impl BackingRecord {
    /// The record.
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut flags = 0;
        flags |= if self.synced { SYNCED } else { 0 };
        flags |= if self.suspect { SUSPECT } else { 0 };
        let mut out = Writer::with_capacity(16);
        out.byte(VERSION).byte(flags).number(self.ino);
        if self.ino != 0 {
            put_time(&mut out, self.base);
        }
        out.seal(key)
    }

    /// From the record.
    pub fn decode(key: &[u8], record: &[u8]) -> Option<Self> {
        let mut from = unseal(key, record)?;
        if from.byte()? != VERSION {
            return None;
        }
        let flags = from.byte()?;
        let ino = from.number()?;
        let base = if ino == 0 { Time::default() } else { get_time(&mut from)? };
        from.end()?;
        if flags >= FLAGS_END || (ino == 0 && flags != 0) {
            return None;
        }
        Some(Self { ino, synced: flags & SYNCED != 0, base, suspect: flags & SUSPECT != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_record_comes_back_as_it_was() {
        for ino in [0, 1, u64::MAX >> 1] {
            for flag in 0..3 {
                let base = Time { secs: ino as i64, nanos: 0 };
                let is = |this| ino != 0 && flag == this;
                let (synced, suspect) = (is(1), is(2));
                let record = BackingRecord { ino, synced, base, suspect };
                let bytes = record.encode(b"k");
                assert_eq!(BackingRecord::decode(b"k", &bytes), Some(record));
                assert_eq!(BackingRecord::decode(b"l", &bytes), None);
            }
        }
        let mut out = Writer::with_capacity(16);
        out.byte(VERSION).byte(SYNCED).number(0);
        assert_eq!(BackingRecord::decode(b"k", &out.seal(b"k")), None);
        let mut out = Writer::with_capacity(16);
        out.byte(VERSION).byte(SYNCED | SERVED).number(7);
        put_time(&mut out, Time::default());
        let record = BackingRecord { ino: 7, synced: true, ..BackingRecord::default() };
        assert_eq!(BackingRecord::decode(b"k", &out.seal(b"k")), Some(record), "from before");
    }
}
