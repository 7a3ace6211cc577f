//! Dumps of a volume with files in a home.

use crate::world::*;
use base::SimClock;
use fs::dump::{dump, load};
use fs::*;

async fn copy_of(stream: &[u8]) -> Bench {
    let mut other = Bench::new(SimClock::new(), &format()).await;
    other.session.stop().await.unwrap();
    let mut from = stream;
    load(&other.world, "copy", &mut from, &NoProgress).await.unwrap();
    other.volume = Volume::open(&other.world, "copy").await.unwrap();
    other.session = begin(&other.volume, options()).await;
    other
}

#[test]
fn a_dump_has_what_is_lent_and_what_is_settled() {
    on_bench(|mut bench| async move {
        let mut files = Vec::new();
        for (number, len) in [0, 50, INLINE, 20_000, 2_500_000].into_iter().enumerate() {
            for settled in [false, true] {
                let name = format!("{len} {settled}");
                let bytes = pattern(number as u8, len);
                let ino = match settled {
                    true => bench.file(&name, &bytes).await,
                    false => bench.make(&name, &bytes).await.0,
                };
                files.push((name, ino, bytes));
            }
        }
        // With a hole.
        let (ino, handle) = bench.make("hole", b"begin").await;
        write(&bench.session, handle, 3_000_000, b"end").await;
        let mut bytes = b"begin".to_vec();
        bytes.resize(3_000_000, 0);
        bytes.extend(b"end");
        files.push(("hole".to_owned(), ino, bytes));
        let mut stream = Vec::new();
        dump(&bench.session, &mut stream, &NoProgress).await.unwrap();
        // The same from the next process, which finds them lent.
        let mut attrs = Vec::new();
        for (_, ino, _) in &files {
            attrs.push(bench.session.getattr(*ino).await.unwrap());
        }
        bench.die().await;
        let mut again = Vec::new();
        dump(&bench.session, &mut again, &NoProgress).await.unwrap();
        bench.settle().await;
        let mut settled = Vec::new();
        dump(&bench.session, &mut settled, &NoProgress).await.unwrap();
        for stream in [stream, again, settled] {
            let copy = copy_of(&stream).await;
            for ((name, _, bytes), attr) in files.iter().zip(&attrs) {
                let found = copy.session.lookup(&root(), ROOT, name.as_bytes()).await.unwrap();
                assert_eq!((found.size, found.mtime), (attr.size, attr.mtime), "{name}");
                assert!(copy.contents(found.ino).await == *bytes, "{name}");
            }
            copy.session.stop().await.unwrap();
        }
    });
}

#[test]
fn files_that_are_removed_during_a_dump_are_in_it_and_no_other_bytes() {
    struct Removing {
        bench: Bench,
        done: std::sync::atomic::AtomicBool,
    }
    impl Progress for Removing {
        fn advance(&self, _: u64, _: Option<u64>) {
            if self.done.swap(true, std::sync::atomic::Ordering::AcqRel) {
                return;
            }
            // At the first sign of life all is removed, and others are made.
            let bench = self.bench.clone();
            base::block_on(async {
                for name in ["a", "b", "c"] {
                    bench.session.unlink(&root(), ROOT, name.as_bytes()).await.unwrap();
                }
                for _ in 0..3 {
                    bench.session.settle(true).await.unwrap();
                }
                for name in ["x", "y", "z"] {
                    let (_, handle) = bench.make(name, &pattern(9, 40_000)).await;
                    bench.session.release(handle).await.unwrap();
                }
                for _ in 0..3 {
                    bench.session.settle(true).await.unwrap();
                }
            });
        }
    }
    on_bench(|bench| async move {
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            bench.file(name, &pattern(number as u8, 20_000)).await;
        }
        let removing = Removing { bench: bench.clone(), done: Default::default() };
        let mut stream = Vec::new();
        dump(&bench.session, &mut stream, &removing).await.unwrap();
        let copy = copy_of(&stream).await;
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            let found = copy.session.lookup(&root(), ROOT, name.as_bytes()).await.unwrap();
            assert!(copy.contents(found.ino).await == pattern(number as u8, 20_000), "{name}");
        }
        assert!(copy.session.lookup(&root(), ROOT, b"x").await.is_err(), "made after the snapshot");
        // Afterwards what was given back is used again.
        bench.settle().await;
        bench.audit().await;
    });
}
