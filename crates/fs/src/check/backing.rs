//! Files of the local home: who has which, and, where the home is there, whether they are what inodes say.

use super::finding::{
    BACKING_NOBODY, BACKING_OWNED, BACKING_TWICE, DAMAGED_RECORD, LOCAL_MISSING, LOCAL_SIZE,
    LOCAL_UNKNOWN,
};
use super::inodes::note_number;
use super::scan::Scan;
use super::table::flag;
use crate::error::Result;
use crate::repair::Fix;
use crate::schema::{BackingRecord, Family, Form, Inode, Parsed};
use crate::types::{FileType, Ino};
use home::{Home, Place};
use kv::{Engine, Key};
use std::sync::Arc;

/// How often a file that seems wrong is looked at again when its inode changes meanwhile.
const LOOKS: usize = 8;

/// The highest number that a backing record or a file of the home has, which must not be given out again.
pub(super) async fn numbers(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Backing);
    while cursor.fill(scan).await? {
        let Some((key, _)) = cursor.head() else { break };
        if let Some(Parsed::Backing { blob }) = scan.keys.parse(key) {
            note_number(scan, blob);
        }
        cursor.advance();
    }
    let last = scan.ground.files.as_ref().ok().and_then(|files| files.last().copied());
    if let Some(last) = last {
        note_number(scan, last);
    }
    Ok(())
}

/// Looks at who has which file, and at files that nobody has.
pub(super) async fn records(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = super::scan::Cursor::again(scan.keys.family_range(Family::Backing));
    let ground = Arc::clone(&scan.ground);
    // Both are in the order of their numbers.
    let mut files = match &ground.files {
        Ok(files) => files.iter().copied().peekable(),
        Err(error) => {
            let what = format!("the files of the local home cannot be listed: {error}");
            scan.found.report.add(LOCAL_UNKNOWN, what);
            [].iter().copied().peekable()
        }
    };
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let Some(Parsed::Backing { blob }) = scan.keys.parse(key) else {
            scan.unknown(key);
            cursor.advance();
            continue;
        };
        while let Some(file) = files.next_if(|file| *file < blob) {
            unnamed(scan, file).await?;
        }
        files.next_if_eq(&blob);
        let owner = owner(scan, blob);
        match BackingRecord::decode(key, value) {
            None => {
                scan.damaged(key);
                mend(scan, DAMAGED_RECORD, key, blob, owner);
            }
            Some(BackingRecord { ino: 0, .. }) => {
                if let Some(ino) = owner {
                    let what = format!("is noted as free, and inode {ino} has it");
                    scan.useless(BACKING_OWNED, key, what);
                }
            }
            Some(record) => lent(scan, key, blob, record.ino, owner),
        }
        cursor.advance();
    }
    for file in files {
        unnamed(scan, file).await?;
    }
    Ok(())
}

/// The inode whose record names a file.
fn owner(scan: &Scan<'_>, blob: u64) -> Option<Ino> {
    let table = &scan.ground.table;
    let row = table.owner(blob).and_then(|at| table.row(at));
    row.filter(|row| row.has(flag::LOCAL)).map(|row| row.ino)
}

/// Looks at a file without a backing record.
async fn unnamed(scan: &mut Scan<'_>, blob: u64) -> Result<()> {
    if owner(scan, blob).is_some() {
        return Ok(());
    }
    let place = Place { volume: scan.keys.volume_number(), blob };
    let opened = scan.volume().world.home.as_ref().map(|home| home.open(place));
    let what = match opened.map(|opened| opened.and_then(|file| file.stat())) {
        Some(Ok(stat)) => format!("is noted nowhere, and its file has {} bytes", stat.len),
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            format!("is noted nowhere, and its file cannot be read: {error}")
        }
        // It was removed since it was listed.
        _ => return Ok(()),
    };
    let key = scan.keys.backing(blob);
    scan.found(LOCAL_UNKNOWN, &key, what);
    scan.mend(LOCAL_UNKNOWN, |_| Fix::Adopt(blob));
    scan.write(false).await
}

