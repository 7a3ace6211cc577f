//! Reads requests. Bytes that are no request are refused, never guessed at.

use super::numbers::{self, IN_HEADER, Opcode, UNIQUE_RESEND, fattr, init};
use crate::request::{CopyRange, Header, Init, Lk, Op, Setattr, Write};

/// Bytes that are no request of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A request whose body is not read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope {
    pub(crate) header: Header,
    /// `None` for a number that this program does not know.
    pub(crate) opcode: Option<Opcode>,
    /// Where the body ends: behind it may be extensions, which are not asked for.
    end: usize,
}

/// Reads the header of a request that fills `bytes`.
pub(crate) fn envelope(bytes: &[u8]) -> Result<Envelope, Malformed> {
    envelope_of(bytes, bytes.len())
}

/// Reads the header of a request of `total` bytes, of which `bytes` are the first.
pub(crate) fn envelope_of(bytes: &[u8], total: usize) -> Result<Envelope, Malformed> {
    let mut from = Cursor::new(bytes, &[]);
    let len = from.u32()?;
    let opcode = Opcode::of_number(from.u32()?);
    let (unique, ino) = (from.u64()?, from.u64()?);
    let (uid, gid, _pid) = (from.u32()?, from.u32()?, from.u32()?);
    let extensions = usize::from(from.u16()?) * 8;
    if len as usize != total {
        return Err(Malformed);
    }
    let end = total.checked_sub(extensions).filter(|end| *end >= IN_HEADER);
    let end = end.ok_or(Malformed)?;
    let again = unique & UNIQUE_RESEND != 0;
    Ok(Envelope { header: Header { unique, ino, uid, gid, again, slot: 0 }, opcode, end })
}

/// Reads what the kernel says when the connection begins.
pub(crate) fn init(bytes: &[u8], envelope: &Envelope) -> Result<Init, Malformed> {
    let mut from = Cursor::new(bytes.get(IN_HEADER..envelope.end).ok_or(Malformed)?, &[]);
    let (major, minor) = (from.u32()?, from.u32()?);
    let (max_readahead, low) = (from.u32()?, u64::from(from.u32()?));
    let high = if low & init::INIT_EXT != 0 { u64::from(from.u32()?) } else { 0 };
    Ok(Init { major, minor, max_readahead, flags: high << 32 | low })
}

/// Reads a request that fills `bytes`. Where a write's data is counts from behind the header.
pub(crate) fn op<'a>(bytes: &'a [u8], envelope: &Envelope) -> Result<Op<'a>, Malformed> {
    if envelope.opcode == Some(Opcode::Forget) {
        // One is named by the header.
        return Ok(Op::Forget { inodes: bytes.get(16..32).ok_or(Malformed)? });
    }
    body(bytes.get(IN_HEADER..envelope.end).ok_or(Malformed)?, &[], envelope)
}

/// Reads a request that comes in two pieces behind its header: numbers, then names or data, with
/// extensions at the end. Where a write's data is counts from the beginning of the second.
pub(crate) fn op_in_two<'a>(
    numbers: &'a [u8],
    rest: &'a [u8],
    envelope: &Envelope,
) -> Result<Op<'a>, Malformed> {
    let end = envelope.end.checked_sub(IN_HEADER + numbers.len()).ok_or(Malformed)?;
    body(numbers, rest.get(..end).ok_or(Malformed)?, envelope)
}

