//! The threads that face the kernel: each takes a request, polls its future once, and answers in place when
//! that was enough, which with an embedded store it is. Who has to wait lets another thread hear the kernel.

use crate::channel::{Answer, Channel, Parcel};
use crate::dispatch::Begun;
use crate::handler::Handler;
use crate::reply::{Errno, Reply};
use crate::request::Header;
use crate::seat::{Left, Seat};
use crate::slots::Slots;
use crate::stats::Stats;
use crate::ticket::{Ticket, UnderWay};
use crate::uring;
use crate::wire::numbers::Opcode;
use base::pool::Pool;
use base::sync::{Condvar, Mutex};
use base::{Clock, Spawn};
use std::cell::Cell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
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
    /// For what would hold up the thread that faces the kernel.
    pub(crate) pool: Pool,
    pub(crate) in_flight: AtomicU64,
    spawn: Arc<dyn Spawn>,
    slots: Slots,
    syncs: Arc<UnderWay>,
    buffers: Mutex<Vec<Vec<u8>>>,
    threads: Mutex<usize>,
    ended: Condvar,
}

/// What is known of a request until it is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) header: Header,
    pub(crate) opcode: Option<Opcode>,
    begun: Duration,
}

/// The seat of the thread that serves a request, and whether it still has it.
#[derive(Debug)]
pub(crate) struct Sitting<'a> {
    seat: &'a Arc<Seat>,
    sits: Cell<bool>,
    /// When it was last done with a request.
    done: Cell<Duration>,
}

