//! The threads that face the kernel: each reads a request, polls its future once, and answers in
//! place when it is ready, which with an embedded store it is. What has to wait goes to a pool.

use crate::device::Device;
use crate::handler::Handler;
use crate::reply::{Errno, Reply};
use crate::request::{Header, Op};
use crate::slots::Slots;
use crate::stats::Stats;
use crate::wire::decode::{self, Envelope};
use crate::wire::encode;
use crate::wire::numbers::Opcode;
use base::Clock;
use base::pool::Pool;
use base::sync::{Condvar, Mutex};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The most that one write brings.
pub(crate) const WRITE_BYTES_MAX: usize = 1 << 20;
/// A request with such a write: room for its headers too.
pub(crate) const REQUEST_BYTES_MAX: usize = WRITE_BYTES_MAX + 4096;
/// Buffers that are kept for the next requests.
const SPARE_BUFFERS: usize = 16;

/// A connection to the kernel, and what is needed to serve it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) handler: Handler,
    pub(crate) stats: Stats,
    pub(crate) clock: Arc<dyn Clock>,
    /// For what waits, or would hold up the thread that faces the kernel.
    pub(crate) pool: Pool,
    pub(crate) in_flight: AtomicU64,
    slots: Slots,
    buffers: Mutex<Vec<Vec<u8>>>,
    threads: Mutex<usize>,
    ended: Condvar,
}

