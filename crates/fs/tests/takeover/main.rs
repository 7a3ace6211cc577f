//! A process dies and another takes over its client: what was done is answered and not done again, and
//! what the client has open stays.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use base::{Clock, Random, SeededRandom, SimClock, block_on};
use fs::{
    Asked, Caller, Check, FormatOptions, Handle, Kind, OpenFlags, ROOT, RenameFlags, Session,
    SessionOptions, Sharing, Volume, World, XattrMode,
};
use std::sync::Arc;

fn world() -> World {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(5));
    let engine = Arc::new(kv::mem::Mem::new());
    World {
        store: kv::Store::new(engine, clock.clone(), random.clone()),
        clock,
        random,
        home: None,
    }
}

async fn begin(volume: &Volume, generation: u64) -> Session {
    let options = SessionOptions {
        sharing: Sharing::Private,
        survives: true,
        takes_over: generation > 0,
        handles_from: generation << 40,
        ..SessionOptions::default()
    };
    Session::start(volume, options).await.unwrap()
}

fn root() -> Caller {
    Caller { uid: 0, gid: 0, groups: Vec::new(), umask: 0, checked_here: true }
}

fn first(number: u64) -> Asked {
    Asked { number, slot: number as u32 % 50, again: false }
}

fn again(number: u64) -> Asked {
    Asked { again: true, slot: 60, ..first(number) }
}

async fn clean(volume: &Volume) {
    let report = Check::new(volume).deep(true).run(&fs::NoProgress).await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn what_was_done_is_answered_and_not_done_again() {
    block_on(async {
        let world = world();
        Volume::format(&world, "v", &FormatOptions::default()).await.unwrap();
        let volume = Volume::open(&world, "v").await.unwrap();
        let a = begin(&volume, 0).await;
        let who = &root();
        let exclusive = OpenFlags { write: true, exclusive: true, ..OpenFlags::default() };
        let (made, _) = a.asked(first(2)).create(who, ROOT, b"f", 0o644, exclusive).await.unwrap();
        let dir = a.asked(first(4)).mkdir(who, ROOT, b"d", 0o755).await.unwrap();
        let link = a.asked(first(6)).link(who, made.ino, ROOT, b"l").await.unwrap();
        a.asked(first(8)).unlink(who, ROOT, b"l").await.unwrap();
        let target = a.asked(first(10)).symlink(who, ROOT, b"s", b"target").await.unwrap();
        let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
        a.asked(first(12)).rename(who, ROOT, b"f", ROOT, b"s", exchange).await.unwrap();
        a.asked(first(14))
            .setxattr(who, made.ino, b"user.a", b"1", XattrMode::Create)
            .await
            .unwrap();
        a.asked(first(16)).mkdir(who, ROOT, b"gone", 0o755).await.unwrap();
        a.asked(first(18)).rmdir(who, ROOT, b"gone").await.unwrap();
        // It dies: nothing is stopped.
        for generation in 1..4 {
            let b = begin(&volume, generation).await;
            b.maintain().await.unwrap();
            let (found, handle) =
                b.asked(again(2)).create(who, ROOT, b"f", 0o644, exclusive).await.unwrap();
            assert_eq!(found, made);
            assert!(handle.0 > generation << 40, "the number of no handle before");
            assert_eq!(b.asked(again(4)).mkdir(who, ROOT, b"d", 0o755).await.unwrap(), dir);
            assert_eq!(b.asked(again(6)).link(who, made.ino, ROOT, b"l").await.unwrap(), link);
            b.asked(again(8)).unlink(who, ROOT, b"l").await.unwrap();
            let same = b.asked(again(10)).symlink(who, ROOT, b"s", b"target").await.unwrap();
            assert_eq!(same, target);
            b.asked(again(12)).rename(who, ROOT, b"f", ROOT, b"s", exchange).await.unwrap();
            let set = b.asked(again(14));
            set.setxattr(who, made.ino, b"user.a", b"1", XattrMode::Create).await.unwrap();
            b.asked(again(18)).rmdir(who, ROOT, b"gone").await.unwrap();
            assert_eq!(b.lookup(who, ROOT, b"s").await.unwrap().ino, made.ino, "exchanged once");
            // What was not done before is done, once.
            let name = format!("new {generation}").into_bytes();
            let number = 100 + generation;
            let new = b.asked(again(number)).mkdir(who, ROOT, &name, 0o755).await.unwrap();
            let taken = b.asked(first(number)).mkdir(who, ROOT, &name, 0o755).await;
            assert_eq!(taken.unwrap_err().kind(), Kind::Exists);
            assert_eq!(b.lookup(who, ROOT, &name).await.unwrap().ino, new.ino);
            b.release(handle).await.unwrap();
            clean(&volume).await;
        }
        let last = begin(&volume, 4).await;
        last.maintain().await.unwrap();
        last.stop().await.unwrap();
        clean(&volume).await;
    });
}

#[test]
fn what_the_client_may_have_open_stays_until_it_is_forgotten() {
    block_on(async {
        let world = world();
        Volume::format(&world, "v", &FormatOptions::default()).await.unwrap();
        let volume = Volume::open(&world, "v").await.unwrap();
        let a = begin(&volume, 0).await;
        let who = &root();
        let usage = a.usage().await.unwrap();
        let mut made = Vec::new();
        for name in [b"before", b"later!"] {
            let (attr, handle) =
                a.create(who, ROOT, name, 0o644, OpenFlags::READ_WRITE).await.unwrap();
            a.write(who, handle, 0, &[7; 200_000]).await.unwrap();
            made.push(attr.ino);
        }
        a.unlink(who, ROOT, b"before").await.unwrap();
        let b = begin(&volume, 1).await;
        b.unlink(who, ROOT, b"later!").await.unwrap();
        let opened: Handle = b.open(who, made[0], OpenFlags::READ).await.unwrap();
        b.maintain().await.unwrap();
        for ino in &made {
            assert_eq!(b.getattr(*ino).await.unwrap().nlink, 0, "it is there, without a name");
        }
        b.release(opened).await.unwrap();
        b.maintain().await.unwrap();
        assert!(b.getattr(made[0]).await.is_ok(), "another handle of before may be open");
        b.forget(made[0]).await.unwrap();
        assert_eq!(b.getattr(made[0]).await.unwrap_err().kind(), Kind::NotFound);
        // The next one holds what is left.
        let c = begin(&volume, 2).await;
        c.maintain().await.unwrap();
        assert!(c.getattr(made[1]).await.is_ok());
        let opened = c.open(who, made[1], OpenFlags::READ).await.unwrap();
        c.forget(made[1]).await.unwrap();
        assert!(c.getattr(made[1]).await.is_ok(), "it is open here");
        c.release(opened).await.unwrap();
        assert_eq!(c.getattr(made[1]).await.unwrap_err().kind(), Kind::NotFound);
        while !c.maintain().await.unwrap().is_quiet() {}
        assert_eq!(c.usage().await.unwrap(), usage);
        c.stop().await.unwrap();
        clean(&volume).await;
    });
}
