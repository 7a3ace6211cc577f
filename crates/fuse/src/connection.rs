//! A mount, from its first words with the kernel to its end.

use crate::backings::Backings;
use crate::channel::Channel;
use crate::device::Device;
use crate::handler::{Adopted, Fresh, Handler, Kept, Policy, Running, Waiters};
use crate::mount::{self, MountError, MountErrorKind, MountOptions, Transport};
use crate::opens::{self, Opens};
use crate::reply::Errno;
use crate::seat::Seat;
use crate::server::{REQUEST_BYTES_MAX, Server, WRITE_BYTES_MAX};
use crate::stats::OpStats;
use crate::uring::{self, Ring};
use crate::wire::decode;
use crate::wire::encode::{self, InitReply};
use crate::wire::numbers::{MAJOR, MINOR_MIN, Opcode, init};
use base::pool::Pool;
use base::{Spawn, SystemThreads};
use fs::Session;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

/// Threads for what waits: this many files can be synced at once.
const POOL_THREADS_MAX: usize = 32;
/// The most threads that face the kernel when nobody chose their number.
const THREADS_MAX: usize = 8;
/// Requests that the kernel may have under way that nobody waits for, such as reading ahead.
const BACKGROUND_MAX: u16 = 64;
/// The kernel's pages.
const PAGE_BYTES: usize = 4096;
/// How far the kernel reads ahead, where this process may tell it.
const READAHEAD_KIB: u32 = 1024;

/// A mounted volume. Clones are the same mount. It stays mounted until it is unmounted, by this
/// process or by anybody else.
#[derive(Debug, Clone)]
pub struct Mount(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: MountOptions,
    server: Arc<Server>,
    devices: Vec<Arc<Device>>,
    transport: Transport,
    resends: bool,
    /// The files that the kernel uses by itself; `None` when it does not.
    backings: Option<Arc<Backings>>,
}

/// Mounts a session. When this returns, the mount answers.
pub fn mount(session: &Session, options: &MountOptions) -> Result<Mount, MountError> {
    let device = Arc::new(mount::attach(options)?);
    let mounted = start(session, options, device);
    if mounted.is_err() {
        // Nobody will ever answer: take it away again.
        let _ = mount::unmount(&options.mountpoint, true);
    }
    mounted
}

/// What a process that died has left of a mount.
#[derive(Debug)]
pub struct Inherited {
    devices: Vec<Arc<Device>>,
    table: Option<Arc<File>>,
}

impl Inherited {
    /// By the descriptors that it had.
    pub fn of(descriptors: Vec<OwnedFd>) -> Result<Self, MountError> {
        let mut inherited = Self { devices: Vec::new(), table: None };
        for descriptor in descriptors {
            match Backings::is_table(&descriptor) {
                true => inherited.table = Some(Arc::new(File::from(descriptor))),
                false => {
                    let device = Device::from_fd(descriptor).map_err(not_taken_over)?;
                    inherited.devices.push(Arc::new(device));
                }
            }
        }
        Ok(inherited)
    }

    /// What the kernel has open, for the [options](fs::SessionOptions) of the session that will serve it.
    pub fn open_files(&self) -> Result<Vec<(fs::Ino, fs::Way)>, MountError> {
        let noted = self.table.as_ref().map(opens::noted).transpose();
        Ok(noted.map_err(not_taken_over)?.unwrap_or_default())
    }
}

fn not_taken_over(error: io::Error) -> MountError {
    MountError::new(MountErrorKind::Other, "cannot take the mount over").caused_by(error)
}

/// Serves a mount whose process has died: what was asked of it and not answered is asked again. Handles up to
/// `old_handles` are those of the one before.
pub fn resume(
    session: &Session,
    options: &MountOptions,
    inherited: Inherited,
    old_handles: u64,
) -> Result<Mount, MountError> {
    let failed = not_taken_over;
    let Inherited { devices, table } = inherited;
    // Before anything is read: what is under way here must not be asked again.
    if let Some(device) = devices.first() {
        device.send(encode::resend().finish(0), &[]).map_err(failed)?;
    }
    let policy = Policy::of(session, options);
    let (backings, opens) = match (devices.first(), &table) {
        (Some(device), Some(table)) => (
            Some(Backings::resume(device, table).map_err(failed)?),
            Opens::resume(table, old_handles).map_err(failed)?,
        ),
        _ => (None, Opens::default()),
    };
    let (rings, adopted) = (Vec::new(), Adopted::new(old_handles));
    let ends = Ends { devices, rings, adopted, opens, resends: true, backings };
    serve(session, options, policy, ends)
}

