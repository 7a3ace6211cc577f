//! Symbolic links.

use super::{Scene, crew};
use crate::bench::error::Error;
use crate::bench::names::{self, Folder};
use crate::bench::stage::Stage;
use crate::bench::work::Work;

pub(super) const SCENE: Scene =
    Scene { name: "links", works: &[Work::Symlink, Work::Readlink, Work::SymlinkMany], play };

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    if stage.wants(Work::Symlink) || stage.wants(Work::Readlink) {
        alone(stage)?;
    }
    if stage.wants(Work::SymlinkMany) {
        crew::make_by_crew(stage, Work::SymlinkMany, |step, folder, name| {
            step.ok(rustix::fs::symlinkat(c"../some/where/else", folder.fd(), name))
        })?;
    }
    Ok(())
}

fn alone(stage: &mut Stage<'_>) -> Result<(), Error> {
    let folder = Folder::make(stage.dir.join("links"))?;
    let links = names::list("link", stage.scale.files);
    let targets = names::list("../some/where/else", stage.scale.files);
    let made = stage.timed(Work::Symlink, |step| {
        step.each(links.len() as u64, |index| {
            let index = index as usize;
            step.ok(rustix::fs::symlinkat(&targets[index], folder.fd(), &links[index]))
        })
    })?;
    folder.expect(made)?;
    if !stage.wants(Work::Readlink) {
        return Ok(());
    }
    stage.timed(Work::Readlink, |step| {
        let mut room = Vec::with_capacity(256);
        // Each once: the kernel may remember what it was told.
        step.each(made, |index| {
            let index = index as usize;
            let found = step.ok(rustix::fs::readlinkat(
                folder.fd(),
                &links[index],
                std::mem::take(&mut room),
            ))?;
            if found != targets[index] {
                let what =
                    format!("{:?} points to {found:?}, not to {:?}", links[index], targets[index]);
                return Err(Error::wrong(folder.path(), what));
            }
            room = found.into_bytes();
            Ok(())
        })
    })?;
    Ok(())
}
