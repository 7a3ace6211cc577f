//! Files of one page: made, made and synced, and read whole.

use super::{Scene, crew};
use crate::bench::error::Error;
use crate::bench::names::{self, Folder};
use crate::bench::pages::{self, Care, PAGE};
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;

pub(super) const SCENE: Scene = Scene {
    name: "small",
    works: &[Work::CreateSmall, Work::ReadSmallCold, Work::ReadSmallWarm],
    play: play_one,
};

pub(super) const MANY: Scene =
    Scene { name: "small-crew", works: &[Work::CreateSmallMany], play: play_many };

pub(super) const SYNCED: Scene = Scene {
    name: "small-synced",
    works: &[Work::CreateSmallSync, Work::CreateSmallSyncMany],
    play: play_synced,
};

const SYNCED_CREW: usize = 16;

fn play_one(stage: &mut Stage<'_>) -> Result<(), Error> {
    let folder = Folder::make(stage.dir.join("small"))?;
    let files = names::list("f", stage.scale.small_files());
    let made = stage.timed(Work::CreateSmall, |step| {
        step.each(files.len() as u64, |index| {
            create(step, &folder, &files[index as usize], index, false)
        })
    })?;
    let once = |stage: &Stage<'_>| {
        stage.untimed("reading the small files", |step| {
            step.each(made, |index| read(step, &folder, &files[index as usize], index, Care::Whole))
                .map(drop)
        })
    };
    if stage.wants(Work::ReadSmallCold) {
        stage.chill(|| once(stage))?;
        stage.timed(Work::ReadSmallCold, |step| {
            step.each(made, |index| {
                read(step, &folder, &files[index as usize], index, Care::Stamps)
            })
        })?;
    }
    once(stage)?;
    if stage.wants(Work::ReadSmallWarm) {
        stage.timed(Work::ReadSmallWarm, |step| {
            step.repeat(|index| {
                let index = index % made;
                read(step, &folder, &files[index as usize], index, Care::Stamps)
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
        let one = |index: u64| {
            let content = thread as u64 * count + index;
            create(step, &folders[thread], &files[index as usize], content, synced)
        };
        if synced { step.brief(count, one) } else { step.each(count, one) }
    })?;
    stage.untimed("reading the small files", |step| {
        for (thread, (folder, made)) in folders.iter().zip(&made).enumerate() {
            step.each(*made, |index| {
                let content = thread as u64 * count + index;
                read(step, folder, &files[index as usize], content, Care::Whole)
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
    content: u64,
    synced: bool,
) -> Result<(), Error> {
    let mut bytes = [0; PAGE];
    pages::fill_page(&mut bytes, content, 0);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = step.ok(rustix::fs::openat(folder.fd(), name, flags, Mode::from_raw_mode(0o644)))?;
    let written = step.ok(rustix::io::write(&file, &bytes))?;
    if written != PAGE {
        return Err(Error::wrong(
            folder.path(),
            format!("{name:?} took {written} of {PAGE} bytes"),
        ));
    }
    if synced { step.ok(rustix::fs::fsync(&file)) } else { Ok(()) }
}

fn read(
    step: &Step<'_>,
    folder: &Folder,
    name: &CStr,
    content: u64,
    care: Care,
) -> Result<(), Error> {
    let mut bytes = [0; PAGE];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = step.ok(rustix::fs::openat(folder.fd(), name, flags, Mode::empty()))?;
    let found = step.ok(rustix::io::read(&file, &mut bytes[..]))?;
    pages::check(folder.path(), &bytes[..found], content, |_| 0, care)?;
    if found == PAGE {
        return Ok(());
    }
    Err(Error::wrong(folder.path(), format!("{name:?} gave {found} of {PAGE} bytes")))
}
