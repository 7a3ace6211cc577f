//! Checks, repairs and scrubs of a volume with files in a home: what is wrong is named, what can be mended is, and
//! nothing that is left of anybody's bytes goes.

use crate::world::*;
use base::Disk as _;
use base::disk::{Fault, FaultKind};
use fs::dump::dump;
use fs::schema::{BackingRecord, Form, Inode, Parsed, ScrubState};
use fs::*;
use home::{Backing, Home, Place};
use std::io;
use std::sync::Arc;

async fn put(bench: &Bench, parsed: &Parsed, value: Option<Vec<u8>>) {
    let key = bench.volume.keys().unparse(parsed);
    let mut txn = bench.world.store.begin().await.unwrap();
    match value {
        Some(value) => txn.put(&key, value).unwrap(),
        None => txn.delete(&key).unwrap(),
    }
    txn.commit(kv::Durability::Process).await.unwrap();
}

async fn lend(bench: &Bench, blob: u64, ino: Ino) {
    let parsed = Parsed::Backing { blob };
    let key = bench.volume.keys().unparse(&parsed);
    let record = BackingRecord { ino, ..BackingRecord::default() };
    put(bench, &parsed, Some(record.encode(&key))).await;
}

async fn change(bench: &Bench, ino: Ino, change: impl FnOnce(&mut Inode)) {
    let mut inode = bench.record(ino).await;
    change(&mut inode);
    let parsed = Parsed::Inode { ino };
    let key = bench.volume.keys().unparse(&parsed);
    put(bench, &parsed, Some(inode.encode(&key, ino))).await;
}

async fn kinds(bench: &Bench) -> Vec<&'static str> {
    let report = Check::new(&bench.volume).run(&NoProgress).await.unwrap();
    report.findings.iter().map(|finding| finding.kind).collect()
}

/// Repairs, and begins a new session. What is left is returned.
async fn repair(bench: &mut Bench) -> Vec<&'static str> {
    let report = Repair::new(&bench.volume).run(&NoProgress).await.unwrap();
    let again = Repair::new(&bench.volume).run(&NoProgress).await.unwrap();
    assert!(!again.is_changed(), "a second repair changes nothing: {again:?}");
    bench.die().await;
    bench.session.maintain().await.unwrap();
    bench.settle().await;
    assert_eq!(kinds(bench).await.len(), report.after.findings.len(), "{report:?}");
    report.after.findings.iter().map(|finding| finding.kind).collect()
}

/// What is in lost+found.
async fn lost(bench: &Bench) -> Vec<Vec<u8>> {
    let Ok(dir) = bench.session.lookup(&root(), ROOT, b"lost+found").await else {
        return Vec::new();
    };
    let handle = bench.session.opendir(&root(), dir.ino).await.unwrap();
    let listed = bench.session.readdir(handle, 0, usize::MAX).await.unwrap();
    bench.session.releasedir(handle).await.unwrap();
    let mut all = Vec::new();
    for entry in listed.into_iter().skip(2) {
        all.push(bench.contents(entry.ino).await);
    }
    all
}

/// A bench with a small file, and two that are in the home.
async fn furnished(bench: &Bench) -> (Ino, Ino, Ino) {
    let small = bench.file("small", &pattern(1, 100)).await;
    let large = bench.file("large", &pattern(2, 20_000)).await;
    let other = bench.file("other", &pattern(3, 30_000)).await;
    assert_eq!(kinds(bench).await, Vec::<&str>::new());
    (small, large, other)
}

async fn whole(bench: &Bench, files: &[(Ino, Vec<u8>)]) {
    for (ino, bytes) in files {
        assert!(bench.contents(*ino).await == *bytes, "inode {ino}");
    }
}

#[test]
fn a_file_that_is_lent_to_nobody_is_found_and_its_bytes_are_saved() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        let (open, _handle) = bench.make("open", &pattern(4, 9000)).await;
        let blob = bench.backings().await.into_iter().find(|(_, it)| it.ino == open).unwrap().0;
        // Its inode is lost, with its name.
        let name = Parsed::Entry { parent: ROOT, name: b"open".to_vec() };
        put(&bench, &name, None).await;
        put(&bench, &Parsed::Inode { ino: open }, None).await;
        let found = kinds(&bench).await;
        assert!(found.contains(&"backing-nobody"), "{found:?}");
        assert_eq!(repair(&mut bench).await, Vec::<&str>::new());
        assert_eq!(lost(&bench).await, [pattern(4, 9000)]);
        assert!(!bench.backings().await.contains_key(&blob), "it has an owner");
        let files =
            [(small, pattern(1, 100)), (large, pattern(2, 20_000)), (other, pattern(3, 30_000))];
        whole(&bench, &files).await;
        bench.audit().await;
    });
}

