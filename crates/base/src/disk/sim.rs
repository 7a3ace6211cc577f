//! A disk in memory that can lose power, run full, fail and rot, at a chosen operation.

use super::{Disk, File, Lock, LockGuard};
use crate::random::{Random, SeededRandom};
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The unit that a disk writes whole.
const SECTOR_BYTES: usize = 512;

/// What becomes of changes that were not synced when power is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All of them are there: also what the death of the process alone leaves.
    Kept,
    /// None of them are.
    Dropped,
    /// Each is there or not by itself, as a disk that reorders leaves them.
    Reordered,
    /// Each sector of each write is there or not by itself.
    Torn,
}

/// What goes wrong at one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Power is lost: this operation and every later one fail, until [`SimDisk::reboot`].
    PowerCut,
    /// Operations that need room fail with "no space", from this one on, until
    /// [`SimDisk::clear_faults`]. Half of a failing write is on the disk.
    Full,
    /// This operation alone fails with an I/O error; of a write, half is on the disk.
    Error,
    /// Operations fail with an I/O error from this one on, until [`SimDisk::clear_faults`].
    Errors,
}

/// A fault and where it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The number of the changing operation, counted from zero since the disk was made.
    pub at: u64,
    /// What happens there.
    pub kind: FaultKind,
}

/// The disk. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Names as the running system sees them.
    names: BTreeMap<String, Inode>,
    /// Names as they were at the last directory sync.
    durable_names: BTreeMap<String, Inode>,
    /// Changes of names since then, oldest first.
    pending_names: Vec<NameChange>,
    locked: bool,
    /// Changing operations so far.
    operations: u64,
    fault: Option<Fault>,
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
    fn step(&mut self, needs_room: bool) -> io::Result<()> {
        if self.dead {
            return Err(power_lost());
        }
        let now = self.operations;
        self.operations += 1;
        let Some(fault) = self.fault else {
            return Ok(());
        };
        if now < fault.at {
            return Ok(());
        }
        match fault.kind {
            FaultKind::PowerCut => {
                self.dead = true;
                Err(power_lost())
            }
            FaultKind::Full if needs_room => {
                Err(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()))
            }
            FaultKind::Error if now == fault.at => Err(input_output()),
            FaultKind::Errors => Err(input_output()),
            FaultKind::Full | FaultKind::Error => Ok(()),
        }
    }
}

fn power_lost() -> io::Error {
    io::Error::other("simulated power cut")
}

fn input_output() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many changing operations (create, write, allocate, truncate, rename, remove, sync) were
    /// asked for so far.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Bytes written and syncs done so far.
    pub fn traffic(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.bytes_written, state.syncs)
    }

    /// Arms a fault; it replaces the last one.
    pub fn set_fault(&self, fault: Fault) {
        self.0.lock().fault = Some(fault);
    }

    /// The cause is gone: nothing fails any more. Power that was lost stays lost.
    pub fn clear_faults(&self) {
        self.0.lock().fault = None;
    }

    /// Whether a power cut has struck.
    pub fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    /// The disk that a machine finds when power comes back. The old one stays as it was.
    pub fn reboot(&self, cut: Cut, seed: u64) -> SimDisk {
        let random = SeededRandom::new(seed);
        let state = self.0.lock();
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
                let content = Content { now: bytes.clone(), durable: bytes, pending: Vec::new() };
                (name, Arc::new(Mutex::new(content)))
            })
            .collect();
        let fresh = State { durable_names: names.clone(), names, ..State::default() };
        SimDisk(Arc::new(Mutex::new(fresh)))
    }

    /// The bytes of a file, as a program would read them.
    pub fn peek(&self, name: &str) -> Option<Vec<u8>> {
        let inode = self.0.lock().names.get(name).cloned()?;
        let bytes = inode.lock().now.clone();
        Some(bytes)
    }

    /// Changes a file behind everybody's back: rot. The name is made when it does not exist.
    pub fn poke(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.0.lock();
        let content = Content { now: bytes.clone(), durable: bytes, pending: Vec::new() };
        match state.names.get(name) {
            Some(inode) => *inode.lock() = content,
            None => {
                let inode = Arc::new(Mutex::new(content));
                state.names.insert(name.to_owned(), Arc::clone(&inode));
                state.durable_names.insert(name.to_owned(), inode);
            }
        }
    }

    /// Loses a file behind everybody's back.
    pub fn lose(&self, name: &str) {
        let mut state = self.0.lock();
        state.names.remove(name);
        state.durable_names.remove(name);
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        if state.dead {
            return Err(power_lost());
        }
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.0.lock();
        state.step(true)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = Inode::default();
        let change = NameChange::Link(name.to_owned(), Arc::clone(&inode));
        change.apply(&mut state.names);
        state.pending_names.push(change);
        drop(state);
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let state = self.0.lock();
        if state.dead {
            return Err(power_lost());
        }
        match state.names.get(name) {
            Some(inode) => Ok(Arc::new(SimFile { disk: self.clone(), inode: Arc::clone(inode) })),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step(false)?;
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let change = NameChange::Rename(from.to_owned(), to.to_owned());
        change.apply(&mut state.names);
        state.pending_names.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.step(false)?;
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let change = NameChange::Unlink(name.to_owned());
        change.apply(&mut state.names);
        state.pending_names.push(change);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        let outcome = state.step(false);
        state.syncs += 1;
        if state.dead {
            return outcome;
        }
        // A sync that fails forgets what it should have written, as kernels do: a later one that
        // succeeds says nothing about it.
        let pending = std::mem::take(&mut state.pending_names);
        if outcome.is_ok() {
            for change in pending {
                change.apply(&mut state.durable_names);
            }
        }
        outcome
    }

    fn lock(&self, _name: &str) -> io::Result<Lock> {
        let mut state = self.0.lock();
        if state.locked {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the simulated disk is in use by process 0",
            ));
        }
        state.locked = true;
        Ok(Lock::new(SimLock(self.clone())))
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
        self.0.0.lock().locked = false;
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: Inode,
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        if self.disk.is_dead() {
            return Err(power_lost());
        }
        Ok(self.inode.lock().now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.disk.is_dead() {
            return Err(power_lost());
        }
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
        let mut state = self.disk.0.lock();
        let outcome = state.step(true);
        // A write that is cut short by anything leaves its first half.
        let done = if outcome.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        state.bytes_written += done.len() as u64;
        drop(state);
        self.inode.lock().change(Change::Write(offset as usize, done.to_vec()));
        outcome
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.0.lock().step(true)?;
        let mut content = self.inode.lock();
        if content.now.len() < len as usize {
            content.change(Change::Resize(len as usize));
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.0.lock().step(false)?;
        self.inode.lock().change(Change::Resize(len as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let outcome = state.step(false);
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
