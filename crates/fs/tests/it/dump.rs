//! Dumps: what a volume is comes back from its stream, on every engine; what is not such a stream is
//! refused and leaves nothing.

mod broken;
mod faults;
mod hostile;
mod instant;
#[cfg(feature = "model")]
mod random;
mod whole;

use crate::world::*;
use base::checksum::hash64;
use base::{SeededRandom, SimClock, SimDisk};
use bytes::Bytes;
use fs::dump::{DumpCounts, LoadOptions, dump, load, load_with};
use fs::*;
use kv_local::{Local, Options};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The embedded engine, with layers so small that a load folds and merges many times.
fn local() -> Bench {
    let random = SeededRandom::new(3);
    let options = Options { memory_bytes: 300_000, level_scale: 1 << 14 };
    let local = Local::open(Arc::new(SimDisk::new()), None, &random, options).unwrap();
    Bench::on(Arc::new(local), SimClock::new(), None)
}

async fn dumped(session: &Session) -> Vec<u8> {
    dumped_with(session).await.0
}

async fn dumped_with(session: &Session) -> (Vec<u8>, DumpCounts) {
    let mut out = Vec::new();
    let counts = dump(session, &mut out, &NoProgress).await.unwrap();
    assert_eq!(counts.stream_bytes, out.len() as u64);
    (out, counts)
}

/// Loads a dump, and begins a session of the new volume.
async fn loaded(world: &World, name: &str, stream: &[u8]) -> Session {
    loaded_with(world, name, stream, &LoadOptions::default()).await
}

async fn loaded_with(world: &World, name: &str, stream: &[u8], options: &LoadOptions) -> Session {
    load_with(world, name, &mut &*stream, options, &NoProgress).await.unwrap();
    private_session(&Volume::open(world, name).await.unwrap()).await
}

async fn refused(world: &World, stream: &[u8]) -> Error {
    load(world, "new", &mut &*stream, &NoProgress).await.unwrap_err()
}

/// Every key of the store, of whichever volume.
async fn all_keys(world: &World) -> usize {
    let mut txn = world.store.begin().await.unwrap();
    let mut next = Some(kv::Query::new(kv::KeyRange::all()));
    let mut count = 0;
    while let Some(query) = next {
        let page = txn.range(&query, kv::Read::Snapshot).await.unwrap();
        count += page.len();
        next = if page.more { query.behind(&page) } else { None };
    }
    count
}

/// What can be seen under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    attr: Attr,
    xattrs: Vec<(Bytes, Sum)>,
    target: Sum,
    /// Pages that are not zeros.
    data: BTreeMap<u64, Sum>,
}

/// Bytes, short enough to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum(usize, u64);

fn sum(bytes: &[u8]) -> Sum {
    Sum(bytes.len(), hash64(0, bytes))
}

type Tree = BTreeMap<Vec<u8>, Seen>;

/// The two are the same, or the first difference is told.
fn assert_same(one: &Tree, other: &Tree) {
    let differs = |(path, seen): &(&Vec<u8>, &Seen)| other.get(*path) != Some(*seen);
    if let Some((path, seen)) = one.iter().find(differs) {
        panic!("{}: {seen:?}, not {:?}", path.escape_ascii(), other.get(path));
    }
    assert!(one.keys().eq(other.keys()), "{:?} is more than {:?}", other.keys(), one.keys());
}

impl Seen {
    /// Without what depends on the size of blocks.
    fn plain(mut self) -> Self {
        (self.attr.blocks, self.attr.block_bytes) = (0, 0);
        self
    }
}

/// Everything that can be seen, by path. Holes are found by seeking. Changes access times: what is
/// dumped is dumped before.
async fn tree(session: &Session) -> Tree {
    let mut tree = BTreeMap::new();
    let mut left = vec![(Vec::new(), ROOT)];
    // Each is looked at once, for looking changes the time of the last access.
    let mut known: BTreeMap<Ino, Seen> = BTreeMap::new();
    while let Some((path, ino)) = left.pop() {
        let seen = match known.get(&ino) {
            Some(seen) => seen.clone(),
            None => seen(session, ino).await,
        };
        known.insert(ino, seen.clone());
        if seen.attr.file_type() == FileType::Directory {
            for name in names_of(session, ino).await {
                let child = session.lookup(&root(), ino, &name).await.unwrap();
                left.push(([&path[..], b"/", &name].concat(), child.ino));
            }
        }
        tree.insert(path, seen);
    }
    tree
}

async fn plain_tree(session: &Session) -> Tree {
    tree(session).await.into_iter().map(|(path, seen)| (path, seen.plain())).collect()
}

