//! The operations, one file each. Each says whether it only reads, may be applied twice, or needs
//! its reply in the op log.

mod access;
mod ahead;
mod copy_range;
mod create;
mod dir_handle;
mod fallocate;
mod fsync;
mod getattr;
mod link;
mod lock;
mod lookup;
pub(crate) mod make;
mod mkdir;
mod mknod;
mod name;
mod open;
mod read;
pub(crate) mod readdir;
mod readlink;
mod release;
pub(crate) mod remove;
mod rename;
mod rmdir;
mod seek;
mod setattr;
mod statfs;
mod symlink;
mod tmpfile;
mod unlink;
mod write;
pub(crate) mod xattr;

use crate::session::OpKind;
pub use ahead::Ahead;
pub use open::Opened;
pub use readdir::{FIRST_ENTRIES, LISTING_ENTRIES};

/// Every operation and its kind.
pub const KINDS: &[(&str, OpKind)] = &[
    ("access", access::KIND),
    ("copy_range", copy_range::KIND),
    ("create", create::KIND),
    ("fallocate", fallocate::KIND),
    ("fsync", fsync::KIND),
    ("getattr", getattr::KIND),
    ("link", link::KIND),
    ("lock", lock::KIND),
    ("lookup", lookup::KIND),
    ("mkdir", mkdir::KIND),
    ("mknod", mknod::KIND),
    ("open", open::KIND),
    ("opendir", dir_handle::KIND),
    ("read", read::KIND),
    ("readdir", readdir::KIND),
    ("readlink", readlink::KIND),
    ("release", release::KIND),
    ("rename", rename::KIND),
    ("rmdir", rmdir::KIND),
    ("seek", seek::KIND),
    ("setattr", setattr::KIND),
    ("statfs", statfs::KIND),
    ("symlink", symlink::KIND),
    ("tmpfile", tmpfile::KIND),
    ("unlink", unlink::KIND),
    ("write", write::KIND),
    ("xattr", xattr::KIND),
];
