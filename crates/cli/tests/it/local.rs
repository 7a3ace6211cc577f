//! Files of the local home, which the kernel uses by itself where it can: any way of opening a file beside
//! any other, with mappings, while it moves between its forms; sizes and times for every reader.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::{Signal, kill_process};

use crate::ground::{Ground, wait};
use crate::peer::Peer;

/// More than a file has inline.
pub(crate) const LARGE: usize = 40_000;
/// More than is read in the kernel's cache.
pub(crate) const HUGE: usize = 200_000;
/// Less than that.
pub(crate) const SMALL: usize = 5000;

/// Ways to open a file.
pub(crate) const WAYS: [(&str, OFlags); 7] = [
    ("reading", OFlags::RDONLY),
    ("writing", OFlags::WRONLY),
    ("both", OFlags::RDWR),
    ("anew", OFlags::RDWR.union(OFlags::TRUNC)),
    ("anew, writing", OFlags::WRONLY.union(OFlags::TRUNC)),
    ("appending", OFlags::RDWR.union(OFlags::APPEND)),
    ("past the cache", OFlags::RDWR.union(OFlags::DIRECT)),
];

/// Opens a file so.
pub(crate) fn open(path: &Path, way: OFlags) -> std::io::Result<File> {
    let access = way & OFlags::RWMODE;
    let flags = way & !(OFlags::RWMODE | OFlags::TRUNC | OFlags::APPEND);
    File::options()
        .read(access != OFlags::WRONLY)
        .write(access != OFlags::RDONLY && !way.contains(OFlags::APPEND))
        .append(way.contains(OFlags::APPEND))
        .truncate(way.contains(OFlags::TRUNC))
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// A file, with what must be in it.
pub(crate) struct Known {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) round: u8,
}

impl Known {
    /// Opens it, and fills it again when that emptied it.
    pub(crate) fn open(&mut self, name: &str, way: OFlags, context: &str) -> File {
        let file =
            open(&self.path, way).unwrap_or_else(|error| panic!("{context}, {name}: {error}"));
        if way.contains(OFlags::TRUNC) {
            assert_eq!(file.metadata().unwrap().len(), 0, "{context}, {name}");
            self.round = self.round.wrapping_add(1);
            self.bytes.fill(self.round);
            file.write_all_at(&self.bytes, 0).unwrap();
        }
        file
    }

    /// Changes it through a handle, as the handle allows.
    pub(crate) fn change(&mut self, file: &File, way: OFlags, at: usize) {
        self.round = self.round.wrapping_add(1);
        let round = self.round;
        if way & OFlags::RWMODE == OFlags::RDONLY || way.contains(OFlags::DIRECT) {
            return;
        }
        if way.contains(OFlags::APPEND) {
            let mut file = file;
            file.write_all(&[round]).unwrap();
            self.bytes.push(round);
            return;
        }
        file.write_all_at(&[round; 50], at as u64).unwrap();
        self.bytes[at..at + 50].fill(round);
    }

    /// What a handle shows, and what a new one does.
    pub(crate) fn check(&self, handles: &[(&File, OFlags)], context: &str) {
        let fresh = File::open(&self.path).unwrap_or_else(|error| panic!("{context}: {error}"));
        for (file, way) in handles.iter().copied().chain([(&fresh, OFlags::RDONLY)]) {
            assert_eq!(file.metadata().unwrap().len(), self.bytes.len() as u64, "{context}");
            if way & OFlags::RWMODE == OFlags::WRONLY || way.contains(OFlags::DIRECT) {
                continue;
            }
            let mut found = vec![0; self.bytes.len()];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == self.bytes, "{context}: other bytes");
        }
    }
}

