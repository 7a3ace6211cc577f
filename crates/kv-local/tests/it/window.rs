//! The log in mapped memory, and where there is none: by which way its records go, and that a process that dies leaves
//! the same.

use base::disk::{Lock, Window};
use base::{Disk, File, OsRandom, SystemDisk, block_on};
use bytes::Bytes;
use kv::{Commit, Durability, Engine, Key, KeyRange, Op, Query, Version};
use kv_local::{Local, Options};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is done to logs.
#[derive(Debug, Default)]
struct Counts {
    windows: AtomicU64,
    refused: AtomicU64,
    calls: AtomicU64,
    /// Bytes that were announced.
    announced: AtomicU64,
}

impl Counts {
    fn read(&self) -> (u64, u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.windows), read(&self.refused), read(&self.calls))
    }
}

/// A directory that counts, and has no windows when it is told so.
#[derive(Debug)]
struct Counting {
    inner: SystemDisk,
    counts: Arc<Counts>,
    windows: bool,
}

impl Counting {
    fn file(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        if !name.starts_with("log-") {
            return inner;
        }
        Arc::new(LogFile { inner, counts: Arc::clone(&self.counts), windows: self.windows })
    }
}

impl Disk for Counting {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Lock> {
        self.inner.lock(name)
    }

    fn lock_shared(&self, name: &str) -> io::Result<Option<Lock>> {
        self.inner.lock_shared(name)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[derive(Debug)]
struct LogFile {
    inner: Arc<dyn File>,
    counts: Arc<Counts>,
    windows: bool,
}

impl File for LogFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        self.inner.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn will_write(&self, offset: u64, len: u64) {
        assert!(offset + len <= self.inner.len().unwrap(), "what is there");
        self.counts.announced.fetch_add(len, Ordering::Relaxed);
        self.inner.will_write(offset, len);
    }

    fn window(&self, offset: u64, len: usize) -> Option<Box<dyn Window>> {
        let window = self.inner.window(offset, len).filter(|_| self.windows);
        let count = if window.is_some() { &self.counts.windows } else { &self.counts.refused };
        count.fetch_add(1, Ordering::Relaxed);
        window
    }
}

const COMMITS: u32 = 2_000;

fn open(path: &Path, windows: bool, counts: &Arc<Counts>) -> Local {
    // One log takes everything.
    open_with(path, windows, counts, 64 << 20)
}

fn open_with(path: &Path, windows: bool, counts: &Arc<Counts>, memory_bytes: usize) -> Local {
    let inner = SystemDisk::open(path).unwrap();
    let disk = Counting { inner, counts: Arc::clone(counts), windows };
    let options = Options { memory_bytes, level_scale: 64 };
    Local::open(Arc::new(disk), None, &OsRandom::new(), options).unwrap()
}

/// Commits of all sizes, some of them larger than a window.
fn fill(local: &Local) -> Version {
    let mut last = 0;
    for number in 0..COMMITS {
        let len = match number % 500 {
            499 => 300_000,
            _ => 1 + number as usize * 37 % 1500,
        };
        last = put(local, number, len);
    }
    last
}

fn put(local: &Local, number: u32, len: usize) -> Version {
    let ops = vec![Op::Put(Key::new(&number.to_be_bytes()), Bytes::from(vec![number as u8; len]))];
    let durability = Durability::Process;
    let commit = Commit { reads: vec![], writes: vec![], ops, durability, frees: false };
    let at = local.newest().unwrap();
    block_on(local.commit_alone(at, commit)).unwrap()
}

fn everything(local: &Local) -> Vec<(Vec<u8>, Vec<u8>)> {
    let snapshot = block_on(local.snapshot()).unwrap();
    let mut all = Vec::new();
    let mut next = Some(Query::new(KeyRange::all()));
    while let Some(query) = next {
        let page = block_on(snapshot.range(&query)).unwrap();
        all.extend(page.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
        next = if page.more { query.behind(&page) } else { None };
    }
    all
}

/// A store that is open is copied, as it would be found when its process had died now: the copy has everything.
fn lives_and_is_copied(windows: bool) -> (u64, u64, u64) {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let counts = Arc::new(Counts::default());
    let local = open(dir.path(), windows, &counts);
    let last = fill(&local);
    let counted = counts.read();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let found = open(copy.path(), windows, &Arc::default());
    assert_eq!(found.stats().version, last);
    assert!(everything(&found) == everything(&local), "all of it is there");
    assert_eq!(everything(&local).len(), COMMITS as usize);
    local.close().unwrap();
    let again = open(dir.path(), windows, &Arc::default());
    assert!(everything(&again) == everything(&found), "and after it was closed");
    counted
}

#[test]
fn records_go_to_mapped_memory_where_it_can_be_had() {
    let (windows, refused, calls) = lives_and_is_copied(true);
    if windows == 0 {
        eprintln!("SKIPPED: records in mapped memory: this host cannot");
        return;
    }
    println!("{windows} windows, {refused} refused, {calls} calls for {COMMITS} commits");
    assert!(refused == 0 && windows >= 4, "it moves: {windows}, {refused}");
    // Those that are larger than a window, and some at the end of the room that was taken.
    let large = u64::from(COMMITS / 500);
    assert!((large..u64::from(COMMITS / 50)).contains(&calls), "{calls}");
}

#[test]
fn long_records_are_written_by_calls() {
    let (dir, counts) = (tempfile::tempdir().unwrap(), Arc::new(Counts::default()));
    let local = open(dir.path(), true, &counts);
    let mut next = 0;
    let mut many = |count: u32, len| {
        for number in next..next + count {
            put(&local, number, len);
        }
        next += count;
        counts.read()
    };
    let (_, refused, calls) = many(1_000, 100);
    if refused > 0 {
        eprintln!("SKIPPED: records in mapped memory: this host cannot");
        return;
    }
    assert!(calls < 100, "{calls} of short ones");
    let (windows, _, calls) = many(1_000, 5_000);
    // The window that was there is used up.
    assert!((900..1_100).contains(&calls), "{calls}");
    let (later, _, calls_later) = many(10_000, 100);
    assert!(later > windows && calls_later < calls + 200, "{later}, {calls_later}");
    assert_eq!(everything(&local).len(), next as usize);
    local.close().unwrap();
    assert_eq!(everything(&open(dir.path(), true, &counts)).len(), next as usize);
}

#[test]
fn what_is_written_over_is_asked_for_once_and_before() {
    let (dir, counts) = (tempfile::tempdir().unwrap(), Arc::new(Counts::default()));
    let announced = || counts.announced.load(Ordering::Relaxed);
    // A layer is 800 kB.
    let local = open_with(dir.path(), false, &counts, 8 << 20);
    put(&local, 0, 2_000);
    assert_eq!(announced(), 0, "nothing was there");
    (1..4_000).for_each(|number| assert!(put(&local, number, 2_000) > 0));
    let written = 4_000 * 2_000;
    assert!((written / 4..written).contains(&announced()), "{}", announced());
    assert_eq!(everything(&local).len(), 4_000);
    local.close().unwrap();
}

#[test]
fn records_are_written_by_calls_where_it_cannot() {
    let (windows, refused, calls) = lives_and_is_copied(false);
    println!("{windows} windows, {refused} refused, {calls} calls for {COMMITS} commits");
    // It is asked for once for each log, and not again.
    assert!(windows == 0 && refused == 1, "{windows}, {refused}");
    assert_eq!(calls, u64::from(COMMITS));
}
