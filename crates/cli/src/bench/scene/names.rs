//! Many empty files in one directory, by one thread.

use super::Scene;
use crate::bench::error::Error;
use crate::bench::names::{self, Folder};
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};

pub(super) const SCENE: Scene = Scene {
    name: "names",
    works: &[
        Work::CreateEmpty,
        Work::StatCold,
        Work::StatWarm,
        Work::LookupMissing,
        Work::OpenClose,
        Work::Rename,
        Work::Unlink,
        Work::ReaddirCold,
        Work::ReaddirPlain,
        Work::ReaddirStatCold,
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let folder = Folder::make(stage.dir.join("files"))?;
    let files = names::list("f", stage.scale.files);
    let made = stage.timed(Work::CreateEmpty, |step| {
        step.each(files.len() as u64, |index| create(step, &folder, &files[index as usize]))
    })?;
    let files = &files[..made as usize];
    folder.expect(made)?;
    stats(stage, &folder, files)?;
    listings(stage, &folder, files)?;
    changes(stage, &folder, files)
}

/// Makes an empty file that was not there.
pub(super) fn create(step: &Step<'_>, folder: &Folder, name: &CStr) -> Result<(), Error> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    step.ok(rustix::fs::openat(folder.fd(), name, flags, Mode::from_raw_mode(0o644))).map(drop)
}

fn stat(step: &Step<'_>, folder: &Folder, name: &CStr) -> Result<(), Error> {
    let found = step.ok(rustix::fs::statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_size != 0 {
        return Err(Error::wrong(folder.path(), format!("{name:?} is not an empty file any more")));
    }
    Ok(())
}

fn stats(stage: &mut Stage<'_>, folder: &Folder, files: &[CString]) -> Result<(), Error> {
    let count = files.len() as u64;
    let once = |stage: &Stage<'_>| {
        stage.untimed("looking at the files", |step| {
            step.each(count, |index| stat(step, folder, &files[index as usize])).map(drop)
        })
    };
    if stage.wants(Work::StatCold) {
        stage.chill(|| once(stage))?;
        stage.timed(Work::StatCold, |step| {
            step.each(count, |index| stat(step, folder, &files[index as usize]))
        })?;
    }
    if stage.wants(Work::StatWarm) {
        once(stage)?;
        stage.timed(Work::StatWarm, |step| {
            step.repeat(|index| stat(step, folder, &files[(index % count) as usize]))
        })?;
    }
    if stage.wants(Work::LookupMissing) {
        let missing = names::list("missing", stage.scale.files);
        stage.timed(Work::LookupMissing, |step| {
            step.each(missing.len() as u64, |index| {
                let name = &missing[index as usize];
                match rustix::fs::statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => Ok(()),
                    Err(error) => step.ok(Err(error)),
                    Ok(_) => Err(Error::wrong(
                        folder.path(),
                        format!("{name:?} was never made and is there"),
                    )),
                }
            })
        })?;
    }
    if stage.wants(Work::OpenClose) {
        stage.timed(Work::OpenClose, |step| {
            step.repeat(|index| {
                let name = &files[(index % count) as usize];
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                step.ok(rustix::fs::openat(folder.fd(), name, flags, Mode::empty())).map(drop)
            })
        })?;
    }
    Ok(())
}

fn listings(stage: &mut Stage<'_>, folder: &Folder, files: &[CString]) -> Result<(), Error> {
    let count = files.len() as u64;
    if stage.wants(Work::ReaddirCold) {
        let listed = |_: &Step<'_>| folder.expect(count).map(|()| count);
        stage.chill(|| stage.untimed("listing the files", |step| listed(step).map(drop)))?;
        stage.timed(Work::ReaddirCold, listed)?;
    }
    if stage.wants(Work::ReaddirPlain) {
        stage
            .timed(Work::ReaddirPlain, |step| Ok(step.repeat(|_| folder.expect(count))? * count))?;
    }
    if stage.wants(Work::ReaddirStatCold) {
        let listed = |step: &Step<'_>| folder.list(|name| stat(step, folder, name));
        stage.chill(|| stage.untimed("listing the files", |step| listed(step).map(drop)))?;
        stage.timed(Work::ReaddirStatCold, listed)?;
    }
    Ok(())
}

fn changes(stage: &mut Stage<'_>, folder: &Folder, files: &[CString]) -> Result<(), Error> {
    let count = files.len() as u64;
    let moved = names::list("moved", count);
    let mut renamed = 0;
    if stage.wants(Work::Rename) {
        renamed = stage.timed(Work::Rename, |step| {
            step.each(count, |index| {
                let (from, to) = (&files[index as usize], &moved[index as usize]);
                step.ok(rustix::fs::renameat(folder.fd(), from, folder.fd(), to))
            })
        })?;
        folder.expect(count)?;
    }
    if stage.wants(Work::Unlink) {
        let removed = stage.timed(Work::Unlink, |step| {
            step.each(count, |index| {
                let names = if index < renamed { &moved } else { files };
                let name = &names[index as usize];
                step.ok(rustix::fs::unlinkat(folder.fd(), name, AtFlags::empty()))
            })
        })?;
        folder.expect(count - removed)?;
    }
    Ok(())
}
