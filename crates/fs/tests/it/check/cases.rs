//! Every kind of finding, by what brings it about and nothing else.

use super::lab::{BLOCK, Change, Lab, NOBODY};
use fs::blob::parity::Parity;
use fs::schema::*;
use fs::*;

/// What is to be found, a part of what is said of it, and what brings it about.
pub(super) type Case = (&'static [&'static str], &'static str, fn(&Lab) -> Vec<Change>);

fn gone(parsed: Parsed) -> Change {
    (parsed, None)
}

fn name(parent: Ino, name: &[u8]) -> Parsed {
    Parsed::Entry { parent, name: name.to_vec() }
}

fn bits(blocks: &[u32]) -> Bits {
    let mut bits = Bits::new();
    blocks.iter().for_each(|block| bits.set(*block));
    bits
}

fn bytes_of_volume() -> Parsed {
    Parsed::Counter { counter: Counter::Bytes as u8, shard: 0 }
}

fn inodes_of_volume() -> Parsed {
    Parsed::Counter { counter: Counter::Inodes as u8, shard: 0 }
}

const FILE: FileType = FileType::File;
const DIRECTORY: FileType = FileType::Directory;

pub(super) const NAMES: &[Case] = &[
    (&["entry-without-inode"], "inode 7777", |lab| vec![lab.entry(ROOT, b"ghost", NOBODY, FILE)]),
    (&["entry-without-directory"], "not there", |lab| {
        vec![gone(name(ROOT, b"small")), lab.entry(NOBODY, b"small", lab.small, FILE)]
    }),
    (&["entry-without-directory"], "no directory", |lab| {
        vec![gone(name(ROOT, b"small")), lab.entry(lab.link, b"small", lab.small, FILE)]
    }),
    (&["entry-without-directory"], "removed", |lab| {
        vec![
            gone(name(ROOT, b"small")),
            lab.entry(lab.sub, b"small", lab.small, FILE),
            gone(name(lab.sub, b"link")),
            gone(name(lab.sub, b"other")),
            gone(name(lab.dir, b"sub")),
            lab.entry(lab.dir, b"link", lab.link, FileType::Symlink),
            lab.entry(lab.dir, b"other", lab.linked, FILE),
            lab.number(Parsed::Subdirs { ino: lab.dir }, 0),
            lab.inode(lab.sub, |inode| inode.nlink = 0),
            (Parsed::Garbage { ino: lab.sub }, Some(b"l".to_vec())),
        ]
    }),
    (&["entry-type"], "says Fifo", |lab| {
        vec![lab.entry(ROOT, b"small", lab.small, FileType::Fifo)]
    }),
    (&["entry-name"], "\"..\"", |lab| {
        vec![gone(name(ROOT, b"small")), lab.entry(ROOT, b"..", lab.small, FILE)]
    }),
    (&["entry-name"], "a/b", |lab| {
        vec![gone(name(ROOT, b"small")), lab.entry(ROOT, b"a/b", lab.small, FILE)]
    }),
    (&["inode-without-entry"], "has 0", |_| vec![gone(name(ROOT, b"small"))]),
    (&["inode-without-entry"], "in no directory", |lab| {
        vec![gone(name(ROOT, b"dir")), lab.number(Parsed::Subdirs { ino: ROOT }, 0)]
    }),
    (&["link-count"], "says that it has 1 names, and has 2", |lab| {
        vec![lab.entry(lab.dir, b"again", lab.small, FILE)]
    }),
    (&["link-count"], "says that it has 3 names, and has 2", |lab| {
        vec![lab.inode(lab.linked, |inode| inode.nlink = 3)]
    }),
    (&["link-count"], "has one", |lab| {
        vec![
            lab.inode(lab.sub, |inode| inode.nlink = 0),
            (Parsed::Garbage { ino: lab.sub }, Some(b"l".to_vec())),
            gone(name(lab.sub, b"link")),
            gone(name(lab.sub, b"other")),
            lab.entry(lab.dir, b"link", lab.link, FileType::Symlink),
            lab.entry(lab.dir, b"other", lab.linked, FILE),
        ]
    }),
    (&["directory-names"], "second name", |lab| {
        vec![
            lab.entry(ROOT, b"dir2", lab.dir, DIRECTORY),
            lab.moved(Parsed::Subdirs { ino: ROOT }, 1),
        ]
    }),
    (&["directory-names"], "the root", |lab| {
        vec![
            lab.entry(lab.dir, b"r", ROOT, DIRECTORY),
            lab.moved(Parsed::Subdirs { ino: lab.dir }, 1),
        ]
    }),
    (&["parent"], "says that it is in 1", |lab| {
        vec![lab.inode(lab.sub, |inode| inode.parent = ROOT)]
    }),
    (&["subdirectories"], "says that 5 directories are in it, and 1 are", |lab| {
        vec![lab.number(Parsed::Subdirs { ino: lab.dir }, 5)]
    }),
    (&["subdirectories"], "says that 0 directories are in it, and 1 are", |_| {
        vec![gone(Parsed::Subdirs { ino: ROOT })]
    }),
    (&["cycle"], "below itself", |lab| {
        vec![
            gone(name(ROOT, b"dir")),
            lab.number(Parsed::Subdirs { ino: ROOT }, 0),
            lab.entry(lab.sub, b"dir", lab.dir, DIRECTORY),
            lab.number(Parsed::Subdirs { ino: lab.sub }, 1),
            lab.inode(lab.dir, |inode| inode.parent = lab.sub),
        ]
    }),
    (&["root"], "ino: 1 }", |lab| vec![lab.inode(ROOT, |inode| inode.parent = lab.dir)]),
    (&["inode-fields"], "several names", |lab| vec![lab.inode(lab.dir, |inode| inode.nlink = 2)]),
    (&["inode-fields"], "target", |lab| vec![lab.inode(lab.link, |inode| inode.size = 2)]),
    (&["inode-fields"], "home", |lab| vec![lab.inode(lab.small, |inode| inode.slot = 1)]),
    (&["inode-fields"], "no file", |lab| {
        vec![lab.inode(lab.sub, |inode| inode.form = Form::Mapped)]
    }),
    (&["inode-number"], "next number", |lab| {
        let highest = [lab.small, lab.empty, lab.large, lab.linked, lab.tagged, lab.link];
        vec![lab.number(Parsed::NextInode, *highest.iter().max().unwrap())]
    }),
    (&["inode-number"], "so far", |lab| vec![lab.number(Parsed::NextInode, 1 << 63 | 300)]),
    (&["garbage-without-inode"], "7777", |_| {
        vec![(Parsed::Garbage { ino: NOBODY }, Some(b"l".to_vec()))]
    }),
    (&["garbage-without-inode"], "ino: 2 }", |_| {
        vec![(Parsed::Garbage { ino: 2 }, Some(b"n".to_vec()))]
    }),
    (&["garbage-with-links"], "has 1 names", |lab| {
        vec![(Parsed::Garbage { ino: lab.small }, Some(b"l".to_vec()))]
    }),
    (&["inode-without-garbage"], "no names", |lab| {
        vec![gone(name(ROOT, b"small")), lab.inode(lab.small, |inode| inode.nlink = 0)]
    }),
    (&["volume-inodes"], "say", |lab| vec![lab.moved(inodes_of_volume(), 3)]),
];

