//! Reading a dump into a new volume. Every frame is checked when it comes: against its kind, against the
//! order that frames have, and at the end against all others.

use super::batch::{Batch, Item, form_of};
use super::reading::Reading;
use super::record::{self, VolumeFrame};
use super::stream::{Frame, Incoming, damaged, kind};
use super::structure::Structure;
use super::unfinished::{self, Unfinished};
use super::{DumpCounts, LoadOptions, PAGE_BYTES, Source, WINDOW_BYTES};
use crate::access::{ACCESS_ACL, DEFAULT_ACL};
use crate::acl::Acl;
use crate::error::{Error, Kind, Result};
use crate::progress::Progress;
use crate::schema::{Inode, VolumeRecord};
use crate::session::Session;
use crate::types::{FileType, Ino, ROOT};
use crate::volume::World;
use bytes::Bytes;
use kv::Query;

/// Makes a new volume of a dump. Progress counts bytes of the stream.
///
/// The new volume gets its name in the last transaction. Before, it is called as [`loading_name`] says
/// and cannot be opened. What a load leaves that did not come to its end, the next one of the same name
/// removes; one that is still under way then fails.
///
/// [`loading_name`]: super::loading_name
pub async fn load(
    world: &World,
    name: &str,
    from: &mut (dyn Source + Send),
    progress: &dyn Progress,
) -> Result<DumpCounts> {
    load_with(world, name, from, &LoadOptions::default(), progress).await
}

/// The same, with sizes for the new volume.
pub async fn load_with(
    world: &World,
    name: &str,
    from: &mut (dyn Source + Send),
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<DumpCounts> {
    unfinished::check_free(world, name).await?;
    let mut stream = Incoming::open(from)?;
    let first = stream.next()?;
    let volume = volume_of(&first)?;
    let record = unfinished::record_of(world, &volume, options);
    let unfinished = Unfinished::make(world, name, &record, volume.next_inode).await?;
    let mut load = Load {
        batch: Batch::new(&unfinished.session),
        session: &unfinished.session,
        record: &record,
        next_inode: volume.next_inode,
        last: 0,
        group: None,
        counts: DumpCounts::default(),
        structure: Structure::new(world.random.next_u64()),
        progress,
    };
    let loaded = match load.all(&mut stream).await {
        Ok(()) => Ok(load.counts),
        Err(error) => Err(error),
    };
    let finished = match loaded {
        Ok(counts) => unfinished.finish(&record).await.map(|()| counts),
        Err(error) => Err(error),
    };
    if finished.is_err() {
        // What cannot be removed now is removed by the next load.
        if let Err(error) = unfinished.remove().await {
            tracing::warn!(%error, "what was loaded of a volume is left");
        }
    }
    finished
}

fn volume_of(frame: &Frame) -> Result<VolumeFrame> {
    if frame.kind != kind::VOLUME {
        return Err(damaged(frame.at, "it does not begin with its volume"));
    }
    if VolumeFrame::is_unknown(&frame.payload) {
        return Err(Error::new(
            Kind::Format,
            "the dump uses features that this program does not know: use a newer one",
        ));
    }
    VolumeFrame::decode(&frame.payload).ok_or_else(|| damaged(frame.at, "a volume that cannot be"))
}

/// What is loaded now: an inode and all that belongs to it.
struct Group {
    ino: Ino,
    file_type: FileType,
    size: u64,
    /// The last kind that came: they have an order.
    kind: u8,
    /// The last attribute or entry.
    name: Bytes,
    /// Where the last data or reserved range ended.
    end: u64,
    subdirs: u64,
}

struct Load<'a> {
    session: &'a Session,
    batch: Batch,
    record: &'a VolumeRecord,
    next_inode: u64,
    /// The last inode.
    last: Ino,
    group: Option<Group>,
    counts: DumpCounts,
    structure: Structure,
    progress: &'a dyn Progress,
}

