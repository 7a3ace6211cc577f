//! Space: holes, allocation, truncation, capacity, and counters that are exact.

use super::*;
use crate::audit::audit;
use base::{Random, SeededRandom, block_on};
use kv::sim::bounds_tight;

const ALLOCATE: Fallocate = Fallocate::Allocate { keep_size: false };
const ALLOCATE_KEEP: Fallocate = Fallocate::Allocate { keep_size: true };
const ZERO: Fallocate = Fallocate::ZeroRange { keep_size: false };
const ZERO_KEEP: Fallocate = Fallocate::ZeroRange { keep_size: true };

/// Where data and holes are, from the beginning: the borders between them.
async fn borders(session: &Session, handle: Handle) -> Vec<(Seek, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    for what in [Seek::Data, Seek::Hole].into_iter().cycle() {
        match session.seek(handle, at, what).await {
            Ok(next) => {
                assert!(next >= at);
                found.push((what, next));
                at = next;
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::NoDevice);
                return found;
            }
        }
    }
    found
}

#[test]
fn space_is_what_it_should_be_after_every_kind_of_change() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let (ino, handle) = new_file(&session, b"file").await;
        let block = pattern(1, BLOCK as usize);
        let fallocate = async |what, first: u64, count: u64| {
            let done = session.fallocate(&root(), handle, what, first * BLOCK, count * BLOCK).await;
            done.unwrap();
        };
        // A hole, a block, holes, a block.
        write_all(&session, handle, BLOCK, &block).await;
        write_all(&session, handle, 5 * BLOCK, &block).await;
        assert_eq!(taken(&session, ino).await, 2);
        let (data, hole) = (Seek::Data, Seek::Hole);
        let expected = [(data, BLOCK), (hole, 2 * BLOCK), (data, 5 * BLOCK), (hole, 6 * BLOCK)];
        assert_eq!(borders(&session, handle).await, expected);
        assert_eq!(session.seek(handle, 0, hole).await.unwrap(), 0);
        assert_eq!(session.seek(handle, BLOCK + 7, data).await.unwrap(), BLOCK + 7);
        assert_eq!(session.seek(handle, 6 * BLOCK - 1, hole).await.unwrap(), 6 * BLOCK);
        // Space without bytes: nothing can be seen of it but that it is taken.
        fallocate(ALLOCATE_KEEP, 2, 8).await;
        assert_eq!(taken(&session, ino).await, 9);
        assert_eq!(session.getattr(ino).await.unwrap().size, 6 * BLOCK);
        assert_eq!(borders(&session, handle).await, expected);
        fallocate(ALLOCATE, 2, 8).await;
        assert_eq!(taken(&session, ino).await, 9);
        assert_eq!(session.getattr(ino).await.unwrap().size, 10 * BLOCK);
        let mut bytes = vec![0; 10 * BLOCK as usize];
        bytes[BLOCK as usize..][..BLOCK as usize].copy_from_slice(&block);
        bytes[5 * BLOCK as usize..][..BLOCK as usize].copy_from_slice(&block);
        assert_eq!(contents(&session, ino).await, bytes);
        // A punched part of a block keeps the block; whole ones go.
        let half = BLOCK / 2;
        session.fallocate(&root(), handle, Fallocate::PunchHole, half, 2 * BLOCK).await.unwrap();
        assert_eq!(taken(&session, ino).await, 8);
        bytes[half as usize..][..2 * BLOCK as usize].fill(0);
        assert_eq!(contents(&session, ino).await, bytes);
        assert_eq!(borders(&session, handle).await, [(data, 5 * BLOCK), (hole, 6 * BLOCK)]);
        // Zeroing takes the space that a hole did not have.
        session.fallocate(&root(), handle, ZERO_KEEP, half, 5 * BLOCK).await.unwrap();
        assert_eq!(taken(&session, ino).await, 10);
        bytes[half as usize..][..5 * BLOCK as usize].fill(0);
        assert_eq!(contents(&session, ino).await, bytes);
        fallocate(ZERO_KEEP, 9, 3).await;
        assert_eq!(taken(&session, ino).await, 12);
        assert_eq!(session.getattr(ino).await.unwrap().size, 10 * BLOCK);
        fallocate(ZERO, 9, 3).await;
        assert_eq!(session.getattr(ino).await.unwrap().size, 12 * BLOCK);
        bytes.resize(12 * BLOCK as usize, 0);
        assert_eq!(contents(&session, ino).await, bytes);
        // Cutting gives back what lies behind, and zeroes the rest of the last block.
        let told = cut(&session, ino, 5 * BLOCK + half + 9).await.unwrap();
        assert_eq!(told, session.getattr(ino).await.unwrap(), "the answer is as good as asking");
        assert_eq!(taken(&session, ino).await, 6);
        cut(&session, ino, 9 * BLOCK).await.unwrap();
        assert_eq!(taken(&session, ino).await, 6);
        bytes.truncate(5 * BLOCK as usize + half as usize + 9);
        bytes.resize(9 * BLOCK as usize, 0);
        assert_eq!(contents(&session, ino).await, bytes);
        fallocate(Fallocate::PunchHole, 0, 100).await;
        assert_eq!(taken(&session, ino).await, 0);
        assert_eq!(contents(&session, ino).await, vec![0; bytes.len()]);
        assert_eq!(borders(&session, handle).await, []);
        assert_eq!(stored_blocks(&volume).await, []);
        check_counters(&session, &[ino], 1).await;
        audit(&volume, true).await;
    });
}

