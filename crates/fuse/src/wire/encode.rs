//! Writes replies: a fixed part of a few hundred bytes, and a payload that is not copied.

use super::numbers::{MAJOR, MINOR, OUT_HEADER, init};
use crate::reply::{Errno, Listed, Reply, Ttl};
use fs::{Attr, Lock, LockKind, Time};
use std::time::Duration;

/// The largest fixed part: a statx and its header.
const FIXED_MAX: usize = OUT_HEADER + 288;
/// Bytes of an entry, of a directory's record before its name, and of both.
const ENTRY: usize = 128;
const DIRENT: usize = 24;
const DIRENTPLUS: usize = ENTRY + DIRENT;
/// All of statx that there is: the basic fields and the birth time.
const STATX_MASK: u32 = 0xfff;

/// A reply as it goes over the wire: the fixed part, then the payload.
#[derive(Debug)]
pub(crate) struct Encoded {
    fixed: [u8; FIXED_MAX],
    len: usize,
}

impl Encoded {
    fn new(unique: u64, error: i32) -> Self {
        let mut encoded = Self { fixed: [0; FIXED_MAX], len: 0 };
        // The length is set at the end.
        encoded.u32(0).u32(error.cast_unsigned()).u64(unique);
        encoded
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.len + bytes.len();
        if let Some(place) = self.fixed.get_mut(self.len..end) {
            place.copy_from_slice(bytes);
            self.len = end;
        }
        self
    }

    fn u16(&mut self, number: u16) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    fn zeros(&mut self, len: usize) -> &mut Self {
        // They are there already.
        self.len = (self.len + len).min(FIXED_MAX);
        self
    }

    /// The fixed part, when so many bytes follow it.
    pub(crate) fn finish(&mut self, payload: usize) -> &[u8] {
        let len = u32::try_from(self.len + payload).unwrap_or(u32::MAX);
        if let Some(place) = self.fixed.get_mut(..4) {
            place.copy_from_slice(&len.to_ne_bytes());
        }
        self.fixed.get(..self.len).unwrap_or_default()
    }
}

/// What is sent for an answer: its fixed part and its payload. `None` for silence.
pub(crate) fn reply(unique: u64, answer: &Result<Reply, Errno>) -> Option<(Encoded, &[u8])> {
    let reply = match answer {
        Ok(reply) => reply,
        Err(errno) => return Some(refusal(unique, *errno)),
    };
    let mut out = Encoded::new(unique, 0);
    let mut payload: &[u8] = &[];
    match reply {
        Reply::Silence => return None,
        Reply::Done => {}
        Reply::Entry { attr, ttl } => entry(&mut out, attr, *ttl),
        Reply::NoEntry { ttl } => {
            let (secs, nanos) = parts(*ttl);
            out.u64(0).u64(0).u64(secs).u64(0).u32(nanos).u32(0).zeros(88);
        }
        Reply::Attr { attr, ttl } => {
            let (secs, nanos) = attr_parts(attr, *ttl);
            out.u64(secs).u32(nanos).u32(0);
            out.raw(&attributes(attr));
        }
        Reply::Statx { attr, ttl } => statx(&mut out, attr, *ttl),
        Reply::Opened { handle, flags, backing } => {
            out.u64(*handle).u32(*flags).u32(*backing);
        }
        Reply::Created { attr, ttl, handle, flags, backing } => {
            entry(&mut out, &as_made(attr), *ttl);
            out.u64(*handle).u32(*flags).u32(*backing);
        }
        Reply::Bytes(bytes) => payload = bytes,
        Reply::Listing(bytes) => payload = bytes,
        Reply::Written(len) | Reply::Len(len) => {
            out.u32(*len).u32(0);
        }
        Reply::Copied(number) | Reply::Offset(number) => {
            out.u64(*number);
        }
        Reply::Statfs(stat) => {
            out.u64(stat.blocks).u64(stat.blocks_free).u64(stat.blocks_free);
            out.u64(stat.files).u64(stat.files_free);
            out.u32(stat.block_bytes).u32(stat.name_bytes_max).u32(stat.block_bytes);
            out.u32(0).zeros(24);
        }
        Reply::Lock(lock) => lock_out(&mut out, *lock),
    }
    Some((out, payload))
}

