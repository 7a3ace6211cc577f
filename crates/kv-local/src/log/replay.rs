//! Reading the logs back, oldest first, and deciding where they end.
//!
//! Commits have consecutive versions. The logs end at the first place that does not hold the next
//! one. What stands behind it was written but never promised, unless a record there says that the
//! missing version had been synced: then a promise is broken, and that is corruption.

use super::record::{self, ALIGN, At, Header};
use crate::error::{corrupt, io_error};
use base::{Disk, File};
use kv::{ErrorKind, Result, Version};
use std::sync::Arc;

/// A log file that is there.
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
}

/// Where the logs end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The newest version that is there.
    pub(crate) version: Version,
}

/// Opens the logs from number `first` on, in order.
pub(crate) fn find(disk: &dyn Disk, first: u64) -> Result<Vec<Found>> {
    let mut logs = Vec::new();
    let names = disk.list().map_err(|error| io_error("cannot list the store", error))?;
    for name in names {
        if let Some(number) = super::number_of(&name)
            && number >= first
        {
            let file =
                disk.open(&name).map_err(|error| io_error(format!("cannot open {name}"), error))?;
            logs.push(Found { number, name, file });
        }
    }
    logs.sort_by_key(|log| log.number);
    Ok(logs)
}

/// Writes the logs once more, as they are. A sync that failed in an earlier process may have forgotten some of
/// it: it can be read, as it is in memory, and another sync says yes without having written it.
pub(crate) fn write_again(logs: &[Found]) -> Result<()> {
    for log in logs {
        let bytes = read_whole(log)?;
        // Behind the end is room that was taken ahead.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let written = log.file.write_at(&bytes[..used], 0);
        match written.map_err(|error| io_error(format!("cannot write {} again", log.name), error)) {
            // Where even that takes room, a store on a full disk is opened all the same.
            Err(error) if error.kind() == ErrorKind::Full => {}
            done => done?,
        }
    }
    Ok(())
}

/// Hands every commit after version `folded` to `apply`, cuts what was torn, and removes logs that
/// lie wholly behind the end. With `notes`, damage is the end too, and is noted there.
pub(crate) fn replay(
    disk: &dyn Disk,
    logs: &[Found],
    folded: Version,
    apply: &mut dyn FnMut(Version, &[u8]) -> Option<()>,
    mut notes: Option<&mut Vec<String>>,
) -> Result<End> {
    let mut next: Option<Version> = None;
    let mut ended: Option<(usize, u64)> = None;
    let mut claims = Claims::default();
    for (index, log) in logs.iter().enumerate() {
        let bytes = match (read_whole(log), &mut notes) {
            (Err(error), Some(notes)) => {
                notes.push(format!("{error}: it counts as empty"));
                Vec::new()
            }
            (read, _) => read?,
        };
        let mut offset = 0;
        while ended.is_none() {
            match record::read(&bytes[offset..], log.number) {
                At::Record { header, payload, len } if follows(next, folded, header) => {
                    claims.note(header);
                    if header.version > folded && apply(header.version, &payload.plain()).is_none()
                    {
                        let damage =
                            format!("{} at byte {offset}: a commit that cannot be read", log.name);
                        note(&mut notes, damage)?;
                        ended = Some((index, offset as u64));
                        break;
                    }
                    next = Some(header.version + 1);
                    offset += len;
                    // The rest of the file may be cut off right behind the payload.
                    offset = offset.min(bytes.len());
                }
                At::Flipped => {
                    note(&mut notes, format!("{} at byte {offset}: a bit is flipped", log.name))?;
                    ended = Some((index, offset as u64));
                }
                At::Record { .. } | At::Nothing => {
                    // The end of one log is where the next begins, or the end of all.
                    if continues(logs, index, next, folded)? {
                        break;
                    }
                    ended = Some((index, offset as u64));
                }
            }
        }
        scan(&bytes[offset..], log.number, &mut claims);
    }
    let version = next.map_or(folded, |next| next - 1).max(folded);
    if claims.synced > version {
        let place = ended.map_or(String::new(), |(index, offset)| {
            format!(": {} is damaged at byte {offset}", logs[index].name)
        });
        let synced = claims.synced;
        let damage = format!("the log ends at version {version}, but version {synced} was synced");
        note(&mut notes, damage + &place)?;
    }
    if let Some(notes) = &mut notes
        && claims.newest > version
    {
        let newest = claims.newest;
        notes.push(format!(
            "the log has commits up to version {newest}, but what leads from {version} to them is \
             lost: they are left out"
        ));
    }
    if let Some((index, offset)) = ended {
        cut(disk, logs, index, offset)?;
    }
    Ok(End { version })
}

/// Damage is an error, unless what is left is wanted.
fn note(notes: &mut Option<&mut Vec<String>>, damage: String) -> Result<()> {
    match notes {
        Some(notes) => {
            notes.push(format!("{damage}: what was written from there on is left out"));
            Ok(())
        }
        None => Err(corrupt(damage)),
    }
}

fn follows(next: Option<Version>, folded: Version, header: Header) -> bool {
    match next {
        Some(next) => header.version == next,
        // The oldest log may begin before what is folded, never behind it.
        None => header.version <= folded + 1,
    }
}

/// Whether a later log begins with the next version. Logs between that hold nothing were started by
/// an opening that wrote nothing, or lost what was torn.
fn continues(logs: &[Found], index: usize, next: Option<Version>, folded: Version) -> Result<bool> {
    for log in &logs[index + 1..] {
        let Ok(bytes) = read_whole(log) else { continue };
        match record::read(&bytes, log.number) {
            At::Record { header, .. } => return Ok(follows(next, folded, header)),
            // It will be met, and named, as the start of that log.
            At::Flipped => return Ok(true),
            At::Nothing => {}
        }
    }
    Ok(false)
}

fn read_whole(log: &Found) -> Result<Vec<u8>> {
    let failed = |error| io_error(format!("cannot read {}", log.name), error);
    let len = log.file.len().map_err(failed)?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    log.file.read_at(&mut bytes, 0).map_err(failed)?;
    Ok(bytes)
}

/// What records say had been synced.
#[derive(Debug, Default)]
struct Claims {
    synced: Version,
    /// The newest version of which there is a whole record.
    newest: Version,
}

impl Claims {
    fn note(&mut self, header: Header) {
        self.synced = self.synced.max(header.synced);
        self.newest = self.newest.max(header.version);
    }
}

/// Looks for whole records anywhere in `bytes`.
fn scan(bytes: &[u8], log: u64, claims: &mut Claims) {
    for offset in (0..bytes.len()).step_by(ALIGN) {
        if record::begins(&bytes[offset..])
            && let At::Record { header, .. } = record::read(&bytes[offset..], log)
        {
            claims.note(header);
        }
    }
}

/// Forgets, for good, what stands behind the end, before new commits take the same versions.
fn cut(disk: &dyn Disk, logs: &[Found], index: usize, offset: u64) -> Result<()> {
    let log = &logs[index];
    let failed = |error| io_error(format!("cannot cut {} to {offset} bytes", log.name), error);
    if log.file.len().map_err(failed)? != offset {
        log.file.truncate(offset).map_err(failed)?;
        log.file.sync().map_err(failed)?;
    }
    for log in logs[index + 1..].iter().rev() {
        let failed = |error| io_error(format!("cannot remove {}", log.name), error);
        disk.remove(&log.name).map_err(failed)?;
    }
    if logs.len() > index + 1 {
        disk.sync_dir().map_err(|error| io_error("cannot sync the store's directory", error))?;
    }
    Ok(())
}