#[test]
fn an_inline_file_has_holes_and_space_too() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let (ino, handle) = new_file(&session, b"file").await;
        let mut bytes = pattern(3, 600);
        write_all(&session, handle, 0, &bytes).await;
        session.fallocate(&root(), handle, ALLOCATE, 0, 800).await.unwrap();
        bytes.resize(800, 0);
        assert_eq!(contents(&session, ino).await, bytes);
        let expected = [(Seek::Data, 0), (Seek::Hole, 600)];
        assert_eq!(borders(&session, handle).await, expected);
        session.fallocate(&root(), handle, Fallocate::PunchHole, 100, 5000).await.unwrap();
        bytes[100..].fill(0);
        assert_eq!(contents(&session, ino).await, bytes);
        assert_eq!(session.seek(handle, 0, Seek::Hole).await.unwrap(), 100);
        session.fallocate(&root(), handle, ZERO_KEEP, 0, 1000).await.unwrap();
        assert_eq!(contents(&session, ino).await, vec![0; 800]);
        assert_eq!(taken(&session, ino).await, 0);
        session.fallocate(&root(), handle, ZERO, 0, INLINE + 1).await.unwrap();
        assert_eq!(contents(&session, ino).await, vec![0; INLINE as usize + 1]);
        assert_eq!(taken(&session, ino).await, 1);
        check_counters(&session, &[ino], 1).await;
    });
}

#[test]
fn a_sparse_file_reaches_to_the_last_byte_and_no_further() {
    block_on(async {
        let bench = Bench::sim(1, bounds_tight);
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let (ino, handle) = new_file(&session, b"file").await;
        let end = FILE_BYTES_MAX;
        assert_eq!(session.write(&root(), handle, end - 3, b"abcdef").await.unwrap(), 3);
        assert_eq!(session.write(&root(), handle, end, b"x").await.unwrap_err().errno(), 27);
        assert_eq!(session.getattr(ino).await.unwrap().size, end);
        assert_eq!(session.seek(handle, 0, Seek::Data).await.unwrap(), (end - 3) / BLOCK * BLOCK);
        assert_eq!(session.read(handle, end - 3, 10).await.unwrap(), &b"abc"[..]);
        assert_eq!(cut(&session, ino, end + 1).await.unwrap_err().kind(), Kind::FileTooBig);
        // What is appended is cut there too, also when it is large.
        let flags = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
        let appends = session.open(&root(), ino, flags).await.unwrap();
        for large in [10, 1_000_000] {
            cut(&session, ino, end - 7).await.unwrap();
            let written = session.write(&root(), appends, 0, &pattern(1, large)).await.unwrap();
            assert_eq!(written, 7);
            assert_eq!(session.getattr(ino).await.unwrap().size, end);
            let error = session.write(&root(), appends, 0, &pattern(1, large)).await.unwrap_err();
            assert_eq!(error.kind(), Kind::FileTooBig);
        }
        check_counters(&session, &[ino], 1).await;
        audit(&volume, true).await;
    });
}

