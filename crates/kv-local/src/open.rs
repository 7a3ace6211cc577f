//! Opening a store: what is on disk, checked and put together.

use crate::commit::Pipeline;
use crate::error::{corrupt, io_error};
use crate::format::{self, Format};
use crate::latched::Latched;
use crate::levels::{Levels, Manifest, StoreError, manifest};
use crate::log::record::decode_changes;
use crate::log::{self, Log, Syncs, replay};
use crate::options::{Options, capabilities};
use crate::overlay::Overlay;
use crate::recover;
use crate::reserve::{self, Reserve, Sparing};
use crate::shared::{Catalog, Shared, Visible};
use crate::snapshots::Snapshots;
use crate::table::{self, Memory, Table};
use crate::work::Work;
use base::disk::Overlaid;
use base::sync::Mutex;
use base::{Disk, Random};
use kv::{Error, ErrorKind, Result, WatchTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

const LOCK: &str = "lock";

/// Opens a store. With `notes` it is opened to save what is left: nothing is written to the disk, and
/// what is damaged or lost is noted there and left out.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    random: &dyn Random,
    options: Options,
    mut notes: Option<&mut Vec<String>>,
) -> Result<Shared> {
    let read_only = notes.is_some();
    let disk = if read_only { Arc::new(Overlaid::new(disk)) } else { disk };
    let raw: Arc<dyn Disk> = Arc::new(Latched::new(disk));
    let slack = if read_only { 0 } else { options.slack_bytes() };
    let reserve = Arc::new(Reserve::open(&raw, slack));
    let disk: Arc<dyn Disk> =
        Arc::new(Sparing { disk: Arc::clone(&raw), reserve: Arc::clone(&reserve) });
    let lock = disk.lock(LOCK).map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::WouldBlock => "the store is open already; close it there first",
            _ => "cannot lock the store",
        };
        Error::new(ErrorKind::Unavailable, advice).caused_by(error)
    })?;
    let format = match (Format::load(&*disk, format::NAME), &mut notes) {
        (Ok(Some(format)), _) => format,
        (Ok(None), None) => create(&*disk, random)?,
        (Err(error), None) => return Err(error),
        (lost, Some(notes)) => recover::format(&*disk, lost, notes)?,
    };
    format.check(read_only)?;
    if !read_only {
        format.keep_copy(&*disk);
    }
    let store = format.store;
    let manifest = match (Manifest::load(&*disk, manifest::NAME, store), &mut notes) {
        (Ok(Some(manifest)), _) => manifest,
        (Ok(None), None) => return Err(recover::no_manifest()),
        (Err(error), None) => return Err(error),
        (lost, Some(notes)) => recover::manifest(&*disk, store, lost, notes)?,
    };
    remove_leftovers(&*disk, &manifest)?;
    let memory = Memory::new(options.cache_bytes(), options.pinned_bytes());
    let mut levels = Levels::default();
    // Level 0 is listed newest first and filled from its front.
    for (level, info) in manifest.tables.iter().rev() {
        let table = Table::open(&*disk, info.clone(), store, &memory);
        levels.add(usize::from(*level), Arc::new(table));
    }
    // As many indexes as may stay in memory: the first listing of a large directory looks into tables all over the
    // store, and would wait for each. What is damaged is told to whoever wants to read it.
    for (_, table) in levels.tables() {
        if matches!(table.pin(), Ok(false)) {
            break;
        }
    }

    let logs = replay::find(&*disk, manifest.first_log)?;
    if manifest.known_log >= manifest.first_log
        && !logs.iter().any(|log| log.number == manifest.known_log)
    {
        let lost = format!("{} is missing", log::name_of(manifest.known_log));
        match &mut notes {
            Some(notes) => notes.push(format!("{lost}: what was written last is gone")),
            None => return Err(corrupt(lost)),
        }
    }
    let mut active = Overlay::default();
    let mut apply = |version, payload: &[u8]| {
        for change in decode_changes(payload)? {
            change.apply(&mut active, version);
        }
        Some(())
    };
    let end = replay::replay(&*disk, &logs, manifest.folded, &mut apply, notes.as_deref_mut())?;
    if let Some(closed_at) = manifest.closed_at
        && closed_at > end.version
    {
        let lost = format!(
            "the log ends at version {}, but the store was closed at {closed_at}",
            end.version
        );
        match &mut notes {
            Some(notes) => notes.push(format!("{lost}: what was written between is gone")),
            None => return Err(corrupt(lost)),
        }
    }
    if let Some(notes) = &mut notes {
        notes.extend(levels.tables().filter_map(|(_, table)| table.lost()));
    }

    // A store that was closed had nothing left to sync.
    if !read_only && manifest.closed_at.is_none() {
        replay::write_again(&logs)?;
    }
    let number = logs.iter().map(|log| log.number).max().unwrap_or(0).max(manifest.known_log) + 1;
    let log = start_log(&raw, &reserve, number, &options)?;
    let syncs = Syncs::new(Arc::clone(&disk), manifest.folded);
    for old in &logs {
        // Commits of an earlier life that nobody synced yet.
        syncs.start_file(old.number, &old.file, false);
    }
    syncs.start_file(number, log.file(), false);
    disk.sync_dir().map_err(|error| io_error("cannot sync the store's directory", error))?;
    let manifest = Manifest { known_log: number, closed_at: None, ..manifest };
    manifest.store(&*disk, store).map_err(|error| match error {
        StoreError::Clean(error) | StoreError::Unknown(error) => error,
    })?;

    let next_table = AtomicU64::new(manifest.next_table);
    let merge_need = AtomicU64::new(levels.merge_bytes() + manifest.room());
    let shared = Shared {
        lock: Mutex::new(Some(lock)),
        store,
        capabilities: capabilities(),
        memory,
        queue: Mutex::default(),
        pipeline: Mutex::new(Pipeline::new(log)),
        visible: Mutex::new(Visible {
            version: end.version,
            active,
            active_since: end.version,
            generation: 0,
            frozen: None,
            recent: None,
            floor: end.version,
            levels: Arc::new(levels),
        }),
        catalog: Mutex::new(Catalog { manifest }),
        next_table,
        syncs,
        watches: WatchTable::default(),
        snapshots: Snapshots::default(),
        work: Work::default(),
        folds: Mutex::new(()),
        merges: Mutex::new(0),
        merges_done: AtomicU64::new(0),
        merge_need,
        reclaim_due: AtomicBool::new(true),
        read_only,
        reserve,
        raw,
        disk,
        options,
    };
    // Without it the store can be read, and written as soon as there is room.
    let _ = shared.retarget(&shared.pipeline.lock());
    Ok(shared)
}

