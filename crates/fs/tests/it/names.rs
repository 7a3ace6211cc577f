//! Names and permissions: rename, links, who may do what, bounds, numbers, listings and times.

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
fn a_sticky_directory_protects_names_from_others() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"tmp").await;
        set(&session, ino, chmod(0o1777)).await;
        set(&session, ino, chown(50, 50)).await;
        let (owner, other) = (Caller::user(7, 7), Caller::user(8, 8));
        session.mknod(&owner, ino, b"f", mode::FILE | 0o666, 0).await.unwrap();
        session.mkdir(&owner, ino, b"d", 0o777).await.unwrap();
        session.mknod(&other, ino, b"mine", mode::FILE | 0o666, 0).await.unwrap();
        assert_eq!(kind(session.unlink(&other, ino, b"f").await), Kind::NotPermitted);
        assert_eq!(kind(session.rmdir(&other, ino, b"d").await), Kind::NotPermitted);
        let rename = |caller: &Caller, from: &'static [u8], to: &'static [u8], flags| {
            let (session, caller) = (session.clone(), caller.clone());
            async move { session.rename(&caller, ino, from, ino, to, flags).await }
        };
        assert_eq!(kind(rename(&other, b"f", b"g", PLAIN).await), Kind::NotPermitted);
        assert_eq!(kind(rename(&other, b"mine", b"f", PLAIN).await), Kind::NotPermitted);
        assert_eq!(kind(rename(&other, b"mine", b"f", EXCHANGE).await), Kind::NotPermitted);
        // The owner of the name, of the directory, and the superuser.
        rename(&owner, b"f", b"g", PLAIN).await.unwrap();
        rename(&Caller::user(50, 1), b"g", b"h", PLAIN).await.unwrap();
        session.unlink(&root(), ino, b"h").await.unwrap();
        session.rmdir(&owner, ino, b"d").await.unwrap();
        set(&session, ino, chmod(0o777)).await;
        session.unlink(&owner, ino, b"mine").await.unwrap();
    });
}

#[test]
fn a_set_group_directory_gives_its_group_to_what_is_made_in_it() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"team").await;
        set(&session, ino, chown(50, 60)).await;
        set(&session, ino, chmod(0o2777)).await;
        let caller = Caller::user(7, 7);
        let made = session.mknod(&caller, ino, b"f", mode::FILE | 0o644, 0).await.unwrap();
        assert_eq!((made.uid, made.gid, made.mode & 0o7777), (7, 60, 0o644));
        let under = session.mkdir(&caller, ino, b"d", 0o755).await.unwrap();
        assert_eq!((under.gid, under.mode & 0o7777), (60, 0o2755));
        let link = session.symlink(&caller, ino, b"l", b"x").await.unwrap();
        assert_eq!(link.gid, 60);
        // A program of a group that its maker is not in does not run as that group.
        let program = mode::FILE | 0o2755;
        let made = session.mknod(&caller, ino, b"p", program, 0).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o755);
        let member = Caller { groups: vec![60], ..caller.clone() };
        let made = session.mknod(&member, ino, b"q", program, 0).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o2755);
        set(&session, ino, chmod(0o777)).await;
        let made = session.mkdir(&caller, ino, b"e", 0o755).await.unwrap();
        assert_eq!((made.gid, made.mode & 0o7777), (7, 0o755));
    });
}

#[test]
fn the_umask_is_taken_from_the_mode_of_what_is_made() {
    block_on(async {
        let (_, session) = session().await;
        let caller = Caller { umask: 0o027, ..Caller::root() };
        let made = session.mkdir(&caller, ROOT, b"d", 0o1777).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o1750);
        let made = session.mknod(&caller, ROOT, b"p", mode::FIFO | 0o666, 0).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o640);
        let flags = OpenFlags::READ;
        let (made, _) = session.create(&caller, ROOT, b"f", 0o4777, flags).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o4750);
        let made = session.symlink(&caller, ROOT, b"l", b"x").await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o777);
    });
}

