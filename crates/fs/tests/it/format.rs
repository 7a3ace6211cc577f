//! docs/format.md and the schema say the same, and the bytes of records do not change by accident.

use crate::world::*;
use base::block_on;
use bytes::Bytes;
use fs::blob::block::{self, Codec};
use fs::blob::parity::Parity;
use fs::schema::*;
use fs::*;
use std::collections::BTreeMap;

const FORMAT_MD: &str = include_str!("../../../../docs/format.md");

/// The rows of the table with these columns.
fn table<'a>(text: &'a str, columns: &[&str]) -> Vec<Vec<&'a str>> {
    let cells = |line: &'a str| -> Vec<&'a str> {
        line.trim_matches('|').split('|').map(str::trim).collect()
    };
    let mut lines = text.lines().skip_while(|line| cells(line) != columns);
    assert!(lines.next().is_some(), "a table with the columns {columns:?}");
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn the_table_of_families_is_the_schema() {
    let rows = table(FORMAT_MD, &["family", "byte", "key", "value"]);
    let mut documented = BTreeMap::new();
    for row in &rows {
        let [family, byte, key, value] = row[..] else { panic!("{row:?}") };
        let byte = byte.strip_prefix('`').and_then(|byte| byte.strip_suffix('`'));
        let [byte] = byte.unwrap().as_bytes() else { panic!("{row:?}") };
        assert!(!key.is_empty() && !value.is_empty(), "{row:?}");
        assert_eq!(documented.insert(family, *byte), None, "{family} is there twice");
    }
    let written: BTreeMap<&str, u8> =
        Family::ALL.iter().map(|family| (family.what(), family.byte())).collect();
    assert_eq!(documented, written);
    assert_eq!(rows.len(), Family::ALL.len());
    for family in Family::ALL {
        assert_eq!(Family::of_byte(family.byte()), Some(*family), "one byte, one family");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares all at once, so that one run shows everything that changed.
fn check_golden(found: &[(&str, Vec<u8>)], golden: &[(&str, &str)]) {
    let found: Vec<(&str, String)> = found.iter().map(|(name, it)| (*name, hex(it))).collect();
    for (name, bytes) in &found {
        println!("        (\"{name}\", \"{bytes}\"),");
    }
    let found: Vec<(&str, &str)> = found.iter().map(|(name, it)| (*name, &it[..])).collect();
    assert_eq!(found, golden, "the format has changed: that needs a new version");
}

#[test]
fn keys_are_what_they_were() {
    let keys = Keys::new(0x0102);
    let place =
        BlockPlace { slot: 3, blob: 0x0405, chunk: 6, block: 7, generation: 0x0809_0a0b_0c0d_0e0f };
    let all = [
        ("volume", Parsed::Volume),
        ("epoch", Parsed::Epoch),
        ("next inode", Parsed::NextInode),
        ("scrub", Parsed::Scrub),
        ("life", Parsed::Life),
        ("bytes", Parsed::Counter { counter: b'b', shard: 3 }),
        ("inodes", Parsed::Counter { counter: b'i', shard: 0 }),
        ("inode", Parsed::Inode { ino: 0x0100 }),
        ("lock", Parsed::Lock { ino: 9, session: 8, owner: 7, flock: false }),
        ("flock", Parsed::Lock { ino: 9, session: 8, owner: 7, flock: true }),
        ("lease", Parsed::Lease { ino: 9, session: 8 }),
        ("xattr", Parsed::Xattr { ino: 9, name: b"user.\xfe\xff".to_vec() }),
        ("changed", Parsed::Changed { ino: 9 }),
        ("subdirs", Parsed::Subdirs { ino: 9 }),
        ("blocks", Parsed::Blocks { ino: 9 }),
        ("conflict", Parsed::Conflict { ino: 9, part: b'a' }),
        ("entry", Parsed::Entry { parent: 1, name: b"name".to_vec() }),
        ("inline", Parsed::Inline { blob: 9 }),
        ("backing", Parsed::Backing { blob: 9 }),
        ("map", Parsed::Map { blob: 9, chunk: 2 }),
        ("block", Parsed::Block(place)),
        ("parity", Parsed::Block(BlockPlace { block: PARITY_BLOCK | 1, generation: 0, ..place })),
        ("garbage", Parsed::Garbage { ino: 9 }),
        ("session", Parsed::Session { session: 8 }),
        ("heartbeat", Parsed::Heartbeat { session: 8 }),
        ("held", Parsed::Held { session: 8, ino: 9 }),
        ("operation", Parsed::Op { session: 8, op: 2 }),
        ("job", Parsed::Job { job: 5 }),
    ];
    let found = all.map(|(name, parsed)| (name, keys.unparse(&parsed).to_vec()));
    check_golden(&found, GOLDEN_KEYS);
}

#[test]
fn records_are_what_they_were() {
    let key = b"key";
    let time = |secs| Time { secs, nanos: 5 };
    let plain = Inode::new(300, mode::FILE | 0o644, 1000, 1001, time(1_800_000_000));
    let mut all = Inode::new(300, mode::FILE | 0o4755, 0, 0, time(-1));
    all.nlink = 2;
    all.size = 1 << 40;
    all.form = Form::Mapped;
    (all.access_acl, all.default_acl, all.xattrs) = (true, true, true);
    (all.blob, all.slot, all.home_epoch, all.trim, all.trim_from) = (301, 1, 2, 3, 4);
    (all.atime, all.mtime, all.ctime) = (time(1), time(2), time(3));
    let mut link = Inode::new(300, mode::SYMLINK | 0o777, 0, 0, time(0));
    (link.size, link.target) = (6, Bytes::from_static(b"target"));
    let mut dir = Inode::new(300, mode::DIRECTORY | 0o755, 0, 0, time(0));
    dir.parent = 1;
    let mut device = Inode::new(300, mode::CHARACTER | 0o600, 0, 0, time(0));
    (device.rdev, device.inline_len) = (0x0105, 0);

    let mut local = plain.clone();
    (local.form, local.blob, local.size, local.taken) = (Form::Local, 301, 1 << 20, 1 << 19);
    let lent = BackingRecord { ino: 300, synced: true, base: time(1), ..BackingRecord::default() };
    let suspect = BackingRecord { suspect: true, synced: false, ..lent };

    let mut data = Data { allocated: Bits::of(0..70), layers: Vec::new() };
    data.store(0, Some(0));
    data.store(69, Some(1 << 33));
    let replaced = vec![(1, 0, Bits::of(3..5)), (2, 9, Bits::of(64..65))];
    let lock = |kind, start, end| Lock { kind, start, end, pid: 77 };
    let locks = [lock(LockKind::Read, 0, 10), lock(LockKind::Write, 10, u64::MAX)];
    let session = SessionRecord {
        host: "host".into(),
        pid: 4711,
        version: "0.1.0".into(),
        started: time(1_800_000_000),
    };
    let volume = VolumeRecord {
        features_refuse: 0,
        features_read_only: 0,
        uuid: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        chunk_bytes: 4 << 20,
        block_bytes: 65_536,
        inline_bytes_max: 16_384,
        codec: Codec::Lz4,
        parity_group: 8,
        capacity_bytes: 1 << 40,
        inodes_max: 1_000_000,
        created: time(1_800_000_000),
    };
    let stage = Job::Stage { session: 8, slot: 0, blob: 9, generation: 200, next: 5, end: 600 };
    let text = b"abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc\0\0";
    let parity = Parity::of([(0, 0, &b"one"[..]), (3, 200, b"second")]).unwrap();
    let found = [
        ("plain inode", plain.encode(key, 300)),
        ("inode with all", all.encode(key, 300)),
        ("link", link.encode(key, 300)),
        ("directory", dir.encode(key, 300)),
        ("device", device.encode(key, 300)),
        ("local file", local.encode(key, 300)),
        ("backing, free", BackingRecord::default().encode(key)),
        ("backing, lent", lent.encode(key)),
        ("backing, suspect", suspect.encode(key)),
        ("entry", Entry { ino: 300, file_type: FileType::Directory }.encode(key)),
        ("map, zero", MapEntry::Zero.encode(key)),
        ("map, data", MapEntry::Data(data).encode(key)),
        ("locks", encode_locks(key, &locks)),
        ("session", session.encode(key)),
        ("volume", volume.encode(key)),
        ("drop", Job::DropBlob { slot: 0, blob: 9, next: 300 }.encode(key)),
        ("trim", Job::Trim { ino: 9, next: 300 }.encode(key)),
        ("stage", stage.encode(key)),
        ("sweep", Job::Sweep { slot: 0, blob: 9, replaced }.encode(key)),
        ("reap", Job::Reap { session: 8, next: 9 }.encode(key)),
        ("block", block::encode(b"hello\0\0\0", Codec::Zstd, key)),
        ("lz4 block", block::encode(text, Codec::Lz4, key)),
        ("parity", parity.encode(key)),
    ];
    check_golden(&found, GOLDEN_RECORDS);
    // Another version of zstd may compress otherwise; what was written must be read for ever.
    let pairs = (0..GOLDEN_ZSTD.len()).step_by(2);
    let stored: Vec<u8> =
        pairs.map(|at| u8::from_str_radix(&GOLDEN_ZSTD[at..at + 2], 16).unwrap()).collect();
    println!("zstd block now: {}", hex(&block::encode(text, Codec::Zstd, key)));
    assert_eq!(block::decode(&stored.into(), key, 4096).unwrap(), &text[..66]);
}

/// Records that only operations write, as they are found in a store.
#[test]
fn records_of_operations_are_what_they_were() {
    block_on(async {
        let bench = Bench::sim(1, unbounded);
        let volume = bench.volume().await;
        let session = private_session(&volume).await;
        let ino = session.mknod(&root(), ROOT, b"file", mode::FILE | 0o600, 0).await.unwrap().ino;
        let name = b"user.name".to_vec();
        session.setxattr(&root(), ino, &name, b"value", XattrMode::Any).await.unwrap();
        let handle = session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap();
        session.write(&root(), handle, 0, b"bytes").await.unwrap();
        session.unlink(&root(), ROOT, b"file").await.unwrap();
        let mut txn = volume.world().store.begin().await.unwrap();
        let mut found = vec![("volume name", {
            let name = b"\0\0Vtest";
            txn.get(&kv::Key::new(name), kv::Read::Snapshot).await.unwrap().unwrap().to_vec()
        })];
        let id = session.id();
        for (what, at) in [
            ("next inode", Parsed::NextInode),
            ("epoch", Parsed::Epoch),
            ("heartbeat", Parsed::Heartbeat { session: id }),
            ("inodes", Parsed::Counter { counter: b'i', shard: 0 }),
            ("bytes", Parsed::Counter { counter: b'b', shard: 0 }),
            ("garbage", Parsed::Garbage { ino }),
            ("xattr", Parsed::Xattr { ino, name }),
            ("inline", Parsed::Inline { blob: ino }),
            ("reply: attributes", Parsed::Op { session: id, op: 1 }),
            ("reply: nothing", Parsed::Op { session: id, op: 2 }),
            ("reply: number", Parsed::Op { session: id, op: 3 }),
        ] {
            let key = volume.keys().unparse(&at);
            let value = txn.get(&key, kv::Read::Snapshot).await.unwrap();
            found.push((what, value.unwrap_or_else(|| panic!("{what}")).to_vec()));
        }
        check_golden(&found, GOLDEN_OPERATIONS);
    });
}

const GOLDEN_KEYS: &[(&str, &str)] = &[
    ("volume", "01024d"),
    ("epoch", "01024d65"),
    ("next inode", "01024d6e"),
    ("scrub", "01024d73"),
    ("life", "01024d6c"),
    ("bytes", "0102736203"),
    ("inodes", "0102736900"),
    ("inode", "0102690000000000000100"),
    ("lock", "0102690000000000000009000000000000000008000000000000000700"),
    ("flock", "0102690000000000000009000000000000000008000000000000000701"),
    ("lease", "0102690000000000000009010000000000000008"),
    ("xattr", "010269000000000000000902757365722efe01fe02"),
    ("changed", "010269000000000000000903"),
    ("subdirs", "010269000000000000000904"),
    ("blocks", "010269000000000000000905"),
    ("conflict", "0102690000000000000009fe61"),
    ("entry", "01026400000000000000016e616d65"),
    ("inline", "0102620000000000000009"),
    ("backing", "0102770000000000000009"),
    ("map", "01026600000000000000090000000000000002"),
    ("block", "01026300000000000000030000000000000405000000000000000608090a0b0c0d0e0f0007"),
    ("parity", "01026300000000000000030000000000000405000000000000000600000000000000008001"),
    ("garbage", "0102670000000000000009"),
    ("session", "010270000000000000000800"),
    ("heartbeat", "010270000000000000000801"),
    ("held", "01026c00000000000000080000000000000009"),
    ("operation", "01026f00000000000000080000000000000002"),
    ("job", "01026a0000000000000005"),
];
const GOLDEN_RECORDS: &[(&str, &str)] = &[
    ("plain inode", "010007a4830201e807e90700000000a0c21e00d2496b0000000005000000e529da32"),
    (
        "inode with all",
        "012f00ed930202000000808080808020000000ffffffffffffffff05000000010000000000000005000000020000000000000005000000030000000000000005000000ad02010203044b19b8c1",
    ),
    ("link", "011007ffc3020100000006000000000000000000000005000000067461726765749e51424a"),
    ("directory", "010007ed83010100000000000100000000000000000005000000e2f740d7"),
    ("device", "0100078043010000850200000000000000000000000005000000d4036ac0"),
    (
        "local file",
        "014807a4830201e807e907008080400000a0c21e00d2496b0000000005000000ad02000000008080206ed6732b",
    ),
    ("backing, free", "0100007ff80ad8"),
    ("backing, lent", "0101ac02010000000000000005000000462693c5"),
    ("backing, suspect", "0104ac0201000000000000000500000034089f33"),
    ("entry", "0104ac02fc94321f"),
    ("map, zero", "01006ae32f39"),
    (
        "map, data",
        "010102ffffffffffffffff3f000000000000000200010100000000000000808080802002000000000000000020000000000000006c9ebc21",
    ),
    ("locks", "010200000a4d010affffffffffffffffff014da681729e"),
    ("session", "0104686f7374e72405302e312e3000d2496b00000000050000008fc053e7"),
    (
        "volume",
        "010000ffeeddccbbaa99887766554433221100808080028080048080010108808080808020c0843d00d2496b0000000005000000a6b526ac",
    ),
    ("drop", "01010009ac0216f39fb6"),
    ("trim", "010209ac020244ce37"),
    ("stage", "0103080009c80105d804dc4f94df"),
    ("sweep", "0104000902010001180000000000000002090200000000000000000100000000000000fae49323"),
    ("reap", "01050809a59e9137"),
    ("block", "0100050000009a73aa4c2906e06c68656c6c6f"),
    ("lz4 block", "0101420000001f0917c40cfbf3023f61626303002660616263616263"),
    (
        "parity",
        "0102000600000017a17081006cef5600000000000000000000000003000000a0e11f32a7ab1f9103000000c800000000000000060000003a084b05114258301c0b066f6e64",
    ),
];
const GOLDEN_OPERATIONS: &[(&str, &str)] = &[
    ("volume name", "014f734319"),
    ("next inode", "0011000000000000"),
    ("epoch", "0100000000000000"),
    ("heartbeat", "0000000000000000"),
    ("inodes", "0200000000000000"),
    ("bytes", "0010000000000000"),
    ("garbage", "6c"),
    ("xattr", "0176616c7565aa380e82"),
    ("inline", "010005000000e740d62e8a7917ba6279746573"),
    (
        "reply: attributes",
        "0180020000808302010000008080048047fa6a00000000008047fa6a00000000008047fa6a00000000008047fa6a0000000000ad06e770",
    ),
    ("reply: nothing", "0196639a61"),
    ("reply: number", "0105167f5b9c"),
];
const GOLDEN_ZSTD: &str = "01024200000074e989dc790980fb28b52ffd20424d0000186162630100547243";
