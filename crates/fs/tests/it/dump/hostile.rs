//! Streams whose checksums are right and that say what cannot be: refused as well, and nothing is left.
//! And what newer programs may add.

use super::*;
use crate::audit::audit;
use base::block_on;

const VOLUME: u8 = 1;
const INODE: u8 = 2;
const XATTR: u8 = 3;
const DATA: u8 = 4;
const RESERVED: u8 = 5;
const ENTRIES: u8 = 6;
const END: u8 = 7;

/// A number as records have it.
fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn with_len(bytes: &[u8]) -> Vec<u8> {
    [number(bytes.len() as u64), bytes.to_vec()].concat()
}

fn inode(ino: u64, mode: u32, nlink: u64, size: u64, parent: u64, target: &[u8]) -> (u8, Vec<u8>) {
    let fields = [ino, mode.into(), nlink, 0, 0, 0, size, parent, 0];
    let mut payload: Vec<u8> = fields.into_iter().flat_map(number).collect();
    payload.extend_from_slice(&[0; 48]);
    payload.extend_from_slice(&with_len(target));
    (INODE, payload)
}

fn entry(name: &[u8], mode: u32, ino: u64) -> Vec<u8> {
    [with_len(name), vec![(mode >> 12) as u8], number(ino)].concat()
}

fn entries(list: &[Vec<u8>]) -> (u8, Vec<u8>) {
    (ENTRIES, list.concat())
}

fn end(counts: [u64; 5]) -> (u8, Vec<u8>) {
    (END, counts.into_iter().flat_map(number).collect())
}

const DIR: u32 = mode::DIRECTORY | 0o755;
const FILE: u32 = mode::FILE | 0o644;

fn top() -> (u8, Vec<u8>) {
    inode(ROOT, DIR, 1, 0, ROOT, b"")
}

fn volume() -> (u8, Vec<u8>) {
    volume_of(0, 1 << 20, 1, 0, 1000)
}

fn volume_of(features: u64, chunk: u64, codec: u8, parity: u8, next: u64) -> (u8, Vec<u8>) {
    let mut payload = number(features);
    payload.extend_from_slice(&[7; 16]);
    payload.extend_from_slice(&number(chunk));
    payload.extend_from_slice(&[codec, parity, 0, 0]);
    payload.extend_from_slice(&[0; 12]);
    payload.extend_from_slice(&number(next));
    (VOLUME, payload)
}

/// A file of this size in the root, with these frames behind its inode.
fn one_file(size: u64, frames: &[(u8, Vec<u8>)], counts: [u64; 3]) -> Vec<(u8, Vec<u8>)> {
    let mut all = vec![volume(), top(), entries(&[entry(b"f", FILE, 300)])];
    all.push(inode(300, FILE, 1, size, 0, b""));
    all.extend_from_slice(frames);
    all.push(end([2, 1, counts[0], counts[1], counts[2]]));
    all
}

fn data(offset: u64, bytes: &[u8]) -> (u8, Vec<u8>) {
    (DATA, [number(offset), bytes.to_vec()].concat())
}

fn reserved(start: u64, len: u64) -> (u8, Vec<u8>) {
    (RESERVED, [number(start), number(len)].concat())
}

fn xattr(name: &[u8], value: &[u8]) -> (u8, Vec<u8>) {
    (XATTR, [with_len(name), with_len(value)].concat())
}

async fn is_refused(what: &str, frames: &[(u8, Vec<u8>)], kind: Kind) {
    let bench = Bench::mem();
    let error = refused(&bench.world, &sealed(frames)).await;
    assert_eq!(error.kind(), kind, "{what}: {error}");
    assert_eq!(all_keys(&bench.world).await, 0, "{what}");
}

async fn is_taken(what: &str, frames: &[(u8, Vec<u8>)]) -> Session {
    println!("{what}");
    let bench = Bench::mem();
    let session = loaded(&bench.world, "new", &sealed(frames)).await;
    audit(session.volume(), true).await;
    session
}

