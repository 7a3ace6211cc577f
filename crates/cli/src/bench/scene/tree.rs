//! A tree of small files of several sizes, as an archive or a source tree is: written, walked, removed.

use super::Scene;
use crate::bench::error::Error;
use crate::bench::pages::{self, PAGE};
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use std::path::{Path, PathBuf};

pub(super) const SCENE: Scene =
    Scene { name: "tree", works: &[Work::TreeWrite, Work::TreeReadWarm, Work::TreeRemove], play };

const FILES_A_DIR: u64 = 25;
const DIRS_A_DIR: u64 = 10;

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let root = stage.dir.join("tree");
    let made = stage.timed(Work::TreeWrite, |step| {
        step.ok(std::fs::create_dir(&root))?;
        write(step, &root, stage.scale.small_files())
    })?;
    let walked = stage.untimed("reading the tree", |step| walk(step, &root))?;
    if walked != made {
        return Err(Error::wrong(&root, format!("{made} files were written, {walked} are there")));
    }
    if stage.wants(Work::TreeReadWarm) {
        stage.timed(Work::TreeReadWarm, |step| {
            let mut files = 0;
            step.repeat(|_| {
                files += walk(step, &root)?;
                Ok(())
            })?;
            Ok(files)
        })?;
    }
    if stage.wants(Work::TreeRemove) {
        stage.timed(Work::TreeRemove, |step| {
            step.ok(std::fs::remove_dir_all(&root)).map(|()| made)
        })?;
    }
    Ok(())
}

/// Writes a tree of files into `root`; says how many time allowed.
pub(super) fn write(step: &Step<'_>, root: &Path, files: u64) -> Result<u64, Error> {
    let mut dir = PathBuf::new();
    step.each(files, |index| {
        if index % FILES_A_DIR == 0 {
            let leaf = index / FILES_A_DIR;
            dir = root
                .join(format!("d{:04}", leaf / DIRS_A_DIR))
                .join(format!("e{:02}", leaf % DIRS_A_DIR));
            step.ok(std::fs::create_dir_all(&dir))?;
        }
        let mut page = [0; PAGE];
        pages::fill_page(&mut page, index, 0);
        step.ok(std::fs::write(dir.join(format!("f{index:07}")), &page[..bytes_of(index)]))
    })
}

fn bytes_of(index: u64) -> usize {
    PAGE / 4 * (1 + index as usize % 4)
}

/// Reads every file below `dir`, compares it, and says how many there are.
pub(super) fn walk(step: &Step<'_>, dir: &Path) -> Result<u64, Error> {
    let mut files = 0;
    for entry in step.ok(std::fs::read_dir(dir))? {
        let entry = step.ok(entry)?;
        let path = entry.path();
        if step.ok(entry.file_type())?.is_dir() {
            files += walk(step, &path)?;
            continue;
        }
        let found = step.ok(std::fs::read(&path))?;
        let name = entry.file_name();
        let index = name.to_str().and_then(|name| name.strip_prefix('f')?.parse().ok());
        let Some(index) = index else {
            return Err(Error::wrong(&path, "a name that was never made"));
        };
        let mut page = [0; PAGE];
        pages::fill_page(&mut page, index, 0);
        if found != page[..bytes_of(index)] {
            return Err(Error::wrong(&path, "other bytes were read than were written"));
        }
        files += 1;
    }
    Ok(files)
}
