//! Jobs: work of many transactions, with a cursor, that any session can go on with.

use super::codec::{Reader, Writer, unseal};
use super::map::Bits;

const VERSION: u8 = 1;

/// What a job does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Removes a blob that nothing names any more: chunks from `next` on are still there.
    DropBlob {
        /// The home's slot.
        slot: u64,
        /// The blob.
        blob: u64,
        /// Where to go on.
        next: u64,
    },
    /// Removes the chunks from `next` on that a truncation cut off, then tells the inode.
    Trim {
        /// The inode.
        ino: u64,
        /// Where to go on.
        next: u64,
    },
    /// Blocks are being written under a generation of their own, for one large write. When its
    /// session is gone they are removed again.
    Stage {
        /// Who writes.
        session: u64,
        /// The home's slot.
        slot: u64,
        /// The blob.
        blob: u64,
        /// The generation, which is this job's number.
        generation: u64,
        /// The first block, counted from the blob's beginning.
        next: u64,
        /// The block behind the last.
        end: u64,
    },
    /// Removes blocks that a large write has replaced.
    Sweep {
        /// The home's slot.
        slot: u64,
        /// The blob.
        blob: u64,
        /// Chunk, generation, blocks.
        replaced: Vec<(u64, u64, Bits)>,
    },
    /// Removes what a dead session has left: what it held, from inode `next` on, then its op log.
    Reap {
        /// Who died.
        session: u64,
        /// Where to go on.
        next: u64,
    },
}

impl Job {
    /// A word for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DropBlob { .. } => "drop",
            Self::Trim { .. } => "trim",
            Self::Stage { .. } => "stage",
            Self::Sweep { .. } => "sweep",
            Self::Reap { .. } => "reap",
        }
    }

    /// The record.
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Writer::default();
        out.byte(VERSION);
        match self {
            Self::DropBlob { slot, blob, next } => {
                out.byte(1).number(*slot).number(*blob).number(*next);
            }
            Self::Trim { ino, next } => {
                out.byte(2).number(*ino).number(*next);
            }
            Self::Stage { session, slot, blob, generation, next, end } => {
                out.byte(3).number(*session).number(*slot).number(*blob);
                out.number(*generation).number(*next).number(*end);
            }
            Self::Sweep { slot, blob, replaced } => {
                out.byte(4).number(*slot).number(*blob).number(replaced.len() as u64);
                for (chunk, generation, bits) in replaced {
                    out.number(*chunk).number(*generation);
                    bits.encode(&mut out);
                }
            }
            Self::Reap { session, next } => {
                out.byte(5).number(*session).number(*next);
            }
        }
        out.seal(key)
    }

    /// From the record.
    pub fn decode(key: &[u8], record: &[u8]) -> Option<Self> {
        let mut from = unseal(key, record)?;
        if from.byte()? != VERSION {
            return None;
        }
        let job = Self::decode_body(&mut from)?;
        from.end()?;
        Some(job)
    }

    fn decode_body(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            1 => {
                Self::DropBlob { slot: from.number()?, blob: from.number()?, next: from.number()? }
            }
            2 => Self::Trim { ino: from.number()?, next: from.number()? },
            3 => Self::Stage {
                session: from.number()?,
                slot: from.number()?,
                blob: from.number()?,
                generation: from.number()?,
                next: from.number()?,
                end: from.number()?,
            },
            4 => {
                let (slot, blob) = (from.number()?, from.number()?);
                let mut replaced = Vec::new();
                for _ in 0..from.number()? {
                    replaced.push((from.number()?, from.number()?, Bits::decode(from)?));
                }
                Self::Sweep { slot, blob, replaced }
            }
            5 => Self::Reap { session: from.number()?, next: from.number()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_back() {
        for job in [
            Job::DropBlob { slot: 1, blob: 2, next: 3 },
            Job::Trim { ino: 1, next: 2 },
            Job::Stage { session: 1, slot: 2, blob: 3, generation: 4, next: 5, end: 6 },
            Job::Sweep { slot: 1, blob: 2, replaced: vec![(7, 8, Bits::of(3..5))] },
            Job::Reap { session: 1, next: 2 },
        ] {
            assert_eq!(Job::decode(b"k", &job.encode(b"k")), Some(job));
        }
    }
}
