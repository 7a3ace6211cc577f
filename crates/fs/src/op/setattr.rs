//! setattr: mode, owner, size and times.

use super::remove;
use crate::access::{self, WRITE};
use crate::blob;
use crate::error::{
    Error, Result, access_denied, bad_handle, invalid, is_directory, not_permitted, too_big,
};
use crate::local::{Using, failed, is_away, is_elsewhere};
use crate::schema::{Inode, Part, hour_of};
use crate::session::{OpKind, Session, Way};
use crate::tx::Tx;
use crate::types::{Attr, Caller, FILE_BYTES_MAX, Handle, Ino, SetAttr, SetTime, Time, mode};

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

impl Session {
    /// Changes what `set` names. A size may be set through a handle that is open for writing,
    /// whatever the mode says by now.
    pub async fn setattr(
        &self,
        caller: &Caller,
        ino: Ino,
        set: &SetAttr,
        handle: Option<Handle>,
    ) -> Result<Attr> {
        if handle.is_none()
            && let Some(attr) = self.setattr_quickly(caller, ino, set)?
        {
            return Ok(attr);
        }
        let mut by_handle = false;
        if let Some(handle) = handle {
            let file = self.0.handles.file(handle)?;
            if file.ino != ino {
                return Err(bad_handle("the handle is that of another inode"));
            }
            let writes = file.flags.write || file.flags.append;
            if set.size.is_some() && !writes {
                return Err(invalid("the handle is not open for writing"));
            }
            by_handle = writes;
        }
        self.setattr_checked(caller, ino, set, by_handle).await
    }

    /// The same the short way, of what is inline, without its size; `None` when nothing was done, and it has to be done
    /// the other way.
    pub fn setattr_quickly(
        &self,
        caller: &Caller,
        ino: Ino,
        set: &SetAttr,
    ) -> Result<Option<Attr>> {
        let setting = || {
            let named = set.mode.is_some()
                || set.uid.is_some()
                || set.gid.is_some()
                || set.atime.is_some()
                || set.mtime.is_some();
            if !named || set.size.is_some() || !has_whole_times(set) {
                return None;
            }
            let mut quick = self.quick(caller)?;
            let mut inode = quick.inode(ino).filter(remove::is_plain)?;
            // One that is away has its times elsewhere.
            if is_away(&self.0, ino) {
                return None;
            }
            let before = owner(&inode);
            if set.uid.is_some() || set.gid.is_some() {
                chown(caller, &mut inode, set);
            }
            if let Some(bits) = set.mode {
                inode.mode = inode.mode & mode::TYPE | bits & mode::PERMISSIONS;
            }
            set_times(&mut inode, set, quick.now);
            inode.ctime = quick.now;
            match before == owner(&inode) {
                true => quick.put_inode(ino, &inode),
                false => quick.put_access(ino, &inode),
            }
            let mut attr = self.0.attr_of(ino, &inode, Default::default()).ok()?;
            if set.atime.is_some() {
                // Not what waits to be written of earlier reads.
                attr.atime = inode.atime;
            }
            Some((quick, attr))
        };
        let Some((quick, attr)) = setting() else {
            return Ok(None);
        };
        let done = quick.commit(&attr)?;
        if done.is_some() && set.atime.is_some() {
            self.0.times.forget(ino);
        }
        Ok(done.map(|()| attr))
    }