#[test]
fn a_full_volume_says_so_and_changes_nothing() {
    for parity_group in [0, 4] {
        block_on(async {
            let bench = Bench::sim(1, bounds_tight);
            let capacity = 100 * BLOCK;
            let options = FormatOptions { capacity_bytes: capacity, parity_group, ..small() };
            let volume = bench.volume_with(&options).await;
            let session = private_session(&volume).await;
            let (ino, handle) = new_file(&session, b"file").await;
            let bytes = pattern(1, 60 * BLOCK as usize);
            write_all(&session, handle, 0, &bytes).await;
            let (other, second) = new_file(&session, b"other").await;
            settle(&session).await;
            let before = dump(&volume).await;
            let usage = session.usage().await.unwrap();
            let full = |what: &str, error: Error| {
                assert_eq!((error.kind(), error.errno()), (Kind::NoSpace, 28), "{what}");
            };
            let large = pattern(2, 41 * BLOCK as usize);
            let error = session.write(&root(), handle, 60 * BLOCK, &large).await.unwrap_err();
            full("a large write", error);
            let error = session.fallocate(&root(), handle, ALLOCATE, 60 * BLOCK, 41 * BLOCK).await;
            full("allocating", error.unwrap_err());
            let error = session.fallocate(&root(), handle, ZERO, 60 * BLOCK, 41 * BLOCK).await;
            full("zeroing", error.unwrap_err());
            settle(&session).await;
            let same = |(at, _): &(Parsed, Bytes)| {
                !matches!(at, Parsed::Op { .. } | Parsed::Heartbeat { .. })
            };
            let after = dump(&volume).await;
            assert!(before.iter().filter(|at| same(at)).eq(after.iter().filter(|at| same(at))));
            assert_eq!(session.usage().await.unwrap(), usage);
            // What replaces bytes, and what just fits, still can be written.
            write_all(&session, handle, 0, &large).await;
            settle(&session).await;
            session.fallocate(&root(), handle, ZERO_KEEP, 0, 60 * BLOCK).await.unwrap();
            write_all(&session, handle, 60 * BLOCK, &large[..40 * BLOCK as usize]).await;
            assert_eq!(session.usage().await.unwrap().0, capacity);
            let error = session.write(&root(), second, 0, b"x").await.unwrap_err();
            full("one byte more", error);
            let error = session.write(&root(), handle, 100 * BLOCK, b"x").await.unwrap_err();
            full("one block more", error);
            assert_eq!(session.getattr(other).await.unwrap().size, 0);
            assert_eq!(session.getattr(ino).await.unwrap().size, 100 * BLOCK);
            // And room that was given back can be used.
            let punch = Fallocate::PunchHole;
            session.fallocate(&root(), handle, punch, 5 * BLOCK, BLOCK).await.unwrap();
            write_all(&session, second, 0, b"x").await;
            check_counters(&session, &[ino, other], 1).await;
            audit(&volume, true).await;
        });
    }
}

#[test]
fn copies_are_whole_and_never_onto_themselves() {
    block_on(async {
        let bench = Bench::sim(1, bounds_tight);
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let (from, source) = new_file(&session, b"from").await;
        let (to, target) = new_file(&session, b"to").await;
        let bytes = pattern(1, 500_000);
        write_all(&session, source, 0, &bytes).await;
        write_all(&session, target, 0, &pattern(9, 2000)).await;
        let copy =
            async |a, at, b, to_at, len| session.copy_range(&root(), a, at, b, to_at, len).await;
        assert_eq!(copy(source, 1000, target, 777, 400_000).await.unwrap(), 400_000);
        let mut expected = pattern(9, 777);
        expected.extend_from_slice(&bytes[1000..401_000]);
        assert_eq!(contents(&session, to).await, expected);
        // To the end of the source and not further.
        assert_eq!(copy(source, 499_000, target, 0, 99_999).await.unwrap(), 1000);
        assert_eq!(copy(source, 500_000, target, 0, 10).await.unwrap(), 0);
        expected[..1000].copy_from_slice(&bytes[499_000..]);
        assert_eq!(contents(&session, to).await, expected);
        // Within one file.
        for (at, to_at) in [(0, 50), (50, 0), (0, 0), (99, 0), (0, 99)] {
            let error = copy(source, at, source, to_at, 100).await.unwrap_err();
            assert_eq!((error.kind(), error.errno()), (Kind::Invalid, 22), "{at} {to_at}");
        }
        assert_eq!(contents(&session, from).await, bytes);
        assert_eq!(copy(source, 0, source, 100, 100).await.unwrap(), 100);
        assert_eq!(copy(source, 300_000, source, 200_000, 100_000).await.unwrap(), 100_000);
        let mut moved = bytes.clone();
        moved.copy_within(0..100, 100);
        moved.copy_within(300_000..400_000, 200_000);
        assert_eq!(contents(&session, from).await, moved);
        check_counters(&session, &[from, to], 1).await;
        audit(&volume, true).await;
    });
}