#[test]
fn who_may_change_the_mode() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, chown(7, 60)).await;
        let owner = Caller::user(7, 7);
        let told = session.setattr(&Caller::user(8, 60), ino, &chmod(0o666), None).await;
        assert_eq!(kind(told), Kind::NotPermitted);
        let told = session.setattr(&owner, ino, &chmod(0o4711), None).await.unwrap();
        assert_eq!(told.mode, mode::FILE | 0o4711);
        // The set-group bit only of a group of one's own.
        let told = session.setattr(&owner, ino, &chmod(0o2755), None).await.unwrap();
        assert_eq!(told.mode & 0o7777, 0o755);
        let member = Caller { groups: vec![60], ..owner };
        let told = session.setattr(&member, ino, &chmod(0o2755), None).await.unwrap();
        assert_eq!(told.mode & 0o7777, 0o2755);
        // Type bits are no business of chmod.
        let told = session.setattr(&member, ino, &chmod(mode::DIRECTORY | 0o600), None).await;
        assert_eq!(told.unwrap().mode, mode::FILE | 0o600);
    });
}

#[test]
fn who_may_change_the_owner_and_what_that_takes_away() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, chown(7, 60)).await;
        let owner = Caller { groups: vec![61], ..Caller::user(7, 7) };
        let to = |uid: Option<u32>, gid: Option<u32>| SetAttr { uid, gid, ..SetAttr::default() };
        for (caller, set) in [
            (&owner, to(Some(8), None)),
            (&owner, to(None, Some(99))),
            (&Caller::user(8, 61), to(None, Some(61))),
        ] {
            let told = session.setattr(caller, ino, &set, None).await;
            assert_eq!(kind(told), Kind::NotPermitted);
        }
        set(&session, ino, chmod(0o6755)).await;
        let told = session.setattr(&owner, ino, &to(Some(7), Some(61)), None).await.unwrap();
        assert_eq!((told.uid, told.gid, told.mode & 0o7777), (7, 61, 0o755));
        // Without the group's execute bit the set-group bit means locking, and stays.
        set(&session, ino, chmod(0o6705)).await;
        let told = set(&session, ino, chown(8, 8)).await;
        assert_eq!((told.uid, told.gid, told.mode & 0o7777), (8, 8, 0o2705));
        let ino = dir(&session, b"d").await;
        set(&session, ino, chmod(0o6755)).await;
        assert_eq!(set(&session, ino, chown(8, 8)).await.mode & 0o7777, 0o6755);
    });
}

#[test]
fn writing_takes_the_set_id_bits_away_unless_the_superuser_writes() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        let write = |caller: Caller| {
            let session = session.clone();
            async move {
                set(&session, ino, chmod(0o6777)).await;
                let handle = session.open(&caller, ino, OpenFlags::READ_WRITE).await.unwrap();
                session.write(&caller, handle, 0, b"y").await.unwrap();
                session.release(handle).await.unwrap();
                session.getattr(ino).await.unwrap().mode & 0o7777
            }
        };
        assert_eq!(write(Caller::user(7, 7)).await, 0o777);
        assert_eq!(write(Caller::root()).await, 0o6777);
        let size = SetAttr { size: Some(0), ..SetAttr::default() };
        let told = session.setattr(&Caller::user(7, 7), ino, &size, None).await.unwrap();
        assert_eq!(told.mode & 0o7777, 0o777);
    });
}