impl Load<'_> {
    async fn all(&mut self, stream: &mut Incoming<'_>) -> Result<()> {
        loop {
            let frame = stream.next()?;
            let (at, bytes) = (frame.at, stream.bytes());
            match frame.kind {
                kind::INODE => self.inode(frame).await?,
                kind::XATTR => self.xattr(frame).await?,
                kind::DATA => self.data(frame, bytes).await?,
                kind::RESERVED => self.reserved(frame, bytes).await?,
                kind::ENTRIES => self.entries(frame).await?,
                kind::END => {
                    self.end(&frame).await?;
                    stream.end()?;
                    self.counts.stream_bytes = bytes;
                    return Ok(());
                }
                kind::VOLUME => return Err(damaged(at, "a second volume")),
                kind::MAY_SKIP.. => tracing::warn!(kind = frame.kind, at, "skipped a frame"),
                unknown => {
                    return Err(Error::new(
                        Kind::Format,
                        format!(
                            "the dump has a frame of kind {unknown} at byte {at}, which this \
                             program does not know: use a newer one"
                        ),
                    ));
                }
            }
            self.go_on(bytes)?;
        }
    }

    fn go_on(&self, bytes: u64) -> Result<()> {
        self.progress.advance(bytes, None);
        match self.progress.goes_on() {
            true => Ok(()),
            false => Err(Error::new(Kind::Interrupted, "the load was stopped")),
        }
    }

    async fn push(&mut self, item: Item) -> Result<()> {
        self.batch.push(self.session, item).await
    }

    async fn inode(&mut self, frame: Frame) -> Result<()> {
        self.close_group().await?;
        let Some((ino, mut inode)) = record::decode_inode(&frame.payload) else {
            return Err(damaged(frame.at, "an inode that cannot be"));
        };
        if ino <= self.last || ino >= self.next_inode || (self.last == 0) != (ino == ROOT) {
            return Err(damaged(frame.at, "an inode out of order"));
        }
        self.last = ino;
        self.counts.inodes += 1;
        inode.form = form_of(self.record, &inode);
        let file_type = inode.file_type();
        self.structure.inode(ino, file_type, inode.nlink, inode.parent);
        let (size, name) = (inode.size, Bytes::new());
        self.group =
            Some(Group { ino, file_type, size, kind: kind::INODE, name, end: 0, subdirs: 0 });
        self.push(Item::Inode { ino, inode }).await
    }

    /// The end of what belongs to an inode.
    async fn close_group(&mut self) -> Result<()> {
        match self.group.take() {
            Some(Group { ino, subdirs, .. }) if subdirs > 0 => {
                self.push(Item::Subdirs { dir: ino, count: subdirs }).await
            }
            _ => Ok(()),
        }
    }

    /// The inode that a frame of this kind belongs to.
    fn group(&mut self, frame: &Frame) -> Result<&mut Group> {
        let group = self.group.as_mut().filter(|group| group.kind <= frame.kind);
        let group = group.ok_or_else(|| damaged(frame.at, "a frame out of order"))?;
        if group.kind != frame.kind {
            (group.kind, group.name, group.end) = (frame.kind, Bytes::new(), 0);
        }
        let fits = match frame.kind {
            kind::DATA | kind::RESERVED => group.file_type == FileType::File,
            kind::ENTRIES => group.file_type == FileType::Directory,
            _ => true,
        };
        if !fits {
            return Err(damaged(frame.at, "a frame that its inode cannot have"));
        }
        Ok(group)
    }

    async fn xattr(&mut self, frame: Frame) -> Result<()> {
        let group = self.group(&frame)?;
        let (ino, file_type) = (group.ino, group.file_type);
        let found = record::decode_xattr(&frame.payload)
            .filter(|(name, value)| *name > &group.name[..] && fits(file_type, name, value));
        let Some((name, value)) = found else {
            return Err(damaged(frame.at, "an extended attribute that cannot be"));
        };
        let (name, value) = (frame.payload.slice_ref(name), frame.payload.slice_ref(value));
        group.name = name.clone();
        let bound = self.session.0.volume.world.store.capabilities().value_bytes_max;
        if value.len() + 64 > bound {
            let (name, len) = (name.escape_ascii(), value.len());
            return Err(Error::new(
                Kind::NoSpace,
                format!(
                    "attribute \"{name}\" of inode {ino} has {len} bytes, and the engine's values \
                     have at most {bound}: use another engine, or remove it and dump again"
                ),
            ));
        }
        self.counts.xattrs += 1;
        self.push(Item::Xattr { ino, name, value }).await
    }

    async fn data(&mut self, frame: Frame, read: u64) -> Result<()> {
        let group = self.group(&frame)?;
        let (ino, size) = (group.ino, group.size);
        let Some((start, head)) = record::decode_offset(&frame.payload) else {
            return Err(damaged(frame.at, "data without a place"));
        };
        let bytes = frame.payload.slice(head..);
        let end = start.saturating_add(bytes.len() as u64);
        let whole = start % PAGE_BYTES == 0 && (end % PAGE_BYTES == 0 || end == size);
        let window = !bytes.is_empty() && start / WINDOW_BYTES == (end - 1) / WINDOW_BYTES;
        if !whole || !window || start < group.end || end > size {
            return Err(damaged(frame.at, "data out of order or outside of its file"));
        }
        group.end = end;
        self.counts.data_bytes += bytes.len() as u64;
        // In pieces that fit a transaction, of whole blocks.
        let most = self.batch.write_bytes_max;
        let mut at = start;
        while at < end {
            let next = end.min((at / most + 1) * most);
            let piece = bytes.slice((at - start) as usize..(next - start) as usize);
            self.push(Item::Write { ino, offset: at, bytes: piece }).await?;
            self.go_on(read)?;
            at = next;
        }
        Ok(())
    }

    async fn reserved(&mut self, frame: Frame, read: u64) -> Result<()> {
        let group = self.group(&frame)?;
        let ino = group.ino;
        let found = record::decode_range(&frame.payload).filter(|(start, end)| {
            let whole = start % PAGE_BYTES == 0 && end % PAGE_BYTES == 0;
            whole && (*start > group.end || group.end == 0)
        });
        let Some((start, end)) = found else {
            return Err(damaged(frame.at, "a reserved range out of order"));
        };
        group.end = end;
        self.counts.reserved_bytes += end - start;
        let chunk_bytes = u64::from(self.record.chunk_bytes);
        let mut at = start;
        while at < end {
            let next = end.min((at / chunk_bytes + 1) * chunk_bytes);
            self.push(Item::Reserve { ino, start: at, end: next }).await?;
            self.go_on(read)?;
            at = next;
        }
        Ok(())
    }

    async fn entries(&mut self, frame: Frame) -> Result<()> {
        let dir = self.group(&frame)?.ino;
        for found in record::entries(&frame.payload) {
            let group = self.group(&frame)?;
            let Some((name, entry)) = found.filter(|(name, _)| *name > group.name) else {
                return Err(damaged(frame.at, "a name that cannot be, or out of order"));
            };
            group.name = name.clone();
            group.subdirs += u64::from(entry.file_type == FileType::Directory);
            self.structure.entry(dir, entry.ino, entry.file_type);
            self.counts.entries += 1;
            self.push(Item::Entry { dir, name, entry }).await?;
        }
        Ok(())
    }

    /// Everything came: does it fit together?
    async fn end(&mut self, frame: &Frame) -> Result<()> {
        self.close_group().await?;
        let DumpCounts { inodes, entries, xattrs, data_bytes, reserved_bytes, .. } = self.counts;
        let counts = [inodes, entries, xattrs, data_bytes, reserved_bytes];
        if self.last == 0 || record::decode_counts(&frame.payload) != Some(counts) {
            return Err(damaged(frame.at, "it does not hold what it says that it holds"));
        }
        if !self.structure.fits() {
            return Err(damaged(frame.at, "its names and inodes do not fit together"));
        }
        self.batch.flush(self.session).await?;
        if self.structure.upward && !self.leads_to_root().await? {
            return Err(damaged(frame.at, "directories that do not lead to the root"));
        }
        Ok(())
    }

    /// Whether every directory leads to the root. In the order of their numbers, each has to lead to
    /// one below itself, which was found good before.
    async fn leads_to_root(&self) -> Result<bool> {
        let mut reading = Reading::begin(self.session).await?;
        let keys = self.session.0.volume.keys;
        let mut next = Some(Query::new(keys.inodes(0, u64::MAX)));
        while let Some(query) = next {
            let page = reading.range(&query).await?;
            for (key, value) in page.iter() {
                let Some((ino, None)) = keys.inode_key(key) else { continue };
                let found = Inode::decode(key, ino, value).filter(Inode::is_dir);
                let Some(inode) = found else { continue };
                let (mut up, mut steps) = (inode.parent, 0);
                while up > ino {
                    let key = keys.inode(up);
                    let found = reading.get(&key).await?;
                    let found = found.and_then(|record| Inode::decode(&key, up, &record));
                    steps += 1;
                    // More steps than inodes go in a circle.
                    let Some(inode) = found.filter(|_| steps <= self.counts.inodes) else {
                        return Ok(false);
                    };
                    up = inode.parent;
                }
                if up == ino && ino != ROOT {
                    return Ok(false);
                }
            }
            next = if page.more { query.behind(&page) } else { None };
        }
        Ok(true)
    }
}

/// Whether an inode of this type can have an attribute.
fn fits(file_type: FileType, name: &[u8], value: &[u8]) -> bool {
    let list = || Acl::parse(value).is_ok_and(|list| list.is_some());
    match name {
        ACCESS_ACL => file_type != FileType::Symlink && list(),
        DEFAULT_ACL => file_type == FileType::Directory && list(),
        _ => true,
    }
}