/// Reads what is behind the header.
fn body<'a>(numbers: &'a [u8], rest: &'a [u8], envelope: &Envelope) -> Result<Op<'a>, Malformed> {
    let Some(opcode) = envelope.opcode else {
        return Ok(Op::Refused);
    };
    let from = &mut Cursor::new(numbers, rest);
    Ok(match opcode {
        Opcode::Lookup => Op::Lookup { name: from.name()? },
        Opcode::BatchForget => {
            let (count, _) = (from.u32()?, from.u32()?);
            let len = (count as usize).checked_mul(16).ok_or(Malformed)?;
            Op::Forget { inodes: from.take(len)? }
        }
        Opcode::Getattr => Op::Getattr,
        Opcode::Statx => Op::Statx,
        Opcode::Setattr => Op::Setattr(setattr(from)?),
        Opcode::Readlink => Op::Readlink,
        Opcode::Symlink => Op::Symlink { name: from.name()?, target: from.name()? },
        Opcode::Mknod => {
            let (mode, rdev, umask, _) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
            Op::Mknod { name: from.name()?, mode, rdev, umask }
        }
        Opcode::Mkdir => {
            let (mode, umask) = (from.u32()?, from.u32()?);
            Op::Mkdir { name: from.name()?, mode, umask }
        }
        Opcode::Unlink => Op::Unlink { name: from.name()? },
        Opcode::Rmdir => Op::Rmdir { name: from.name()? },
        Opcode::Rename => {
            let new_parent = from.u64()?;
            Op::Rename { name: from.name()?, new_parent, new_name: from.name()?, flags: 0 }
        }
        Opcode::Rename2 => {
            let (new_parent, flags, _) = (from.u64()?, from.u32()?, from.u32()?);
            Op::Rename { name: from.name()?, new_parent, new_name: from.name()?, flags }
        }
        Opcode::Link => Op::Link { ino: from.u64()?, name: from.name()? },
        Opcode::Open => {
            let (flags, open_flags) = (from.u32()?, from.u32()?);
            Op::Open { flags, kill: open_flags & numbers::OPEN_KILL_SUIDGID != 0 }
        }
        Opcode::Create => {
            let (flags, mode, umask, _) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
            Op::Create { name: from.name()?, flags, mode, umask }
        }
        Opcode::Tmpfile => {
            let (flags, mode, umask, _) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
            Op::Tmpfile { flags, mode, umask }
        }
        Opcode::Read => {
            let (handle, offset, len) = (from.u64()?, from.u64()?, from.u32()?);
            Op::Read { handle, offset, len }
        }
        Opcode::Write => Op::Write(write(from)?),
        Opcode::Statfs => Op::Statfs,
        Opcode::Release => {
            let (handle, _flags, how) = (from.u64()?, from.u32()?, from.u32()?);
            let owner = from.u64()?;
            let asked = numbers::RELEASE_FLUSH | numbers::RELEASE_FLOCK_UNLOCK;
            let owner = (how & asked != 0).then_some(owner);
            Op::Release { handle, owner, flock: how & numbers::RELEASE_FLOCK_UNLOCK != 0 }
        }
        Opcode::Releasedir => Op::Releasedir { handle: from.u64()? },
        Opcode::Fsync => {
            let (handle, flags) = (from.u64()?, from.u32()?);
            Op::Fsync { handle, data_only: flags & numbers::FSYNC_DATA != 0 }
        }
        Opcode::Fsyncdir => Op::Fsyncdir { handle: from.u64()? },
        Opcode::Flush => {
            let (handle, _) = (from.u64()?, from.u64()?);
            Op::Flush { handle, owner: from.u64()? }
        }
        Opcode::Setxattr => {
            let (len, flags, how, _) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
            let name = from.name()?;
            let value = from.take(len as usize)?;
            let kill_group = how & numbers::SETXATTR_ACL_KILL_SGID != 0;
            Op::Setxattr { name, value, flags, kill_group }
        }
        Opcode::Getxattr => {
            let (len, _) = (from.u32()?, from.u32()?);
            Op::Getxattr { name: from.name()?, len }
        }
        Opcode::Listxattr => Op::Listxattr { len: from.u32()? },
        Opcode::Removexattr => Op::Removexattr { name: from.name()? },
        Opcode::Opendir => Op::Opendir,
        Opcode::Readdir => {
            let (handle, cookie, len) = (from.u64()?, from.u64()?, from.u32()?);
            Op::Readdir { handle, cookie, len }
        }
        Opcode::Readdirplus => {
            let (handle, cookie, len) = (from.u64()?, from.u64()?, from.u32()?);
            Op::Readdirplus { handle, cookie, len }
        }
        Opcode::Getlk => Op::Getlk(lk(from)?),
        Opcode::Setlk => Op::Setlk { lk: lk(from)?, wait: false },
        Opcode::Setlkw => Op::Setlk { lk: lk(from)?, wait: true },
        Opcode::Access => Op::Access { mask: from.u32()? },
        Opcode::Interrupt => Op::Interrupt { unique: from.u64()? },
        Opcode::Destroy => Op::Destroy,
        Opcode::Fallocate => {
            let (handle, offset, len) = (from.u64()?, from.u64()?, from.u64()?);
            Op::Fallocate { handle, offset, len, mode: from.u32()? }
        }
        Opcode::Lseek => {
            let (handle, offset) = (from.u64()?, from.u64()?);
            Op::Lseek { handle, offset, whence: from.u32()? }
        }
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
            let (handle, offset) = (from.u64()?, from.u64()?);
            let (to_ino, to, to_offset) = (from.u64()?, from.u64()?, from.u64()?);
            Op::CopyRange(CopyRange {
                from: handle,
                from_offset: offset,
                to_ino,
                to,
                to_offset,
                len: from.u64()?,
                flags: from.u64()?,
                wide: opcode == Opcode::CopyFileRange64,
            })
        }
        Opcode::Syncfs => Op::Syncfs,
        // A connection begins once, and no command is meant for this filesystem.
        Opcode::Init | Opcode::Ioctl => Op::Refused,
        // It never comes in two pieces.
        Opcode::Forget => return Err(Malformed),
    })
}

