//! Who reads the parts of a phase: whoever started the check, and threads beside it. Parts are the same
//! whatever their number, and are put together in order, so the report is the same too.

use super::ground::Ground;
use super::scan::{Found, Scan};
use super::{chunks, inline, inodes, names};
use crate::error::{Error, Kind, Result};
use crate::schema::{BlockPlace, Family, Keys};
use crate::volume::FIRST_INODE;
use base::Spawn;
use base::exec::block_on;
use base::sync::Mutex;
use kv::{Key, KeyRange};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts of the numbers that were given out in sequence, and of those that were drawn at random.
const PARTS_MAX: u64 = 64;
const PARTS_RANDOM: u64 = 16;
/// About how many numbers a part has at least.
const PART_NUMBERS: u64 = 2048;
/// Numbers from here on may have been drawn at random; those below were given out in sequence.
pub(super) const RANDOM_FROM: u64 = 1 << 32;

/// Threads that help, and where they come from.
#[derive(Debug, Clone)]
pub(super) struct Crew {
    pub(super) helpers: usize,
    pub(super) spawn: Arc<dyn Spawn>,
}

/// What is read in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Inodes,
    Entries,
    Inline,
    Chunks,
}

/// A part of the numbers of inodes and blobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    first: Option<u64>,
    end: Option<u64>,
}

impl Part {
    /// The keys of a family in this part, when `at` is the first key of a number.
    fn keys(self, keys: &Keys, family: Family, at: impl Fn(u64) -> Key) -> KeyRange {
        let mut range = keys.family_range(family);
        if let Some(first) = self.first {
            range.start = at(first);
        }
        if let Some(end) = self.end {
            range.end = at(end);
        }
        range
    }

    pub(super) fn inodes(self, keys: &Keys) -> KeyRange {
        self.keys(keys, Family::Inode, |ino| keys.inode(ino))
    }

    pub(super) fn garbage(self, keys: &Keys) -> KeyRange {
        self.keys(keys, Family::Garbage, |ino| keys.garbage(ino))
    }

    pub(super) fn entries(self, keys: &Keys) -> KeyRange {
        self.keys(keys, Family::Entry, |ino| keys.entries(ino).start)
    }

    pub(super) fn inline(self, keys: &Keys) -> KeyRange {
        self.keys(keys, Family::Inline, |blob| keys.inline(blob))
    }

    pub(super) fn map(self, keys: &Keys) -> KeyRange {
        self.keys(keys, Family::Map, |blob| keys.map(blob, 0))
    }

    /// Blocks of slot 0; those of others are in the last part.
    pub(super) fn blocks(self, keys: &Keys) -> KeyRange {
        let place = |blob| BlockPlace { slot: 0, blob, chunk: 0, block: 0, generation: 0 };
        self.keys(keys, Family::Block, |blob| keys.block(place(blob)))
    }
}

/// The parts of a volume, in order; they are a matter of the volume alone.
fn parts(ground: &Ground) -> Vec<Part> {
    let next = match ground.next_inode {
        u64::MAX => RANDOM_FROM,
        next => next.clamp(FIRST_INODE, RANDOM_FROM),
    };
    let count = (next / PART_NUMBERS).clamp(1, PARTS_MAX);
    let mut cuts: Vec<u64> = (1..count).map(|part| next / count * part).collect();
    cuts.push(RANDOM_FROM);
    cuts.extend((1..PARTS_RANDOM).map(|part| u64::MAX / PARTS_RANDOM * part));
    let firsts = std::iter::once(None).chain(cuts.iter().copied().map(Some));
    let ends = cuts.iter().copied().map(Some).chain([None]);
    firsts.zip(ends).map(|(first, end)| Part { first, end }).collect()
}

/// Parts that are still to be read, and what was found in the others.
struct Queue {
    phase: Phase,
    parts: Vec<Part>,
    next: AtomicUsize,
    done: Mutex<BTreeMap<usize, (Found, Result<()>)>>,
}

impl Queue {
    fn take(&self) -> Option<(usize, Part)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        Some((at, *self.parts.get(at)?))
    }
}

/// Reads all parts of a phase.
pub(super) async fn read(scan: &mut Scan<'_>, phase: Phase, crew: Option<&Crew>) -> Result<()> {
    let queue = Arc::new(Queue {
        phase,
        parts: parts(&scan.ground),
        next: AtomicUsize::new(0),
        done: Mutex::default(),
    });
    let mut joiners = Vec::new();
    // What is mended is written in order, by one.
    if let Some(crew) = crew.filter(|_| !scan.mends()) {
        for _ in 0..crew.helpers.min(queue.parts.len()) {
            let (queue, ground) = (Arc::clone(&queue), Arc::clone(&scan.ground));
            let body = move || {
                let mut scan = Scan::new(ground, None);
                block_on(work(&mut scan, &queue));
            };
            match crew.spawn.spawn("check", Box::new(body)) {
                Ok(joiner) => joiners.push(joiner),
                // Fewer hands do it too.
                Err(_) => break,
            }
        }
    }
    work(scan, &queue).await;
    // They have no need of this thread, and each is at its last part.
    joiners.into_iter().for_each(base::thread::Joiner::join);
    let done = std::mem::take(&mut *queue.done.lock());
    if done.len() < queue.parts.len() && done.values().all(|(_, ended)| ended.is_ok()) {
        return Err(Error::new(Kind::Io, "a part of the check did not come to its end"));
    }
    if phase == Phase::Inodes {
        scan.found.rows.reserve_exact(done.values().map(|(found, _)| found.rows.len()).sum());
    }
    for (found, ended) in done.into_values() {
        scan.absorb(found);
        ended?;
    }
    Ok(())
}

async fn work(scan: &mut Scan<'_>, queue: &Queue) {
    while let Some((at, part)) = queue.take() {
        let mut here = scan.part();
        let ended = match queue.phase {
            Phase::Inodes => inodes::inodes(&mut here, part).await,
            Phase::Entries => names::entries(&mut here, part).await,
            Phase::Inline => inline::inline(&mut here, part).await,
            Phase::Chunks => chunks::chunks(&mut here, part).await,
        };
        scan.mending = here.mending.take();
        let failed = ended.is_err();
        // Of a damaged store all parts are read that can be; whatever else fails ends all of them.
        if let Err(error) = &ended
            && error.kind() != Kind::Corrupt
        {
            scan.ground.stop();
        }
        queue.done.lock().insert(at, (here.found, ended));
        if failed && scan.ground.goes_on().is_err() {
            return;
        }
    }
}
