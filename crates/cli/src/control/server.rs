//! The daemon's end of the control socket: who may speak, how many at once, and what they get back.

use super::SOCKET;
use super::protocol::{Frame, Request, read_request, write_data};
use crate::error::{CliError, Failure, Result};
use crate::work::Asker;
use rustix::fs::{AtFlags, Mode};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Clients that are served at once.
pub const CLIENTS_MAX: usize = 64;
/// How long a client may take for its request.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// How often a client is told of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
const NEW_SOCKET: &str = "control.new";

/// What answers requests.
pub trait Handler: Send + Sync {
    /// The answer; `None` when there is none to give because the daemon ends.
    fn answer(&self, request: &Request, asker: &dyn Asker) -> Option<Result<Value>>;
}

/// A socket that is being served.
pub struct Server {
    dir: OwnedFd,
    ending: Arc<AtomicBool>,
}

impl Server {
    /// Makes the socket in the store's directory and serves it. The caller holds the store's lock, so a
    /// socket that is there is that of a dead daemon.
    pub fn start(dir: &OwnedFd, handler: Arc<dyn Handler>) -> Result<Self> {
        let failed = |error: io::Error| CliError::io("cannot make the control socket", &error);
        let dir = dir.try_clone().map_err(failed)?;
        remove(&dir, NEW_SOCKET).map_err(failed)?;
        // By way of the descriptor: the path may be longer than the 108 bytes that a socket's may have.
        let path = format!("/proc/self/fd/{}/{NEW_SOCKET}", dir.as_raw_fd());
        let listener = UnixListener::bind(path).map_err(failed)?;
        // It gets its name when its mode is right, so nobody else can connect in between.
        rustix::fs::chmodat(&dir, NEW_SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())
            .and_then(|()| rustix::fs::renameat(&dir, NEW_SOCKET, &dir, SOCKET))
            .map_err(|errno| failed(errno.into()))?;
        let ending = Arc::new(AtomicBool::new(false));
        let shared =
            Arc::new(Shared { handler, ending: Arc::clone(&ending), clients: AtomicUsize::new(0) });
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || accept(&listener, &shared))
            .map_err(failed)?;
        Ok(Self { dir, ending })
    }

    /// Takes the socket away, and asks the work of clients to end.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
        if let Err(error) = remove(&self.dir, SOCKET) {
            tracing::warn!(%error, "cannot remove the control socket");
        }
    }
}

fn remove(dir: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

struct Shared {
    handler: Arc<dyn Handler>,
    ending: Arc<AtomicBool>,
    clients: AtomicUsize,
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: some will come free.
                tracing::warn!(%error, "cannot take a client");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if shared.clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS_MAX {
            shared.clients.fetch_sub(1, Ordering::AcqRel);
            let words = format!("the daemon has {CLIENTS_MAX} clients already");
            refuse(&stream, CliError::in_use(words).hint("try again in a moment"));
            continue;
        }
        let client = Arc::clone(shared);
        let spawned =
            std::thread::Builder::new().name("control-client".to_owned()).spawn(move || {
                serve(&client, &stream);
                let _ = stream.shutdown(Shutdown::Both);
                client.clients.fetch_sub(1, Ordering::AcqRel);
            });
        if let Err(error) = spawned {
            shared.clients.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!(%error, "cannot serve a client");
        }
    }
}

fn refuse(mut stream: &UnixStream, error: CliError) {
    // A client that does not read is none of our business.
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = Frame::Failed(error).write(&mut stream);
}

fn serve(shared: &Shared, stream: &UnixStream) {
    let mine = rustix::process::geteuid();
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) if peer.uid == mine || peer.uid.is_root() => {}
        Ok(peer) => {
            tracing::warn!(uid = peer.uid.as_raw(), "a stranger spoke to the control socket");
            let words = "this daemon belongs to another user";
            return refuse(stream, CliError::new(Failure::NoPermission, words));
        }
        Err(errno) => {
            let error = CliError::io("cannot tell who speaks", &errno.into());
            return refuse(stream, error);
        }
    }
    let _ = stream.set_read_timeout(Some(REQUEST_WITHIN));
    let mut from = BufReader::new(stream);
    // One that leaves without a word is no trouble: it has thought better of it.
    if from.fill_buf().is_ok_and(<[u8]>::is_empty) {
        return;
    }
    let request = match read_request(&mut from) {
        Ok(request) => request,
        Err(error) => {
            tracing::warn!(%error, "a request that cannot be read");
            return refuse(stream, error);
        }
    };
    let _ = stream.set_read_timeout(None);
    let client = Client {
        to: Mutex::new(stream),
        from: Mutex::new(Incoming { from, frame: Vec::new(), at: 0, ended: false }),
        told: Mutex::new(Instant::now()),
        gone: AtomicBool::new(false),
        ending: &shared.ending,
    };
    let Some(answer) = shared.handler.answer(&request, &client) else { return };
    let frame = match answer {
        Ok(value) => Frame::Done(value),
        Err(error) => Frame::Failed(error),
    };
    if let Ok(mut to) = client.to.lock()
        && let Err(error) = frame.write(&mut *to)
        && error.kind() == io::ErrorKind::InvalidData
    {
        let _ = Frame::Failed(CliError::io("the daemon cannot send its answer", &error))
            .write(&mut *to);
    }
}

/// A client that waits for its answer.
struct Client<'a> {
    to: Mutex<&'a UnixStream>,
    from: Mutex<Incoming<'a>>,
    told: Mutex<Instant>,
    gone: AtomicBool,
    ending: &'a AtomicBool,
}

/// Bytes that a client sends behind its request.
struct Incoming<'a> {
    from: BufReader<&'a UnixStream>,
    frame: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Asker for Client<'_> {
    fn advance(&self, done: u64, total: Option<u64>) {
        let Ok(mut told) = self.told.lock() else { return };
        if told.elapsed() < PROGRESS_EVERY {
            return;
        }
        *told = Instant::now();
        let sent = match self.to.lock() {
            Ok(mut to) => Frame::Progress { done, total }.write(&mut *to).is_ok(),
            Err(_) => false,
        };
        if !sent {
            self.gone.store(true, Ordering::Release);
        }
    }

    fn goes_on(&self) -> bool {
        !self.gone.load(Ordering::Acquire) && !self.ending.load(Ordering::Acquire)
    }

    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let mut to = self.to.lock().map_err(|_| io::ErrorKind::BrokenPipe)?;
        write_data(&mut *to, bytes)
    }

    fn get(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.from.lock().map_err(|_| io::ErrorKind::BrokenPipe)?;
        let Incoming { from, frame, at, ended } = &mut *incoming;
        while *at == frame.len() && !*ended {
            match Frame::read(from)? {
                Some(Frame::Data(bytes)) => (*frame, *at) = (bytes, 0),
                Some(Frame::Done(_)) => *ended = true,
                // Without its end it is not whole.
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let count = (&frame[*at..]).read(buffer)?;
        *at += count;
        Ok(count)
    }
}
