//! Looks at every key of a volume and says what does not fit together.

use bytes::Bytes;
use fs::schema::{
    BackingRecord, BlockPlace, Entry, Form, Inode, Job, MapEntry, PARITY_BLOCK, Parsed,
};
use fs::{FileType, Ino, ROOT, Volume};
use std::collections::{BTreeMap, BTreeSet};

/// Every key and its value.
pub(crate) async fn dump(volume: &Volume) -> BTreeMap<Vec<u8>, Bytes> {
    let mut txn = volume.world().store.begin().await.unwrap();
    let mut next = Some(kv::Query::new(volume.keys().all()));
    let mut found = BTreeMap::new();
    while let Some(query) = next {
        let page = txn.range(&query, kv::Read::Snapshot).await.unwrap();
        found.extend(page.iter().map(|(key, value)| (key.to_vec(), Bytes::copy_from_slice(value))));
        next = if page.more { query.behind(&page) } else { None };
    }
    found
}

#[derive(Debug, Default)]
struct Seen {
    inodes: BTreeMap<Ino, Inode>,
    entries: BTreeMap<(Ino, Vec<u8>), Entry>,
    maps: BTreeMap<(u64, u64), MapEntry>,
    blocks: BTreeSet<BlockPlace>,
    inline: BTreeSet<u64>,
    subdirs: BTreeMap<Ino, u64>,
    taken: BTreeMap<Ino, u64>,
    counters: BTreeMap<u8, u64>,
    jobs: Vec<Job>,
    garbage: BTreeSet<Ino>,
    sessions: BTreeSet<u64>,
    beats: BTreeSet<u64>,
    leases: BTreeSet<(Ino, u64)>,
    locks: BTreeSet<(Ino, u64)>,
    held: BTreeSet<(Ino, u64)>,
    ops: BTreeSet<u64>,
    beside: BTreeSet<Ino>,
    xattrs: BTreeSet<Ino>,
    backings: BTreeMap<u64, BackingRecord>,
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

fn collect(volume: &Volume, found: &BTreeMap<Vec<u8>, Bytes>) -> Seen {
    let mut seen = Seen::default();
    for (key, value) in found {
        match volume.keys().parse(key).expect("a known key") {
            Parsed::Volume | Parsed::Epoch | Parsed::NextInode | Parsed::Scrub | Parsed::Life => {}
            Parsed::Backing { blob } => {
                seen.backings.insert(blob, BackingRecord::decode(key, value).unwrap());
            }
            Parsed::Counter { counter, .. } => {
                let sum = seen.counters.entry(counter).or_default();
                *sum = sum.wrapping_add(number(value));
            }
            Parsed::Inode { ino } => {
                seen.inodes.insert(ino, Inode::decode(key, ino, value).unwrap());
            }
            Parsed::Lock { ino, session, .. } => {
                seen.locks.insert((ino, session));
            }
            Parsed::Lease { ino, session } => {
                seen.leases.insert((ino, session));
            }
            Parsed::Xattr { ino, .. } => {
                seen.xattrs.insert(ino);
            }
            Parsed::Changed { ino } => {
                seen.beside.insert(ino);
            }
            Parsed::Subdirs { ino } => {
                seen.subdirs.insert(ino, number(value));
            }
            Parsed::Blocks { ino } => {
                seen.taken.insert(ino, number(value));
            }
            Parsed::Conflict { .. } => panic!("a key that only carries conflicts was written"),
            Parsed::Entry { parent, name } => {
                seen.entries.insert((parent, name), Entry::decode(key, value).unwrap());
            }
            Parsed::Inline { blob } => {
                seen.inline.insert(blob);
            }
            Parsed::Map { blob, chunk } => {
                seen.maps.insert((blob, chunk), MapEntry::decode(key, value).unwrap());
            }
            Parsed::Block(place) => {
                seen.blocks.insert(place);
            }
            Parsed::Garbage { ino } => {
                seen.garbage.insert(ino);
            }
            Parsed::Session { session } => {
                seen.sessions.insert(session);
            }
            Parsed::Heartbeat { session } => {
                seen.beats.insert(session);
            }
            Parsed::Held { session, ino } => {
                seen.held.insert((ino, session));
            }
            Parsed::Op { session, .. } => {
                seen.ops.insert(session);
            }
            Parsed::Job { .. } => seen.jobs.push(Job::decode(key, value).unwrap()),
        }
    }
    seen
}

/// What must hold whenever no transaction is under way. With `quiet`, also what holds once all
/// background work is done: nothing is left that nothing refers to.
pub(crate) async fn audit(volume: &Volume, quiet: bool) {
    let found = dump(volume).await;
    let seen = collect(volume, &found);
    names(&seen);
    data(&seen, u64::from(volume.record().block_bytes), quiet);
    for ino in seen.beside.iter().chain(seen.subdirs.keys()).chain(seen.taken.keys()) {
        assert!(seen.inodes.contains_key(ino), "something is left beside inode {ino}");
    }
    for ino in &seen.xattrs {
        assert!(seen.inodes.get(ino).is_some_and(|inode| inode.xattrs), "attributes of {ino}");
    }
    assert_eq!(seen.sessions, seen.beats);
    for (blob, record) in &seen.backings {
        let owner = seen.inodes.values().find(|it| it.form == Form::Local && it.blob == *blob);
        let lent = seen.inodes.get(&record.ino).filter(|_| record.ino != 0);
        assert!(record.ino == 0 || lent.is_some(), "file {blob} is lent to nobody");
        assert!(owner.is_none() || owner == lent, "file {blob} has two inodes, or is free");
    }
    if quiet {
        assert_eq!(seen.jobs, []);
        let held: BTreeSet<_> = seen.leases.union(&seen.locks).copied().collect();
        assert!(held.is_subset(&seen.held), "{held:?} is more than {:?}", seen.held);
        for (ino, session) in &seen.held {
            assert!(seen.inodes.contains_key(ino), "{session} holds {ino}, which is gone");
            assert!(seen.sessions.contains(session), "{session}, which is gone, holds {ino}");
        }
        assert!(seen.ops.is_subset(&seen.sessions), "op logs of sessions that are gone");
    }
}

fn names(seen: &Seen) {
    let mut links: BTreeMap<Ino, u32> = BTreeMap::new();
    let mut subdirs: BTreeMap<Ino, u64> = BTreeMap::new();
    for ((parent, name), entry) in &seen.entries {
        let name = name.escape_ascii();
        let child = seen.inodes.get(&entry.ino);
        let child = child.unwrap_or_else(|| panic!("{name} in {parent} names nothing"));
        assert_eq!(child.file_type(), entry.file_type, "{name}");
        let dir = seen.inodes.get(parent).unwrap_or_else(|| panic!("{name} is nowhere"));
        assert!(dir.is_dir() && dir.nlink == 1, "{name} is in what is no directory");
        *links.entry(entry.ino).or_default() += 1;
        if child.is_dir() {
            assert_eq!(child.parent, *parent, "{name}");
            *subdirs.entry(*parent).or_default() += 1;
        }
    }
    links.insert(ROOT, 1);
    for (ino, inode) in &seen.inodes {
        assert_eq!(inode.nlink, links.get(ino).copied().unwrap_or(0), "links of {ino}");
        assert_eq!(inode.nlink == 0, seen.garbage.contains(ino), "garbage record of {ino}");
        if inode.file_type() == FileType::Directory && inode.nlink > 0 {
            let counted = seen.subdirs.get(ino).copied().unwrap_or(0);
            assert_eq!(counted, subdirs.get(ino).copied().unwrap_or(0), "directories in {ino}");
            let mut up = *ino;
            for step in 0.. {
                assert!(step < 1000, "{ino} is its own ancestor");
                if up == ROOT {
                    break;
                }
                up = seen.inodes[&up].parent;
            }
        }
    }
    for ino in &seen.garbage {
        assert!(seen.inodes.contains_key(ino), "garbage record of {ino}, which is gone");
    }
}

fn data(seen: &Seen, block_bytes: u64, quiet: bool) {
    let mut all = 0;
    let mut owners: BTreeMap<u64, Ino> = BTreeMap::new();
    for (&ino, inode) in &seen.inodes {
        if !inode.is_file() {
            continue;
        }
        assert_eq!(owners.insert(inode.blob, ino), None, "two inodes have blob {}", inode.blob);
        let inline = inode.form == Form::Inline && inode.inline_len > 0;
        assert_eq!(inline, seen.inline.contains(&inode.blob), "inline data of {ino}");
        all += u64::from(inode.inline_len.div_ceil(4096)) * 4096 + inode.taken;
        let chunks = seen.maps.range((inode.blob, 0)..=(inode.blob, u64::MAX));
        let taken: u64 = chunks.map(|(_, entry)| allocated(entry) * block_bytes).sum();
        let counted = seen.taken.get(&ino).copied().unwrap_or(0);
        assert_eq!(counted, taken, "bytes that {ino} takes");
        assert!(quiet <= (inode.trim == 0), "{ino} waits for a trim");
    }
    for blob in &seen.inline {
        assert!(owners.contains_key(blob), "inline data of {blob}, which nothing names");
    }
    for ((blob, chunk), entry) in &seen.maps {
        all += allocated(entry) * block_bytes;
        let dropped =
            seen.jobs.iter().any(|job| matches!(job, Job::DropBlob { blob: of, .. } if of == blob));
        assert!(
            owners.contains_key(blob) || dropped,
            "chunk {chunk} of {blob}, which nothing names"
        );
        if let MapEntry::Data(data) = entry {
            for (generation, bits) in &data.layers {
                for block in bits.iter() {
                    let place = BlockPlace {
                        slot: 0,
                        blob: *blob,
                        chunk: *chunk,
                        block: block as u16,
                        generation: *generation,
                    };
                    assert!(seen.blocks.contains(&place), "{place:?} is missing");
                }
            }
        }
    }
    if quiet {
        for place in &seen.blocks {
            let entry = seen.maps.get(&(place.blob, place.chunk));
            let live = entry.is_some_and(|entry| match entry {
                MapEntry::Data(data) => {
                    place.block & PARITY_BLOCK != 0
                        || data.generation_of(u32::from(place.block)) == Some(place.generation)
                }
                MapEntry::Zero => false,
            });
            assert!(live, "{place:?} is left");
        }
    }
    let counter = |byte| seen.counters.get(&byte).copied().unwrap_or(0);
    assert_eq!(counter(b'b'), all, "bytes of the volume");
    assert_eq!(counter(b'i'), seen.inodes.len() as u64, "inodes of the volume");
}

fn allocated(entry: &MapEntry) -> u64 {
    match entry {
        MapEntry::Data(data) => data.allocated.count().into(),
        MapEntry::Zero => 0,
    }
}