fn setattr(from: &mut Cursor<'_>) -> Result<Setattr, Malformed> {
    let (valid, _) = (from.u32()?, from.u32()?);
    let (handle, size, _owner) = (from.u64()?, from.u64()?, from.u64()?);
    let (atime, mtime, _ctime) = (from.u64()?, from.u64()?, from.u64()?);
    let (atime_nanos, mtime_nanos, _ctime_nanos) = (from.u32()?, from.u32()?, from.u32()?);
    let (mode, _, uid, gid) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
    let has = |flag: u32| valid & flag != 0;
    let time = |flag: u32, now: u32, secs: u64, nanos: u32| {
        // The kernel's seconds are signed; the protocol says otherwise and means the same bits.
        has(flag).then(|| (!has(now)).then_some((secs.cast_signed(), nanos)))
    };
    Ok(Setattr {
        handle: has(fattr::FH).then_some(handle),
        mode: has(fattr::MODE).then_some(mode),
        uid: has(fattr::UID).then_some(uid),
        gid: has(fattr::GID).then_some(gid),
        size: has(fattr::SIZE).then_some(size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, atime, atime_nanos),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, mtime, mtime_nanos),
        kill: has(fattr::KILL_SUIDGID),
    })
}

fn write(from: &mut Cursor<'_>) -> Result<Write, Malformed> {
    let (handle, offset, len, flags) = (from.u64()?, from.u64()?, from.u32()?, from.u32()?);
    let (_owner, _flags, _) = (from.u64()?, from.u32()?, from.u32()?);
    let bytes = from.take(len as usize)?.len();
    let data = from.at - bytes..from.at;
    Ok(Write { handle, offset, data, kill: flags & numbers::WRITE_KILL_SUIDGID != 0 })
}

fn lk(from: &mut Cursor<'_>) -> Result<Lk, Malformed> {
    let (handle, owner) = (from.u64()?, from.u64()?);
    let (start, last) = (from.u64()?, from.u64()?);
    let (kind, pid, flags) = (from.u32()?, from.u32()?, from.u32()?);
    Ok(Lk { handle, owner, start, last, kind, pid, flock: flags & numbers::LK_FLOCK != 0 })
}

/// The inodes of a list of [`Op::Forget`].
pub(crate) fn forgotten(list: &[u8]) -> impl Iterator<Item = u64> {
    let number = |pair: &[u8]| pair.get(..8)?.try_into().ok().map(u64::from_ne_bytes);
    list.chunks_exact(16).filter_map(number)
}

