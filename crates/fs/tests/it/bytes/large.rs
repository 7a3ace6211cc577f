//! Writes that do not fit one transaction: seen whole or not at all, whatever happens.

use super::watched::Watched;
use super::*;
use crate::audit::audit;
use base::{Scheduler, block_on};
use kv::sim::bounds_tight;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What a reader may see of a file: one of these, all of it.
async fn is_one_of(session: &Session, handle: Handle, ino: Ino, allowed: &[&[u8]]) -> usize {
    let bytes = session.read(handle, 0, 8 << 20).await.unwrap();
    let Some(seen) = allowed.iter().position(|whole| *whole == bytes) else {
        let at = bytes.iter().zip(allowed[0]).position(|(a, b)| a != b);
        panic!("{} bytes that nobody wrote so, other from byte {at:?} on", bytes.len());
    };
    let size = session.getattr(ino).await.unwrap().size;
    assert!(allowed.iter().any(|whole| whole.len() as u64 == size), "size {size}");
    seen
}

/// Polls `writer` step by step; between every two steps a reader of another session looks.
fn stepwise<T>(writer: impl Future<Output = T>, mut look: impl FnMut(usize)) -> (T, usize) {
    let mut writer = pin!(writer);
    for step in 0.. {
        match writer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => return (done, step),
            Poll::Pending => look(step),
        }
    }
    unreachable!("steps do not end")
}

struct Pair {
    bench: Bench,
    writer: Session,
    reader: Session,
    ino: Ino,
    reads: Handle,
}

/// A file with `old` in it, a session that writes with every call pending once, one that reads.
async fn pair(parity_group: u8, old: &[u8]) -> Pair {
    let bench = Bench::sim(1, bounds_tight);
    let volume = bench.volume_with(&FormatOptions { parity_group, ..small() }).await;
    let reader = shared_session(&volume).await;
    let ino = file(&reader, ROOT, b"file", old).await;
    let reads = reader.open(&root(), ino, OpenFlags::READ).await.unwrap();
    let watched = Watched::new(Arc::clone(bench.world.store.engine()), true);
    let world = bench.through(Arc::new(watched));
    let writer = shared_session(&Volume::open(&world, "test").await.unwrap()).await;
    settle(&reader).await;
    Pair { bench, writer, reader, ino, reads }
}

fn overwritten(old: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut whole = old.to_vec();
    whole.resize(whole.len().max(at + new.len()), 0);
    whole[at..at + new.len()].copy_from_slice(new);
    whole
}

#[test]
fn a_large_write_is_seen_whole_or_not_at_all_at_every_step() {
    let old = pattern(1, 300_000);
    let cases = [
        (0, 0, 400_000),
        (0, 100_001, 170_000),
        (0, 299_999, 300_000),
        (0, 400_000, 1_200_000),
        (4, 100_001, 250_000),
    ];
    for (parity, at, len) in cases {
        println!("parity {parity}, {len} bytes at {at}");
        let pair = block_on(pair(parity, &old));
        let new = pattern(2, len);
        let whole = overwritten(&old, at, &new);
        let (caller, flags) = (root(), OpenFlags::READ_WRITE);
        let handle = block_on(pair.writer.open(&root(), pair.ino, flags)).unwrap();
        let mut seen_last = 0;
        let write = pair.writer.write(&caller, handle, at as u64, &new);
        let (written, steps) = stepwise(write, |_| {
            let seen = block_on(is_one_of(&pair.reader, pair.reads, pair.ino, &[&old, &whole]));
            assert!(seen >= seen_last, "the old bytes came back");
            seen_last = seen;
        });
        assert_eq!(written.unwrap(), len);
        assert!(steps > 20, "{steps} steps");
        block_on(async {
            assert_eq!(is_one_of(&pair.reader, pair.reads, pair.ino, &[&whole]).await, 0);
            settle(&pair.writer).await;
            assert_eq!(is_one_of(&pair.reader, pair.reads, pair.ino, &[&whole]).await, 0);
            check_counters(&pair.reader, &[pair.ino], 1).await;
            audit(pair.reader.volume(), true).await;
        });
    }
}

