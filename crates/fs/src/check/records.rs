//! The volume's own records, sessions, jobs, what sessions hold, replies, and the counters.

use super::finding::DAMAGED_RECORD;
use super::finding::{
    HELD_LEFTOVER, JOB, OPERATION_LEFTOVER, SESSION_HALF, VOLUME_BYTES, VOLUME_INODES,
    VOLUME_RECORD,
};
use super::scan::{Cursor, Scan};
use crate::error::Result;
use crate::repair::Fix;
use crate::schema::codec::unseal;
use crate::schema::{Counter, Family, Job, Parsed, ScrubRecord, SessionRecord, VolumeRecord};
use kv::{Key, KeyRange};
use std::collections::BTreeSet;

/// The volume's record, epoch, next inode number and counters.
pub(super) async fn volume(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Volume);
    let mut missing = vec![Parsed::Volume, Parsed::Epoch, Parsed::NextInode];
    let mut next_inode = None;
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let parsed = scan.keys.parse(key);
        missing.retain(|wanted| Some(wanted) != parsed.as_ref());
        match parsed {
            Some(Parsed::Volume) => {
                if VolumeRecord::decode(key, value).is_err() {
                    scan.damaged(key);
                    scan.mend(DAMAGED_RECORD, |_| Fix::Volume);
                }
            }
            Some(Parsed::Epoch) => {
                if scan.plain(key, value).is_none() {
                    scan.mend(DAMAGED_RECORD, |_| Fix::Epoch);
                }
            }
            // What it should be is known when all inodes are.
            Some(Parsed::NextInode) => next_inode = scan.plain(key, value),
            Some(Parsed::Life) => {
                scan.plain_or_goes(key, value);
            }
            Some(Parsed::Scrub) => {
                if ScrubRecord::decode(key, value).is_none() {
                    scan.damaged_and_goes(key);
                }
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    for parsed in missing {
        let key = scan.keys.unparse(&parsed);
        scan.found(VOLUME_RECORD, &key, "is missing");
        match parsed {
            Parsed::Volume => scan.mend(VOLUME_RECORD, |_| Fix::Volume),
            Parsed::Epoch => scan.mend(VOLUME_RECORD, |_| Fix::Epoch),
            _ => {}
        }
    }
    let mut counted = [0_u64; 2];
    let mut cursor = scan.family(Family::Counter);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Counter { counter, .. }) => {
                let number = scan.plain_or_goes(key, value).unwrap_or(0);
                let [bytes, inodes] = &mut counted;
                let sum = if counter == Counter::Bytes as u8 { bytes } else { inodes };
                *sum = sum.wrapping_add(number);
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    let ground = scan.ground_mut()?;
    (ground.counted, ground.next_inode) = (counted, next_inode.unwrap_or(u64::MAX));
    Ok(())
}

/// Who lives: a record and a heartbeat. A repair has ended all sessions before.
pub(super) async fn sessions(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Session);
    let (mut there, mut beating) = (BTreeSet::new(), BTreeSet::new());
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Session { session }) => {
                if SessionRecord::decode(key, value).is_none() {
                    scan.damaged(key);
                }
                there.insert(session);
            }
            Some(Parsed::Heartbeat { session }) => {
                scan.plain(key, value);
                beating.insert(session);
            }
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    for session in there.symmetric_difference(&beating) {
        let (key, what) = match beating.contains(session) {
            true => (scan.keys.heartbeat(*session), "there is no record of the session"),
            false => (scan.keys.session(*session), "has no heartbeat"),
        };
        scan.found(SESSION_HALF, &key, what);
    }
    scan.ground_mut()?.sessions = there;
    Ok(())
}

/// What jobs are to remove.
pub(super) async fn jobs(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Job);
    let (mut dropped, mut reaped, mut sweeps) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match (scan.keys.parse(key), Job::decode(key, value)) {
            (Some(Parsed::Job { job: id }), Some(job)) => match job {
                Job::DropBlob { blob, .. } => drop(dropped.insert((blob, id))),
                Job::Sweep { blob, .. } => sweeps.push((blob, id)),
                Job::Reap { session, .. } => drop(reaped.insert(session)),
                Job::Stage { generation, .. } if generation != id => {
                    let what = "stages blocks under another generation than its number";
                    scan.useless(JOB, key, what);
                }
                Job::Stage { .. } | Job::Trim { .. } => {}
            },
            // What it was to remove is found by itself.
            (Some(Parsed::Job { .. }), None) => scan.damaged_and_goes(key),
            _ => scan.unknown(key),
        }
        cursor.advance();
    }
    sweeps.sort_unstable();
    let ground = scan.ground_mut()?;
    (ground.dropped, ground.reaped, ground.sweeps) = (dropped, reaped, sweeps);
    Ok(())
}

/// The lists of what sessions hold.
pub(super) async fn held(scan: &mut Scan<'_>) -> Result<()> {
    let mut cursor = scan.family(Family::Held);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        match scan.keys.parse(key) {
            Some(Parsed::Held { session, .. }) => {
                if !scan.ground.is_known(session) {
                    let what = "the session is gone, and no job reaps it";
                    scan.useless(HELD_LEFTOVER, key, what);
                }
                scan.plain_or_goes(key, value);
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
                    scan.damaged_and_goes(key);
                }
                if !scan.ground.is_known(session) {
                    let what = "the session is gone, and no job reaps it";
                    scan.useless(OPERATION_LEFTOVER, key, what);
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
    let [bytes, inodes] = scan.ground.counted;
    scan.found.report.inodes = scan.ground.table.len() as u64;
    // What is mended now may change what there is: the next round counts that.
    let settled = scan.mending.as_ref().is_some_and(|mending| mending.is_idle());
    let found = scan.found.report.inodes;
    if inodes != found {
        let key = scan.keys.counter(0, Counter::Inodes);
        let said = inodes as i64;
        scan.found(VOLUME_INODES, &key, format!("all shards say {said}, and there are {found}"));
        if settled {
            scan.mend(VOLUME_INODES, |_| Fix::Counter(Counter::Inodes, found));
        }
    }
    let found = scan.found.report.bytes;
    if bytes != found && !scan.found.bytes_unsure {
        let key = scan.keys.counter(0, Counter::Bytes);
        let said = bytes as i64;
        scan.found(VOLUME_BYTES, &key, format!("all shards say {said}, and files take {found}"));
        if settled {
            scan.mend(VOLUME_BYTES, |_| Fix::Counter(Counter::Bytes, found));
        }
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