/// Every pair of ways, on one file after the other.
fn pairs(ground: &Ground, peer: &mut Peer, files: &mut [Known]) {
    for known in files {
        let name = known.path.file_name().unwrap().to_string_lossy().into_owned();
        for (one, first) in WAYS {
            for (two, second) in WAYS {
                let context = format!("{name}: {one}, then {two}");
                let a = known.open(one, first, &context);
                known.change(&a, first, 100);
                let b = known.open(two, second, &context);
                known.change(&b, second, 200);
                known.change(&a, first, 300);
                known.check(&[(&a, first), (&b, second)], &context);
                // In either order.
                match (first.bits() ^ second.bits()) & 2 {
                    0 => drop((a, b)),
                    _ => drop((b, a)),
                }
                known.check(&[], &context);
            }
        }
        for (two, second) in WAYS {
            let context = format!("{name}: mapped, then {two}");
            peer.open(0, OFlags::RDWR, &known.path).unwrap();
            peer.ask(&format!("map 0 {SMALL}")).unwrap();
            // The mapping stays when its descriptor goes.
            peer.ask("close 0").unwrap();
            peer.ask("poke 0 1000 mapped").unwrap();
            known.bytes[1000..1006].copy_from_slice(b"mapped");
            let b = known.open(two, second, &context);
            known.change(&b, second, 2000);
            peer.ask("poke 0 3000 again").unwrap();
            known.bytes[3000..3005].copy_from_slice(b"again");
            known.check(&[(&b, second)], &context);
            let shown = peer.ask("peek 0 3000 5").unwrap();
            assert_eq!(shown, "again", "{context}");
            drop(b);
            peer.ask("poke 0 4000 last").unwrap();
            known.bytes[4000..4004].copy_from_slice(b"last");
            peer.ask("unmap 0").unwrap();
            known.check(&[], &context);
        }
        assert!(!ground.log().contains("panicked"));
    }
}

fn forms_and_ways(mut ground: Ground, proof: &str) {
    let Some(mut peer) = Peer::start(proof) else { return };
    let mut files: Vec<Known> = [("small", SMALL), ("large", LARGE), ("huge", HUGE)]
        .map(|(name, len)| {
            let path = ground.file(name, vec![1; len]);
            Known { path, bytes: vec![1; len], round: 1 }
        })
        .into();
    // Settled, and then as they come.
    for _ in 0..2 {
        ground.remount();
        pairs(&ground, &mut peer, &mut files);
    }
    // One that outgrows its record while it is open in two ways.
    let path = ground.file("growing", vec![1; 100]);
    ground.remount();
    let mut growing = Known { path, bytes: vec![1; 100], round: 1 };
    let reader = File::open(&growing.path).unwrap();
    let writer = growing.open("appending", OFlags::RDWR | OFlags::APPEND, "growing");
    for _ in 0..10 {
        (&writer).write_all(&[3; 7000]).unwrap();
        growing.bytes.extend_from_slice(&[3; 7000]);
        growing.check(&[(&reader, OFlags::RDONLY), (&writer, OFlags::RDWR)], "growing");
    }
    drop((reader, writer));
    files.push(growing);
    pairs(&ground, &mut peer, &mut files[3..]);
    ground.remount();
    for known in &files {
        known.check(&[], "after all");
    }
    ground.unmount();
    if let Some(store) = ground.store() {
        let checked = ground.seamount(&["fsck".as_ref(), store.as_os_str()]);
        assert!(checked.success(), "{checked}");
    }
}

#[test]
fn a_file_is_opened_in_any_way_beside_any_other() {
    let proof = "ways to open a file";
    let Some(ground) = Ground::new(proof) else { return };
    forms_and_ways(ground, proof);
}

#[test]
fn the_same_through_the_daemon() {
    let proof = "ways to open a file through the daemon";
    let Some(ground) = Ground::through_daemon(proof) else { return };
    forms_and_ways(ground, proof);
}

