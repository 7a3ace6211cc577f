//! Names: entries and the inodes that they name, and the ways from directories up to the root.

use super::crew::Part;
use super::finding::{
    CYCLE, DAMAGED_RECORD, DIRECTORY_NAMES, ENTRY_NAME, ENTRY_TYPE, ENTRY_WITHOUT_DIRECTORY,
    ENTRY_WITHOUT_INODE, INODE_WITHOUT_ENTRY, INODE_WITHOUT_GARBAGE, LINK_COUNT, PARENT,
    SUBDIRECTORIES,
};
use super::scan::{Cursor, Scan};
use super::table::{Row, Table, flag};
use crate::error::Result;
use crate::repair::Fix;
use crate::schema::{Entry, Family, Parsed};
use crate::tx::number;
use crate::types::{FileType, Ino, NAME_BYTES_MAX, ROOT};
use kv::Key;
use std::sync::Arc;

/// The directory whose entries are read.
#[derive(Clone, Copy)]
struct Dir {
    ino: Ino,
    at: Option<usize>,
    /// A repair makes it again: it is missing.
    made: bool,
}

/// Looks at the entries of a part, and counts what they name.
pub(super) async fn entries(scan: &mut Scan<'_>, part: Part) -> Result<()> {
    let mut cursor = Cursor::new(part.entries(&scan.keys));
    // Entries of one directory follow each other, and often name inodes that do.
    let mut dir: Option<Dir> = None;
    let mut hint = 0;
    let ground = Arc::clone(&scan.ground);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let Some((parent, name)) = scan.keys.entry_parts(key) else {
            scan.unknown(key);
            cursor.advance();
            continue;
        };
        scan.found.report.entries += 1;
        let mut here = match dir {
            Some(dir) if dir.ino == parent => dir,
            _ => Dir { ino: parent, at: ground.table.find(parent), made: false },
        };
        let mut kept = true;
        if is_impossible(&name) {
            scan.useless(ENTRY_NAME, key, "is no name that an entry may have");
            kept = false;
        }
        let entry = Entry::decode(key, value);
        let child = entry.and_then(|entry| ground.table.find_near(entry.ino, hint));
        kept &= check_directory(scan, key, &mut here, child.is_some());
        match entry {
            Some(entry) => {
                let kept = kept || !scan.mends();
                check_child(scan, &ground.table, key, here, child, entry, kept);
            }
            None => scan.damaged_and_goes(key),
        }
        hint = child.unwrap_or(hint);
        dir = Some(here);
        cursor.advance();
    }
    Ok(())
}

fn is_impossible(name: &[u8]) -> bool {
    name.len() > NAME_BYTES_MAX
        || name.iter().any(|byte| matches!(byte, 0 | b'/'))
        || name == b"."
        || name == b".."
}

/// Whether the entry can stay where it is.
fn check_directory(scan: &mut Scan<'_>, key: &[u8], dir: &mut Dir, has_child: bool) -> bool {
    let row = dir.at.and_then(|at| scan.ground.table.row(at));
    let wrong = match row {
        None => "the directory is not there",
        Some(row) if row.has(flag::DAMAGED) => {
            scan.ground.table.set(dir.at.unwrap_or_default(), flag::HOLDS);
            return true;
        }
        Some(row) if !row.is_dir() => "what it is in is no directory",
        Some(row) if row.has(flag::NAMELESS) => {
            // It gets a name again, and its entries stay.
            scan.ground.table.set(dir.at.unwrap_or_default(), flag::HOLDS);
            scan.found(ENTRY_WITHOUT_DIRECTORY, key, "the directory was removed");
            return true;
        }
        Some(_) => return true,
    };
    if row.is_some() || !has_child {
        scan.useless(ENTRY_WITHOUT_DIRECTORY, key, wrong);
        return false;
    }
    scan.found(ENTRY_WITHOUT_DIRECTORY, key, wrong);
    if !dir.made {
        let ino = dir.ino;
        scan.mend(ENTRY_WITHOUT_DIRECTORY, |_| Fix::Directory { ino, parent: None });
        dir.made = true;
    }
    true
}

