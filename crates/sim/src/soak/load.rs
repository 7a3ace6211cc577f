//! What the soak does beside the writers of `crash`: large files, long listings, locks, and other people's
//! programs; each in a directory of its own, again and again.

use crate::crash::Round;
use crate::real::fill;
use base::{Random, SeededRandom};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// One kind of work: a cycle that leaves its directory as it was.
pub(crate) type Cycle = fn(&Path, &SeededRandom, &Round) -> io::Result<()>;

/// All kinds, and the names of their directories.
pub(crate) const CYCLES: [(&str, Cycle); 5] =
    [("large", large), ("listing", listing), ("locks", locks), ("tar", tar), ("git", git)];

const LARGE_BYTES: usize = 24 << 20;
const PIECE: usize = 1 << 20;
const NAMES: u64 = 1_000;

/// Runs one kind until the round is over.
pub(crate) fn work(
    (name, cycle): (&str, Cycle),
    mountpoint: &Path,
    seed: u64,
    round: &Round,
) -> Result<(), String> {
    let place = mountpoint.join(name);
    let random = SeededRandom::new(seed);
    while round.goes_on() {
        let done = fs::create_dir(&place).and_then(|()| cycle(&place, &random, round));
        if let Err(error) = done.and_then(|()| fs::remove_dir_all(&place)) {
            return round.gone(&error, name);
        }
    }
    Ok(())
}

/// A file of several chunks: written, synced, read, cut, renamed, removed while it is open.
fn large(place: &Path, random: &SeededRandom, round: &Round) -> io::Result<()> {
    let seed = random.next_u64();
    let mut file = File::create(place.join("file"))?;
    for piece in 0..LARGE_BYTES / PIECE {
        file.write_all(&fill(seed + piece as u64, PIECE))?;
        round.acknowledge();
    }
    file.sync_all()?;
    let mut reader = File::open(place.join("file"))?;
    let mut bytes = vec![0; PIECE];
    for piece in 0..LARGE_BYTES / PIECE {
        reader.read_exact(&mut bytes)?;
        if bytes != fill(seed + piece as u64, PIECE) {
            return Err(io::Error::other(format!("piece {piece} has other bytes")));
        }
    }
    file.set_len(random.below(LARGE_BYTES as u64))?;
    fs::rename(place.join("file"), place.join("renamed"))?;
    fs::remove_file(place.join("renamed"))?;
    file.write_all(b"without a name")
}

/// Many names, listed whole.
fn listing(place: &Path, random: &SeededRandom, round: &Round) -> io::Result<()> {
    for number in 0..NAMES {
        fs::write(place.join(format!("name-{number}")), number.to_string())?;
        round.acknowledge();
    }
    let mut left = NAMES as usize;
    for number in 0..NAMES {
        if random.one_in(3) {
            fs::remove_file(place.join(format!("name-{number}")))?;
            left -= 1;
        }
    }
    let found = fs::read_dir(place)?.count();
    if found != left {
        return Err(io::Error::other(format!("{found} names are listed, not {left}")));
    }
    Ok(())
}

/// Locks of two open files of one name.
fn locks(place: &Path, random: &SeededRandom, round: &Round) -> io::Result<()> {
    let path = place.join("file");
    let one = File::create(&path)?;
    for _ in 0..100 {
        let other = File::open(&path)?;
        flock(&one, FlockOperation::LockExclusive)?;
        let is_refused = flock(&other, FlockOperation::NonBlockingLockShared).is_err();
        flock(&one, FlockOperation::Unlock)?;
        flock(&other, FlockOperation::NonBlockingLockShared)?;
        if !is_refused {
            return Err(io::Error::other("a lock was given twice"));
        }
        one.set_len(random.below(100_000))?;
        round.acknowledge();
    }
    Ok(())
}

/// A tree, packed and unpacked and compared.
fn tar(place: &Path, random: &SeededRandom, round: &Round) -> io::Result<()> {
    tree(&place.join("tree"), random)?;
    let line = "tar cf all.tar tree && mkdir out && tar xf all.tar -C out && diff -r tree out/tree";
    shell(place, line)?;
    round.acknowledge();
    Ok(())
}

/// A repository with a few commits, packed.
fn git(place: &Path, random: &SeededRandom, round: &Round) -> io::Result<()> {
    tree(&place.join("tree"), random)?;
    let line = "git init -q . && git add -A && git -c user.name=x -c user.email=x@x commit -qm one && \
         rm -r tree/1 && git add -A && git -c user.name=x -c user.email=x@x commit -qm two && \
         git gc -q && git fsck --no-progress && git status --porcelain";
    shell(place, line)?;
    round.acknowledge();
    Ok(())
}

fn tree(place: &Path, random: &SeededRandom) -> io::Result<()> {
    for directory in 0..4 {
        let within = place.join(directory.to_string());
        fs::create_dir_all(&within)?;
        for file in 0..20 {
            let len = random.below(40_000) as usize;
            fs::write(within.join(file.to_string()), fill(random.next_u64(), len))?;
        }
    }
    Ok(())
}

/// Runs a line of shell, without settings of whoever runs this.
fn shell(place: &Path, line: &str) -> io::Result<()> {
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(place).stdin(Stdio::null());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{line}: {}: {words}", output.status)))
}