#[test]
fn the_streams_of_this_test_are_those_of_the_program() {
    block_on(async {
        let stream = dumped(&little(&Bench::mem()).await).await;
        assert!(sealed(&frames(&stream)) == stream);
        let kinds: Vec<u8> = frames(&stream).iter().map(|(kind, _)| *kind).collect();
        assert!((VOLUME..=END).all(|kind| kinds.contains(&kind)), "{kinds:?}");
        is_taken("nothing but a root", &[volume(), top(), end([1, 0, 0, 0, 0])]).await;
        is_taken("a file", &one_file(10, &[], [0; 3])).await;
        let session = is_taken(
            "a file with everything",
            &one_file(
                100_000,
                &[
                    xattr(b"user.a", b"1"),
                    xattr(b"user.b", b""),
                    data(0, &[1; 1024]),
                    data(99_328, &[2; 672]),
                    reserved(1 << 20, 4096),
                ],
                [2, 1696, 4096],
            ),
        )
        .await;
        assert_eq!(contents(&session, 300).await[99_999], 2);
    });
}

#[test]
fn inodes_and_names_that_cannot_be_are_refused() {
    block_on(async {
        let dir_of = |ino, parent| inode(ino, DIR, 1, 0, parent, b"");
        let names = |list: &[Vec<u8>]| entries(list);
        let one = |frame: (u8, Vec<u8>)| {
            vec![volume(), top(), names(&[entry(b"f", FILE, 300)]), frame, end([2, 1, 0, 0, 0])]
        };
        for (what, frames) in [
            ("no volume", vec![top(), end([1, 0, 0, 0, 0])]),
            ("two volumes", vec![volume(), volume(), top(), end([1, 0, 0, 0, 0])]),
            ("nothing", vec![volume(), end([0; 5])]),
            ("no root", vec![volume(), inode(300, FILE, 1, 0, 0, b""), end([1, 0, 0, 0, 0])]),
            (
                "a root that is a file",
                vec![volume(), inode(1, FILE, 1, 0, 0, b""), end([1, 0, 0, 0, 0])],
            ),
            ("a root elsewhere", vec![volume(), dir_of(1, 2), end([1, 0, 0, 0, 0])]),
            ("inode 0", vec![volume(), dir_of(0, 1), top(), end([2, 0, 0, 0, 0])]),
            ("wrong counts", vec![volume(), top(), end([2, 0, 0, 0, 0])]),
            (
                "a file without a name",
                one_file(0, &[], [0; 3]).into_iter().filter(|f| f.0 != ENTRIES).collect(),
            ),
            ("no names left", one(inode(300, FILE, 0, 0, 0, b""))),
            ("too many names", one(inode(300, FILE, 2, 0, 0, b""))),
            ("another type", one(inode(300, mode::FIFO, 1, 0, 0, b""))),
            ("no type", one(inode(300, 0o644, 1, 0, 0, b""))),
            ("bits that no mode has", one(inode(300, FILE | 1 << 16, 1, 0, 0, b""))),
            ("another inode", one(inode(301, FILE, 1, 0, 0, b""))),
            ("a number to come", one(inode(1000, FILE, 1, 0, 0, b""))),
            ("too large", one(inode(300, FILE, 1, 1 << 63, 0, b""))),
            ("a file with a target", one(inode(300, FILE, 1, 0, 0, b"x"))),
            ("a file with a parent", one(inode(300, FILE, 1, 0, 1, b""))),
            ("a link to nothing", one(inode(300, mode::SYMLINK, 1, 0, 0, b""))),
            ("a link of another size", one(inode(300, mode::SYMLINK, 1, 2, 0, b"x"))),
            ("a link that is too long", one(inode(300, mode::SYMLINK, 1, 4096, 0, &[b'x'; 4096]))),
            ("a pipe with a size", one(inode(300, mode::FIFO, 1, 1, 0, b""))),
            ("a directory with two names", one(inode(300, DIR, 2, 0, 1, b""))),
            (
                "out of order",
                vec![
                    volume(),
                    top(),
                    names(&[entry(b"f", FILE, 300), entry(b"g", FILE, 301)]),
                    inode(301, FILE, 1, 0, 0, b""),
                    inode(300, FILE, 1, 0, 0, b""),
                    end([3, 2, 0, 0, 0]),
                ],
            ),
            (
                "twice",
                vec![
                    volume(),
                    top(),
                    names(&[entry(b"f", FILE, 300), entry(b"g", FILE, 300)]),
                    inode(300, FILE, 1, 0, 0, b""),
                    inode(300, FILE, 1, 0, 0, b""),
                    end([3, 2, 0, 0, 0]),
                ],
            ),
            (
                "a circle",
                vec![
                    volume(),
                    top(),
                    dir_of(300, 301),
                    names(&[entry(b"a", DIR, 301)]),
                    dir_of(301, 300),
                    names(&[entry(b"b", DIR, 300)]),
                    end([3, 2, 0, 0, 0]),
                ],
            ),
            (
                "a circle above",
                vec![
                    volume(),
                    top(),
                    dir_of(300, 301),
                    dir_of(301, 302),
                    names(&[entry(b"a", DIR, 300), entry(b"b", DIR, 302)]),
                    dir_of(302, 301),
                    names(&[entry(b"b", DIR, 301)]),
                    end([4, 3, 0, 0, 0]),
                ],
            ),
            (
                "its own parent",
                vec![
                    volume(),
                    top(),
                    dir_of(300, 300),
                    names(&[entry(b"a", DIR, 300)]),
                    end([2, 1, 0, 0, 0]),
                ],
            ),
            (
                "another parent",
                vec![
                    volume(),
                    top(),
                    names(&[entry(b"a", DIR, 300), entry(b"b", DIR, 301)]),
                    dir_of(300, 301),
                    dir_of(301, 1),
                    end([3, 2, 0, 0, 0]),
                ],
            ),
            (
                "a directory in a file",
                vec![
                    volume(),
                    top(),
                    names(&[entry(b"f", FILE, 300)]),
                    inode(300, FILE, 1, 0, 0, b""),
                    names(&[entry(b"x", FILE, 301)]),
                    inode(301, FILE, 1, 0, 0, b""),
                    end([3, 2, 0, 0, 0]),
                ],
            ),
        ] {
            is_refused(what, &frames, Kind::Corrupt).await;
        }
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; 256]] {
            let list = names(&[entry(name, FILE, 300)]);
            let frames =
                [volume(), top(), list, inode(300, FILE, 1, 0, 0, b""), end([2, 1, 0, 0, 0])];
            is_refused("a name", &frames, Kind::Corrupt).await;
        }
        for list in [
            [entry(b"b", FILE, 300), entry(b"a", FILE, 300)],
            [entry(b"a", FILE, 300), entry(b"a", FILE, 300)],
            [entry(b"a", FILE, 300), entry(b"b", FILE, 1)],
            [entry(b"a", FILE, 300), vec![9]],
        ] {
            let file = inode(300, FILE, 2, 0, 0, b"");
            let frames = [volume(), top(), entries(&list), file, end([2, 2, 0, 0, 0])];
            is_refused("a list", &frames, Kind::Corrupt).await;
        }
    });
}