    pub(super) async fn setattr_checked(
        &self,
        caller: &Caller,
        ino: Ino,
        set: &SetAttr,
        by_handle: bool,
    ) -> Result<Attr> {
        // Bytes that are given away right now are not cut meanwhile.
        let entered = match set.size.is_some() && self.0.private {
            true => Some(self.enter(ino).await),
            false => None,
        };
        let set_so = self.set_attributes(caller, ino, set, by_handle).await;
        if let Some(entered) = entered {
            entered.end().await?;
        }
        set_so
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        ino: Ino,
        set: &SetAttr,
        by_handle: bool,
    ) -> Result<Attr> {
        // Cutting a file to nothing gives it a new blob.
        let fresh = if set.size == Some(0) { self.0.reserve().await? } else { None };
        let attr = loop {
            let file = match set.size {
                // What may not be is refused below.
                Some(size) if size <= FILE_BYTES_MAX => self.to_local(ino, Some(0), size).await?,
                _ if set.mtime.is_some() || set.mode.is_some() => self.lent_file(ino).await,
                _ => None,
            };
            let how = How { by_handle, fresh, file: file.as_ref() };
            let done = self
                .change_data(KIND, |mut tx| async move {
                    let attr = setattr_in(&mut tx, caller, ino, set, how).await?;
                    Ok((tx, attr))
                })
                .await;
            match done {
                Err(error) if error.is_moved() => {}
                done => break done?,
            }
        };
        if set.atime.is_some() {
            self.0.times.forget(ino);
        }
        Ok(attr)
    }
}

/// What setattr goes by.
#[derive(Clone, Copy)]
struct How<'a> {
    /// A handle that is open for writing.
    by_handle: bool,
    /// A number for a new blob.
    fresh: Option<u64>,
    /// The file in which the bytes are.
    file: Option<&'a Using>,
}

async fn setattr_in(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    set: &SetAttr,
    how: How<'_>,
) -> Result<Attr> {
    let mut inode = tx.inode(ino).await?;
    if *set == SetAttr::default() {
        return tx.attr(ino, &inode).await;
    }
    check(tx, caller, ino, &inode, set, how.by_handle).await?;
    if set.size.is_some_and(|size| size > FILE_BYTES_MAX) {
        return Err(too_big("a file has at most 2^63-1 bytes"));
    }
    // The time of a file that is not lent is that of the record.
    let elsewhere = (set.size.is_some() && is_elsewhere(&tx.session, ino, &inode))
        || (set.mtime.is_some() && is_away(&tx.session, ino));
    if elsewhere && how.file.is_none() {
        return Err(Error::moved());
    }
    let before = inode.clone();
    let mut parts = Vec::new();
    if let Some(size) = set.size {
        if size < inode.size {
            tx.frees_space();
        }
        match how.file {
            Some(file) => file.backed.truncate(size)?,
            None if tx.session.outgrows(&inode, size) => return Err(Error::moved()),
            None => blob::truncate(tx, ino, &mut inode, size, how.fresh).await?,
        }
        access::drop_privileges(&mut inode, caller);
        inode.mtime = tx.now;
        parts.push(Part::Data);
    }
    if set.uid.is_some() || set.gid.is_some() {
        chown(caller, &mut inode, set);
    }
    if let Some(bits) = set.mode {
        chmod(tx, caller, ino, &mut inode, bits).await?;
    }
    set_times(&mut inode, set, tx.now);
    if let Some(file) = how.file.filter(|_| set.mtime.is_some()) {
        file.backed.set_changed(inode.mtime)?;
    }
    inode.ctime = tx.now;
    if inode.has_sides() && (set.mtime.is_some() || set.size.is_some()) {
        // The record's time holds until the contents change again.
        let changed = tx.keys.changed(ino);
        tx.delete(&changed)?;
    }
    if owner(&before) != owner(&inode) {
        parts.push(Part::Access);
    }
    let guards = access::has_bits(inode.mode)
        && set.mode.is_some()
        && tx.session.open.way(ino) == Some(Way::Kernel);
    if let Some(file) = how.file.filter(|_| guards) {
        let guarded = file.guard_bits();
        guarded.map_err(|error| failed("look at", file.backed.blob, &error))?;
    }
    tx.put_inode(ino, &inode, &parts)?;
    let mut attr = tx.attr(ino, &inode).await?;
    if set.atime.is_some() {
        // Not what waits to be written of earlier reads.
        attr.atime = inode.atime;
    }
    Ok(attr)
}

