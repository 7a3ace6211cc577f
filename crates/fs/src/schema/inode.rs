//! The record of an inode.

use super::codec::{Reader, Writer, unseal};
use crate::types::{FileType, Time, mode};
use bytes::Bytes;

const VERSION: u8 = 1;

/// In which form a file's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In one record beside the inode.
    Inline,
    /// In chunks, by a map.
    Mapped,
    /// In a file of the local home.
    Local,
}

/// An inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Type and permission bits.
    pub mode: u32,
    /// Names; of a directory 1 while it has its own, else 0. What callers see of a directory is
    /// counted apart.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device, of a device.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Where the data is.
    pub form: Form,
    /// Whether there is an access control list among the extended attributes.
    pub access_acl: bool,
    /// Whether there is one for new entries.
    pub default_acl: bool,
    /// Whether there are extended attributes at all.
    pub xattrs: bool,
    /// Bytes of the inline record: the data without the zeros at its end.
    pub inline_len: u32,
    /// Bytes that the file of the local home takes.
    pub taken: u64,
    /// The directory that a directory is in.
    pub parent: u64,
    /// The blob with the data.
    pub blob: u64,
    /// The slot of the home with the data.
    pub slot: u64,
    /// Counts the moves of the data.
    pub home_epoch: u64,
    /// The job that still removes what a truncation cut off; 0 for none.
    pub trim: u64,
    /// The first chunk that the job removes.
    pub trim_from: u64,
    /// The last access, in hours since 1970: kept whatever the mount says of access times.
    pub accessed_hour: u32,
    /// Last read.
    pub atime: Time,
    /// Last change of the contents; a later one may be kept beside the record.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// When it was made.
    pub btime: Time,
    /// The target of a symbolic link.
    pub target: Bytes,
}

const MAPPED: u8 = 1;
const ACCESS_ACL: u8 = 2;
const DEFAULT_ACL: u8 = 4;
/// Fields of data that is not where a new file's is.
const PLACED: u8 = 8;
const TARGET: u8 = 16;
const XATTRS: u8 = 32;
const LOCAL: u8 = 64;
const FLAGS_END: u8 = 128;

const SAME_ATIME: u8 = 1;
const SAME_MTIME: u8 = 2;
const SAME_CTIME: u8 = 4;

impl Inode {
    /// A new inode with one name.
    pub fn new(ino: u64, mode: u32, uid: u32, gid: u32, now: Time) -> Self {
        Self {
            mode,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            size: 0,
            form: Form::Inline,
            access_acl: false,
            default_acl: false,
            xattrs: false,
            inline_len: 0,
            taken: 0,
            parent: 0,
            blob: ino,
            slot: 0,
            home_epoch: 0,
            trim: 0,
            trim_from: 0,
            accessed_hour: hour_of(now),
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            target: Bytes::new(),
        }
    }

    /// What it is.
    pub fn file_type(&self) -> FileType {
        FileType::of_mode(self.mode).unwrap_or(FileType::File)
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & mode::TYPE == mode::DIRECTORY
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & mode::TYPE == mode::FILE
    }

    /// Whether parts of it are kept beside the record, where they change without it.
    pub fn has_sides(&self) -> bool {
        self.is_dir() || self.form == Form::Mapped
    }

    /// Whether something of its data is not as a new file's is.
    fn is_placed(&self, ino: u64) -> bool {
        self.blob != ino || (self.slot | self.home_epoch | self.trim | self.trim_from) != 0
    }

    /// The record.
    pub fn encode(&self, key: &[u8], ino: u64) -> Vec<u8> {
        let placed = self.is_placed(ino);
        let mut flags = 0;
        for (set, bit) in [
            (self.form == Form::Mapped, MAPPED),
            (self.access_acl, ACCESS_ACL),
            (self.default_acl, DEFAULT_ACL),
            (placed, PLACED),
            (!self.target.is_empty(), TARGET),
            (self.xattrs, XATTRS),
            (self.form == Form::Local, LOCAL),
        ] {
            flags |= if set { bit } else { 0 };
        }
        let mut same = 0;
        for (time, bit) in
            [(self.atime, SAME_ATIME), (self.mtime, SAME_MTIME), (self.ctime, SAME_CTIME)]
        {
            same |= if time == self.btime { bit } else { 0 };
        }
        let mut out = Writer::with_capacity(96 + self.target.len());
        out.byte(VERSION).byte(flags).byte(same);
        out.number(self.mode.into()).number(self.nlink.into());
        out.number(self.uid.into()).number(self.gid.into()).number(self.rdev.into());
        out.number(self.size).number(self.inline_len.into()).number(self.parent);
        out.number(self.accessed_hour.into());
        put_time(&mut out, self.btime);
        for time in [self.atime, self.mtime, self.ctime] {
            if time != self.btime {
                put_time(&mut out, time);
            }
        }
        if placed {
            out.number(self.blob).number(self.slot);
            out.number(self.home_epoch).number(self.trim).number(self.trim_from);
        }
        if self.form == Form::Local {
            out.number(self.taken);
        }
        if !self.target.is_empty() {
            out.bytes(&self.target);
        }
        out.seal(key)
    }

