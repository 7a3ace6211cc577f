//! The model itself: what Linux says.

use super::{Model, Place, Side};
use crate::Kind;
use crate::types::{
    Caller, FILE_BYTES_MAX, Fallocate, Handle, Ino, OpenFlags, ROOT, RenameFlags, SetAttr, SetTime,
    Time, XattrMode, mode,
};

const NOW: Time = Time { secs: 100, nanos: 0 };
const LATER: Time = Time { secs: 200, nanos: 0 };

fn root() -> Caller {
    Caller::root()
}

fn user() -> Caller {
    Caller::user(1000, 1000)
}

fn place(parent: Ino, name: &[u8]) -> Place<'_> {
    Place { parent, name }
}

fn file(model: &mut Model, name: &[u8], mode: u32) -> Ino {
    model.mknod(&root(), ROOT, name, mode::FILE | mode, 0, NOW).unwrap().ino
}

fn dir(model: &mut Model, parent: Ino, name: &[u8], mode: u32) -> Ino {
    model.mkdir(&root(), parent, name, mode, NOW).unwrap().ino
}

#[test]
fn names_that_cannot_be() {
    let mut model = Model::empty();
    let plain = file(&mut model, b"f", 0o644);
    let long = [b'x'; 256];
    let mut mkdir = |parent, name: &[u8]| model.mkdir(&root(), parent, name, 0o755, NOW);
    assert_eq!(mkdir(ROOT, b""), Err(Kind::NotFound));
    assert_eq!(mkdir(ROOT, b"."), Err(Kind::Exists));
    assert_eq!(mkdir(ROOT, b".."), Err(Kind::Exists));
    assert_eq!(mkdir(ROOT, b"a/b"), Err(Kind::Invalid));
    assert_eq!(mkdir(ROOT, &long), Err(Kind::NameTooLong));
    assert!(mkdir(ROOT, &long[..255]).is_ok());
    assert_eq!(mkdir(plain, b"a"), Err(Kind::NotDirectory));
    assert_eq!(mkdir(ROOT, b"f"), Err(Kind::Exists));
    assert_eq!(model.rmdir(&root(), ROOT, b".", NOW), Err(Kind::Invalid));
    assert_eq!(model.rmdir(&root(), ROOT, b"..", NOW), Err(Kind::NotEmpty));
    assert_eq!(model.unlink(&root(), ROOT, b"..", NOW), Err(Kind::IsDirectory));
    let flags = RenameFlags::default();
    let renamed = model.rename(&root(), place(ROOT, b"f"), place(ROOT, b"."), flags, NOW);
    assert_eq!(renamed, Err(Kind::Busy));
}

#[test]
fn links_and_their_counts() {
    let mut model = Model::empty();
    let a = dir(&mut model, ROOT, b"a", 0o755);
    let b = dir(&mut model, a, b"b", 0o755);
    assert_eq!(model.getattr(ROOT).unwrap().nlink, 3);
    assert_eq!(model.getattr(a).unwrap().nlink, 3);
    model.rename(&root(), place(a, b"b"), place(ROOT, b"b"), RenameFlags::default(), NOW).unwrap();
    assert_eq!(model.getattr(ROOT).unwrap().nlink, 4);
    assert_eq!(model.getattr(a).unwrap().nlink, 2);
    assert_eq!(model.lookup(&root(), b, b"..").unwrap().ino, ROOT);
    let f = file(&mut model, b"f", 0o644);
    assert_eq!(model.link(&root(), f, a, b"g", LATER).unwrap().nlink, 2);
    assert_eq!(model.link(&root(), a, ROOT, b"h", LATER), Err(Kind::NotPermitted));
    // Onto another name of the same inode: nothing happens.
    let flags = RenameFlags::default();
    model.rename(&root(), place(ROOT, b"f"), place(a, b"g"), flags, LATER).unwrap();
    assert_eq!(model.getattr(f).unwrap().nlink, 2);
    model.unlink(&root(), ROOT, b"f", LATER).unwrap();
    model.unlink(&root(), a, b"g", LATER).unwrap();
    assert_eq!(model.getattr(f), Err(Kind::NotFound));
}

