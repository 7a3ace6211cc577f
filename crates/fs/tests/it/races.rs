//! Two sessions at once, on schedules from many seeds: what each is told, and what is left.

mod midst;

use crate::audit::audit;
use crate::world::*;
use base::{Scheduler, block_on};
use fs::*;

const SEEDS: u64 = 150;

/// Two sessions of one volume, and their tasks.
struct Arena {
    bench: Bench,
    volume: Volume,
    a: Session,
    b: Session,
    scheduler: Scheduler,
}

impl Arena {
    async fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let bench = Bench::sim(seed, unbounded);
        let volume = bench.volume().await;
        let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
        let scheduler = Scheduler::new(seed, bench.clock.clone());
        Self { bench, volume, a, b, scheduler }
    }

    /// Sessions to which a conflict is an error.
    async fn one_try(seed: u64) -> Self {
        let mut arena = Self::new(seed).await;
        let volume = Volume::open(&arena.bench.one_try(), "test").await.unwrap();
        arena.a = shared_session(&volume).await;
        arena.b = shared_session(&volume).await;
        arena
    }

    fn spawn<T: Send + 'static>(
        &mut self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Out<T> {
        spawn(&mut self.scheduler, task)
    }

    fn run(&mut self) {
        self.bench.stir();
        self.scheduler.run().unwrap();
        self.bench.calm();
    }

    /// Runs two tasks to their ends.
    fn both<T: Send + 'static, U: Send + 'static>(
        &mut self,
        one: impl Future<Output = T> + Send + 'static,
        other: impl Future<Output = U> + Send + 'static,
    ) -> (T, U) {
        let (one, other) = (self.spawn(one), self.spawn(other));
        self.run();
        (one.take(), other.take())
    }

    /// What must hold afterwards, whatever happened.
    async fn end(&self) {
        audit(&self.volume, false).await;
        settle(&self.a).await;
        settle(&self.b).await;
        audit(&self.volume, true).await;
    }
}

fn kind<T>(result: Result<T>) -> Option<Kind> {
    result.err().map(|error| error.kind())
}

#[test]
fn two_renames_into_each_other_never_make_a_cycle() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let (one, two) = (dir(&a, b"a").await, dir(&a, b"b").await);
            let plain = RenameFlags::default();
            let outcome = arena.both(
                async move { a.rename(&root(), ROOT, b"a", two, b"a", plain).await },
                async move { b.rename(&root(), ROOT, b"b", one, b"b", plain).await },
            );
            match (kind(outcome.0), kind(outcome.1)) {
                (None, Some(Kind::Invalid)) | (Some(Kind::Invalid), None) => {}
                other => panic!("{other:?}"),
            }
            arena.end().await;
        });
    }
}

#[test]
fn deep_renames_into_each_other_never_make_a_cycle() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let (one, two) = (dir(&a, b"a").await, dir(&a, b"b").await);
            let under = |parent| {
                let a = a.clone();
                async move { a.mkdir(&root(), parent, b"in", 0o755).await.unwrap().ino }
            };
            let (in_one, in_two) = (under(one).await, under(two).await);
            let plain = RenameFlags::default();
            let exchange = RenameFlags { exchange: true, ..plain };
            let flags = if seed % 2 == 0 { plain } else { exchange };
            if seed % 2 == 1 {
                dir(&b, b"x").await;
                under(in_two).await;
            }
            let outcome = arena.both(
                async move {
                    // Into the other's grandchild, or in exchange with its child.
                    let name = if flags.exchange { &b"in"[..] } else { b"a" };
                    a.rename(&root(), ROOT, b"a", in_two, name, flags).await
                },
                async move { b.rename(&root(), ROOT, b"b", in_one, b"b", plain).await },
            );
            let failed = [kind(outcome.0), kind(outcome.1)];
            let invalid = failed.iter().filter(|kind| **kind == Some(Kind::Invalid)).count();
            assert_eq!((invalid, failed.iter().flatten().count()), (1, 1), "{failed:?}");
            arena.end().await;
        });
    }
}

