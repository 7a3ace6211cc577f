//! The records of a file and their keys: what a filesystem keeps of each, byte for byte the same on
//! every engine.

/// Files of one directory.
pub(crate) const DIRECTORY_FILES: u64 = 1000;

/// Records that one file has.
pub(crate) const FILE_RECORDS: u64 = 4;

pub(crate) const NAME_BYTES: usize = 20;
const INODE_BYTES: usize = 120;
/// Who holds the leases; one session is as good as many for the shape of the keys.
const SESSION: u64 = 0x5ea3_0047;

/// The number of a directory's own inode; its files have those that follow.
pub(crate) fn directory_inode(directory: u64) -> u64 {
    directory << 10
}

/// One file: where it is, and how often it was renamed, which its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) directory: u64,
    /// Below [`DIRECTORY_FILES`].
    pub(crate) index: u64,
    pub(crate) generation: u8,
}

impl File {
    pub(crate) fn new(directory: u64, index: u64) -> Self {
        Self { directory, index, generation: 0 }
    }

    pub(crate) fn renamed(self) -> Self {
        Self { generation: self.generation.wrapping_add(1), ..self }
    }

    pub(crate) fn inode(self) -> u64 {
        directory_inode(self.directory) + 1 + self.index
    }

    /// Names sort as the files were made and differ after a common beginning, as a camera's do.
    fn name(self) -> [u8; NAME_BYTES] {
        let mut name = *b"document-0000000.000";
        write_decimal(&mut name[9..16], self.index);
        write_decimal(&mut name[17..], u64::from(self.generation));
        name
    }

    pub(crate) fn dirent_key(self) -> [u8; 9 + NAME_BYTES] {
        let mut key = [0; 9 + NAME_BYTES];
        key[..9].copy_from_slice(&dirents_prefix(self.directory));
        key[9..].copy_from_slice(&self.name());
        key
    }

    pub(crate) fn dirent(self) -> [u8; 9] {
        numbered(1, self.inode())
    }

    pub(crate) fn home_key(self) -> [u8; 9] {
        numbered(b'h', self.inode())
    }

    pub(crate) fn home(self) -> [u8; 16] {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&mix(self.inode()).to_le_bytes());
        value
    }

    pub(crate) fn lease_key(self) -> [u8; 18] {
        let mut key = [0; 18];
        key[..9].copy_from_slice(&inode_key(self.inode()));
        key[9] = 0x01;
        key[10..].copy_from_slice(&SESSION.to_be_bytes());
        key
    }

    pub(crate) fn lease(self) -> [u8; 8] {
        mix(self.inode() ^ SESSION).to_le_bytes()
    }
}

/// Where the entries of a directory begin.
pub(crate) fn dirents_prefix(directory: u64) -> [u8; 9] {
    numbered(b'd', directory_inode(directory))
}

pub(crate) fn inode_key(inode: u64) -> [u8; 9] {
    numbered(b'i', inode)
}

/// How many entries a directory has; creates and unlinks add to it.
pub(crate) fn counter_key(directory: u64) -> [u8; 11] {
    let mut key = [0; 11];
    key[..9].copy_from_slice(&inode_key(directory_inode(directory)));
    key[9] = 0xfe;
    key
}

/// An inode's record. Half of it varies, half is the same for all, as with real ones.
pub(crate) fn inode_record(inode: u64, ctime: u64) -> [u8; INODE_BYTES] {
    let mut record = [0; INODE_BYTES];
    for (word, chunk) in record[..64].chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(inode.wrapping_add((word as u64) << 48)).to_le_bytes());
    }
    record[64..72].copy_from_slice(&ctime.to_le_bytes());
    record
}

/// The inode that an entry names; none when it is not an entry.
pub(crate) fn dirent_target(value: &[u8]) -> Option<u64> {
    let number = value.get(1..9)?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

fn numbered(tag: u8, number: u64) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

fn write_decimal(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