/// What says who may do what with an inode.
fn owner(inode: &Inode) -> (u32, u32, u32, bool) {
    (inode.mode, inode.uid, inode.gid, inode.access_acl)
}

fn set_times(inode: &mut Inode, set: &SetAttr, now: Time) {
    let time = |time| match time {
        SetTime::Now => now,
        SetTime::To(time) => time,
    };
    if let Some(atime) = set.atime {
        inode.atime = time(atime);
        inode.accessed_hour = inode.accessed_hour.max(hour_of(now));
    }
    if let Some(mtime) = set.mtime {
        inode.mtime = time(mtime);
    }
}

/// Whether the times to set are times.
fn has_whole_times(set: &SetAttr) -> bool {
    let is_whole = |time| !matches!(time, SetTime::To(Time { nanos: 1_000_000_000.., .. }));
    [set.atime, set.mtime].into_iter().flatten().all(is_whole)
}

async fn check(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    inode: &Inode,
    set: &SetAttr,
    by_handle: bool,
) -> Result<()> {
    if !has_whole_times(set) {
        return Err(invalid("a time has less than 10^9 nanoseconds"));
    }
    if set.size.is_some() {
        if inode.is_dir() {
            return Err(is_directory("a directory has no size to set"));
        }
        if !inode.is_file() {
            return Err(invalid("only a file has a size to set"));
        }
        if !by_handle {
            access::check(tx, caller, ino, inode, WRITE).await?;
        }
    }
    if !caller.checked_here || caller.is_privileged() {
        return Ok(());
    }
    let owner = caller.uid == inode.uid;
    if set.uid.is_some_and(|uid| !owner || uid != inode.uid) {
        return Err(not_permitted("only the superuser gives a file away"));
    }
    let foreign = |gid: u32| !owner || (gid != inode.gid && !caller.is_in_group(gid));
    if set.gid.is_some_and(foreign) {
        return Err(not_permitted("only the owner sets the group, to one of its own"));
    }
    if set.mode.is_some() && !owner {
        return Err(not_permitted("only the owner sets the mode"));
    }
    let explicit = |time: Option<SetTime>| matches!(time, Some(SetTime::To(_)));
    if (explicit(set.atime) || explicit(set.mtime)) && !owner {
        return Err(not_permitted("only the owner sets times"));
    }
    let one_now = set.atime.is_some() != set.mtime.is_some();
    if (set.atime.is_some() || set.mtime.is_some()) && !owner && set.size.is_none() {
        if one_now {
            return Err(not_permitted("only the owner sets one of the times alone"));
        }
        if access::check(tx, caller, ino, inode, WRITE).await.is_err() {
            return Err(access_denied("only the owner, or who may write, sets the times to now"));
        }
    }
    Ok(())
}

fn chown(caller: &Caller, inode: &mut Inode, set: &SetAttr) {
    if inode.is_file() || !inode.is_dir() {
        let drops_group =
            inode.mode & 0o010 != 0 || (!caller.is_privileged() && !caller.is_in_group(inode.gid));
        if inode.mode & mode::SETGID != 0 && drops_group {
            inode.mode &= !mode::SETGID;
        }
        inode.mode &= !mode::SETUID;
    }
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
}

async fn chmod(tx: &mut Tx, caller: &Caller, ino: Ino, inode: &mut Inode, bits: u32) -> Result<()> {
    let mut bits = bits & mode::PERMISSIONS;
    let member = caller.is_privileged() || caller.is_in_group(inode.gid);
    if caller.checked_here && !member {
        bits &= !mode::SETGID;
    }
    inode.mode = inode.mode & mode::TYPE | bits;
    if inode.access_acl
        && let Some(mut acl) = access::load(tx, ino, access::ACCESS_ACL).await?
    {
        acl.chmod(bits);
        super::xattr::store(tx, ino, access::ACCESS_ACL, &acl.encode())?;
    }
    Ok(())
}
