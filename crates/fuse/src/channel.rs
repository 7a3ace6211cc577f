//! The two ways by which requests come and replies go: the device, and a ring.

use crate::device::Device;
use crate::reply::{Errno, Reply};
use crate::request::Op;
use crate::uring::{Entry, Ring};
use crate::wire::decode::{self, Envelope, Malformed};
use crate::wire::encode;
use crate::wire::numbers::IN_HEADER;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long what comes beside rings may lie. Each inode that the kernel forgets would wake a thread otherwise, often
/// on the CPU of whoever removes files; so they come many at a time.
const NAP: Duration = Duration::from_millis(5);

/// What is answered to a request.
pub(crate) type Answer = Result<Reply, Errno>;

/// One way to the kernel.
#[derive(Debug)]
pub(crate) enum Channel {
    Device(Arc<Device>),
    Ring(Box<Ring>),
    /// The device of a connection that has rings: forgotten inodes and interrupts, and nobody waits for those.
    Beside(Arc<Device>),
}

/// A request, where the kernel has put it.
#[derive(Debug)]
pub(crate) enum Parcel {
    /// From the device: the first bytes of a buffer.
    Buffer(Vec<u8>, usize),
    /// From a ring, where the reply goes too.
    Entry(Entry),
    /// From the device; its buffer has gone to the next.
    Read,
}

impl Parcel {
    /// Reads the header of the request.
    pub(crate) fn envelope(&self) -> Result<Envelope, Malformed> {
        match self {
            Self::Buffer(bytes, len) => decode::envelope(bytes.get(..*len).ok_or(Malformed)?),
            Self::Entry(entry) => entry.envelope(),
            Self::Read => Err(Malformed),
        }
    }

    /// Reads the request.
    pub(crate) fn op(&self, envelope: &Envelope) -> Result<Op<'_>, Malformed> {
        match self {
            Self::Buffer(bytes, len) => decode::op(bytes.get(..*len).ok_or(Malformed)?, envelope),
            Self::Entry(entry) => entry.op(envelope),
            Self::Read => Err(Malformed),
        }
    }

    /// What a write's data is part of.
    pub(crate) fn data(&self) -> &[u8] {
        match self {
            Self::Buffer(bytes, _) => bytes.get(IN_HEADER..).unwrap_or_default(),
            Self::Entry(entry) => entry.data(),
            Self::Read => &[],
        }
    }

    /// The same without its bytes, and the buffer that it does not need for its answer.
    pub(crate) fn emptied(self) -> (Self, Option<Vec<u8>>) {
        match self {
            Self::Buffer(bytes, _) => (Self::Read, Some(bytes)),
            other => (other, None),
        }
    }
}

impl Channel {
    /// Waits for the next request; `None` when the connection is over. A device puts it into `buffer`.
    pub(crate) fn receive(&self, buffer: impl FnOnce() -> Vec<u8>) -> io::Result<Option<Parcel>> {
        match self {
            Self::Device(device) | Self::Beside(device) => {
                if matches!(self, Self::Beside(_)) {
                    std::thread::sleep(NAP);
                }
                let mut bytes = buffer();
                let len = device.receive(&mut bytes)?;
                Ok(len.map(|len| Parcel::Buffer(bytes, len)))
            }
            Self::Ring(ring) => Ok(ring.next()?.map(Parcel::Entry)),
        }
    }

    /// A request was received so long after the one before was answered.
    pub(crate) fn heard_after(&self, idle: Duration) -> io::Result<()> {
        match self {
            Self::Device(device) => device.heard_after(idle),
            Self::Beside(_) | Self::Ring(_) => Ok(()),
        }
    }

    /// Answers a request, and gives its buffer back. When its thread `listens` on, a ring's reply goes with
    /// the wait for the next request.
    pub(crate) fn send(
        &self,
        parcel: Parcel,
        unique: u64,
        answer: &Answer,
        listens: bool,
    ) -> io::Result<Option<Vec<u8>>> {
        let encoded = encode::reply(unique, answer);
        match (self, parcel) {
            (Self::Ring(ring), Parcel::Entry(mut entry)) => {
                // An entry goes back also when nobody waits for what it brings.
                let (mut fixed, payload) =
                    encoded.unwrap_or_else(|| encode::refusal(unique, Errno(0)));
                if !entry.put(fixed.finish(payload.len()), payload) {
                    let (mut fixed, _) = encode::refusal(unique, Errno::EIO);
                    entry.put(fixed.finish(0), &[]);
                }
                ring.give_back(entry, !listens)?;
                Ok(None)
            }
            (Self::Device(device) | Self::Beside(device), parcel) => {
                if let Some((mut fixed, payload)) = encoded {
                    device.send(fixed.finish(payload.len()), payload)?;
                }
                Ok(parcel.emptied().1)
            }
            (Self::Ring(_), _) => Err(io::Error::other("a ring takes back its own entries only")),
        }
    }
}