pub(super) const RECORDS: &[Case] = &[
    (&["volume-record"], "Epoch", |_| vec![gone(Parsed::Epoch)]),
    (&["volume-record"], "NextInode", |_| vec![gone(Parsed::NextInode)]),
    (&["damaged-record"], "Volume", |lab| vec![lab.flip(Parsed::Volume)]),
    (&["damaged-record"], "Epoch", |_| vec![(Parsed::Epoch, Some(vec![1, 2]))]),
    (&["damaged-record"], "Inode", |lab| vec![lab.flip(Parsed::Inode { ino: lab.small })]),
    (&["damaged-record"], "Inode", |lab| vec![lab.flip(Parsed::Inode { ino: lab.large })]),
    (&["damaged-record"], "Inode", |lab| vec![lab.flip(Parsed::Inode { ino: lab.dir })]),
    (&["damaged-record"], "Inode", |_| vec![(Parsed::Inode { ino: ROOT }, Some(vec![]))]),
    // Of a damaged entry nobody knows what it named.
    (&["damaged-record", "inode-without-entry"], "small", |lab| {
        vec![lab.flip(name(ROOT, b"small"))]
    }),
    (&["damaged-record"], "Xattr", |lab| {
        vec![lab.flip(Parsed::Xattr { ino: lab.tagged, name: b"user.a".to_vec() })]
    }),
    (&["damaged-record"], "Subdirs", |lab| {
        vec![(Parsed::Subdirs { ino: lab.sub }, Some(vec![0; 9]))]
    }),
    (&["damaged-record"], "Map", |lab| vec![lab.flip(Parsed::Map { blob: lab.large, chunk: 0 })]),
    (&["damaged-record"], "Job", |_| vec![(Parsed::Job { job: 4 }, Some(vec![1; 20]))]),
    (&["damaged-record"], "Garbage", |lab| {
        vec![
            (Parsed::Garbage { ino: lab.small }, Some(b"x".to_vec())),
            gone(name(ROOT, b"small")),
            lab.inode(lab.small, |inode| inode.nlink = 0),
        ]
    }),
    (&["damaged-record"], "Session", |lab| {
        let [_, beat] = lab.session(99);
        vec![(Parsed::Session { session: 99 }, Some(vec![7; 30])), beat]
    }),
    (&["damaged-record"], "Lock", |lab| {
        let [record, beat] = lab.session(99);
        let (lock, _) = lab.lock(lab.small, 99);
        let held = lab.number(Parsed::Held { session: 99, ino: lab.small }, 0);
        vec![record, beat, (lock, Some(vec![3; 12])), held]
    }),
    (&["damaged-record"], "Op", |lab| {
        let [record, beat] = lab.session(99);
        vec![record, beat, (Parsed::Op { session: 99, op: 1 }, Some(vec![3; 12]))]
    }),
    (&["unknown-key"], "Conflict", |lab| {
        vec![(Parsed::Conflict { ino: lab.small, part: b'a' }, Some(vec![1]))]
    }),
    (&["orphan-part"], "Changed", |lab| vec![lab.number(Parsed::Changed { ino: NOBODY }, 1)]),
    (&["orphan-part"], "Xattr", |lab| {
        vec![lab.sealed(Parsed::Xattr { ino: NOBODY, name: b"user.b".to_vec() }, &[1, 2])]
    }),
    (&["side"], "contents changed", |lab| vec![lab.number(Parsed::Changed { ino: lab.small }, 1)]),
    (&["side"], "directories", |lab| vec![lab.number(Parsed::Subdirs { ino: lab.large }, 1)]),
    (&["side"], "bytes", |lab| vec![lab.number(Parsed::Blocks { ino: lab.dir }, 1)]),
    (&["xattr-flag"], "says that it has none", |lab| {
        vec![lab.inode(lab.tagged, |inode| inode.xattrs = false)]
    }),
    (&["acl-flag"], "says that it has an access list", |lab| {
        vec![lab.inode(lab.tagged, |inode| inode.access_acl = true)]
    }),
    (&["acl-flag"], "says that it has a default list", |lab| {
        vec![lab.inode(lab.dir, |inode| inode.default_acl = true)]
    }),
    (&["acl-flag"], "does not have an access list", |lab| {
        let list = fs::acl::Acl::from_mode(0o644).encode();
        let at = Parsed::Xattr { ino: lab.tagged, name: b"system.posix_acl_access".to_vec() };
        vec![lab.sealed(at, &[&[1], &list[..]].concat())]
    }),
    (&["session-half"], "no heartbeat", |lab| {
        let [record, _] = lab.session(99);
        vec![record]
    }),
    (&["session-half"], "no record", |lab| {
        let [_, beat] = lab.session(99);
        vec![beat]
    }),
    (&["lease-leftover"], "gone", |lab| {
        vec![lab.number(Parsed::Lease { ino: lab.small, session: 99 }, 1)]
    }),
    (&["lock-leftover"], "gone", |lab| vec![lab.lock(lab.small, 99)]),
    (&["held-missing"], "Lease", |lab| {
        let [record, beat] = lab.session(99);
        vec![record, beat, lab.number(Parsed::Lease { ino: lab.small, session: 99 }, 1)]
    }),
    (&["held-missing"], "Lock", |lab| {
        vec![lab.job(5, &Job::Reap { session: 99, next: 0 }), lab.lock(lab.small, 99)]
    }),
    (&["held-leftover"], "gone", |lab| {
        vec![lab.number(Parsed::Held { session: 99, ino: lab.small }, 1)]
    }),
    (&["operation-leftover"], "gone", |lab| {
        vec![lab.sealed(Parsed::Op { session: 99, op: 1 }, &[1])]
    }),
    (&["job"], "another generation", |lab| {
        let stage =
            Job::Stage { session: 1, slot: 0, blob: lab.large, generation: 6, next: 0, end: 1 };
        vec![lab.job(5, &stage)]
    }),
];

