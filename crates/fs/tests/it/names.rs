//! Names: rename, links, bounds, and the numbers of inodes.

mod listing;
mod permissions;
mod times;

use crate::audit::audit;
use crate::world::*;
use base::sync::Mutex;
use base::{Random, SeededRandom, block_on};
use fs::schema::{Inode, Parsed};
use fs::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const PLAIN: RenameFlags = RenameFlags { no_replace: false, exchange: false, whiteout: false };
const NO_REPLACE: RenameFlags = RenameFlags { no_replace: true, ..PLAIN };
const EXCHANGE: RenameFlags = RenameFlags { exchange: true, ..PLAIN };
const WHITEOUT: RenameFlags = RenameFlags { whiteout: true, ..PLAIN };

async fn session() -> (Bench, Session) {
    let bench = Bench::mem();
    let session = private_session(&bench.volume().await).await;
    (bench, session)
}

fn kind<T>(result: Result<T>) -> Kind {
    match result {
        Ok(_) => panic!("it was allowed"),
        Err(error) => error.kind(),
    }
}

fn chmod(bits: u32) -> SetAttr {
    SetAttr { mode: Some(bits), ..SetAttr::default() }
}

fn chown(uid: u32, gid: u32) -> SetAttr {
    SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() }
}

async fn set(session: &Session, ino: Ino, set: SetAttr) -> Attr {
    session.setattr(&root(), ino, &set, None).await.unwrap()
}

async fn find(session: &Session, parent: Ino, name: &[u8]) -> Option<Ino> {
    match session.lookup(&root(), parent, name).await {
        Ok(attr) => Some(attr.ino),
        Err(error) => {
            assert_eq!(error.kind(), Kind::NotFound);
            None
        }
    }
}

fn name(number: usize) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

#[test]
fn rename_moves_and_replaces() {
    block_on(async {
        let (_, session) = session().await;
        let rename = |from, name, to, new_name| {
            let session = session.clone();
            async move { session.rename(&root(), from, name, to, new_name, PLAIN).await }
        };
        let (one, two) = (dir(&session, b"one").await, dir(&session, b"two").await);
        let ino = file(&session, one, b"f", b"x").await;
        let old = file(&session, two, b"g", &pattern(1, 100_000)).await;
        rename(one, b"f", two, b"g").await.unwrap();
        assert_eq!(find(&session, two, b"g").await, Some(ino));
        assert_eq!(find(&session, one, b"f").await, None);
        assert_eq!(kind(session.getattr(old).await), Kind::NotFound);
        // A directory takes its .. along, and its parents count it.
        rename(ROOT, b"two", one, b"two").await.unwrap();
        assert_eq!(session.lookup(&root(), two, b"..").await.unwrap().ino, one);
        assert_eq!(session.getattr(ROOT).await.unwrap().nlink, 3);
        assert_eq!(session.getattr(one).await.unwrap().nlink, 3);
        // What cannot be.
        assert_eq!(kind(rename(ROOT, b"one", two, b"in").await), Kind::Invalid);
        assert_eq!(kind(rename(ROOT, b"one", one, b"in").await), Kind::Invalid);
        assert_eq!(kind(rename(two, b"g", ROOT, b"one").await), Kind::NotEmpty);
        assert_eq!(kind(rename(one, b"two", two, b"g").await), Kind::Invalid);
        let empty = dir(&session, b"empty").await;
        assert_eq!(kind(rename(two, b"g", ROOT, b"empty").await), Kind::IsDirectory);
        assert_eq!(kind(rename(ROOT, b"empty", two, b"g").await), Kind::NotDirectory);
        assert_eq!(kind(rename(ROOT, b"empty", ROOT, b"one").await), Kind::NotEmpty);
        assert_eq!(kind(rename(ROOT, b"none", ROOT, b"n").await), Kind::NotFound);
        assert_eq!(kind(rename(ROOT, b".", ROOT, b"n").await), Kind::Busy);
        assert_eq!(kind(rename(ROOT, b"one", ROOT, b"..").await), Kind::Busy);
        assert_eq!(kind(rename(ROOT, b"one", ino, b"n").await), Kind::NotDirectory);
        // An empty directory is replaced.
        let other = dir(&session, b"other").await;
        rename(ROOT, b"other", ROOT, b"empty").await.unwrap();
        assert_eq!(find(&session, ROOT, b"empty").await, Some(other));
        assert_eq!(kind(session.getattr(empty).await), Kind::NotFound);
        // To itself: nothing.
        rename(ROOT, b"empty", ROOT, b"empty").await.unwrap();
        settle(&session).await;
        audit(session.volume(), true).await;
    });
}

