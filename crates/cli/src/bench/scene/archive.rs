//! tar: an archive of small files, made in advance and held in memory, is unpacked.

use super::{Scene, program, tree};
use crate::bench::error::Error;
use crate::bench::stage::Stage;
use crate::bench::work::Work;
use std::process::Command;

pub(super) const SCENE: Scene = Scene { name: "archive", works: &[Work::Untar], play };

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let (packed, unpacked) = (stage.dir.join("packed"), stage.dir.join("unpacked"));
    let (files, archive) = stage.untimed("making an archive", |step| {
        step.ok(std::fs::create_dir(&packed))?;
        step.ok(std::fs::create_dir(&unpacked))?;
        let files = tree::write(step, &packed, stage.scale.archive_files())?;
        let mut tar = Command::new("tar");
        tar.args(["--create", "--file=-", "."]).current_dir(&packed);
        Ok((files, program::run_bytes(step, &mut tar, b"")?))
    })?;
    stage.timed(Work::Untar, |step| {
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--file=-"]).current_dir(&unpacked);
        program::run_bytes(step, &mut tar, &archive)?;
        Ok(files)
    })?;
    let found = stage.untimed("reading what was unpacked", |step| tree::walk(step, &unpacked))?;
    if found == files {
        return Ok(());
    }
    Err(Error::wrong(&unpacked, format!("{files} files were unpacked, {found} are there")))
}