pub(super) const DATA: &[Case] = &[
    (&["trim"], "job 55", |lab| {
        vec![lab.inode(lab.large, |inode| (inode.trim, inode.trim_from) = (55, 9))]
    }),
    (&["trim"], "job 55", |lab| {
        vec![
            lab.inode(lab.large, |inode| (inode.trim, inode.trim_from) = (55, 9)),
            lab.job(55, &Job::Trim { ino: lab.large, next: 8 }),
        ]
    }),
    (&["inline-size"], "100 inline bytes, of a size of 10", |lab| {
        vec![lab.inode(lab.small, |inode| inode.size = 10)]
    }),
    (&["inline-missing"], "100 bytes", |lab| vec![gone(Parsed::Inline { blob: lab.small })]),
    (&["inline-unowned"], "7777", |_| {
        vec![(Parsed::Inline { blob: NOBODY }, Some(b"anything".to_vec()))]
    }),
    (&["inline-unowned"], "no inode", |lab| {
        vec![(Parsed::Inline { blob: lab.empty }, Some(b"anything".to_vec()))]
    }),
    (&["inline-length"], "has 100 bytes", |lab| {
        vec![lab.inode(lab.small, |inode| inode.inline_len = 99)]
    }),
    (&["inline-damaged"], "checksum", |lab| vec![lab.flip(Parsed::Inline { blob: lab.small })]),
    (&["blob-shared"], "another inode", |lab| {
        vec![lab.inode(lab.empty, |inode| inode.blob = lab.small)]
    }),
    (&["blob-dropped"], "to remove", |lab| {
        vec![lab.job(5, &Job::DropBlob { slot: 0, blob: lab.large, next: 0 })]
    }),
    (&["map-unowned"], "7777", |lab| vec![lab.map(NOBODY, 3, &MapEntry::Zero)]),
    (&["map-unowned"], "no mapped file", |lab| vec![lab.map(lab.small, 0, &MapEntry::Zero)]),
    (&["map-shape"], "names no block", |lab| {
        vec![lab.map(lab.large, 9, &MapEntry::Data(Data::default()))]
    }),
    (&["map-shape"], "below 256", |lab| {
        let data = Data { allocated: bits(&[256]), layers: Vec::new() };
        vec![
            lab.map(lab.large, 9, &MapEntry::Data(data)),
            lab.moved(Parsed::Blocks { ino: lab.large }, BLOCK as i64),
            lab.moved(bytes_of_volume(), BLOCK as i64),
        ]
    }),
    (&["block-missing"], "block: 254", |lab| vec![gone(lab.block(0, 254))]),
    (&["block-unnamed"], "generation: 5", |lab| {
        let place = BlockPlace { slot: 0, blob: lab.large, chunk: 0, block: 254, generation: 5 };
        vec![(Parsed::Block(place), Some(vec![1]))]
    }),
    (&["block-unnamed"], "chunk: 1", |lab| {
        let place = BlockPlace { slot: 0, blob: NOBODY, chunk: 1, block: 2, generation: 0 };
        // A job for another chunk does not make it right.
        let replaced = vec![(2, 0, bits(&[2]))];
        vec![
            (Parsed::Block(place), Some(vec![1])),
            lab.job(5, &Job::Sweep { slot: 0, blob: NOBODY, replaced }),
        ]
    }),
    (&["block-unnamed"], "slot: 3", |lab| {
        let place = BlockPlace { slot: 3, blob: lab.large, chunk: 0, block: 254, generation: 0 };
        vec![(Parsed::Block(place), Some(vec![1]))]
    }),
    (&["block-damaged"], "block: 254", |lab| vec![lab.flip(lab.block(0, 254))]),
    (&["block-behind-end"], "ends at", |lab| vec![lab.inode(lab.large, |inode| inode.size -= 1)]),
    (&["inode-space"], "says 28672 bytes, and the file takes 24576", |lab| {
        vec![lab.moved(Parsed::Blocks { ino: lab.large }, BLOCK as i64)]
    }),
    (&["inode-space"], "says 0 bytes", |lab| vec![gone(Parsed::Blocks { ino: lab.large })]),
    (&["volume-bytes"], "say", |lab| vec![lab.moved(bytes_of_volume(), -1)]),
];

