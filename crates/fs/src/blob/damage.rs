//! What can be wrong with a stored block or with the parity of a group of them.

use std::fmt;

/// Why stored bytes cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// There are fewer bytes than the header says, or than a header has.
    TooShort,
    /// A version that this program does not know.
    Version(u8),
    /// The bytes are not those that were written here.
    Checksum,
    /// A compression that this program does not know.
    Codec(u8),
    /// A length that does not agree with the header or with the block size.
    Length {
        /// How many bytes there are or would be.
        found: u64,
        /// How many there should be.
        wanted: u64,
    },
    /// The compressed bytes do not unpack to what the header says.
    Compression,
    /// The members of a group are too many, out of order, or do not agree with its parity.
    Members,
    /// A block is not a member of the group, or is one already, or with another generation.
    Member(u32),
    /// A member that was needed is missing or is not what its group was made of.
    Other(u32),
    /// A block was rebuilt and is not what its group was made of.
    Rebuilt(u32),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("too short"),
            Self::Version(version) => write!(f, "unknown version {version}"),
            Self::Checksum => f.write_str("the checksum does not match the bytes and their place"),
            Self::Codec(codec) => write!(f, "unknown compression {codec}"),
            Self::Length { found, wanted } => {
                write!(f, "{found} bytes where there should be {wanted}")
            }
            Self::Compression => f.write_str("the compressed bytes do not unpack"),
            Self::Members => f.write_str("the group's members do not agree with its parity"),
            Self::Member(block) => {
                write!(f, "block {block} is not the member that its group knows")
            }
            Self::Other(block) => {
                write!(f, "block {block} of the group is missing or damaged too")
            }
            Self::Rebuilt(block) => {
                write!(f, "block {block} as rebuilt is not what was written")
            }
        }
    }
}

impl std::error::Error for Damage {}