#[test]
fn a_directory_is_removed_or_gets_a_name_but_never_both() {
    let mut removed = 0;
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let ino = dir(&a, b"d").await;
            let other = file(&a, ROOT, b"f", b"x").await;
            let outcome =
                arena.both(async move { a.rmdir(&root(), ROOT, b"d").await }, async move {
                    match seed % 4 {
                        0 => b.mkdir(&root(), ino, b"n", 0o755).await.map(|_| ()),
                        1 => b.link(&root(), other, ino, b"n").await.map(|_| ()),
                        2 => b.rename(&root(), ROOT, b"f", ino, b"n", RenameFlags::default()).await,
                        _ => {
                            let made = b.create(&root(), ino, b"n", 0o644, OpenFlags::READ).await;
                            match made {
                                Ok((_, handle)) => b.release(handle).await,
                                Err(error) => Err(error),
                            }
                        }
                    }
                });
            match (kind(outcome.0), kind(outcome.1)) {
                (None, Some(Kind::NotFound)) => removed += 1,
                (Some(Kind::NotEmpty), None) => {}
                other => panic!("{other:?}"),
            }
            arena.end().await;
        });
    }
    assert!((1..SEEDS).contains(&removed), "{removed}: the schedules are all alike");
}

#[test]
fn different_names_in_one_directory_do_not_conflict() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::one_try(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            for name in [&b"old"[..], b"older"] {
                file(&a, ROOT, name, b"x").await;
            }
            let (made, changed) = arena.both(
                async move {
                    let (_, handle) = a.create(&root(), ROOT, b"a", 0o644, OpenFlags::READ).await?;
                    a.release(handle).await?;
                    a.mkdir(&root(), ROOT, b"dir a", 0o755).await?;
                    a.unlink(&root(), ROOT, b"old").await
                },
                async move {
                    b.mknod(&root(), ROOT, b"b", mode::FILE | 0o644, 0).await?;
                    b.symlink(&root(), ROOT, b"link", b"target").await?;
                    b.rename(&root(), ROOT, b"b", ROOT, b"c", RenameFlags::default()).await?;
                    b.unlink(&root(), ROOT, b"older").await
                },
            );
            made.unwrap();
            changed.unwrap();
            arena.end().await;
        });
    }
}

/// How often making a file and changing the attributes of its directory conflict.
fn conflicts_with(set: SetAttr) -> u64 {
    let mut conflicts = 0;
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::one_try(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let ino = dir(&a, b"d").await;
            let (made, changed) = arena.both(
                async move { a.mknod(&root(), ino, b"n", mode::FILE | 0o644, 0).await },
                async move { b.setattr(&root(), ino, &set, None).await },
            );
            changed.unwrap();
            if let Err(error) = made {
                assert_eq!(error.kind(), Kind::Io, "{error:?}");
                conflicts += 1;
            }
            arena.end().await;
        });
    }
    conflicts
}

#[test]
fn setting_the_times_of_a_directory_does_not_conflict_with_a_new_name() {
    let to = SetTime::To(Time { secs: 5, nanos: 5 });
    let times = SetAttr { atime: Some(to), mtime: Some(to), ..SetAttr::default() };
    assert_eq!(conflicts_with(times), 0);
    let now = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
    assert_eq!(conflicts_with(now), 0);
}

#[test]
fn changing_the_mode_or_owner_of_a_directory_conflicts_with_a_new_name() {
    assert_ne!(conflicts_with(SetAttr { mode: Some(0o700), ..SetAttr::default() }), 0);
    assert_ne!(conflicts_with(SetAttr { uid: Some(7), ..SetAttr::default() }), 0);
}

#[test]
fn writers_of_different_blocks_do_not_conflict() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::one_try(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let block = a.volume().record().block_bytes as usize;
            let ino = file(&a, ROOT, b"f", &pattern(1, 4 * block)).await;
            let at_a = a.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            let at_b = b.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            let (one, two) = arena.both(
                async move {
                    for at in [0, 10, 500] {
                        a.write(&root(), at_a, at, &pattern(2, 100)).await?;
                    }
                    a.read(at_a, 0, 4 * block).await?;
                    a.release(at_a).await
                },
                async move {
                    for at in [0, 7, block - 100] {
                        b.write(&root(), at_b, (2 * block + at) as u64, &pattern(3, 100)).await?;
                    }
                    b.release(at_b).await
                },
            );
            one.unwrap();
            two.unwrap();
            let mut wanted = pattern(1, 4 * block);
            for (start, tag, pieces) in [(0, 2, [0, 10, 500]), (2 * block, 3, [0, 7, block - 100])]
            {
                for at in pieces {
                    wanted[start + at..start + at + 100].copy_from_slice(&pattern(tag, 100));
                }
            }
            assert_eq!(contents(&arena.a, ino).await, wanted);
            arena.end().await;
        });
    }
}