#[test]
fn rename_of_directories() {
    let mut model = Model::empty();
    let a = dir(&mut model, ROOT, b"a", 0o755);
    let b = dir(&mut model, a, b"b", 0o755);
    let f = file(&mut model, b"f", 0o644);
    let mut rename = |old, new, flags| model.rename(&root(), old, new, flags, NOW);
    let plain = RenameFlags::default();
    let exchange = RenameFlags { exchange: true, ..plain };
    assert_eq!(rename(place(ROOT, b"a"), place(b, b"x"), plain), Err(Kind::Invalid));
    assert_eq!(rename(place(ROOT, b"a"), place(a, b"x"), plain), Err(Kind::Invalid));
    assert_eq!(rename(place(a, b"b"), place(ROOT, b"a"), plain), Err(Kind::NotEmpty));
    assert_eq!(rename(place(a, b"b"), place(ROOT, b"a"), exchange), Err(Kind::Invalid));
    assert_eq!(rename(place(ROOT, b"a"), place(ROOT, b"f"), plain), Err(Kind::NotDirectory));
    assert_eq!(rename(place(ROOT, b"f"), place(ROOT, b"a"), plain), Err(Kind::IsDirectory));
    assert_eq!(rename(place(ROOT, b"f"), place(a, b"b"), exchange), Ok(()));
    assert_eq!(model.lookup(&root(), a, b"b").unwrap().ino, f);
    assert_eq!(model.lookup(&root(), ROOT, b"f").unwrap().ino, b);
    assert_eq!(model.lookup(&root(), b, b"..").unwrap().ino, ROOT);
    assert_eq!(model.getattr(ROOT).unwrap().nlink, 4);
    let flags = RenameFlags { whiteout: true, ..plain };
    model.rename(&root(), place(ROOT, b"f"), place(a, b"c"), flags, LATER).unwrap();
    let left = model.lookup(&root(), ROOT, b"f").unwrap();
    assert_eq!((left.mode, left.rdev, left.nlink), (mode::CHARACTER, 0, 1));
}

#[test]
fn what_is_open_stays() {
    let mut model = Model::empty();
    let flags = OpenFlags::READ_WRITE;
    let (attr, handle) = model.create(&root(), ROOT, b"f", 0o644, flags, NOW).unwrap();
    model.unlink(&root(), ROOT, b"f", LATER).unwrap();
    assert_eq!(model.write(&root(), handle, 3, b"xyz", None, LATER), Ok(3));
    assert_eq!(model.read(handle, 0, 10).unwrap(), &b"\0\0\0xyz"[..]);
    assert_eq!(model.link(&root(), attr.ino, ROOT, b"g", LATER), Err(Kind::NotFound));
    model.release(handle).unwrap();
    assert_eq!(model.getattr(attr.ino), Err(Kind::NotFound));

    let d = dir(&mut model, ROOT, b"d", 0o755);
    let open = model.opendir(&root(), d).unwrap();
    model.rmdir(&root(), ROOT, b"d", LATER).unwrap();
    assert_eq!(model.mkdir(&root(), d, b"x", 0o755, LATER), Err(Kind::NotFound));
    model.releasedir(open).unwrap();

    let (attr, handle) = model.tmpfile(&root(), ROOT, 0o600, flags, NOW).unwrap();
    assert_eq!(attr.nlink, 0);
    assert_eq!(model.link(&root(), attr.ino, ROOT, b"t", LATER).unwrap().nlink, 1);
    model.release(handle).unwrap();
    assert!(model.lookup(&root(), ROOT, b"t").is_ok());
}

#[test]
fn permissions_and_the_sticky_bit() {
    let mut model = Model::empty();
    let closed = dir(&mut model, ROOT, b"closed", 0o700);
    let sticky = dir(&mut model, ROOT, b"sticky", 0o1777);
    assert_eq!(model.lookup(&user(), closed, b"x"), Err(Kind::AccessDenied));
    assert_eq!(model.mkdir(&user(), closed, b"x", 0o755, NOW), Err(Kind::AccessDenied));
    model.mknod(&root(), sticky, b"f", mode::FILE | 0o666, 0, NOW).unwrap();
    assert_eq!(model.unlink(&user(), sticky, b"f", NOW), Err(Kind::NotPermitted));
    model.mknod(&user(), sticky, b"g", mode::FILE | 0o600, 0, NOW).unwrap();
    assert_eq!(model.unlink(&Caller::user(1001, 1001), sticky, b"g", NOW), Err(Kind::NotPermitted));
    assert_eq!(model.unlink(&user(), sticky, b"g", NOW), Ok(()));
    assert_eq!(model.mknod(&user(), ROOT, b"b", mode::BLOCK, 5, NOW), Err(Kind::NotPermitted));
    assert!(model.mknod(&user(), ROOT, b"w", mode::CHARACTER, 0, NOW).is_ok());
    let f = file(&mut model, b"f", 0o600);
    assert_eq!(model.access(&root(), f, 1), Err(Kind::AccessDenied));
    assert_eq!(model.access(&root(), f, 6), Ok(()));
    assert_eq!(model.access(&user(), f, 4), Err(Kind::AccessDenied));
}