async fn seen(session: &Session, ino: Ino) -> Seen {
    let attr = session.getattr(ino).await.unwrap();
    let mut xattrs = Vec::new();
    for name in session.listxattr(&root(), ino).await.unwrap() {
        let value = session.getxattr(&root(), ino, &name).await.unwrap();
        xattrs.push((name, sum(&value)));
    }
    let target = match attr.file_type() {
        FileType::Symlink => sum(&session.readlink(ino).await.unwrap()),
        _ => sum(b""),
    };
    let data = match attr.file_type() {
        FileType::File => data_of(session, ino).await,
        _ => BTreeMap::new(),
    };
    Seen { attr, xattrs, target, data }
}

async fn data_of(session: &Session, ino: Ino) -> BTreeMap<u64, Sum> {
    let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
    let mut found = BTreeMap::new();
    let mut at = 0;
    while let Ok(start) = session.seek(handle, at, Seek::Data).await {
        at = session.seek(handle, start, Seek::Hole).await.unwrap();
        // In pages, so that the size of blocks does not matter.
        let mut from = start - start % 1024;
        while from < at {
            let bytes = session.read(handle, from, 1024).await.unwrap();
            if bytes.iter().any(|byte| *byte != 0) {
                found.insert(from, sum(&bytes));
            }
            from += 1024;
        }
    }
    session.release(handle).await.unwrap();
    found
}

fn acl(user: u32) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries =
        [(1u16, 7u16, nobody), (2, 6, user), (4, 5, nobody), (16, 7, nobody), (32, 4, nobody)];
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&bits.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// One of everything. `xattr_bytes` is the longest attribute.
async fn fill(bench: &Bench, session: &Session, xattr_bytes: usize) {
    let tick = || bench.clock.advance(Duration::from_nanos(1_000_000_007));
    let top = dir(session, b"top").await;
    let low = session.mkdir(&root(), top, b"low", 0o2750).await.unwrap().ino;
    tick();
    for (name, bits, rdev) in [
        (&b"pipe"[..], mode::FIFO | 0o600, 0),
        (b"socket", mode::SOCKET | 0o777, 0),
        (b"char", mode::CHARACTER | 0o644, 0x0103),
        (b"block", mode::BLOCK | 0o640, 0xfff0_0fff),
        (b"empty", mode::FILE | 0o4755, 0),
    ] {
        session.mknod(&root(), low, name, bits, rdev).await.unwrap();
        tick();
    }
    for name in [&b"new\nline"[..], b"-rf", b"\xff\xfe\x80", b" ", b"...", &[0xfe; 255], b"\x01"] {
        file(session, top, name, &pattern(1, name.len())).await;
        tick();
    }
    session.symlink(&root(), ROOT, b"link", b"../nowhere/\xff").await.unwrap();
    session.symlink(&root(), ROOT, b"long", &[b'x'; SYMLINK_BYTES_MAX]).await.unwrap();
    let twin = file(session, ROOT, b"small", &pattern(2, 700)).await;
    session.link(&root(), twin, low, b"twin").await.unwrap();
    session.link(&root(), twin, top, b"third").await.unwrap();
    tick();
    file(session, ROOT, b"large", &pattern(3, 3_000_001)).await;
    files_with_holes(session).await;
    tick();
    let set = |ino, name: &'static [u8], value: Vec<u8>| async move {
        session.setxattr(&root(), ino, name, &value, XattrMode::Any).await.unwrap();
    };
    set(twin, b"user.big", pattern(5, xattr_bytes)).await;
    set(twin, b"user.empty", Vec::new()).await;
    set(twin, b"trusted./\xff", b"t".to_vec()).await;
    set(twin, b"security.s", b"s".to_vec()).await;
    set(twin, ACCESS, acl(5)).await;
    set(top, DEFAULT, acl(6)).await;
    session.mkdir(&root(), top, b"heir", 0o777).await.unwrap();
    // A flag that is left although nothing else is.
    set(low, b"user.gone", b"x".to_vec()).await;
    session.removexattr(&root(), low, b"user.gone").await.unwrap();
    tick();
    let (atime, mtime) = (Time { secs: -9, nanos: 999_999_999 }, Time { secs: 1 << 33, nanos: 1 });
    let times = SetAttr {
        atime: Some(SetTime::To(atime)),
        mtime: Some(SetTime::To(mtime)),
        uid: Some(u32::MAX - 1),
        gid: Some(7),
        ..SetAttr::default()
    };
    session.setattr(&root(), twin, &times, None).await.unwrap();
    session.setattr(&root(), low, &times, None).await.unwrap();
    // Directories that are in one with a higher number.
    let deep = session.mkdir(&root(), low, b"deep", 0o700).await.unwrap().ino;
    tick();
    session.rename(&root(), ROOT, b"top", ROOT, b"was top", RenameFlags::default()).await.unwrap();
    let higher = dir(session, b"higher").await;
    session.rename(&root(), low, b"deep", higher, b"d", RenameFlags::default()).await.unwrap();
    assert!(deep < higher);
    // Nobody's: it has no name.
    let flags = OpenFlags::READ_WRITE;
    session.tmpfile(&root(), ROOT, 0o600, flags).await.unwrap();
    let (_, gone) = session.create(&root(), ROOT, b"gone", 0o644, flags).await.unwrap();
    write_all(session, gone, 0, &pattern(6, 100_000)).await;
    session.unlink(&root(), ROOT, b"gone").await.unwrap();
}

