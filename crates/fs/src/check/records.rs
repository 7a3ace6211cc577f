//! The volume's own records, sessions, jobs, what sessions hold, replies, and the counters.

use super::finding::{
    HELD_LEFTOVER, JOB, OPERATION_LEFTOVER, SESSION_HALF, VOLUME_BYTES, VOLUME_INODES,
    VOLUME_RECORD,
};
use super::scan::{Cursor, Scan};
use crate::error::Result;
use crate::schema::codec::unseal;
use crate::schema::{Counter, Family, Job, Parsed, SessionRecord, VolumeRecord};
use kv::{Key, KeyRange};
use std::collections::BTreeSet;

/// The volume's record, epoch, next inode number and counters.
pub(super) async fn volume(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Volume);
    let mut missing = vec![Parsed::Volume, Parsed::Epoch, Parsed::NextInode];
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let parsed = scan.keys.parse(key);
        missing.retain(|wanted| Some(wanted) != parsed.as_ref());
        match parsed {
            Some(Parsed::Volume) => {
                if VolumeRecord::decode(key, value).is_err() {
                    scan.damaged(key);
                }
            }
            Some(Parsed::Epoch) => drop(scan.plain(key, value)),
            Some(Parsed::NextInode) => {
                scan.next_inode = scan.plain(key, value).unwrap_or(u64::MAX);
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    for parsed in missing {
        let key = scan.keys.unparse(&parsed);
        scan.found(VOLUME_RECORD, &key, "is missing");
    }
    let mut cursor = scan.family(Family::Counter);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Counter { counter, .. }) => {
                let number = scan.plain(key, value).unwrap_or(0);
                let [bytes, inodes] = &mut scan.counted;
                let sum = if counter == Counter::Bytes as u8 { bytes } else { inodes };
                *sum = sum.wrapping_add(number);
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    Ok(())
}

/// Who lives: a record and a heartbeat.
pub(super) async fn sessions(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Session);
    let mut beating = BTreeSet::new();
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Session { session }) => {
                if SessionRecord::decode(key, value).is_none() {
                    scan.damaged(key);
                }
                scan.sessions.insert(session);
            }
            Some(Parsed::Heartbeat { session }) => {
                scan.plain(key, value);
                beating.insert(session);
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    let halves: Vec<u64> = scan.sessions.symmetric_difference(&beating).copied().collect();
    for session in halves {
        let (key, what) = match beating.contains(&session) {
            true => (scan.keys.heartbeat(session), "there is no record of the session"),
            false => (scan.keys.session(session), "has no heartbeat"),
        };
        scan.found(SESSION_HALF, &key, what);
    }
    Ok(())
}

/// What jobs are to remove.
pub(super) async fn jobs(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Job);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match (scan.keys.parse(key), Job::decode(key, value)) {
            (Some(Parsed::Job { job: id }), Some(job)) => match job {
                Job::DropBlob { blob, .. } => drop(scan.dropped.insert(blob)),
                Job::Sweep { blob, .. } => scan.sweeps.push((blob, id)),
                Job::Reap { session, .. } => drop(scan.reaped.insert(session)),
                Job::Stage { generation, .. } if generation != id => {
                    scan.found(JOB, key, "stages blocks under another generation than its number");
                }
                Job::Stage { .. } | Job::Trim { .. } => {}
            },
            (Some(Parsed::Job { .. }), None) => scan.damaged(key),
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    scan.sweeps.sort_unstable();
    Ok(())
}

/// The lists of what sessions hold.
pub(super) async fn held(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Held);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Held { session, .. }) => {
                scan.plain(key, value);
                if !scan.is_known(session) {
                    scan.found(HELD_LEFTOVER, key, "the session is gone, and no job reaps it");
                }
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    Ok(())
}

/// Replies. What is in them depends on what was asked, so only their seals are looked at.
pub(super) async fn operations(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Op);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Op { session, .. }) => {
                if unseal(key, value).is_none() {
                    scan.damaged(key);
                }
                if !scan.is_known(session) {
                    scan.found(OPERATION_LEFTOVER, key, "the session is gone, and no job reaps it");
                }
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    Ok(())
}

/// What the volume says of itself, and what was counted.
pub(super) fn counters(scan: &mut Scan<'_>) {
    let [bytes, inodes] = scan.counted;
    scan.report.inodes = scan.table.rows.len() as u64;
    let found = scan.report.inodes;
    if inodes != found {
        let key = scan.keys.counter(0, Counter::Inodes);
        let said = inodes as i64;
        scan.found(VOLUME_INODES, &key, format!("all shards say {said}, and there are {found}"));
    }
    let found = scan.report.bytes;
    if bytes != found && !scan.bytes_unsure {
        let key = scan.keys.counter(0, Counter::Bytes);
        let said = bytes as i64;
        scan.found(VOLUME_BYTES, &key, format!("all shards say {said}, and files take {found}"));
    }
}

/// Keys of families that there are not.
pub(super) async fn strangers(scan: &mut Scan<'_>) -> Result<()> {
    let all = scan.keys.all();
    let mut known: Vec<u8> = Family::ALL
        .iter()
        .filter(|family| **family != Family::VolumeName)
        .map(|family| family.byte())
        .collect();
    known.sort_unstable();
    let mut start = all.start.clone();
    for family in known.into_iter().map(Some).chain([None]) {
        let (end, behind) = match family {
            None => (all.end.clone(), all.end.clone()),
            Some(byte) => {
                let mut prefix = all.start.to_vec();
                prefix.push(byte);
                (Key::new(&prefix), KeyRange::prefix(&prefix).end)
            }
        };
        let mut cursor = Cursor::new(KeyRange { start, end });
        while cursor.fill(scan).await? {
            let Some((key, _)) = cursor.head() else { break };
            scan.unknown(key);
            cursor.advance();
        }
        start = behind;
    }
    Ok(())
}