#[test]
fn owners_and_the_bits_that_they_lose() {
    let mut model = Model::empty();
    let f = file(&mut model, b"f", 0o666);
    let set = |mode, uid, gid| SetAttr { mode, uid, gid, ..SetAttr::default() };
    let mut change = |caller: &Caller, set| model.setattr(caller, f, &set, None, LATER);
    assert_eq!(change(&user(), set(Some(0o777), None, None)), Err(Kind::NotPermitted));
    assert!(change(&root(), set(None, Some(1000), Some(1001))).is_ok());
    // Not a member of its group: no setgid.
    assert_eq!(change(&user(), set(Some(0o6777), None, None)).unwrap().mode & 0o7777, 0o4777);
    assert_eq!(change(&user(), set(None, Some(1001), None)), Err(Kind::NotPermitted));
    assert_eq!(change(&user(), set(None, Some(1000), None)).unwrap().mode & 0o7777, 0o777);
    assert_eq!(change(&user(), set(None, None, Some(1002))), Err(Kind::NotPermitted));
    assert_eq!(change(&user(), set(None, None, Some(1000))).unwrap().gid, 1000);
    change(&root(), set(Some(0o6755), None, None)).unwrap();
    assert_eq!(change(&root(), set(None, Some(0), None)).unwrap().mode & 0o7777, 0o755);
    change(&root(), set(Some(0o6777), None, None)).unwrap();
    let handle = model.open(&user(), f, OpenFlags::READ_WRITE, LATER).unwrap();
    model.write(&user(), handle, 0, b"", None, LATER).unwrap();
    assert_eq!(model.getattr(f).unwrap().mode & 0o7777, 0o6777);
    model.write(&user(), handle, 0, b"x", None, LATER).unwrap();
    assert_eq!(model.getattr(f).unwrap().mode & 0o7777, 0o777);
}

#[test]
fn a_setgid_directory_gives_its_group() {
    let mut model = Model::empty();
    let d = dir(&mut model, ROOT, b"d", 0o777);
    let set = SetAttr { mode: Some(0o2777), gid: Some(7), ..SetAttr::default() };
    model.setattr(&root(), d, &set, None, NOW).unwrap();
    let sub = model.mkdir(&user(), d, b"sub", 0o755, NOW).unwrap();
    assert_eq!((sub.gid, sub.mode & 0o7777), (7, 0o2755));
    let plain = model.mknod(&user(), d, b"f", mode::FILE | 0o2755, 0, NOW).unwrap();
    assert_eq!((plain.gid, plain.mode & 0o7777), (7, 0o755));
}

#[test]
fn times_are_set_by_who_may() {
    let mut model = Model::empty();
    let f = file(&mut model, b"f", 0o666);
    let now = SetTime::Now;
    let touch = SetAttr { atime: Some(now), mtime: Some(now), ..SetAttr::default() };
    let one = SetAttr { mtime: Some(now), ..SetAttr::default() };
    assert_eq!(model.setattr(&user(), f, &touch, None, LATER).unwrap().mtime, LATER);
    assert_eq!(model.setattr(&user(), f, &one, None, LATER), Err(Kind::NotPermitted));
    let to = Time { secs: -1, nanos: 5 };
    let set = SetAttr { mtime: Some(SetTime::To(to)), ..SetAttr::default() };
    let attr = model.setattr(&root(), f, &set, None, NOW).unwrap();
    assert_eq!((attr.mtime, attr.ctime, attr.atime), (to, NOW, LATER));
}

