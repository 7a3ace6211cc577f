//! Writing a dump: all inodes in the order of their numbers, each with what belongs to it.

use super::reading::{Reading, changed};
use super::record::{self, VolumeFrame};
use super::stream::{Outgoing, kind};
use super::structure::Structure;
use super::{DumpCounts, Sink};
use crate::blob::Geometry;
use crate::error::{Error, Kind, Result, corrupt, stale};
use crate::local::Kept;
use crate::op::xattr;
use crate::progress::Progress;
use crate::schema::{Entry, Inode, Parsed};
use crate::session::Session;
use crate::types::{FileType, Ino};
use base::checksum::hash64;
use kv::Query;

/// A frame of entries is written when it has this many bytes.
const ENTRIES_BYTES: usize = 32 << 10;
/// What an inode counts as for the progress, besides its bytes.
const INODE_BYTES: u64 = 512;

/// A dump under way.
pub(super) struct Dump<'a> {
    pub(super) reading: Reading<'a>,
    /// Files of the local home.
    kept: Option<Kept>,
    pub(super) out: Outgoing<'a>,
    pub(super) counts: DumpCounts,
    pub(super) sizes: Geometry,
    structure: Structure,
    /// A sum over all inodes, by which a change is seen.
    seen: u64,
    progress: &'a dyn Progress,
    done: u64,
    total: u64,
}

/// Writes the whole volume to `out`. Progress counts bytes that the volume takes, about.
///
/// Open files go on as they are; what is without a name is left out. See [the module](super) for what a
/// dump holds when others write meanwhile.
pub async fn dump(
    session: &Session,
    out: &mut (dyn Sink + Send),
    progress: &dyn Progress,
) -> Result<DumpCounts> {
    if session.is_ended() {
        return Err(stale("the session has ended: start another one"));
    }
    let (bytes, inodes) = session.usage().await?;
    let mut kept = Kept::begin(&session.0);
    let mut reading = Reading::begin(session).await?;
    if let Some(kept) = &mut kept {
        kept.look();
    }
    let record = reading.record().await?;
    let next_inode = reading.next_inode().await?;
    let mut dump = Dump {
        reading,
        kept,
        out: Outgoing::new(out),
        counts: DumpCounts::default(),
        sizes: Geometry::of(&record),
        structure: Structure::new(session.0.volume.world.random.next_u64()),
        seen: 0,
        progress,
        done: 0,
        total: bytes.saturating_add(inodes.saturating_mul(INODE_BYTES)),
    };
    dump.out.put(kind::VOLUME, &[&VolumeFrame::of(&record, next_inode).encode()])?;
    dump.inodes(true).await?;
    dump.check().await?;
    let DumpCounts { inodes, entries, xattrs, data_bytes, reserved_bytes, .. } = dump.counts;
    let counts = [inodes, entries, xattrs, data_bytes, reserved_bytes];
    dump.out.put(kind::END, &[&record::encode_counts(&counts)])?;
    dump.out.flush()?;
    dump.progress.advance(dump.total, Some(dump.total));
    Ok(DumpCounts { stream_bytes: dump.out.bytes(), ..dump.counts })
}

