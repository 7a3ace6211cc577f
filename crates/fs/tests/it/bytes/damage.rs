//! Stored bytes that are not what was written: noticed always, repaired where there is parity.

use super::*;
use crate::audit::audit;
use base::{Random, SeededRandom, block_on};

/// Blocks in a group, and a file whose last group is short.
const GROUP: u8 = 4;
const BLOCKS: u64 = 10;

fn with_parity() -> FormatOptions {
    FormatOptions { parity_group: GROUP, codec: Codec::Lz4, ..small() }
}

fn noise(random: &SeededRandom, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8 | 1).collect()
}

struct Victim {
    volume: Volume,
    session: Session,
    ino: Ino,
    handle: Handle,
    bytes: Vec<u8>,
}

/// A file of ten blocks, of different lengths when they are stored.
async fn victim(options: &FormatOptions) -> Victim {
    let bench = Bench::mem();
    let volume = bench.volume_with(options).await;
    let session = private_session(&volume).await;
    let (ino, handle) = new_file(&session, b"victim").await;
    let random = SeededRandom::new(3);
    let mut bytes = Vec::new();
    for block in 0..BLOCKS {
        let mut piece = noise(&random, (BLOCK - block * 100) as usize);
        piece.resize(BLOCK as usize, 0);
        bytes.extend(piece);
    }
    write_all(&session, handle, 0, &bytes).await;
    Victim { volume, session, ino, handle, bytes }
}

impl Victim {
    fn place(&self, block: u64) -> Parsed {
        let block = block as u16;
        Parsed::Block(BlockPlace { slot: 0, blob: self.ino, chunk: 0, block, generation: 0 })
    }

    fn parity(&self, group: u16) -> Parsed {
        self.place(u64::from(PARITY_BLOCK | group))
    }

    async fn damage(&self, at: &Parsed, how: Option<usize>) {
        let value = peek(&self.volume, at).await.unwrap();
        poke(&self.volume, at, how.map(|index| flipped(&value, index))).await;
    }

    async fn read(&self, block: u64) -> Result<Bytes> {
        self.session.read(self.handle, block * BLOCK, BLOCK as usize).await
    }

    fn expected(&self, block: u64) -> &[u8] {
        &self.bytes[(block * BLOCK) as usize..((block + 1) * BLOCK) as usize]
    }

    async fn check(&self, block: u64) {
        assert!(self.read(block).await.unwrap() == self.expected(block), "block {block}");
    }

    async fn check_corrupt(&self, block: u64) {
        let error = self.read(block).await.unwrap_err();
        assert_eq!((error.kind(), error.errno()), (Kind::Corrupt, 5), "block {block}");
    }

    fn repaired(&self) -> u64 {
        self.session.counts().repaired_blocks
    }
}

#[test]
fn without_parity_damage_is_noticed_and_the_rest_is_fine() {
    block_on(async {
        let victim = victim(&small()).await;
        let len = peek(&victim.volume, &victim.place(2)).await.unwrap().len();
        let good = peek(&victim.volume, &victim.place(2)).await;
        for how in [None, Some(0), Some(1), Some(2), Some(6), Some(14), Some(len - 1)] {
            victim.damage(&victim.place(2), how).await;
            victim.check_corrupt(2).await;
            let all = victim.session.read(victim.handle, 0, victim.bytes.len()).await;
            assert_eq!(all.unwrap_err().kind(), Kind::Corrupt);
            for block in (0..BLOCKS).filter(|block| *block != 2) {
                victim.check(block).await;
            }
            // A part of it cannot be changed: nobody knows the rest.
            let part = victim.session.write(&root(), victim.handle, 2 * BLOCK + 5, b"new").await;
            assert_eq!(part.unwrap_err().kind(), Kind::Corrupt);
            poke(&victim.volume, &victim.place(2), good.clone()).await;
            victim.check(2).await;
        }
        assert_eq!(victim.repaired(), 0);
        // All of it can be written anew.
        victim.damage(&victim.place(2), Some(20)).await;
        write_all(&victim.session, victim.handle, 2 * BLOCK, victim.expected(2)).await;
        victim.check(2).await;
    });
}