fn start(
    session: &Session,
    options: &MountOptions,
    device: Arc<Device>,
) -> Result<Mount, MountError> {
    let policy = Policy::of(session, options);
    let Agreed { flags, rings } = greet(&device, policy, options)?;
    let wanted = match options.threads {
        // What still comes by the device is little.
        _ if !rings.is_empty() => 1,
        0 => {
            let cpus = std::thread::available_parallelism().map_or(2, usize::from);
            // Answers of a private store come at once, and on the CPU of who asked they come soonest.
            let wanted = if policy.private { cpus / 2 } else { cpus.max(2) };
            wanted.clamp(1, THREADS_MAX)
        }
        chosen => chosen,
    };
    let mut devices = vec![device];
    while let Some(first) = devices.first()
        && devices.len() < wanted
    {
        devices.push(Arc::new(first.again().map_err(unserved)?));
    }
    // What came by a ring is never sent again.
    let resends = flags & init::HAS_RESEND != 0 && rings.is_empty();
    let backings = match devices.first() {
        Some(device) if flags & init::PASSTHROUGH != 0 && policy.private && options.passthrough => {
            Backings::begin(device, options.backing.as_deref())
        }
        _ => None,
    };
    let opens = match &backings {
        Some(backings) if options.survives && resends => Opens::begin(backings.table()),
        _ => Opens::default(),
    };
    let adopted = Adopted::default();
    serve(session, options, policy, Ends { devices, rings, adopted, opens, resends, backings })
}

fn unserved(error: io::Error) -> MountError {
    MountError::new(MountErrorKind::Other, "cannot serve the mount").caused_by(error)
}

/// What a connection to the kernel has.
struct Ends {
    devices: Vec<Arc<Device>>,
    rings: Vec<Ring>,
    /// Handles of a process before this one.
    adopted: Adopted,
    opens: Opens,
    /// The kernel can ask again.
    resends: bool,
    backings: Option<Arc<Backings>>,
}

/// Starts a thread for each descriptor and each ring.
fn serve(
    session: &Session,
    options: &MountOptions,
    policy: Policy,
    ends: Ends,
) -> Result<Mount, MountError> {
    let Ends { devices, rings, adopted, opens, resends, backings } = ends;
    if let Some(backings) = &backings {
        session.set_registrar(Some(Arc::clone(backings) as Arc<dyn fs::Registrar>));
    }
    let spawn: Arc<dyn Spawn> = Arc::new(SystemThreads);
    let pool = Pool::new("seamount-wait", POOL_THREADS_MAX, Arc::clone(&spawn));
    let clock = Arc::clone(&session.volume().world().clock);
    let handler = Handler {
        session: session.clone(),
        policy,
        waiters: Waiters::default(),
        kept: Kept::default(),
        adopted,
        opens,
        running: Running::default(),
        fresh: Fresh::new(devices.first().filter(|_| policy.private)),
        survives: options.survives && resends && policy.private,
        backing: options.backing.clone(),
    };
    let server = Arc::new(Server::new(handler, clock, pool, spawn));
    for (number, device) in devices.iter().enumerate() {
        let device = Arc::clone(device);
        let seat = Arc::new(Seat::new(match rings.is_empty() {
            true => Channel::Device(device),
            false => Channel::Beside(device),
        }));
        if let Err(error) = server.start(&seat, None) {
            if number == 0 {
                return Err(unserved(error));
            }
            tracing::warn!(%error, threads = number, "fewer threads than wanted serve the mount");
            break;
        }
    }
    let transport = if rings.is_empty() { Transport::Device } else { Transport::Uring };
    open_rings(&server, rings)?;
    if let Some(device) = devices.first() {
        session.observe(Some(Arc::new(Teller(Arc::clone(device)))));
    }
    let inner = Inner { options: options.clone(), server, devices, transport, resends, backings };
    let mounted = Mount(Arc::new(inner));
    mounted.read_further_ahead();
    Ok(mounted)
}