impl Dump<'_> {
    /// All inodes that have a name; to the stream, or only to the sum.
    async fn inodes(&mut self, write: bool) -> Result<()> {
        let mut next = Some(Query::new(self.reading.tx().keys.inodes(0, u64::MAX)));
        while let Some(query) = next {
            let page = self.reading.range(&query).await?;
            for (key, value) in page.iter() {
                let keys = self.reading.tx().keys;
                match keys.inode_key(key) {
                    Some((ino, None)) => {
                        if let Some(inode) = self.reading.inode(ino, key, value).await? {
                            self.look(ino, &inode);
                            if write {
                                self.inode(ino, &inode).await?;
                            }
                        }
                    }
                    // What is under an inode is read with it, or is nobody's but a session's.
                    Some((_, Some(_))) => {}
                    None if keys.parse(key).is_some() => {}
                    None => return Err(self.reading.tx().damaged(key, "is no key that is known")),
                }
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(())
    }

    /// Adds an inode to the sum, without what reading it changes.
    fn look(&mut self, ino: Ino, inode: &Inode) {
        let mut inode = inode.clone();
        (inode.atime, inode.accessed_hour) = (inode.btime, 0);
        self.seen = self.seen.wrapping_add(hash64(0, &record::encode_inode(ino, &inode)));
    }

    async fn inode(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        let file_type = inode.file_type();
        let (mut shown, mut backed) = (inode.clone(), None);
        if let Some(kept) = self.kept.as_ref().filter(|_| file_type == FileType::File) {
            backed = kept.file_of(self.reading.tx_mut(), ino, &mut shown).await?;
        }
        let inode = &shown;
        self.out.put(kind::INODE, &[&record::encode_inode(ino, inode)])?;
        self.counts.inodes += 1;
        self.structure.inode(ino, file_type, inode.nlink, inode.parent);
        self.covered(INODE_BYTES)?;
        if inode.xattrs {
            self.xattrs(ino).await?;
        }
        match file_type {
            FileType::Directory => self.entries(ino).await,
            FileType::File => match backed {
                Some(backed) => self.backed(inode.size, &backed).await,
                None => self.file(ino, inode).await,
            },
            _ => Ok(()),
        }
    }

    async fn xattrs(&mut self, ino: Ino) -> Result<()> {
        let mut next = Some(Query::new(self.reading.tx().keys.xattrs(ino)));
        while let Some(query) = next {
            let page = self.reading.range(&query).await?;
            for (key, value) in page.iter() {
                let tx = self.reading.tx();
                let found = (tx.keys.parse(key), xattr::decode(key, value));
                let (Some(Parsed::Xattr { name, .. }), Some(value)) = found else {
                    return Err(tx.damaged(key, "is damaged"));
                };
                self.out.put(kind::XATTR, &[&record::encode_xattr(&name, &value)])?;
                self.counts.xattrs += 1;
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(())
    }

    async fn entries(&mut self, dir: Ino) -> Result<()> {
        let mut list = Vec::new();
        let mut name = Vec::new();
        let mut next = Some(Query::new(self.reading.tx().keys.entries(dir)));
        while let Some(query) = next {
            let page = self.reading.range(&query).await?;
            for (key, value) in page.iter() {
                let tx = self.reading.tx();
                name.clear();
                let named = tx.keys.entry_name(key, &mut name);
                let Some(entry) = Entry::decode(key, value).filter(|_| named) else {
                    return Err(tx.damaged(key, "is damaged"));
                };
                record::push_entry(&mut list, &name, entry);
                self.structure.entry(dir, entry.ino, entry.file_type);
                self.counts.entries += 1;
                if list.len() >= ENTRIES_BYTES {
                    self.out.put(kind::ENTRIES, &[&list])?;
                    list.clear();
                }
            }
            self.go_on()?;
            next = if page.more { query.behind(&page) } else { None };
        }
        if !list.is_empty() {
            self.out.put(kind::ENTRIES, &[&list])?;
        }
        Ok(())
    }

    /// Refuses what is of no one instant, or could not be loaded.
    async fn check(&mut self) -> Result<()> {
        if !self.reading.is_one_snapshot() {
            let before = std::mem::take(&mut self.seen);
            self.inodes(false).await?;
            if self.seen != before {
                return Err(changed());
            }
        }
        if !self.structure.fits() {
            return Err(corrupt("the volume's names and inodes do not fit together: run fsck"));
        }
        Ok(())
    }

    /// Counts for the progress.
    pub(super) fn covered(&mut self, bytes: u64) -> Result<()> {
        self.done = self.done.saturating_add(bytes);
        self.go_on()
    }

    fn go_on(&self) -> Result<()> {
        self.progress.advance(self.done.min(self.total), Some(self.total));
        match self.progress.goes_on() {
            true => Ok(()),
            false => Err(Error::new(Kind::Interrupted, "the dump was stopped")),
        }
    }
}
