//! A home on a simulated disk, for tests: it loses power, runs full and fails as the disk does.

use crate::{Backing, Home, Place, Stat, Wanted};
use base::sync::Mutex;
use base::{Clock, Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The unit in which its files take room.
const PAGE: u64 = 4096;
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
        Self { disk, clock, life, times: Arc::default(), stand_in: None, read_only: false }
    }

    /// Its files get a descriptor, of `/dev/null`: for who registers them with a kernel that is none.
    pub fn with_descriptors(mut self) -> io::Result<Self> {
        self.stand_in = Some(Arc::new(std::fs::File::open("/dev/null")?.into()));
        Ok(self)
    }

    /// Nothing of it may be changed.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The home that a machine finds when power comes back, on what the disk is then.
    #[must_use]
    pub fn reborn(&self, disk: Arc<dyn Disk>) -> Self {
        let durable = self.times.lock().durable.clone();
        let times = Arc::new(Mutex::new(Clocked { now: durable.clone(), durable }));
        let (clock, stand_in) = (Arc::clone(&self.clock), self.stand_in.clone());
        Self { disk, clock, life: self.life + 1, times, stand_in, read_only: false }
    }

    /// The same home, for who looks at it when its user is gone.
    #[must_use]
    pub fn sharing(&self) -> Self {
        let (disk, times) = (Arc::clone(&self.disk), Arc::clone(&self.times));
        let (clock, stand_in) = (Arc::clone(&self.clock), self.stand_in.clone());
        Self { disk, clock, life: self.life, times, stand_in, read_only: self.read_only }
    }

    /// The same home in the same life of the machine, on a copy of the disk: for another process.
    #[must_use]
    pub fn on_copy(&self, disk: Arc<dyn Disk>) -> Self {
        let times = Arc::new(Mutex::new(self.times.lock().clone()));
        let (clock, stand_in) = (Arc::clone(&self.clock), self.stand_in.clone());
        Self { disk, clock, life: self.life, times, stand_in, read_only: self.read_only }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn backing(&self, place: Place, file: Arc<dyn File>) -> Arc<dyn Backing> {
        let (clock, times) = (Arc::clone(&self.clock), Arc::clone(&self.times));
        let (disk, stand_in) = (Arc::clone(&self.disk), self.stand_in.clone());
        Arc::new(SimFile { place, file, disk, clock, times, stand_in })
    }
}

fn name(place: Place) -> String {
    format!("{}-{}", place.volume, place.blob)
}

impl Home for SimHome {
    fn make(&self, place: Place) -> io::Result<Arc<dyn Backing>> {
        self.check_writable()?;
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