/// On a volume with parity.
pub(super) const PARITY: &[Case] = &[
    (&["parity-missing"], "block: 32831", |lab| vec![gone(lab.parity(0, 63))]),
    (&["parity-unneeded"], "no blocks", |lab| {
        let parity = lab.get(&lab.parity(0, 63));
        assert!(!parity.is_empty());
        let at = lab.parity(0, 2);
        let key = lab.volume.keys().unparse(&at);
        vec![(at, Some(Parity::default().encode(&key)))]
    }),
    (&["parity-wrong"], "checksum", |lab| vec![lab.flip(lab.parity(0, 63))]),
    (&["parity-wrong"], "block 253", |lab| {
        let at = lab.parity(0, 63);
        let key = lab.volume.keys().unparse(&at);
        let other = Parity::of([(253, 0, &b"other"[..])]).unwrap();
        vec![(at, Some(other.encode(&key)))]
    }),
    (&["parity-wrong"], "block 254", |lab| {
        // Whole, and of too few blocks.
        let at = lab.parity(0, 63);
        let key = lab.volume.keys().unparse(&at);
        let block = lab.get(&lab.block(0, 253));
        vec![(at, Some(Parity::of([(253, 0, &block[..])]).unwrap().encode(&key)))]
    }),
    // What is lost is not said to be wrong twice.
    (&["block-missing"], "block: 254", |lab| vec![gone(lab.block(0, 254))]),
    (&["block-damaged"], "block: 254", |lab| vec![lab.flip(lab.block(0, 254))]),
];

