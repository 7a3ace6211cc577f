//! Work of many transactions: cut at every step, gone on with by others, and nothing is left over.

mod given_up;

use crate::audit::{audit, dump};
use crate::world::*;
use base::block_on;
use fs::schema::{Job, Parsed};
use fs::*;
use kv::Capabilities;
use kv::sim::{bounds_like_etcd, bounds_tight};
use std::pin::Pin;

const MIB: u64 = 1 << 20;

type Work = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// A file with a little data in each of so many chunks.
async fn sparse(session: &Session, name: &[u8], chunks: u64) -> Ino {
    let flags = OpenFlags::READ_WRITE;
    let (attr, handle) = session.create(&root(), ROOT, name, 0o644, flags).await.unwrap();
    for chunk in 0..chunks {
        session.write(&root(), handle, chunk * MIB + chunk, &pattern(1, 100)).await.unwrap();
    }
    session.release(handle).await.unwrap();
    attr.ino
}

async fn cut_to(session: &Session, ino: Ino, size: u64) -> Result<Attr> {
    session.setattr(&root(), ino, &SetAttr { size: Some(size), ..SetAttr::default() }, None).await
}

/// Lets `work` be cut by the death of its process before its first commit, its second, and so on
/// until it comes to its end; each time another session goes on. `look` sees what is left.
fn cut_everywhere(
    bounds: fn(&Capabilities) -> Capabilities,
    sharing: Sharing,
    prepare: fn(Session) -> Work,
    work: fn(Session) -> Work,
    look: fn(Session) -> Work,
) {
    for cut in 0.. {
        println!("{sharing:?}, cut after {cut} commits");
        let bench = Bench::sim(1, bounds);
        let volume = block_on(bench.volume());
        let (world, probe) = bench.probed();
        let options = SessionOptions { sharing, ..shared() };
        let done = block_on(async {
            let session = Session::start(&volume, options.clone()).await.unwrap();
            prepare(session.clone()).await.unwrap();
            settle(&session).await;
            session.stop().await.unwrap();
            let through = Volume::open(&world, "test").await.unwrap();
            let session = Session::start(&through, options.clone()).await.unwrap();
            settle(&session).await;
            probe.cut_after(cut);
            work(session).await.is_ok()
        });
        block_on(async {
            audit(&volume, false).await;
            let next = Session::start(&volume, options).await.unwrap();
            outlive(&bench, &next).await;
            audit(&volume, true).await;
            look(next).await.unwrap();
        });
        if done {
            assert!(cut > 1, "nothing was cut");
            return;
        }
        assert!(cut < 1000, "it never ends");
    }
}

fn each_sharing(
    bounds: fn(&Capabilities) -> Capabilities,
    prepare: fn(Session) -> Work,
    work: fn(Session) -> Work,
    look: fn(Session) -> Work,
) {
    for sharing in [Sharing::Shared, Sharing::Private] {
        cut_everywhere(bounds, sharing, prepare, work, look);
    }
}

#[test]
fn removing_a_large_file_can_be_cut_anywhere() {
    each_sharing(
        bounds_like_etcd,
        |session| {
            Box::pin(async move {
                sparse(&session, b"f", 40).await;
                Ok(())
            })
        },
        |session| {
            Box::pin(async move {
                session.unlink(&root(), ROOT, b"f").await?;
                while !session.maintain().await?.is_quiet() {}
                Ok(())
            })
        },
        |session| {
            Box::pin(async move {
                let there = session.lookup(&root(), ROOT, b"f").await.is_ok();
                let block = u64::from(session.volume().record().block_bytes);
                let wanted = if there { (40 * block, 2) } else { (0, 1) };
                assert_eq!(session.usage().await?, wanted);
                Ok(())
            })
        },
    );
}

