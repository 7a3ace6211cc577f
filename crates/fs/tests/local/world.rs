//! A store with a home on a simulated disk, and a session that lends its files.

use crate::audit::audit;
use base::sync::Mutex;
use base::{Clock, Random, Scheduler, SeededRandom, SimClock, SimDisk};
use fs::schema::{BackingRecord, Form, Inode, Parsed};
use fs::{
    Atime, Caller, FormatOptions, Handle, Ino, OpenFlags, ROOT, Registrar, Session, SessionOptions,
    Sharing, Volume, World,
};
use home::SimHome;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The largest file that stays inline.
pub(crate) const INLINE: usize = 4096;

/// A kernel that takes every file.
#[derive(Debug, Default)]
pub(crate) struct Kernel(AtomicU32);

impl Registrar for Kernel {
    fn register(&self, _: u64, _: BorrowedFd<'_>) -> Option<u32> {
        Some(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn unregister(&self, _: u64, _: u32) {}
}

/// A machine with a volume.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) clock: SimClock,
    pub(crate) disk: SimDisk,
    pub(crate) world: World,
    pub(crate) volume: Volume,
    pub(crate) session: Session,
}

pub(crate) fn options() -> SessionOptions {
    SessionOptions { sharing: Sharing::Private, atime: Atime::Off, ..SessionOptions::default() }
}

pub(crate) fn format() -> FormatOptions {
    FormatOptions {
        chunk_bytes: 1 << 20,
        inline_bytes_max: Some(INLINE as u32),
        ..FormatOptions::default()
    }
}

impl Bench {
    pub(crate) async fn new(clock: SimClock, format: &FormatOptions) -> Self {
        Self::with(clock, format, |home| home).await
    }

    /// The same, with a home that was made to be another.
    pub(crate) async fn with(
        clock: SimClock,
        format: &FormatOptions,
        made: impl FnOnce(SimHome) -> SimHome,
    ) -> Self {
        let disk = SimDisk::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(7));
        let home = SimHome::new(Arc::new(disk.clone()), Arc::clone(&shared), 1);
        let home = Arc::new(made(home.with_descriptors().unwrap()));
        let engine = Arc::new(kv::mem::Mem::new());
        let store = kv::Store::new(engine, Arc::clone(&shared), Arc::clone(&random));
        let world = World { store, clock: shared, random, home: Some(home) };
        let volume = Volume::format(&world, "test", format).await.unwrap();
        let session = begin(&volume, options()).await;
        Self { clock, disk, world, volume, session }
    }

    /// The process dies, and another one begins.
    pub(crate) async fn die(&mut self) {
        self.session = begin(&self.volume, options()).await;
    }

    /// The session ends in good order, and another one begins.
    pub(crate) async fn restart(&mut self) {
        self.session.stop().await.unwrap();
        self.die().await;
    }

    /// Time goes by, and all that can be settled is.
    pub(crate) async fn settle(&self) {
        self.clock.advance(Duration::from_secs(10));
        for _ in 0..100 {
            let done = self.session.settle(true).await.unwrap();
            if done.settled + done.recycled == 0 && !done.more {
                return;
            }
        }
        panic!("settling never ends");
    }

    pub(crate) fn tick(&self) {
        self.clock.advance(Duration::from_millis(40));
    }

    /// A file with these bytes that stays open.
    pub(crate) async fn make(&self, name: &str, bytes: &[u8]) -> (Ino, Handle) {
        let flags = OpenFlags::READ_WRITE;
        let made = self.session.create(&root(), ROOT, name.as_bytes(), 0o644, flags).await;
        let (attr, handle) = made.unwrap();
        write(&self.session, handle, 0, bytes).await;
        (attr.ino, handle)
    }

    /// A file with these bytes, closed and settled.
    pub(crate) async fn file(&self, name: &str, bytes: &[u8]) -> Ino {
        let (ino, handle) = self.make(name, bytes).await;
        self.session.release(handle).await.unwrap();
        self.settle().await;
        ino
    }

    pub(crate) async fn open(&self, ino: Ino) -> Handle {
        self.session.open(&root(), ino, OpenFlags::READ_WRITE).await.unwrap()
    }

    /// What the store says of an inode.
    pub(crate) async fn record(&self, ino: Ino) -> Inode {
        let all = crate::audit::dump(&self.volume).await;
        let keys = self.volume.keys();
        let found = all.iter().find(|(key, _)| keys.parse(key) == Some(Parsed::Inode { ino }));
        let (key, value) = found.expect("an inode");
        Inode::decode(key, ino, value).unwrap()
    }

    pub(crate) async fn form(&self, ino: Ino) -> Form {
        self.record(ino).await.form
    }

    /// Who has which file of the home.
    pub(crate) async fn backings(&self) -> BTreeMap<u64, BackingRecord> {
        let mut found = BTreeMap::new();
        for (key, value) in crate::audit::dump(&self.volume).await {
            if let Some(Parsed::Backing { blob }) = self.volume.keys().parse(&key) {
                found.insert(blob, BackingRecord::decode(&key, &value).unwrap());
            }
        }
        found
    }

    pub(crate) async fn is_lent(&self, ino: Ino) -> bool {
        self.backings().await.values().any(|record| record.ino == ino)
    }

    pub(crate) async fn audit(&self) {
        audit(&self.volume, false).await;
        let report = fs::Check::new(&self.volume).deep(true).run(&fs::NoProgress).await.unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }

    /// What is there of a file, read anew.
    pub(crate) async fn contents(&self, ino: Ino) -> Vec<u8> {
        let handle = self.session.open(&root(), ino, OpenFlags::READ).await.unwrap();
        let bytes = read(&self.session, handle).await;
        self.session.release(handle).await.unwrap();
        bytes
    }
}

pub(crate) async fn begin(volume: &Volume, options: SessionOptions) -> Session {
    let session = Session::start(volume, options).await.unwrap();
    session.set_registrar(Some(Arc::new(Kernel::default())));
    // Files are ready when the first is made.
    session.settle(false).await.unwrap();
    session
}

pub(crate) fn root() -> Caller {
    Caller::root()
}

/// Bytes that differ from place to place and from tag to tag, none of them zero.
pub(crate) fn pattern(tag: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + usize::from(tag) * 57) as u8 | 1).collect()
}

pub(crate) async fn write(session: &Session, handle: Handle, at: u64, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let written = session.write(&root(), handle, at + done as u64, &bytes[done..]).await;
        done += written.unwrap();
    }
}

pub(crate) async fn read(session: &Session, handle: Handle) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let piece = session.read(handle, bytes.len() as u64, 1 << 22).await.unwrap();
        if piece.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&piece);
    }
}

/// Runs a test on a clock that moves when nothing else can.
pub(crate) fn on_bench<F>(test: impl FnOnce(Bench) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    on_format(format(), test);
}

pub(crate) fn on_format<F>(format: FormatOptions, test: impl FnOnce(Bench) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let clock = SimClock::new();
    let of = clock.clone();
    run(&clock, async move { test(Bench::new(of, &format).await).await });
}

/// Runs one future on a clock that moves when nothing else can.
pub(crate) fn run<T: Send + 'static>(
    clock: &SimClock,
    task: impl Future<Output = T> + Send + 'static,
) -> T {
    let out = Arc::new(Mutex::new(None));
    let into = Arc::clone(&out);
    let mut scheduler = Scheduler::new(0, clock.clone());
    scheduler.spawn(async move {
        let value = task.await;
        *into.lock() = Some(value);
    });
    scheduler.run().unwrap();
    out.lock().take().expect("the task is done")
}
