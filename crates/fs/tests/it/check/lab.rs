//! A small volume with something of everything, and ways to spoil it behind the core's back.

use crate::audit::dump;
use crate::world::*;
use base::checksum::hash64;
use bytes::Bytes;
use fs::blob::block::Codec;
use fs::schema::*;
use fs::*;
use std::collections::BTreeMap;

pub(super) const MIB: u64 = 1 << 20;
pub(super) const BLOCK: u64 = 4096;

/// A key, and what is to be there.
pub(super) type Change = (Parsed, Option<Vec<u8>>);

/// A number that nothing has.
pub(super) const NOBODY: u64 = 7777;

pub(super) struct Lab {
    pub(super) volume: Volume,
    pub(super) found: BTreeMap<Vec<u8>, Bytes>,
    /// A directory in the root, and one in that.
    pub(super) dir: Ino,
    pub(super) sub: Ino,
    /// An inline file of 100 bytes in the root, and an empty one.
    pub(super) small: Ino,
    pub(super) empty: Ino,
    /// A mapped file of six blocks in two chunks, the last not full.
    pub(super) large: Ino,
    /// A file with two names; one with an extended attribute; a symbolic link.
    pub(super) linked: Ino,
    pub(super) tagged: Ino,
    pub(super) link: Ino,
}

impl Lab {
    pub(super) async fn new(parity_group: u8) -> Self {
        let options = FormatOptions {
            chunk_bytes: MIB as u32,
            block_bytes: Some(BLOCK as u32),
            codec: Codec::Lz4,
            parity_group,
            ..FormatOptions::default()
        };
        let volume = Bench::mem().volume_with(&options).await;
        let session = private_session(&volume).await;
        let dir = dir(&session, b"dir").await;
        let sub = session.mkdir(&root(), dir, b"sub", 0o755).await.unwrap().ino;
        let small = file(&session, ROOT, b"small", &pattern(1, 100)).await;
        let empty = file(&session, dir, b"empty", b"").await;
        let flags = OpenFlags::READ_WRITE;
        let (large, handle) = session.create(&root(), ROOT, b"large", 0o644, flags).await.unwrap();
        let at = MIB - 3 * BLOCK;
        write_all(&session, handle, at, &pattern(2, 6 * BLOCK as usize - 5)).await;
        session.release(handle).await.unwrap();
        let linked = file(&session, ROOT, b"linked", b"two names").await;
        session.link(&root(), linked, sub, b"other").await.unwrap();
        let tagged = file(&session, ROOT, b"tagged", b"x").await;
        session.setxattr(&root(), tagged, b"user.a", b"b", XattrMode::Any).await.unwrap();
        let link = session.symlink(&root(), sub, b"link", b"target").await.unwrap().ino;
        settle(&session).await;
        session.stop().await.unwrap();
        let found = dump(&volume).await;
        Self { volume, found, dir, sub, small, empty, large: large.ino, linked, tagged, link }
    }

    fn key(&self, parsed: &Parsed) -> kv::Key {
        self.volume.keys().unparse(parsed)
    }

    pub(super) fn get(&self, parsed: &Parsed) -> Vec<u8> {
        let found = self.found.get(&self.key(parsed)[..]);
        found.unwrap_or_else(|| panic!("{parsed:?} is not there")).to_vec()
    }

    pub(super) fn has(&self, parsed: &Parsed) -> bool {
        self.found.contains_key(&self.key(parsed)[..])
    }

    /// One bit of what is there is another.
    pub(super) fn flip(&self, parsed: Parsed) -> Change {
        let mut value = self.get(&parsed);
        let at = value.len() / 2;
        value[at] ^= 4;
        (parsed, Some(value))
    }

    pub(super) fn inode(&self, ino: Ino, change: impl FnOnce(&mut Inode)) -> Change {
        let parsed = Parsed::Inode { ino };
        let key = self.key(&parsed);
        let mut inode = Inode::decode(&key, ino, &self.get(&parsed)).unwrap();
        change(&mut inode);
        (parsed, Some(inode.encode(&key, ino)))
    }

