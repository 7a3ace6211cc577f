//! What is to be done about a finding, and how it is said.

use crate::schema::{BlockPlace, Counter, Data, Entry};
use crate::types::Ino;
use crate::volume::Volume;
use kv::Key;

/// One thing to mend. It says what is to hold, not what to write: it is worked out again from what is
/// there when it is written, and one that is done already changes nothing.
#[derive(Debug, Clone)]
pub(crate) enum Fix {
    /// A key that is of no use goes.
    Remove(Key),
    /// The volume's record is written as it was when the volume was opened.
    Volume,
    /// The epoch is written again. There is but one.
    Epoch,
    /// The next number to give out is above all that are in use.
    NextInode { above: u64 },
    /// A counter has this sum.
    Counter(Counter, u64),
    /// A directory is there: in its parent, which has an entry for it, or else in lost+found.
    Directory { ino: Ino, parent: Option<Ino> },
    /// A file whose record is lost: what is left of its bytes goes to lost+found, or it goes.
    File { ino: Ino, rescue: bool },
    /// Bytes whose inode is gone: a file of them goes to lost+found.
    Rescue(u64),
    /// An inode that has lost its name gets one in lost+found.
    Reconnect(Ino),
    /// An inode says how many names it has.
    Names { ino: Ino, names: u32 },
    /// A directory says in which it is.
    Parent { ino: Ino, parent: Ino },
    /// A directory that is below itself goes to lost+found.
    Detach(Ino),
    /// The directories in a directory are counted again.
    Subdirs(Ino),
    /// An inode without names is noted as garbage.
    Garbage(Ino),
    /// What an inode says fits together.
    Fields(Ino),
    /// An inode says which attributes it has.
    Lists(Ino),
    /// A damaged attribute goes.
    Attribute { ino: Ino, name: Vec<u8> },
    /// The job that an inode waits for is there.
    Trim(Ino),
    /// An inode says how many inline bytes it has.
    Inline(Ino),
    /// An inode has a blob of its own.
    OwnBlob(Ino),
    /// A file with a local home's bytes is as long as they are.
    LocalSize { ino: Ino, size: u64 },
    /// A file of the local home that nobody has: one with bytes goes to lost+found, another is free.
    Adopt(u64),
    /// An entry says the type of its inode.
    Entry(Key, Entry),
    /// A map entry names the blocks that are there.
    Map { blob: u64, chunk: u64, data: Data },
    /// A map entry names no block that cannot be.
    Shape(Key),
    /// A file reaches to the end of its bytes.
    Size { ino: Ino, end: u64 },
    /// The bytes that a file takes are counted again.
    Space(Ino),
    /// A lost block is rebuilt from parity; one that nobody needs is not named any more.
    Block { place: BlockPlace, needed: bool },
    /// The parity of a group is made again.
    Parity(BlockPlace),
}

impl Fix {
    /// What it does, for people.
    pub(super) fn words(&self, volume: &Volume) -> String {
        let keys = volume.keys();
        match self {
            Self::Remove(key) => format!("{}: removed", volume.describe(key)),
            Self::Volume => "the volume's record: written again".to_owned(),
            Self::Epoch => "the epoch: written again".to_owned(),
            Self::NextInode { .. } => "the next inode number: above all that are in use".to_owned(),
            Self::Counter(Counter::Bytes, sum) => format!("the volume's bytes: {sum}"),
            Self::Counter(Counter::Inodes, sum) => format!("the volume's inodes: {sum}"),
            Self::Directory { ino, parent: Some(_) } => {
                format!("inode {ino}: made again, as a directory that only root may use")
            }
            Self::Directory { ino, parent: None } => {
                format!("inode {ino}: made again, as a directory in lost+found")
            }
            Self::File { ino, rescue: true } => {
                format!("inode {ino}: what is left of its bytes goes to lost+found")
            }
            Self::File { ino, rescue: false } => format!("inode {ino}: removed, it was garbage"),
            Self::Rescue(blob) => format!("blob {blob}: its bytes go to lost+found"),
            Self::Reconnect(ino) => format!("inode {ino}: named in lost+found"),
            Self::Names { ino, names } => format!("inode {ino}: says that it has {names} names"),
            Self::Parent { ino, parent } => format!("inode {ino}: says that it is in {parent}"),
            Self::Detach(ino) => format!("inode {ino}: moved to lost+found"),
            Self::Subdirs(ino) => format!("inode {ino}: its directories are counted again"),
            Self::Garbage(ino) => format!("inode {ino}: noted as garbage"),
            Self::Fields(ino) => format!("inode {ino}: what it says is made to fit"),
            Self::Lists(ino) => format!("inode {ino}: says which attributes it has"),
            Self::Attribute { ino, name } => {
                format!("inode {ino}: its damaged attribute {} is removed", name.escape_ascii())
            }
            Self::Trim(ino) => format!("inode {ino}: the job that cuts it is there again"),
            Self::Inline(ino) => format!("inode {ino}: says how many inline bytes it has"),
            Self::OwnBlob(ino) => format!("inode {ino}: gets bytes of its own"),
            Self::LocalSize { ino, size } => format!("inode {ino}: says that it has {size} bytes"),
            Self::Adopt(blob) => {
                format!(
                    "file {blob} of the local home: goes to lost+found, or is free if it is empty"
                )
            }
            Self::Entry(key, _) => format!("{}: says the right type", volume.describe(key)),
            Self::Map { blob, chunk, .. } => {
                let key = keys.map(*blob, *chunk);
                format!("{}: made again from the blocks that are there", volume.describe(&key))
            }
            Self::Shape(key) => {
                format!("{}: names only blocks that can be", volume.describe(key))
            }
            Self::Size { ino, end } => format!("inode {ino}: has at least {end} bytes"),
            Self::Space(ino) => format!("inode {ino}: the space that it takes is counted again"),
            Self::Block { place, needed: true } => {
                format!("{}: rebuilt from parity", volume.describe(&keys.block(*place)))
            }
            Self::Block { place, needed: false } => {
                let key = keys.block(*place);
                format!("{}: not named any more, nobody needs it", volume.describe(&key))
            }
            Self::Parity(place) => {
                format!("{}: made again from its blocks", volume.describe(&keys.block(*place)))
            }
        }
    }
}
