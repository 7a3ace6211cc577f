//! create: a file by its name, opened. One that is there already is opened, unless it must be new.

use super::make::{New, make_at, make_quickly, parent_dir};
use super::name;
use super::open::check_inode;
use crate::error::{Error, Result, exists, is_directory, not_found};
use crate::local::{Backed, Loan, Seen};
use crate::session::{OpKind, OpenFile, Session, Way};
use crate::tx::Tx;
use crate::types::{Attr, Caller, Handle, Ino, OpenFlags, mode};
use base::sync::Mutex;
use kv::Read;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Opens the file of this name; makes it first when there is none.
    pub async fn create(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        flags: OpenFlags,
    ) -> Result<(Attr, Handle)> {
        name::check(name)?;
        let mode = mode::FILE | mode & mode::PERMISSIONS;
        if let Some(made) = self.create_quickly(caller, parent, name, mode, flags)? {
            return Ok(made);
        }
        let new = New { mode, reserved: self.0.reserve().await?, ..New::default() };
        let held = Held::begin(self, new.reserved);
        let found = Mutex::new(None);
        let loan = self.begin_loan(new.reserved, parent, flags);
        let made = Making { held: &held, loan: loan.as_ref(), found: &found };
        let (attr, made) = self.create_in(caller, parent, name, &new, flags, made).await?;
        if made && self.0.private && !held.has(attr.ino) {
            // Made for this request by a process that died: it is as any that is there.
            drop((held, loan));
            return self.open_made(caller, attr, flags).await;
        }
        if made {
            let opened = self.made(attr, parent, held, loan, flags);
            if opened.is_err() {
                self.leave(attr.ino).await?;
            }
            return opened;
        }
        drop((held, loan));
        let found = found.lock().take();
        let Some(found) = found else {
            return Err(not_found("the file was removed"));
        };
        let opened = self.finish_open(caller, attr, flags).await;
        found.keep();
        if opened.is_err() {
            self.leave(attr.ino).await?;
        }
        opened
    }

    /// The same the short way; `None` when there is such a name, or nothing was done and it has to be done the
    /// other way.
    pub fn create_quickly(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        flags: OpenFlags,
    ) -> Result<Option<(Attr, Handle)>> {
        name::check(name)?;
        let Some((mut quick, ino)) = self.quick(caller).zip(self.0.reserve_now()) else {
            return Ok(None);
        };
        let mode = mode::FILE | mode & mode::PERMISSIONS;
        let new = New { mode, reserved: Some(ino), ..New::default() };
        let Some((ino, inode)) = make_quickly(&mut quick, caller, parent, name, &new) else {
            return Ok(None);
        };
        let held = Held::begin(self, new.reserved);
        let loan = self.begin_loan(new.reserved, parent, flags);
        if let Some((blob, record)) = loan.as_ref().and_then(Loan::to_record) {
            quick.put_backing(blob, record);
        }
        let attr = self.0.attr_of(ino, &inode, Default::default())?;
        // As a transaction would answer it: whether it was made, too.
        match quick.commit(&(attr, true))? {
            Some(()) => {
                let opened = self.made(attr, parent, held, loan, flags);
                // The background does what the last handle has to.
                opened.map(Some).inspect_err(|_| self.0.open.abandon(ino))
            }
            None => Ok(None),
        }
    }

    /// Opens a file that was made for this very request before this session began.
    pub(super) async fn open_made(
        &self,
        caller: &Caller,
        attr: Attr,
        flags: OpenFlags,
    ) -> Result<(Attr, Handle)> {
        let entered = self.enter(attr.ino).await;
        let flags = OpenFlags { truncate: false, ..flags };
        let opened = self.finish_open(caller, attr, flags).await;
        entered.keep_if(opened).await
    }

    async fn finish_open(
        &self,
        caller: &Caller,
        attr: Attr,
        flags: OpenFlags,
    ) -> Result<(Attr, Handle)> {
        let attr = match flags.truncate {
            true => self.cut_to_nothing(caller, attr.ino).await?,
            false => attr,
        };
        let inode = self.inode_now(attr.ino).await?;
        let backed = self.serve(attr.ino, flags, Seen::of(&inode)).await?;
        let handle = self.add_handle(attr.ino, flags, backed)?;
        Ok((attr, handle))
    }

    /// A handle, served as was decided.
    pub(super) fn add_handle(
        &self,
        ino: Ino,
        flags: OpenFlags,
        backed: Option<Arc<Backed>>,
    ) -> Result<Handle> {
        let direct = backed.is_none() && self.0.open.way(ino) == Some(Way::Direct);
        self.0.handles.add_file(OpenFile { ino, flags, backed, direct })
    }

    /// A handle on an inode that was made. When there is none, the inode still counts as open.
    pub(super) fn made(
        &self,
        attr: Attr,
        parent: Ino,
        held: Held<'_>,
        loan: Option<Loan<'_>>,
        flags: OpenFlags,
    ) -> Result<(Attr, Handle)> {
        // After an unknown commit that did happen it has the number of another try.
        let loan = loan.filter(|loan| loan.is_for(attr.ino));
        let backed = loan.and_then(|loan| loan.keep(flags));
        let live = backed.is_some();
        held.enter(attr.ino);
        self.0.open.decide(attr.ino, self.way_of_new(live, flags));
        self.0.open.made_in(attr.ino, parent);
        let handle = held.into_handle(attr.ino, flags, backed)?;
        Ok((Attr { live, ..attr }, handle))
    }

    async fn create_in(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        new: &New,
        flags: OpenFlags,
        making: Making<'_>,
    ) -> Result<(Attr, bool)> {
        self.change(KIND, |mut tx| async move {
            let dir = parent_dir(&mut tx, caller, parent).await?;
            if name::is_dots(name) {
                return Err(match flags.exclusive {
                    true => exists("the name is taken"),
                    false => is_directory("this is a directory"),
                });
            }
            if let Some(entry) = tx.entry(parent, name, Read::Serializable).await? {
                if flags.exclusive {
                    return Err(exists("the name is taken"));
                }
                // Opened in the same transaction: what is told of it is true at one instant.
                let inode = tx.inode(entry.ino).await?;
                check_inode(&mut tx, caller, entry.ino, &inode, flags).await?;
                *making.found.lock() = Some(Found::enter(&mut tx, self, entry.ino)?);
                let attr = tx.attr(entry.ino, &inode).await?;
                return Ok((tx, (attr, false)));
            }
            let (ino, inode) = make_at(&mut tx, caller, parent, &dir, name, new).await?;
            making.held.lease(&mut tx, ino)?;
            if let Some(loan) = making.loan {
                loan.record(&mut tx)?;
            }
            let attr = tx.attr_with(ino, &inode, Default::default())?;
            Ok((tx, (attr, true)))
        })
        .await
    }
}

