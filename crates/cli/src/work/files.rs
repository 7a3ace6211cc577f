//! What is known of files, and what directories hold.

use super::Asker;
use super::options::about;
use crate::control::protocol::FileName;
use crate::error::{CliError, Result};
use crate::opened::OpenStore;
use crate::output::shown;
use crate::store::unescape;
use crate::units;
use base::exec::block_on;
use fs::{DataForm, FileType, Session, Time, Walk};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Threads that walk a tree.
const WALKERS_MAX: usize = 8;

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InfoReport {
    /// The volume.
    pub volume: String,
    /// The inode.
    pub inode: u64,
    /// What it is.
    pub kind: String,
    /// Permission bits, in octal.
    pub mode: String,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Names that it has.
    pub links: u32,
    /// Its length.
    pub bytes: u64,
    /// What it takes on account of its data.
    pub taken_bytes: u64,
    /// Last read, in UTC.
    pub accessed: String,
    /// Last change of the contents.
    pub modified: String,
    /// Last change of anything.
    pub changed: String,
    /// When it was made.
    pub created: String,
    /// How its bytes are kept: none, inline or mapped.
    pub form: String,
    /// Where they are.
    pub home: String,
    /// The number of its bytes, when they are mapped.
    pub blob: Option<u64>,
    /// Chunks.
    pub chunks: u64,
    /// Blocks that are stored.
    pub blocks: u64,
    /// What is stored, after compression and with parity.
    pub stored_bytes: u64,
    /// Where there is data.
    pub extents: Vec<ExtentReport>,
    /// There are more extents.
    pub extents_cut: bool,
    /// Extended attributes.
    pub xattrs: Vec<XattrReport>,
    /// What a symbolic link names.
    pub target: Option<String>,
    /// Sessions that have it open.
    pub leases: Vec<LeaseReport>,
    /// Locks on it.
    pub locks: u64,
}

/// A stretch of data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentReport {
    /// The first byte.
    pub start: u64,
    /// The first behind it.
    pub end: u64,
    /// What is stored of it.
    pub stored_bytes: u64,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XattrReport {
    /// Its name.
    pub name: String,
    /// The length of its value.
    pub bytes: u64,
}

/// A session that has a file open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseReport {
    /// The session.
    pub session: u64,
    /// Its machine.
    pub host: String,
    /// Its process.
    pub pid: u32,
}

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryReport {
    /// The volume.
    pub volume: String,
    /// The directory's inode.
    pub inode: u64,
    /// Regular files.
    pub files: u64,
    /// Directories, the top one included.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Anything else.
    pub others: u64,
    /// Names.
    pub entries: u64,
    /// Lengths of files, added up.
    pub bytes: u64,
    /// What they take; several names of one file count once.
    pub taken_bytes: u64,
}

fn find(store: &Arc<OpenStore>, volume: &str, session: &Session, file: &FileName) -> Result<u64> {
    match file {
        FileName::Ino(ino) => Ok(*ino),
        FileName::Path(path) => {
            let bytes = unescape(path.as_bytes())
                .ok_or_else(|| CliError::usage(format!("{path} is not a path")))?;
            block_on(session.resolve(&bytes)).map_err(|error| match error.kind() {
                fs::Kind::NotFound | fs::Kind::NotDirectory => CliError::not_found(format!(
                    "there is no {} in volume \"{volume}\" of {}",
                    shown(&bytes),
                    store.url().dir().display()
                ))
                .hint(
                    "a path in a volume begins at the volume's root, and follows no symbolic links",
                ),
                _ => about(store, volume, error),
            })
        }
    }
}

/// What is known of a file.
pub(super) fn info(store: &Arc<OpenStore>, volume: &str, file: &FileName) -> Result<InfoReport> {
    let used = store.use_volume(volume)?;
    let session = used.session();
    let ino = find(store, volume, session, file)?;
    let info = block_on(session.info(ino)).map_err(|error| about(store, volume, error))?;
    let attr = info.attr;
    let at = |time: Time| units::instant(time.secs, time.nanos);
    Ok(InfoReport {
        volume: volume.to_owned(),
        inode: attr.ino,
        kind: kind(attr.file_type()).to_owned(),
        mode: format!("{:04o}", attr.mode & fs::mode::PERMISSIONS),
        uid: attr.uid,
        gid: attr.gid,
        links: attr.nlink,
        bytes: attr.size,
        taken_bytes: attr.blocks.saturating_mul(512),
        accessed: at(attr.atime),
        modified: at(attr.mtime),
        changed: at(attr.ctime),
        created: at(attr.btime),
        form: match info.form {
            DataForm::None => "none",
            DataForm::Inline => "inline",
            DataForm::Mapped => "mapped",
            DataForm::Local => "local",
        }
        .to_owned(),
        home: info.home.to_owned(),
        blob: info.blob,
        chunks: info.chunks,
        blocks: info.blocks,
        stored_bytes: info.stored_bytes,
        extents: info
            .extents
            .iter()
            .map(|extent| ExtentReport {
                start: extent.start,
                end: extent.end,
                stored_bytes: extent.stored_bytes,
            })
            .collect(),
        extents_cut: info.extents_cut,
        xattrs: info
            .xattrs
            .iter()
            .map(|(name, bytes)| XattrReport { name: shown(name), bytes: *bytes })
            .collect(),
        target: info.target.as_deref().map(shown),
        leases: info
            .leases
            .into_iter()
            .map(|lease| LeaseReport { session: lease.session, host: lease.host, pid: lease.pid })
            .collect(),
        locks: info.locks,
    })
}

fn kind(of: FileType) -> &'static str {
    match of {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::Character => "character device",
        FileType::Block => "block device",
    }
}

/// What a directory holds, counted by several threads.
pub(super) fn summary(
    store: &Arc<OpenStore>,
    volume: &str,
    file: &FileName,
    asker: &dyn Asker,
) -> Result<SummaryReport> {
    let used = store.use_volume(volume)?;
    let session = used.session();
    let top = find(store, volume, session, file)?;
    let walk = Walk::new(session, top);
    let walkers = std::thread::available_parallelism().map_or(1, usize::from).min(WALKERS_MAX);
    let walked = std::thread::scope(|scope| {
        let walkers: Vec<_> = (0..walkers).map(|_| scope.spawn(|| block_on(walk.run()))).collect();
        while walkers.iter().any(|walker| !walker.is_finished()) {
            asker.advance(walk.so_far().entries, None);
            if !asker.goes_on() {
                walk.stop();
            }
            // Wakes at once when the first of them is done, which is about when all are.
            std::thread::park_timeout(Duration::from_millis(5));
        }
        walkers.into_iter().try_for_each(|walker| walker.join().unwrap_or(Ok(())))
    });
    walked.map_err(|error| about(store, volume, error))?;
    if !asker.goes_on() {
        return Err(CliError::new(crate::error::Failure::Failed, "interrupted"));
    }
    let sum = walk.so_far();
    Ok(SummaryReport {
        volume: volume.to_owned(),
        inode: top,
        files: sum.files,
        directories: sum.directories,
        symlinks: sum.symlinks,
        others: sum.others,
        entries: sum.entries,
        bytes: sum.bytes,
        taken_bytes: sum.taken_bytes,
    })
}
