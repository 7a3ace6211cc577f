//! git at work on thousands of files, beside the same on the native filesystem.

use std::fs;
use std::path::Path;

use crate::draw::Draw;
use crate::ground::Ground;
use crate::tool::{has, number, shell};
use crate::tree::{Times, assert_same};

/// Everything that would make two runs differ is fixed.
const SETTINGS: &str = "export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
    GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' \
    GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'";

fn fill(place: &Path, files: u64) {
    let mut draw = Draw::new(7);
    for number in 0..files {
        let directory = place.join(format!("d{}/e{}", number % 40, number % 7));
        fs::create_dir_all(&directory).unwrap();
        let length = draw.below(3000) as usize;
        fs::write(directory.join(format!("file-{number}")), draw.bytes(length)).unwrap();
    }
}

#[test]
fn a_repository_is_the_same_as_on_a_native_filesystem() {
    let proof = "git";
    let Some(mut ground) = Ground::new(proof) else { return };
    if !has(proof, &["git"]) {
        return;
    }
    let files = number("PROOF_GIT_FILES", 3000);
    let places = [ground.at("repository"), ground.beside().join("repository")];
    let heads = places.each_ref().map(|place| {
        fs::create_dir(place).unwrap();
        shell(place, &format!("{SETTINGS}; git -c init.defaultBranch=main init -q ."));
        fill(place, files);
        let lines = "git add -A && git commit -qm one && git checkout -qb side && git mv d0 moved \
             && rm -r d1 && echo more >> d2/e2/file-2 && git add -A && git commit -qm two && git checkout -q main \
             && git merge -q --no-edit side && git gc -q --prune=now && git fsck --strict --no-progress 2>&1 \
             && git status --porcelain && git tag -a v1 -m v1 && git stash list && git rev-parse HEAD v1";
        shell(place, &format!("{SETTINGS}; {lines}"))
    });
    assert_eq!(heads[0], heads[1], "commits have the same names");
    for place in &places {
        // The index holds times and inodes; what it says is compared above.
        fs::remove_dir_all(place.join(".git/logs")).unwrap();
    }
    ground.remount();
    let clean =
        shell(&places[0], &format!("{SETTINGS}; git status --porcelain; git fsck --strict 2>&1"));
    assert!(!clean.contains("file-") && !clean.contains("error"), "{clean}");
    shell(ground.root(), &format!("{SETTINGS}; git clone -q --no-hardlinks repository clone"));
    shell(
        &ground.at("clone"),
        &format!("{SETTINGS}; git fsck --strict 2>&1; git checkout -q side; git checkout -q main"),
    );
    for place in [&places[0], &places[1], &ground.at("clone")] {
        fs::rename(place.join(".git"), place.with_extension("git")).unwrap();
    }
    assert_same(&places[0], &places[1], Times::Ignored);
    assert_same(&ground.at("clone"), &places[1], Times::Ignored);
    let objects = |place: &Path| place.with_extension("git").join("objects/pack");
    let packs = |place: &Path| {
        let names = fs::read_dir(objects(place)).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> =
            names.filter(|name| name.to_string_lossy().ends_with(".pack")).collect();
        names.sort();
        names
    };
    assert_eq!(packs(&places[0]).len(), 1);
}
