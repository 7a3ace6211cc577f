//! What a check can find, each kind by its name.

macro_rules! kinds {
    ($($constant:ident $name:literal $what:literal;)*) => {
        $(#[doc = $what] pub(super) const $constant: &str = $name;)*

        /// Every kind of finding, with what it means.
        pub const KINDS: &[(&str, &str)] = &[$(($name, $what),)*];
    };
}

kinds! {
    UNREADABLE "unreadable" "the store cannot read a part of itself, and the check ended there";
    UNKNOWN_KEY "unknown-key" "a key that no program of this version writes";
    DAMAGED_RECORD "damaged-record" "a record is not what was written";
    VOLUME_RECORD "volume-record" "a record of the volume itself is missing";
    ENTRY_WITHOUT_INODE "entry-without-inode" "an entry names an inode that is not there";
    ENTRY_WITHOUT_DIRECTORY "entry-without-directory" "an entry is in what is no directory";
    ENTRY_TYPE "entry-type" "an entry says another type than its inode";
    ENTRY_NAME "entry-name" "an entry has a name that no entry may have";
    INODE_WITHOUT_ENTRY "inode-without-entry" "an inode should have a name and has none";
    LINK_COUNT "link-count" "an inode has more or fewer names than it says";
    DIRECTORY_NAMES "directory-names" "a directory has a second name, or the root has one";
    PARENT "parent" "a directory names another parent than the one that it is in";
    SUBDIRECTORIES "subdirectories" "a directory has more or fewer directories than it says";
    CYCLE "cycle" "directories are in each other, and the root is in none of them";
    ROOT_DIRECTORY "root" "the root is missing or is no directory, or names another parent";
    INODE_FIELDS "inode-fields" "what an inode says does not fit together";
    INODE_NUMBER "inode-number" "a number is in use that is still to be given out";
    ORPHAN_PART "orphan-part" "something is kept beside an inode that is not there";
    SIDE "side" "a number is kept beside an inode that has no such number";
    XATTR_FLAG "xattr-flag" "an inode with extended attributes says that it has none";
    ACL_FLAG "acl-flag" "an inode says wrongly whether it has an access control list";
    GARBAGE_WITHOUT_INODE "garbage-without-inode" "garbage is noted that is not there";
    GARBAGE_WITH_LINKS "garbage-with-links" "an inode with names is noted as garbage";
    INODE_WITHOUT_GARBAGE "inode-without-garbage" "an inode without names is not noted as garbage";
    TRIM "trim" "the job that an inode waits for is missing or is another";
    JOB "job" "a job that cannot be";
    INLINE_SIZE "inline-size" "an inline file is longer than it may be or than its size";
    INLINE_MISSING "inline-missing" "the bytes of an inline file are missing";
    INLINE_UNOWNED "inline-unowned" "inline bytes that no file has";
    INLINE_LENGTH "inline-length" "inline bytes have another length than their inode says";
    INLINE_DAMAGED "inline-damaged" "inline bytes are not what was written";
    BLOB_SHARED "blob-shared" "two inodes name the same bytes";
    BLOB_DROPPED "blob-dropped" "a job is to remove bytes that a file has";
    MAP_UNOWNED "map-unowned" "chunks that no mapped file has and no job removes";
    MAP_SHAPE "map-shape" "a map entry names no block, or one behind the end of its chunk";
    BLOCK_MISSING "block-missing" "a map entry names a block that is not stored";
    BLOCK_UNNAMED "block-unnamed" "a stored block that no map entry names and no job removes";
    BLOCK_DAMAGED "block-damaged" "a block is not what was written";
    BLOCK_BEHIND_END "block-behind-end" "bytes other than zeros are behind the end of a file";
    PARITY_MISSING "parity-missing" "a group of blocks has no parity";
    PARITY_UNNEEDED "parity-unneeded" "parity of a group without blocks, or where there is none";
    PARITY_WRONG "parity-wrong" "parity is damaged or is not that of its blocks";
    INODE_SPACE "inode-space" "a file takes more or less space than it says";
    VOLUME_BYTES "volume-bytes" "the volume's bytes are not what its files take";
    VOLUME_INODES "volume-inodes" "the volume's count of inodes is wrong";
    BACKING_NOBODY "backing-nobody" "a file of the local home is lent to no file that is there";
    BACKING_OWNED "backing-owned" "a file of the local home is noted as free, or lent, and another inode has it";
    BACKING_TWICE "backing-twice" "two files of the local home are lent to one inode";
    LOCAL_MISSING "local-missing" "the file of the local home that an inode has is missing, or cannot be read";
    LOCAL_UNKNOWN "local-unknown" "a file of the local home that no inode has and no record names";
    LOCAL_SIZE "local-size" "the file of the local home that an inode has is of another size";
    SESSION_HALF "session-half" "a session has a record without a heartbeat, or the other way round";
    LEASE_LEFTOVER "lease-leftover" "a lease of a session that is gone";
    LOCK_LEFTOVER "lock-leftover" "a lock of a session that is gone";
    HELD_MISSING "held-missing" "a lease or a lock that its session's list does not have";
    HELD_LEFTOVER "held-leftover" "the list of what a session holds that is gone";
    OPERATION_LEFTOVER "operation-leftover" "a reply to a session that is gone";
}

/// Findings that a report holds; the rest is only counted.
pub const FINDINGS_MAX: usize = 1000;

/// Something that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is: one of [`KINDS`].
    pub kind: &'static str,
    /// Where it is and what is wrong, for people.
    pub what: String,
}

/// What a check saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Inodes.
    pub inodes: u64,
    /// Directory entries.
    pub entries: u64,
    /// Blocks of files that are stored, without inline ones and parity.
    pub blocks: u64,
    /// Bytes that data takes.
    pub bytes: u64,
    /// Keys of every kind.
    pub keys: u64,
    /// What does not fit: the first [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// How many there are in all.
    pub findings_total: u64,
    /// Whether the check came to its end. If not, the last finding says why.
    pub complete: bool,
}

impl CheckReport {
    pub(super) fn add(&mut self, kind: &'static str, what: String) {
        self.findings_total += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { kind, what });
        }
    }

    /// Adds what was seen of the next part.
    pub(super) fn absorb(&mut self, part: CheckReport) {
        self.inodes += part.inodes;
        self.entries += part.entries;
        self.blocks += part.blocks;
        self.bytes += part.bytes;
        self.keys += part.keys;
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings.extend(part.findings.into_iter().take(room));
        self.findings_total += part.findings_total;
        self.complete &= part.complete;
    }

    /// Whether everything was looked at and fits.
    pub fn is_clean(&self) -> bool {
        self.complete && self.findings_total == 0
    }
}