#[test]
fn sizes_up_to_the_largest() {
    let mut model = Model::empty();
    let flags = OpenFlags::READ_WRITE;
    let (attr, handle) = model.create(&root(), ROOT, b"f", 0o644, flags, NOW).unwrap();
    let last = FILE_BYTES_MAX - 1;
    assert_eq!(
        model.write(&root(), handle, FILE_BYTES_MAX, b"x", None, NOW),
        Err(Kind::FileTooBig)
    );
    assert_eq!(model.write(&root(), handle, last, b"xy", None, NOW), Ok(1));
    assert_eq!(model.getattr(attr.ino).unwrap().size, FILE_BYTES_MAX);
    let append = model.open(&root(), attr.ino, OpenFlags { append: true, ..flags }, NOW).unwrap();
    assert_eq!(model.write(&root(), append, 0, b"x", None, NOW), Err(Kind::FileTooBig));
    let grow = SetAttr { size: Some(FILE_BYTES_MAX + 1), ..SetAttr::default() };
    assert_eq!(model.setattr(&root(), attr.ino, &grow, None, NOW), Err(Kind::FileTooBig));
    let punch = Fallocate::PunchHole;
    assert_eq!(model.fallocate(&root(), handle, punch, 5, 0, NOW), Err(Kind::Invalid));
    assert_eq!(model.fallocate(&root(), handle, punch, 5, FILE_BYTES_MAX - 5, NOW), Ok(()));
    assert!(model.is_right_seek(handle, 0, false, Err(Kind::NoDevice)));
    assert!(model.is_right_seek(handle, 7, true, Ok(7)));
    assert!(!model.is_right_seek(handle, 7, true, Ok(6)));
    assert!(model.is_right_seek(handle, FILE_BYTES_MAX, true, Err(Kind::NoDevice)));
}

#[test]
fn copies_within_and_between_files() {
    let mut model = Model::empty();
    let flags = OpenFlags::READ_WRITE;
    let (_, one) = model.create(&root(), ROOT, b"one", 0o644, flags, NOW).unwrap();
    let (_, two) = model.create(&root(), ROOT, b"two", 0o644, flags, NOW).unwrap();
    model.write(&root(), one, 0, b"0123456789", None, NOW).unwrap();
    let side = |handle: Handle, offset| Side { handle, offset };
    let mut copy = |from, to, len| model.copy_range(&root(), from, to, len, None, NOW);
    assert_eq!(copy(side(one, 4), side(two, 2), 100), Ok(6));
    assert_eq!(copy(side(one, 10), side(two, 2), 100), Ok(0));
    assert_eq!(copy(side(one, 0), side(one, 4), 5), Err(Kind::Invalid));
    assert_eq!(copy(side(one, 0), side(one, 5), 5), Ok(5));
    assert_eq!(model.read(two, 0, 99).unwrap(), &b"\0\x00456789"[..]);
    assert_eq!(model.read(one, 0, 99).unwrap(), &b"0123401234"[..]);
}

#[test]
fn extended_attributes() {
    let mut model = Model::empty();
    let f = file(&mut model, b"f", 0o644);
    let link = model.symlink(&root(), ROOT, b"l", b"f", NOW).unwrap().ino;
    let any = XattrMode::Any;
    let mut set = |caller: &Caller, ino, name: &[u8], len: usize, how| {
        model.setxattr(caller, ino, name, &vec![1; len], how, LATER)
    };
    assert_eq!(set(&root(), f, b"user.a", 3, XattrMode::Replace), Err(Kind::NoAttribute));
    assert_eq!(set(&root(), f, b"user.a", 65_536, XattrMode::Create), Ok(()));
    assert_eq!(set(&root(), f, b"user.a", 3, XattrMode::Create), Err(Kind::Exists));
    assert_eq!(set(&root(), f, b"user.a", 65_537, any), Err(Kind::TooBig));
    assert_eq!(set(&root(), f, b"user.", 1, any), Err(Kind::Invalid));
    assert_eq!(set(&root(), f, b"what.a", 1, any), Err(Kind::Unsupported));
    assert_eq!(set(&root(), f, &[b'x'; 256], 1, any), Err(Kind::Range));
    assert_eq!(set(&root(), link, b"user.a", 1, any), Err(Kind::NotPermitted));
    assert_eq!(set(&root(), link, b"trusted.a", 1, any), Ok(()));
    assert_eq!(set(&user(), f, b"trusted.a", 1, any), Err(Kind::NotPermitted));
    assert_eq!(set(&user(), f, b"security.a", 1, any), Err(Kind::NotPermitted));
    assert_eq!(set(&user(), f, b"user.a", 1, any), Err(Kind::AccessDenied));
    assert_eq!(model.getxattr(&user(), link, b"trusted.a"), Err(Kind::NoAttribute));
    assert_eq!(model.listxattr(&user(), link).unwrap().len(), 0);
    assert_eq!(model.listxattr(&root(), link).unwrap().len(), 1);
    assert_eq!(model.getxattr(&user(), f, b"user.a").unwrap().len(), 65_536);
    assert_eq!(model.getattr(f).unwrap().ctime, LATER);
    assert_eq!(model.removexattr(&root(), f, b"user.b", NOW), Err(Kind::NoAttribute));
    assert_eq!(model.removexattr(&root(), f, b"user.a", NOW), Ok(()));
    assert!(model.listxattr(&user(), f).unwrap().is_empty());
}
