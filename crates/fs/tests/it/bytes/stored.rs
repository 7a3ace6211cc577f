//! How bytes are stored: inline or in blocks, trimmed, compressed, and read no more than needed.

use super::watched::Watched;
use super::*;
use base::{Random, SeededRandom, block_on};
use fs::blob::block::OVERHEAD_BYTES;
use std::sync::Arc;

/// Which keys hold data: inline records, map entries, blocks.
async fn data_keys(volume: &Volume) -> (usize, usize, usize) {
    let mut counts = (0, 0, 0);
    for (parsed, _) in dump(volume).await {
        match parsed {
            Parsed::Inline { .. } => counts.0 += 1,
            Parsed::Map { .. } => counts.1 += 1,
            Parsed::Block(_) => counts.2 += 1,
            _ => {}
        }
    }
    counts
}

#[test]
fn a_file_is_inline_up_to_the_bound_and_mapped_behind_it() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let whole = pattern(1, INLINE as usize + 1);
        let (inline, last) = whole.split_at(INLINE as usize);

        let (ino, handle) = new_file(&session, b"written").await;
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((0, 0, 0), 0));
        write_all(&session, handle, 0, inline).await;
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((1, 0, 0), 1));
        write_all(&session, handle, INLINE, last).await;
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((0, 1, 1), 1));
        assert_eq!(contents(&session, ino).await, whole);
        // Once mapped it stays so, until nothing is left.
        cut(&session, ino, 1).await.unwrap();
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((0, 1, 1), 1));
        assert_eq!(contents(&session, ino).await, &whole[..1]);
        cut(&session, ino, 0).await.unwrap();
        settle(&session).await;
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((0, 0, 0), 0));
        write_all(&session, handle, 0, &whole[..1]).await;
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((1, 0, 0), 1));
        session.unlink(&root(), ROOT, b"written").await.unwrap();
        session.release(handle).await.unwrap();

        // By its size alone, and by space.
        let (ino, handle) = new_file(&session, b"sized").await;
        write_all(&session, handle, 0, &whole[..9]).await;
        cut(&session, ino, INLINE).await.unwrap();
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((1, 0, 0), 1));
        cut(&session, ino, INLINE + 1).await.unwrap();
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((0, 1, 1), 1));
        let mut expected = whole[..9].to_vec();
        expected.resize(INLINE as usize + 1, 0);
        assert_eq!(contents(&session, ino).await, expected);
        session.unlink(&root(), ROOT, b"sized").await.unwrap();
        session.release(handle).await.unwrap();
        settle(&session).await;

        let (ino, handle) = new_file(&session, b"allocated").await;
        write_all(&session, handle, 0, &whole[..9]).await;
        let what = Fallocate::Allocate { keep_size: true };
        session.fallocate(&root(), handle, what, 0, INLINE).await.unwrap();
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((1, 0, 0), 1));
        session.fallocate(&root(), handle, what, INLINE, 1).await.unwrap();
        assert_eq!((data_keys(&volume).await, taken(&session, ino).await), ((0, 1, 1), 1));
        assert_eq!(contents(&session, ino).await, &whole[..9]);
        check_counters(&session, &[ino], 1).await;
    });
}

#[test]
fn zeros_at_the_end_are_not_stored_and_blocks_of_zeros_not_at_all() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let (ino, handle) = new_file(&session, b"mapped").await;
        let mut bytes = vec![0; 4 * BLOCK as usize];
        bytes[0] = 1;
        bytes[BLOCK as usize + 99] = 1;
        bytes[3 * BLOCK as usize + 4095] = 1;
        write_all(&session, handle, 0, &bytes).await;
        let stored = stored_blocks(&volume).await;
        let lens: Vec<_> = stored.iter().map(|(at, value)| (at.block, value.len())).collect();
        let over = OVERHEAD_BYTES;
        assert_eq!(lens, [(0, 1 + over), (1, 100 + over), (3, 4096 + over)]);
        // Zeros that were written take their space.
        assert_eq!(taken(&session, ino).await, 4);
        assert_eq!(contents(&session, ino).await, bytes);
        // Overwriting with zeros takes stored bytes away, in whole and in part.
        write_all(&session, handle, 3 * BLOCK, &[0; BLOCK as usize]).await;
        write_all(&session, handle, BLOCK + 90, &[0; 50]).await;
        write_all(&session, handle, 0, &[0; 2]).await;
        assert_eq!(stored_blocks(&volume).await, []);
        assert_eq!(taken(&session, ino).await, 4);
        assert_eq!(contents(&session, ino).await, vec![0; bytes.len()]);

        let (ino, handle) = new_file(&session, b"inline").await;
        write_all(&session, handle, 0, &[0; 500]).await;
        assert_eq!((data_keys(&volume).await.0, taken(&session, ino).await), (0, 0));
        write_all(&session, handle, 100, &[5]).await;
        let blob = Parsed::Inline { blob: ino };
        assert_eq!(peek(&volume, &blob).await.unwrap().len(), 101 + OVERHEAD_BYTES);
        assert_eq!(taken(&session, ino).await, 1);
        let mut expected = vec![0; 500];
        expected[100] = 5;
        assert_eq!(contents(&session, ino).await, expected);
        write_all(&session, handle, 100, &[0]).await;
        assert_eq!((data_keys(&volume).await.0, taken(&session, ino).await), (0, 0));
        assert_eq!(contents(&session, ino).await, vec![0; 500]);
    });
}