#[test]
fn cutting_a_large_file_short_can_be_cut_anywhere() {
    each_sharing(
        bounds_like_etcd,
        |session| {
            Box::pin(async move {
                sparse(&session, b"f", 40).await;
                Ok(())
            })
        },
        |session| {
            Box::pin(async move {
                let ino = session.lookup(&root(), ROOT, b"f").await?.ino;
                cut_to(&session, ino, 3 * MIB + 50).await?;
                cut_to(&session, ino, 2 * MIB + 50).await?;
                cut_to(&session, ino, 30 * MIB).await?;
                while !session.maintain().await?.is_quiet() {}
                Ok(())
            })
        },
        |session| {
            Box::pin(async move {
                let attr = session.lookup(&root(), ROOT, b"f").await?;
                let bytes = contents(&session, attr.ino).await;
                assert_eq!(bytes.len() as u64, attr.size);
                for (chunk, bytes) in bytes.chunks(MIB as usize).enumerate() {
                    let kept = match attr.size / MIB {
                        39 => true,
                        3 => chunk < 3,
                        _ => chunk < 2,
                    };
                    let (head, data) = bytes.split_at(chunk.min(bytes.len()));
                    assert!(head.iter().all(|byte| *byte == 0));
                    if kept {
                        assert_eq!(data[..100], pattern(1, 100), "{chunk}");
                    } else {
                        // At most what lies before the end that it was cut to.
                        let cut = data.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                        assert!(cut <= 50, "{chunk}: {cut}");
                    }
                }
                Ok(())
            })
        },
    );
}

/// The bytes of the file that large writes go to, before and after.
fn before() -> Vec<u8> {
    pattern(1, 400_000)
}

fn after() -> Vec<u8> {
    let mut bytes = before();
    bytes.resize(700_000, 0);
    bytes[100..600_100].copy_from_slice(&pattern(2, 600_000));
    bytes.truncate(600_100);
    bytes
}

#[test]
fn a_large_write_can_be_cut_anywhere_and_is_there_wholly_or_not_at_all() {
    each_sharing(
        bounds_tight,
        |session| {
            Box::pin(async move {
                file(&session, ROOT, b"f", &before()).await;
                Ok(())
            })
        },
        |session| {
            Box::pin(async move {
                let ino = session.lookup(&root(), ROOT, b"f").await?.ino;
                let handle = session.open(&root(), ino, OpenFlags::READ_WRITE).await?;
                session.write(&root(), handle, 100, &pattern(2, 600_000)).await?;
                session.release(handle).await?;
                while !session.maintain().await?.is_quiet() {}
                Ok(())
            })
        },
        |session| {
            Box::pin(async move {
                let ino = session.lookup(&root(), ROOT, b"f").await?.ino;
                let bytes = contents(&session, ino).await;
                assert!(bytes == before() || bytes == after());
                Ok(())
            })
        },
    );
}

#[test]
fn burying_a_session_can_be_cut_anywhere() {
    for cut in 0.. {
        println!("cut after {cut} commits");
        let bench = Bench::sim(1, bounds_like_etcd);
        let volume = block_on(bench.volume());
        let (world, probe) = bench.probed();
        let done = block_on(async {
            let dead = shared_session(&volume).await;
            for number in 0..40 {
                let name = format!("{number}");
                let flags = OpenFlags::READ_WRITE;
                let (_, handle) =
                    dead.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await.unwrap();
                dead.flock(handle, 1, LockKind::Write, false).await.unwrap();
                if number % 3 == 0 {
                    dead.write(&root(), handle, 0, &pattern(1, 100_000)).await.unwrap();
                    dead.unlink(&root(), ROOT, name.as_bytes()).await.unwrap();
                }
            }
            let judge = shared_session(&Volume::open(&world, "test").await.unwrap()).await;
            judge.maintain().await.unwrap();
            bench.clock.advance(std::time::Duration::from_secs(61));
            probe.cut_after(cut);
            let work = async {
                while !judge.maintain().await?.is_quiet() {}
                Ok::<_, Error>(())
            };
            let done = work.await.is_ok();
            audit(&volume, false).await;
            let next = shared_session(&volume).await;
            outlive(&bench, &next).await;
            audit(&volume, true).await;
            assert_eq!(next.usage().await.unwrap(), (0, 27));
            done
        });
        if done {
            return;
        }
    }
}

#[test]
fn jobs_that_two_sessions_run_at_once_are_done_once() {
    for seed in 0..40 {
        println!("seed {seed}");
        let bench = Bench::sim(seed, bounds_like_etcd);
        let volume = block_on(bench.volume());
        let (a, b) = block_on(async {
            let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
            sparse(&a, b"f", 50).await;
            let ino = sparse(&a, b"g", 50).await;
            a.unlink(&root(), ROOT, b"f").await.unwrap();
            cut_to(&a, ino, 5).await.unwrap();
            (a, b)
        });
        let mut scheduler = base::Scheduler::new(seed, bench.clock.clone());
        for session in [a.clone(), b.clone()] {
            scheduler.spawn(async move { settle(&session).await });
        }
        bench.stir();
        scheduler.run().unwrap();
        bench.calm();
        block_on(async {
            let block = u64::from(volume.record().block_bytes);
            assert_eq!(a.usage().await.unwrap(), (block, 2));
            settle(&b).await;
            audit(&volume, true).await;
        });
    }
}