fn check_child(
    scan: &mut Scan<'_>,
    table: &Table,
    key: &[u8],
    dir: Dir,
    child: Option<usize>,
    entry: Entry,
    kept: bool,
) {
    let Some(at) = child else {
        scan.useless(ENTRY_WITHOUT_INODE, key, format!("inode {} is not there", entry.ino));
        return;
    };
    let Some(row) = table.row(at) else { return };
    if row.has(flag::DAMAGED) {
        // All that is known of it is what the entry says.
        let is_dir = entry.file_type == FileType::Directory;
        if is_dir && kept {
            count_directory(scan, dir.at);
        }
        if scan.mends() && kept {
            // A directory is made again under its name. Of others nothing is left that is sure.
            if is_dir && table.set(at, flag::NAMED) & flag::NAMED == 0 {
                table.set_value(at, dir.ino);
            } else {
                scan.mend(DAMAGED_RECORD, |_| Fix::Remove(Key::new(key)));
            }
        }
        return;
    }
    if row.file_type() != Some(entry.file_type) {
        let (said, is) = (entry.file_type, row.file_type());
        let what = is.map(|is| format!("{is:?}")).unwrap_or_default();
        scan.found(ENTRY_TYPE, key, format!("says {said:?}, and inode {} is {what}", row.ino));
        if let Some(file_type) = is.filter(|_| kept) {
            let entry = Entry { ino: row.ino, file_type };
            scan.mend(ENTRY_TYPE, |_| Fix::Entry(Key::new(key), entry));
        }
    }
    if !kept {
        return;
    }
    if !row.is_dir() {
        table.count(at);
        return;
    }
    count_directory(scan, dir.at);
    let first = table.set(at, flag::NAMED) & flag::NAMED == 0;
    if row.ino == ROOT || !first || row.value != dir.ino {
        table.set(at, flag::TROUBLED);
    }
}

/// One of the directories that a directory has was met.
fn count_directory(scan: &Scan<'_>, dir: Option<usize>) {
    let table = &scan.ground.table;
    if let Some(at) = dir.filter(|at| table.row(*at).is_some_and(|row| row.is_dir())) {
        table.count(at);
    }
}

/// Looks again at the names of directories that have several, or one that is not where they say. The
/// right one is the first in the directory that it names as its parent, or else the first.
pub(super) async fn troubled(scan: &mut Scan<'_>) -> Result<()> {
    let ground = Arc::clone(&scan.ground);
    let table = &ground.table;
    let is_troubled = |at: &usize| table.row(*at).is_some_and(|row| row.has(flag::TROUBLED));
    let rows: Vec<usize> = (0..table.len()).filter(is_troubled).collect();
    if rows.is_empty() {
        return Ok(());
    }
    rows.iter().for_each(|at| table.clear(*at, flag::NAMED));
    for deciding in [false, true] {
        let mut cursor = Cursor::again(scan.keys.family_range(Family::Entry));
        while cursor.fill(scan).await? {
            let Some((key, value)) = cursor.head() else { break };
            if let Some(Parsed::Entry { parent, name }) = scan.keys.parse(key)
                && let Some(entry) = Entry::decode(key, value)
                && let Some(at) = table.find(entry.ino).filter(is_troubled)
                && (!scan.mends() || stays(scan, parent, &name))
                && let Some(row) = table.row(at)
            {
                match deciding {
                    true => decide(scan, key, parent, at, row),
                    false if row.value == parent => drop(table.set(at, flag::NAMED)),
                    false => {}
                }
            }
            cursor.advance();
        }
    }
    rows.iter().for_each(|at| table.clear(*at, flag::WALKED));
    Ok(())
}

/// Whether a repair leaves an entry where it is.
fn stays(scan: &Scan<'_>, parent: Ino, name: &[u8]) -> bool {
    let row = scan.ground.table.find(parent).and_then(|at| scan.ground.table.row(at));
    !is_impossible(name) && row.is_none_or(|row| row.has(flag::DAMAGED) || row.is_dir())
}

fn decide(scan: &mut Scan<'_>, key: &[u8], parent: Ino, at: usize, row: Row) {
    let ground = Arc::clone(&scan.ground);
    if row.ino == ROOT {
        scan.useless(DIRECTORY_NAMES, key, "names the root");
    } else if !row.has(flag::NAMED) {
        ground.table.set(at, flag::NAMED | flag::WALKED);
        let (ino, says) = (row.ino, row.value);
        scan.found(PARENT, key, format!("directory {ino} says that it is in {says}"));
        scan.mend(PARENT, |_| Fix::Parent { ino, parent });
        if scan.mends() {
            ground.table.set_value(at, parent);
        }
    } else if row.value == parent && !row.has(flag::WALKED) {
        ground.table.set(at, flag::WALKED);
    } else {
        let what = format!("is a second name of directory {}", row.ino);
        scan.useless(DIRECTORY_NAMES, key, what);
    }
}

/// Compares what inodes say of names with what was counted.
pub(super) async fn links(scan: &mut Scan<'_>) -> Result<()> {
    let ground = Arc::clone(&scan.ground);
    for at in 0..ground.table.len() {
        let Some(row) = ground.table.row(at) else { continue };
        if row.has(flag::DAMAGED) {
            damaged(scan, row);
        } else if row.is_dir() {
            links_of_directory(scan, row).await?;
        } else {
            links_of_file(scan, row).await?;
        }
        scan.write(false).await?;
    }
    Ok(())
}