#[test]
fn rename_of_one_name_over_another_of_the_same_file_does_nothing() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"a", b"x").await;
        session.link(&root(), ino, ROOT, b"b").await.unwrap();
        for flags in [PLAIN, EXCHANGE] {
            session.rename(&root(), ROOT, b"a", ROOT, b"b", flags).await.unwrap();
            assert_eq!(session.getattr(ino).await.unwrap().nlink, 2);
            assert_eq!(names_of(&session, ROOT).await, [b"a", b"b"]);
        }
    });
}

#[test]
fn rename_that_must_not_replace_does_not() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"a", b"x").await;
        file(&session, ROOT, b"b", b"y").await;
        let told = session.rename(&root(), ROOT, b"a", ROOT, b"b", NO_REPLACE).await;
        assert_eq!(kind(told), Kind::Exists);
        let told = session.rename(&root(), ROOT, b"a", ROOT, b"a", NO_REPLACE).await;
        assert_eq!(kind(told), Kind::Exists);
        session.rename(&root(), ROOT, b"a", ROOT, b"c", NO_REPLACE).await.unwrap();
        assert_eq!(find(&session, ROOT, b"c").await, Some(ino));
    });
}

#[test]
fn rename_exchanges_two_names_of_any_kind() {
    block_on(async {
        let (_, session) = session().await;
        let (one, two) = (dir(&session, b"one").await, dir(&session, b"two").await);
        let under = session.mkdir(&root(), one, b"under", 0o755).await.unwrap().ino;
        file(&session, under, b"deep", b"x").await;
        let ino = file(&session, two, b"f", b"x").await;
        let exchange = |from, name, to, new_name| {
            let session = session.clone();
            async move { session.rename(&root(), from, name, to, new_name, EXCHANGE).await }
        };
        exchange(one, b"under", two, b"f").await.unwrap();
        assert_eq!(find(&session, one, b"under").await, Some(ino));
        assert_eq!(find(&session, two, b"f").await, Some(under));
        assert_eq!(session.lookup(&root(), under, b"..").await.unwrap().ino, two);
        assert_eq!(session.getattr(one).await.unwrap().nlink, 2);
        assert_eq!(session.getattr(two).await.unwrap().nlink, 3);
        assert_eq!(kind(exchange(one, b"under", two, b"none").await), Kind::NotFound);
        // Neither may come to lie in itself.
        assert_eq!(kind(exchange(ROOT, b"two", under, b"deep").await), Kind::Invalid);
        assert_eq!(kind(exchange(under, b"deep", ROOT, b"two").await), Kind::Invalid);
        for flags in [
            RenameFlags { no_replace: true, ..EXCHANGE },
            RenameFlags { whiteout: true, ..EXCHANGE },
        ] {
            let told = session.rename(&root(), ROOT, b"one", ROOT, b"two", flags).await;
            assert_eq!(kind(told), Kind::Invalid);
        }
        audit(session.volume(), true).await;
    });
}

#[test]
fn rename_can_leave_a_whiteout() {
    block_on(async {
        let (_, session) = session().await;
        let to = dir(&session, b"to").await;
        for (name, flags) in
            [(b"a", WHITEOUT), (b"b", RenameFlags { no_replace: true, ..WHITEOUT })]
        {
            let ino = file(&session, ROOT, name, b"x").await;
            session.rename(&root(), ROOT, name, to, name, flags).await.unwrap();
            assert_eq!(find(&session, to, name).await, Some(ino));
            let left = session.lookup(&root(), ROOT, name).await.unwrap();
            assert_eq!((left.mode, left.rdev, left.nlink), (mode::CHARACTER, 0, 1));
        }
        assert_eq!(session.usage().await.unwrap().1, 6);
        audit(session.volume(), true).await;
    });
}

#[test]
fn hard_links_are_one_file() {
    block_on(async {
        let (bench, session) = session().await;
        let ino = file(&session, ROOT, b"a", b"x").await;
        let to = dir(&session, b"to").await;
        bench.clock.advance(Duration::from_secs(5));
        let made = session.getattr(ino).await.unwrap();
        let linked = session.link(&root(), ino, to, b"b").await.unwrap();
        assert_eq!((linked.ino, linked.nlink), (ino, 2));
        assert!(linked.ctime > made.ctime && linked.mtime == made.mtime);
        assert_eq!(kind(session.link(&root(), ino, to, b"b").await), Kind::Exists);
        assert_eq!(kind(session.link(&root(), ino, to, b"..").await), Kind::Exists);
        assert_eq!(kind(session.link(&root(), to, ROOT, b"d").await), Kind::NotPermitted);
        assert_eq!(kind(session.link(&root(), ino, ino, b"n").await), Kind::NotDirectory);
        let handle = session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
        session.write(&root(), handle, 0, b"both").await.unwrap();
        session.release(handle).await.unwrap();
        session.unlink(&root(), ROOT, b"a").await.unwrap();
        assert_eq!(session.getattr(ino).await.unwrap().nlink, 1);
        assert_eq!(contents(&session, ino).await, b"both");
        let link = session.symlink(&root(), ROOT, b"l", b"a").await.unwrap();
        assert_eq!(session.link(&root(), link.ino, ROOT, b"m").await.unwrap().nlink, 2);
        assert_eq!(session.readlink(link.ino).await.unwrap(), &b"a"[..]);
        audit(session.volume(), true).await;
    });
}