/// Starts a log. It grows by room of its own, but its name may need some of the reserve.
pub(crate) fn start_log(
    raw: &Arc<dyn Disk>,
    reserve: &Reserve,
    number: u64,
    options: &Options,
) -> Result<Log> {
    let start = || Log::create(&**raw, number, options.log_step_bytes());
    match start() {
        Err(error) if error.kind() == ErrorKind::Full && reserve.give(0, false) => start(),
        started => started,
    }
}

/// Makes an empty store in an empty directory.
fn create(disk: &dyn Disk, random: &dyn Random) -> Result<Format> {
    let names = disk.list().map_err(|error| io_error("cannot list the directory", error))?;
    let ours = [
        LOCK,
        format::NEW_NAME,
        format::COPY_NAME,
        manifest::COPY_NAME,
        reserve::NAME,
        "manifest",
        "manifest.new",
    ];
    if let Some(stranger) = names.iter().find(|name| !ours.contains(&name.as_str())) {
        let place = disk.describe();
        return Err(if log::number_of(stranger).is_some() || table::id_of(stranger).is_some() {
            corrupt(format!("{place} has {stranger}, but no format file: it was lost"))
        } else {
            Error::new(
                ErrorKind::Unsupported,
                format!("{place} is not a store, and not empty: it has {stranger:?}"),
            )
        });
    }
    let format = Format::new(random.next_u64());
    // The format file comes last: with it the store is there.
    let manifest = Manifest { next_table: 1, first_log: 1, ..Manifest::default() };
    manifest.store(disk, format.store).map_err(|error| match error {
        StoreError::Clean(error) | StoreError::Unknown(error) => error,
    })?;
    format.store(disk)?;
    Ok(format)
}

/// Removes what an interrupted fold or merge left: files that the manifest does not name.
fn remove_leftovers(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    let names = disk.list().map_err(|error| io_error("cannot list the store", error))?;
    for name in names {
        let old_log = log::number_of(&name).is_some_and(|number| number < manifest.first_log);
        let unknown_table = table::id_of(&name)
            .is_some_and(|id| !manifest.tables.iter().any(|(_, table)| table.id == id));
        if old_log || unknown_table || name == log::spare::NAME {
            disk.remove(&name).map_err(|error| io_error(format!("cannot remove {name}"), error))?;
        }
    }
    Ok(())
}
