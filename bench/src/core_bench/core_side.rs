//! The core: a private session on a volume.

use super::action::{Action, DIRECTORY_FILES, directory_name};
use super::options::Options;
use super::side::{Extent, INLINE_FILES, MAPPED_BYTES, Noise, Places, Side};
use super::work::{SMALL_BYTES, Who};
use crate::error::{Error, Result};
use base::{OsRandom, SystemClock, block_on};
use fs::{
    Caller, FormatOptions, Handle, Kind, OpenFlags, ROOT, RenameFlags, Session, SessionOptions,
    Volume, World, mode,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The user who owns everything, and whom the core has to check.
pub(super) const USER: u32 = 1000;

/// Entries that one call of readdirplus asks for.
const LIST_ENTRIES: usize = 1024;

/// A volume in a store, and a session on it.
pub(crate) struct Core {
    session: Session,
    root: Caller,
    user: Caller,
    places: Places,
    noise: Noise,
    turn: AtomicU64,
    data: OnceLock<Data>,
}

/// Open files with bytes in them.
struct Data {
    inline: Vec<Handle>,
    mapped: Handle,
}

impl Core {
    pub(crate) fn open(
        engine: Arc<dyn kv::Engine>,
        extent: Extent,
        options: &Options,
    ) -> Result<Self> {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(OsRandom::new()));
        let store = kv::Store::new(engine, clock.clone(), random.clone());
        let world = World { store, clock, random, home: None };
        let format = FormatOptions {
            uid: USER,
            gid: USER,
            codec: options.codec,
            ..FormatOptions::default()
        };
        let volume = block_on(Volume::format(&world, "bench", &format))?;
        let session = block_on(Session::start(&volume, SessionOptions::default()))?;
        Ok(Self {
            session,
            root: Caller { checked_here: false, ..Caller::root() },
            user: Caller::user(USER, USER),
            places: Places::new(extent),
            noise: Noise::new(),
            turn: AtomicU64::new(0),
            data: OnceLock::new(),
        })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The inode of a file that was loaded.
    pub(crate) fn file(&self, number: u64) -> u64 {
        self.places.file(number)
    }

    fn list(&self, caller: &Caller, directory: u64) -> Result<()> {
        let session = &self.session;
        let handle = block_on(session.opendir(caller, self.places.directory(directory)))?;
        let (mut cookie, mut entries) = (0, 0);
        loop {
            let page = block_on(session.readdirplus(handle, cookie, LIST_ENTRIES))?;
            let Some((last, _)) = page.last() else {
                break;
            };
            cookie = last.cookie;
            entries += page.len() as u64;
            black_box(page);
        }
        block_on(session.releasedir(handle))?;
        // `.` and `..` are entries too.
        if entries == DIRECTORY_FILES + 2 {
            return Ok(());
        }
        Err(Error::new(format!("directory {directory} has {entries} entries")))
    }

    fn data(&self) -> Result<&Data> {
        self.data.get().ok_or_else(|| Error::new("no files with bytes were made"))
    }

    fn write(&self, caller: &Caller, handle: Handle, offset: u64, len: usize) -> Result<()> {
        let bytes = self.noise.bytes(self.turn.fetch_add(1, Ordering::Relaxed), len);
        whole(block_on(self.session.write(caller, handle, offset, bytes))?, len)
    }

    fn read(&self, handle: Handle, offset: u64, len: usize) -> Result<()> {
        let bytes = black_box(block_on(self.session.read(handle, offset, len))?);
        whole(bytes.len(), len)
    }
}

fn whole(done: usize, wanted: usize) -> Result<()> {
    if done == wanted {
        return Ok(());
    }
    Err(Error::new(format!("{done} bytes instead of {wanted}")))
}

impl Side for Core {
    fn run(&self, who: Who, action: &Action) -> Result<()> {
        let session = &self.session;
        let caller = match who {
            Who::Root => &self.root,
            Who::User => &self.user,
        };
        let parent = |file: &super::action::File| self.places.directory(file.directory());
        match action {
            Action::Directory(number) => {
                let name = directory_name(*number);
                let attr = block_on(session.mkdir(&self.user, ROOT, &name, 0o755))?;
                self.places.note_directory(*number, attr.ino)?;
            }
            Action::Mknod(file) => {
                let mode = mode::FILE | 0o644;
                let attr = block_on(session.mknod(caller, parent(file), &file.name, mode, 0))?;
                self.places.note_file(file.number, attr.ino);
            }
            Action::Create(file) => {
                let flags = OpenFlags { exclusive: true, ..OpenFlags::READ_WRITE };
                let made = session.create(caller, parent(file), &file.name, 0o644, flags);
                let (attr, handle) = block_on(made)?;
                self.places.note_file(file.number, attr.ino);
                block_on(session.release(handle))?;
            }
            Action::Mkdir(file) => {
                black_box(block_on(session.mkdir(caller, parent(file), &file.name, 0o755))?);
            }
            Action::Lookup(file) => {
                black_box(block_on(session.lookup(caller, parent(file), &file.name))?);
            }
            Action::Missing(file) => {
                match block_on(session.lookup(caller, parent(file), &file.name)) {
                    Err(error) if error.kind() == Kind::NotFound => {}
                    Err(error) => return Err(error.into()),
                    Ok(_) => return Err(Error::new("a name that should not be there is")),
                }
            }
            Action::Getattr(number) => {
                black_box(block_on(session.getattr(self.places.file(*number)))?);
            }
            Action::Unlink(file) => {
                block_on(session.unlink(caller, parent(file), &file.name))?;
            }
            Action::Rename(file, to) => {
                let dir = parent(file);
                let flags = RenameFlags::default();
                block_on(session.rename(caller, dir, &file.name, dir, to, flags))?;
            }
            Action::List(directory) => self.list(caller, *directory)?,
            Action::WriteInline(index) => {
                self.write(caller, self.data()?.inline[*index as usize], 0, SMALL_BYTES)?;
            }
            Action::ReadInline(index) => {
                self.read(self.data()?.inline[*index as usize], 0, SMALL_BYTES)?;
            }
            Action::Write { offset, len } => {
                self.write(caller, self.data()?.mapped, *offset, *len)?;
            }
            Action::Read { offset, len } => self.read(self.data()?.mapped, *offset, *len)?,
        }
        Ok(())
    }

    fn prepare_data(&self) -> Result<()> {
        let (session, user) = (&self.session, &self.user);
        let home = block_on(session.mkdir(user, ROOT, b"data", 0o755))?.ino;
        let open = |name: String| {
            let made = session.create(user, home, name.as_bytes(), 0o644, OpenFlags::READ_WRITE);
            block_on(made).map(|(_, handle)| handle)
        };
        let mut inline = Vec::new();
        for index in 0..INLINE_FILES {
            let handle = open(format!("inline-{index}"))?;
            self.write(user, handle, 0, SMALL_BYTES)?;
            inline.push(handle);
        }
        let mapped = open("mapped".to_owned())?;
        let len = 1 << 20;
        for offset in (0..MAPPED_BYTES).step_by(len) {
            self.write(user, mapped, offset, len)?;
        }
        self.data.set(Data { inline, mapped }).map_err(|_| Error::new("made twice"))
    }

    fn rest(&self) -> Result<()> {
        block_on(self.session.maintain())?;
        Ok(())
    }
}