/// What is sent for nothing but an error, or for nothing at all.
pub(crate) fn refusal(unique: u64, errno: Errno) -> (Encoded, &'static [u8]) {
    (Encoded::new(unique, -errno.0), &[])
}

/// What this side wants of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InitReply {
    pub(crate) max_readahead: u32,
    pub(crate) flags: u64,
    pub(crate) max_background: u16,
    pub(crate) max_write: u32,
    pub(crate) max_pages: u16,
}

/// The answer to the kernel's first words.
pub(crate) fn init_reply(unique: u64, init: &InitReply) -> Encoded {
    let mut out = Encoded::new(unique, 0);
    let flags = init.flags | init::INIT_EXT;
    let (low, high) = (flags as u32, (flags >> 32) as u32);
    out.u32(MAJOR).u32(MINOR).u32(init.max_readahead).u32(low);
    // The kernel slows down those who read ahead at three quarters.
    out.u16(init.max_background).u16(init.max_background / 4 * 3);
    // Times are kept to the nanosecond.
    out.u32(init.max_write).u32(1).u16(init.max_pages).u16(0).u32(high);
    // Files that the kernel uses by itself lie on a filesystem that is stacked on no other.
    let depth = u32::from(flags & init::PASSTHROUGH != 0);
    out.u32(depth).zeros(24);
    out
}

/// Tells the kernel that what it knows of an inode is old; not of its contents.
pub(crate) fn attributes_changed(ino: u64) -> Encoded {
    const INVAL_INODE: i32 = 2;
    let mut out = Encoded::new(0, INVAL_INODE);
    // A negative offset leaves the contents alone.
    out.u64(ino).u64(u64::MAX).u64(0);
    out
}

/// Gives the kernel all bytes of a file that it has not asked for, of which so many follow.
pub(crate) fn store(ino: u64, len: u32) -> Encoded {
    const STORE: i32 = 4;
    let mut out = Encoded::new(0, STORE);
    out.u64(ino).u64(0).u32(len).u32(0);
    out
}

/// Asks the kernel to send again what it has sent and got no answer to.
pub(crate) fn resend() -> Encoded {
    const RESEND: i32 = 7;
    Encoded::new(0, RESEND)
}

fn parts(time: Duration) -> (u64, u32) {
    (time.as_secs(), time.subsec_nanos())
}

/// How long attributes may be kept: not at all, when nobody tells of what changes.
fn attr_parts(attr: &Attr, ttl: Duration) -> (u64, u32) {
    parts(if attr.live { Duration::ZERO } else { ttl })
}

/// A file that was just made is empty, and whatever makes it longer the kernel does or asks for, and knows that its
/// size and times are old. Without this it would ask for them at once, to see who may open what was just made. But
/// those who write by themselves take set-user bits from a file without its being told.
fn as_made(attr: &Attr) -> Attr {
    let taken = attr.mode & (fs::mode::SETUID | fs::mode::SETGID) != 0;
    Attr { live: attr.live && taken, ..*attr }
}

fn entry(out: &mut Encoded, attr: &Attr, ttl: Ttl) {
    out.raw(&entry_bytes(attr.ino, attr, ttl));
}

fn entry_bytes(ino: u64, attr: &Attr, ttl: Ttl) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    let mut at = Slots { bytes: &mut bytes, at: 0 };
    let (entry_secs, entry_nanos) = parts(ttl.entry);
    let (attr_secs, attr_nanos) = attr_parts(attr, ttl.attr);
    // Numbers are never used again, so one generation is enough.
    at.u64(ino).u64(1).u64(entry_secs).u64(attr_secs).u32(entry_nanos).u32(attr_nanos);
    at.raw(&attributes(attr));
    bytes
}