/// A file as it should be.
#[derive(Default)]
struct Twin {
    ino: Ino,
    name: Vec<u8>,
    bytes: Vec<u8>,
}

async fn random_change(session: &Session, random: &SeededRandom, twin: &mut Twin, extent: u64) {
    let handle = session.open(&root(), twin.ino, OpenFlags::READ_WRITE).await.unwrap();
    let at = random.below(extent);
    let len = 1 + if random.one_in(3) { random.below(extent) } else { random.below(3 * BLOCK) };
    let range = at as usize..(at + len) as usize;
    match random.below(7) {
        0..=2 => {
            let bytes = match random.below(4) {
                0 => vec![0; len as usize],
                _ => pattern(random.below(200) as u8, len as usize),
            };
            write_all(session, handle, at, &bytes).await;
            twin.bytes.resize(twin.bytes.len().max(range.end), 0);
            twin.bytes[range].copy_from_slice(&bytes);
        }
        3 => {
            let size = if random.one_in(6) { 0 } else { random.below(extent) };
            cut(session, twin.ino, size).await.unwrap();
            twin.bytes.resize(size as usize, 0);
        }
        4 => {
            session.fallocate(&root(), handle, Fallocate::PunchHole, at, len).await.unwrap();
            let end = twin.bytes.len();
            twin.bytes[range.start.min(end)..range.end.min(end)].fill(0);
        }
        5 => {
            let keep_size = random.one_in(2);
            let zero = random.one_in(2);
            let what = match zero {
                true => Fallocate::ZeroRange { keep_size },
                false => Fallocate::Allocate { keep_size },
            };
            session.fallocate(&root(), handle, what, at, len).await.unwrap();
            if !keep_size {
                twin.bytes.resize(twin.bytes.len().max(range.end), 0);
            }
            if zero {
                let end = twin.bytes.len();
                twin.bytes[range.start.min(end)..range.end.min(end)].fill(0);
            }
        }
        _ => {
            let size = twin.bytes.len() as u64;
            let from = random.below(extent);
            let count = len.min(size.saturating_sub(from));
            if count > 0 && (from + count <= at || at + count <= from) {
                let copied = session.copy_range(&root(), handle, from, handle, at, count).await;
                assert_eq!(copied.unwrap(), count);
                let piece = twin.bytes[from as usize..(from + count) as usize].to_vec();
                let end = (at + count) as usize;
                twin.bytes.resize(twin.bytes.len().max(end), 0);
                twin.bytes[at as usize..end].copy_from_slice(&piece);
            }
        }
    }
    session.release(handle).await.unwrap();
}

#[test]
fn counters_are_exact_after_anything() {
    for seed in 0..40 {
        println!("seed {seed}");
        block_on(async {
            let random = SeededRandom::new(seed);
            let bench = if seed % 2 == 0 { Bench::sim(seed, bounds_tight) } else { Bench::mem() };
            let codec = [Codec::None, Codec::Lz4, Codec::Zstd][seed as usize % 3];
            let parity_group = [0, 3][seed as usize / 2 % 2];
            let options = FormatOptions { codec, parity_group, ..small() };
            let volume = bench.volume_with(&options).await;
            let session = match seed % 3 {
                0 => shared_session(&volume).await,
                _ => private_session(&volume).await,
            };
            let extent = [2 * INLINE, 20 * BLOCK, 3 * CHUNK][seed as usize / 4 % 3];
            let mut twins: Vec<Twin> = Vec::new();
            for step in 0..40 {
                if twins.len() < 3 {
                    let name = format!("file {step}").into_bytes();
                    let ino = file(&session, ROOT, &name, b"").await;
                    twins.push(Twin { ino, name, bytes: Vec::new() });
                }
                let which = random.below(twins.len() as u64) as usize;
                if random.one_in(12) {
                    let gone = twins.swap_remove(which);
                    session.unlink(&root(), ROOT, &gone.name).await.unwrap();
                } else {
                    random_change(&session, &random, &mut twins[which], extent).await;
                }
                if random.one_in(8) {
                    let inodes: Vec<Ino> = twins.iter().map(|twin| twin.ino).collect();
                    check_counters(&session, &inodes, 1).await;
                    audit(&volume, true).await;
                }
            }
            for twin in &twins {
                assert!(contents(&session, twin.ino).await == twin.bytes, "bytes differ");
                session.unlink(&root(), ROOT, &twin.name).await.unwrap();
            }
            check_counters(&session, &[], 1).await;
            audit(&volume, true).await;
        });
    }
}
