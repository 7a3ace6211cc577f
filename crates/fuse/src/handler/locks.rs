//! Requests about locks. They come on a shared store only: otherwise the kernel keeps them itself.

use super::Handler;
use crate::reply::{Errno, Reply};
use crate::request::{Header, Lk};
use base::sync::Mutex;
use fs::{Kind, Lock, LockKind};
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Interrupts that came before their request, as another thread may be faster.
const EARLY_MAX: usize = 64;

fn kind(number: u32) -> Result<LockKind, Errno> {
    match number {
        0 => Ok(LockKind::Read),
        1 => Ok(LockKind::Write),
        2 => Ok(LockKind::Unlock),
        _ => Err(Errno::EINVAL),
    }
}

fn lock(lk: &Lk) -> Result<Lock, Errno> {
    // The kernel's last byte of any file is the greatest signed number; ours has no end.
    let end = if lk.last >= i64::MAX as u64 { u64::MAX } else { lk.last + 1 };
    Ok(Lock { kind: kind(lk.kind)?, start: lk.start, end, pid: lk.pid })
}

impl Handler {
    pub(crate) async fn getlk(&self, header: Header, lk: Lk) -> Result<Reply, Errno> {
        let handle = self.file(header, lk.handle).await?;
        let found = self.session.getlk(handle, lk.owner, lock(&lk)?).await?;
        Ok(Reply::Lock(found))
    }

    pub(crate) async fn setlk(&self, header: Header, lk: Lk, wait: bool) -> Result<Reply, Errno> {
        let interrupt = wait.then(|| self.waiters.begin(header.unique));
        let done = self.setlk_until(header, lk, interrupt.as_deref()).await;
        if wait {
            self.waiters.end(header.unique);
        }
        done
    }

    async fn setlk_until(
        &self,
        header: Header,
        lk: Lk,
        interrupt: Option<&Interrupt>,
    ) -> Result<Reply, Errno> {
        let (handle, wanted) = (self.file(header, lk.handle).await?, lock(&lk)?);
        loop {
            let tried = match lk.flock {
                true => self.session.flock(handle, lk.owner, wanted.kind, false).await,
                false => self.session.setlk(handle, lk.owner, wanted, false).await,
            };
            match (tried, interrupt) {
                (Ok(()), _) => return Ok(Reply::Done),
                (Err(error), Some(interrupt)) if error.kind() == Kind::WouldBlock => {
                    // Only waiting is given up, never a lock that is being taken.
                    let freed = self.session.lock_freed(handle, lk.owner, wanted, lk.flock);
                    interrupt.or(freed).await.ok_or(Errno::EINTR)??;
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
    }
}

/// Those who wait for a lock, by the number of their request.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    now: BTreeMap<u64, Arc<Interrupt>>,
    early: VecDeque<u64>,
    /// The connection has ended: who comes now need not begin to wait.
    over: bool,
}

impl Waiters {
    fn begin(&self, unique: u64) -> Arc<Interrupt> {
        let interrupt = Arc::new(Interrupt::default());
        let mut waiting = self.0.lock();
        waiting.now.insert(unique, Arc::clone(&interrupt));
        if let Some(at) = waiting.early.iter().position(|early| *early == unique) {
            waiting.early.remove(at);
            interrupt.fire();
        }
        if waiting.over {
            interrupt.fire();
        }
        interrupt
    }

    fn end(&self, unique: u64) {
        self.0.lock().now.remove(&unique);
    }

    /// Nobody wants an answer any more, also not those whose requests were heard and wait for a thread
    /// still.
    pub(crate) fn end_all(&self) {
        let mut waiting = self.0.lock();
        waiting.over = true;
        for interrupt in waiting.now.values() {
            interrupt.fire();
        }
    }

    /// The one who made a request wants no answer any more. Requests that do not wait are answered
    /// soon anyway.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut waiting = self.0.lock();
        match waiting.now.get(&unique) {
            Some(interrupt) => interrupt.fire(),
            None => {
                if waiting.early.len() == EARLY_MAX {
                    waiting.early.pop_front();
                }
                waiting.early.push_back(unique);
            }
        }
    }
}

/// Whether a request was interrupted.
#[derive(Debug, Default)]
struct Interrupt(Mutex<Fired>);

#[derive(Debug, Default)]
struct Fired {
    fired: bool,
    waker: Option<Waker>,
}

impl Interrupt {
    fn fire(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.fired = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What `future` gives, or `None` when the interrupt comes first.
    async fn or<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            {
                let mut state = self.0.lock();
                if state.fired {
                    return Poll::Ready(None);
                }
                state.waker = Some(context.waker().clone());
            }
            future.as_mut().poll(context).map(Some)
        })
        .await
    }
}