#[test]
fn bytes_and_attributes_that_cannot_be_are_refused() {
    block_on(async {
        let long = vec![1; XATTR_BYTES_MAX + 1];
        let too_long = [&b"user."[..], &[b'x'; 251]].concat();
        for (what, size, frames, counts) in [
            ("behind the end", 1000, vec![data(0, &[1; 1024])], [0, 1024, 0]),
            ("half a page", 5000, vec![data(0, &[1; 1000])], [0, 1000, 0]),
            ("from within a page", 5000, vec![data(1000, &[1; 24])], [0, 24, 0]),
            ("no bytes", 5000, vec![data(0, &[])], [0, 0, 0]),
            ("over a window", 2 << 20, vec![data((1 << 20) - 1024, &[1; 2048])], [0, 2048, 0]),
            ("out of order", 5000, vec![data(1024, &[1; 1024]), data(0, &[1; 1024])], [0, 2048, 0]),
            ("twice", 5000, vec![data(0, &[1; 1024]), data(0, &[1; 1024])], [0, 2048, 0]),
            ("no offset", 5000, vec![(DATA, vec![])], [0, 0, 0]),
            ("far away", 5000, vec![data(u64::MAX - 1023, &[1; 1024])], [0, 1024, 0]),
            (
                "data behind space",
                5000,
                vec![reserved(0, 1024), data(1024, &[1; 1024])],
                [0, 1024, 1024],
            ),
            ("no space", 0, vec![reserved(0, 0)], [0, 0, 0]),
            ("odd space", 0, vec![reserved(0, 1000)], [0, 0, 1000]),
            ("space that touches", 0, vec![reserved(0, 1024), reserved(1024, 1024)], [0, 0, 2048]),
            ("space without end", 0, vec![reserved(1024, u64::MAX - 1023)], [0, 0, 0]),
            ("space too far", 0, vec![reserved(1 << 62, (1 << 62) + 1024)], [0, 0, 0]),
            (
                "attributes out of order",
                0,
                vec![xattr(b"user.b", b""), xattr(b"user.a", b"")],
                [2, 0, 0],
            ),
            (
                "an attribute twice",
                0,
                vec![xattr(b"user.b", b""), xattr(b"user.b", b"")],
                [2, 0, 0],
            ),
            ("an attribute of no space", 0, vec![xattr(b"other.b", b"")], [1, 0, 0]),
            ("an attribute without a name", 0, vec![xattr(b"user.", b"")], [1, 0, 0]),
            ("an attribute with a zero", 0, vec![xattr(b"user.\0", b"")], [1, 0, 0]),
            ("an attribute that is too long", 0, vec![xattr(b"user.a", &long)], [1, 0, 0]),
            ("a name that is too long", 0, vec![xattr(&too_long, b"")], [1, 0, 0]),
            (
                "an attribute behind data",
                5000,
                vec![data(0, &[1; 1024]), xattr(b"user.a", b"")],
                [1, 1024, 0],
            ),
            ("no list", 0, vec![xattr(ACCESS, b"no list")], [1, 0, 0]),
            ("an empty list", 0, vec![xattr(ACCESS, b"")], [1, 0, 0]),
            ("a default list of a file", 0, vec![xattr(DEFAULT, &acl(1))], [1, 0, 0]),
            ("names of a file", 0, vec![entries(&[])], [0, 0, 0]),
            ("counts that do not fit", 5000, vec![data(0, &[1; 1024])], [0, 1023, 0]),
        ] {
            is_refused(what, &one_file(size, &frames, counts), Kind::Corrupt).await;
        }
        // A frame that is longer than frames are, though nothing else is wrong.
        let long = (0x99, vec![0; 2 << 20]);
        is_refused("a long frame", &one_file(0, &[long], [0; 3]), Kind::Corrupt).await;
    });
}

