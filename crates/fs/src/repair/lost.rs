//! What has lost its name or its record: putting it into the directory lost+found.

use super::edit::Edit;
use super::{apply, bytes, inode};
use crate::error::{Error, Kind, Result};
use crate::schema::{BackingRecord, Entry, Form, Inode, MapEntry};
use crate::types::{FileType, Ino, ROOT, mode};
use crate::volume::FIRST_INODE;
use kv::Query;

/// The directory in the root for what has lost its name. It is made when it is needed.
pub const LOST_AND_FOUND: &str = "lost+found";

/// Names that are tried when something else has the first one.
const NAMES_MAX: u32 = 1000;

/// The longest way up that is followed before it counts as a circle.
const STEPS_MAX: usize = 1 << 20;

/// A new directory that only root may use.
fn new_directory(edit: &Edit<'_>, ino: Ino, parent: Ino) -> Inode {
    let bits = if ino == ROOT { 0o755 } else { 0o700 };
    let mut inode = Inode::new(ino, mode::DIRECTORY | bits, 0, 0, edit.volume.world.now());
    inode.parent = parent;
    inode
}

/// Makes a directory again whose record is lost, or the root what it must be.
pub(super) async fn directory(edit: &mut Edit<'_>, ino: Ino, parent: Option<Ino>) -> Result<()> {
    let found = edit.inode(ino).await?;
    let inode = match found {
        Some(mut root) if ino == ROOT && root.is_dir() => {
            (root.parent, root.nlink) = (ROOT, 1);
            root
        }
        // Somebody made it meanwhile.
        Some(_) if ino != ROOT => return Ok(()),
        _ => new_directory(edit, ino, parent.unwrap_or_default()),
    };
    let garbage = edit.keys.garbage(ino);
    edit.delete(&garbage).await?;
    match parent {
        Some(_) => edit.put_inode(ino, &inode).await?,
        None => connect(edit, ino, inode).await?,
    }
    inode::lists(edit, ino).await?;
    apply::subdirs(edit, ino).await
}

/// What is left of the bytes of a file whose record is lost.
enum Left {
    Inline(u32),
    Mapped,
    Nothing,
}