fn lent(scan: &mut Scan<'_>, key: &[u8], blob: u64, ino: Ino, owner: Option<Ino>) {
    let ground = Arc::clone(&scan.ground);
    let at = ground.table.find(ino);
    let row = at.and_then(|at| ground.table.row(at));
    let is_file = |file_type| file_type == Some(FileType::File);
    match (at, row) {
        // It goes, or is made again: then its file is found to be nobody's, or somebody's.
        (Some(_), Some(row)) if row.has(flag::DAMAGED) => {}
        (Some(at), Some(row)) if is_file(row.file_type()) => {
            if let Some(other) = owner.filter(|other| *other != ino) {
                let what = format!("is lent to inode {ino}, and inode {other} has it");
                scan.useless(BACKING_OWNED, key, what);
            } else if owner.is_none() && (row.has(flag::LOCAL) || row.has(flag::MAPPED)) {
                let what = format!("is lent to inode {ino}, which has its bytes elsewhere");
                scan.found(BACKING_OWNED, key, what);
                mend(scan, BACKING_OWNED, key, blob, None);
            } else if ground.table.set(at, flag::LENT) & flag::LENT != 0 {
                let what = format!("is lent to inode {ino}, which is lent another one too");
                scan.found(BACKING_TWICE, key, what);
                mend(scan, BACKING_TWICE, key, blob, owner);
            }
        }
        _ => {
            let what = format!("is lent to inode {ino}, which is no file that is there");
            scan.found(BACKING_NOBODY, key, what);
            mend(scan, BACKING_NOBODY, key, blob, owner);
        }
    }
}

/// A record that cannot be: who owns the file keeps it, and else its bytes are saved.
fn mend(scan: &mut Scan<'_>, kind: &'static str, key: &[u8], blob: u64, owner: Option<Ino>) {
    let key = Key::new(key);
    scan.mend(kind, |_| match owner {
        Some(_) => Fix::Remove(key),
        None => Fix::Adopt(blob),
    });
}

/// Looks at the files that inodes have and that are not lent.
pub(super) async fn files(scan: &mut Scan<'_>) -> Result<()> {
    let ground = Arc::clone(&scan.ground);
    let Some(home) = ground.volume.world.home.clone() else {
        return Ok(());
    };
    for at in 0..ground.table.len() {
        let Some(row) = ground.table.row(at).filter(|row| row.has(flag::LOCAL)) else { continue };
        if row.has(flag::LENT) {
            continue;
        }
        scan.go_on()?;
        let Some(inode) = scan.inode(row.ino).await? else { continue };
        if let Some(wrong) = wrong(scan, &*home, row.ino, inode).await? {
            let key = scan.keys.inode(row.ino);
            scan.found(wrong.kind, &key, &wrong.what);
            // Bytes that are gone stay gone: reading them is an error.
            if let Some(size) = wrong.size {
                scan.mend(wrong.kind, |_| Fix::LocalSize { ino: row.ino, size });
            }
        }
        scan.write(false).await?;
    }
    Ok(())
}

struct Wrong {
    kind: &'static str,
    what: String,
    /// The size that the file has.
    size: Option<u64>,
}

/// What is wrong with the file of an inode, as the store says both before and after the look: a volume that is
/// in use may have changed since the snapshot.
async fn wrong(scan: &Scan<'_>, home: &dyn Home, ino: Ino, seen: Inode) -> Result<Option<Wrong>> {
    let volume = scan.keys.volume_number();
    let mut seen = seen;
    for _ in 0..LOOKS {
        let blob = seen.blob;
        let file = home.open(Place { volume, blob });
        let stat = file.and_then(|file| file.stat());
        let wrong = match stat {
            Ok(stat) if stat.len == seen.size => return Ok(None),
            Ok(stat) => Wrong {
                kind: LOCAL_SIZE,
                what: format!(
                    "its file {blob} has {} bytes, and the record says {}",
                    stat.len, seen.size
                ),
                size: Some(stat.len),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Wrong {
                kind: LOCAL_MISSING,
                what: format!("its file {blob} is missing, with {} bytes", seen.size),
                size: None,
            },
            Err(error) => Wrong {
                kind: LOCAL_MISSING,
                what: format!("its file {blob} cannot be read: {error}"),
                size: None,
            },
        };
        let engine = scan.volume().world().store.engine();
        match unlent_now(&**engine, scan, ino, blob).await? {
            None => return Ok(None),
            Some(now) if (now.size, now.blob) == (seen.size, seen.blob) => return Ok(Some(wrong)),
            Some(now) => seen = now,
        }
    }
    Ok(None)
}

/// An inode as it is now, if it has its bytes in a file of its own that is not lent.
async fn unlent_now(
    engine: &dyn Engine,
    scan: &Scan<'_>,
    ino: Ino,
    blob: u64,
) -> Result<Option<Inode>> {
    let snapshot = engine.snapshot().await?;
    let key = scan.keys.inode(ino);
    let inode = snapshot.get(&key).await?.and_then(|record| Inode::decode(&key, ino, &record));
    let lent = snapshot.get(&scan.keys.backing(blob)).await?.is_some();
    Ok(inode.filter(|inode| inode.form == Form::Local && !lent))
}
