//! Doors for the fuzzers: every decoder of keys and records.
//!
//! Each function takes arbitrary bytes and must return: never with a panic, and never after
//! allocating more than the input can justify. What decodes is written back the same, where a record
//! has one form. Seals and sums would keep a fuzzer out, so the input is also tried with right ones.

use crate::acl::Acl;
use crate::blob::block::{self, Codec};
use crate::blob::parity::{self, Parity};
use crate::reply::{self, Reply};
use crate::schema::codec::Writer;
use crate::schema::{
    Entry, Inode, Job, Keys, MapEntry, Parsed, ScrubRecord, SessionRecord, VolumeRecord,
    decode_locks, encode_locks,
};
use crate::types::{Attr, Caller, Time};
use crate::{op::xattr, volume};
use bytes::Bytes;
use std::fmt::Debug;

/// The key under which all records are tried.
const KEY: &[u8] = b"\0\x01key";
/// An inode's number, which its record leaves out where it can.
const INO: u64 = 9;
/// What blocks may unpack to.
const BLOCK_BYTES: usize = 4096;

/// Decodes the input, then the same with a right seal; what is understood must be written the same.
fn one_form<T>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Option<T>,
    encode: impl Fn(&T) -> Vec<u8>,
) -> Option<T> {
    let mut sealed = Writer::with_capacity(bytes.len() + 4);
    sealed.raw(bytes);
    let sealed = sealed.seal(KEY);
    let mut found = None;
    for record in [bytes, &sealed] {
        if let Some(value) = decode(record) {
            assert_eq!(encode(&value), record);
            found = Some(value);
        }
    }
    found
}

/// Takes a key apart and makes it again.
pub fn keys(bytes: &[u8]) {
    let prefixed = [&[0, 1], bytes].concat();
    let volume = bytes.first_chunk().map_or(0, |two| u16::from_be_bytes(*two));
    for (keys, key) in [(Keys::new(volume), bytes), (Keys::new(1), &prefixed)] {
        let Some(parsed) = keys.parse(key) else { continue };
        assert_eq!(&*keys.unparse(&parsed), key);
        // The cheap ways say the same.
        match parsed {
            Parsed::Entry { name, .. } => {
                let mut found = Vec::new();
                assert!(keys.entry_name(key, &mut found));
                assert_eq!(found, *name);
            }
            Parsed::Inode { ino } => assert!(keys.inode_key(key) == Some((ino, None))),
            Parsed::Changed { ino } | Parsed::Subdirs { ino } | Parsed::Blocks { ino } => {
                let found = keys.inode_key(key);
                assert!(found.is_some_and(|(of, side)| of == ino && side.is_some()));
            }
            Parsed::Lock { .. } | Parsed::Lease { .. } | Parsed::Xattr { .. } => {
                assert!(keys.inode_key(key).is_none());
            }
            _ => {}
        }
    }
}

/// Reads the record of an inode.
pub fn inode(bytes: &[u8]) {
    let inode =
        one_form(bytes, |from| Inode::decode(KEY, INO, from), |inode| inode.encode(KEY, INO));
    if let Some(inode) = inode {
        assert_eq!(inode.file_type().mode(), inode.mode & crate::types::mode::TYPE);
    }
}

/// Reads a directory entry.
pub fn entry(bytes: &[u8]) {
    one_form(bytes, |from| Entry::decode(KEY, from), |entry| entry.encode(KEY));
}

/// Reads a map entry, and changes it as a write would.
pub fn map(bytes: &[u8]) {
    let found = one_form(bytes, |from| MapEntry::decode(KEY, from), |entry| entry.encode(KEY));
    let Some(MapEntry::Data(mut data)) = found else { return };
    let stored: Vec<u32> = data.layers.iter().flat_map(|(_, bits)| bits.iter()).collect();
    assert!(stored.len() <= data.allocated.count() as usize);
    for block in stored {
        assert!(data.allocated.has(block));
        let before = data.generation_of(block);
        assert_eq!(data.store(block, None), before);
        assert_eq!(data.generation_of(block), None);
        data.allocated.clear(block);
    }
    assert!(data.layers.is_empty());
    let entry = MapEntry::Data(data);
    assert_eq!(MapEntry::decode(KEY, &entry.encode(KEY)), Some(entry));
}