/// What a file that is about to be made has already.
#[derive(Clone, Copy)]
struct Making<'a> {
    held: &'a Held<'a>,
    loan: Option<&'a Loan<'a>>,
    /// The file that was there instead.
    found: &'a Mutex<Option<Found>>,
}

/// A file that was there. It counts as open until this is dropped, or for good when it is kept.
struct Found {
    session: Session,
    ino: Ino,
    kept: bool,
}

impl Found {
    fn enter(tx: &mut Tx, session: &Session, ino: Ino) -> Result<Self> {
        let Some(entered) = session.0.open.enter(ino) else {
            return Err(Error::again("the file is being removed"));
        };
        let found = Self { session: session.clone(), ino, kept: false };
        if entered.is_new {
            lease(tx, ino, entered.generation)?;
        }
        Ok(found)
    }

    fn keep(mut self) {
        if !self.session.0.private {
            self.session.0.open.leased(self.ino);
        }
        self.kept = true;
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        if !self.kept {
            self.session.0.open.abandon(self.ino);
        }
    }
}

/// On a shared store the lease comes with the inode: nobody can remove it between the two.
pub(super) fn lease(tx: &mut Tx, ino: Ino, generation: u64) -> Result<()> {
    if !tx.session.private {
        let (lease, held) = (tx.keys.lease(ino, tx.session.id), tx.keys.held(tx.session.id, ino));
        tx.max(&lease, generation)?;
        tx.max(&held, generation)?;
    }
    Ok(())
}

/// An inode that is about to be made and opened. It counts as open before anybody else can find it:
/// whoever opens and closes it before this one has its answer does not take the lease away.
pub(super) struct Held<'a> {
    session: &'a Session,
    generation: u64,
    /// Every number that a try has taken; the last one that commits is kept.
    entered: Mutex<BTreeSet<Ino>>,
}

impl<'a> Held<'a> {
    pub(super) fn begin(session: &'a Session, reserved: Option<Ino>) -> Self {
        let generation = session.0.open.next_generation();
        let held = Self { session, generation, entered: Mutex::default() };
        if let Some(ino) = reserved {
            held.enter(ino);
        }
        held
    }

    /// Whether a try of this session has taken this number.
    pub(super) fn has(&self, ino: Ino) -> bool {
        self.entered.lock().contains(&ino)
    }

    fn enter(&self, ino: Ino) {
        if self.entered.lock().insert(ino) {
            self.session.0.open.adopt(ino, self.generation);
        }
    }

    /// Writes the lease with the inode, where others must see it.
    pub(super) fn lease(&self, tx: &mut Tx, ino: Ino) -> Result<()> {
        self.enter(ino);
        lease(tx, ino, self.generation)
    }

    /// The inode is made: a handle on it.
    pub(super) fn into_handle(
        self,
        ino: Ino,
        flags: OpenFlags,
        backed: Option<Arc<Backed>>,
    ) -> Result<Handle> {
        let session = self.session;
        self.enter(ino);
        self.entered.lock().remove(&ino);
        drop(self);
        if !session.0.private {
            session.0.open.leased(ino);
        }
        session.add_handle(ino, flags, backed)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for ino in std::mem::take(&mut *self.entered.lock()) {
            self.session.0.open.abandon(ino);
        }
    }
}