#[test]
fn a_file_that_grows_again_before_its_end_was_removed_reads_zeros() {
    block_on(async {
        for grow in 0..5 {
            let bench = Bench::sim(1, bounds_like_etcd);
            let volume = bench.volume().await;
            let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
            let ino = sparse(&a, b"f", 60).await;
            cut_to(&a, ino, 2 * MIB + 5).await.unwrap();
            let waits = |job: &Job| matches!(job, Job::Trim { .. });
            assert!(a.jobs().await.unwrap().iter().any(waits));
            let handle = b.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            let size = 50 * MIB;
            match grow {
                0 => drop(cut_to(&b, ino, size).await.unwrap()),
                1 => drop(b.write(&root(), handle, size - 1, b"\0").await.unwrap()),
                2 => {
                    let what = Fallocate::Allocate { keep_size: false };
                    b.fallocate(&root(), handle, what, 0, size).await.unwrap();
                }
                3 => {
                    let what = Fallocate::ZeroRange { keep_size: false };
                    b.fallocate(&root(), handle, what, 3 * MIB, size - 3 * MIB).await.unwrap();
                }
                _ => {
                    // Staged.
                    let zeros = vec![0; 3 << 20];
                    assert_eq!(
                        b.write(&root(), handle, size - zeros.len() as u64, &zeros).await.unwrap(),
                        zeros.len()
                    );
                }
            }
            let bytes = contents(&a, ino).await;
            assert_eq!(bytes.len() as u64, size, "{grow}");
            assert!(bytes[2 * MIB as usize + 5..].iter().all(|byte| *byte == 0), "{grow}");
            assert_eq!(bytes[MIB as usize + 1..][..100], pattern(1, 100));
            b.release(handle).await.unwrap();
            settle(&b).await;
            audit(&volume, true).await;
        }
    });
}

#[test]
fn removing_or_emptying_a_large_file_costs_the_caller_little() {
    block_on(async {
        let bench = Bench::mem();
        bench.volume().await;
        let (world, probe) = bench.probed();
        let volume = Volume::open(&world, "test").await.unwrap();
        for sharing in [Sharing::Shared, Sharing::Private] {
            let session = Session::start(&volume, SessionOptions { sharing, ..shared() });
            let session = session.await.unwrap();
            let mut costs = Vec::new();
            for chunks in [1, 20, 300] {
                let ino = sparse(&session, b"f", chunks).await;
                let cost = |what: &str| {
                    let counts = probe.counts();
                    assert_eq!(counts.commits, 1, "{what} of {chunks} chunks");
                    counts.ops
                };
                probe.unknown(&[]);
                cut_to(&session, ino, MIB / 2).await.unwrap();
                let shorter = cost("cutting short");
                probe.unknown(&[]);
                cut_to(&session, ino, 0).await.unwrap();
                let emptied = cost("emptying");
                session.unlink(&root(), ROOT, b"f").await.unwrap();
                sparse(&session, b"f", chunks).await;
                probe.unknown(&[]);
                session.unlink(&root(), ROOT, b"f").await.unwrap();
                costs.push((emptied, cost("removing")));
                assert!(shorter <= 40, "{shorter}");
                settle(&session).await;
            }
            // One more at times, for old replies in the log.
            let few = |cost: &(u64, u64)| cost.0.max(cost.1) <= 1 + costs[0].0.max(costs[0].1);
            assert!(costs[0].1 <= 10 && costs.iter().all(few), "{costs:?}");
            audit(&volume, true).await;
            session.stop().await.unwrap();
        }
    });
}