#[test]
fn what_newer_programs_add_is_skipped_or_refused_as_they_say() {
    block_on(async {
        let odd = |kind: u8| one_file(10, &[(kind, b"from the future".to_vec())], [0; 3]);
        for kind in 0..=u8::MAX {
            match kind {
                VOLUME..=END => {}
                0x80.. => drop(is_taken("may be skipped", &odd(kind)).await),
                _ => is_refused("must be known", &odd(kind), Kind::Format).await,
            }
        }
        for bit in [0, 20, 63] {
            let volume = volume_of(1 << bit, 1 << 20, 0, 0, 1000);
            let frames = [volume, top(), end([1, 0, 0, 0, 0])];
            is_refused("a feature", &frames, Kind::Format).await;
        }
        let mut stream = sealed(&one_file(10, &[], [0; 3]));
        stream[8] = 2;
        let error = refused(&Bench::mem().world, &stream).await;
        assert_eq!(error.kind(), Kind::Format);
        assert!(error.to_string().contains("version 2"), "{error}");
        for (what, volume, kind) in [
            ("a chunk", volume_of(0, 3 << 20, 0, 0, 1000), Kind::Invalid),
            ("a codec", volume_of(0, 1 << 20, 3, 0, 1000), Kind::Corrupt),
            ("parity", volume_of(0, 1 << 20, 0, 65, 1000), Kind::Invalid),
            ("low numbers", volume_of(0, 1 << 20, 0, 0, 255), Kind::Corrupt),
            ("high numbers", volume_of(0, 1 << 20, 0, 0, u64::MAX), Kind::Corrupt),
        ] {
            is_refused(what, &[volume, top(), end([1, 0, 0, 0, 0])], kind).await;
        }
    });
}