impl Server {
    pub(crate) fn new(
        handler: Handler,
        clock: Arc<dyn Clock>,
        pool: Pool,
        spawn: Arc<dyn Spawn>,
    ) -> Self {
        Self {
            handler,
            stats: Stats::default(),
            clock,
            pool,
            in_flight: AtomicU64::new(0),
            spawn,
            slots: Slots::default(),
            syncs: Arc::default(),
            buffers: Mutex::default(),
            threads: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Starts a thread at a seat. The `first` one tells whether the kernel has taken what a ring gives it.
    pub(crate) fn start(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        first: Option<Box<dyn FnOnce(io::Result<()>) + Send>>,
    ) -> io::Result<()> {
        let (serving, taken) = (Arc::clone(self), Arc::clone(seat));
        *self.threads.lock() += 1;
        let body = move || {
            let opened = match (&taken.channel, &first) {
                (Channel::Ring(ring), first) => {
                    uring::stay_on(ring.queue().into());
                    if first.is_some() { ring.open() } else { Ok(()) }
                }
                (Channel::Device(_) | Channel::Beside(_), _) => Ok(()),
            };
            let is_open = opened.is_ok();
            if let Some(tell) = first {
                tell(opened);
            }
            if is_open {
                serving.serve(&taken);
            }
            serving.leave();
        };
        let started = self.spawn.spawn("seamount-fuse", Box::new(body));
        if started.is_err() {
            self.leave();
        }
        started.map(|_| ())
    }

    /// A thread serves no more.
    fn leave(&self) {
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
        // The last time at the latest: a thread that could not hear the kernel has not said so.
        self.handler.waiters.end_all();
        self.pool.wait();
        self.syncs.wait();
        base::exec::block_on(self.handler.forget_all());
    }

    /// Whether a thread serves.
    pub(crate) fn is_served(&self) -> bool {
        *self.threads.lock() > 0
    }

    /// Takes and answers requests, when it is this thread's turn, until the connection is over.
    fn serve(self: &Arc<Self>, seat: &Arc<Seat>) {
        while seat.take() {
            let (sits, done) = (Cell::new(true), Cell::new(self.clock.now()));
            let sitting = Sitting { seat, sits, done };
            let mut spare = None;
            while sitting.sits.get() {
                let buffer = || spare.take().unwrap_or_else(|| self.buffer());
                match seat.channel.receive(buffer) {
                    Ok(Some(parcel)) => spare = self.serve_one(&sitting, parcel),
                    Ok(None) => {
                        // Nobody wants the locks any more that are waited for. Said here, as one who waits in
                        // place, for want of a thread, is a thread that `wait` waits for.
                        self.handler.waiters.end_all();
                        return seat.end();
                    }
                    Err(error) => {
                        tracing::error!(%error, "a thread cannot hear the kernel any more");
                        return seat.end();
                    }
                }
            }
            self.put_back(spare);
        }
    }

    fn buffer(&self) -> Vec<u8> {
        let spare = self.buffers.lock().pop();
        // Touched, so that the memory is there: into a process that is being killed the kernel brings none, and
        // a request that it cannot hand over it answers with EIO itself.
        spare.unwrap_or_else(|| vec![0xff; REQUEST_BYTES_MAX])
    }

    pub(crate) fn put_back(&self, buffer: Option<Vec<u8>>) {
        let mut buffers = self.buffers.lock();
        if buffers.len() < SPARE_BUFFERS {
            buffers.extend(buffer);
        }
    }

    /// Serves a request. Returns its buffer, unless that is needed still.
    fn serve_one(self: &Arc<Self>, sitting: &Sitting<'_>, parcel: Parcel) -> Option<Vec<u8>> {
        let Ok(mut envelope) = parcel.envelope() else {
            tracing::error!("the kernel sent what is no request");
            return self.refuse(sitting, parcel);
        };
        if self.handler.survives && envelope.opcode.is_some_and(Opcode::is_done_once) {
            envelope.header.slot = self.slots.take();
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let (header, opcode) = (envelope.header, envelope.opcode);
        let asked = Asked { header, opcode, begun: self.clock.now() };
        let idle = asked.begun.saturating_sub(sitting.done.replace(asked.begun));
        if let Err(error) = sitting.seat.channel.heard_after(idle) {
            tracing::warn!(%error, "the kernel is waited for as before");
        }
        let begun = match parcel.op(&envelope) {
            Ok(op) => {
                // A panic is a bug, but the requests of others go on.
                let data = parcel.data();
                let begin = AssertUnwindSafe(|| self.dispatch(sitting, header, op, data));
                std::panic::catch_unwind(begin).unwrap_or_else(|_| {
                    tracing::error!("a request ended with a panic; it is answered with EIO");
                    Begun::Answered(Err(Errno::EIO))
                })
            }
            Err(_) => {
                tracing::error!(?opcode, "the kernel sent a broken request");
                Begun::Answered(Err(Errno::EIO))
            }
        };
        match begun {
            Begun::Answered(answer) => {
                let took = self.count(&asked, &answer);
                sitting.done.set(asked.begun + took);
                self.send(sitting.seat, sitting.sits.get(), parcel, &asked, &answer)
            }
            Begun::Syncs => {
                let (ticket, spare) = self.ticket(sitting, asked, parcel);
                let under_way = self.syncs.begin();
                self.handler.session.sync_then(move |done| {
                    ticket.answer(&done.map(|()| Reply::Done).map_err(Errno::from));
                    // Behind the ticket, and so behind its server: whoever waits for this may drop all the rest, and
                    // the thread that this runs on must not be the one that ends the store.
                    drop(under_way);
                });
                spare
            }
            Begun::Waits(future) => {
                let (ticket, spare) = self.ticket(sitting, asked, parcel);
                let task = Box::pin(async move { ticket.answer(&future.await) });
                if let Err((error, task)) = self.pool.spawn(task) {
                    tracing::warn!(%error, "no thread can be started; a request is waited for in place");
                    base::exec::block_on(task);
                }
                spare
            }
        }
    }

    /// What answers a request later, and the buffer that is not needed for that.
    fn ticket(
        self: &Arc<Self>,
        sitting: &Sitting<'_>,
        asked: Asked,
        parcel: Parcel,
    ) -> (Ticket, Option<Vec<u8>>) {
        let (parcel, spare) = parcel.emptied();
        let (server, seat) = (Arc::clone(self), Arc::clone(sitting.seat));
        (Ticket { server, seat, asked, parcel: Some(parcel) }, spare)
    }

    /// What is no request has no number, and from the device nobody waits for it.
    fn refuse(&self, sitting: &Sitting<'_>, parcel: Parcel) -> Option<Vec<u8>> {
        let Parcel::Entry(entry) = &parcel else {
            return parcel.emptied().1;
        };
        let (unique, listens) = (entry.commit_id(), sitting.sits.get());
        let sent = sitting.seat.channel.send(parcel, unique, &Err(Errno::EIO), listens);
        sent.unwrap_or_else(|error| {
            tracing::error!(%error, "the kernel did not take an answer");
            None
        })
    }

    /// Polls a request once; while it waits, another thread hears the kernel. What it borrows stays where it
    /// is, and nothing is allocated.
    #[inline(never)]
    pub(crate) fn run<F>(
        self: &Arc<Self>,
        sitting: &Sitting<'_>,
        begin: impl FnOnce() -> F,
    ) -> Begun
    where
        F: Future<Output = Answer>,
    {
        let mut future = pin!(begin());
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
            return Begun::Answered(answer);
        }
        self.hand_over(sitting);
        Begun::Answered(base::exec::block_on(future))
    }

    #[cold]
    fn hand_over(self: &Arc<Self>, sitting: &Sitting<'_>) {
        let left = match sitting.seat.leave() {
            Left::ToAnother => true,
            Left::Kept => false,
            Left::ToNew => match self.start(sitting.seat, None) {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!(%error, "no thread can be started; a request is waited for in place");
                    !sitting.seat.stay()
                }
            },
        };
        sitting.sits.set(!left);
    }

    /// Counts a request that is about to be answered. Returns how long it took.
    fn count(&self, asked: &Asked, answer: &Answer) -> Duration {
        let took = self.clock.now().saturating_sub(asked.begun);
        if let Some(opcode) = asked.opcode {
            let bytes = match answer {
                Ok(Reply::Bytes(bytes)) if opcode == Opcode::Read => bytes.len() as u64,
                Ok(Reply::Written(len)) => u64::from(*len),
                Ok(Reply::Copied(len)) => *len,
                _ => 0,
            };
            let failed = matches!(answer, Err(_) | Ok(Reply::NoEntry { .. }));
            self.stats.note(opcode, took, failed, bytes);
        }
        took
    }

    /// Counts and answers a request from another thread than the one that heard it. Returns its buffer.
    pub(crate) fn answer(
        &self,
        seat: &Seat,
        parcel: Parcel,
        asked: &Asked,
        answer: &Answer,
    ) -> Option<Vec<u8>> {
        self.count(asked, answer);
        self.send(seat, false, parcel, asked, answer)
    }

    fn send(
        &self,
        seat: &Seat,
        listens: bool,
        parcel: Parcel,
        asked: &Asked,
        answer: &Answer,
    ) -> Option<Vec<u8>> {
        // Counted before the answer: who has it must not find itself in flight.
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let sent = seat.channel.send(parcel, asked.header.unique, answer, listens);
        // Not before the answer is there: until then the request may be asked again.
        if asked.header.slot != 0 {
            self.slots.give_back(asked.header.slot);
        }
        sent.unwrap_or_else(|error| {
            tracing::error!(%error, opcode = ?asked.opcode, "the kernel did not take an answer");
            None
        })
    }
}