#[test]
fn parity_repairs_any_one_block_of_a_group() {
    block_on(async {
        let victim = victim(&with_parity()).await;
        assert_eq!(stored_parity(&victim.volume).await.len(), 3);
        let mut repaired = 0;
        for block in 0..BLOCKS {
            let good = peek(&victim.volume, &victim.place(block)).await.unwrap();
            for how in [None, Some(0), Some(9), Some(good.len() - 1)] {
                victim.damage(&victim.place(block), how).await;
                victim.check(block).await;
                repaired += 1;
                assert_eq!(victim.repaired(), repaired, "block {block}, {how:?}");
                // It was written again: parity is not needed any more.
                assert_eq!(peek(&victim.volume, &victim.place(block)).await.as_ref(), Some(&good));
                let parity = victim.parity(block as u16 / u16::from(GROUP));
                let record = peek(&victim.volume, &parity).await;
                poke(&victim.volume, &parity, None).await;
                victim.check(block).await;
                poke(&victim.volume, &parity, record).await;
                assert_eq!(victim.repaired(), repaired);
            }
        }
        // One of each group at once.
        for block in [1, 6, 9] {
            victim.damage(&victim.place(block), Some(30)).await;
        }
        let all = victim.session.read(victim.handle, 0, victim.bytes.len()).await.unwrap();
        assert!(all == victim.bytes);
        assert_eq!(victim.repaired(), repaired + 3);
        audit(&victim.volume, true).await;
    });
}

#[test]
fn changing_a_part_of_a_damaged_block_repairs_it_first() {
    block_on(async {
        let mut victim = victim(&with_parity()).await;
        for block in [0, 5, 9] {
            victim.damage(&victim.place(block), Some(30)).await;
            write_all(&victim.session, victim.handle, block * BLOCK + 7, b"changed").await;
            let at = (block * BLOCK + 7) as usize;
            victim.bytes[at..at + 7].copy_from_slice(b"changed");
            victim.check(block).await;
        }
        // And parity fits what is there now.
        for block in 0..BLOCKS {
            victim.damage(&victim.place(block), None).await;
            victim.check(block).await;
        }
        assert_eq!(victim.repaired(), BLOCKS);
    });
}

#[test]
fn a_write_that_ends_in_a_damaged_block_repairs_it_although_it_changes_its_group() {
    block_on(async {
        for first in [0, 2] {
            let mut victim = victim(&with_parity()).await;
            let damaged = first + 1;
            victim.damage(&victim.place(damaged), Some(30)).await;
            // All of one block and a part of the next, in one transaction.
            let new = pattern(5, BLOCK as usize + 1000);
            write_all(&victim.session, victim.handle, first * BLOCK, &new).await;
            let at = (first * BLOCK) as usize;
            victim.bytes[at..at + new.len()].copy_from_slice(&new);
            for block in 0..BLOCKS {
                victim.check(block).await;
            }
            assert_eq!(victim.repaired(), 0);
            for block in 0..BLOCKS {
                victim.damage(&victim.place(block), None).await;
                victim.check(block).await;
            }
        }
    });
}

#[test]
fn two_damaged_blocks_of_a_group_are_too_many() {
    block_on(async {
        let victim = victim(&with_parity()).await;
        for block in [1, 3] {
            victim.damage(&victim.place(block), Some(30)).await;
        }
        for block in 0..BLOCKS {
            match block {
                1 | 3 => victim.check_corrupt(block).await,
                _ => victim.check(block).await,
            }
        }
        assert_eq!(victim.repaired(), 0);
        // One more in another group is repaired all the same.
        victim.damage(&victim.place(4), None).await;
        victim.check(4).await;
        assert_eq!(victim.repaired(), 1);
        // Writing one of the two anew is possible; the other stays damaged, and says so.
        write_all(&victim.session, victim.handle, BLOCK, victim.expected(1)).await;
        victim.check(1).await;
        victim.check_corrupt(3).await;
        write_all(&victim.session, victim.handle, 3 * BLOCK, victim.expected(3)).await;
        for block in 0..BLOCKS {
            victim.check(block).await;
        }
        for block in 0..BLOCKS {
            victim.damage(&victim.place(block), None).await;
            victim.check(block).await;
        }
    });
}

#[test]
fn a_file_with_damaged_blocks_can_be_cut_punched_and_removed() {
    block_on(async {
        for parity in [false, true] {
            let options = if parity { with_parity() } else { small() };
            let victim = victim(&options).await;
            for block in [1, 3, 8, 9] {
                victim.damage(&victim.place(block), Some(30)).await;
            }
            let (session, handle) = (&victim.session, victim.handle);
            let punch = Fallocate::PunchHole;
            session.fallocate(&root(), handle, punch, BLOCK, BLOCK).await.unwrap();
            assert_eq!(victim.read(1).await.unwrap(), vec![0; BLOCK as usize]);
            cut(session, victim.ino, 9 * BLOCK).await.unwrap();
            victim.check_corrupt(3).await;
            victim.check_corrupt(8).await;
            for block in [0, 2, 4, 5, 6, 7] {
                victim.check(block).await;
            }
            session.unlink(&root(), ROOT, b"victim").await.unwrap();
            session.release(handle).await.unwrap();
            check_counters(session, &[], 1).await;
            assert_eq!(stored_blocks(&victim.volume).await, []);
            assert_eq!(stored_parity(&victim.volume).await, []);
        }
    });
}

