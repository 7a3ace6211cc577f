//! Many empty files by several threads, each in a directory of its own.

use super::Scene;
use super::names::create;
use crate::bench::error::Error;
use crate::bench::names::{self, Folder};
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use rustix::fs::AtFlags;
use std::ffi::CStr;

pub(super) const SCENE: Scene = Scene {
    name: "crew",
    works: &[Work::CreateEmptyMany, Work::RenameMany, Work::UnlinkMany],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let threads = stage.scale.threads;
    let folders = folders(stage, threads)?;
    let files = names::list("f", stage.scale.files.div_ceil(threads as u64));
    let made = stage.timed_crew(Work::CreateEmptyMany, threads, |thread, step| {
        step.each(files.len() as u64, |index| {
            create(step, &folders[thread], &files[index as usize])
        })
    })?;
    for (folder, made) in folders.iter().zip(&made) {
        folder.expect(*made)?;
    }
    let moved = names::list("moved", files.len() as u64);
    let mut renamed = vec![0; threads];
    if stage.wants(Work::RenameMany) {
        renamed = stage.timed_crew(Work::RenameMany, threads, |thread, step| {
            let dir = folders[thread].fd();
            step.each(made[thread], |index| {
                let (from, to) = (&files[index as usize], &moved[index as usize]);
                step.ok(rustix::fs::renameat(dir, from, dir, to))
            })
        })?;
        for (folder, made) in folders.iter().zip(&made) {
            folder.expect(*made)?;
        }
    }
    if stage.wants(Work::UnlinkMany) {
        let removed = stage.timed_crew(Work::UnlinkMany, threads, |thread, step| {
            step.each(made[thread], |index| {
                let names = if index < renamed[thread] { &moved } else { &files };
                let name = &names[index as usize];
                step.ok(rustix::fs::unlinkat(folders[thread].fd(), name, AtFlags::empty()))
            })
        })?;
        for (folder, (made, removed)) in folders.iter().zip(made.iter().zip(removed)) {
            folder.expect(made - removed)?;
        }
    }
    Ok(())
}

/// The same call by several threads, each in a directory of its own and all their files together.
pub(super) fn make_by_crew(
    stage: &mut Stage<'_>,
    work: Work,
    make: impl Fn(&Step<'_>, &Folder, &CStr) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let threads = stage.scale.threads;
    let folders = folders(stage, threads)?;
    let names = names::list("n", stage.scale.files.div_ceil(threads as u64));
    let made = stage.timed_crew(work, threads, |thread, step| {
        step.each(names.len() as u64, |index| make(step, &folders[thread], &names[index as usize]))
    })?;
    for (folder, made) in folders.iter().zip(made) {
        folder.expect(made)?;
    }
    Ok(())
}

/// One directory for each thread.
pub(super) fn folders(stage: &Stage<'_>, threads: usize) -> Result<Vec<Folder>, Error> {
    (0..threads).map(|thread| Folder::make(stage.dir.join(format!("thread{thread}")))).collect()
}