    pub(super) fn entry(&self, parent: Ino, name: &[u8], ino: Ino, file_type: FileType) -> Change {
        let parsed = Parsed::Entry { parent, name: name.to_vec() };
        let record = Entry { ino, file_type }.encode(&self.key(&parsed));
        (parsed, Some(record))
    }

    pub(super) fn number(&self, parsed: Parsed, number: u64) -> Change {
        (parsed, Some(number.to_le_bytes().to_vec()))
    }

    /// A plain number that is there, changed.
    pub(super) fn moved(&self, parsed: Parsed, by: i64) -> Change {
        let now = match self.has(&parsed) {
            true => u64::from_le_bytes(self.get(&parsed).try_into().unwrap()),
            false => 0,
        };
        self.number(parsed, now.wrapping_add_signed(by))
    }

    /// A record of these fields, under a right seal.
    pub(super) fn sealed(&self, parsed: Parsed, body: &[u8]) -> Change {
        let key = self.key(&parsed);
        let seal = (hash64(hash64(0, &key), body) as u32).to_le_bytes();
        (parsed, Some([body, &seal].concat()))
    }

    pub(super) fn job(&self, job: u64, is: &Job) -> Change {
        let parsed = Parsed::Job { job };
        let record = is.encode(&self.key(&parsed));
        (parsed, Some(record))
    }

    pub(super) fn map(&self, blob: u64, chunk: u64, entry: &MapEntry) -> Change {
        let parsed = Parsed::Map { blob, chunk };
        let record = entry.encode(&self.key(&parsed));
        (parsed, Some(record))
    }

    /// A session's record and its heartbeat.
    pub(super) fn session(&self, session: u64) -> [Change; 2] {
        let parsed = Parsed::Session { session };
        let record = SessionRecord {
            host: "north".into(),
            pid: 1,
            version: "1".into(),
            started: Time::default(),
        };
        let record = record.encode(&self.key(&parsed));
        [(parsed, Some(record)), self.number(Parsed::Heartbeat { session }, 3)]
    }

    pub(super) fn lock(&self, ino: Ino, session: u64) -> Change {
        let parsed = Parsed::Lock { ino, session, owner: 1, flock: false };
        let lock = fs::Lock { kind: LockKind::Write, start: 0, end: 5, pid: 1 };
        let record = encode_locks(&self.key(&parsed), &[lock]);
        (parsed, Some(record))
    }

    /// The blocks of the large file, without parity.
    pub(super) fn block(&self, chunk: u64, block: u16) -> Parsed {
        Parsed::Block(BlockPlace { slot: 0, blob: self.large, chunk, block, generation: 0 })
    }

    pub(super) fn parity(&self, chunk: u64, group: u16) -> Parsed {
        self.block(chunk, PARITY_BLOCK | group)
    }

    /// Writes changes.
    pub(super) async fn spoil(&self, changes: Vec<Change>) {
        let mut txn = self.volume.world().store.begin().await.unwrap();
        for (at, value) in changes {
            match value {
                Some(value) => txn.put(&self.key(&at), value).unwrap(),
                None => txn.delete(&self.key(&at)).unwrap(),
            }
        }
        txn.commit(kv::Durability::Process).await.unwrap();
    }

    /// Writes changes and tells what a check finds then, with what it says of it.
    pub(super) async fn check(&self, changes: Vec<Change>) -> Vec<Finding> {
        self.spoil(changes).await;
        self.look().await
    }

    pub(super) async fn check_raw(
        &self,
        changes: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
    ) -> Vec<Finding> {
        let mut txn = self.volume.world().store.begin().await.unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => txn.put(&key, value).unwrap(),
                None => txn.delete(&key).unwrap(),
            }
        }
        txn.commit(kv::Durability::Process).await.unwrap();
        self.look().await
    }

    async fn look(&self) -> Vec<Finding> {
        let before = dump(&self.volume).await;
        let report = Check::new(&self.volume).run(&NoProgress).await.unwrap();
        assert!(report.complete);
        assert_eq!(report.findings_total, report.findings.len() as u64);
        assert_eq!(report.is_clean(), report.findings.is_empty());
        assert_eq!(report.keys, before.len() as u64, "every key is looked at once");
        assert_eq!(dump(&self.volume).await, before, "a check changes nothing");
        report.findings
    }
}
