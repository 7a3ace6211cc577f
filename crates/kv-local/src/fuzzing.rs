//! Doors for the fuzzers: every decoder of bytes that nobody vouches for.
//!
//! Each function takes arbitrary bytes and must return: with a value, an error, or nothing, but
//! never with a panic, and never after reading or allocating more than the input can justify.

use crate::format::Format;
use crate::levels::Manifest;
use crate::log::record::{self, At, Change, Header};
use crate::log::replay;
use crate::merge::Source;
use crate::open;
use crate::options::Options;
use crate::table::block::{Block, Builder};
use crate::table::{Footer, Memory, Table, TableCursor, TableInfo, Writer};
use base::{Disk, SeededRandom, SimDisk};
use kv::{Key, KeyRange};
use std::sync::Arc;

/// Reads one record, and writes what it read back.
pub fn record(bytes: &[u8]) {
    let At::Record { header, payload, len } = record::read(bytes, 1) else { return };
    let plain = payload.plain();
    assert!(len >= plain.len());
    changes(&plain);
    let mut again = Vec::new();
    let start = record::begin(&mut again);
    again.extend_from_slice(&plain);
    record::finish(&mut again, start, header);
    let At::Record { header: same, payload, len } = record::read(&again, 1) else {
        unreachable!("what was just written cannot be read");
    };
    assert_eq!((same, payload.plain(), len), (header, plain, again.len()));
}

/// Reads the changes of a payload; what can be read is written back the same.
pub fn changes(payload: &[u8]) {
    if let Some(changes) = record::decode_changes(payload) {
        let mut again = Vec::new();
        for change in &changes {
            change.encode(&mut again);
        }
        assert_eq!(again, payload);
    }
}

/// Replays logs. The input makes valid records, damages them, and splits them over files, so that
/// the fuzzer gets past the checksums.
pub fn replay_logs(bytes: &[u8]) {
    let disk = SimDisk::new();
    let mut file = Vec::new();
    let (mut version, mut log) = (1, 1);
    let mut input = bytes.iter().copied();
    while let Some(command) = input.next() {
        match command % 8 {
            0..=3 => {
                let start = record::begin(&mut file);
                let len = input.next().unwrap_or(0);
                let key: Vec<u8> = input.by_ref().take(usize::from(len) % 40 + 1).collect();
                Change::Set(Key::new(&key), Some(vec![len; usize::from(len)].into()))
                    .encode(&mut file);
                let synced = version - u64::from(input.next().unwrap_or(0)) % version;
                record::finish(&mut file, start, Header { version, synced, log });
                version += 1;
            }
            4 => {
                let at = usize::from(input.next().unwrap_or(0)) * 7;
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= input.next().unwrap_or(1);
                }
            }
            5 => file.truncate(usize::from(input.next().unwrap_or(0)) * 9),
            6 => file.extend(input.by_ref().take(64)),
            _ => {
                disk.poke(&crate::log::name_of(log), std::mem::take(&mut file));
                log += 1;
            }
        }
    }
    disk.poke(&crate::log::name_of(log), file);
    replay_disk(&disk);
}

/// Replays one log that holds just these bytes.
pub fn replay_raw(bytes: &[u8]) {
    let disk = SimDisk::new();
    disk.poke(&crate::log::name_of(1), bytes.to_vec());
    replay_disk(&disk);
}

fn replay_disk(disk: &SimDisk) {
    let run = || {
        let logs = replay::find(disk, 1).ok()?;
        let mut versions = Vec::new();
        let mut apply = |version, payload: &[u8]| {
            versions.push(version);
            record::decode_changes(payload).map(drop)
        };
        let end = replay::replay(disk, &logs, 0, &mut apply, None).ok()?;
        assert!(versions.iter().copied().eq(1..=versions.len() as u64));
        Some((end.version, versions.len()))
    };
    // What a replay left must replay the same.
    if let Some(first) = run() {
        assert_eq!(run(), Some(first));
    }
}

