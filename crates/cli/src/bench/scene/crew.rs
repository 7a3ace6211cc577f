//! Many empty files by several threads, each in a directory of its own.

use super::Scene;
use super::names::create;
use crate::bench::error::Error;
use crate::bench::names::{self, Folder};
use crate::bench::stage::Stage;
use crate::bench::work::Work;
use rustix::fs::AtFlags;

pub(super) const SCENE: Scene =
    Scene { name: "crew", works: &[Work::CreateEmptyMany, Work::UnlinkMany], play };

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
    if stage.wants(Work::UnlinkMany) {
        let removed = stage.timed_crew(Work::UnlinkMany, threads, |thread, step| {
            step.each(made[thread], |index| {
                let name = &files[index as usize];
                step.ok(rustix::fs::unlinkat(folders[thread].fd(), name, AtFlags::empty()))
            })
        })?;
        for (folder, (made, removed)) in folders.iter().zip(made.iter().zip(removed)) {
            folder.expect(made - removed)?;
        }
    }
    Ok(())
}

/// One directory for each thread.
pub(super) fn folders(stage: &Stage<'_>, threads: usize) -> Result<Vec<Folder>, Error> {
    (0..threads).map(|thread| Folder::make(stage.dir.join(format!("thread{thread}")))).collect()
}