/// Starts a thread for each ring. The kernel asks nothing before it has something of each.
fn open_rings(server: &Arc<Server>, rings: Vec<Ring>) -> Result<(), MountError> {
    let failed = |error: io::Error| {
        let text = "the kernel does not take the rings; mount with transport=device";
        MountError::new(MountErrorKind::Other, text).caused_by(error)
    };
    let count = rings.len();
    let (tell, told) = mpsc::channel();
    for ring in rings {
        let tell = tell.clone();
        let first = move |opened| {
            let _ = tell.send(opened);
        };
        let seat = Arc::new(Seat::new(Channel::Ring(Box::new(ring))));
        server.start(&seat, Some(Box::new(first))).map_err(unserved)?;
    }
    drop(tell);
    let opened: Vec<io::Result<()>> = told.iter().take(count).collect();
    opened.into_iter().collect::<io::Result<()>>().map_err(failed)
}

/// Tells the kernel what changed without its asking.
#[derive(Debug)]
struct Teller(Arc<Device>);

impl fs::Observer for Teller {
    fn attributes_changed(&self, ino: fs::Ino) {
        // An inode that the kernel does not know, or a mount that is gone: both are well.
        let _ = self.0.send(encode::attributes_changed(ino).finish(0), &[]);
    }
}

/// What both sides of a connection will do.
struct Agreed {
    flags: u64,
    /// By which requests will come; none when by the device.
    rings: Vec<Ring>,
}

/// The first words: what the kernel can, and what of that is wanted.
fn greet(
    device: &Arc<Device>,
    policy: Policy,
    options: &MountOptions,
) -> Result<Agreed, MountError> {
    let failed = |error: io::Error| {
        MountError::new(MountErrorKind::Other, "the kernel did not begin").caused_by(error)
    };
    let strange = || {
        let error = io::Error::new(io::ErrorKind::InvalidData, "its first request is no greeting");
        failed(error)
    };
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    let len = device.receive(&mut buffer).map_err(failed)?.ok_or_else(strange)?;
    let bytes = buffer.get(..len).ok_or_else(strange)?;
    let envelope = decode::envelope(bytes).map_err(|_| strange())?;
    if envelope.opcode != Some(Opcode::Init) {
        return Err(strange());
    }
    let offered = decode::init(bytes, &envelope).map_err(|_| strange())?;
    let unique = envelope.header.unique;
    let wanted = wanted(policy);
    let needed = init::MAX_PAGES | init::SETXATTR_EXT | init::HANDLE_KILLPRIV_V2;
    let old = offered.major != MAJOR || offered.minor < MINOR_MIN;
    let refuse = || {
        let (mut fixed, _) = encode::refusal(unique, Errno::EPROTO);
        let _ = device.send(fixed.finish(0), &[]);
    };
    if old || offered.flags & needed != needed {
        refuse();
        let text = format!(
            "the kernel speaks FUSE {}.{}; {MAJOR}.{MINOR_MIN} is needed, which Linux 5.13 has",
            offered.major, offered.minor
        );
        return Err(MountError::new(MountErrorKind::TooOld, text));
    }
    // Before the kernel is told of them: from then on it waits for them.
    let rings = rings(device, policy, options, offered.flags).inspect_err(|_| refuse())?;
    let over = if rings.is_empty() { 0 } else { init::OVER_IO_URING };
    let answer = InitReply {
        max_readahead: offered.max_readahead,
        flags: (wanted | over) & offered.flags,
        max_background: BACKGROUND_MAX,
        max_write: WRITE_BYTES_MAX as u32,
        max_pages: (WRITE_BYTES_MAX / PAGE_BYTES) as u16,
    };
    let mut encoded = encode::init_reply(unique, &answer);
    device.send(encoded.finish(0), &[]).map_err(failed)?;
    Ok(Agreed { flags: answer.flags, rings })
}

