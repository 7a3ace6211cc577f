//! A disk in memory that can lose power, run full, fail and rot, at a chosen operation.

use super::fault::{
    Cut, Fault, FaultKind, SLOW, Step, input_output, no_space, power_lost, read_only, stopped_short,
};
use super::{Disk, File, Lock, LockGuard};
use crate::clock::SimClock;
use crate::random::{Random, SeededRandom};
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The unit that a disk writes whole.
const SECTOR_BYTES: usize = 512;

/// The disk, as one directory of it sees it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// What the names of its files begin with: nothing, or a directory and a slash.
    dir: String,
}

#[derive(Debug, Default)]
struct State {
    /// Names as the running system sees them.
    names: BTreeMap<String, Inode>,
    /// Names as they were at the last sync of their directory.
    durable_names: BTreeMap<String, Inode>,
    /// Changes of names since then, oldest first.
    pending_names: Vec<NameChange>,
    locked: bool,
    /// Changing operations so far.
    operations: u64,
    /// Reads so far.
    reads: u64,
    fault: Option<Fault>,
    /// Moved by operations that take long.
    clock: Option<SimClock>,
    /// The most bytes that all files may have.
    capacity: Option<u64>,
    /// Files that lost their names while they were open.
    nameless: Vec<Inode>,
    dead: bool,
    bytes_written: u64,
    syncs: u64,
}

type Inode = Arc<Mutex<Content>>;

#[derive(Debug, Clone)]
enum NameChange {
    Link(String, Inode),
    Unlink(String),
    Rename(String, String),
}

#[derive(Debug, Default, Clone)]
struct Content {
    now: Vec<u8>,
    /// As of the last sync.
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// Handles.
    open: usize,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write(offset, bytes) => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            Change::Resize(len) => content.resize(*len, 0),
        }
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    /// What the disk holds after a cut.
    fn after(&self, cut: Cut, random: &SeededRandom) -> Vec<u8> {
        let mut content = self.durable.clone();
        for change in &self.pending {
            match (cut, change) {
                (Cut::Kept, change) => change.apply(&mut content),
                (Cut::Dropped, _) => {}
                (Cut::Torn, Change::Write(offset, bytes)) => {
                    let mut done = 0;
                    while done < bytes.len() {
                        let at = offset + done;
                        let room = SECTOR_BYTES - at % SECTOR_BYTES;
                        let end = bytes.len().min(done + room);
                        if random.one_in(2) {
                            Change::Write(at, bytes[done..end].to_vec()).apply(&mut content);
                        }
                        done = end;
                    }
                }
                (Cut::Reordered | Cut::Torn, change) => {
                    if random.one_in(2) {
                        change.apply(&mut content);
                    }
                }
            }
        }
        content
    }
}

