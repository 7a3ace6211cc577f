//! Streams that are not what was written: refused wherever they are broken, and nothing is left.

use super::*;
use base::block_on;
use std::io;

/// A stream that fails at some byte.
struct Failing<'a> {
    left: usize,
    from: &'a [u8],
    kind: io::ErrorKind,
}

impl io::Read for Failing<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.left).min(7);
        if count == 0 {
            return Err(io::Error::new(self.kind, "the cable was cut"));
        }
        self.left -= count;
        self.from.read(&mut into[..count])
    }
}

impl io::Write for Failing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.left);
        if count == 0 {
            return Err(io::Error::new(self.kind, "the cable was cut"));
        }
        self.left -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn small_stream() -> Vec<u8> {
    dumped(&little(&Bench::mem()).await).await
}

/// The place that an error names.
fn place(error: &Error) -> usize {
    let words = error.to_string();
    let at = words.split("byte ").nth(1).unwrap_or_else(|| panic!("no place in {words}"));
    at.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn a_stream_that_is_cut_anywhere_is_refused() {
    block_on(async {
        let stream = small_stream().await;
        let bench = Bench::mem();
        for cut in 0..stream.len() {
            let error = refused(&bench.world, &stream[..cut]).await;
            match cut {
                0 => assert_eq!(error.kind(), Kind::Format),
                _ => {
                    assert_eq!((error.kind(), place(&error)), (Kind::Corrupt, cut), "{error}");
                }
            }
            assert_eq!(all_keys(&bench.world).await, 0, "cut at {cut}");
        }
        loaded(&bench.world, "new", &stream).await;
    });
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    block_on(async {
        let mut stream = small_stream().await;
        let bench = Bench::mem();
        for at in 0..stream.len() {
            for bit in 0..8 {
                stream[at] ^= 1 << bit;
                let error = refused(&bench.world, &stream).await;
                stream[at] ^= 1 << bit;
                match at {
                    0..16 => assert_eq!(error.kind(), Kind::Format, "{error}"),
                    _ => {
                        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                        // A length that was flipped may lead to the end.
                        let found = place(&error);
                        assert!(found <= at || found == stream.len(), "{at}: {error}");
                    }
                }
            }
            assert_eq!(all_keys(&bench.world).await, 0, "flipped at {at}");
        }
        loaded(&bench.world, "new", &stream).await;
    });
}

#[test]
fn frames_that_are_moved_or_missing_are_refused() {
    block_on(async {
        let stream = small_stream().await;
        let other = dumped(&little(&local()).await).await;
        let bench = Bench::mem();
        // Where frames begin, and where the last one ends.
        let mut bounds = vec![16];
        for (_, payload) in frames(&stream) {
            bounds.push(bounds.last().unwrap() + 13 + payload.len());
        }
        assert_eq!(bounds.pop(), Some(stream.len()));
        let count = bounds.len();
        assert!(count > 12);
        bounds.push(stream.len());
        let frame = |index: usize| &stream[bounds[index]..bounds[index + 1]];
        let mut wrong = Vec::new();
        for one in 0..count {
            let (before, behind) = (&stream[..bounds[one]], &stream[bounds[one + 1]..]);
            wrong.push(("missing", [before, behind].concat()));
            wrong.push(("twice", [before, frame(one), frame(one), behind].concat()));
            if one + 1 < count {
                let behind = &stream[bounds[one + 2]..];
                wrong.push(("moved", [before, frame(one + 1), frame(one), behind].concat()));
            }
            wrong.push(("of another dump", [before, &other[bounds[one]..]].concat()));
        }
        wrong.push(("two dumps", [&stream[..], &stream].concat()));
        wrong.push(("a byte more", [&stream[..], b"\0"].concat()));
        for (what, stream) in wrong.into_iter().filter(|(_, wrong)| *wrong != other) {
            let error = refused(&bench.world, &stream).await;
            assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
            place(&error);
            assert_eq!(all_keys(&bench.world).await, 0, "{what}");
        }
        for no_dump in [&b"#!/bin/sh\n"[..], b"SEAMOUNT", &[0; 100]] {
            assert_eq!(refused(&bench.world, no_dump).await.kind(), Kind::Format);
        }
    });
}

#[test]
fn an_error_of_the_reader_is_passed_on() {
    block_on(async {
        let stream = small_stream().await;
        let bench = Bench::mem();
        for left in 0..=stream.len() {
            let kind = io::ErrorKind::ConnectionReset;
            let mut from = Failing { left, from: &stream, kind };
            let error = load(&bench.world, "new", &mut from, &NoProgress).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Io);
            assert!(error.to_string().contains("the cable was cut"), "{error}");
            assert_eq!(all_keys(&bench.world).await, 0);
        }
    });
}

