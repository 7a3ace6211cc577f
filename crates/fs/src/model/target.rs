//! What actions are done to: the core, or a model in its place, by which the tests test themselves.

use super::action::{Action, Answer};
use super::tree::{Model, is_dots};
use crate::types::{Attr, DirEntry, DirHandle, Time};
use crate::{Error, Kind, Result, Session};
use base::sync::Mutex;
use base::{Clock, SimClock};
use bytes::Bytes;

/// A listing that goes on for so many pages does not end.
const PAGES_MAX: usize = 100_000;

/// Somebody who does actions.
pub trait Target: Clone + Send + Sync + 'static {
    /// Does one. Inodes and handles in it are the target's own.
    fn apply(&self, action: &Action) -> impl Future<Output = Result<Answer>> + Send;

    /// Does one round of background work; whether there was nothing to do.
    fn maintain(&self) -> impl Future<Output = Result<bool>> + Send;

    /// Whether reading may change the access time.
    fn keeps_atime(&self) -> bool;
}

impl Target for Session {
    async fn apply(&self, action: &Action) -> Result<Answer> {
        Ok(plain(self, act(self, action).await?))
    }

    async fn maintain(&self) -> Result<bool> {
        let settled = self.settle(true).await?;
        let quiet = Session::maintain(self).await?.is_quiet();
        Ok(quiet && settled.settled + settled.recycled == 0)
    }

    fn keeps_atime(&self) -> bool {
        self.0.options.atime != crate::session::Atime::Off
    }
}

/// Takes away what depends on where a file's bytes are, and on how a home keeps them.
pub(super) fn plain(session: &Session, mut answer: Answer) -> Answer {
    let plain = |attr: &mut Attr| {
        attr.live = false;
        if session.0.local.is_some() {
            attr.blocks = 0;
        }
    };
    match &mut answer {
        Answer::Attr(attr) | Answer::Created(attr, _) => plain(attr),
        Answer::Entries(entries) => {
            entries.iter_mut().filter_map(|(_, attr)| attr.as_mut()).for_each(plain);
        }
        _ => {}
    }
    answer
}

async fn act(session: &Session, action: &Action) -> Result<Answer> {
    use Action as A;
    Ok(match action {
        A::Lookup { caller, parent, name } => {
            Answer::Attr(session.lookup(caller, *parent, name).await?)
        }
        A::GetAttr { ino } => Answer::Attr(session.getattr(*ino).await?),
        A::SetAttr { caller, ino, set, handle } => {
            Answer::Attr(session.setattr(caller, *ino, set, *handle).await?)
        }
        A::Access { caller, ino, want } => done(session.access(caller, *ino, *want).await?),
        A::Mknod { caller, parent, name, mode, rdev } => {
            Answer::Attr(session.mknod(caller, *parent, name, *mode, *rdev).await?)
        }
        A::Mkdir { caller, parent, name, mode } => {
            Answer::Attr(session.mkdir(caller, *parent, name, *mode).await?)
        }
        A::Symlink { caller, parent, name, target } => {
            Answer::Attr(session.symlink(caller, *parent, name, target).await?)
        }
        A::Readlink { ino } => Answer::Bytes(session.readlink(*ino).await?),
        A::Link { caller, ino, parent, name } => {
            Answer::Attr(session.link(caller, *ino, *parent, name).await?)
        }
        A::Unlink { caller, parent, name } => done(session.unlink(caller, *parent, name).await?),
        A::Rmdir { caller, parent, name } => done(session.rmdir(caller, *parent, name).await?),
        A::Rename { caller, parent, name, new_parent, new_name, flags } => {
            done(session.rename(caller, *parent, name, *new_parent, new_name, *flags).await?)
        }
        A::Create { caller, parent, name, mode, flags } => {
            let (attr, handle) = session.create(caller, *parent, name, *mode, *flags).await?;
            Answer::Created(attr, handle)
        }
        A::Tmpfile { caller, parent, mode, flags } => {
            let (attr, handle) = session.tmpfile(caller, *parent, *mode, *flags).await?;
            Answer::Created(attr, handle)
        }
        A::Open { caller, ino, flags } => Answer::Opened(session.open(caller, *ino, *flags).await?),
        A::Read { handle, offset, len } => {
            Answer::Bytes(session.read(*handle, *offset, *len).await?)
        }
        A::Write { caller, handle, offset, data } => {
            let written = session.write(caller, *handle, *offset, &data.bytes()).await?;
            Answer::Count(written as u64)
        }
        A::Fallocate { caller, handle, what, offset, len } => {
            done(session.fallocate(caller, *handle, *what, *offset, *len).await?)
        }
        A::Seek { handle, offset, whence } => {
            Answer::Count(session.seek(*handle, *offset, *whence).await?)
        }
        A::CopyRange { caller, from, to, len } => Answer::Count(
            session
                .copy_range(caller, from.handle, from.offset, to.handle, to.offset, *len)
                .await?,
        ),
        A::Flush { handle } => done(session.flush(*handle).await?),
        A::Fsync { handle } => done(session.fsync(*handle).await?),
        A::Datasync { handle } => done(session.datasync(*handle).await?),
        A::Release { handle } => done(session.release(*handle).await?),
        A::Opendir { caller, ino } => Answer::OpenedDir(session.opendir(caller, *ino).await?),
        A::Readdir { handle, limit, plus } => {
            Answer::Entries(list(session, *handle, *limit, *plus).await?)
        }
        A::ReaddirPage { handle, cookie, limit } => {
            Answer::Entries(page(session, *handle, *cookie, *limit, false).await?)
        }
        A::Fsyncdir { handle } => done(session.fsyncdir(*handle).await?),
        A::Releasedir { handle } => done(session.releasedir(*handle).await?),
        A::GetXattr { caller, ino, name } => {
            Answer::Bytes(session.getxattr(caller, *ino, name).await?)
        }
        A::SetXattr { caller, ino, name, value, how } => {
            done(session.setxattr(caller, *ino, name, &value.bytes(), *how).await?)
        }
        A::ListXattr { caller, ino } => Answer::Names(session.listxattr(caller, *ino).await?),
        A::RemoveXattr { caller, ino, name } => {
            done(session.removexattr(caller, *ino, name).await?)
        }
        A::StatFs => {
            let stat = session.statfs().await?;
            let sound = stat.block_bytes > 0
                && stat.blocks_free <= stat.blocks
                && stat.files_free <= stat.files
                && stat.name_bytes_max == 255;
            match sound {
                true => Answer::Done,
                false => return Err(Error::new(Kind::Corrupt, format!("{stat:?}"))),
            }
        }
        A::Maintain => {
            // By chance all is settled, or what has waited long enough.
            let all = session.0.volume.world.clock.now().subsec_nanos().is_multiple_of(2);
            session.settle(all).await?;
            session.maintain().await?;
            Answer::Done
        }
    })
}