#[test]
fn size_and_times_are_right_for_every_reader_at_every_time() {
    let proof = "sizes and times";
    let Some(ground) = Ground::new(proof) else { return };
    let Some(mut peer) = Peer::start(proof) else { return };
    let dir = ground.directory("dir");
    let path = dir.join("file");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let made = fs::metadata(&path).unwrap();
    assert_eq!((made.len(), made.mtime_nsec()), (0, made.ctime_nsec()));
    let mut last = made.modified().unwrap();
    for round in 1..=40_u64 {
        file.write_all(&[7; 1000]).unwrap();
        let by_name = fs::metadata(&path).unwrap();
        let by_handle = file.metadata().unwrap();
        let listed = fs::read_dir(&dir).unwrap().next().unwrap().unwrap().metadata().unwrap();
        for seen in [&by_name, &by_handle, &listed] {
            assert_eq!(seen.len(), round * 1000);
            assert_eq!(seen.modified().unwrap(), by_name.modified().unwrap());
            assert!(seen.modified().unwrap() >= last, "round {round}");
        }
        last = by_name.modified().unwrap();
    }
    drop(file);
    let closed = fs::metadata(&path).unwrap();
    assert_eq!((closed.len(), closed.modified().unwrap()), (40_000, last));

    // A mapping changes the time without a word; whoever looks after it sees that.
    peer.open(0, OFlags::RDWR, &path).unwrap();
    peer.ask("map 0 8192").unwrap();
    peer.ask("close 0").unwrap();
    peer.ask("poke 0 100 later").unwrap();
    peer.ask("msync 0").unwrap();
    wait("the time of a change through a mapping", || {
        fs::metadata(&path).unwrap().modified().unwrap() > last
    });
    peer.ask("unmap 0").unwrap();
    // The same for one that could not be mapped so far, of which the kernel may keep what it was told.
    let written = dir.join("written");
    fs::write(&written, [7; LARGE]).unwrap();
    let before = fs::metadata(&written).unwrap().modified().unwrap();
    peer.open(1, OFlags::RDWR, &written).unwrap();
    peer.ask("map 1 8192").unwrap();
    peer.ask("close 1").unwrap();
    wait("the time of a change through a later mapping", || {
        peer.ask("poke 1 100 later").unwrap();
        peer.ask("msync 1").unwrap();
        fs::metadata(&written).unwrap().modified().unwrap() > before
    });
    peer.ask("unmap 1").unwrap();
    // What is set stays set, also when it is the past.
    let file = File::options().write(true).open(&path).unwrap();
    let past = std::time::UNIX_EPOCH + std::time::Duration::new(1, 5);
    file.set_modified(past).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), past);
    drop(file);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), past);
    let mut ground = ground;
    ground.remount();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.len(), found.modified().unwrap()), (40_000, past));
}

#[test]
fn a_mapping_and_a_writer_outlive_the_daemon() {
    let proof = "local files outlive the daemon";
    let Some(mut ground) = Ground::new(proof) else { return };
    let Some(mut peer) = Peer::start(proof) else { return };
    if ground.is_native() {
        return;
    }
    for len in [LARGE, HUGE] {
        outlive(&mut ground, &mut peer, len);
    }
}

fn outlive(ground: &mut Ground, peer: &mut Peer, len: usize) {
    let path = ground.file(format!("{len}"), vec![1; len]);
    let small = ground.at(format!("small beside {len}"));
    let mut writer = File::create_new(&small).unwrap();
    writer.write_all(b"before").unwrap();
    let reader = File::open(&path).unwrap();
    peer.open(0, OFlags::RDWR, &path).unwrap();
    peer.ask("map 0 8192").unwrap();
    peer.ask("close 0").unwrap();
    for round in 0..3_u8 {
        let before = ground.daemons();
        kill_process(before[0], Signal::KILL).unwrap();
        wait("another daemon is there", || {
            let now = ground.daemons();
            now.len() == 1 && now != before
        });
        peer.ask(&format!("poke 0 {} here", 100 + u32::from(round) * 100)).unwrap();
        writer.write_all(&[b'0' + round]).unwrap();
        // Opened anew beside those that were open before.
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.write_all_at(&[9; 10], 20_000 + u64::from(round) * 100).unwrap();
        let mut bytes = vec![0; len];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        let at = 100 + usize::from(round) * 100;
        assert_eq!(&bytes[at..at + 4], b"here", "round {round}");
        assert_eq!(&bytes[20_000 + usize::from(round) * 100..][..10], &[9; 10]);
        let expected = 7 + u64::from(round);
        assert_eq!(fs::metadata(&small).unwrap().len(), expected, "round {round}");
        assert_eq!(fs::read(&small).unwrap().len() as u64, expected);
    }
    peer.ask("unmap 0").unwrap();
    drop((reader, writer));
    ground.remount();
    assert_eq!(fs::read(&small).unwrap(), b"before012");
    let bytes = fs::read(&path).unwrap();
    assert_eq!(
        (bytes.len(), &bytes[100..104], &bytes[300..304]),
        (len, &b"here"[..], &b"here"[..])
    );
}

/// A directory in which files are expected to stay small.
pub(crate) fn small_dir(ground: &Ground, name: &str) -> PathBuf {
    let dir = ground.directory(name);
    for number in 0..6 {
        fs::write(dir.join(format!("small {number}")), b"small").unwrap();
    }
    dir
}