/// Reads a job.
pub fn job(bytes: &[u8]) {
    one_form(bytes, |from| Job::decode(KEY, from), |job| job.encode(KEY));
}

/// Reads the record of a session.
pub fn session(bytes: &[u8]) {
    one_form(bytes, |from| SessionRecord::decode(KEY, from), |record| record.encode(KEY));
}

/// Reads the record of a volume, that of its name, and that of its scrub.
pub fn volume(bytes: &[u8]) {
    let record =
        one_form(bytes, |from| VolumeRecord::decode(KEY, from).ok(), |record| record.encode(KEY));
    if let Some(record) = record {
        assert!(record.is_sound() && record.blocks_per_chunk() > 0);
    }
    let number = |from: &[u8]| volume::decode_number(KEY, from).ok();
    one_form(bytes, number, |number| volume::encode_number(KEY, *number));
    one_form(bytes, |from| ScrubRecord::decode(KEY, from), |record| record.encode(KEY));
}

/// Reads the locks of an owner.
pub fn locks(bytes: &[u8]) {
    let locks = one_form(bytes, |from| decode_locks(KEY, from), |locks| encode_locks(KEY, locks));
    for pair in locks.unwrap_or_default().windows(2) {
        assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start);
    }
}

/// Reads an extended attribute.
pub fn xattr(bytes: &[u8]) {
    one_form(bytes, |from| xattr::decode(KEY, from), |value| xattr::encode(KEY, value));
}

/// Reads a reply of every type.
pub fn replies(bytes: &[u8]) {
    fn reply<T: Reply + Debug>(bytes: &[u8]) {
        one_form(bytes, |from| reply::decode::<T>(KEY, from), |value| reply::encode(KEY, value));
    }
    if let Some((number, bare)) = reply::decode_asked(KEY, bytes) {
        assert_eq!(reply::encode_asked(KEY, number, bare), bytes);
    }
    reply::<()>(bytes);
    reply::<u64>(bytes);
    reply::<bool>(bytes);
    reply::<Option<u64>>(bytes);
    reply::<Option<(bool, Time)>>(bytes);
    reply::<Time>(bytes);
    reply::<Attr>(bytes);
    reply::<(Attr, bool)>(bytes);
}

/// Reads a block: the input, the input as a payload of each codec, and the input as data.
pub fn block(bytes: &[u8]) {
    read_block(&Bytes::copy_from_slice(bytes));
    for codec in 0..=3 {
        let Some((len, payload)) = bytes.split_first_chunk::<2>() else { break };
        let [l0, l1] = *len;
        let fields = [1, codec, l0, l1, 0, 0];
        let sum = block::sum(KEY, &fields, payload).to_le_bytes();
        read_block(&[&fields, &sum[..], payload].concat().into());
    }
    if block::is_zero(bytes) || bytes.len() > BLOCK_BYTES {
        return;
    }
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let stored = Bytes::from(block::encode(bytes, codec, KEY));
        assert!(stored.len() <= bytes.len() + block::OVERHEAD_BYTES);
        let data = block::decode(&stored, KEY, BLOCK_BYTES);
        assert_eq!(data.as_deref(), Ok(&bytes[..block::trimmed_len(bytes)]));
    }
}

fn read_block(stored: &Bytes) {
    let Ok(data) = block::decode(stored, KEY, BLOCK_BYTES) else { return };
    assert!(data.len() <= BLOCK_BYTES && data.len() == block::trimmed_len(&data));
    // Only a block that is not compressed has one form.
    let plain = Bytes::from(block::encode(&data, Codec::None, KEY));
    if stored.get(1) == Some(&Codec::None.to_byte()) {
        assert_eq!(plain, *stored);
    }
    assert_eq!(block::decode(&plain, KEY, BLOCK_BYTES), Ok(data));
}

