//! open: a handle on a file. While it is open it stays, whatever becomes of its names.

use crate::access::{self, READ, WRITE};
use crate::error::{Error, Kind, Result, is_directory};
use crate::local::Seen;
use crate::reply::Reply;
use crate::schema::{Form, Inode, Part};
use crate::session::{Lease, OpKind, Session};
use crate::tx::Tx;
use crate::types::{Attr, Caller, FileType, Handle, Ino, OpenFlags, SetAttr};
use std::time::Duration;

pub(super) const KIND: OpKind = OpKind::Idempotent;

/// How long an open waits for a removal that is under way.
const REMOVAL_PAUSE: Duration = Duration::from_micros(50);

/// A file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub handle: Handle,
    /// Reading it would change its access time: the first read should come here.
    pub due: bool,
    /// It has bytes, and all of them are in its record.
    pub short: bool,
}

impl Session {
    /// Opens a file.
    pub async fn open(&self, caller: &Caller, ino: Ino, flags: OpenFlags) -> Result<Handle> {
        Ok(self.open_noting(caller, ino, flags).await?.handle)
    }

    /// Opens a file, and says what matters to whoever answers reads from copies of its own.
    pub async fn open_noting(&self, caller: &Caller, ino: Ino, flags: OpenFlags) -> Result<Opened> {
        let entered = self.enter(ino).await;
        let opened = self.open_entered(caller, ino, flags, entered.lease).await;
        entered.keep_if(opened).await
    }

    async fn open_entered(
        &self,
        caller: &Caller,
        ino: Ino,
        flags: OpenFlags,
        lease: Lease,
    ) -> Result<Opened> {
        let (due, (form, (mode, size))) = self
            .hold(ino, lease, |mut tx| async move {
                let inode = tx.inode_for(ino, Part::Access).await?;
                check_inode(&mut tx, caller, ino, &inode, flags).await?;
                let due = flags.read && tx.read_is_due(ino, &inode).await?;
                Ok((tx, (due, (inode.form, (u64::from(inode.mode), inode.size)))))
            })
            .await?;
        let backed = self.serve(ino, flags, Seen { form, mode: mode as u32, size }).await?;
        if flags.truncate {
            self.cut_to_nothing(caller, ino).await?;
        }
        if backed.is_some() && due {
            // Nobody tells of what the kernel reads by itself.
            self.note_read_of(ino).await?;
        }
        let short = form == Form::Inline && size > 0 && !flags.truncate && backed.is_none();
        let handle = self.add_handle(ino, flags, backed)?;
        Ok(Opened { handle, due: due || (flags.truncate && flags.read), short })
    }

    /// What opening with `truncate` does to a file that was there.
    pub(super) async fn cut_to_nothing(&self, caller: &Caller, ino: Ino) -> Result<Attr> {
        let to_nothing = SetAttr { size: Some(0), ..SetAttr::default() };
        self.setattr_checked(caller, ino, &to_nothing, true).await
    }

    /// One handle more, as soon as no removal is under way.
    pub(crate) async fn enter(&self, ino: Ino) -> Entered<'_> {
        loop {
            if let Some(lease) = self.0.open.enter(ino) {
                return Entered { session: self, ino, lease, settled: false };
            }
            self.0.volume.world.clock.sleep(REMOVAL_PAUSE).await;
        }
    }

    /// Runs the checks of an open, and writes the lease with them when others must see it.
    pub(super) async fn hold<T: Reply, F>(
        &self,
        ino: Ino,
        lease: Lease,
        checks: impl Fn(Tx) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<(Tx, T)>>,
    {
        if self.0.private || !lease.is_new {
            return self.view(checks).await;
        }
        let checks = &checks;
        let checked = self
            .change(KIND, |tx| async move {
                let (mut tx, checked) = checks(tx).await?;
                super::create::lease(&mut tx, ino, lease.generation)?;
                Ok((tx, checked))
            })
            .await?;
        self.0.open.leased(ino);
        Ok(checked)
    }
}

/// An inode that counts as open while this is there, and afterwards if it is kept.
pub(crate) struct Entered<'a> {
    session: &'a Session,
    ino: Ino,
    pub(super) lease: Lease,
    settled: bool,
}

impl Entered<'_> {
    /// Is open no more.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.settled = true;
        self.session.leave(self.ino).await
    }

    /// Stays open with the handle that was `opened`, or not.
    pub(super) async fn keep_if<T>(mut self, opened: Result<T>) -> Result<T> {
        self.settled = true;
        if opened.is_err() {
            self.session.leave(self.ino).await?;
        }
        opened
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.session.0.open.abandon(self.ino);
        }
    }
}

/// Refuses what cannot be opened, or not by this caller.
pub(super) async fn check_inode(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    inode: &Inode,
    flags: OpenFlags,
) -> Result<()> {
    match inode.file_type() {
        FileType::File => {}
        FileType::Directory => return Err(is_directory("this is a directory")),
        FileType::Symlink => return Err(Error::new(Kind::Loop, "this is a symbolic link")),
        _ => return Err(Error::new(Kind::NoDevice, "this is opened by the kernel itself")),
    }
    let mut want = if flags.read { READ } else { 0 };
    if flags.write || flags.append || flags.truncate {
        want |= WRITE;
    }
    access::check(tx, caller, ino, inode, want).await
}