async fn files_with_holes(session: &Session) {
    let flags = OpenFlags::READ_WRITE;
    let (_, sparse) = session.create(&root(), ROOT, b"sparse", 0o644, flags).await.unwrap();
    for at in [0, 5 << 20, (5 << 20) + 70_000, 1 << 60] {
        write_all(session, sparse, at, &pattern(4, 2000)).await;
    }
    // Space without bytes, in and behind the file, and zeros that were written.
    let (_, taken) = session.create(&root(), ROOT, b"taken", 0o644, flags).await.unwrap();
    write_all(session, taken, 0, &pattern(4, 300_000)).await;
    let keep = Fallocate::Allocate { keep_size: true };
    session.fallocate(&root(), taken, keep, 3 << 20, 2 << 20).await.unwrap();
    session.fallocate(&root(), taken, Fallocate::PunchHole, 0, 65_536).await.unwrap();
    let zeros = Fallocate::ZeroRange { keep_size: true };
    session.fallocate(&root(), taken, zeros, 131_072, 65_536).await.unwrap();
    let (_, zeros) = session.create(&root(), ROOT, b"zeros", 0o644, flags).await.unwrap();
    write_all(session, zeros, 0, &vec![0; 200_000]).await;
    let (_, ahead) = session.create(&root(), ROOT, b"ahead", 0o644, flags).await.unwrap();
    session.fallocate(&root(), ahead, keep, 0, 1 << 20).await.unwrap();
    // Cut short, and with a hole at its end.
    let (attr, cut) = session.create(&root(), ROOT, b"cut", 0o644, flags).await.unwrap();
    write_all(session, cut, 0, &pattern(4, 400_000)).await;
    for size in [100_001, 9_999_999] {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        session.setattr(&root(), attr.ino, &set, None).await.unwrap();
    }
    for handle in [sparse, taken, zeros, ahead, cut] {
        session.release(handle).await.unwrap();
    }
}

/// The frames of a dump: kind and payload.
fn frames(stream: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut rest = &stream[16..];
    while let [kind, l0, l1, l2, l3, behind @ ..] = rest {
        let len = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
        frames.push((*kind, behind[..len].to_vec()));
        rest = &behind[len + 8..];
    }
    frames
}

/// A stream of these frames, with right checksums.
fn sealed(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut stream = b"SEAMDUMP".to_vec();
    stream.extend_from_slice(&1u64.to_le_bytes());
    let mut chain = hash64(0, &stream);
    for (kind, payload) in frames {
        let mut head = vec![*kind];
        head.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        chain = hash64(hash64(chain, &head), payload);
        stream.extend_from_slice(&head);
        stream.extend_from_slice(payload);
        stream.extend_from_slice(&chain.to_le_bytes());
    }
    stream
}

/// A small volume with some of everything, as a stream of few bytes.
async fn little(bench: &Bench) -> Session {
    let session = private_session(&bench.volume().await).await;
    let low = dir(&session, b"d").await;
    let ino = file(&session, low, b"f", b"hello").await;
    session.link(&root(), ino, ROOT, b"g").await.unwrap();
    session.setxattr(&root(), ino, b"user.x", b"y", XattrMode::Any).await.unwrap();
    session.symlink(&root(), ROOT, b"s", b"to").await.unwrap();
    let (_, handle) =
        session.create(&root(), ROOT, b"h", 0o644, OpenFlags::READ_WRITE).await.unwrap();
    write_all(&session, handle, 1 << 20, b"far").await;
    let keep = Fallocate::Allocate { keep_size: true };
    session.fallocate(&root(), handle, keep, 0, 65_536).await.unwrap();
    session.release(handle).await.unwrap();
    session
}
