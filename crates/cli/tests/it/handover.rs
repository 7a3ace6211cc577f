//! Files are opened in any way beside any other while one daemon after the other dies: each must know what the
//! kernel has open from those before, and how.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use rustix::fs::OFlags;

use crate::ground::Ground;
use crate::local::{HUGE, Known, LARGE, SMALL, WAYS, open, small_dir};
use crate::survive::kill;

/// A file that is open in two ways.
struct Pair {
    known: Known,
    context: String,
    first: OFlags,
    second: OFlags,
    handles: Vec<(File, OFlags)>,
}

impl Pair {
    fn open(&mut self, name: &str, way: OFlags) {
        let file = self.known.open(name, way, &self.context);
        self.known.change(&file, way, 100 * (1 + self.handles.len()));
        self.handles.push((file, way));
    }

    fn check(&self, when: &str) {
        let handles: Vec<_> = self.handles.iter().map(|(file, way)| (file, *way)).collect();
        self.known.check(&handles, &format!("{}, {when}", self.context));
    }
}

/// A file of each size for each pair of ways.
fn pairs(make: impl Fn(&str, usize) -> PathBuf) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (size, len) in [("small", SMALL), ("large", LARGE), ("huge", HUGE)] {
        for (one, first) in WAYS {
            for (two, second) in WAYS {
                let context = format!("{size}, {one}, then {two}");
                let known = Known { path: make(&context, len), bytes: vec![1; len], round: 1 };
                pairs.push(Pair { known, context, first, second, handles: Vec::new() });
            }
        }
    }
    pairs
}

fn outlive(mut ground: Ground) {
    if ground.is_native() {
        return;
    }
    let mut pairs = pairs(|name, len| ground.file(name, vec![1; len]));
    // Settled, for every other one.
    for (at, pair) in pairs.iter().enumerate() {
        if at % 2 == 0 {
            pair.check("made");
        }
    }
    ground.remount();
    for pair in &mut pairs {
        pair.open("first", pair.first);
    }
    kill(&ground);
    for pair in &mut pairs {
        pair.open("second", pair.second);
        pair.check("opened twice");
    }
    kill(&ground);
    for pair in &mut pairs {
        pair.check("another daemon");
        // The one of the first daemon goes, that of the second stays.
        drop(pair.handles.remove(0));
        pair.check("the first is closed");
    }
    kill(&ground);
    for pair in &mut pairs {
        pair.open("third", pair.first);
        pair.check("opened again");
        pair.handles.clear();
        pair.check("closed");
        pair.open("alone", pair.second);
        pair.check("alone");
        pair.handles.clear();
    }
    let checked = ground.seamount(&["fsck".as_ref(), ground.root().as_os_str()]);
    assert!(checked.success(), "{checked}");
    ground.remount();
    for pair in &pairs {
        pair.check("after all");
    }
    assert!(!ground.log().contains("panicked"));
}

#[test]
fn any_way_goes_beside_any_other_of_a_daemon_before() {
    let Some(ground) = Ground::new("ways to open a file across daemons") else { return };
    outlive(ground);
}

#[test]
fn the_same_through_the_daemon() {
    let proof = "ways to open a file through daemons";
    let Some(ground) = Ground::through_daemon(proof) else { return };
    outlive(ground);
}

/// What a file is changes while it is open since a daemon before: it becomes large, and is closed by who made it so,
/// and the daemons that follow must go on as the first one began.
#[test]
fn a_file_that_grows_between_daemons_is_served_as_it_was() {
    let Some(mut ground) = Ground::new("files grow between daemons") else { return };
    if ground.is_native() {
        return;
    }
    let mut files = Vec::new();
    for (name, way) in WAYS {
        let path = ground.file(name, vec![1; 100]);
        files.push((name, way, Known { path, bytes: vec![1; 100], round: 1 }));
    }
    // Made, in directories that lend files and in those that do not, and written since.
    for (dir, name) in [("lends", "made"), ("does not", "made small")] {
        let dir = if dir == "lends" { ground.directory(dir) } else { small_dir(&ground, dir) };
        let path = dir.join(name);
        fs::write(&path, [1; 100]).unwrap();
        files.push((name, OFlags::WRONLY, Known { path, bytes: vec![1; 100], round: 1 }));
    }
    let held: Vec<(File, OFlags)> = files
        .iter_mut()
        .map(|(name, way, known)| (known.open(name, *way, "grows"), *way))
        .collect();
    for round in 0..3 {
        kill(&ground);
        for (name, way, known) in &mut files {
            let context = format!("{name} {way:?}, round {round}");
            let mut writer = open(&known.path, OFlags::RDWR | OFlags::APPEND).unwrap();
            writer.write_all(&[7; HUGE]).unwrap();
            known.bytes.extend_from_slice(&[7; HUGE]);
            drop(writer);
            known.check(&[], &context);
        }
        // Who takes over settles what nobody has open, and what is closed for long.
        kill(&ground);
        let checked = ground.seamount(&["fsck".as_ref(), ground.root().as_os_str()]);
        assert!(checked.success(), "{checked}");
        for ((name, _, known), (file, way)) in files.iter().zip(&held) {
            known.check(&[(file, *way)], &format!("{name}, round {round}"));
        }
    }
    drop(held);
    ground.remount();
    for (name, _, known) in &files {
        known.check(&[], name);
    }
}