    /// From the record. `None` when it is damaged or of another version.
    pub fn decode(key: &[u8], ino: u64, record: &[u8]) -> Option<Self> {
        let mut from = unseal(key, record)?;
        if from.byte()? != VERSION {
            return None;
        }
        let flags = from.byte()?;
        let same = from.byte()?;
        if flags >= FLAGS_END || same >= 8 {
            return None;
        }
        let mut inode = Self::new(ino, 0, 0, 0, Time::default());
        inode.mode = from.number_u32()?;
        inode.nlink = from.number_u32()?;
        inode.uid = from.number_u32()?;
        inode.gid = from.number_u32()?;
        inode.rdev = from.number_u32()?;
        inode.size = from.number()?;
        inode.inline_len = from.number_u32()?;
        inode.parent = from.number()?;
        inode.accessed_hour = from.number_u32()?;
        inode.btime = get_time(&mut from)?;
        // One form for each inode: what can be left out is left out.
        let mut time = |bit| match same & bit {
            0 => get_time(&mut from).filter(|time| *time != inode.btime),
            _ => Some(inode.btime),
        };
        inode.atime = time(SAME_ATIME)?;
        inode.mtime = time(SAME_MTIME)?;
        inode.ctime = time(SAME_CTIME)?;
        if flags & PLACED != 0 {
            inode.blob = from.number()?;
            inode.slot = from.number()?;
            inode.home_epoch = from.number()?;
            inode.trim = from.number()?;
            inode.trim_from = from.number()?;
            if !inode.is_placed(ino) {
                return None;
            }
        }
        if flags & LOCAL != 0 {
            inode.taken = from.number()?;
        }
        if flags & TARGET != 0 {
            inode.target = Bytes::copy_from_slice(from.bytes()?);
            if inode.target.is_empty() {
                return None;
            }
        }
        inode.form = match (flags & MAPPED, flags & LOCAL) {
            (0, 0) => Form::Inline,
            (_, 0) => Form::Mapped,
            (0, _) => Form::Local,
            _ => return None,
        };
        inode.access_acl = flags & ACCESS_ACL != 0;
        inode.default_acl = flags & DEFAULT_ACL != 0;
        inode.xattrs = flags & XATTRS != 0;
        FileType::of_mode(inode.mode)?;
        from.end()?;
        Some(inode)
    }
}

/// Hours since 1970, within what 32 bits hold.
pub(crate) fn hour_of(time: Time) -> u32 {
    u32::try_from(time.secs.max(0) / 3600).unwrap_or(u32::MAX)
}

pub(crate) fn put_time(out: &mut Writer, time: Time) {
    out.raw(&time.secs.to_le_bytes()).raw(&time.nanos.to_le_bytes());
}

pub(crate) fn get_time(from: &mut Reader<'_>) -> Option<Time> {
    let secs = i64::from_le_bytes(from.array()?);
    let nanos = u32::from_le_bytes(from.array()?);
    (nanos < 1_000_000_000).then_some(Time { secs, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_comes_back_as_it_was() {
        let now = Time { secs: -5, nanos: 999_999_999 };
        let plain = Inode::new(9, mode::FILE | 0o644, 1000, 1001, now);
        let mut odd = plain.clone();
        odd.form = Form::Mapped;
        odd.size = u64::MAX;
        odd.blob = 77;
        odd.trim = 3;
        odd.mtime = Time { secs: i64::MAX, nanos: 1 };
        odd.default_acl = true;
        let mut link = Inode::new(9, mode::SYMLINK | 0o777, 0, 0, now);
        link.target = Bytes::from_static(b"somewhere");
        let mut local = plain.clone();
        (local.form, local.blob, local.taken) = (Form::Local, 12, 1 << 40);
        for inode in [plain, odd, link, local] {
            let record = inode.encode(b"k", 9);
            assert_eq!(Inode::decode(b"k", 9, &record), Some(inode));
            assert_eq!(Inode::decode(b"l", 9, &record), None);
        }
    }

    #[test]
    fn a_new_file_takes_few_bytes() {
        let now = Time { secs: 1_800_000_000, nanos: 5 };
        let inode = Inode::new(1 << 40, mode::FILE | 0o644, 1000, 1000, now);
        assert!(inode.encode(b"k", 1 << 40).len() <= 40);
    }
}