#[test]
fn damaged_parity_costs_nothing_but_itself_and_the_next_write_makes_it_again() {
    block_on(async {
        for how in [None, Some(0), Some(8), Some(20), Some(200)] {
            // What the next write does: changes a block, adds one to the group, takes one away.
            for change in 0..3u8 {
                println!("{how:?}, change {change}");
                let mut victim = victim(&with_parity()).await;
                let (session, handle) = (victim.session.clone(), victim.handle);
                victim.damage(&victim.parity(2), how).await;
                for block in 0..BLOCKS {
                    victim.check(block).await;
                }
                // A block of this group is lost without it.
                let good = peek(&victim.volume, &victim.place(8)).await;
                victim.damage(&victim.place(8), None).await;
                victim.check_corrupt(8).await;
                poke(&victim.volume, &victim.place(8), good).await;
                let mut blocks = BLOCKS;
                match change {
                    0 => {
                        let new = pattern(9, BLOCK as usize);
                        write_all(&session, handle, 9 * BLOCK, &new).await;
                        victim.bytes[9 * BLOCK as usize..].copy_from_slice(&new);
                    }
                    1 => {
                        let new = pattern(9, BLOCK as usize);
                        write_all(&session, handle, 10 * BLOCK, &new).await;
                        victim.bytes.extend(new);
                        blocks += 1;
                    }
                    _ => {
                        let punch = Fallocate::PunchHole;
                        session.fallocate(&root(), handle, punch, 9 * BLOCK, BLOCK).await.unwrap();
                        victim.bytes[9 * BLOCK as usize..].fill(0);
                        blocks -= 1;
                    }
                }
                for block in 0..blocks {
                    victim.damage(&victim.place(block), None).await;
                    victim.check(block).await;
                }
                assert_eq!(victim.repaired(), blocks);
            }
        }
    });
}

#[test]
fn blocks_that_changed_places_are_damaged() {
    block_on(async {
        for parity in [false, true] {
            let options = if parity { with_parity() } else { small() };
            for (a, b) in [(0, 1), (2, 7)] {
                let victim = victim(&options).await;
                let (first, second) = (victim.place(a), victim.place(b));
                let one = peek(&victim.volume, &first).await;
                let two = peek(&victim.volume, &second).await;
                poke(&victim.volume, &first, two).await;
                poke(&victim.volume, &second, one).await;
                // Two of one group are too many.
                let repairs = parity && a / u64::from(GROUP) != b / u64::from(GROUP);
                for block in [a, b] {
                    if repairs {
                        victim.check(block).await;
                    } else {
                        victim.check_corrupt(block).await;
                    }
                }
                assert_eq!(victim.repaired(), if repairs { 2 } else { 0 });
            }
        }
    });
}

#[test]
fn an_old_block_in_the_place_of_a_new_one_is_damage_where_parity_tells() {
    block_on(async {
        let mut victim = victim(&with_parity()).await;
        let old = peek(&victim.volume, &victim.place(1)).await;
        write_all(&victim.session, victim.handle, BLOCK, &pattern(5, BLOCK as usize)).await;
        poke(&victim.volume, &victim.place(1), old).await;
        // By itself it looks right; but it is no help in rebuilding another.
        victim.damage(&victim.place(2), None).await;
        victim.check_corrupt(2).await;
        victim.check(1).await;
        victim.bytes[BLOCK as usize..2 * BLOCK as usize]
            .copy_from_slice(&pattern(5, BLOCK as usize));
        write_all(&victim.session, victim.handle, BLOCK, victim.expected(1)).await;
        victim.check(1).await;
    });
}

