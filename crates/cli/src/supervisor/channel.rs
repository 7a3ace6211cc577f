//! Words between a daemon and its supervisor, with open descriptors beside them.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most descriptors that go with one word: the kernel takes a few more.
pub(super) const DESCRIPTORS_MAX: usize = 250;
/// The longest word.
const WORD_BYTES_MAX: usize = 64 << 10;

/// One end.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Two ends; the second is for another process.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(ours), theirs))
    }

    /// The end that this process was started with, as its standard input.
    pub(super) fn from_stdin() -> io::Result<Self> {
        Ok(Self(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?))
    }

    pub(super) fn send(
        &self,
        word: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(word)?;
        if bytes.len() > WORD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the word is too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
        }
        loop {
            match rustix::net::sendmsg(
                self.0.as_fd(),
                &[IoSlice::new(&bytes)],
                &mut beside,
                SendFlags::NOSIGNAL,
            ) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next word; `None` when the other end is closed.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; WORD_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let len = loop {
            match rustix::net::recvmsg(
                self.0.as_fd(),
                &mut [IoSliceMut::new(&mut bytes)],
                &mut beside,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Ok(got) => break got.bytes,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => break 0,
                Err(error) => return Err(error.into()),
            }
        };
        let mut descriptors = Vec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(got) = message {
                descriptors.extend(got);
            }
        }
        match bytes.get(..len) {
            None | Some([]) => Ok(None),
            Some(word) => Ok(Some((serde_json::from_slice(word)?, descriptors))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn words_arrive_with_their_descriptors() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel(theirs);
        let (reader, mut writer) = io::pipe().unwrap();
        ours.send(&"first", &[reader.as_fd(); 3]).unwrap();
        ours.send(&"second", &[]).unwrap();
        drop(reader);
        let (word, got) = theirs.receive::<String>().unwrap().unwrap();
        assert_eq!((word.as_str(), got.len()), ("first", 3));
        writer.write_all(b"x").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(&got[1], &mut byte).unwrap(), 1);
        assert_eq!(theirs.receive::<String>().unwrap().unwrap().0, "second");
        drop(ours);
        assert!(theirs.receive::<String>().unwrap().is_none());
        assert!(theirs.send(&"nobody hears", &[]).is_err());
    }

    #[test]
    fn too_much_is_refused() {
        let (ours, _theirs) = Channel::pair().unwrap();
        assert!(ours.send(&"x".repeat(WORD_BYTES_MAX), &[]).is_err());
        let (reader, _writer) = io::pipe().unwrap();
        assert!(ours.send(&"x", &vec![reader.as_fd(); DESCRIPTORS_MAX + 8]).is_err());
    }
}
