//! Empty directories.

use super::{Scene, crew};
use crate::bench::error::Error;
use crate::bench::names::{self, Folder};
use crate::bench::stage::Stage;
use crate::bench::work::Work;
use rustix::fs::{AtFlags, Mode};

pub(super) const SCENE: Scene =
    Scene { name: "dirs", works: &[Work::Mkdir, Work::Rmdir, Work::MkdirMany], play };

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    if stage.wants(Work::Mkdir) || stage.wants(Work::Rmdir) {
        alone(stage)?;
    }
    if stage.wants(Work::MkdirMany) {
        crew::make_by_crew(stage, Work::MkdirMany, |step, folder, name| {
            step.ok(rustix::fs::mkdirat(folder.fd(), name, Mode::from_raw_mode(0o755)))
        })?;
    }
    Ok(())
}

fn alone(stage: &mut Stage<'_>) -> Result<(), Error> {
    let folder = Folder::make(stage.dir.join("dirs"))?;
    let dirs = names::list("d", stage.scale.files);
    let made = stage.timed(Work::Mkdir, |step| {
        step.each(dirs.len() as u64, |index| {
            step.ok(rustix::fs::mkdirat(
                folder.fd(),
                &dirs[index as usize],
                Mode::from_raw_mode(0o755),
            ))
        })
    })?;
    folder.expect(made)?;
    if stage.wants(Work::Rmdir) {
        let removed = stage.timed(Work::Rmdir, |step| {
            step.each(made, |index| {
                step.ok(rustix::fs::unlinkat(
                    folder.fd(),
                    &dirs[index as usize],
                    AtFlags::REMOVEDIR,
                ))
            })
        })?;
        folder.expect(made - removed)?;
    }
    Ok(())
}