#[test]
fn a_file_that_was_made_to_be_written_is_opened_in_any_way_beside_that() {
    let proof = "ways to open a file beside its first writer";
    let Some(mut ground) = Ground::new(proof) else { return };
    let Some(mut peer) = Peer::start(proof) else { return };
    let mut files = Vec::new();
    for (size, len) in [("small", SMALL), ("large", LARGE)] {
        for first in [OFlags::WRONLY, OFlags::WRONLY | OFlags::APPEND] {
            for (two, second) in WAYS {
                let context = format!("{size}, {first:?}, then {two}");
                let path = small_dir(&ground, &context.replace(' ', "-")).join("file");
                let append = first.contains(OFlags::APPEND);
                let mut options = File::options();
                options.write(true).append(append).create_new(true);
                let mut writer = options.open(&path).unwrap();
                let mut known = Known { path, bytes: vec![1; len], round: 1 };
                writer.write_all(&known.bytes).unwrap();
                let b = known.open(two, second, &context);
                known.change(&writer, first, 100);
                known.change(&b, second, 200);
                known.change(&writer, first, 300);
                known.check(&[(&writer, first), (&b, second)], &context);
                // Mapped while the writer has it open.
                peer.open(0, OFlags::RDWR, &known.path).unwrap();
                peer.ask(&format!("map 0 {SMALL}")).unwrap();
                peer.ask("close 0").unwrap();
                peer.ask("poke 0 1000 mapped").unwrap();
                known.bytes[1000..1006].copy_from_slice(b"mapped");
                if !append {
                    writer.write_all_at(b"seen", 2000).unwrap();
                    known.bytes[2000..2004].copy_from_slice(b"seen");
                    assert_eq!(peer.ask("peek 0 2000 4").unwrap(), "seen", "{context}");
                }
                known.change(&writer, first, 3000);
                known.check(&[(&writer, first), (&b, second)], &context);
                // Cut by another handle.
                known.bytes.truncate(4500);
                File::options().write(true).open(&known.path).unwrap().set_len(4500).unwrap();
                known.change(&writer, first, 4000);
                known.check(&[(&writer, first), (&b, second)], &context);
                drop((writer, b));
                peer.ask("poke 0 4100 last").unwrap();
                known.bytes[4100..4104].copy_from_slice(b"last");
                peer.ask("unmap 0").unwrap();
                known.check(&[], &context);
                files.push(known);
            }
        }
    }
    ground.remount();
    for known in &files {
        known.check(&[], "after all");
    }
}

#[test]
fn a_writer_past_the_cache_outlives_the_daemon() {
    let proof = "writers past the cache outlive the daemon";
    let Some(mut ground) = Ground::new(proof) else { return };
    let Some(mut peer) = Peer::start(proof) else { return };
    if ground.is_native() {
        return;
    }
    let path = small_dir(&ground, "dir").join("file");
    let writer = File::create_new(&path).unwrap();
    let mut known = Known { path, bytes: vec![1; SMALL], round: 1 };
    writer.write_all_at(&known.bytes, 0).unwrap();
    for round in 0..3 {
        let context = format!("round {round}");
        let before = ground.daemons();
        kill_process(before[0], Signal::KILL).unwrap();
        wait("another daemon is there", || {
            let now = ground.daemons();
            now.len() == 1 && now != before
        });
        // Whoever comes first.
        if round != 1 {
            known.change(&writer, OFlags::WRONLY, 50);
        }
        let reader = File::open(&known.path).unwrap();
        known.check(&[(&reader, OFlags::RDONLY)], &context);
        known.change(&writer, OFlags::WRONLY, 100);
        known.check(&[(&reader, OFlags::RDONLY)], &context);
        peer.open(0, OFlags::RDWR, &known.path).unwrap();
        peer.ask(&format!("map 0 {SMALL}")).unwrap();
        writer.write_all_at(b"seen", 2000).unwrap();
        known.bytes[2000..2004].copy_from_slice(b"seen");
        assert_eq!(peer.ask("peek 0 2000 4").unwrap(), "seen", "{context}");
        peer.ask("unmap 0").unwrap();
        peer.ask("close 0").unwrap();
    }
    drop(writer);
    ground.remount();
    known.check(&[], "after all");
}
