//! The whole stack: a session of the core, on an engine, on a simulated disk.

use super::Story;
use super::machine::{Kernel, Machine};
use super::picture::{Contents, Picture, read};
use super::script::{HELD, Step};
use base::checksum::hash64;
use base::{Clock, Random, Scheduler, SeededRandom, SimClock, SimDisk};
use fs::schema::{BackingRecord, Form, Inode, Parsed};
use fs::{
    Atime, Caller, Check, Fallocate, FormatOptions, Handle, Ino, Kind, NoProgress, OpenFlags, ROOT,
    RenameFlags, Repair, Session, SessionOptions, SetAttr, Time, Volume, World, XattrMode,
};
use home::{Home, SimHome};
use kv::mem::Mem;
use kv::sim::{Faults, Sim};
use kv::{Capabilities, Durability, Engine, Key, KeyRange, Query, Read, Retry, Store};
use kv_local::{Local, Options};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const VOLUME: &str = "life";
/// Layers so small that a life folds and merges many times.
const MEMORY_BYTES: usize = 400_000;
const LEVEL_SCALE: u64 = 1 << 14;
/// So small that a large write takes several transactions.
const TXN_BYTES: usize = 200_000;
const VALUE_BYTES: usize = 10_000;
/// How long closed files wait before they are settled.
const SETTLED_AFTER: Duration = Duration::from_secs(6);
/// Rounds of background work after which there should be none left.
const ROUNDS_MAX: usize = 1_000;

/// A mounted volume.
#[derive(Debug)]
pub struct Stack {
    /// What it is on; nothing under the reference engine.
    on: Option<(SimDisk, Option<Arc<SimHome>>)>,
    local: Option<Local>,
    story: Story,
    clock: SimClock,
    session: Session,
    held: [Option<(Handle, Ino)>; HELD],
    /// Changes that sessions before this one made the short way.
    short_before: u64,
}

fn io(words: impl Into<String>) -> fs::Error {
    fs::Error::new(Kind::Io, words.into())
}

/// Runs a future to its end, moving the clock when it waits.
fn run<T: Send + 'static>(
    clock: &SimClock,
    future: impl Future<Output = fs::Result<T>> + Send + 'static,
) -> fs::Result<T> {
    let done = Arc::new(Mutex::new(None));
    let into = Arc::clone(&done);
    let mut scheduler = Scheduler::new(1, clock.clone());
    scheduler.spawn(async move {
        let outcome = future.await;
        *into.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    });
    let _ = scheduler.run();
    let outcome = done.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.unwrap_or_else(|| Err(io("it waits for something that never comes: a hang")))
}

/// The options of the engine under every life.
pub fn options() -> Options {
    Options { memory_bytes: MEMORY_BYTES, level_scale: LEVEL_SCALE }
}

fn open_local(disk: &SimDisk) -> fs::Result<Local> {
    Ok(Local::open(Arc::new(disk.clone()), None, &SeededRandom::new(1), options())?)
}

/// Half of the lives make changes without a transaction; in the others, where a commit could end unknown, replies are
/// logged.
fn goes_the_short_way(story: Story) -> bool {
    (story.seed / 4).is_multiple_of(2)
}

/// What a volume of a story is in; `seed` is for what is drawn there.
fn world(
    engine: Arc<dyn Engine>,
    clock: &SimClock,
    home: Option<Arc<SimHome>>,
    story: Story,
    seed: u64,
) -> World {
    let bounds = engine.capabilities().clone();
    let bounds = Capabilities { txn_bytes_max: TXN_BYTES, value_bytes_max: VALUE_BYTES, ..bounds };
    let sim = match goes_the_short_way(story) {
        true => Sim::bounded(engine, clock.clone(), bounds),
        false => Sim::with_bounds(engine, clock.clone(), 1, Faults::NONE, bounds),
    };
    let shared = Arc::new(clock.clone());
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
    let retry = Retry { attempts_max: 4, ..Retry::default() };
    let store = Store::new(Arc::new(sim), shared.clone(), Arc::clone(&random)).with_retry(retry);
    let home = home.map(|home| home as Arc<dyn Home>);
    World { store, clock: shared, random, home }
}