#[test]
fn damaged_records_are_reported_and_other_files_are_fine() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let fine = file(&session, ROOT, b"fine", &pattern(1, 9000)).await;
        let ino = file(&session, ROOT, b"mapped", &pattern(2, 9000)).await;
        let inline = file(&session, ROOT, b"inline", &pattern(2, 900)).await;
        let name = b"user.a".to_vec();
        session.setxattr(&root(), ino, &name, b"value", XattrMode::Any).await.unwrap();
        let corrupt = |result: Result<()>, what: &str| {
            assert_eq!(result.unwrap_err().kind(), Kind::Corrupt, "{what}");
        };
        let read = async |ino| {
            let handle = session.open(&root(), ino, OpenFlags::READ).await?;
            let bytes = session.read(handle, 0, 10_000).await;
            session.release(handle).await.unwrap();
            bytes.map(drop)
        };
        let records = [
            Parsed::Inode { ino },
            Parsed::Entry { parent: ROOT, name: b"mapped".to_vec() },
            Parsed::Map { blob: ino, chunk: 0 },
            Parsed::Inline { blob: inline },
            Parsed::Xattr { ino, name: name.clone() },
        ];
        for at in &records {
            let good = peek(&volume, at).await.unwrap();
            for index in 0..good.len() {
                poke(&volume, at, Some(flipped(&good, index))).await;
                let what = format!("{at:?}, byte {index}");
                match at {
                    Parsed::Inode { .. } => {
                        corrupt(session.getattr(ino).await.map(drop), &what);
                        corrupt(session.lookup(&root(), ROOT, b"mapped").await.map(drop), &what);
                        corrupt(read(ino).await, &what);
                        corrupt(cut(&session, ino, 5).await.map(drop), &what);
                        corrupt(session.unlink(&root(), ROOT, b"mapped").await, &what);
                    }
                    Parsed::Entry { .. } => {
                        corrupt(session.lookup(&root(), ROOT, b"mapped").await.map(drop), &what);
                        corrupt(session.unlink(&root(), ROOT, b"mapped").await, &what);
                        let flags = OpenFlags::READ;
                        let made = session.create(&root(), ROOT, b"mapped", 0o644, flags).await;
                        corrupt(made.map(drop), &what);
                        read(ino).await.unwrap();
                    }
                    Parsed::Map { .. } => {
                        corrupt(read(ino).await, &what);
                        corrupt(cut(&session, ino, 5).await.map(drop), &what);
                        session.getattr(ino).await.unwrap();
                    }
                    Parsed::Inline { .. } => {
                        corrupt(read(inline).await, &what);
                        session.getattr(inline).await.unwrap();
                    }
                    _ => {
                        corrupt(session.getxattr(&root(), ino, &name).await.map(drop), &what);
                        read(ino).await.unwrap();
                    }
                }
                assert_eq!(contents(&session, fine).await, pattern(1, 9000));
                session.lookup(&root(), ROOT, b"fine").await.unwrap();
            }
            // The record of another, and none.
            if let Parsed::Inode { .. } = at {
                let other = peek(&volume, &Parsed::Inode { ino: fine }).await;
                poke(&volume, at, other).await;
                corrupt(session.getattr(ino).await.map(drop), "another's record");
                poke(&volume, at, None).await;
                corrupt(session.lookup(&root(), ROOT, b"mapped").await.map(drop), "no inode");
            }
            poke(&volume, at, Some(good)).await;
        }
        assert_eq!(contents(&session, ino).await, pattern(2, 9000));
        audit(&volume, true).await;
    });
}

#[test]
fn a_job_that_meets_damage_does_not_stop_the_others() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let mut names = Vec::new();
        for index in 0..8 {
            let name = format!("file {index}").into_bytes();
            let ino = file(&session, ROOT, &name, &pattern(1, 9000)).await;
            names.push((name, ino));
        }
        settle(&session).await;
        let at = Parsed::Map { blob: names[4].1, chunk: 0 };
        let good = peek(&volume, &at).await.unwrap();
        poke(&volume, &at, Some(flipped(&good, 3))).await;
        for (name, _) in &names {
            session.unlink(&root(), ROOT, name).await.unwrap();
        }
        for _ in 0..3 {
            let _ = session.maintain().await;
        }
        assert_eq!(session.jobs().await.unwrap().len(), 1);
        assert_eq!(stored_blocks(&volume).await.len(), 3);
        // Once it is right again, the rest goes.
        poke(&volume, &at, Some(good)).await;
        check_counters(&session, &[], 1).await;
        audit(&volume, true).await;
    });
}

