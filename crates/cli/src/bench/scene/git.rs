//! git on a tree of small files.

use super::{Scene, program, tree};
use crate::bench::error::Error;
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) const SCENE: Scene =
    Scene { name: "git", works: &[Work::GitAddCommit, Work::GitStatus], play };

const A_SECOND: Duration = Duration::from_millis(1_010);

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let repo = stage.dir.join("repo");
    let files = stage.scale.git_files();
    let files = stage.untimed("preparing a repository", |step| {
        step.ok(std::fs::create_dir(&repo))?;
        git(step, &repo, &["init", "--quiet"])?;
        let written = tree::write(step, &repo, files)?;
        // What changed in the second in which git writes its index it reads again each time that it is asked: so
        // all targets would be slow or fast by chance.
        std::thread::sleep(A_SECOND);
        Ok(written)
    })?;
    stage.timed(Work::GitAddCommit, |step| {
        git(step, &repo, &["add", "--all"])?;
        git(step, &repo, &["commit", "--quiet", "--message", "all"])?;
        Ok(files)
    })?;
    stage.untimed("checking the repository", |step| {
        git(step, &repo, &["fsck", "--strict"])?;
        let listed =
            git(step, &repo, &["ls-tree", "-r", "--name-only", "HEAD"])?.lines().count() as u64;
        if listed == files {
            return Ok(());
        }
        Err(Error::wrong(&repo, format!("{files} files were committed, git lists {listed}")))
    })?;
    if stage.wants(Work::GitStatus) {
        stage.timed(Work::GitStatus, |step| step.repeat(|_| clean(step, &repo)))?;
    }
    Ok(())
}

fn clean(step: &Step<'_>, repo: &Path) -> Result<(), Error> {
    match git(step, repo, &["status", "--porcelain"])?.as_str() {
        "" => Ok(()),
        changed => Err(Error::wrong(repo, format!("git sees changes that nobody made: {changed}"))),
    }
}

/// git without the user's settings, which would make two machines differ.
fn git(step: &Step<'_>, repo: &Path, words: &[&str]) -> Result<String, Error> {
    let mut command = Command::new("git");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(name);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"])
        .args(words)
        .current_dir(repo);
    program::run(step, &mut command, "")
}