#[test]
fn who_may_set_times() {
    block_on(async {
        let (bench, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, chown(7, 60)).await;
        set(&session, ino, chmod(0o660)).await;
        let (owner, writer, other) = (Caller::user(7, 7), Caller::user(8, 60), Caller::user(9, 9));
        let long_ago = Some(SetTime::To(Time { secs: -5, nanos: 7 }));
        let times = |atime, mtime| SetAttr { atime, mtime, ..SetAttr::default() };
        let both_now = times(Some(SetTime::Now), Some(SetTime::Now));
        for (caller, set, wanted) in [
            (&other, both_now, Kind::AccessDenied),
            (&other, times(long_ago, None), Kind::NotPermitted),
            (&writer, times(long_ago, long_ago), Kind::NotPermitted),
            (&writer, times(Some(SetTime::Now), None), Kind::NotPermitted),
        ] {
            assert_eq!(kind(session.setattr(caller, ino, &set, None).await), wanted);
        }
        bench.clock.advance(Duration::from_secs(9));
        let told = session.setattr(&writer, ino, &both_now, None).await.unwrap();
        assert_eq!((told.atime, told.mtime), (told.ctime, told.ctime));
        bench.clock.advance(Duration::from_secs(9));
        let now = told.ctime;
        let told = session.setattr(&owner, ino, &times(long_ago, long_ago), None).await.unwrap();
        let wanted = Time { secs: -5, nanos: 7 };
        assert_eq!((told.atime, told.mtime), (wanted, wanted));
        assert_eq!(told.ctime.secs, now.secs + 9);
        assert_eq!(session.getattr(ino).await.unwrap(), told);
        let bad = Some(SetTime::To(Time { secs: 0, nanos: 1_000_000_000 }));
        assert_eq!(
            kind(session.setattr(&owner, ino, &times(bad, None), None).await),
            Kind::Invalid
        );
        // Of a directory: what is set holds until its names change.
        let ino = dir(&session, b"d").await;
        file(&session, ino, b"n", b"").await;
        assert_eq!(set(&session, ino, times(None, long_ago)).await.mtime, wanted);
        assert_eq!(session.getattr(ino).await.unwrap().mtime, wanted);
        file(&session, ino, b"m", b"").await;
        assert_eq!(session.getattr(ino).await.unwrap().mtime.secs, now.secs + 9);
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

/// All entries of a directory in pages of `limit`, with `between` done after each page.
async fn list(
    session: &Session,
    handle: DirHandle,
    limit: usize,
    mut between: impl AsyncFnMut(usize),
) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = Vec::new();
    for page in 0.. {
        let cookie = entries.last().map_or(0, |entry| entry.cookie);
        let more = session.readdir(handle, cookie, limit).await.unwrap();
        if more.is_empty() {
            break;
        }
        assert!(more.len() <= limit);
        entries.extend(more);
        between(page).await;
    }
    entries
}

fn name(number: usize) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

#[test]
fn a_listing_of_a_small_directory_is_one_snapshot() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"d").await;
        for number in 0..100 {
            session.mknod(&root(), ino, &name(number), mode::FIFO, 0).await.unwrap();
        }
        let handle = session.opendir(&root(), ino).await.unwrap();
        let entries = list(&session, handle, 7, async |page| {
            session.unlink(&root(), ino, &name(99 - page)).await.unwrap();
            session.mknod(&root(), ino, &name(200 + page), mode::FIFO, 0).await.unwrap();
            session
                .rename(&root(), ino, &name(50 + page), ino, &name(300 + page), PLAIN)
                .await
                .unwrap();
        })
        .await;
        let listed: Vec<Vec<u8>> =
            entries.iter().skip(2).map(|entry| entry.name.to_vec()).collect();
        assert_eq!(listed, (0..100).map(name).collect::<Vec<_>>());
        // A cookie can be used again, and zero begins anew.
        let again = session.readdir(handle, entries[30].cookie, 5).await.unwrap();
        assert_eq!(again, entries[31..36]);
        let anew = list(&session, handle, 1000, async |_| {}).await;
        assert_eq!(anew.len(), 102);
        assert_ne!(anew[90].name, entries[90].name);
        // What was removed meanwhile has no attributes to tell, and is left out.
        session.unlink(&root(), ino, &name(3)).await.unwrap();
        let plus = session.readdirplus(handle, anew[3].cookie, 3).await.unwrap();
        let names: Vec<_> = plus.iter().map(|(entry, _)| entry.name.to_vec()).collect();
        assert_eq!(names, [name(2), name(4)]);
        session.releasedir(handle).await.unwrap();
    });
}