#[test]
fn a_large_append_is_seen_whole_or_not_at_all_at_every_step() {
    for old_len in [0, 500, 300_001] {
        println!("{old_len} bytes before");
        let old = pattern(1, old_len);
        let pair = block_on(pair(0, &old));
        let new = pattern(2, 350_000);
        let whole = overwritten(&old, old_len, &new);
        let caller = root();
        let flags = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
        let handle = block_on(pair.writer.open(&root(), pair.ino, flags)).unwrap();
        let write = pair.writer.write(&caller, handle, 0, &new);
        let (written, _) = stepwise(write, |_| {
            block_on(is_one_of(&pair.reader, pair.reads, pair.ino, &[&old, &whole]));
        });
        assert_eq!(written.unwrap(), new.len());
        block_on(async {
            assert_eq!(is_one_of(&pair.reader, pair.reads, pair.ino, &[&whole]).await, 0);
            check_counters(&pair.reader, &[pair.ino], 1).await;
            audit(pair.reader.volume(), true).await;
        });
    }
}

#[test]
fn a_large_write_that_is_given_up_at_any_step_leaves_nothing() {
    let old = pattern(1, 50_000);
    let new = pattern(2, 250_000);
    let whole = overwritten(&old, 10, &new);
    let mut done = false;
    let mut steps = 0;
    while !done {
        let pair = block_on(pair(0, &old));
        let (caller, flags) = (root(), OpenFlags::READ_WRITE);
        let handle = block_on(pair.writer.open(&root(), pair.ino, flags)).unwrap();
        {
            let mut write = pin!(pair.writer.write(&caller, handle, 10, &new));
            for _ in 0..=steps {
                done = write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
                if done {
                    break;
                }
            }
        }
        block_on(async {
            let seen = is_one_of(&pair.reader, pair.reads, pair.ino, &[&old, &whole]).await;
            // The session lives, and nobody waits for the write any more.
            settle(&pair.writer).await;
            settle(&pair.reader).await;
            let later = is_one_of(&pair.reader, pair.reads, pair.ino, &[&old, &whole]).await;
            assert_eq!(seen, later, "step {steps}");
            check_counters(&pair.reader, &[pair.ino], 1).await;
            audit(pair.reader.volume(), true).await;
        });
        steps += 1;
    }
    assert!(steps > 20);
}

#[test]
fn a_session_that_dies_in_a_large_write_leaves_nothing() {
    let old = pattern(1, 50_000);
    let new = pattern(2, 250_000);
    let whole = overwritten(&old, 10, &new);
    for steps in (5..60).step_by(6) {
        println!("{steps} steps");
        let pair = block_on(pair(0, &old));
        let (caller, flags) = (root(), OpenFlags::READ_WRITE);
        let handle = block_on(pair.writer.open(&root(), pair.ino, flags)).unwrap();
        {
            let mut write = pin!(pair.writer.write(&caller, handle, 10, &new));
            for _ in 0..steps {
                if write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    break;
                }
            }
        }
        block_on(async {
            let seen = is_one_of(&pair.reader, pair.reads, pair.ino, &[&old, &whole]).await;
            outlive(&pair.bench, &pair.reader).await;
            let later = is_one_of(&pair.reader, pair.reads, pair.ino, &[&old, &whole]).await;
            assert_eq!(seen, later);
            check_counters(&pair.reader, &[pair.ino], 1).await;
            audit(pair.reader.volume(), true).await;
        });
    }
}

