//! What is done for each request: calls of the core, and how long the kernel may keep the answer.
//!
//! Nothing here knows how requests arrive. The handlers are plain `async` functions over a session.

mod adopted;
mod attrs;
mod dirs;
mod files;
mod fresh;
mod kept;
mod locks;
mod names;
mod running;

pub(crate) use adopted::Adopted;
pub(crate) use fresh::Fresh;
pub(crate) use kept::Kept;
pub(crate) use locks::Waiters;
pub(crate) use running::Running;

use crate::opens::Opens;
use crate::reply::{Errno, Ttl};
use crate::request::Header;
use crate::wire::numbers::UNIQUE_RESEND;
use fs::{Asked, Caller, Session};
use std::path::PathBuf;
use std::time::Duration;

/// How long the kernel may keep what nobody else can change: longer than any machine is up.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How long it may when others can.
const SHARED_TTL: Duration = Duration::from_secs(1);

/// What the kernel may keep, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// Nobody else uses the store: what this kernel knows stays true until it changes it itself.
    pub(crate) private: bool,
    pub(crate) ttl: Ttl,
    pub(crate) negative_ttl: Duration,
}

impl Policy {
    /// That of a session, with what the user chose instead.
    pub(crate) fn of(session: &Session, options: &crate::MountOptions) -> Self {
        let private = session.is_private();
        let (long, negative) =
            if private { (FOR_EVER, FOR_EVER) } else { (SHARED_TTL, Duration::ZERO) };
        let ttl = Ttl {
            attr: options.attr_ttl.unwrap_or(long),
            entry: options.entry_ttl.unwrap_or(long),
        };
        Self { private, ttl, negative_ttl: options.negative_ttl.unwrap_or(negative) }
    }
}

/// Answers requests out of a session.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) session: Session,
    pub(crate) policy: Policy,
    pub(crate) waiters: Waiters,
    pub(crate) kept: Kept,
    pub(crate) adopted: Adopted,
    pub(crate) opens: Opens,
    pub(crate) running: Running,
    pub(crate) fresh: Fresh,
    /// When this process dies another takes the connection over.
    pub(crate) survives: bool,
    /// A directory on the disk that holds the bytes.
    pub(crate) backing: Option<PathBuf>,
}

impl Handler {
    /// The session, for a request that must not be done twice.
    fn once(&self, header: Header) -> Session {
        match header.slot {
            0 => self.session.clone(),
            slot => {
                let number = header.unique & !UNIQUE_RESEND;
                self.session.asked(Asked { number, slot, again: header.again })
            }
        }
    }
}

/// Who asks. The kernel has checked permissions already: the mount asks it to.
fn caller(header: Header, umask: u32) -> Caller {
    let Header { uid, gid, .. } = header;
    Caller { uid, gid, groups: Vec::new(), umask, checked_here: false }
}

/// Who changes a file's contents. The kernel says whether set-user and set-group bits must go; the
/// core takes them from those who are not privileged.
fn writer(header: Header, kill: bool) -> Caller {
    let uid = if kill { header.uid.max(1) } else { 0 };
    caller(Header { uid, ..header }, 0)
}

/// What is told of an inode that is not there: the kernel knew it, so it looks its name up again, and
/// finds the file that took its place, or that there is none.
fn gone(error: fs::Error) -> Errno {
    match error.kind() {
        fs::Kind::NotFound => Errno::ESTALE,
        _ => error.into(),
    }
}