#[test]
fn a_listing_of_a_large_directory_has_what_stays_exactly_once() {
    const COUNT: usize = 70_000;
    const { assert!(COUNT > fs::op::LISTING_ENTRIES) };
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"d").await;
        for number in 0..COUNT {
            session.mknod(&root(), ino, &name(number * 2), mode::FIFO, 0).await.unwrap();
        }
        let handle = session.opendir(&root(), ino).await.unwrap();
        let mut gone = BTreeSet::new();
        let mut new = BTreeSet::new();
        let entries = list(&session, handle, 3000, async |page| {
            // Before, behind and around where the listing is.
            for number in [page * 10, page * 3000 + 5, COUNT - 1 - page * 7] {
                if number < COUNT && gone.insert(name(number * 2)) {
                    session.unlink(&root(), ino, &name(number * 2)).await.unwrap();
                }
                let odd = name(number * 2 + 1);
                if new.insert(odd.clone()) {
                    session.mknod(&root(), ino, &odd, mode::FIFO, 0).await.unwrap();
                }
            }
        })
        .await;
        let listed: Vec<&[u8]> = entries.iter().skip(2).map(|entry| &entry.name[..]).collect();
        assert!(listed.windows(2).all(|pair| pair[0] < pair[1]), "a name twice, or out of order");
        let seen: BTreeSet<&[u8]> = listed.into_iter().collect();
        for number in 0..COUNT {
            let name = name(number * 2);
            assert!(gone.contains(&name) || seen.contains(&name[..]), "{number} is missing");
        }
        let known = |name: &&&[u8]| {
            new.contains(**name)
                || std::str::from_utf8(name).unwrap().parse::<usize>().unwrap() % 2 == 0
        };
        assert_eq!(seen.iter().filter(known).count(), seen.len());
        let cookies: BTreeSet<u64> = entries.iter().map(|entry| entry.cookie).collect();
        assert_eq!(cookies.len(), entries.len());
        // Back to an earlier cookie, in a part that is no longer in memory.
        let again = session.readdir(handle, entries[100].cookie, 1).await.unwrap();
        assert!(again[0].name >= entries[100].name);
        session.releasedir(handle).await.unwrap();
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

/// When the file was read, as told after each of: a first read, one a minute later, one a day later.
async fn reads(atime: Atime) -> Vec<bool> {
    let bench = Bench::mem();
    let volume = bench.volume().await;
    let session = Session::start(&volume, SessionOptions { atime, ..SessionOptions::default() })
        .await
        .unwrap();
    let ino = file(&session, ROOT, b"f", b"x").await;
    let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
    let mut changed = Vec::new();
    for wait in [5, 60, 24 * 3600] {
        bench.clock.advance(Duration::from_secs(wait));
        let before = session.getattr(ino).await.unwrap();
        session.read(handle, 0, 1).await.unwrap();
        let after = session.getattr(ino).await.unwrap();
        assert_eq!((after.mtime, after.ctime), (before.mtime, before.ctime));
        changed.push(after.atime != before.atime);
        if after.atime != before.atime {
            assert_eq!(after.atime, session_now(&bench));
        }
        // What is told stays true when it has been written.
        settle(&session).await;
        assert_eq!(session.getattr(ino).await.unwrap().atime, after.atime);
    }
    session.release(handle).await.unwrap();
    changed
}

fn session_now(bench: &Bench) -> Time {
    let (secs, nanos) = bench.world.clock.wall();
    Time { secs, nanos }
}