fn session_options() -> SessionOptions {
    SessionOptions { atime: Atime::Off, ..SessionOptions::default() }
}

/// Every third seed keeps parity, where bytes are in the store.
fn format_options(Story { seed, home, .. }: Story) -> FormatOptions {
    FormatOptions {
        chunk_bytes: 1 << 20,
        block_bytes: Some(4_096),
        inline_bytes_max: Some(1_024),
        codec: if seed.is_multiple_of(2) {
            fs::blob::block::Codec::Lz4
        } else {
            fs::blob::block::Codec::None
        },
        parity_group: if seed.is_multiple_of(3) && !home { 4 } else { 0 },
        ..FormatOptions::default()
    }
}

impl Stack {
    /// A new volume on the reference engine.
    pub fn on_memory(story: &Story) -> Result<Self, String> {
        let clock = SimClock::new();
        let world = world(Arc::new(Mem::new()), &clock, None, *story, story.seed);
        Self::begin(None, None, *story, clock, world, true).map_err(|error| error.to_string())
    }

    /// A new volume on the embedded engine.
    pub fn format(machine: &Machine, story: &Story) -> fs::Result<Self> {
        Self::mount(machine, *story, true)
    }

    /// The volume that is on a disk, as a machine finds it.
    pub fn open(machine: &Machine, story: &Story) -> fs::Result<Self> {
        machine.clock.advance(Duration::from_millis(1));
        Self::mount(machine, *story, false)
    }

    fn mount(machine: &Machine, story: Story, format: bool) -> fs::Result<Self> {
        let local = open_local(&machine.disk)?;
        let home = machine.home.clone();
        // No two sessions draw the same number, as replies to the one would be those to the other.
        let seed = hash64(story.seed, &machine.clock.now().as_nanos().to_le_bytes());
        let world = world(Arc::new(local.clone()), &machine.clock, home.clone(), story, seed);
        let on = Some((machine.disk.clone(), home));
        Self::begin(on, Some(local), story, machine.clock.clone(), world, format)
    }

    /// What is left of the volume on a disk, which is not written to, and what is said of the rest.
    pub fn recover(machine: &Machine, story: &Story) -> fs::Result<(Self, Vec<String>)> {
        let disk = Arc::new(machine.disk.clone());
        let (local, notes) = Local::recover(disk, &SeededRandom::new(1), options())?;
        let home = machine.home.clone();
        let world =
            world(Arc::new(local.clone()), &machine.clock, home.clone(), *story, story.seed);
        let on = Some((machine.disk.clone(), home));
        let stack = Self::begin(on, Some(local), *story, machine.clock.clone(), world, false)?;
        Ok((stack, notes))
    }

    fn begin(
        on: Option<(SimDisk, Option<Arc<SimHome>>)>,
        local: Option<Local>,
        story: Story,
        clock: SimClock,
        world: World,
        format: bool,
    ) -> fs::Result<Self> {
        let session = run(&clock, async move {
            let volume = match format {
                true => Volume::format(&world, VOLUME, &format_options(story)).await?,
                false => Volume::open(&world, VOLUME).await?,
            };
            start(&volume).await
        })?;
        Ok(Self { on, local, story, clock, session, held: [None; HELD], short_before: 0 })
    }

    /// What the volume on a disk looks like to a check, before anybody has mounted it.
    pub fn check_disk(machine: &Machine, story: &Story) -> fs::Result<Vec<String>> {
        let local = open_local(&machine.disk)?;
        let home = machine.home.clone();
        let world = world(Arc::new(local), &machine.clock, home, *story, story.seed);
        run(&machine.clock, async move { findings(&Volume::open(&world, VOLUME).await?).await })
    }

    /// What a check finds.
    pub fn check(&self) -> fs::Result<Vec<String>> {
        let volume = self.session.volume().clone();
        run(&self.clock, async move { findings(&volume).await })
    }

    /// What the volume looks like.
    pub fn picture(&self) -> Result<Picture, String> {
        self.look().map_err(|error| format!("it cannot be looked at: {error}"))
    }