impl Server {
    pub(crate) fn new(handler: Handler, clock: Arc<dyn Clock>, pool: Pool) -> Self {
        Self {
            handler,
            stats: Stats::default(),
            clock,
            pool,
            in_flight: AtomicU64::new(0),
            slots: Slots::default(),
            buffers: Mutex::default(),
            threads: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// One thread more is about to serve.
    pub(crate) fn enter(&self) {
        *self.threads.lock() += 1;
    }

    /// A thread serves no more.
    pub(crate) fn leave(&self) {
        *self.threads.lock() -= 1;
        self.ended.notify_all();
    }

    /// Waits until no thread serves and nothing that was asked is under way.
    pub(crate) fn wait(&self) {
        let mut threads = self.threads.lock();
        while *threads > 0 {
            threads = self.ended.wait(threads);
        }
        drop(threads);
        // Nobody wants the locks any more that are waited for.
        self.handler.waiters.interrupt_all();
        self.pool.wait();
        base::exec::block_on(self.handler.forget_all());
    }

    /// Whether a thread serves.
    pub(crate) fn is_served(&self) -> bool {
        *self.threads.lock() > 0
    }

    /// Reads and answers requests until the connection is over.
    pub(crate) fn serve(self: &Arc<Self>, device: &Arc<Device>) -> io::Result<()> {
        loop {
            let spare = self.buffers.lock().pop();
            // Touched, so that the memory is there: into a process that is being killed the kernel brings none, and
            // a request that it cannot hand over it answers with EIO itself.
            let mut buffer = spare.unwrap_or_else(|| vec![0xff; REQUEST_BYTES_MAX]);
            let Some(len) = device.receive(&mut buffer)? else {
                return Ok(());
            };
            // A panic is a bug, but the requests of others go on; its own is answered by its ticket.
            let begun = AssertUnwindSafe(|| self.begin(device, buffer, len));
            if std::panic::catch_unwind(begun).is_err() {
                tracing::error!("a request ended with a panic; it was answered with EIO");
            }
        }
    }

    fn put_back(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers.lock();
        if buffers.len() < SPARE_BUFFERS {
            buffers.push(buffer);
        }
    }

    /// Begins the request in the first `len` bytes of `buffer`.
    fn begin(self: &Arc<Self>, device: &Arc<Device>, buffer: Vec<u8>, len: usize) {
        let bytes = buffer.get(..len).unwrap_or_default();
        let Ok(mut envelope) = decode::envelope(bytes) else {
            tracing::error!(len, "the kernel sent what is no request");
            return self.put_back(buffer);
        };
        if self.handler.survives && envelope.opcode.is_some_and(Opcode::is_done_once) {
            envelope.header.slot = self.slots.take();
        }
        let ticket = Ticket::new(self, device, &envelope);
        match decode::op(bytes, &envelope) {
            Ok(Op::Write(write)) => {
                // The bytes go along with their request: they are not copied.
                let (server, header) = (Arc::clone(self), envelope.header);
                self.run(ticket, false, async move {
                    let done = server.handler.write(header, &write, &buffer).await;
                    server.put_back(buffer);
                    done
                });
            }
            Ok(op) => {
                self.dispatch(ticket, envelope.header, op);
                self.put_back(buffer);
            }
            Err(decode::Malformed) => {
                tracing::error!(opcode = ?envelope.opcode, len, "the kernel sent a broken request");
                ticket.answer(Err(Errno::EIO));
                self.put_back(buffer);
            }
        }
    }

    /// Begins a request; what it borrows is copied, as it may outlive the buffer.
    fn dispatch(self: &Arc<Self>, ticket: Ticket, header: Header, op: Op<'_>) {
        let server = Arc::clone(self);
        /// Runs a call of the handler: on this thread, or `slow` on the pool.
        macro_rules! run {
            ($call:ident($($argument:expr),*)) => {
                self.run(ticket, false, async move { server.handler.$call($($argument),*).await })
            };
            (slow $call:ident($($argument:expr),*)) => {
                self.run(ticket, true, async move { server.handler.$call($($argument),*).await })
            };
        }
        match op {
            Op::Lookup { name } => {
                let name = Box::<[u8]>::from(name);
                run!(lookup(header, &name))
            }
            Op::Forget { inodes } => match self.handler.cares_for_forgets() {
                false => ticket.answer(Ok(Reply::Silence)),
                true => {
                    let inodes: Vec<u64> = decode::forgotten(inodes).collect();
                    run!(forget(&inodes))
                }
            },
            Op::Getattr => run!(getattr(header)),
            Op::Statx => run!(statx(header)),
            Op::Setattr(what) => run!(setattr(header, what)),
            Op::Readlink => run!(readlink(header)),
            Op::Symlink { name, target } => {
                let (name, target) = (Box::<[u8]>::from(name), Box::<[u8]>::from(target));
                run!(symlink(header, &name, &target))
            }
            Op::Mknod { name, mode, rdev, umask } => {
                let name = Box::<[u8]>::from(name);
                run!(mknod(header, &name, mode, rdev, umask))
            }
            Op::Mkdir { name, mode, umask } => {
                let name = Box::<[u8]>::from(name);
                run!(mkdir(header, &name, mode, umask))
            }
            Op::Unlink { name } => {
                let name = Box::<[u8]>::from(name);
                run!(unlink(header, &name))
            }
            Op::Rmdir { name } => {
                let name = Box::<[u8]>::from(name);
                run!(rmdir(header, &name))
            }
            Op::Rename { name, new_parent, new_name, flags } => {
                let (name, new_name) = (Box::<[u8]>::from(name), Box::<[u8]>::from(new_name));
                run!(rename(header, &name, new_parent, &new_name, flags))
            }
            Op::Link { ino, name } => {
                let name = Box::<[u8]>::from(name);
                run!(link(header, ino, &name))
            }
            Op::Open { flags, kill } => run!(open(header, flags, kill)),
            Op::Create { name, flags, mode, umask } => {
                let name = Box::<[u8]>::from(name);
                run!(create(header, &name, flags, mode, umask))
            }
            Op::Tmpfile { flags, mode, umask } => run!(tmpfile(header, flags, mode, umask)),
            Op::Read { handle, offset, len } => run!(read(header, handle, offset, len)),
            Op::Statfs => run!(statfs()),
            Op::Release { handle, owner, flock } => run!(release(handle, owner, flock)),
            Op::Fsync { handle, data_only } => run!(slow fsync(header, handle, data_only)),
            Op::Flush { handle, owner } => run!(flush(header, handle, owner)),
            Op::Setxattr { name, value, flags, kill_group } => {
                let (name, value) = (Box::<[u8]>::from(name), Box::<[u8]>::from(value));
                run!(setxattr(header, &name, &value, flags, kill_group))
            }
            Op::Getxattr { name, len } => {
                let name = Box::<[u8]>::from(name);
                run!(getxattr(header, &name, len))
            }
            Op::Listxattr { len } => run!(listxattr(header, len)),
            Op::Removexattr { name } => {
                let name = Box::<[u8]>::from(name);
                run!(removexattr(header, &name))
            }
            Op::Opendir => run!(opendir(header)),
            Op::Readdir { handle, cookie, len } => run!(readdir(header, handle, cookie, len)),
            Op::Readdirplus { handle, cookie, len } => {
                run!(readdirplus(header, handle, cookie, len))
            }
            Op::Releasedir { handle } => run!(releasedir(handle)),
            Op::Fsyncdir { handle } => run!(slow fsyncdir(header, handle)),
            Op::Getlk(lk) => run!(getlk(header, lk)),
            Op::Setlk { lk, wait } => run!(setlk(header, lk, wait)),
            Op::Access { mask } => run!(access(header, mask)),
            Op::Interrupt { unique } => {
                self.handler.waiters.interrupt(unique);
                ticket.answer(Ok(Reply::Silence));
            }
            Op::Destroy => ticket.answer(Ok(Reply::Done)),
            Op::Fallocate { handle, offset, len, mode } => {
                run!(slow fallocate(header, handle, offset, len, mode))
            }
            Op::Lseek { handle, offset, whence } => run!(lseek(header, handle, offset, whence)),
            Op::CopyRange(what) => run!(slow copy_range(header, what)),
            Op::Syncfs => run!(slow syncfs()),
            // Writes are begun where their buffer is.
            Op::Write(_) => ticket.answer(Err(Errno::EIO)),
            Op::Refused => ticket.answer(Err(Errno::ENOSYS)),
        }
    }

    /// Polls a request once, and answers it if that was enough. What waits, or is `slow`, goes to
    /// the pool.
    fn run<F>(&self, ticket: Ticket, slow: bool, future: F)
    where
        F: Future<Output = Result<Reply, Errno>> + Send + 'static,
    {
        let mut task = Box::pin(async move {
            let answer = future.await;
            ticket.answer(answer);
        });
        if !slow {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(()) = task.as_mut().poll(&mut context) {
                return;
            }
        }
        if let Err((error, task)) = self.pool.spawn(task) {
            tracing::warn!(%error, "no thread can be started; a request is waited for in place");
            base::exec::block_on(task);
        }
    }
}

/// A request that waits for its answer. Dropped without one, it is answered with EIO.
#[derive(Debug)]
struct Ticket {
    server: Arc<Server>,
    device: Arc<Device>,
    header: Header,
    opcode: Option<Opcode>,
    begun: Duration,
    answered: bool,
}

impl Ticket {
    fn new(server: &Arc<Server>, device: &Arc<Device>, envelope: &Envelope) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            server: Arc::clone(server),
            device: Arc::clone(device),
            header: envelope.header,
            opcode: envelope.opcode,
            begun: server.clock.now(),
            answered: false,
        }
    }

