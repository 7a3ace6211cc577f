//! A home on a simulated disk, for tests: it loses power, runs full and fails as the disk does.

use crate::opened::{Open, Opened};
use crate::{Backing, Home, Place, Stat, Wanted};
use base::sync::Mutex;
use base::{Clock, Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The unit in which its files take room.
const PAGE: u64 = 4096;
/// Linux: too many open files.
const EMFILE: i32 = 24;
/// How many of its files can be open, if not said otherwise.
const OPEN_MAX: usize = 4096;
/// The most bytes of a file: all of them are in memory.
const LEN_MAX: u64 = 1 << 28;

/// Files `V-N` of a disk. Times are kept beside it: those of files that were synced outlive the machine.
#[derive(Debug)]
pub struct SimHome {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    life: u64,
    times: Arc<Mutex<Clocked>>,
    stand_in: Option<Arc<OwnedFd>>,
    read_only: bool,
    opened: Opened,
    /// How many may be open.
    open_max: usize,
}

/// When files changed.
#[derive(Debug, Clone, Default)]
struct Clocked {
    now: BTreeMap<Place, Times>,
    /// As of their last sync.
    durable: BTreeMap<Place, Times>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    changed: (i64, u32),
    status_changed: (i64, u32),
}

impl SimHome {
    /// On a disk. `life` says which start of the machine this is.
    pub fn new(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, life: u64) -> Self {
        let (times, opened) = (Arc::default(), Opened::default());
        let (stand_in, open_max) = (None, OPEN_MAX);
        Self { disk, clock, life, times, stand_in, read_only: false, opened, open_max }
    }

    /// Its files get a descriptor, of `/dev/null`: for who registers them with a kernel that is none.
    pub fn with_descriptors(mut self) -> io::Result<Self> {
        self.stand_in = Some(Arc::new(std::fs::File::open("/dev/null")?.into()));
        Ok(self)
    }

    /// No more than so many of its files can be open.
    #[must_use]
    pub fn with_open_max(mut self, most: usize) -> Self {
        self.open_max = most;
        self
    }

    /// Nothing of it may be changed.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// For another process.
    fn another(&self, disk: Arc<dyn Disk>, times: Arc<Mutex<Clocked>>) -> Self {
        let (clock, stand_in) = (Arc::clone(&self.clock), self.stand_in.clone());
        let (life, read_only, open_max) = (self.life, self.read_only, self.open_max);
        let opened = Opened::default();
        Self { disk, clock, life, times, stand_in, read_only, opened, open_max }
    }

    /// The home that a machine finds when power comes back, on what the disk is then.
    #[must_use]
    pub fn reborn(&self, disk: Arc<dyn Disk>) -> Self {
        let durable = self.times.lock().durable.clone();
        let times = Arc::new(Mutex::new(Clocked { now: durable.clone(), durable }));
        Self { life: self.life + 1, read_only: false, ..self.another(disk, times) }
    }

    /// The same home, for who looks at it when its user is gone.
    #[must_use]
    pub fn sharing(&self) -> Self {
        self.another(Arc::clone(&self.disk), Arc::clone(&self.times))
    }

    /// The same home in the same life of the machine, on a copy of the disk: for another process.
    #[must_use]
    pub fn on_copy(&self, disk: Arc<dyn Disk>) -> Self {
        let times = self.times.lock().clone();
        self.another(disk, Arc::new(Mutex::new(times)))
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn check_room(&self) -> io::Result<()> {
        let full = self.opened.count() >= self.open_max;
        if full { Err(io::Error::from_raw_os_error(EMFILE)) } else { Ok(()) }
    }

    fn backing(&self, place: Place, file: Arc<dyn File>) -> Arc<dyn Backing> {
        let (clock, times) = (Arc::clone(&self.clock), Arc::clone(&self.times));
        let (disk, stand_in) = (Arc::clone(&self.disk), self.stand_in.clone());
        let _open = self.opened.one_more();
        Arc::new(SimFile { place, file, disk, clock, times, stand_in, _open })
    }
}

fn name(place: Place) -> String {
    format!("{}-{}", place.volume, place.blob)
}

impl Home for SimHome {
    fn make(&self, place: Place) -> io::Result<Arc<dyn Backing>> {
        self.check_writable()?;
        self.check_room()?;
        let file = match self.disk.create(&name(place)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.disk.open(&name(place))?;
                file.truncate(0)?;
                file
            }
            made => made?,
        };
        Ok(self.backing(place, file))
    }

    fn open(&self, place: Place) -> io::Result<Arc<dyn Backing>> {
        self.check_room()?;
        Ok(self.backing(place, self.disk.open(&name(place))?))
    }

    fn remove(&self, place: Place) -> io::Result<()> {
        self.check_writable()?;
        match self.disk.remove(&name(place)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn remove_all(&self, volume: u16) -> io::Result<()> {
        self.check_writable()?;
        let prefix = format!("{volume}-");
        for name in self.disk.list()?.iter().filter(|name| name.starts_with(&prefix)) {
            self.disk.remove(name)?;
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        for name in self.disk.list()? {
            if name.split_once('-').is_some_and(|(volume, _)| volume.parse::<u16>().is_ok()) {
                self.disk.open(&name)?.sync()?;
            }
        }
        self.disk.sync_dir()?;
        let mut times = self.times.lock();
        times.durable = times.now.clone();
        Ok(())
    }

    fn sync_names(&self, _: &[Place]) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn numbers(&self, volume: u16) -> io::Result<Vec<u64>> {
        let prefix = format!("{volume}-");
        let names = self.disk.list()?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn life(&self) -> u64 {
        self.life
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn open_max(&self) -> usize {
        self.open_max
    }

    fn open_count(&self) -> usize {
        self.opened.count()
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

#[derive(Debug)]
struct SimFile {
    place: Place,
    file: Arc<dyn File>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    times: Arc<Mutex<Clocked>>,
    stand_in: Option<Arc<OwnedFd>>,
    _open: Open,
}

impl SimFile {
    fn touch(&self) {
        let now = self.clock.wall();
        self.times.lock().now.insert(self.place, Times { changed: now, status_changed: now });
    }

    fn grow(&self, end: u64) -> io::Result<()> {
        if self.file.len()? < end { self.resize(end) } else { Ok(()) }
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        if len > LEN_MAX {
            return Err(io::Error::from_raw_os_error(27));
        }
        self.file.truncate(len)
    }
}

impl Backing for SimFile {
    fn stat(&self) -> io::Result<Stat> {
        let len = self.file.len()?;
        let Times { changed, status_changed } =
            self.times.lock().now.get(&self.place).copied().unwrap_or_default();
        Ok(Stat { len, taken: len.div_ceil(PAGE) * PAGE, changed, status_changed })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = self.file.len()?.saturating_sub(offset).min(buffer.len() as u64) as usize;
        if let Some(space) = buffer.get_mut(..len)
            && len > 0
        {
            self.file.read_at(space, offset)?;
        }
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset.saturating_add(bytes.len() as u64) > LEN_MAX {
            return Err(io::Error::from_raw_os_error(27));
        }
        self.file.write_at(bytes, offset)?;
        self.touch();
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.resize(len)?;
        self.touch();
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64, keep_len: bool) -> io::Result<()> {
        if !keep_len {
            self.grow(offset.saturating_add(len))?;
        }
        self.touch();
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.zero(offset, len, true)
    }

    fn zero(&self, offset: u64, len: u64, keep_len: bool) -> io::Result<()> {
        let end = offset.saturating_add(len);
        let within = end.min(self.file.len()?);
        if offset < within {
            self.file.write_at(&vec![0; (within - offset) as usize], offset)?;
        }
        self.allocate(offset, len, keep_len)
    }

    fn seek(&self, offset: u64, wanted: Wanted) -> io::Result<Option<u64>> {
        let len = self.file.len()?;
        Ok((offset < len).then_some(match wanted {
            Wanted::Data => offset,
            Wanted::Hole => len,
        }))
    }

    fn copy_from(&self, from: &dyn Backing, at: u64, to: u64, len: u64) -> io::Result<u64> {
        let room = from.stat()?.len.saturating_sub(at).min(len);
        let mut bytes = vec![0; room as usize];
        let read = from.read_at(&mut bytes, at)?;
        bytes.truncate(read);
        self.write_at(&bytes, to)?;
        Ok(read as u64)
    }

    fn set_changed(&self, at: (i64, u32)) -> io::Result<()> {
        // Without power nothing changes, not even what is kept beside the disk.
        self.file.len()?;
        let now = self.clock.wall();
        self.times.lock().now.insert(self.place, Times { changed: at, status_changed: now });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        let mut times = self.times.lock();
        if let Some(now) = times.now.get(&self.place).copied() {
            times.durable.insert(self.place, now);
        }
        Ok(())
    }

    fn sync_name(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn is_in_use(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stand_in.as_deref().map(AsFd::as_fd)
    }
}