    /// The same, with the error that the core gave.
    pub fn look(&self) -> fs::Result<Picture> {
        let session = self.session.clone();
        run(&self.clock, async move { Picture::take(&session).await })
    }

    /// Writes a file, syncs it, reads it back and removes it: whether the volume works.
    pub fn probe(&self) -> fs::Result<()> {
        let session = self.session.clone();
        run(&self.clock, async move {
            let caller = Caller::root();
            let flags = OpenFlags::READ_WRITE;
            let (_, handle) = session.create(&caller, ROOT, b".probe", 0o600, flags).await?;
            let bytes = vec![7; 9_000];
            let outcome = async {
                session.write(&caller, handle, 0, &bytes).await?;
                session.fsync(handle).await?;
                match session.read(handle, 0, bytes.len()).await? == bytes {
                    true => Ok(()),
                    false => Err(io("what was written was not read")),
                }
            };
            let outcome = outcome.await;
            session.release(handle).await?;
            session.unlink(&caller, ROOT, b".probe").await?;
            outcome
        })
    }

    /// Whether blocks can be repaired.
    pub fn has_parity(&self) -> bool {
        self.session.volume().record().parity_group > 0
    }

    /// Changes that were made without a transaction so far.
    pub fn short_changes(&self) -> u64 {
        self.short_before + self.session.counts().short_changes
    }

    /// Blocks that were repaired so far.
    pub fn repaired(&self) -> u64 {
        self.session.counts().repaired_blocks
    }

    /// The keys of all blocks.
    pub fn block_keys(&self) -> fs::Result<Vec<Key>> {
        let volume = self.session.volume().clone();
        run(&self.clock, async move {
            let mut txn = volume.world().store.begin().await?;
            let mut found = Vec::new();
            let mut next = Some(Query::new(KeyRange::all()));
            while let Some(query) = next {
                let page = txn.range(&query, Read::Snapshot).await?;
                let is_block =
                    |key: &[u8]| matches!(volume.keys().parse(key), Some(Parsed::Block(_)));
                let blocks = page.iter().filter(|(key, _)| is_block(key));
                found.extend(blocks.map(|(key, _)| Key::new(key)));
                next = if page.more { query.behind(&page) } else { None };
            }
            Ok(found)
        })
    }

    /// Which inode has which file of the home on a disk, before anybody has mounted it, and whether it is lent it.
    pub fn owners(machine: &Machine, story: &Story) -> fs::Result<BTreeMap<u64, (Ino, bool)>> {
        let local = open_local(&machine.disk)?;
        let home = machine.home.clone();
        let world = world(Arc::new(local), &machine.clock, home, *story, story.seed);
        run(&machine.clock, async move {
            let volume = Volume::open(&world, VOLUME).await?;
            let mut txn = volume.world().store.begin().await?;
            let mut found = BTreeMap::new();
            let mut next = Some(Query::new(KeyRange::all()));
            while let Some(query) = next {
                let page = txn.range(&query, Read::Snapshot).await?;
                for (key, value) in page.iter() {
                    match volume.keys().parse(key) {
                        Some(Parsed::Inode { ino }) => {
                            let inode = Inode::decode(key, ino, value);
                            if let Some(inode) = inode.filter(|inode| inode.form == Form::Local) {
                                found.entry(inode.blob).or_insert((ino, false));
                            }
                        }
                        Some(Parsed::Backing { blob }) => {
                            let record = BackingRecord::decode(key, value);
                            if let Some(record) = record.filter(|record| record.ino != 0) {
                                found.insert(blob, (record.ino, true));
                            }
                        }
                        _ => {}
                    }
                }
                next = if page.more { query.behind(&page) } else { None };
            }
            Ok(found)
        })
    }

    /// Mends what a check of the volume on a disk finds, and tells what is left.
    pub fn repair_disk(machine: &Machine, story: &Story) -> fs::Result<Vec<String>> {
        let local = open_local(&machine.disk)?;
        let home = machine.home.clone();
        let world = world(Arc::new(local), &machine.clock, home, *story, story.seed);
        run(&machine.clock, async move {
            let volume = Volume::open(&world, VOLUME).await?;
            Repair::new(&volume).run(&NoProgress).await?;
            findings(&volume).await
        })
    }