/// Reads from the front of bytes, then of those that follow.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    next: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8], next: &'a [u8]) -> Self {
        Self { bytes, at: 0, next }
    }

    /// Nothing lies across the border of the two pieces.
    fn turn_over(&mut self) {
        if self.at == self.bytes.len() && !self.next.is_empty() {
            *self = Self::new(std::mem::take(&mut self.next), &[]);
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        self.turn_over();
        let end = self.at.checked_add(len).ok_or(Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    /// A name, which ends with a zero byte.
    fn name(&mut self) -> Result<&'a [u8], Malformed> {
        self.turn_over();
        let rest = self.bytes.get(self.at..).ok_or(Malformed)?;
        let len = rest.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        self.at += len + 1;
        rest.get(..len).ok_or(Malformed)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{Malformed, envelope, init, op, op_in_two};
    use crate::request::{Op, Setattr};
    use crate::wire::numbers::Opcode;

    /// A request as the kernel would send it.
    fn request(opcode: u32, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let mut bytes = Vec::new();
        bytes.extend((40 + body.len() as u32).to_ne_bytes());
        bytes.extend(opcode.to_ne_bytes());
        for number in [7_u64, 256] {
            bytes.extend(number.to_ne_bytes());
        }
        for number in [1000_u32, 100, 42, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(body);
        bytes
    }

    fn words(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn names_and_numbers_are_found() {
        let rename = request(45, &[&9_u64.to_ne_bytes(), &words(&[1, 0]), b"old\0new\0"]);
        let found = envelope(&rename).unwrap();
        assert_eq!((found.header.unique, found.header.ino), (7, 256));
        assert_eq!((found.header.uid, found.header.gid), (1000, 100));
        let expected = Op::Rename { name: b"old", new_parent: 9, new_name: b"new", flags: 1 };
        assert_eq!(op(&rename, &found), Ok(expected));
    }

    #[test]
    fn a_request_in_two_pieces_is_the_same() {
        let body: [&[u8]; 3] = [&9_u64.to_ne_bytes(), &words(&[1, 0]), b"old\0new\0"];
        let whole = request(45, &body);
        let found = super::envelope_of(&whole[..40], whole.len()).unwrap();
        let expected = Op::Rename { name: b"old", new_parent: 9, new_name: b"new", flags: 1 };
        assert_eq!(op_in_two(&whole[40..56], &whole[56..], &found), Ok(expected));
        // A number across the border, and a piece that is too short.
        assert_eq!(op_in_two(&whole[40..54], &whole[54..], &found), Err(Malformed));
        assert_eq!(op_in_two(&whole[40..56], &whole[57..], &found), Err(Malformed));
    }

    #[test]
    fn data_is_found_from_where_it_counts() {
        let mut numbers = [7_u64, 4096].map(u64::to_ne_bytes).concat();
        numbers.extend(words(&[5, 0, 0, 0, 0, 0]));
        let whole = request(16, &[&numbers, b"bytes"]);
        let found = envelope(&whole).unwrap();
        let Ok(Op::Write(write)) = op(&whole, &found) else { unreachable!() };
        assert_eq!(&whole[40..][write.data], b"bytes");
        let Ok(Op::Write(write)) = op_in_two(&numbers, b"bytes", &found) else { unreachable!() };
        assert_eq!((write.data, write.offset), (0..5, 4096));
    }

    #[test]
    fn forgotten_inodes_are_found() {
        let one = request(2, &[&3_u64.to_ne_bytes()]);
        let many = request(42, &[&words(&[2, 0]), &words(&[5, 0, 1, 0, 6, 0, 9, 0])]);
        for (bytes, expected) in [(one, vec![256]), (many, vec![5, 6])] {
            let found = envelope(&bytes).unwrap();
            let Ok(Op::Forget { inodes }) = op(&bytes, &found) else { unreachable!() };
            assert_eq!(super::forgotten(inodes).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn times_may_be_before_1970_or_now() {
        let mut body = words(&[1 << 4 | 1 << 5 | 1 << 8, 0]);
        body.extend([0; 24]);
        body.extend((-5_i64).to_ne_bytes());
        body.extend([0; 16]);
        body.extend(words(&[17, 0, 0, 0, 0, 0, 0, 0]));
        let setattr = request(4, &[&body]);
        let times =
            Setattr { atime: Some(Some((-5, 17))), mtime: Some(None), ..Setattr::default() };
        assert_eq!(op(&setattr, &envelope(&setattr).unwrap()), Ok(Op::Setattr(times)));
    }

    #[test]
    fn what_is_unknown_is_refused_and_what_is_cut_is_malformed() {
        let unknown = request(4095, &[b"anything"]);
        assert_eq!(op(&unknown, &envelope(&unknown).unwrap()), Ok(Op::Refused));
        for opcode in 0..64 {
            let whole = request(opcode, &[&words(&[4; 24]), b"name\0other\0", &words(&[4; 24])]);
            for len in 0..whole.len() {
                // Its header says more than there is.
                assert_eq!(envelope(&whole[..len]).err(), Some(Malformed));
                let mut short = whole[..len].to_vec();
                if let Some(place) = short.get_mut(..4) {
                    place.copy_from_slice(&(len as u32).to_ne_bytes());
                }
                if let Ok(found) = envelope(&short) {
                    let _ = op(&short, &found);
                    let _ = init(&short, &found);
                }
            }
        }
        // Extensions that are longer than the request.
        let mut long = request(Opcode::Getattr as u32, &[]);
        long[36..38].copy_from_slice(&9_u16.to_ne_bytes());
        assert_eq!(envelope(&long).err(), Some(Malformed));
    }
}