#[test]
fn an_inode_has_a_bound_of_links() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"a", b"x").await;
        let key = session.volume().keys().unparse(&Parsed::Inode { ino });
        let mut txn = session.volume().world().store.begin().await.unwrap();
        let record = txn.get(&key, kv::Read::Serializable).await.unwrap().unwrap();
        let mut inode = Inode::decode(&key, ino, &record).unwrap();
        inode.nlink = LINKS_MAX - 1;
        txn.put(&key, inode.encode(&key, ino)).unwrap();
        txn.commit(kv::Durability::Process).await.unwrap();
        assert_eq!(session.link(&root(), ino, ROOT, b"b").await.unwrap().nlink, LINKS_MAX);
        assert_eq!(kind(session.link(&root(), ino, ROOT, b"c").await), Kind::TooManyLinks);
        assert_eq!(find(&session, ROOT, b"c").await, None);
        session.unlink(&root(), ROOT, b"b").await.unwrap();
        assert_eq!(session.link(&root(), ino, ROOT, b"c").await.unwrap().nlink, LINKS_MAX);
    });
}

#[test]
fn names_have_bounds_and_any_bytes_but_two() {
    block_on(async {
        let (_, session) = session().await;
        let make = |name: Vec<u8>| {
            let session = session.clone();
            async move { session.mkdir(&root(), ROOT, &name, 0o755).await }
        };
        make(vec![b'x'; NAME_BYTES_MAX]).await.unwrap();
        make(vec![0xff; NAME_BYTES_MAX]).await.unwrap();
        assert_eq!(kind(make(vec![b'x'; NAME_BYTES_MAX + 1]).await), Kind::NameTooLong);
        assert_eq!(kind(make(Vec::new()).await), Kind::NotFound);
        assert_eq!(kind(make(b"a/b".to_vec()).await), Kind::Invalid);
        assert_eq!(kind(make(b"a\0b".to_vec()).await), Kind::Invalid);
        assert_eq!(kind(make(b".".to_vec()).await), Kind::Exists);
        assert_eq!(kind(make(b"..".to_vec()).await), Kind::Exists);
        assert_eq!(kind(make(vec![0xff; NAME_BYTES_MAX]).await), Kind::Exists);
        let long = vec![b'x'; NAME_BYTES_MAX + 1];
        let told = session.rename(&root(), ROOT, b"n", ROOT, &long, PLAIN).await;
        assert_eq!(kind(told), Kind::NameTooLong);
        assert_eq!(kind(session.lookup(&root(), ROOT, &long).await), Kind::NameTooLong);
        assert_eq!(kind(session.unlink(&root(), ROOT, &long).await), Kind::NameTooLong);
        // Every byte, and every order.
        let mut wanted: Vec<Vec<u8>> = names_of(&session, ROOT).await;
        for byte in (1..=255u8).filter(|byte| *byte != b'/') {
            for name in [vec![byte, b'x', byte], vec![byte, 0xfe, byte]] {
                make(name.clone()).await.unwrap();
                wanted.push(name);
            }
        }
        wanted.sort();
        assert_eq!(names_of(&session, ROOT).await, wanted);
        for name in wanted {
            session.rmdir(&root(), ROOT, &name).await.unwrap();
        }
    });
}

#[test]
fn symbolic_links_have_a_bound() {
    block_on(async {
        let (_, session) = session().await;
        let link = |target: Vec<u8>| {
            let session = session.clone();
            async move { session.symlink(&root(), ROOT, b"l", &target).await }
        };
        assert_eq!(kind(link(vec![b'x'; SYMLINK_BYTES_MAX + 1]).await), Kind::NameTooLong);
        assert_eq!(kind(link(Vec::new()).await), Kind::NotFound);
        assert_eq!(kind(link(b"a\0b".to_vec()).await), Kind::Invalid);
        let made = link(vec![b'/'; SYMLINK_BYTES_MAX]).await.unwrap();
        assert_eq!(made.size, SYMLINK_BYTES_MAX as u64);
        assert_eq!(session.readlink(made.ino).await.unwrap(), vec![b'/'; SYMLINK_BYTES_MAX]);
        assert_eq!(kind(session.readlink(ROOT).await), Kind::Invalid);
        assert_eq!(kind(session.open(&root(), made.ino, OpenFlags::READ).await), Kind::Loop);
    });
}