    /// Flips a bit of a value behind the core's back.
    pub fn spoil(&self, key: &Key) -> fs::Result<()> {
        let (volume, key) = (self.session.volume().clone(), key.clone());
        run(&self.clock, async move {
            let mut txn = volume.world().store.begin().await?;
            if let Some(value) = txn.get(&key, Read::Snapshot).await? {
                let mut bytes = value.to_vec();
                let middle = bytes.len() / 2;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 8;
                }
                txn.put(&key, bytes)?;
            }
            Ok(txn.commit(Durability::Process).await.map(drop)?)
        })
    }

    /// Lets all background work be done.
    pub fn settle(&self) -> fs::Result<()> {
        let session = self.session.clone();
        run(&self.clock, async move {
            for _ in 0..ROUNDS_MAX {
                let settled = session.settle(true).await?;
                let idle = settled.settled + settled.recycled == 0 && !settled.more;
                if session.maintain().await?.is_quiet() && idle {
                    return Ok(());
                }
            }
            Err(io("background work never ends"))
        })
    }

    /// Stops the session in good order.
    pub fn stop(&self) -> fs::Result<()> {
        let session = self.session.clone();
        run(&self.clock, async move { session.stop().await })
    }

    /// Does one step of a script.
    pub fn step(&mut self, step: &Step) -> fs::Result<()> {
        self.clock.advance(Duration::from_millis(3));
        match step {
            Step::Flush => match &self.local {
                Some(local) => Ok(local.flush()?),
                None => Ok(()),
            },
            Step::Restart => self.restart(),
            Step::Settle { all } => {
                if !all {
                    self.clock.advance(SETTLED_AFTER);
                }
                let (session, all) = (self.session.clone(), *all);
                run(&self.clock, async move { session.settle(all).await.map(drop) })
            }
            Step::Hold { slot, path } => self.hold(*slot, path, OpenFlags::READ_WRITE, false),
            Step::HoldNew { slot, path } => {
                let flags = OpenFlags { exclusive: true, ..OpenFlags::READ_WRITE };
                self.hold(*slot, path, flags, true)
            }
            Step::HoldAnew { slot, path } => {
                let flags = OpenFlags { truncate: true, ..OpenFlags::READ_WRITE };
                self.hold(*slot, path, flags, false)
            }
            Step::LetGo(slot) => {
                let held = self.held[*slot].take();
                self.with(held, |session, handle| async move { session.release(handle).await })
            }
            Step::FsyncHeld(slot) => {
                self.with(
                    self.held[*slot],
                    |session, handle| async move { session.fsync(handle).await },
                )
            }
            Step::WriteHeld { slot, offset, len, fill } => {
                let (bytes, offset) = (data(*len, *fill), *offset);
                self.with(self.held[*slot], |session, handle| async move {
                    session.write(&Caller::root(), handle, offset, &bytes).await.map(drop)
                })
            }
            step => {
                let (session, step) = (self.session.clone(), step.clone());
                run(&self.clock, async move { call(&session, &step).await })
            }
        }
    }

    /// Opens a file, or makes it, and keeps it open in place of another.
    fn hold(&mut self, slot: usize, path: &str, flags: OpenFlags, make: bool) -> fs::Result<()> {
        let (session, path) = (self.session.clone(), path.to_owned());
        let old = self.held[slot].take();
        self.held[slot] = Some(run(&self.clock, async move {
            if let Some((old, _)) = old {
                session.release(old).await?;
            }
            if make {
                let (dir, name) = parent(&session, &path).await?;
                let made = session.create(&Caller::root(), dir, name, 0o644, flags).await;
                return made.map(|(attr, handle)| (handle, attr.ino));
            }
            let ino = find(&session, &path).await?;
            Ok((session.open(&Caller::root(), ino, flags).await?, ino))
        })?);
        Ok(())
    }

    /// Does something with a file that is held, if one is.
    fn with<F>(
        &self,
        held: Option<(Handle, Ino)>,
        body: impl FnOnce(Session, Handle) -> F,
    ) -> fs::Result<()>
    where
        F: Future<Output = fs::Result<()>> + Send + 'static,
    {
        match held {
            Some((handle, _)) => run(&self.clock, body(self.session.clone(), handle)),
            None => Ok(()),
        }
    }

    /// When files that are held open changed, and what is in them.
    pub fn held(&self) -> fs::Result<Vec<(Time, Contents)>> {
        let mut found = Vec::new();
        for (handle, ino) in self.held.into_iter().flatten() {
            let session = self.session.clone();
            found.push(run(&self.clock, async move {
                let attr = session.getattr(ino).await?;
                let bytes = Arc::new(read(&session, handle, attr.size).await?);
                Ok((attr.mtime, Contents { ino, bytes }))
            })?);
        }
        Ok(found)
    }

    /// The inode of a slot.
    pub fn in_slot(&self, slot: usize) -> Option<Ino> {
        self.held[slot].map(|(_, ino)| ino)
    }

    fn restart(&mut self) -> fs::Result<()> {
        self.held = [None; HELD];
        let Some((disk, home)) = self.on.clone() else {
            // The reference has nothing to close: a new session does.
            let session = self.session.clone();
            self.session = run(&self.clock, async move {
                session.stop().await?;
                start(session.volume()).await
            })?;
            return Ok(());
        };
        self.stop()?;
        if let Some(local) = self.local.take() {
            local.close()?;
        }
        let machine = Machine { disk, clock: self.clock.clone(), home };
        let short_before = self.short_changes();
        *self = Self::mount(&machine, self.story, false)?;
        self.short_before = short_before;
        Ok(())
    }
}

