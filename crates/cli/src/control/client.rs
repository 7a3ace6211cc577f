//! The command's end of the control socket.

use super::SOCKET;
use super::protocol::{Frame, Request, write_data, write_request};
use crate::error::{CliError, Failure, Result};
use crate::store::StoreUrl;
use crate::work::Asker;
use rustix::fs::{FileType, Mode, OFlags};
use serde_json::Value;
use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How soon an interrupted command lets go of the daemon.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A connection to the daemon of a store.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
}

/// What came of a request.
#[derive(Debug)]
pub enum Asked {
    /// The answer.
    Answer(Value),
    /// The daemon ended without one.
    Gone,
}

/// A daemon is believed when it is root's, ours, or that of the store's owner: nobody else can have opened
/// the store, only its socket.
fn check_owner(stream: &UnixStream, owner: u32, store: &StoreUrl) -> Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)
        .map_err(|errno| CliError::io("cannot tell who answers", &errno.into()))?;
    let mine = rustix::process::geteuid();
    if peer.uid.is_root() || peer.uid == mine || peer.uid.as_raw() == owner {
        return Ok(());
    }
    let words = format!(
        "the control socket of {} is that of user {}, who does not own the store",
        store.dir().display(),
        peer.uid.as_raw()
    );
    Err(CliError::new(Failure::NoPermission, words)
        .hint("remove the file \"control\" there, and see who may write to the directory"))
}

impl Link {
    /// Connects; `None` when no daemon listens there.
    pub fn connect(store: &StoreUrl) -> Result<Option<Self>> {
        use rustix::io::Errno;
        let failed = |errno: Errno| {
            let made = CliError::io(
                format!("cannot reach the daemon of {}", store.dir().display()),
                &errno.into(),
            );
            match made.kind {
                Failure::NoPermission => {
                    made.hint("the store belongs to another user: become that user, or root")
                }
                _ => made,
            }
        };
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(store.dir(), flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        // Not through a link: that would be another store's daemon, asked in this one's name.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = match rustix::fs::openat(&dir, SOCKET, flags, Mode::empty()) {
            Ok(socket) => socket,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&socket).map_err(failed)?.st_mode);
        if kind != FileType::Socket {
            return Ok(None);
        }
        match UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd())) {
            Ok(stream) => {
                check_owner(&stream, rustix::fs::fstat(&dir).map_err(failed)?.st_uid, store)?;
                Ok(Some(Self { stream }))
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTSOCK) => Ok(None),
                Some(errno) => Err(failed(errno)),
                None => Err(failed(Errno::IO)),
            },
        }
    }

    /// Asks, and hands on what comes until the answer is there.
    pub fn ask(self, request: &Request, asker: &Arc<dyn Asker + Send>) -> Result<Asked> {
        let mut to = &self.stream;
        if write_request(&mut to, request).is_err() {
            return Ok(Asked::Gone);
        }
        if matches!(request, Request::Load { .. }) {
            self.send_data(asker)?;
        }
        let over = Arc::new(AtomicBool::new(false));
        let watch = self.watch(asker, &over)?;
        let answer = self.listen(&**asker);
        over.store(true, Ordering::Release);
        watch.thread().unpark();
        let _ = watch.join();
        if !asker.goes_on() {
            return Err(CliError::new(Failure::Failed, "interrupted"));
        }
        answer
    }

    fn listen(&self, asker: &dyn Asker) -> Result<Asked> {
        let mut from = BufReader::new(&self.stream);
        let mut begun = false;
        loop {
            let frame = match Frame::read(&mut from) {
                Ok(Some(frame)) => frame,
                Ok(None) if !begun => return Ok(Asked::Gone),
                Err(error) if !begun && error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Asked::Gone);
                }
                Ok(None) => {
                    return Err(CliError::new(
                        Failure::Failed,
                        "the daemon ended in the middle of its work",
                    )
                    .hint("look into its log, then try again"));
                }
                Err(error) => return Err(CliError::io("cannot understand the daemon", &error)),
            };
            match frame {
                Frame::Progress { done, total } => asker.advance(done, total),
                Frame::Data(bytes) => {
                    asker
                        .put(&bytes)
                        .map_err(|error| CliError::io("cannot write the data", &error))?;
                    begun = true;
                }
                Frame::Done(value) => return Ok(Asked::Answer(value)),
                Frame::Failed(error) => return Err(error),
            }
        }
    }

    /// Sends what the asker gives, beside listening: the daemon may refuse it halfway.
    fn send_data(&self, asker: &Arc<dyn Asker + Send>) -> Result<()> {
        let failed = |error| CliError::io("cannot speak to the daemon", &error);
        let stream = self.stream.try_clone().map_err(failed)?;
        let asker = Arc::clone(asker);
        let body = move || {
            let mut buffer = vec![0; super::protocol::DATA_BYTES_MAX];
            let sent = loop {
                match asker.get(&mut buffer) {
                    Ok(0) => break Frame::Done(Value::Null).write(&mut &stream),
                    Ok(count) => match write_data(&mut &stream, &buffer[..count]) {
                        Ok(()) => {}
                        failed => break failed,
                    },
                    Err(error) => break Err(error),
                }
            };
            if sent.is_err() {
                // Half a stream is none: the daemon must not take it for the whole.
                let _ = stream.shutdown(Shutdown::Write);
            }
        };
        std::thread::Builder::new().name("send".to_owned()).spawn(body).map_err(failed)?;
        Ok(())
    }

    /// Lets go of the daemon when the asker does not want to go on: it then ends the work.
    fn watch(
        &self,
        asker: &Arc<dyn Asker + Send>,
        over: &Arc<AtomicBool>,
    ) -> Result<JoinHandle<()>> {
        let failed = |error| CliError::io("cannot speak to the daemon", &error);
        let stream = self.stream.try_clone().map_err(failed)?;
        let (asker, over) = (Arc::clone(asker), Arc::clone(over));
        let body = move || {
            while !over.load(Ordering::Acquire) {
                if !asker.goes_on() {
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
                std::thread::park_timeout(LOOK_EVERY);
            }
        };
        std::thread::Builder::new().name("watch".to_owned()).spawn(body).map_err(failed)
    }
}
