//! The ring of one queue: which entries the kernel has, and how they go there and come back.

#![allow(
    unsafe_code,
    reason = "entries go to the kernel by address; see what is said at each place"
)]

use super::entry::Entry;
use crate::device::Device;
use base::sync::Mutex;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsFd, AsRawFd};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// `FUSE_IO_URING_CMD_REGISTER`: an entry is new. `..._COMMIT_AND_FETCH`: it has a reply.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Entries that a queue has from the beginning. Only those that brought much take much memory.
const ENTRIES_FIRST: usize = 4;
/// The most that it ever has: more are added when all are here, waiting for their replies.
const ENTRIES_MAX: usize = 64;
/// What a completion tells when the connection is over.
const OVER: [i32; 3] = [
    -rustix::io::Errno::NOTCONN.raw_os_error(),
    -rustix::io::Errno::CONNABORTED.raw_os_error(),
    -rustix::io::Errno::NODEV.raw_os_error(),
];

/// One queue of a connection.
pub(crate) struct Ring {
    queue: u16,
    uring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// Both ends of the ring are used under this lock only.
    state: Mutex<State>,
    _device: Arc<Device>,
}

/// Which entries the kernel has. Its memory is given back only when it has none.
#[derive(Default)]
struct State {
    there: Vec<Option<ManuallyDrop<Entry>>>,
    /// How many of them are there, and how many are there or here.
    away: usize,
    alive: usize,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Ring {
    pub(super) fn new(queue: u16, device: Arc<Device>) -> io::Result<Self> {
        // Not for one thread alone: whoever has waited for an answer brings it.
        let uring = IoUring::builder().build(ENTRIES_MAX as u32)?;
        uring.submitter().register_files(&[device.as_fd().as_raw_fd()])?;
        Ok(Self { queue, uring, state: Mutex::default(), _device: device })
    }

    /// The number of the queue, which is that of its CPU.
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// Gives the kernel the first entries. It wakes the thread that does this when a request comes.
    pub(crate) fn open(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        for _ in 0..ENTRIES_FIRST {
            self.add(&mut state)?;
        }
        self.uring.submit()?;
        // What was taken is not told; what was refused is.
        // SAFETY: the lock of the state is held.
        match unsafe { self.uring.completion_shared() }.next() {
            Some(ended) if ended.result() < 0 => Err(io::Error::from_raw_os_error(-ended.result())),
            _ => Ok(()),
        }
    }

    /// The next request; `None` when the connection is over. Replies that wait to go, go first.
    pub(crate) fn next(&self) -> io::Result<Option<Entry>> {
        loop {
            let mut state = self.state.lock();
            // SAFETY: the lock of the state is held.
            let ended = unsafe { self.uring.completion_shared() }.next();
            if let Some(ended) = ended {
                let entry = state.come_back(ended.user_data() as usize);
                match (ended.result(), entry) {
                    (0.., Some(entry)) => return Ok(Some(entry)),
                    (error, entry) => {
                        state.alive -= usize::from(entry.is_some());
                        if !OVER.contains(&error) {
                            tracing::error!(
                                error,
                                queue = self.queue,
                                "an entry of a ring is lost"
                            );
                        } else if state.alive == 0 {
                            return Ok(None);
                        }
                        continue;
                    }
                }
            }
            if state.alive == 0 {
                return Err(io::Error::other("all entries of a ring are lost"));
            }
            if state.away == 0 && state.there.len() < ENTRIES_MAX {
                // All are here: without one more, nothing could be asked before one has its reply.
                self.add(&mut state)?;
            }
            drop(state);
            if let Err(error) = self.uring.submit_and_wait(1)
                && !matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted
                        | io::ErrorKind::WouldBlock
                        | io::ErrorKind::ResourceBusy
                )
            {
                return Err(error);
            }
        }
    }

    /// Gives an entry with a reply back. It goes with the next wait for a request, or `now`.
    pub(crate) fn give_back(&self, entry: Entry, now: bool) -> io::Result<()> {
        let command = self.command(COMMIT_AND_FETCH, entry.commit_id(), entry.index, None);
        let mut state = self.state.lock();
        state.go(entry);
        self.push(&mut state, &command)?;
        drop(state);
        if now {
            self.uring.submit()?;
        }
        Ok(())
    }

    /// Adds an entry, which goes to the kernel with the next call.
    fn add(&self, state: &mut State) -> io::Result<()> {
        let entry = Entry::new(state.there.len());
        let command = self.command(REGISTER, 0, entry.index, Some(entry.parts()));
        state.there.push(None);
        state.alive += 1;
        state.go(entry);
        self.push(state, &command)
    }

    /// A command of `struct fuse_uring_cmd_req`.
    fn command(&self, op: u32, id: u64, index: usize, parts: Option<u64>) -> squeue::Entry128 {
        let mut words = [0; 80];
        words[8..16].copy_from_slice(&id.to_ne_bytes());
        words[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        let command = opcode::UringCmd80::new(types::Fixed(0), op).cmd(words).addr(parts);
        let mut command = command.build().user_data(index as u64);
        if parts.is_some() {
            const LEN: usize = 24 / size_of::<u32>();
            // SAFETY: such an entry is `struct io_uring_sqe`, of 128 bytes, in which a `u32` at 24 says how
            // many addresses there are. The library has no other way to set it for a command.
            unsafe { (&raw mut command).cast::<u32>().add(LEN).write(2) };
        }
        command
    }

    /// Puts a command where the kernel finds it.
    fn push(&self, _locked: &mut State, command: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: the state's lock is held, so nobody else has this end. The addresses that the kernel gets
        // stay good while it has them: buffers are freed only when they have come back.
        let pushed = unsafe { self.uring.submission_shared().push(command) };
        pushed.map_err(|_| io::Error::other("a ring has no room for a command"))
    }
}

impl State {
    fn go(&mut self, entry: Entry) {
        let index = entry.index;
        if let Some(place) = self.there.get_mut(index) {
            *place = Some(ManuallyDrop::new(entry));
            self.away += 1;
        }
    }

    fn come_back(&mut self, index: usize) -> Option<Entry> {
        let entry = self.there.get_mut(index)?.take()?;
        self.away -= 1;
        Some(ManuallyDrop::into_inner(entry))
    }
}
