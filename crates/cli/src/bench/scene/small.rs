//! Files of one page and of sixteen: made, made and synced, and read whole.

use super::{Scene, crew};
use crate::bench::error::Error;
use crate::bench::names::{self, Folder};
use crate::bench::pages::{self, BLOCK, Care, PAGE};
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;

pub(super) const SCENE: Scene = Scene {
    name: "small",
    works: &[Work::CreateSmall, Work::ReadSmallCold, Work::ReadSmallWarm],
    play: |stage| play_one(stage, &SMALL, stage.scale.small_files()),
};

pub(super) const MEDIUM: Scene = Scene {
    name: "medium",
    works: &[Work::CreateMedium, Work::ReadMediumCold, Work::ReadMediumWarm],
    play: |stage| play_one(stage, &SIXTEEN_PAGES, stage.scale.medium_files()),
};

pub(super) const MANY: Scene =
    Scene { name: "small-crew", works: &[Work::CreateSmallMany], play: play_many };

pub(super) const SYNCED: Scene = Scene {
    name: "small-synced",
    works: &[Work::CreateSmallSync, Work::CreateSmallSyncMany],
    play: play_synced,
};

const SYNCED_CREW: usize = 16;

/// Files of one size, and what is measured of them.
struct Kind {
    bytes: usize,
    create: Work,
    cold: Work,
    warm: Work,
}

const SMALL: Kind = Kind {
    bytes: PAGE,
    create: Work::CreateSmall,
    cold: Work::ReadSmallCold,
    warm: Work::ReadSmallWarm,
};

const SIXTEEN_PAGES: Kind = Kind {
    bytes: 16 * PAGE,
    create: Work::CreateMedium,
    cold: Work::ReadMediumCold,
    warm: Work::ReadMediumWarm,
};

/// Where the bytes of files are made and read. Only the stamps differ from file to file, so that making
/// one costs little.
struct Room {
    block: Vec<u8>,
    /// What was read; not the block, in which a file that was read wrongly would go on being right.
    space: Vec<u8>,
    bytes: usize,
}

impl Room {
    fn new(bytes: usize) -> Self {
        Self { block: pages::block(), space: vec![0; bytes], bytes }
    }

    /// The first page of a file. Files lie in a row, and no block holds a part of one.
    fn page(&self, file: u64) -> u64 {
        file * (self.bytes / PAGE) as u64
    }

    fn content(&mut self, file: u64) -> &[u8] {
        let page = self.page(file);
        let start = (page as usize * PAGE) % BLOCK;
        let bytes = &mut self.block[start..start + self.bytes];
        pages::stamp_block(bytes, page, 0);
        bytes
    }
}

fn play_one(stage: &mut Stage<'_>, kind: &Kind, count: u64) -> Result<(), Error> {
    let folder = Folder::make(stage.dir.join("small"))?;
    let files = names::list("f", count);
    let mut room = Room::new(kind.bytes);
    let made = stage.timed(kind.create, |step| {
        step.each(count, |index| {
            create(step, &folder, &files[index as usize], room.content(index), false)
        })
    })?;
    let once = |stage: &Stage<'_>, room: &mut Room| {
        stage.untimed("reading the small files", |step| {
            step.each(made, |index| {
                read(step, &folder, &files[index as usize], room, index, Care::Whole)
            })
            .map(drop)
        })
    };
    if stage.wants(kind.cold) {
        stage.chill(|| once(stage, &mut room))?;
        stage.timed(kind.cold, |step| {
            step.each(made, |index| {
                read(step, &folder, &files[index as usize], &mut room, index, Care::Stamps)
            })
        })?;
    }
    once(stage, &mut room)?;
    if stage.wants(kind.warm) {
        stage.timed(kind.warm, |step| {
            step.repeat(|index| {
                let index = index % made;
                read(step, &folder, &files[index as usize], &mut room, index, Care::Stamps)
            })
        })?;
    }
    Ok(())
}

fn play_many(stage: &mut Stage<'_>) -> Result<(), Error> {
    create_by(stage, Work::CreateSmallMany, stage.scale.threads, false)
}

fn play_synced(stage: &mut Stage<'_>) -> Result<(), Error> {
    for (work, threads) in [(Work::CreateSmallSync, 1), (Work::CreateSmallSyncMany, SYNCED_CREW)] {
        if stage.wants(work) {
            create_by(stage, work, threads, true)?;
        }
    }
    Ok(())
}

/// Several threads make files, each in a directory of its own; then all are read back.
fn create_by(stage: &mut Stage<'_>, work: Work, threads: usize, synced: bool) -> Result<(), Error> {
    let dir = stage.dir.clone();
    stage.dir = dir.join(work.name(threads));
    stage.untimed("making a directory", |step| step.ok(std::fs::create_dir(&stage.dir)))?;
    let folders = crew::folders(stage, threads)?;
    let files = names::list("f", stage.scale.small_files().div_ceil(threads as u64));
    let count = files.len() as u64;
    let made = stage.timed_crew(work, threads, |thread, step| {
        let mut room = Room::new(PAGE);
        let one = |index: u64| {
            let content = room.content(thread as u64 * count + index);
            create(step, &folders[thread], &files[index as usize], content, synced)
        };
        if synced { step.brief(count, one) } else { step.each(count, one) }
    })?;
    stage.untimed("reading the small files", |step| {
        let mut room = Room::new(PAGE);
        for (thread, (folder, made)) in folders.iter().zip(&made).enumerate() {
            step.each(*made, |index| {
                let content = thread as u64 * count + index;
                read(step, folder, &files[index as usize], &mut room, content, Care::Whole)
            })?;
        }
        Ok(())
    })?;
    stage.dir = dir;
    Ok(())
}

fn create(
    step: &Step<'_>,
    folder: &Folder,
    name: &CStr,
    bytes: &[u8],
    synced: bool,
) -> Result<(), Error> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = step.ok(rustix::fs::openat(folder.fd(), name, flags, Mode::from_raw_mode(0o644)))?;
    let written = step.ok(rustix::io::write(&file, bytes))?;
    if written != bytes.len() {
        let what = format!("{name:?} took {written} of {} bytes", bytes.len());
        return Err(Error::wrong(folder.path(), what));
    }
    if synced { step.ok(rustix::fs::fsync(&file)) } else { Ok(()) }
}

fn read(
    step: &Step<'_>,
    folder: &Folder,
    name: &CStr,
    room: &mut Room,
    content: u64,
    care: Care,
) -> Result<(), Error> {
    let page = room.page(content);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = step.ok(rustix::fs::openat(folder.fd(), name, flags, Mode::empty()))?;
    let bytes = &mut room.space[..room.bytes];
    let found = step.ok(rustix::io::read(&file, &mut *bytes))?;
    pages::check(folder.path(), &bytes[..found], page, |_| 0, care)?;
    if found == bytes.len() {
        return Ok(());
    }
    Err(Error::wrong(folder.path(), format!("{name:?} gave {found} of {} bytes", bytes.len())))
}
