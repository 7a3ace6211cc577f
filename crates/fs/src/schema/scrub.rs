//! How far the scrub of a volume has come, and what it has found: one record, which the next one goes on
//! from.

use super::codec::{Reader, Writer, unseal};
use super::inode::{get_time, put_time};
use crate::types::{Ino, Time};

const VERSION: u8 = 1;

/// Whether a scrub is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScrubState {
    /// Somebody is at it, if its session is alive.
    #[default]
    Running,
    /// It was stopped, and can be gone on with.
    Stopped,
    /// It came to its end.
    Done,
}

/// Something that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubFinding {
    /// The kind, in the words of a check.
    pub kind: String,
    /// Which key, and what is wrong with it.
    pub what: String,
    /// The inode that it is a part of; 0 for none.
    pub ino: Ino,
    /// A path of that inode; empty where none is known.
    pub path: Vec<u8>,
}

/// A scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubRecord {
    /// Drawn at random by who works at it: a record with another number is somebody else's.
    pub run: u64,
    /// The session that works at it.
    pub session: u64,
    /// Whether it is under way.
    pub state: ScrubState,
    /// When it began.
    pub began: Time,
    /// When this was written.
    pub saved: Time,
    /// The first key that was not read; empty for all of them.
    pub next: Vec<u8>,
    /// Keys that were read.
    pub keys: u64,
    /// Blocks that were verified, parity and inline bytes among them.
    pub blocks: u64,
    /// Bytes of keys and values that were read.
    pub bytes: u64,
    /// What was rebuilt from parity, or parity that was made again.
    pub repaired: u64,
    /// What is damaged and was not repaired.
    pub damaged: u64,
    /// The first of what is damaged.
    pub findings: Vec<ScrubFinding>,
}

impl ScrubRecord {
    /// The record.
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Writer::default();
        out.byte(VERSION).byte(match self.state {
            ScrubState::Running => 0,
            ScrubState::Stopped => 1,
            ScrubState::Done => 2,
        });
        out.number(self.run).number(self.session);
        put_time(&mut out, self.began);
        put_time(&mut out, self.saved);
        out.bytes(&self.next);
        for count in [self.keys, self.blocks, self.bytes, self.repaired, self.damaged] {
            out.number(count);
        }
        out.number(self.findings.len() as u64);
        for finding in &self.findings {
            out.bytes(finding.kind.as_bytes()).bytes(finding.what.as_bytes());
            out.number(finding.ino).bytes(&finding.path);
        }
        out.seal(key)
    }

    /// From the record.
    pub fn decode(key: &[u8], record: &[u8]) -> Option<Self> {
        let mut from = unseal(key, record)?;
        if from.byte()? != VERSION {
            return None;
        }
        let state = match from.byte()? {
            0 => ScrubState::Running,
            1 => ScrubState::Stopped,
            2 => ScrubState::Done,
            _ => return None,
        };
        let (run, session) = (from.number()?, from.number()?);
        let (began, saved) = (get_time(&mut from)?, get_time(&mut from)?);
        let next = from.bytes()?.to_vec();
        let (keys, blocks, bytes) = (from.number()?, from.number()?, from.number()?);
        let (repaired, damaged) = (from.number()?, from.number()?);
        let mut findings = Vec::new();
        for _ in 0..from.number()? {
            findings.push(ScrubFinding {
                kind: text(&mut from)?,
                what: text(&mut from)?,
                ino: from.number()?,
                path: from.bytes()?.to_vec(),
            });
        }
        from.end()?;
        Some(Self {
            run,
            session,
            state,
            began,
            saved,
            next,
            keys,
            blocks,
            bytes,
            repaired,
            damaged,
            findings,
        })
    }
}

fn text(from: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(from.bytes()?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_comes_back() {
        let finding = ScrubFinding {
            kind: "block-damaged".into(),
            what: "a block".into(),
            ino: 300,
            path: b"/a\xff".to_vec(),
        };
        for state in [ScrubState::Running, ScrubState::Stopped, ScrubState::Done] {
            let record = ScrubRecord {
                run: 7,
                session: 8,
                state,
                next: b"key".to_vec(),
                keys: 1,
                blocks: 2,
                bytes: 3,
                repaired: 4,
                damaged: 5,
                findings: vec![finding.clone(), ScrubFinding::default()],
                ..ScrubRecord::default()
            };
            assert_eq!(ScrubRecord::decode(b"k", &record.encode(b"k")), Some(record));
        }
        assert_eq!(ScrubRecord::decode(b"k", b"anything"), None);
    }
}
