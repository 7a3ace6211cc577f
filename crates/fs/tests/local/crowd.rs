//! The host lets only so many files be open.

use crate::world::{Bench, INLINE, format, pattern, root, run, write};
use base::SimClock;
use fs::{Kind, OpenFlags, ROOT};

/// How many files can be open.
const MOST: usize = 64;

fn on_crowded<F>(test: impl FnOnce(Bench) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let clock = SimClock::new();
    let of = clock.clone();
    run(&clock, async move {
        test(Bench::with(of, &format(), |home| home.with_open_max(MOST)).await).await;
    });
}

#[test]
fn files_that_come_and_go_do_not_use_up_what_can_be_open() {
    on_crowded(|bench| async move {
        let bytes = pattern(1, 2 * INLINE);
        // Nobody comes to settle anything meanwhile, as behind a slow disk.
        for number in 0..10 * MOST {
            let name = format!("file {number}");
            let (_, handle) = bench.make(&name, &bytes).await;
            bench.session.release(handle).await.unwrap();
            bench.session.unlink(&root(), ROOT, name.as_bytes()).await.unwrap();
        }
        bench.settle().await;
        let ino = bench.file("another", &bytes).await;
        assert_eq!(bench.contents(ino).await, bytes);
        bench.audit().await;
    });
}

#[test]
fn what_was_closed_is_settled_when_no_more_can_be_open() {
    on_crowded(|bench| async move {
        let bytes = pattern(2, 2 * INLINE);
        let (mut made, mut refused) = (Vec::new(), false);
        for number in 0..2 * MOST {
            let name = format!("file {number}");
            let (ino, handle) = bench.make(&name, b"").await;
            let written = bench.session.write(&root(), handle, 0, &bytes).await;
            match written {
                Ok(len) => {
                    write(&bench.session, handle, len as u64, &bytes[len..]).await;
                    made.push(ino);
                }
                Err(error) => {
                    assert_eq!(error.kind(), Kind::TooManyOpen, "{error}");
                    refused = true;
                }
            }
            bench.session.release(handle).await.unwrap();
        }
        assert!(refused, "all that can be open is");
        // Whoever makes files finds too few ready, each time.
        let (_, wanting) = bench.make("wanting", b"").await;
        bench.session.release(wanting).await.unwrap();
        let settled = bench.session.settle(false).await.unwrap();
        assert!(settled.settled > 0, "those that are closed make room");
        let ino = bench.file("another", &bytes).await;
        for ino in made.into_iter().chain([ino]) {
            assert_eq!(bench.contents(ino).await, bytes);
        }
        bench.audit().await;
    });
}

#[test]
fn files_are_not_lent_to_those_who_can_do_without_when_many_are_open() {
    on_crowded(|bench| async move {
        let mut held = Vec::new();
        for number in 0..MOST {
            held.push(bench.make(&format!("file {number}"), b"small").await);
        }
        // There is room for those that were there before.
        let bytes = pattern(3, 2 * INLINE);
        let (ino, handle) = bench.make("large", &bytes).await;
        for (_, handle) in held {
            bench.session.release(handle).await.unwrap();
        }
        bench.session.release(handle).await.unwrap();
        bench.settle().await;
        let opened = bench.session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
        bench.session.release(opened).await.unwrap();
        assert_eq!(bench.contents(ino).await, bytes);
        bench.audit().await;
    });
}