/// Reads the frame of a block without its checksum, and all that it seems to hold.
pub fn block(bytes: &[u8]) {
    let Some(block) = Block::parse(bytes.to_vec()) else { return };
    for index in 0..block.count() {
        let key = block.key(index).to_vec();
        let value = block.value(index).map(<[u8]>::to_vec);
        assert_eq!(block.value_owned(index).as_deref(), value.as_deref());
        let _ = block.lower_bound(&key);
    }
    let _ = block.lower_bound(bytes);
    let mut builder = Builder::default();
    builder.push(b"key", Some(bytes));
    let mut out = Vec::new();
    builder.finish(1, &mut out);
    assert_eq!(Block::open(out, 1).and_then(|block| block.value_owned(0)).as_deref(), Some(bytes));
}

/// Reads the format file.
pub fn format(bytes: &[u8]) {
    if let Some(format) = Format::decode(bytes) {
        let _ = format.check(false);
        assert_eq!(Format::decode(&format.encode()), Some(format));
    }
}

/// Reads a manifest, with and without its checksum.
pub fn manifest(bytes: &[u8]) {
    if let Some(manifest) = Manifest::decode(bytes, 1) {
        assert_eq!(Manifest::decode(&manifest.encode(1), 1), Some(manifest));
    }
    if let Some(manifest) = Manifest::parse(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode(1), 1), Some(manifest));
    }
}

/// Reads a table file: a good one that the input damages, or just the input.
pub fn table(bytes: &[u8]) {
    let _ = Footer::decode(bytes, 1, 1);
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let Ok(mut writer) = Writer::create(&disk, 1, 1) else { return };
    for number in 0..200u32 {
        if writer.push(&number.to_be_bytes(), Some(&[7; 40])).is_err() {
            return;
        }
    }
    let Ok(Some((info, file, _))) = writer.finish() else { return };
    for damage in bytes.chunks_exact(4) {
        let at = u64::from(u16::from_le_bytes([damage[0], damage[1]])) % info.bytes;
        let _ = file.write_at(&damage[2..3], at);
    }
    let info = TableInfo { bytes: info.bytes, ..info };
    let memory = Memory::new(1 << 16, 1 << 16);
    let table = Arc::new(Table::open(&*disk, info, 1, &memory));
    for number in [0u32, 7, 199, 500] {
        let key = number.to_be_bytes();
        if let Ok(Some(value)) = table.get(&key, crate::table::key_hash(&key)) {
            assert_eq!(value.as_deref(), Some(&[7; 40][..]));
        }
    }
    for reverse in [false, true] {
        let tables = [Arc::clone(&table)];
        let Ok(mut cursor) = TableCursor::new(&tables, &KeyRange::all(), reverse, true) else {
            continue;
        };
        while let Some((_, value)) = cursor.peek() {
            assert_eq!(value, Some(&[7; 40][..]));
            if cursor.advance().is_err() {
                break;
            }
        }
    }
}

/// Opens a whole store of which one file is replaced by the input.
pub fn store(bytes: &[u8]) {
    let Some((&which, rest)) = bytes.split_first() else { return };
    let disk = SimDisk::new();
    let options = Options { memory_bytes: 1 << 20, level_scale: 1 };
    let random = SeededRandom::new(1);
    let shared =
        |disk: &SimDisk| open::open(Arc::new(disk.clone()), &random, options.clone(), None);
    drop(shared(&disk));
    let names = ["format", "manifest", "log-0000000000000001"];
    let name = names[usize::from(which) % names.len()];
    if which & 0x80 == 0 {
        disk.poke(name, rest.to_vec());
    } else if let Some(mut old) = disk.peek(name) {
        // Change a few bytes of the good one.
        for pair in rest.chunks_exact(2) {
            let at = usize::from(pair[0]) % old.len().max(1);
            if let Some(byte) = old.get_mut(at) {
                *byte = pair[1];
            }
        }
        disk.poke(name, old);
    }
    drop(shared(&disk));
}