/// The rings of a mount that is to be served by them.
fn rings(
    device: &Arc<Device>,
    policy: Policy,
    options: &MountOptions,
    offered: u64,
) -> Result<Vec<Ring>, MountError> {
    let asked = options.transport == Some(Transport::Uring);
    let refused = |why: &str| {
        let text = format!("cannot mount with transport=uring: {why}");
        Err(MountError::new(MountErrorKind::Other, text))
    };
    match options.transport {
        Some(Transport::Device) => return Ok(Vec::new()),
        // Who waits for a lock keeps an entry, and who frees it needs one.
        Some(Transport::Uring) if !policy.private => return refused("the store is shared"),
        // A ring ends with its process, and what came by it is not sent again.
        None if !policy.private || options.survives => return Ok(Vec::new()),
        _ => {}
    }
    if offered & init::OVER_IO_URING == 0 {
        return match asked {
            false => Ok(Vec::new()),
            true => refused(
                "the kernel does not offer it (Linux 6.14 does, when root has written Y to \
                 /sys/module/fuse/parameters/enable_uring)",
            ),
        };
    }
    match uring::rings(device) {
        Ok(rings) => Ok(rings),
        Err(error) if asked => {
            let text = "cannot mount with transport=uring: no ring can be made";
            Err(MountError::new(MountErrorKind::Other, text).caused_by(error))
        }
        Err(error) => {
            tracing::warn!(%error, "no ring can be made: /dev/fuse serves the mount");
            Ok(Vec::new())
        }
    }
}

fn wanted(policy: Policy) -> u64 {
    let always = init::ASYNC_READ
        | init::ATOMIC_O_TRUNC
        | init::EXPORT_SUPPORT
        | init::BIG_WRITES
        | init::DONT_MASK
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::ASYNC_DIO
        | init::PARALLEL_DIROPS
        | init::POSIX_ACL
        | init::MAX_PAGES
        // What a symbolic link says never changes.
        | init::CACHE_SYMLINKS
        | init::HANDLE_KILLPRIV_V2
        | init::SETXATTR_EXT
        | init::DIRECT_IO_ALLOW_MMAP
        | init::PASSTHROUGH
        | init::HAS_RESEND;
    if policy.private {
        // The kernel keeps locks itself, and its pages are true.
        always
    } else {
        always | init::POSIX_LOCKS | init::FLOCK_LOCKS | init::AUTO_INVAL_DATA
    }
}

impl Mount {
    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.0.options.mountpoint
    }

    /// By what requests come.
    pub fn transport(&self) -> Transport {
        self.0.transport
    }

    /// How it was mounted.
    pub fn options(&self) -> &MountOptions {
        &self.0.options
    }

    /// Waits until it is unmounted, by anybody, and what was asked before is answered.
    pub fn wait(&self) {
        self.0.server.wait();
        self.0.server.handler.session.observe(None);
        self.0.server.handler.session.set_registrar(None);
    }

    /// Whether it is mounted still.
    pub fn is_mounted(&self) -> bool {
        self.0.server.is_served()
    }

    /// Unmounts. Without `lazy` this fails while something uses the mount.
    pub fn unmount(&self, lazy: bool) -> Result<(), MountError> {
        if !self.is_mounted() {
            return Ok(());
        }
        mount::unmount(self.mountpoint(), lazy)
    }

    /// Unmounts whatever uses it: what is asked from now on fails. As root also what is under way; for
    /// others that goes on until this process ends.
    pub fn abort(&self) -> Result<(), MountError> {
        if !self.is_mounted() {
            return Ok(());
        }
        mount::abort(self.mountpoint())
    }

    /// Whether the kernel reads and writes files of the local home by itself.
    pub fn is_by_kernel(&self) -> bool {
        self.0.backings.is_some()
    }

    /// The descriptors by which it is served, and what the next one needs to know of files. While any process has them, the kernel waits for answers.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let table = self.0.backings.iter().map(|backings| backings.as_fd());
        self.0.devices.iter().map(|device| device.as_fd()).chain(table).collect()
    }

    /// Whether the kernel can ask again what was not answered, so that another process can take the mount
    /// over.
    pub fn can_be_resumed(&self) -> bool {
        self.0.resends
    }

    /// What was asked so far, by kind.
    pub fn stats(&self) -> Vec<OpStats> {
        self.0.server.stats.snapshot()
    }

    /// Requests that were read and are not answered yet.
    pub fn requests_in_flight(&self) -> u64 {
        self.0.server.in_flight.load(Ordering::Relaxed)
    }

    /// Lets the kernel read further ahead than it does by itself. Only root may, and it is only
    /// faster: no failure matters.
    fn read_further_ahead(&self) {
        let Ok(table) = mount::mounted() else {
            return;
        };
        let here = std::path::absolute(self.mountpoint()).unwrap_or_default();
        if let Some(entry) = table.iter().rev().find(|entry| entry.mountpoint == here) {
            let path = format!("/sys/class/bdi/{}/read_ahead_kb", entry.device);
            let _ = std::fs::write(path, READAHEAD_KIB.to_string());
        }
    }
}