#[test]
fn reading_needs_no_second_try_whatever_others_do() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::one_try(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let block = a.volume().record().block_bytes as usize;
            let bytes = pattern(1, 3 * block);
            let ino = file(&a, ROOT, b"f", &bytes).await;
            let reader = a.open(&root(), ino, OpenFlags::READ).await.unwrap();
            let writer = b.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            let listing = a.opendir(&root(), ROOT).await.unwrap();
            let (read, written) = arena.both(
                async move {
                    for _ in 0..4 {
                        a.read(reader, 0, 3 * block).await?;
                        a.getattr(ino).await?;
                        a.lookup(&root(), ROOT, b"f").await?;
                        a.readdirplus(listing, 0, 10).await?;
                    }
                    Ok::<_, Error>(())
                },
                async move {
                    b.write(&root(), writer, 0, &pattern(2, 3 * block)).await?;
                    let set = SetAttr { size: Some(block as u64), ..SetAttr::default() };
                    b.setattr(&root(), ino, &set, Some(writer)).await?;
                    b.mknod(&root(), ROOT, b"new", mode::FILE, 0).await?;
                    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
                    b.setattr(&root(), ino, &set, None).await
                },
            );
            read.unwrap();
            written.unwrap();
            let (a, b) = (&arena.a, &arena.b);
            a.release(reader).await.unwrap();
            a.releasedir(listing).await.unwrap();
            b.release(writer).await.unwrap();
            arena.end().await;
        });
    }
}

#[test]
fn a_read_sees_all_of_a_write_or_nothing_of_it() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let len = 3 * a.volume().record().block_bytes as usize;
            let ino = file(&a, ROOT, b"f", &vec![1; len]).await;
            let reader = a.open(&root(), ino, OpenFlags::READ).await.unwrap();
            let writer = b.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            arena.both(
                async move {
                    let mut last = 1;
                    for _ in 0..8 {
                        let seen = a.read(reader, 0, len).await.unwrap();
                        assert!(seen.len() == len && seen.iter().all(|byte| *byte == seen[0]));
                        assert!(seen[0] >= last, "what was seen once goes away again");
                        last = seen[0];
                    }
                    a.release(reader).await.unwrap();
                },
                async move {
                    for tag in 2..5 {
                        b.write(&root(), writer, 0, &vec![tag; len]).await.unwrap();
                    }
                    b.release(writer).await.unwrap();
                },
            );
            arena.end().await;
        });
    }
}

#[test]
fn an_open_finds_nothing_or_keeps_the_file_until_it_is_released() {
    let mut opened = 0;
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let len = if seed % 2 == 0 { 10 } else { 200_000 };
            let ino = file(&a, ROOT, b"f", &pattern(1, len)).await;
            let (removed, kept) = arena.both(
                async move {
                    a.unlink(&root(), ROOT, b"f").await?;
                    a.maintain().await
                },
                async move {
                    let handle = match b.open(&root(), ino, OpenFlags::READ).await {
                        Ok(handle) => handle,
                        Err(error) => {
                            assert_eq!(error.kind(), Kind::NotFound);
                            return None;
                        }
                    };
                    assert_eq!(b.read(handle, 0, len).await.unwrap(), pattern(1, len));
                    Some(handle)
                },
            );
            removed.unwrap();
            settle(&arena.a).await;
            if let Some(handle) = kept {
                opened += 1;
                let b = &arena.b;
                assert_eq!(b.read(handle, 0, len).await.unwrap(), pattern(1, len));
                b.release(handle).await.unwrap();
            }
            arena.end().await;
            assert_eq!(arena.a.usage().await.unwrap(), (0, 1));
        });
    }
    assert!((1..SEEDS).contains(&opened), "{opened}: the schedules are all alike");
}

