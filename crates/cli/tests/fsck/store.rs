//! A store with some files, made and damaged without the program.

use base::{OsRandom, SystemClock, SystemDisk, block_on};
use fs::schema::{BlockPlace, Parsed};
use fs::{Caller, FormatOptions, OpenFlags, ROOT, Session, SessionOptions, Volume, World};
use std::path::Path;
use std::sync::Arc;

fn with<T>(dir: &Path, work: impl AsyncFnOnce(&World) -> T) -> T {
    let random = Arc::new(OsRandom::new());
    let disk = Arc::new(SystemDisk::open(dir).unwrap());
    let options = kv_local::Options::default();
    let engine = kv_local::Local::open(disk, None, &*random, options).unwrap();
    let clock = Arc::new(SystemClock::new());
    let store = kv::Store::new(Arc::new(engine.clone()), clock.clone(), random.clone());
    let done = block_on(work(&World { store, clock, random, home: None }));
    engine.close().unwrap();
    done
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8 | 1
    };
    (0..len).map(|_| next()).collect()
}

/// A volume with a small file and a large one.
pub(super) fn fill(dir: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(dir).unwrap();
    with(dir, async |world| {
        let options = FormatOptions { block_bytes: Some(4096), ..FormatOptions::default() };
        let volume = Volume::format(world, "default", &options).await.unwrap();
        let session = Session::start(&volume, SessionOptions::default()).await.unwrap();
        for (name, len) in [(&b"small"[..], 50), (b"large", 300_000)] {
            let flags = OpenFlags::READ_WRITE;
            let made = session.create(&Caller::root(), ROOT, name, 0o644, flags).await;
            let (_, handle) = made.unwrap();
            let bytes = noise(len);
            let mut done = 0;
            while done < bytes.len() {
                let at = done as u64;
                done += session.write(&Caller::root(), handle, at, &bytes[done..]).await.unwrap();
            }
            session.release(handle).await.unwrap();
        }
        while !session.maintain().await.unwrap().is_quiet() {}
        session.stop().await.unwrap();
    });
}

/// What is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// The small file has no name any more.
    NameGone,
    /// A block of the large one is another.
    Block,
}

pub(super) fn spoil(dir: &Path, damages: &[Damage]) {
    with(dir, async |world| {
        let volume = Volume::open(world, "default").await.unwrap();
        let session = Session::start(&volume, SessionOptions::default()).await.unwrap();
        let large = session.lookup(&Caller::root(), ROOT, b"large").await.unwrap().ino;
        session.stop().await.unwrap();
        let keys = volume.keys();
        let mut txn = world.store.begin().await.unwrap();
        for damage in damages {
            match damage {
                Damage::NameGone => {
                    let name = b"small".to_vec();
                    txn.delete(&keys.unparse(&Parsed::Entry { parent: ROOT, name })).unwrap();
                }
                Damage::Block => {
                    let mut block = None;
                    let mut next = Some(kv::Query::new(keys.all()));
                    while let Some(query) = next {
                        let page = txn.range(&query, kv::Read::Snapshot).await.unwrap();
                        for (key, _) in page.iter() {
                            if let Some(Parsed::Block(place @ BlockPlace { blob, .. })) =
                                keys.parse(key)
                                && blob == large
                            {
                                block = Some(place);
                            }
                        }
                        next = if page.more { query.behind(&page) } else { None };
                    }
                    let key = keys.unparse(&Parsed::Block(block.unwrap()));
                    txn.put(&key, &b"rubbish"[..]).unwrap();
                }
            }
        }
        txn.commit(kv::Durability::Synced).await.unwrap();
    });
}

/// The names in a directory of the root.
pub(super) fn names(dir: &Path, name: &[u8]) -> Vec<String> {
    with(dir, async |world| {
        let volume = Volume::open(world, "default").await.unwrap();
        let session = Session::start(&volume, SessionOptions::default()).await.unwrap();
        let ino = session.lookup(&Caller::root(), ROOT, name).await.unwrap().ino;
        let handle = session.opendir(&Caller::root(), ino).await.unwrap();
        let entries = session.readdir(handle, 0, usize::MAX).await.unwrap();
        session.releasedir(handle).await.unwrap();
        let names = entries.into_iter().skip(2);
        let names = names.map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect();
        session.stop().await.unwrap();
        names
    })
}