impl NameChange {
    /// The name that it is about; a rename stays within a directory.
    fn name(&self) -> &str {
        match self {
            NameChange::Link(name, _) | NameChange::Unlink(name) | NameChange::Rename(name, _) => {
                name
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Inode>) {
        match self {
            NameChange::Link(name, inode) => {
                names.insert(name.clone(), Arc::clone(inode));
            }
            NameChange::Unlink(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

impl State {
    /// Counts a changing operation and says how it fails, if it does.
    fn step(&mut self, step: Step) -> io::Result<()> {
        if self.dead {
            return Err(power_lost());
        }
        let now = self.operations;
        self.operations += 1;
        let Some(fault) = self.fault.filter(|fault| !fault.kind.counts_reads() && now >= fault.at)
        else {
            return Ok(());
        };
        let mut once = |strikes: bool, error: fn() -> io::Error| {
            if strikes {
                self.fault = None;
                return Err(error());
            }
            Ok(())
        };
        match fault.kind {
            FaultKind::PowerCut => {
                self.dead = true;
                Err(power_lost())
            }
            FaultKind::Full if matches!(step, Step::Create | Step::Write | Step::Allocate) => {
                Err(no_space())
            }
            FaultKind::Fills => {
                self.fault = None;
                self.capacity = Some(self.used());
                Ok(())
            }
            FaultKind::Error => once(true, input_output),
            FaultKind::ShortWrite => once(step == Step::Write, stopped_short),
            FaultKind::SyncError => once(step == Step::Sync, input_output),
            FaultKind::Slow => {
                if let Some(clock) = &self.clock {
                    clock.advance(SLOW);
                }
                Ok(())
            }
            FaultKind::Errors => Err(input_output()),
            FaultKind::ReadOnly => Err(read_only()),
            FaultKind::Full | FaultKind::ReadError | FaultKind::ReadErrors => Ok(()),
        }
    }

    /// Counts a read and says how it fails, if it does.
    fn read(&mut self) -> io::Result<()> {
        if self.dead {
            return Err(power_lost());
        }
        let now = self.reads;
        self.reads += 1;
        match self.fault {
            Some(Fault { at, kind: FaultKind::ReadError }) if now == at => Err(input_output()),
            Some(Fault { at, kind: FaultKind::ReadErrors }) if now >= at => Err(input_output()),
            _ => Ok(()),
        }
    }

    /// Bytes of all files that have a name or are open.
    fn used(&mut self) -> u64 {
        self.nameless.retain(|inode| inode.lock().open > 0);
        let named = self.names.values().chain(&self.nameless);
        named.map(|inode| inode.lock().now.len() as u64).sum()
    }

    /// A name is about to go: its file takes room as long as it is open.
    fn set_aside(&mut self, name: &str) {
        if let Some(inode) = self.names.get(name) {
            self.nameless.push(Arc::clone(inode));
        }
    }

    /// Whether a file of `len` bytes can have `wanted`.
    fn has_room(&mut self, len: u64, wanted: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let more = wanted.saturating_sub(len);
        if more > 0 && self.used() + more > capacity { Err(no_space()) } else { Ok(()) }
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A directory of the same disk: it has names of its own, which are made durable by themselves. Power, room
    /// and what fails are those of the whole disk.
    #[must_use]
    pub fn directory(&self, name: &str) -> SimDisk {
        SimDisk { state: Arc::clone(&self.state), dir: format!("{}{name}/", self.dir) }
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.dir)
    }

    /// The name within this directory, of a file that is in it.
    fn within<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&self.dir).filter(|name| !name.contains('/'))
    }

    /// How many changing operations (create, write, allocate, truncate, rename, remove, sync) were
    /// asked for so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// The clock that a slow disk moves.
    pub fn set_clock(&self, clock: &SimClock) {
        self.state.lock().clock = Some(clock.clone());
    }

    /// How many reads were asked for so far.
    pub fn reads(&self) -> u64 {
        self.state.lock().reads
    }

    /// The most bytes that all files together may have from now on; `None` for no bound. A file that
    /// has no name counts until it is closed.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Bytes that all files have.
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// Bytes written and syncs done so far.
    pub fn traffic(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.bytes_written, state.syncs)
    }

    /// Arms a fault; it replaces the last one.
    pub fn set_fault(&self, fault: Fault) {
        self.state.lock().fault = Some(fault);
    }

    /// The cause is gone: nothing fails any more, and there is room. Power that was lost stays lost.
    pub fn clear_faults(&self) {
        let mut state = self.state.lock();
        state.fault = None;
        state.capacity = None;
    }

    /// Whether a power cut has struck.
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// The disk that a machine finds when power comes back. The old one stays as it was.
    pub fn reboot(&self, cut: Cut, seed: u64) -> SimDisk {
        let random = SeededRandom::new(seed);
        let state = self.state.lock();
        let mut names = state.durable_names.clone();
        for change in &state.pending_names {
            let there = match cut {
                Cut::Kept => true,
                Cut::Dropped => false,
                Cut::Reordered | Cut::Torn => random.one_in(2),
            };
            if there {
                change.apply(&mut names);
            }
        }
        let names: BTreeMap<String, Inode> = names
            .into_iter()
            .map(|(name, inode)| {
                let bytes = inode.lock().after(cut, &random);
                let content = Content { now: bytes.clone(), durable: bytes, ..Content::default() };
                (name, Arc::new(Mutex::new(content)))
            })
            .collect();
        let fresh = State { durable_names: names.clone(), names, ..State::default() };
        SimDisk { state: Arc::new(Mutex::new(fresh)), dir: self.dir.clone() }
    }

    /// The bytes of a file, as a program would read them.
    pub fn peek(&self, name: &str) -> Option<Vec<u8>> {
        let inode = self.state.lock().names.get(&self.path(name)).cloned()?;
        let bytes = inode.lock().now.clone();
        Some(bytes)
    }

    /// Changes a file behind everybody's back: rot. The name is made when it does not exist.
    pub fn poke(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let content = Content { now: bytes.clone(), durable: bytes, ..Content::default() };
        let path = self.path(name);
        match state.names.get(&path) {
            Some(inode) => *inode.lock() = content,
            None => {
                let inode = Arc::new(Mutex::new(content));
                state.names.insert(path.clone(), Arc::clone(&inode));
                state.durable_names.insert(path, inode);
            }
        }
    }

    /// Loses a file behind everybody's back.
    pub fn lose(&self, name: &str) {
        let mut state = self.state.lock();
        state.names.remove(&self.path(name));
        state.durable_names.remove(&self.path(name));
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        if state.dead {
            return Err(power_lost());
        }
        let names = state.names.keys().filter_map(|path| self.within(path));
        Ok(names.map(str::to_owned).collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.step(Step::Create)?;
        let path = self.path(name);
        if state.names.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = Inode::default();
        let change = NameChange::Link(path, Arc::clone(&inode));
        change.apply(&mut state.names);
        state.pending_names.push(change);
        drop(state);
        Ok(SimFile::open(self, inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let state = self.state.lock();
        if state.dead {
            return Err(power_lost());
        }
        match state.names.get(&self.path(name)) {
            Some(inode) => Ok(SimFile::open(self, Arc::clone(inode))),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.step(Step::Other)?;
        let (from, to) = (self.path(from), self.path(to));
        if !state.names.contains_key(&from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if from != to {
            state.set_aside(&to);
        }
        let change = NameChange::Rename(from, to);
        change.apply(&mut state.names);
        state.pending_names.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.step(Step::Other)?;
        let path = self.path(name);
        if !state.names.contains_key(&path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.set_aside(&path);
        let change = NameChange::Unlink(path);
        change.apply(&mut state.names);
        state.pending_names.push(change);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let outcome = state.step(Step::Sync);
        state.syncs += 1;
        if state.dead {
            return outcome;
        }
        // A sync that fails forgets what it should have written, as kernels do: a later one that
        // succeeds says nothing about it.
        let pending = std::mem::take(&mut state.pending_names);
        let own = |change: &NameChange| self.within(change.name()).is_some();
        let (pending, others): (Vec<_>, Vec<_>) = pending.into_iter().partition(own);
        state.pending_names = others;
        if outcome.is_ok() {
            for change in pending {
                change.apply(&mut state.durable_names);
            }
        }
        outcome
    }

    fn lock(&self, _name: &str) -> io::Result<Lock> {
        let mut state = self.state.lock();
        if state.locked {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the simulated disk is in use by process 0",
            ));
        }
        state.locked = true;
        Ok(Lock::new(SimLock(self.clone())))
    }

    fn lock_shared(&self, _name: &str) -> io::Result<Option<Lock>> {
        // Readers come one at a time here.
        self.lock("").map(Some)
    }

    fn describe(&self) -> String {
        "the simulated disk".to_owned()
    }
}

#[derive(Debug)]
struct SimLock(SimDisk);

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.state.lock().locked = false;
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: Inode,
}

impl SimFile {
    fn open(disk: &SimDisk, inode: Inode) -> Arc<dyn File> {
        inode.lock().open += 1;
        Arc::new(SimFile { disk: disk.clone(), inode })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.inode.lock().open -= 1;
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        if self.disk.is_dead() {
            return Err(power_lost());
        }
        Ok(self.inode.lock().now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.state.lock().read()?;
        let content = self.inode.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| content.now.get(start..end))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        let len = self.inode.lock().now.len() as u64;
        let end = offset + bytes.len() as u64;
        let outcome = state.step(Step::Write).and_then(|()| state.has_room(len, end));
        // A write that is cut short by anything leaves its first half.
        let mut done = if outcome.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        if state.has_room(len, offset + done.len() as u64).is_err() {
            done = &[];
        }
        state.bytes_written += done.len() as u64;
        drop(state);
        self.inode.lock().change(Change::Write(offset as usize, done.to_vec()));
        outcome
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        {
            let mut state = self.disk.state.lock();
            state.step(Step::Allocate)?;
            let now = self.inode.lock().now.len() as u64;
            state.has_room(now, len)?;
        }
        let mut content = self.inode.lock();
        if content.now.len() < len as usize {
            content.change(Change::Resize(len as usize));
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.state.lock().step(Step::Other)?;
        self.inode.lock().change(Change::Resize(len as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        let outcome = state.step(Step::Sync);
        state.syncs += 1;
        if state.dead {
            return outcome;
        }
        drop(state);
        let mut content = self.inode.lock();
        let pending = std::mem::take(&mut content.pending);
        if outcome.is_ok() {
            for change in pending {
                change.apply(&mut content.durable);
            }
        }
        outcome
    }
}
