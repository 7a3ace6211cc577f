//! What is done in a life, drawn from a seed.

use super::{Story, tour};
use base::{Random, SeededRandom};

/// Names, few enough to meet each other.
const NAMES: [&str; 7] =
    ["a", "b", "c", "d", "long-name-of-a-file-that-does-not-fit-inline", "e", "f"];
/// Directories; the empty one is the root.
const PLACES: [&str; 4] = ["", "one", "two", "one/deep"];
/// Lengths at which the core changes its ways: inline, mapped, several blocks, more than one
/// transaction takes.
const LENGTHS: [usize; 8] = [1, 90, 200, 1_500, 5_000, 20_000, 60_000, 300_000];
/// Files that can be held open at once.
pub(super) const HELD: usize = 3;

/// One call, or what a program does around one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the calls")]
pub enum Step {
    Mkdir(String),
    Rmdir(String),
    Create(String),
    Write {
        path: String,
        offset: u64,
        len: usize,
        fill: u8,
    },
    Append {
        path: String,
        len: usize,
        fill: u8,
    },
    Truncate {
        path: String,
        size: u64,
    },
    Punch {
        path: String,
        offset: u64,
        len: u64,
    },
    Allocate {
        path: String,
        offset: u64,
        len: u64,
        keep_size: bool,
    },
    Zero {
        path: String,
        offset: u64,
        len: u64,
        keep_size: bool,
    },
    Chmod {
        path: String,
        mode: u32,
    },
    Symlink {
        path: String,
        target: String,
    },
    Link {
        path: String,
        to: String,
    },
    Unlink(String),
    Rename {
        path: String,
        to: String,
        no_replace: bool,
        exchange: bool,
    },
    SetXattr {
        path: String,
        name: &'static str,
        len: usize,
        fill: u8,
    },
    RemoveXattr {
        path: String,
        name: &'static str,
    },
    Fsync(String),
    SyncDir(String),
    /// As the call `sync`.
    SyncAll,
    /// Makes a file and keeps it open.
    HoldNew {
        slot: usize,
        path: String,
    },
    /// Opens a file, cuts it to nothing and keeps it open.
    HoldAnew {
        slot: usize,
        path: String,
    },
    /// Opens a file and keeps it open.
    Hold {
        slot: usize,
        path: String,
    },
    WriteHeld {
        slot: usize,
        offset: u64,
        len: usize,
        fill: u8,
    },
    FsyncHeld(usize),
    /// Closes it.
    LetGo(usize),
    /// Time goes by, and closed files are settled; `all` of them at once without that.
    Settle {
        all: bool,
    },
    /// Background work: jobs, garbage.
    Maintain,
    /// Everything in memory goes to tables.
    Flush,
    /// The session stops, the store is closed and opened again.
    Restart,
}

/// What survives the loss of power when a step has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncs {
    /// Nothing more than before.
    Nothing,
    /// Names and attributes.
    Names,
    /// These, and the bytes of a file: that of the path or of the slot.
    File,
    /// Everything.
    All,
}

impl Step {
    /// What it makes survive.
    pub fn syncs(&self) -> Syncs {
        match self {
            Step::Fsync(_) | Step::FsyncHeld(_) => Syncs::File,
            Step::SyncDir(_) => Syncs::Names,
            Step::SyncAll | Step::Restart => Syncs::All,
            _ => Syncs::Nothing,
        }
    }
}

/// The script of a story.
pub fn draw(story: &Story) -> Vec<Step> {
    let random = SeededRandom::new(story.seed);
    // Something to meet from the start.
    let mut script: Vec<Step> =
        PLACES[1..].iter().map(|place| Step::Mkdir((*place).to_owned())).collect();
    if story.home {
        script.extend(tour::all(&random));
    }
    while script.len() < story.steps {
        let step = match story.home && random.one_in(3) {
            true => of_home(&random),
            false => one(&random),
        };
        // Names that nobody made are met often enough.
        if let Step::Write { path, .. } = &step
            && random.one_in(2)
        {
            script.push(Step::Create(path.clone()));
        }
        script.push(step);
    }
    script.truncate(story.steps);
    script
}

/// What matters to files of the home above all.
fn of_home(random: &SeededRandom) -> Step {
    let fill = random.below(256) as u8;
    let (len, offset) = (pick(random, &LENGTHS[1..7]), pick(random, &[0, 0, 500, 1_000, 6_000]));
    let (range, keep_size) = (1 + random.below(20_000), random.one_in(2));
    let slot = random.below(HELD as u64) as usize;
    match random.below(24) {
        0..4 => Step::HoldNew { slot, path: path(random) },
        4..6 => Step::HoldAnew { slot, path: path(random) },
        6..8 => Step::Hold { slot, path: path(random) },
        8..13 => Step::WriteHeld { slot, offset, len, fill },
        13..15 => Step::FsyncHeld(slot),
        15..18 => Step::LetGo(slot),
        18 => Step::Settle { all: true },
        19..22 => Step::Settle { all: false },
        22 if random.one_in(2) => Step::SyncAll,
        22 => Step::Allocate { path: path(random), offset, len: range, keep_size },
        _ => Step::Zero { path: path(random), offset, len: range, keep_size },
    }
}

pub(super) fn pick<T: Copy>(random: &SeededRandom, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn path(random: &SeededRandom) -> String {
    let (place, name) = (pick(random, &PLACES), pick(random, &NAMES));
    if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") }
}

fn one(random: &SeededRandom) -> Step {
    let fill = random.below(256) as u8;
    let len = match random.below(40) {
        0 => LENGTHS[7],
        1..4 => LENGTHS[6],
        _ => pick(random, &LENGTHS[..6]),
    };
    let offset = if random.one_in(3) { 0 } else { random.below(30_000) };
    let slot = random.below(HELD as u64) as usize;
    let xattr = pick(random, &["user.one", "user.two", "user.three"]);
    match random.below(46) {
        0 => Step::Mkdir(path(random)),
        1 => Step::Rmdir(path(random)),
        2 | 3 => Step::Create(path(random)),
        4..14 => Step::Write { path: path(random), offset, len, fill },
        14..17 => Step::Append { path: path(random), len, fill },
        17..19 => Step::Truncate { path: path(random), size: random.below(40_000) },
        19 => Step::Truncate { path: path(random), size: 0 },
        20 => Step::Punch { path: path(random), offset, len: 1 + random.below(20_000) },
        21 => Step::Chmod { path: path(random), mode: random.below(0o1000) as u32 },
        22 => Step::Symlink { path: path(random), target: path(random) },
        23 | 24 => Step::Link { path: path(random), to: path(random) },
        25..29 => Step::Unlink(path(random)),
        29..32 => Step::Rename {
            path: path(random),
            to: path(random),
            no_replace: random.one_in(4),
            exchange: false,
        },
        32 => {
            Step::Rename { path: path(random), to: path(random), no_replace: false, exchange: true }
        }
        33 | 34 => Step::SetXattr { path: path(random), name: xattr, len: len.min(5_000), fill },
        35 => Step::RemoveXattr { path: path(random), name: xattr },
        36 | 37 => Step::Fsync(path(random)),
        38 => Step::SyncDir(pick(random, &PLACES).to_owned()),
        39 => Step::Hold { slot, path: path(random) },
        40 => Step::WriteHeld { slot, offset, len, fill },
        41 => Step::LetGo(slot),
        42 | 43 => Step::Maintain,
        44 => Step::Flush,
        _ if random.one_in(2) => Step::Restart,
        _ => Step::Maintain,
    }
}