/// What looks wrong and is not: work that waits, and what sessions hold.
pub(super) const LEGAL: &[fn(&Lab) -> Vec<Change>] = &[
    |lab| {
        let [record, beat] = lab.session(99);
        let held = Parsed::Held { session: 99, ino: lab.small };
        vec![
            record,
            beat,
            lab.number(Parsed::Lease { ino: lab.small, session: 99 }, 1),
            lab.lock(lab.small, 99),
            lab.number(held, 1),
            // Of a file that is open and not leased yet.
            lab.number(Parsed::Held { session: 99, ino: lab.large }, 1),
            lab.sealed(Parsed::Op { session: 99, op: 1 }, &[1]),
        ]
    },
    |lab| {
        vec![
            lab.job(5, &Job::Reap { session: 99, next: 0 }),
            lab.number(Parsed::Lease { ino: lab.small, session: 99 }, 1),
            lab.lock(lab.small, 99),
            lab.number(Parsed::Held { session: 99, ino: lab.small }, 1),
            lab.sealed(Parsed::Op { session: 99, op: 1 }, &[1]),
        ]
    },
    |lab| {
        let block = |block| BlockPlace { slot: 0, blob: lab.large, chunk: 0, block, generation: 5 };
        let stage =
            Job::Stage { session: 99, slot: 0, blob: lab.large, generation: 5, next: 7, end: 9 };
        vec![
            lab.job(5, &stage),
            (Parsed::Block(block(7)), Some(vec![1])),
            (Parsed::Block(block(8)), Some(vec![1])),
        ]
    },
    |lab| {
        let place = BlockPlace { slot: 0, blob: NOBODY, chunk: 4, block: 2, generation: 6 };
        let replaced = vec![(3, 6, bits(&[2])), (4, 6, bits(&[2, 9]))];
        vec![
            lab.job(5, &Job::Sweep { slot: 0, blob: NOBODY, replaced }),
            (Parsed::Block(place), Some(vec![1])),
        ]
    },
    |lab| {
        // Bytes behind the end, in a chunk that a trim removes.
        let chunk = 1;
        vec![
            lab.job(5, &Job::Trim { ino: lab.large, next: chunk }),
            lab.inode(lab.large, |inode| {
                (inode.size, inode.trim, inode.trim_from) = (super::lab::MIB, 5, chunk);
            }),
        ]
    },
    // A trim that its inode does not name does nothing.
    |lab| vec![lab.job(5, &Job::Trim { ino: lab.small, next: 0 })],
    |lab| vec![lab.inode(lab.empty, |inode| inode.xattrs = true)],
    |lab| {
        vec![
            lab.moved(bytes_of_volume(), -77),
            lab.number(Parsed::Counter { counter: Counter::Bytes as u8, shard: 9 }, 77),
        ]
    },
];