    fn answer(mut self, answer: Result<Reply, Errno>) {
        self.send(&answer);
    }

    fn send(&mut self, answer: &Result<Reply, Errno>) {
        self.answered = true;
        if let Some(opcode) = self.opcode {
            let took = self.server.clock.now().saturating_sub(self.begun);
            let bytes = match answer {
                Ok(Reply::Bytes(bytes)) if opcode == Opcode::Read => bytes.len() as u64,
                Ok(Reply::Written(len)) => u64::from(*len),
                Ok(Reply::Copied(len)) => *len,
                _ => 0,
            };
            let failed = matches!(answer, Err(_) | Ok(Reply::NoEntry { .. }));
            self.server.stats.note(opcode, took, failed, bytes);
        }
        // Counted before the answer: who has it must not find itself in flight.
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
        let Some((mut fixed, payload)) = encode::reply(self.header.unique, answer) else {
            return;
        };
        if let Err(error) = self.device.send(fixed.finish(payload.len()), payload) {
            tracing::error!(%error, opcode = ?self.opcode, "the kernel did not take an answer");
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.answered {
            tracing::error!(opcode = ?self.opcode, "a request was given up: answered with EIO");
            self.send(&Err(Errno::EIO));
        }
        // Not before the answer is there: until then the request may be asked again.
        if self.header.slot != 0 {
            self.server.slots.give_back(self.header.slot);
        }
    }
}