/// What is left of an inode of which nothing is known but what names it.
fn damaged(scan: &mut Scan<'_>, row: Row) {
    let ino = row.ino;
    let parent = match ino {
        ROOT => Some(ROOT),
        _ => row.has(flag::NAMED).then_some(row.value),
    };
    let directory = parent.is_some() || row.has(flag::HOLDS);
    scan.mend(DAMAGED_RECORD, |_| match directory {
        true => Fix::Directory { ino, parent },
        false => Fix::File { ino, rescue: !row.has(flag::GARBAGE) },
    });
}

async fn links_of_file(scan: &mut Scan<'_>, row: Row) -> Result<()> {
    let ino = row.ino;
    if row.left == 0 {
        if row.has(flag::NAMELESS) && !row.has(flag::GARBAGE) {
            scan.mend(INODE_WITHOUT_GARBAGE, |_| Fix::Garbage(ino));
        }
        return Ok(());
    }
    let key = scan.keys.inode(ino);
    let says = scan.inode(ino).await?.map_or(0, |inode| inode.nlink);
    let names = says.wrapping_sub(row.left);
    let kind = if names == 0 { INODE_WITHOUT_ENTRY } else { LINK_COUNT };
    scan.found(kind, &key, format!("says that it has {says} names, and has {names}"));
    scan.mend(kind, |_| match names {
        0 => Fix::Reconnect(ino),
        names => Fix::Names { ino, names },
    });
    Ok(())
}

async fn links_of_directory(scan: &mut Scan<'_>, row: Row) -> Result<()> {
    let ino = row.ino;
    let key = scan.keys.inode(ino);
    match (row.has(flag::NAMED), row.has(flag::NAMELESS)) {
        (false, false) if ino != ROOT => {
            scan.found(INODE_WITHOUT_ENTRY, &key, "is a directory in no directory");
            scan.mend(INODE_WITHOUT_ENTRY, |_| Fix::Reconnect(ino));
        }
        (true, true) => {
            scan.found(LINK_COUNT, &key, "says that it has no name, and has one");
            scan.mend(LINK_COUNT, |_| Fix::Names { ino, names: 1 });
        }
        (false, true) if row.has(flag::HOLDS) => {
            scan.mend(ENTRY_WITHOUT_DIRECTORY, |_| Fix::Reconnect(ino));
        }
        (false, true) if !row.has(flag::GARBAGE) && ino != ROOT => {
            scan.mend(INODE_WITHOUT_GARBAGE, |_| Fix::Garbage(ino));
        }
        _ => {}
    }
    if row.left != 0 && !row.has(flag::NAMELESS) {
        let says = scan.get(&scan.keys.subdirs(ino)).await?;
        let says = says.as_deref().map_or(0, number);
        let is = says.wrapping_sub(row.left as i32 as u64);
        let what = format!("says that {says} directories are in it, and {is} are");
        scan.found(SUBDIRECTORIES, &key, what);
        scan.mend(SUBDIRECTORIES, |_| Fix::Subdirs(ino));
    }
    Ok(())
}

/// Follows the parents of every directory. Where they end elsewhere than at the root, that was found
/// before: here only circles are.
pub(super) fn ways_up(scan: &mut Scan<'_>) {
    let ground = Arc::clone(&scan.ground);
    let table = &ground.table;
    for start in 0..table.len() {
        let mut at = start;
        let met = loop {
            match table.row(at) {
                Some(row) if row.is_dir() && row.has(flag::WALKING) => break Some(row.ino),
                Some(row) if row.is_dir() && !row.has(flag::WALKED | flag::NAMELESS) => {
                    table.set(at, flag::WALKING);
                    if row.ino == ROOT {
                        break None;
                    }
                    match table.find(row.value) {
                        Some(up) => at = up,
                        None => break None,
                    }
                }
                _ => break None,
            }
        };
        let mut at = Some(start);
        while let Some(row) = at.and_then(|at| table.row(at))
            && row.is_dir()
            && row.has(flag::WALKING)
        {
            let here = at.take().unwrap_or(start);
            table.clear(here, flag::WALKING);
            table.set(here, flag::WALKED);
            at = table.find(row.value);
        }
        if let Some(ino) = met {
            let key = scan.keys.inode(ino);
            scan.found(CYCLE, &key, "is below itself, and not below the root");
            scan.mend(CYCLE, |_| Fix::Detach(ino));
        }
    }
}