#[test]
fn rename_over_a_file_that_is_being_opened_keeps_it_readable() {
    let mut opened = 0;
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let old = file(&a, ROOT, b"old", &pattern(1, 100_000)).await;
            file(&a, ROOT, b"new", b"new").await;
            let (moved, kept) = arena.both(
                async move {
                    a.rename(&root(), ROOT, b"new", ROOT, b"old", RenameFlags::default()).await
                },
                async move {
                    let found = b.lookup(&root(), ROOT, b"old").await.unwrap().ino;
                    (found, b.open(&root(), found, OpenFlags::READ).await)
                },
            );
            moved.unwrap();
            settle(&arena.a).await;
            let (found, handle) = kept;
            let b = &arena.b;
            match handle {
                Ok(handle) => {
                    let bytes = b.read(handle, 0, 100_000).await.unwrap();
                    let wanted = if found == old { pattern(1, 100_000) } else { b"new".to_vec() };
                    opened += u64::from(found == old);
                    assert_eq!(bytes, wanted);
                    b.release(handle).await.unwrap();
                }
                Err(error) => assert_eq!((error.kind(), found), (Kind::NotFound, old)),
            }
            arena.end().await;
            assert_eq!(names_of(b, ROOT).await, [b"old"]);
        });
    }
    assert!(opened > 0, "the schedules are all alike");
}

#[test]
fn appends_of_two_sessions_neither_overlap_nor_get_lost() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let ino = file(&arena.a, ROOT, b"log", b"").await;
            let append = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
            // Some across the border between inline and mapped.
            let len = [7, 5000, 40_000][seed as usize % 3];
            let writer = |session: Session, tag: u8| async move {
                let handle = session.open(&root(), ino, append).await.unwrap();
                for _ in 0..4 {
                    let written = session.write(&root(), handle, 0, &vec![tag; len]).await;
                    assert_eq!(written.unwrap(), len);
                }
                session.release(handle).await.unwrap();
            };
            let (a, b) = (arena.a.clone(), arena.b.clone());
            arena.both(writer(a, b'a'), writer(b, b'b'));
            let all = contents(&arena.a, ino).await;
            assert_eq!(all.len(), 8 * len);
            let pieces: Vec<&[u8]> = all.chunks(len).collect();
            assert!(pieces.iter().all(|piece| piece.iter().all(|byte| *byte == piece[0])));
            assert_eq!(pieces.iter().filter(|piece| piece[0] == b'a').count(), 4);
            arena.end().await;
        });
    }
}

#[test]
fn large_appends_of_two_sessions_neither_overlap_nor_get_lost() {
    for seed in 0..12 {
        println!("seed {seed}");
        block_on(async {
            let bench = Bench::sim(seed, kv::sim::bounds_like_etcd);
            let volume = bench.volume().await;
            let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
            let ino = file(&a, ROOT, b"log", b"begin").await;
            let append = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
            // More than one transaction holds.
            let len = 1_700_000;
            let writer = |session: Session, tag: u8| async move {
                let handle = session.open(&root(), ino, append).await.unwrap();
                let mut done = 0;
                while done < 2 * len {
                    let written = session.write(&root(), handle, 0, &vec![tag; len]).await.unwrap();
                    done += written;
                }
                session.release(handle).await.unwrap();
                done
            };
            let mut scheduler = Scheduler::new(seed, bench.clock.clone());
            let one = spawn(&mut scheduler, writer(a.clone(), b'x'));
            let two = spawn(&mut scheduler, writer(b.clone(), b'y'));
            bench.stir();
            scheduler.run().unwrap();
            bench.calm();
            let (one, two) = (one.take(), two.take());
            let all = contents(&a, ino).await;
            assert_eq!(all.len(), 5 + one + two);
            let count = |tag| all.iter().filter(|byte| **byte == tag).count();
            assert_eq!((count(b'x'), count(b'y')), (one, two));
            settle(&a).await;
            settle(&b).await;
            audit(&volume, true).await;
        });
    }
}

#[test]
fn a_link_and_the_removal_of_the_last_name_agree() {
    let mut linked = 0;
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let ino = file(&a, ROOT, b"old", &pattern(1, 100)).await;
            let (removed, made) = arena
                .both(async move { a.unlink(&root(), ROOT, b"old").await }, async move {
                    b.link(&root(), ino, ROOT, b"new").await
                });
            removed.unwrap();
            match made {
                Ok(_) => {
                    linked += 1;
                    assert_eq!(contents(&arena.a, ino).await, pattern(1, 100));
                    assert_eq!(arena.a.getattr(ino).await.unwrap().nlink, 1);
                }
                Err(error) => assert_eq!(error.kind(), Kind::NotFound),
            }
            arena.end().await;
        });
    }
    assert!((1..SEEDS).contains(&linked), "{linked}: the schedules are all alike");
}