#[test]
fn a_file_of_an_inode_whose_record_is_lost_is_found_and_its_bytes_are_saved() {
    for damaged in [false, true] {
        on_bench(move |mut bench| async move {
            let (small, large, other) = furnished(&bench).await;
            bench.restart().await;
            let value = if damaged { Some(vec![1, 2, 3]) } else { None };
            put(&bench, &Parsed::Inode { ino: large }, value).await;
            let found = kinds(&bench).await;
            assert!(found.contains(&"local-unknown"), "{found:?}");
            assert_eq!(repair(&mut bench).await, Vec::<&str>::new());
            assert_eq!(lost(&bench).await, [pattern(2, 20_000)]);
            whole(&bench, &[(small, pattern(1, 100)), (other, pattern(3, 30_000))]).await;
            bench.audit().await;
        });
    }
}

#[test]
fn a_file_that_nobody_knows_is_saved_or_free_and_its_number_is_not_given_out() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        bench.restart().await;
        let highest = bench.backings().await.into_keys().max().unwrap() + 100_000;
        let volume = bench.volume.keys().volume_number();
        bench.disk.poke(&format!("{volume}-{highest}"), pattern(5, 7000));
        bench.disk.poke(&format!("{volume}-{}", highest + 1), Vec::new());
        let found = kinds(&bench).await;
        assert_eq!(found, ["local-unknown", "local-unknown"]);
        assert_eq!(repair(&mut bench).await, Vec::<&str>::new());
        assert_eq!(lost(&bench).await, [pattern(5, 7000)]);
        assert!(bench.backings().await.contains_key(&(highest + 1)), "it can be lent");
        let new = bench.file("new", &pattern(6, 9000)).await;
        assert!(new > highest + 1, "{new}");
        let files =
            [(small, pattern(1, 100)), (large, pattern(2, 20_000)), (other, pattern(3, 30_000))];
        whole(&bench, &files).await;
        bench.audit().await;
    });
}

#[test]
fn a_file_that_an_inode_has_is_not_free_and_not_lent_to_another() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        let blob = bench.record(large).await.blob;
        for ino in [0, small, other] {
            lend(&bench, blob, ino).await;
            assert_eq!(kinds(&bench).await, ["backing-owned"]);
            assert_eq!(repair(&mut bench).await, Vec::<&str>::new());
            let files = [
                (small, pattern(1, 100)),
                (large, pattern(2, 20_000)),
                (other, pattern(3, 30_000)),
            ];
            whole(&bench, &files).await;
        }
        bench.audit().await;
    });
}

#[test]
fn an_inode_is_lent_one_file() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        let (open, _handle) = bench.make("open", &pattern(4, 9000)).await;
        let free = bench.backings().await.into_iter().find(|(_, it)| it.ino == 0).unwrap().0;
        lend(&bench, free, open).await;
        assert_eq!(kinds(&bench).await, ["backing-twice"]);
        let left = repair(&mut bench).await;
        assert_eq!(left, Vec::<&str>::new());
        // Which of the two was right nobody can tell: what has bytes is somewhere.
        let mut all = lost(&bench).await;
        all.push(bench.contents(open).await);
        assert!(all.contains(&pattern(4, 9000)));
        let files =
            [(small, pattern(1, 100)), (large, pattern(2, 20_000)), (other, pattern(3, 30_000))];
        whole(&bench, &files).await;
        bench.audit().await;
    });
}

#[test]
fn a_damaged_record_of_a_file_does_not_lose_its_bytes() {
    on_bench(|mut bench| async move {
        furnished(&bench).await;
        let (open, _handle) = bench.make("open", &pattern(4, 9000)).await;
        let blob = bench.backings().await.into_iter().find(|(_, it)| it.ino == open).unwrap().0;
        put(&bench, &Parsed::Backing { blob }, Some(vec![1, 2, 3])).await;
        assert_eq!(kinds(&bench).await, ["damaged-record"]);
        assert_eq!(repair(&mut bench).await, Vec::<&str>::new());
        assert_eq!(lost(&bench).await, [pattern(4, 9000)]);
        assert_eq!(bench.contents(open).await, b"", "what its record says");
        bench.audit().await;
    });
}

#[test]
fn a_missing_file_is_named_and_no_other_is_touched() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        bench.restart().await;
        let blob = bench.record(large).await.blob;
        let mut name = bench.disk.list().unwrap().into_iter();
        let name = name.find(|name| name.ends_with(&format!("-{blob}"))).unwrap();
        let bytes = bench.disk.peek(&name).unwrap();
        bench.disk.lose(&name);
        assert_eq!(kinds(&bench).await, ["local-missing"]);
        let handle = bench.session.open(&root(), large, OpenFlags::READ).await;
        let error = match handle {
            Ok(handle) => bench.session.read(handle, 0, 100).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.errno(), 5, "{error}");
        assert!(error.to_string().contains(&blob.to_string()), "it names the file: {error}");
        whole(&bench, &[(small, pattern(1, 100)), (other, pattern(3, 30_000))]).await;
        let done = bench.session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap();
        assert_eq!((done.state, done.damaged), (ScrubState::Done, 1), "{done:?}");
        assert_eq!(done.findings[0].ino, large);
        assert_eq!(repair(&mut bench).await, ["local-missing"], "nobody can invent them");
        // It comes back, as from a backup.
        bench.disk.poke(&name, bytes);
        assert_eq!(kinds(&bench).await, Vec::<&str>::new());
        bench.restart().await;
        assert_eq!(bench.contents(large).await, pattern(2, 20_000));
        // What is missing can be removed.
        bench.restart().await;
        bench.disk.lose(&name);
        bench.session.unlink(&root(), ROOT, b"large").await.unwrap();
        bench.settle().await;
        bench.audit().await;
    });
}