#[test]
fn background_work_goes_on_past_damage() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let files: Vec<Ino> = {
            let mut files = Vec::new();
            for name in [&b"a"[..], b"b", b"c", b"d", b"e"] {
                files.push(file(&session, ROOT, name, &pattern(1, 9000)).await);
            }
            files
        };
        settle(&session).await;
        let break_it = async |at: Parsed| {
            let good = peek(&volume, &at).await.unwrap();
            poke(&volume, &at, Some(flipped(&good, 3))).await;
            (at, good)
        };
        // An access time waits for the first, the second has no name any more, the third is a job.
        bench.clock.advance(std::time::Duration::from_secs(100_000));
        contents(&session, files[0]).await;
        contents(&session, files[3]).await;
        let open = session.open(&root(), files[1], OpenFlags::READ).await.unwrap();
        let last = session.open(&root(), files[4], OpenFlags::READ).await.unwrap();
        for name in [&b"b"[..], b"c", b"e"] {
            session.unlink(&root(), ROOT, name).await.unwrap();
        }
        let jobs = dump(&volume).await.into_iter();
        let job = jobs.map(|(at, _)| at).find(|at| matches!(at, Parsed::Job { .. })).unwrap();
        let mut broken = vec![break_it(job).await];
        for ino in [files[0], files[1]] {
            broken.push(break_it(Parsed::Inode { ino }).await);
        }
        let error = session.release(open).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        session.release(last).await.unwrap();
        settle(&session).await;
        assert_eq!(session.jobs().await.unwrap_err().kind(), Kind::Corrupt);
        // All that is not damaged is done.
        let (_, inodes) = session.usage().await.unwrap();
        assert_eq!(inodes, 1 + 3);
        let fine = session.getattr(files[3]).await.unwrap();
        assert!(fine.atime > fine.mtime);
        for (at, good) in broken {
            poke(&volume, &at, Some(good)).await;
        }
        check_counters(&session, &[files[0], files[3]], 1).await;
        audit(&volume, true).await;
    });
}

#[test]
fn a_volume_with_parity_survives_the_loss_of_any_block_after_any_changes() {
    for seed in 0..12 {
        println!("seed {seed}");
        block_on(async {
            let random = SeededRandom::new(seed);
            let tight = seed % 2 == 0;
            let bench = if tight { Bench::sim(seed, kv::sim::bounds_tight) } else { Bench::mem() };
            let parity_group = 1 + random.below(7) as u8;
            let codec = [Codec::None, Codec::Lz4, Codec::Zstd][seed as usize % 3];
            let options = FormatOptions { parity_group, codec, ..small() };
            let volume = bench.volume_with(&options).await;
            let session = private_session(&volume).await;
            let (ino, handle) = new_file(&session, b"file").await;
            let mut bytes: Vec<u8> = Vec::new();
            let extent = 80 * BLOCK;
            for _ in 0..40 {
                let at = random.below(extent);
                let len = 1 + random.below(if random.one_in(4) { extent } else { 2 * BLOCK });
                let range = at as usize..(at + len) as usize;
                match random.below(5) {
                    0..=2 => {
                        let mut new = noise(&random, len as usize);
                        let zeros = random.below(len) as usize;
                        new[zeros..].fill(0);
                        write_all(&session, handle, at, &new).await;
                        bytes.resize(bytes.len().max(range.end), 0);
                        bytes[range].copy_from_slice(&new);
                    }
                    3 => {
                        cut(&session, ino, at).await.unwrap();
                        bytes.resize(at as usize, 0);
                    }
                    _ => {
                        let punch = Fallocate::PunchHole;
                        session.fallocate(&root(), handle, punch, at, len).await.unwrap();
                        let end = bytes.len();
                        bytes[range.start.min(end)..range.end.min(end)].fill(0);
                    }
                }
            }
            settle(&session).await;
            audit(&volume, true).await;
            let blocks = stored_blocks(&volume).await;
            for (index, (place, good)) in blocks.iter().enumerate() {
                let at = Parsed::Block(*place);
                let at_byte = random.below(good.len() as u64) as usize;
                let bad = (!random.one_in(3)).then(|| flipped(good, at_byte));
                poke(&volume, &at, bad).await;
                let start = place.chunk * CHUNK + u64::from(place.block) * BLOCK;
                let end = bytes.len().min((start + BLOCK) as usize);
                let read = session.read(handle, start, BLOCK as usize).await.unwrap();
                assert!(read == bytes[start as usize..end], "block {index}");
                assert_eq!(peek(&volume, &at).await.as_ref(), Some(good));
            }
            assert_eq!(session.counts().repaired_blocks, blocks.len() as u64);
            assert!(contents(&session, ino).await == bytes);
        });
    }
}
