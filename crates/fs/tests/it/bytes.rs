//! The bytes of files: how they are stored, what space they take, large writes, damage.

mod ahead;
mod damage;
mod large;
mod space;
mod stored;
mod watched;

use crate::world::*;
use bytes::Bytes;
use fs::blob::block::Codec;
use fs::schema::{BlockPlace, PARITY_BLOCK, Parsed};
use fs::*;
use kv::{Durability, Query, Read};

const BLOCK: u64 = 4096;
const INLINE: u64 = 1024;
const CHUNK: u64 = 1 << 20;

/// Small blocks, so that little data has many.
fn small() -> FormatOptions {
    FormatOptions {
        chunk_bytes: CHUNK as u32,
        block_bytes: Some(BLOCK as u32),
        inline_bytes_max: Some(INLINE as u32),
        codec: Codec::None,
        ..FormatOptions::default()
    }
}

async fn new_file(session: &Session, name: &[u8]) -> (Ino, Handle) {
    let made = session.create(&root(), ROOT, name, 0o644, OpenFlags::READ_WRITE).await;
    let (attr, handle) = made.unwrap();
    (attr.ino, handle)
}

/// What a file takes, in blocks of the volume.
async fn taken(session: &Session, ino: Ino) -> u64 {
    let attr = session.getattr(ino).await.unwrap();
    assert_eq!(attr.blocks * 512 % BLOCK, 0);
    attr.blocks * 512 / BLOCK
}

async fn cut(session: &Session, ino: Ino, size: u64) -> Result<Attr> {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    session.setattr(&root(), ino, &set, None).await
}

/// Every key of the volume and its value.
async fn dump(volume: &Volume) -> Vec<(Parsed, Bytes)> {
    let mut txn = volume.world().store.begin().await.unwrap();
    let mut next = Some(Query::new(volume.keys().all()));
    let mut found = Vec::new();
    while let Some(query) = next {
        let page = txn.range(&query, Read::Snapshot).await.unwrap();
        for (key, value) in page.iter() {
            let parsed = volume.keys().parse(key).expect("a known key");
            found.push((parsed, Bytes::copy_from_slice(value)));
        }
        next = if page.more { query.behind(&page) } else { None };
    }
    found
}

/// The blocks that are stored, without parity.
async fn stored_blocks(volume: &Volume) -> Vec<(BlockPlace, Bytes)> {
    let blocks = dump(volume).await.into_iter().filter_map(|(parsed, value)| match parsed {
        Parsed::Block(place) if place.block & PARITY_BLOCK == 0 => Some((place, value)),
        _ => None,
    });
    blocks.collect()
}

async fn stored_parity(volume: &Volume) -> Vec<(BlockPlace, Bytes)> {
    let blocks = dump(volume).await.into_iter().filter_map(|(parsed, value)| match parsed {
        Parsed::Block(place) if place.block & PARITY_BLOCK != 0 => Some((place, value)),
        _ => None,
    });
    blocks.collect()
}

/// What stands under a key.
async fn peek(volume: &Volume, at: &Parsed) -> Option<Bytes> {
    let mut txn = volume.world().store.begin().await.unwrap();
    txn.get(&volume.keys().unparse(at), Read::Snapshot).await.unwrap()
}

/// Changes what stands under a key, behind everybody's back.
async fn poke(volume: &Volume, at: &Parsed, value: Option<Bytes>) {
    let mut txn = volume.world().store.begin().await.unwrap();
    let key = volume.keys().unparse(at);
    match value {
        Some(value) => txn.put(&key, value).unwrap(),
        None => txn.delete(&key).unwrap(),
    }
    txn.commit(Durability::Process).await.unwrap();
}

/// The same bytes with one bit of the byte at `index` flipped.
fn flipped(bytes: &Bytes, index: usize) -> Bytes {
    let mut bad = bytes.to_vec();
    bad[index] ^= 0x10;
    bad.into()
}

/// Two volumes' worth of the whole check: sums of what files take, and of files, are the counters.
async fn check_counters(session: &Session, files: &[Ino], others: u64) {
    settle(session).await;
    let mut bytes = 0;
    for ino in files {
        bytes += session.getattr(*ino).await.unwrap().blocks * 512;
    }
    assert_eq!(session.usage().await.unwrap(), (bytes, files.len() as u64 + others));
}