fn attributes(attr: &Attr) -> [u8; 88] {
    let mut bytes = [0; 88];
    let mut at = Slots { bytes: &mut bytes, at: 0 };
    at.u64(attr.ino).u64(attr.size).u64(attr.blocks);
    for time in [attr.atime, attr.mtime, attr.ctime] {
        at.u64(time.secs.cast_unsigned());
    }
    at.u32(attr.atime.nanos).u32(attr.mtime.nanos).u32(attr.ctime.nanos);
    at.u32(attr.mode).u32(attr.nlink).u32(attr.uid).u32(attr.gid).u32(attr.rdev);
    at.u32(attr.block_bytes).u32(0);
    bytes
}

fn statx(out: &mut Encoded, attr: &Attr, ttl: Duration) {
    let (secs, nanos) = attr_parts(attr, ttl);
    out.u64(secs).u32(nanos).u32(0).u64(0).u64(0);
    out.u32(STATX_MASK).u32(attr.block_bytes).u64(0);
    out.u32(attr.nlink).u32(attr.uid).u32(attr.gid).u16(attr.mode as u16).u16(0);
    out.u64(attr.ino).u64(attr.size).u64(attr.blocks).u64(0);
    for Time { secs, nanos } in [attr.atime, attr.btime, attr.ctime, attr.mtime] {
        out.u64(secs.cast_unsigned()).u32(nanos).u32(0);
    }
    let (major, minor) = (attr.rdev >> 8 & 0xfff, attr.rdev & 0xff | attr.rdev >> 12 & 0xf_ff00);
    out.u32(major).u32(minor).u32(0).u32(0).zeros(112);
}

fn lock_out(out: &mut Encoded, lock: Option<Lock>) {
    match lock {
        None => out.u64(0).u64(0).u32(2).u32(0),
        Some(lock) => {
            let kind = match lock.kind {
                LockKind::Read => 0,
                LockKind::Write => 1,
                LockKind::Unlock => 2,
            };
            // The kernel's last byte of any file is the greatest signed number.
            let last = lock.end.saturating_sub(1).min(i64::MAX as u64);
            out.u64(lock.start).u64(last).u32(kind).u32(lock.pid)
        }
    };
}

/// A list of names, as long as the room that the kernel gave.
#[derive(Debug)]
pub(crate) struct Listing {
    bytes: Vec<u8>,
    room: usize,
}

impl Listing {
    /// About how many entries fit when their names are short.
    pub(crate) fn entries(room: u32, plus: bool) -> usize {
        let each = if plus { DIRENTPLUS } else { DIRENT } + 16;
        (room as usize / each).max(1)
    }

    /// Nothing yet, with room for so many bytes.
    pub(crate) fn new(room: u32) -> Self {
        Self { bytes: Vec::with_capacity(room as usize), room: room as usize }
    }

    /// Adds an entry. False when there is no room left for it.
    pub(crate) fn push(&mut self, listed: &Listed<'_>, ttl: Ttl) -> bool {
        let name = listed.entry.name;
        let fixed = if listed.attr.is_some() { DIRENTPLUS } else { DIRENT };
        let len = (fixed + name.len()).next_multiple_of(8);
        if self.bytes.len() + len > self.room {
            return false;
        }
        let end = self.bytes.len() + len;
        if let Some(attr) = listed.attr {
            // The kernel wants no inode for the directory itself and the one above.
            let dots = name == b"." || name == b"..";
            let ino = if dots { 0 } else { attr.ino };
            self.bytes.extend_from_slice(&entry_bytes(ino, attr, ttl));
        }
        let mut dirent = [0; DIRENT];
        let mut at = Slots { bytes: &mut dirent, at: 0 };
        at.u64(listed.entry.ino).u64(listed.entry.cookie);
        at.u32(name.len() as u32).u32(listed.entry.file_type.mode() >> 12);
        self.bytes.extend_from_slice(&dirent);
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }

    /// What is to be sent.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Fills an array from its front.
struct Slots<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Slots<'_> {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.at + bytes.len();
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
        self
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }
}