#[test]
fn blocks_are_compressed_only_when_that_saves() {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        println!("{codec:?}, seed 5");
        block_on(async {
            let bench = Bench::mem();
            let volume = bench.volume_with(&FormatOptions { codec, ..small() }).await;
            let session = private_session(&volume).await;
            let random = SeededRandom::new(5);
            let mut bytes = b"all of these lines are the same\n".repeat(128);
            bytes.extend((0..BLOCK).map(|_| random.next_u64() as u8 | 1));
            let (ino, handle) = new_file(&session, b"mapped").await;
            write_all(&session, handle, 0, &bytes).await;
            let (_, inline) = new_file(&session, b"inline").await;
            write_all(&session, inline, 0, &bytes[..INLINE as usize]).await;
            assert_eq!(contents(&session, ino).await, bytes);

            let stored = stored_blocks(&volume).await;
            let [(_, text), (_, noise)] = &stored[..] else { panic!("{stored:?}") };
            let small = dump(&volume).await;
            let small = small.iter().find(|(at, _)| matches!(at, Parsed::Inline { .. })).unwrap();
            assert_eq!((noise[1], noise.len()), (0, BLOCK as usize + OVERHEAD_BYTES));
            assert_eq!((text[1], small.1[1]), (codec.to_byte(), codec.to_byte()));
            assert_eq!(text.len() < BLOCK as usize / 8, codec != Codec::None);
            assert_eq!(small.1.len() < INLINE as usize / 4, codec != Codec::None);
            // What a file takes is counted before compression: it can always be overwritten.
            assert_eq!(taken(&session, ino).await, 2);
        });
    }
}

#[test]
fn a_write_reads_only_the_blocks_that_it_cuts() {
    block_on(async {
        let bench = Bench::mem();
        bench.volume_with(&small()).await;
        let watched = Watched::new(Arc::clone(bench.world.store.engine()), false);
        let world = bench.through(Arc::new(watched.clone()));
        let volume = Volume::open(&world, "test").await.unwrap();
        let session = private_session(&volume).await;
        let (ino, handle) = new_file(&session, b"file").await;
        let mut expected = pattern(1, 8 * BLOCK as usize);
        write_all(&session, handle, 0, &expected).await;
        assert_eq!(watched.gets(b'c'), 0);
        let end = 8 * BLOCK;
        let cases = [
            ("within a block", 3 * BLOCK + 7, 5, 1),
            ("a whole block", 3 * BLOCK, BLOCK, 0),
            ("whole blocks", BLOCK, 3 * BLOCK, 0),
            ("from within to within", BLOCK + 2000, 3 * BLOCK, 2),
            ("from a border to within", BLOCK, BLOCK + 1, 1),
            ("from within to a border", BLOCK + 1, 2 * BLOCK - 1, 1),
            ("from a border to the end", end - BLOCK, BLOCK, 0),
            ("behind the end, from a border", end, 10, 0),
            ("at the end, within a block", end + 10, 10, 1),
            ("over the end from a border", end, 100, 0),
            ("in a hole", end + 5 * BLOCK + 9, 10, 0),
        ];
        for (index, (what, at, len, reads)) in cases.into_iter().enumerate() {
            let bytes = pattern(index as u8 + 2, len as usize);
            write_all(&session, handle, at, &bytes).await;
            assert_eq!(watched.gets(b'c'), reads, "{what}");
            let until = (at + len) as usize;
            expected.resize(expected.len().max(until), 0);
            expected[at as usize..until].copy_from_slice(&bytes);
        }
        assert_eq!(contents(&session, ino).await, expected);
        watched.gets(b'c');
        session.read(handle, 2 * BLOCK + 5, BLOCK as usize).await.unwrap();
        assert_eq!(watched.gets(b'c'), 2);
        // A hole, and what takes space without bytes, cost no read.
        session.read(handle, end + 2 * BLOCK, BLOCK as usize).await.unwrap();
        assert_eq!(watched.gets(b'c'), 0);
    });
}