#[test]
fn one_of_two_gets_a_new_name() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b) = (arena.a.clone(), arena.b.clone());
            let new = OpenFlags { exclusive: seed % 2 == 0, ..OpenFlags::READ_WRITE };
            let (one, two) = arena
                .both(async move { a.create(&root(), ROOT, b"n", 0o644, new).await }, async move {
                    b.create(&root(), ROOT, b"n", 0o644, new).await
                });
            let handles = if new.exclusive {
                assert_eq!(one.is_ok(), two.is_err());
                let failed = if one.is_ok() { kind(two.clone()) } else { kind(one.clone()) };
                assert_eq!(failed, Some(Kind::Exists));
                (one.ok(), two.ok())
            } else {
                let (one, two) = (one.unwrap(), two.unwrap());
                assert_eq!(one.0.ino, two.0.ino);
                (Some(one), Some(two))
            };
            if let Some((_, handle)) = handles.0 {
                arena.a.release(handle).await.unwrap();
            }
            if let Some((_, handle)) = handles.1 {
                arena.b.release(handle).await.unwrap();
            }
            arena.end().await;
        });
    }
}

#[test]
fn a_handle_of_create_outlives_an_open_and_close_by_a_neighbour() {
    // Another process of the same session finds the name before the maker has its answer.
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, b, neighbour) = (arena.a.clone(), arena.b.clone(), arena.a.clone());
            let (made, ()) = arena.both(
                async move { a.create(&root(), ROOT, b"n", 0o644, OpenFlags::READ_WRITE).await },
                async move {
                    for _ in 0..20 {
                        base::exec::yield_now().await;
                        let found = neighbour.lookup(&root(), ROOT, b"n").await;
                        if let Ok(found) = found {
                            let handle =
                                neighbour.open(&root(), found.ino, OpenFlags::READ).await.unwrap();
                            neighbour.release(handle).await.unwrap();
                            return;
                        }
                    }
                },
            );
            let (_, handle) = made.unwrap();
            b.unlink(&root(), ROOT, b"n").await.unwrap();
            settle(&b).await;
            arena.a.write(&root(), handle, 0, b"still here").await.unwrap();
            assert_eq!(arena.a.read(handle, 0, 20).await.unwrap(), &b"still here"[..]);
            arena.a.release(handle).await.unwrap();
            arena.end().await;
            assert_eq!(arena.a.usage().await.unwrap(), (0, 1));
        });
    }
}

#[test]
fn an_open_that_is_refused_leaves_the_lease_of_its_neighbour_right() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let (a, neighbour) = (arena.a.clone(), arena.a.clone());
            let ino = file(&a, ROOT, b"f", b"secret").await;
            let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
            a.setattr(&root(), ino, &set, None).await.unwrap();
            let (opened, refused) = arena
                .both(async move { a.open(&root(), ino, OpenFlags::READ).await }, async move {
                    neighbour.open(&Caller::user(5, 5), ino, OpenFlags::READ).await
                });
            assert_eq!(kind(refused), Some(Kind::AccessDenied));
            let handle = opened.unwrap();
            arena.b.unlink(&root(), ROOT, b"f").await.unwrap();
            assert_eq!(arena.a.read(handle, 0, 9).await.unwrap(), &b"secret"[..]);
            arena.a.release(handle).await.unwrap();
            arena.end().await;
            assert_eq!(arena.b.usage().await.unwrap(), (0, 1));
            let left = keys(&arena.volume).await;
            assert!(!left.iter().any(|key| matches!(key, fs::schema::Parsed::Lease { .. })));
        });
    }
}

#[test]
fn opens_and_closes_of_one_file_leave_no_lease() {
    for seed in 0..SEEDS {
        block_on(async {
            let mut arena = Arena::new(seed).await;
            let ino = file(&arena.a, ROOT, b"f", b"x").await;
            let mut tasks = Vec::new();
            for session in [arena.a.clone(), arena.a.clone(), arena.b.clone(), arena.a.clone()] {
                tasks.push(arena.spawn(async move {
                    for _ in 0..3 {
                        let handle = session.open(&root(), ino, OpenFlags::READ).await?;
                        session.read(handle, 0, 1).await?;
                        session.release(handle).await?;
                    }
                    Ok::<_, Error>(())
                }));
            }
            arena.run();
            for task in tasks {
                task.take().unwrap();
            }
            let left = keys(&arena.volume).await;
            let held = |key: &&fs::schema::Parsed| {
                matches!(key, fs::schema::Parsed::Lease { .. } | fs::schema::Parsed::Held { .. })
            };
            assert_eq!(left.iter().find(held), None);
            arena.end().await;
        });
    }
}