#[test]
fn a_block_that_is_written_again_is_not_swept_away() {
    block_on(async {
        let bench = Bench::sim(1, bounds_tight);
        let volume = bench.volume().await;
        let session = shared_session(&volume).await;
        let block = u64::from(volume.record().block_bytes);
        for empty in 0..4 {
            let name = format!("{empty}");
            let flags = OpenFlags::READ_WRITE;
            let (attr, handle) =
                session.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await.unwrap();
            // Blocks in the first place, then replaced by a large write: their removal waits.
            write_all(&session, handle, 0, &pattern(1, 20 * block as usize)).await;
            write_all(&session, handle, 0, &pattern(2, 60 * block as usize)).await;
            let waits = |job: &Job| matches!(job, Job::Sweep { .. });
            assert!(session.jobs().await.unwrap().iter().any(waits));
            // One of them becomes empty, and is written again where it was in the first place.
            let at = 5 * block;
            match empty {
                0 => {
                    let hole = Fallocate::PunchHole;
                    session.fallocate(&root(), handle, hole, at, block).await.unwrap();
                }
                1 => {
                    let zeros = vec![0; block as usize];
                    session.write(&root(), handle, at, &zeros).await.unwrap();
                }
                2 => {
                    cut_to(&session, attr.ino, at).await.unwrap();
                }
                _ => {
                    let what = Fallocate::ZeroRange { keep_size: true };
                    session.fallocate(&root(), handle, what, at, block).await.unwrap();
                }
            }
            session.write(&root(), handle, at, &pattern(3, block as usize)).await.unwrap();
            settle(&session).await;
            let read = session.read(handle, at, block as usize).await.unwrap();
            assert_eq!(read, pattern(3, block as usize), "{empty}");
            session.release(handle).await.unwrap();
            audit(&volume, true).await;
        }
    });
}

#[test]
fn a_file_of_many_large_writes_can_be_shortened_emptied_and_removed() {
    for bounds in [bounds_tight, bounds_like_etcd] {
        for end in 0..3 {
            block_on(async {
                let bench = Bench::sim(1, bounds);
                let volume = bench.volume().await;
                let session = shared_session(&volume).await;
                let flags = OpenFlags::READ_WRITE;
                let (attr, handle) =
                    session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
                let block = u64::from(volume.record().block_bytes);
                let blocks = if block > 4096 { 22 } else { 50 };
                // Each write leaves one block of the one before it: as many generations as blocks.
                for number in 0..190 {
                    let bytes = pattern(number as u8, (blocks * block) as usize);
                    let at = number * block;
                    assert_eq!(
                        session.write(&root(), handle, at, &bytes).await.unwrap(),
                        bytes.len()
                    );
                }
                match end {
                    0 => drop(cut_to(&session, attr.ino, 3 * block).await.unwrap()),
                    1 => drop(cut_to(&session, attr.ino, 0).await.unwrap()),
                    _ => {
                        let hole = Fallocate::PunchHole;
                        session.fallocate(&root(), handle, hole, block, 300 * block).await.unwrap();
                    }
                }
                settle(&session).await;
                audit(&volume, true).await;
                session.release(handle).await.unwrap();
                session.unlink(&root(), ROOT, b"f").await.unwrap();
                settle(&session).await;
                audit(&volume, true).await;
                assert_eq!(session.usage().await.unwrap(), (0, 1));
            });
        }
    }
}

#[test]
fn an_interrupted_start_leaves_a_store_that_can_be_used() {
    for cut in 0..4 {
        block_on(async {
            let bench = Bench::mem();
            let (world, probe) = bench.probed();
            probe.cut_after(cut);
            let format = FormatOptions::default();
            let started = async {
                let volume = Volume::format(&world, "test", &format).await?;
                let session = Session::start(&volume, shared()).await?;
                session.mkdir(&root(), ROOT, b"d", 0o755).await
            };
            assert_eq!(started.await.is_ok(), cut == 3);
            let volume = match Volume::open(&bench.world, "test").await {
                Ok(volume) => volume,
                Err(error) => {
                    assert_eq!((error.kind(), cut), (Kind::NotFound, 0));
                    Volume::format(&bench.world, "test", &format).await.unwrap()
                }
            };
            let session = shared_session(&volume).await;
            outlive(&bench, &session).await;
            audit(&volume, true).await;
            let sessions = |key: &&Parsed| matches!(key, Parsed::Session { .. });
            assert_eq!(keys(&volume).await.iter().filter(sessions).count(), 1);
            assert!(!dump(&volume).await.is_empty());
        });
    }
}
