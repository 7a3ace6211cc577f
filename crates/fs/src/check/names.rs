//! Names: entries and the inodes that they name, and the ways from directories up to the root.

use super::finding::{
    CYCLE, DIRECTORY_NAMES, ENTRY_NAME, ENTRY_TYPE, ENTRY_WITHOUT_DIRECTORY, ENTRY_WITHOUT_INODE,
    INODE_WITHOUT_ENTRY, LINK_COUNT, PARENT, SUBDIRECTORIES,
};
use super::scan::Scan;
use super::table::{Row, flag};
use crate::error::Result;
use crate::schema::{Entry, Family, Parsed};
use crate::tx::number;
use crate::types::{FileType, Ino, NAME_BYTES_MAX, ROOT};

/// Looks at every entry, and counts what it names.
pub(super) async fn entries(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Entry);
    // Entries of one directory follow each other.
    let mut dir: Option<(Ino, Option<usize>)> = None;
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let Some(Parsed::Entry { parent, name }) = scan.keys.parse(key) else {
            scan.unknown(key);
            cursor.advance();
            continue;
        };
        scan.report.entries += 1;
        let at = match dir {
            Some((ino, at)) if ino == parent => at,
            _ => scan.table.find(parent),
        };
        dir = Some((parent, at));
        check_name(scan, key, &name);
        check_directory(scan, key, at);
        match Entry::decode(key, value) {
            Some(entry) => check_child(scan, key, parent, at, entry),
            None => scan.damaged(key),
        }
        cursor.advance();
    }
    Ok(())
}

fn check_name(scan: &mut Scan<'_>, key: &[u8], name: &[u8]) {
    let impossible = name.len() > NAME_BYTES_MAX
        || name.iter().any(|byte| matches!(byte, 0 | b'/'))
        || name == b"."
        || name == b"..";
    if impossible {
        scan.found(ENTRY_NAME, key, "is no name that an entry may have");
    }
}

fn check_directory(scan: &mut Scan<'_>, key: &[u8], at: Option<usize>) {
    let wrong = match at.and_then(|at| scan.table.row(at)) {
        None => "the directory is not there",
        Some(row) if row.has(flag::DAMAGED) => return,
        Some(row) if !row.is_dir() => "what it is in is no directory",
        Some(row) if row.has(flag::NAMELESS) => "the directory was removed",
        Some(_) => return,
    };
    scan.found(ENTRY_WITHOUT_DIRECTORY, key, wrong);
}

fn check_child(scan: &mut Scan<'_>, key: &[u8], parent: Ino, dir: Option<usize>, entry: Entry) {
    let Some(at) = scan.table.find(entry.ino) else {
        scan.found(ENTRY_WITHOUT_INODE, key, format!("inode {} is not there", entry.ino));
        return;
    };
    let Some(row) = scan.table.row(at).copied() else { return };
    if row.has(flag::DAMAGED) {
        // All that is known of it is what the entry says.
        if entry.file_type == FileType::Directory {
            count_directory(scan, dir);
        }
        return;
    }
    if row.file_type() != Some(entry.file_type) {
        let (said, is) = (entry.file_type, row.file_type());
        let is = is.map(|is| format!("{is:?}")).unwrap_or_default();
        scan.found(ENTRY_TYPE, key, format!("says {said:?}, and inode {} is {is}", row.ino));
    }
    if !row.is_dir() {
        scan.table.change(at, |row| row.left = row.left.wrapping_sub(1));
        return;
    }
    count_directory(scan, dir);
    if row.ino == ROOT {
        scan.found(DIRECTORY_NAMES, key, "names the root");
    } else if row.has(flag::NAMED) {
        scan.found(DIRECTORY_NAMES, key, format!("is a second name of directory {}", row.ino));
    } else {
        scan.table.change(at, |row| row.flags |= flag::NAMED);
        if row.value != parent {
            let (ino, says) = (row.ino, row.value);
            scan.found(PARENT, key, format!("directory {ino} says that it is in {says}"));
        }
    }
}

/// One of the directories that a directory has was met.
fn count_directory(scan: &mut Scan<'_>, dir: Option<usize>) {
    if let Some(dir) = dir.filter(|dir| scan.table.row(*dir).is_some_and(Row::is_dir)) {
        scan.table.change(dir, |row| row.left = row.left.wrapping_sub(1));
    }
}

/// Compares what inodes say of names with what was counted.
pub(super) async fn links(scan: &mut Scan<'_>) -> Result<()> {
    for at in 0..scan.table.rows.len() {
        let Some(row) = scan.table.row(at).copied().filter(|row| !row.has(flag::DAMAGED)) else {
            continue;
        };
        let key = scan.keys.inode(row.ino);
        if !row.is_dir() {
            if row.left != 0 {
                let says = scan.inode(row.ino).await?.map_or(0, |inode| inode.nlink);
                let names = says.wrapping_sub(row.left);
                let kind = if names == 0 { INODE_WITHOUT_ENTRY } else { LINK_COUNT };
                scan.found(kind, &key, format!("says that it has {says} names, and has {names}"));
            }
            continue;
        }
        match (row.has(flag::NAMED), row.has(flag::NAMELESS)) {
            (false, false) if row.ino != ROOT => {
                scan.found(INODE_WITHOUT_ENTRY, &key, "is a directory in no directory");
            }
            (true, true) => scan.found(LINK_COUNT, &key, "says that it has no name, and has one"),
            _ => {}
        }
        if row.left != 0 && !row.has(flag::NAMELESS) {
            let says = scan.get(&scan.keys.subdirs(row.ino)).await?;
            let says = says.as_deref().map_or(0, number);
            let is = says.wrapping_sub(row.left as i32 as u64);
            let what = format!("says that {says} directories are in it, and {is} are");
            scan.found(SUBDIRECTORIES, &key, what);
        }
    }
    Ok(())
}

/// Follows the parents of every directory. Where they end elsewhere than at the root, that was found
/// before: here only circles are.
pub(super) fn ways_up(scan: &mut Scan<'_>) {
    for start in 0..scan.table.rows.len() {
        let mut at = start;
        let met = loop {
            match scan.table.row(at) {
                Some(row) if row.has(flag::WALKING) => break Some(row.ino),
                Some(row) if row.is_dir() && !row.has(flag::WALKED | flag::NAMELESS) => {
                    let (ino, parent) = (row.ino, row.value);
                    scan.table.change(at, |row| row.flags |= flag::WALKING);
                    if ino == ROOT {
                        break None;
                    }
                    match scan.table.find(parent) {
                        Some(up) => at = up,
                        None => break None,
                    }
                }
                _ => break None,
            }
        };
        let mut at = Some(start);
        while let Some(row) = at.and_then(|at| scan.table.row(at)).copied()
            && row.has(flag::WALKING)
        {
            let here = at.take().unwrap_or(start);
            scan.table.change(here, |row| row.flags = row.flags & !flag::WALKING | flag::WALKED);
            at = scan.table.find(row.value);
        }
        if let Some(ino) = met {
            let key = scan.keys.inode(ino);
            scan.found(CYCLE, &key, "is below itself, and not below the root");
        }
    }
}