/// A session. Where there is a home, files are ready when the first is made.
async fn start(volume: &Volume) -> fs::Result<Session> {
    let session = Session::start(volume, session_options()).await?;
    session.set_registrar(Some(Arc::new(Kernel::default())));
    session.settle(false).await?;
    Ok(session)
}

async fn findings(volume: &Volume) -> fs::Result<Vec<String>> {
    let report = Check::new(volume).run(&NoProgress).await?;
    let mut found: Vec<String> = report
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.kind, finding.what))
        .collect();
    if !report.complete {
        found.push("the check did not come to its end".to_owned());
    }
    Ok(found)
}

/// Bytes that do not compress to nothing, and tell one write from another.
fn data(len: usize, fill: u8) -> Vec<u8> {
    (0..len).map(|at| fill.wrapping_add((at / 7) as u8).wrapping_mul(31)).collect()
}

async fn find(session: &Session, path: &str) -> fs::Result<Ino> {
    let mut ino = ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        ino = session.lookup(&Caller::root(), ino, name.as_bytes()).await?.ino;
    }
    Ok(ino)
}

async fn parent<'a>(session: &Session, path: &'a str) -> fs::Result<(Ino, &'a [u8])> {
    let (place, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok((find(session, place).await?, name.as_bytes()))
}

async fn call(session: &Session, step: &Step) -> fs::Result<()> {
    let caller = &Caller::root();
    match step {
        Step::Mkdir(path) => {
            let (dir, name) = parent(session, path).await?;
            session.mkdir(caller, dir, name, 0o755).await.map(drop)
        }
        Step::Rmdir(path) => {
            let (dir, name) = parent(session, path).await?;
            session.rmdir(caller, dir, name).await
        }
        Step::Create(path) => {
            let (dir, name) = parent(session, path).await?;
            let flags = OpenFlags { exclusive: true, ..OpenFlags::READ_WRITE };
            let (_, handle) = session.create(caller, dir, name, 0o644, flags).await?;
            session.release(handle).await
        }
        Step::Write { path, offset, len, fill } => {
            with_file(session, path, OpenFlags::READ_WRITE, async |handle| {
                session.write(caller, handle, *offset, &data(*len, *fill)).await.map(drop)
            })
            .await
        }
        Step::Append { path, len, fill } => {
            let flags = OpenFlags { append: true, ..OpenFlags::READ_WRITE };
            with_file(session, path, flags, async |handle| {
                session.write(caller, handle, 0, &data(*len, *fill)).await.map(drop)
            })
            .await
        }
        Step::Punch { path, offset, len } => {
            fallocate(session, path, Fallocate::PunchHole, *offset, *len).await
        }
        Step::Allocate { path, offset, len, keep_size } => {
            let what = Fallocate::Allocate { keep_size: *keep_size };
            fallocate(session, path, what, *offset, *len).await
        }
        Step::Zero { path, offset, len, keep_size } => {
            let what = Fallocate::ZeroRange { keep_size: *keep_size };
            fallocate(session, path, what, *offset, *len).await
        }
        Step::SyncAll => session.sync_all().await,
        Step::Fsync(path) => {
            with_file(session, path, OpenFlags::READ, async |handle| session.fsync(handle).await)
                .await
        }
        Step::Truncate { path, size } => {
            let ino = find(session, path).await?;
            let set = SetAttr { size: Some(*size), ..SetAttr::default() };
            session.setattr(caller, ino, &set, None).await.map(drop)
        }
        Step::Chmod { path, mode } => {
            let ino = find(session, path).await?;
            let set = SetAttr { mode: Some(*mode), ..SetAttr::default() };
            session.setattr(caller, ino, &set, None).await.map(drop)
        }
        Step::Symlink { path, target } => {
            let (dir, name) = parent(session, path).await?;
            session.symlink(caller, dir, name, target.as_bytes()).await.map(drop)
        }
        Step::Link { path, to } => {
            let ino = find(session, path).await?;
            let (dir, name) = parent(session, to).await?;
            session.link(caller, ino, dir, name).await.map(drop)
        }
        Step::Unlink(path) => {
            let (dir, name) = parent(session, path).await?;
            session.unlink(caller, dir, name).await
        }
        Step::Rename { path, to, no_replace, exchange } => {
            let (dir, name) = parent(session, path).await?;
            let (new_dir, new_name) = parent(session, to).await?;
            let flags = RenameFlags {
                no_replace: *no_replace,
                exchange: *exchange,
                ..RenameFlags::default()
            };
            session.rename(caller, dir, name, new_dir, new_name, flags).await
        }
        Step::SetXattr { path, name, len, fill } => {
            let ino = find(session, path).await?;
            let value = data(*len, *fill);
            session.setxattr(caller, ino, name.as_bytes(), &value, XattrMode::Any).await
        }
        Step::RemoveXattr { path, name } => {
            let ino = find(session, path).await?;
            session.removexattr(caller, ino, name.as_bytes()).await
        }
        Step::SyncDir(path) => {
            let ino = find(session, path).await?;
            let handle = session.opendir(caller, ino).await?;
            let outcome = session.fsyncdir(handle).await;
            session.releasedir(handle).await?;
            outcome
        }
        Step::Maintain => session.maintain().await.map(drop),
        Step::Hold { .. }
        | Step::HoldNew { .. }
        | Step::HoldAnew { .. }
        | Step::WriteHeld { .. }
        | Step::FsyncHeld(_)
        | Step::LetGo(_)
        | Step::Settle { .. }
        | Step::Flush
        | Step::Restart => Ok(()),
    }
}

async fn fallocate(
    session: &Session,
    path: &str,
    what: Fallocate,
    offset: u64,
    len: u64,
) -> fs::Result<()> {
    with_file(session, path, OpenFlags::READ_WRITE, async |handle| {
        session.fallocate(&Caller::root(), handle, what, offset, len).await
    })
    .await
}

async fn with_file(
    session: &Session,
    path: &str,
    flags: OpenFlags,
    body: impl AsyncFnOnce(Handle) -> fs::Result<()>,
) -> fs::Result<()> {
    let ino = find(session, path).await?;
    let handle = session.open(&Caller::root(), ino, flags).await?;
    let outcome = body(handle).await;
    session.release(handle).await?;
    outcome
}