fn done((): ()) -> Answer {
    Answer::Done
}

type Entries = Vec<(DirEntry, Option<Attr>)>;

async fn page(
    session: &Session,
    handle: DirHandle,
    cookie: u64,
    limit: usize,
    plus: bool,
) -> Result<Entries> {
    if plus {
        let entries = session.readdirplus(handle, cookie, limit).await?;
        return Ok(entries.into_iter().map(|(entry, attr)| (entry, Some(attr))).collect());
    }
    let entries = session.readdir(handle, cookie, limit).await?;
    Ok(entries.into_iter().map(|entry| (entry, None)).collect())
}

async fn list(session: &Session, handle: DirHandle, limit: usize, plus: bool) -> Result<Entries> {
    let mut all = Vec::new();
    let mut cookie = 0;
    for _ in 0..PAGES_MAX {
        let entries = page(session, handle, cookie, limit, plus).await?;
        if entries.len() > limit {
            return Err(Error::new(Kind::Corrupt, "a page is longer than its limit"));
        }
        match entries.last() {
            Some((last, _)) => cookie = last.cookie,
            None => return Ok(all),
        }
        all.extend(entries);
    }
    Err(Error::new(Kind::Corrupt, "the listing does not end"))
}

/// A model in the core's place. `wrong` may spoil an answer, to see whether it is found out.
#[derive(Clone)]
pub struct Stand {
    model: std::sync::Arc<Mutex<Model>>,
    clock: SimClock,
    wrong: Wrong,
    /// Names by their cookies, which count from 1.
    cookies: std::sync::Arc<Mutex<Vec<Bytes>>>,
}

/// How a [`Stand`] errs: it gets the model, the action and the right answer.
pub type Wrong = fn(&mut Model, &Action, Result<Answer>) -> Result<Answer>;

impl Stand {
    /// A stand-in that answers what `wrong` makes of it.
    pub fn new(clock: SimClock, wrong: Wrong) -> Self {
        let model = std::sync::Arc::new(Mutex::new(Model::empty()));
        Self { model, clock, wrong, cookies: std::sync::Arc::default() }
    }

    /// Leaves one page of a listing: what is behind the name that the cookie stands for.
    fn cut(&self, entries: &mut Entries, cookie: u64, limit: usize) {
        let rank = |name: &[u8]| (!is_dots(name), name.to_vec());
        let mut cookies = self.cookies.lock();
        if let Some(last) = (cookie as usize).checked_sub(1).and_then(|it| cookies.get(it)) {
            entries.retain(|(entry, _)| rank(&entry.name) > rank(last));
        }
        entries.truncate(limit);
        for (entry, _) in entries {
            cookies.push(entry.name.clone());
            entry.cookie = cookies.len() as u64;
        }
    }
}

impl Target for Stand {
    async fn apply(&self, action: &Action) -> Result<Answer> {
        // Others may come before and after, as with a core that waits for its store.
        base::exec::yield_now().await;
        let answer = {
            let mut model = self.model.lock();
            let told = Err(Kind::Io);
            let mut answer = action.apply(&mut model, &told, wall(&self.clock));
            if let (Action::ReaddirPage { cookie, limit, .. }, Ok(Answer::Entries(entries))) =
                (action, &mut answer)
            {
                self.cut(entries, *cookie, *limit);
            }
            let answer = answer.map_err(|kind| Error::new(kind, "as the model says"));
            (self.wrong)(&mut model, action, answer)
        };
        base::exec::yield_now().await;
        answer
    }

    async fn maintain(&self) -> Result<bool> {
        Ok(true)
    }

    fn keeps_atime(&self) -> bool {
        false
    }
}

/// The time of day as the core has it.
pub(super) fn wall(clock: &SimClock) -> Time {
    let (secs, nanos) = clock.wall();
    Time { secs, nanos }
}