#[test]
fn reading_changes_the_access_time_as_the_session_was_told() {
    block_on(async {
        assert_eq!(reads(Atime::Strict).await, [true, true, true]);
        assert_eq!(reads(Atime::Relative).await, [true, false, true]);
        assert_eq!(reads(Atime::Off).await, [false, false, false]);
    });
}

#[test]
fn a_change_makes_the_next_read_count() {
    block_on(async {
        let (bench, session) = session().await;
        for len in [10, 100_000] {
            let ino = file(&session, ROOT, b"f", &pattern(1, len)).await;
            let handle = session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
            for _ in 0..3 {
                bench.clock.advance(Duration::from_secs(10));
                session.write(&root(), handle, 0, b"y").await.unwrap();
                bench.clock.advance(Duration::from_secs(10));
                session.read(handle, 0, 1).await.unwrap();
                let attr = session.getattr(ino).await.unwrap();
                assert_eq!(attr.atime, session_now(&bench));
                assert!(attr.atime > attr.mtime);
            }
            session.release(handle).await.unwrap();
            session.unlink(&root(), ROOT, b"f").await.unwrap();
        }
    });
}

#[test]
fn listing_and_following_a_link_are_reads_and_others_see_them() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
        let link = a.symlink(&root(), ROOT, b"l", b"x").await.unwrap().ino;
        let d = dir(&a, b"d").await;
        bench.clock.advance(Duration::from_secs(10));
        let now = session_now(&bench);
        a.readlink(link).await.unwrap();
        names_of(&a, d).await;
        for ino in [link, d] {
            assert_eq!(a.getattr(ino).await.unwrap().atime, now);
            assert!(b.getattr(ino).await.unwrap().atime < now, "reading commits nothing");
        }
        settle(&a).await;
        for ino in [link, d] {
            assert_eq!(b.getattr(ino).await.unwrap().atime, now);
        }
        // What a caller sets is not undone by what waited.
        bench.clock.advance(Duration::from_secs(100_000));
        a.readlink(link).await.unwrap();
        let to = SetTime::To(Time { secs: 7, nanos: 0 });
        let times = SetAttr { atime: Some(to), ..SetAttr::default() };
        a.setattr(&root(), link, &times, None).await.unwrap();
        settle(&a).await;
        assert_eq!(b.getattr(link).await.unwrap().atime.secs, 7);
    });
}

#[test]
fn directories_say_when_their_names_changed() {
    block_on(async {
        let (bench, session) = session().await;
        let (one, two) = (dir(&session, b"one").await, dir(&session, b"two").await);
        let mut last = session_now(&bench);
        let mut moved = async |changed: &[Ino], same: &[Ino]| {
            for ino in changed {
                let attr = session.getattr(*ino).await.unwrap();
                assert_eq!((attr.mtime, attr.ctime), (session_now(&bench), session_now(&bench)));
            }
            for ino in same {
                assert!(session.getattr(*ino).await.unwrap().mtime <= last);
            }
            last = session_now(&bench);
            bench.clock.advance(Duration::from_secs(1));
        };
        moved(&[one, two, ROOT], &[]).await;
        let ino = file(&session, one, b"f", b"").await;
        moved(&[one], &[two, ROOT]).await;
        session.rename(&root(), one, b"f", two, b"f", PLAIN).await.unwrap();
        moved(&[one, two], &[ROOT]).await;
        session.link(&root(), ino, one, b"g").await.unwrap();
        moved(&[one], &[two, ROOT]).await;
        session.unlink(&root(), two, b"f").await.unwrap();
        moved(&[two], &[one, ROOT]).await;
        session.rmdir(&root(), ROOT, b"two").await.unwrap();
        moved(&[ROOT], &[one]).await;
        assert_eq!(kind(session.unlink(&root(), one, b"none").await), Kind::NotFound);
        moved(&[], &[one, ROOT]).await;
    });
}