#[test]
fn a_file_has_a_largest_size() {
    block_on(async {
        let (_, session) = session().await;
        let flags = OpenFlags::READ_WRITE;
        let (attr, handle) = session.create(&root(), ROOT, b"f", 0o644, flags).await.unwrap();
        let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
        let told = session.setattr(&root(), attr.ino, &size(FILE_BYTES_MAX + 1), None).await;
        assert_eq!(kind(told), Kind::FileTooBig);
        let written = session.write(&root(), handle, FILE_BYTES_MAX, b"x").await;
        assert_eq!(kind(written), Kind::FileTooBig);
        assert_eq!(session.getattr(attr.ino).await.unwrap().size, 0);
        // What still fits is written.
        let written = session.write(&root(), handle, FILE_BYTES_MAX - 3, b"abcdef").await;
        assert_eq!(written.unwrap(), 3);
        assert_eq!(session.getattr(attr.ino).await.unwrap().size, FILE_BYTES_MAX);
        assert_eq!(session.read(handle, FILE_BYTES_MAX - 5, 9).await.unwrap(), &b"\0\0abc"[..]);
        let append = OpenFlags { append: true, ..flags };
        let appending = session.open(&root(), attr.ino, append).await.unwrap();
        let written = session.write(&root(), appending, 0, b"x").await;
        assert_eq!(kind(written), Kind::FileTooBig);
        let what = Fallocate::Allocate { keep_size: true };
        let told = session.fallocate(&root(), handle, what, FILE_BYTES_MAX, 1).await;
        assert_eq!(kind(told), Kind::FileTooBig);
        session.setattr(&root(), attr.ino, &size(5), None).await.unwrap();
        settle(&session).await;
        audit(session.volume(), true).await;
        assert_eq!(session.usage().await.unwrap().0, 0);
    });
}

#[test]
fn numbers_of_inodes_are_never_used_again() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let mut seen = BTreeSet::new();
        for round in 0..6 {
            let sharing = if round % 2 == 0 { Sharing::Private } else { Sharing::Shared };
            let session = Session::start(&volume, SessionOptions { sharing, ..shared() });
            let session = session.await.unwrap();
            for _ in 0..50 {
                let ino = file(&session, ROOT, b"f", b"").await;
                assert!(seen.insert(ino), "{ino}");
                assert!(ino >= 256);
                session.unlink(&root(), ROOT, b"f").await.unwrap();
                let made = session.mkdir(&root(), ROOT, b"d", 0o755).await.unwrap();
                assert!(seen.insert(made.ino));
                session.rmdir(&root(), ROOT, b"d").await.unwrap();
            }
            // Stopped, or dead.
            if round % 3 == 0 {
                session.stop().await.unwrap();
            }
        }
    });
}

/// A source that says everything three times.
#[derive(Debug)]
struct Echo {
    random: SeededRandom,
    last: Mutex<(u64, u32)>,
}

impl Random for Echo {
    fn next_u64(&self) -> u64 {
        let mut last = self.last.lock();
        if last.1 == 0 {
            *last = (self.random.next_u64(), 3);
        }
        last.1 -= 1;
        last.0
    }
}

#[test]
fn a_number_that_is_taken_is_drawn_again() {
    block_on(async {
        let bench = Bench::mem();
        bench.volume().await;
        let random = Echo { random: SeededRandom::new(3), last: Mutex::new((0, 0)) };
        let world = World { random: Arc::new(random), ..bench.world.clone() };
        let volume = Volume::open(&world, "test").await.unwrap();
        let session = shared_session(&volume).await;
        let mut seen = BTreeSet::new();
        for number in 0..40 {
            let ino = file(&session, ROOT, &name(number), &pattern(number as u8, 50_000)).await;
            assert!(seen.insert(ino));
        }
        assert!(session.counts().inode_collisions > 20);
        for number in 0..40 {
            let found = session.lookup(&root(), ROOT, &name(number)).await.unwrap();
            assert_eq!(contents(&session, found.ino).await, pattern(number as u8, 50_000));
        }
        settle(&session).await;
        audit(&volume, true).await;
    });
}