#[test]
fn a_file_of_another_size_is_found_and_what_is_there_counts() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        bench.restart().await;
        let blob = bench.record(large).await.blob;
        let mut name = bench.disk.list().unwrap().into_iter();
        let name = name.find(|name| name.ends_with(&format!("-{blob}"))).unwrap();
        let bytes = bench.disk.peek(&name).unwrap();
        bench.disk.poke(&name, bytes[..12_345].to_vec());
        assert_eq!(kinds(&bench).await, ["local-size"]);
        let done = bench.session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap();
        assert_eq!(done.damaged, 1, "{done:?}");
        let mut sink = Vec::new();
        let error = dump(&bench.session, &mut sink, &NoProgress).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "a dump does not make bytes up");
        assert_eq!(repair(&mut bench).await, Vec::<&str>::new());
        assert_eq!(bench.contents(large).await, bytes[..12_345]);
        whole(&bench, &[(small, pattern(1, 100)), (other, pattern(3, 30_000))]).await;
        bench.audit().await;
    });
}

#[test]
fn two_inodes_do_not_keep_one_file() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        let (size, blob) = (20_000, bench.record(large).await.blob);
        change(&bench, other, |inode| (inode.size, inode.blob) = (size, blob)).await;
        let found = kinds(&bench).await;
        assert!(found.contains(&"blob-shared"), "{found:?}");
        assert_eq!(repair(&mut bench).await, Vec::<&str>::new());
        let (one, two) = (bench.contents(large).await, bench.contents(other).await);
        assert!([&one, &two].contains(&&pattern(2, 20_000)), "one of them has the bytes");
        assert!(one.is_empty() || two.is_empty());
        assert_eq!(bench.contents(small).await, pattern(1, 100));
        bench.audit().await;
    });
}

#[test]
fn a_scrub_reads_every_byte_of_the_home() {
    on_bench(|bench| async move {
        let (_, large, _) = furnished(&bench).await;
        let done = bench.session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap();
        assert_eq!((done.state, done.damaged), (ScrubState::Done, 0), "{done:?}");
        assert!(done.bytes > 50_000, "{done:?}");
        let at = bench.disk.reads();
        bench.disk.set_fault(Fault { at, kind: FaultKind::ReadError });
        let done = bench.session.scrub(&ScrubOptions::default(), &NoProgress).await.unwrap();
        bench.disk.clear_faults();
        assert_eq!((done.state, done.damaged), (ScrubState::Done, 1), "{done:?}");
        assert_eq!(done.findings[0].kind, "local-unreadable");
        assert_eq!(bench.form(large).await, Form::Local);
    });
}

/// A home in which one file cannot be opened.
#[derive(Debug)]
struct Picky(Arc<dyn Home>, u64);

impl Home for Picky {
    fn make(&self, place: Place) -> io::Result<Arc<dyn Backing>> {
        self.0.make(place)
    }

    fn open(&self, place: Place) -> io::Result<Arc<dyn Backing>> {
        match place.blob == self.1 {
            true => Err(io::Error::from_raw_os_error(5)),
            false => self.0.open(place),
        }
    }

    fn remove(&self, place: Place) -> io::Result<()> {
        self.0.remove(place)
    }

    fn remove_all(&self, volume: u16) -> io::Result<()> {
        self.0.remove_all(volume)
    }

    fn numbers(&self, volume: u16) -> io::Result<Vec<u64>> {
        self.0.numbers(volume)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn sync_names(&self, places: &[Place]) -> io::Result<()> {
        self.0.sync_names(places)
    }

    fn life(&self) -> u64 {
        self.0.life()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[test]
fn one_file_that_cannot_be_opened_does_not_keep_the_volume_from_being_used() {
    on_bench(|mut bench| async move {
        let (small, large, other) = furnished(&bench).await;
        let (open, _handle) = bench.make("open", &pattern(4, 9000)).await;
        let blob = bench.backings().await.into_iter().find(|(_, it)| it.ino == open).unwrap().0;
        let good = bench.world.home.clone().unwrap();
        let world = World { home: Some(Arc::new(Picky(good, blob))), ..bench.world.clone() };
        let volume = Volume::open(&world, "test").await.unwrap();
        bench.session = begin(&volume, options()).await;
        let handle = bench.open(open).await;
        assert_eq!(bench.session.read(handle, 0, 10).await.unwrap_err().errno(), 5);
        bench.session.release(handle).await.unwrap();
        let _ = bench.session.settle(true).await;
        let files =
            [(small, pattern(1, 100)), (large, pattern(2, 20_000)), (other, pattern(3, 30_000))];
        whole(&bench, &files).await;
        // The next one can open it again.
        bench.die().await;
        assert_eq!(bench.contents(open).await, pattern(4, 9000));
    });
}