#[test]
fn an_error_of_the_writer_is_passed_on() {
    block_on(async {
        let session = little(&Bench::mem()).await;
        file(&session, ROOT, b"large", &pattern(1, 3_000_000)).await;
        let whole = dumped(&session).await;
        for left in [0, 1, 100, 300_000, 2_000_000, whole.len() - 1] {
            for (from, kind) in
                [(io::ErrorKind::StorageFull, Kind::NoSpace), (io::ErrorKind::BrokenPipe, Kind::Io)]
            {
                let mut out = Failing { left, from: &[], kind: from };
                let error = dump(&session, &mut out, &NoProgress).await.unwrap_err();
                assert_eq!(error.kind(), kind);
                assert!(error.to_string().contains("the cable was cut"), "{error}");
            }
        }
        let mut out = Failing { left: whole.len(), from: &[], kind: io::ErrorKind::Other };
        dump(&session, &mut out, &NoProgress).await.unwrap();
    });
}

/// Says stop after some steps.
struct Patience(std::sync::atomic::AtomicUsize);

impl Progress for Patience {
    fn advance(&self, _: u64, _: Option<u64>) {
        let _ = self.0.fetch_update(
            std::sync::atomic::Ordering::Relaxed,
            std::sync::atomic::Ordering::Relaxed,
            |left| left.checked_sub(1),
        );
    }

    fn goes_on(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed) > 0
    }
}

#[test]
fn both_can_be_stopped_at_any_step() {
    block_on(async {
        let bench = Bench::mem();
        let session = little(&bench).await;
        let stream = dumped(&session).await;
        let before = all_keys(&bench.world).await;
        for steps in 1.. {
            let patience = Patience(steps.into());
            match load(&bench.world, "new", &mut &stream[..], &patience).await {
                Ok(_) => {
                    assert!(steps > 10);
                    break;
                }
                Err(error) => assert_eq!(error.kind(), Kind::Interrupted),
            }
            assert_eq!(all_keys(&bench.world).await, before);
        }
        for steps in 1..100 {
            let mut out = Vec::new();
            match dump(&session, &mut out, &Patience(steps.into())).await {
                Ok(_) => {
                    assert!(steps > 5 && out == stream);
                    return;
                }
                Err(error) => assert_eq!(error.kind(), Kind::Interrupted),
            }
        }
        panic!("it never ends");
    });
}

#[test]
fn a_name_that_is_taken_is_refused() {
    block_on(async {
        let bench = Bench::mem();
        let session = little(&bench).await;
        let stream = dumped(&session).await;
        let before = crate::audit::dump(session.volume()).await;
        let told = load(&bench.world, "test", &mut &stream[..], &NoProgress).await;
        assert_eq!(told.unwrap_err().kind(), Kind::Exists);
        for (name, kind) in [("", Kind::Invalid), ("a/b", Kind::Invalid)] {
            let told = load(&bench.world, name, &mut &stream[..], &NoProgress).await;
            assert_eq!(told.unwrap_err().kind(), kind);
        }
        let long = "x".repeat(255);
        loaded(&bench.world, &long, &stream).await;
        // A volume of somebody's that has the name of the time of loading is not touched.
        let other = fs::dump::loading_name("new");
        Volume::format(&bench.world, &other, &FormatOptions::default()).await.unwrap();
        assert_eq!(refused(&bench.world, &stream).await.kind(), Kind::Exists);
        Volume::open(&bench.world, &other).await.unwrap();
        let mut names = Volume::list(&bench.world).await.unwrap();
        names.sort();
        assert_eq!(names, [other, "test".to_owned(), long]);
        assert!(crate::audit::dump(session.volume()).await == before);
    });
}