/// Reads parity: the input, the input with a right sum, and the parity of the input cut in pieces.
pub fn parity(bytes: &[u8]) {
    read_parity(bytes);
    if let Some((fields, rest)) = bytes.split_first_chunk::<6>() {
        let fields = [&[1], &fields[..]].concat();
        let sum = parity::sum(KEY, &fields, rest).to_le_bytes();
        read_parity(&[&fields, &sum[..], rest].concat());
    }
    let Some((&size, rest)) = bytes.split_first() else { return };
    let pieces: Vec<&[u8]> = rest.chunks(usize::from(size) % 61 + 1).take(64).collect();
    let group = pieces.iter().enumerate().map(|(block, piece)| (block as u32, 7, *piece));
    let Ok(parity) = Parity::of(group) else { return };
    for (missing, piece) in pieces.iter().enumerate() {
        let rebuilt = parity.rebuild(missing as u32, |block, _| {
            pieces.get(block as usize).map(|piece| Bytes::copy_from_slice(piece))
        });
        assert_eq!(rebuilt.as_deref(), Ok(*piece));
    }
}

fn read_parity(stored: &[u8]) {
    let Ok(mut parity) = Parity::decode(stored, KEY) else { return };
    assert_eq!(parity.encode(KEY), stored);
    let members = parity.members().to_vec();
    for member in members.iter().take(8) {
        let others = |_, _| Some(Bytes::copy_from_slice(stored));
        let _ = parity.rebuild(member.block, others);
        let old = Some((member.generation, stored));
        let _ = parity.replace(member.block, old, Some((1, b"new")));
    }
}

/// Reads an access control list, and does with it what operations do.
pub fn acl(bytes: &[u8]) {
    let versioned = [&[2, 0, 0, 0], bytes].concat();
    for value in [bytes, &versioned] {
        let Ok(Some(acl)) = Acl::parse(value) else { continue };
        // The ids of entries that name nobody are anything, so the bytes may differ; their sense not.
        assert_eq!(Acl::parse(&acl.encode()), Ok(Some(acl.clone())));
        assert_eq!(acl.encode().len(), value.len());
        let caller = Caller::user(1, 2);
        let _ = acl.allows(0, 0, &caller, 7);
        let inherited = acl.inherit(acl.to_mode(0o100_777), true);
        assert_eq!(inherited.default.as_ref(), Some(&acl));
        let mut changed = acl.clone();
        changed.chmod(0o640);
        assert_eq!(changed.to_mode(0) & 0o777, 0o640);
    }
}

/// Loads a dump: the input, and the input as frames with right sums behind a volume. What is loaded is
/// dumped and loaded again, and then is the same.
pub fn dump(bytes: &[u8]) {
    load_twice(bytes);
    let mut stream = Vec::new();
    let mut out = crate::dump::Outgoing::new(&mut stream);
    let mut rest = bytes;
    while let [kind, low, high, behind @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (payload, behind) = behind.split_at(len);
        let _ = out.put(*kind, &[payload]);
        rest = behind;
    }
    let _ = out.flush();
    load_twice(&stream);
}

fn load_twice(stream: &[u8]) {
    let Some(first) = loaded(stream) else { return };
    let again = loaded(&first);
    assert_eq!(again.as_ref(), Some(&first));
}

/// Loads a stream into a store in memory, and dumps what came of it.
fn loaded(stream: &[u8]) -> Option<Vec<u8>> {
    use std::sync::Arc;
    /// A range of zeros may have any length: so many steps are enough.
    struct Steps(std::sync::atomic::AtomicUsize);
    impl crate::Progress for Steps {
        fn advance(&self, _: u64, _: Option<u64>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        fn goes_on(&self) -> bool {
            self.0.load(std::sync::atomic::Ordering::Relaxed) < 3000
        }
    }
    let clock: Arc<dyn base::Clock> = Arc::new(base::SimClock::new());
    let random: Arc<dyn base::Random> = Arc::new(base::SeededRandom::new(1));
    let engine = Arc::new(kv::mem::Mem::new());
    let store = kv::Store::new(engine, Arc::clone(&clock), Arc::clone(&random));
    let world = crate::World { store, clock, random, home: None };
    base::block_on(async {
        let steps = Steps(0.into());
        crate::dump::load(&world, "v", &mut &*stream, &steps).await.ok()?;
        let volume = crate::Volume::open(&world, "v").await.ok();
        let options = crate::SessionOptions::default();
        let session = match &volume {
            Some(volume) => crate::Session::start(volume, options).await.ok(),
            None => None,
        };
        let mut out = Vec::new();
        let dumped = match &session {
            Some(session) => crate::dump::dump(session, &mut out, &crate::NoProgress).await.is_ok(),
            None => false,
        };
        assert!(dumped, "what was loaded can be dumped");
        Some(out)
    })
}