#[test]
fn large_writes_at_once_are_each_whole() {
    for seed in 0..24 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, bounds_tight);
        let parity_group = if seed % 4 == 3 { 4 } else { 0 };
        let options = FormatOptions { parity_group, ..small() };
        let volume = block_on(bench.volume_with(&options));
        let session = block_on(shared_session(&volume));
        let old = pattern(1, 220_000);
        let ino = block_on(file(&session, ROOT, b"file", &old));
        let (first, second) = (pattern(2, 230_000), pattern(3, 240_000));
        let append = seed % 2 == 0;
        let mut allowed = vec![old.clone()];
        for (a, b) in [(&first, &second), (&second, &first)] {
            let at = |whole: &[u8]| if append { whole.len() } else { 0 };
            let one = overwritten(&old, at(&old), a);
            let both = overwritten(&one, at(&one), b);
            allowed.extend([one, both]);
        }
        bench.stir();
        let mut scheduler = Scheduler::new(seed, bench.clock.clone());
        for bytes in [first, second] {
            let volume = volume.clone();
            scheduler.spawn(async move {
                let session = shared_session(&volume).await;
                let flags = OpenFlags { append, ..OpenFlags::READ_WRITE };
                let handle = session.open(&root(), ino, flags).await.unwrap();
                let written = session.write(&root(), handle, 0, &bytes).await.unwrap();
                assert_eq!(written, bytes.len());
                session.release(handle).await.unwrap();
            });
        }
        let (reader, whole) = (session.clone(), allowed.clone());
        scheduler.spawn(async move {
            let handle = reader.open(&root(), ino, OpenFlags::READ).await.unwrap();
            for _ in 0..40 {
                let bytes = reader.read(handle, 0, 8 << 20).await.unwrap();
                assert!(whole.iter().any(|whole| *whole == bytes), "{} bytes", bytes.len());
            }
            reader.release(handle).await.unwrap();
        });
        scheduler.run().unwrap();
        bench.calm();
        block_on(async {
            let bytes = contents(&session, ino).await;
            assert!(bytes == allowed[2] || bytes == allowed[4], "{} bytes", bytes.len());
            check_counters(&session, &[ino], 1).await;
            assert!(contents(&session, ino).await == bytes);
            audit(&volume, true).await;
        });
    }
}

#[test]
fn what_a_large_write_replaced_may_be_written_again_before_it_is_swept() {
    block_on(async {
        let bench = Bench::sim(1, bounds_tight);
        let volume = bench.volume_with(&small()).await;
        let session = private_session(&volume).await;
        let (ino, handle) = new_file(&session, b"file").await;
        // Written in pieces, so that it stands under generation 0.
        for at in 0..60 {
            write_all(&session, handle, at * BLOCK, &pattern(1, BLOCK as usize)).await;
        }
        write_all(&session, handle, 0, &pattern(2, 60 * BLOCK as usize)).await;
        let jobs = session.jobs().await.unwrap();
        assert!(jobs.iter().any(|job| job.name() == "sweep"), "{jobs:?}");
        // A hole and bytes again, by punching and by cutting.
        let punch = Fallocate::PunchHole;
        session.fallocate(&root(), handle, punch, 3 * BLOCK, 2 * BLOCK).await.unwrap();
        write_all(&session, handle, 3 * BLOCK, &pattern(3, BLOCK as usize)).await;
        cut(&session, ino, 50 * BLOCK).await.unwrap();
        write_all(&session, handle, 55 * BLOCK, &pattern(4, BLOCK as usize)).await;
        let mut expected = pattern(2, 60 * BLOCK as usize);
        let block = |index: usize| index * BLOCK as usize..(index + 1) * BLOCK as usize;
        expected[block(3)].copy_from_slice(&pattern(3, BLOCK as usize));
        expected[block(4)].fill(0);
        expected.truncate(50 * BLOCK as usize);
        expected.resize(55 * BLOCK as usize, 0);
        expected.extend(pattern(4, BLOCK as usize));
        assert!(contents(&session, ino).await == expected);
        settle(&session).await;
        assert!(contents(&session, ino).await == expected);
        audit(&volume, true).await;
    });
}
