//! Bytes that are given away before anybody asks for them.

use super::*;
use base::block_on;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

async fn alone(bench: &Bench) -> Session {
    let volume = bench.volume_with(&small()).await;
    let options = SessionOptions { sharing: Sharing::Private, ..SessionOptions::default() };
    Session::start(&volume, options).await.unwrap()
}

/// A call that waits as long as `held` is there, and is done then.
fn waits_for<T, H>(bench: &Bench, held: H, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(call.as_mut().poll(&mut context).is_pending());
        bench.clock.advance_to_next();
    }
    drop(held);
    bench.clock.advance_to_next();
    match call.poll(&mut context) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it still waits"),
    }
}

#[test]
fn they_stay_true_until_they_were_given() {
    let bench = Bench::mem();
    let session = block_on(alone(&bench));
    let (ino, opened) = block_on(async {
        let ino = file(&session, ROOT, b"f", &pattern(1, 1000)).await;
        (ino, session.open_noting(&root(), ino, OpenFlags::READ).await.unwrap())
    });
    assert!(opened.short);
    let ahead = block_on(session.bytes_ahead(opened.handle)).unwrap().unwrap();
    assert_eq!((ahead.ino, &ahead.bytes[..]), (ino, &pattern(1, 1000)[..]));
    let cut = waits_for(&bench, ahead, cut(&session, ino, 10)).unwrap();
    assert_eq!(cut.size, 10);
    // What was cut before is not given.
    let ahead = block_on(session.bytes_ahead(opened.handle)).unwrap().unwrap();
    assert_eq!(&ahead.bytes[..], &pattern(1, 1000)[..10]);
    let again =
        waits_for(&bench, ahead, session.open(&root(), ino, OpenFlags::READ_WRITE)).unwrap();
    // Whoever has it open may have asked already, and may change it.
    assert!(block_on(session.bytes_ahead(opened.handle)).unwrap().is_none());
    block_on(async {
        session.release(again).await.unwrap();
        assert!(session.bytes_ahead(opened.handle).await.unwrap().is_some());
        session.release(opened.handle).await.unwrap();
        session.stop().await.unwrap();
    });
}

#[test]
fn only_short_files_have_any() {
    let bench = Bench::mem();
    block_on(async {
        let session = alone(&bench).await;
        for (size, short) in [(0, false), (1, true), (INLINE, true), (INLINE + 1, false)] {
            let name = format!("{size}");
            let ino = file(&session, ROOT, name.as_bytes(), &pattern(1, size as usize)).await;
            let opened = session.open_noting(&root(), ino, OpenFlags::READ).await.unwrap();
            assert_eq!(opened.short, short, "{size}");
            session.release(opened.handle).await.unwrap();
            let anew = OpenFlags { truncate: true, ..OpenFlags::READ_WRITE };
            let opened = session.open_noting(&root(), ino, anew).await.unwrap();
            assert!(!opened.short, "{size}");
            session.release(opened.handle).await.unwrap();
        }
        let ino = file(&session, ROOT, b"f", &pattern(1, 100)).await;
        let write = OpenFlags { read: false, write: true, ..OpenFlags::READ };
        let handle = session.open(&root(), ino, write).await.unwrap();
        assert!(session.bytes_ahead(handle).await.unwrap().is_none(), "it may not read");
        session.release(handle).await.unwrap();
        session.stop().await.unwrap();
    });
}

#[test]
fn nobody_is_given_what_others_may_change() {
    let bench = Bench::mem();
    block_on(async {
        let volume = bench.volume_with(&small()).await;
        let session = Session::start(&volume, shared()).await.unwrap();
        let ino = file(&session, ROOT, b"f", &pattern(1, 100)).await;
        let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
        assert!(session.bytes_ahead(handle).await.unwrap().is_none());
        session.release(handle).await.unwrap();
        session.stop().await.unwrap();
    });
}
