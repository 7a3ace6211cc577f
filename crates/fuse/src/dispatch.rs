//! Which handler a request is for, and whether its thread does it.

use crate::channel::Answer;
use crate::reply::{Errno, Reply};
use crate::request::{Header, Op};
use crate::server::{Server, Sitting};
use crate::wire::decode;
use std::pin::Pin;
use std::sync::Arc;

/// A request that was begun.
pub(crate) enum Begun {
    Answered(Answer),
    /// It takes long: what is to be awaited on another thread.
    Waits(Pin<Box<dyn Future<Output = Answer> + Send>>),
    /// It is answered when what is in the store by now survives the loss of power.
    Syncs,
}

impl Server {
    /// Does a request, or says what is to be done. `data` is what the place of a write's bytes counts in.
    pub(crate) fn dispatch(
        self: &Arc<Self>,
        sitting: &Sitting<'_>,
        header: Header,
        op: Op<'_>,
        data: &[u8],
    ) -> Begun {
        /// Runs a call of the handler: on this thread, or `slow` on the pool.
        macro_rules! run {
            (slow $call:ident($($argument:expr),*)) => {{
                let server = Arc::clone(self);
                Begun::Waits(Box::pin(async move { server.handler.$call($($argument),*).await }))
            }};
            ($call:ident($($argument:expr),*)) => {
                self.run(sitting, || self.handler.$call($($argument),*))
            };
        }
        match op {
            Op::Lookup { name } => run!(lookup(header, name)),
            Op::Forget { inodes } => match self.handler.cares_for_forgets() {
                false => Begun::Answered(Ok(Reply::Silence)),
                true => {
                    let inodes: Vec<u64> = decode::forgotten(inodes).collect();
                    run!(forget(&inodes))
                }
            },
            Op::Getattr => run!(getattr(header)),
            Op::Statx => run!(statx(header)),
            Op::Setattr(what) => run!(setattr(header, what)),
            Op::Readlink => run!(readlink(header)),
            Op::Symlink { name, target } => run!(symlink(header, name, target)),
            Op::Mknod { name, mode, rdev, umask } => run!(mknod(header, name, mode, rdev, umask)),
            Op::Mkdir { name, mode, umask } => run!(mkdir(header, name, mode, umask)),
            Op::Unlink { name } => run!(unlink(header, name)),
            Op::Rmdir { name } => run!(rmdir(header, name)),
            Op::Rename { name, new_parent, new_name, flags } => {
                run!(rename(header, name, new_parent, new_name, flags))
            }
            Op::Link { ino, name } => run!(link(header, ino, name)),
            Op::Open { flags, kill } => run!(open(header, flags, kill)),
            Op::Create { name, flags, mode, umask } => {
                run!(create(header, name, flags, mode, umask))
            }
            Op::Tmpfile { flags, mode, umask } => run!(tmpfile(header, flags, mode, umask)),
            Op::Read { handle, offset, len } => run!(read(header, handle, offset, len)),
            Op::Statfs => run!(statfs()),
            Op::Release { handle, owner, flock } => run!(release(handle, owner, flock)),
            Op::Fsync { handle, .. } if self.handler.is_all_stored(handle) => Begun::Syncs,
            Op::Fsync { handle, data_only } => run!(slow fsync(header, handle, data_only)),
            Op::Flush { handle, owner } => run!(flush(header, handle, owner)),
            Op::Setxattr { name, value, flags, kill_group } => {
                run!(setxattr(header, name, value, flags, kill_group))
            }
            Op::Getxattr { name, len } => run!(getxattr(header, name, len)),
            Op::Listxattr { len } => run!(listxattr(header, len)),
            Op::Removexattr { name } => run!(removexattr(header, name)),
            Op::Opendir => run!(opendir(header)),
            Op::Readdir { handle, cookie, len } => run!(readdir(header, handle, cookie, len)),
            Op::Readdirplus { handle, cookie, len } => {
                run!(readdirplus(header, handle, cookie, len))
            }
            Op::Releasedir { handle } => run!(releasedir(handle)),
            Op::Fsyncdir { .. } if self.handler.session.syncs_for_others() => Begun::Syncs,
            Op::Fsyncdir { handle } => run!(slow fsyncdir(header, handle)),
            Op::Getlk(lk) => run!(getlk(header, lk)),
            // Others may have the lock for long.
            Op::Setlk { lk, wait: true } => run!(slow setlk(header, lk, true)),
            Op::Setlk { lk, wait: false } => run!(setlk(header, lk, false)),
            Op::Access { mask } => run!(access(header, mask)),
            Op::Interrupt { unique } => {
                self.handler.waiters.interrupt(unique);
                Begun::Answered(Ok(Reply::Silence))
            }
            Op::Destroy => Begun::Answered(Ok(Reply::Done)),
            Op::Fallocate { handle, offset, len, mode } => {
                run!(slow fallocate(header, handle, offset, len, mode))
            }
            Op::Lseek { handle, offset, whence } => run!(lseek(header, handle, offset, whence)),
            Op::CopyRange(what) => run!(slow copy_range(header, what)),
            Op::Syncfs => run!(slow syncfs()),
            Op::Write(write) => run!(write(header, &write, data)),
            Op::Refused => Begun::Answered(Err(Errno::ENOSYS)),
        }
    }
}