async fn left(edit: &mut Edit<'_>, blob: u64) -> Result<Left> {
    if let Some(bytes) = bytes::inline_bytes(edit, blob).await? {
        return Ok(Left::Inline(bytes.len() as u32));
    }
    let mut next = Some(Query::new(edit.keys.map_from(blob, 0)));
    while let Some(query) = next {
        let page = edit.range(&query).await?;
        let holds = |(key, value): (&[u8], &[u8])| match MapEntry::decode(key, value) {
            Some(MapEntry::Data(data)) => !data.layers.is_empty(),
            Some(MapEntry::Zero) => false,
            // Blocks may tell.
            None => true,
        };
        if page.iter().any(holds) {
            return Ok(Left::Mapped);
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    Ok(Left::Nothing)
}

/// A file of what is left of a blob. Its size is found by its last block.
fn new_file(edit: &Edit<'_>, ino: Ino, left: &Left) -> Option<Inode> {
    let mut inode = Inode::new(ino, mode::FILE | 0o600, 0, 0, edit.volume.world.now());
    match left {
        Left::Inline(len) => (inode.inline_len, inode.size) = (*len, u64::from(*len)),
        Left::Mapped => inode.form = Form::Mapped,
        Left::Nothing => return None,
    }
    Some(inode)
}

/// Deals with a record that is damaged and is not a directory's.
pub(super) async fn file(edit: &mut Edit<'_>, ino: Ino, rescue: bool) -> Result<()> {
    let left = if rescue { left(edit, ino).await? } else { Left::Nothing };
    let garbage = edit.keys.garbage(ino);
    edit.delete(&garbage).await?;
    match new_file(edit, ino, &left) {
        Some(inode) => {
            connect(edit, ino, inode).await?;
            inode::lists(edit, ino).await
        }
        None => {
            let key = edit.keys.inode(ino);
            edit.delete(&key).await
        }
    }
}

/// Makes a file of bytes whose inode is gone; they go where they hold nothing.
pub(super) async fn rescue(edit: &mut Edit<'_>, blob: u64) -> Result<()> {
    let key = edit.keys.inode(blob);
    if edit.get(&key).await?.is_some() {
        return Ok(());
    }
    let left = if blob < FIRST_INODE { Left::Nothing } else { left(edit, blob).await? };
    match new_file(edit, blob, &left) {
        Some(inode) => connect(edit, blob, inode).await,
        None => {
            let (inline, map) = (edit.keys.inline(blob), edit.keys.map_from(blob, 0));
            edit.delete(&inline).await?;
            edit.delete_range(&map).await
        }
    }
}

/// Makes a file of what is in one of the local home that nobody has. Where there is nothing, it is free.
pub(super) async fn adopt(edit: &mut Edit<'_>, blob: u64) -> Result<()> {
    let key = edit.keys.backing(blob);
    let noted = edit.get(&key).await?.is_some();
    // One that is noted nowhere gets its own number, so that it is not adopted twice.
    let own = edit.keys.inode(blob);
    let adopted = edit.inode(blob).await?.is_some_and(|inode| inode.form == Form::Local);
    if !noted && adopted {
        return Ok(());
    }
    let place = home::Place { volume: edit.keys.volume_number(), blob };
    let opened = edit.volume.world.home.as_ref().map(|home| home.open(place));
    let stat = match opened {
        Some(Ok(file)) => file.stat().ok(),
        Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
        // Without the home, or where the host fails, nobody can tell: it stays for another time.
        _ => return Ok(()),
    };
    let Some(stat) = stat.filter(|stat| stat.len > 0) else {
        return edit.put(&key, BackingRecord::default().encode(&key)).await;
    };
    let ino = match !noted && edit.get(&own).await?.is_none() {
        true => blob,
        false => fresh_number(edit, blob).await?,
    };
    let mut inode = Inode::new(ino, mode::FILE | 0o600, 0, 0, edit.volume.world.now());
    (inode.form, inode.blob) = (Form::Local, blob);
    (inode.size, inode.taken) = (stat.len, stat.taken);
    edit.delete(&key).await?;
    connect(edit, ino, inode).await
}

/// Gives a name in lost+found to an inode that has none.
pub(super) async fn reconnect(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let Some(inode) = edit.inode(ino).await? else { return Ok(()) };
    let garbage = edit.keys.garbage(ino);
    edit.delete(&garbage).await?;
    connect(edit, ino, inode).await
}

/// Takes a directory out of a circle.
pub(super) async fn detach(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let Some(inode) = edit.inode(ino).await?.filter(Inode::is_dir) else { return Ok(()) };
    let mut up = inode.parent;
    for _ in 0..STEPS_MAX {
        match edit.inode(up).await? {
            // Another circle, or none any more.
            _ if up == ROOT => return Ok(()),
            None => return Ok(()),
            Some(_) if up == ino => break,
            Some(inode) => up = inode.parent,
        }
    }
    let parent = inode.parent;
    let mut next = Some(Query::new(edit.keys.entries(parent)));
    while let Some(query) = next {
        let page = edit.range(&query).await?;
        for (key, value) in page.iter() {
            if Entry::decode(key, value).is_some_and(|entry| entry.ino == ino) {
                edit.delete(&kv::Key::new(key)).await?;
            }
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    connect(edit, ino, inode).await?;
    apply::subdirs(edit, parent).await
}

/// Writes an inode with its one name, in lost+found.
async fn connect(edit: &mut Edit<'_>, ino: Ino, mut inode: Inode) -> Result<()> {
    let lost = lost_and_found(edit, ino).await?;
    for number in 0..NAMES_MAX {
        let name = match number {
            0 => format!("#{ino}"),
            number => format!("#{ino}.{number}"),
        };
        let key = edit.keys.entry(lost, name.as_bytes());
        if edit.get(&key).await?.is_some() {
            continue;
        }
        inode.nlink = 1;
        if inode.is_dir() {
            inode.parent = lost;
        }
        edit.put_inode(ino, &inode).await?;
        let entry = Entry { ino, file_type: inode.file_type() };
        edit.put(&key, entry.encode(&key)).await?;
        if inode.is_dir() {
            one_more_directory(edit, lost).await?;
        }
        return Ok(());
    }
    Err(no_name())
}

fn no_name() -> Error {
    Error::new(Kind::Exists, "every name for what is lost is taken in lost+found: clear it")
}

async fn one_more_directory(edit: &mut Edit<'_>, ino: Ino) -> Result<()> {
    let key = edit.keys.subdirs(ino);
    let count = edit.number(&key).await?.unwrap_or(0);
    edit.put_count(&key, count.saturating_add(1)).await
}

/// The directory for what is lost, made when there is none; never the one that is to go into it.
async fn lost_and_found(edit: &mut Edit<'_>, without: Ino) -> Result<Ino> {
    for number in 0..NAMES_MAX {
        let name = match number {
            0 => LOST_AND_FOUND.to_owned(),
            number => format!("{LOST_AND_FOUND}.{number}"),
        };
        let key = edit.keys.entry(ROOT, name.as_bytes());
        let Some(record) = edit.get(&key).await? else {
            let ino = fresh_number(edit, without).await?;
            let inode = new_directory(edit, ino, ROOT);
            edit.put_inode(ino, &inode).await?;
            let entry = Entry { ino, file_type: FileType::Directory };
            edit.put(&key, entry.encode(&key)).await?;
            one_more_directory(edit, ROOT).await?;
            return Ok(ino);
        };
        let Some(entry) = Entry::decode(&key, &record).filter(|entry| entry.ino != without) else {
            continue;
        };
        let there = edit.inode(entry.ino).await?;
        if there.is_some_and(|inode| inode.is_dir() && inode.nlink == 1 && inode.parent == ROOT) {
            return Ok(entry.ino);
        }
    }
    Err(no_name())
}

/// A number that nothing has, and no bytes are kept under.
async fn fresh_number(edit: &mut Edit<'_>, without: Ino) -> Result<Ino> {
    let next = edit.keys.next_inode();
    let mut ino = edit.number(&next).await?.unwrap_or(FIRST_INODE).max(FIRST_INODE);
    loop {
        let (inode, inline) = (edit.keys.inode(ino), edit.keys.inline(ino));
        let backing = edit.keys.backing(ino);
        let map = Query::new(edit.keys.map_from(ino, 0)).limit(1);
        let free = ino != without
            && edit.get(&inode).await?.is_none()
            && edit.get(&inline).await?.is_none()
            && edit.get(&backing).await?.is_none()
            && edit.range(&map).await?.is_empty();
        if free {
            break;
        }
        ino += 1;
    }
    edit.put(&next, (ino + 1).to_le_bytes().to_vec()).await?;
    Ok(ino)
}
