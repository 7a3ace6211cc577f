//! A daemon that may have few descriptors, few threads, little memory: slow, or an error in words; never an
//! abort, and nothing lost.

use crate::ground::{PATIENCE, is_mounted, wait};
use crate::site::{NOBODY, Site, users_can_mount};
use crate::tool::{Ended, finish};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// It ended by itself, with a code and in words.
fn assert_orderly(ended: &Ended, how: &str) {
    let code = ended.status.and_then(|status| status.code());
    assert!(code.is_some_and(|code| code < 100), "{how}: {ended}");
    assert!(!ended.all().contains("panicked"), "{how}: {ended}");
    assert!(
        ended.success() || ended.all().contains("cannot"),
        "{how}: it does not say what: {ended}"
    );
}

/// Writes and reads; every answer is what was written, or an errno. Says how many worked.
fn use_it(place: &Path) -> usize {
    // By a descriptor: when the mount goes, a path leads to what is below it.
    let Ok(root) = fs::File::open(place) else { return 0 };
    if !is_mounted(place) && !place.parent().is_some_and(is_mounted) {
        return 0;
    }
    let place = Path::new("/proc/self/fd").join(root.as_raw_fd().to_string());
    let mut kept = Vec::new();
    for number in 0..60_u8 {
        let path = place.join(number.to_string());
        if fs::write(&path, vec![number; 150_000]).is_ok() {
            kept.push((path, number));
        }
    }
    for (path, number) in &kept {
        if let Ok(bytes) = fs::read(path) {
            assert!(bytes.len() == 150_000 && bytes.iter().all(|byte| byte == number));
        }
    }
    kept.len()
}

#[test]
fn few_descriptors() {
    let Some(site) = Site::new("few descriptors") else { return };
    let (store, place) = (site.at("store"), site.at("place"));
    let words = [
        "mount".as_ref(),
        "--background".as_ref(),
        "--memory=1MiB".as_ref(),
        store.as_os_str(),
        place.as_os_str(),
    ];
    let mut served = false;
    for limit in [4, 8, 12, 16, 20, 32, 256] {
        let line = format!("ulimit -n {limit}; exec \"$@\"");
        let ended = finish(&mut site.behind(&line, None, &words), PATIENCE);
        assert_orderly(&ended, &format!("{limit} descriptors"));
        if ended.success() && is_mounted(&place) {
            served = true;
            let worked = use_it(&place);
            assert!(worked == 60 || limit < 256, "{limit} descriptors: {worked} of 60 worked");
            // One that has not even enough for its log ends by itself.
            wait("it is not mounted", || {
                site.run(None, &["umount".as_ref(), place.as_os_str()]);
                !is_mounted(&place)
            });
        }
        // It may have failed before there was a store, or a volume in it; and it may just be ending.
        wait("nothing is lost", || {
            let check = site.run(None, &["fsck".as_ref(), store.as_os_str()]);
            check.success() || (!served && check.status.unwrap().code() == Some(3))
        });
    }
    assert!(served, "with 256 it works");
}

#[test]
fn few_threads() {
    let proof = "few threads";
    let Some(site) = Site::new(proof) else { return };
    if !users_can_mount(proof) {
        return;
    }
    // The limit does not hold for root.
    let own = site.directory("own", Some(NOBODY), 0o755);
    let (store, place) = (own.join("store"), own.join("place"));
    let words = ["mount".as_ref(), "--background".as_ref(), store.as_os_str(), place.as_os_str()];
    let mut served = false;
    for limit in [1, 3, 6, 10, 16, 200] {
        let line = format!("ulimit -u {limit} 2>/dev/null || ulimit -p {limit}; exec \"$@\"");
        let ended = finish(&mut site.behind(&line, Some(NOBODY), &words), PATIENCE);
        assert_orderly(&ended, &format!("{limit} threads"));
        if ended.success() {
            served = true;
            let worked = NOBODY.does(|| use_it(&place));
            assert!(worked == 60, "{limit} threads: {worked} of 60 files were written");
            site.umount(Some(NOBODY), &place);
        }
    }
    assert!(served, "with 200 it works");
}

#[test]
fn one_thread_and_little_memory_for_many_writers() {
    let Some(site) = Site::new("one thread") else { return };
    let (store, place) = (site.at("store"), site.at("place"));
    let words = [
        "mount".as_ref(),
        "--background".as_ref(),
        "--memory=1MiB".as_ref(),
        "--threads=1".as_ref(),
        store.as_os_str(),
        place.as_os_str(),
    ];
    let ended = site.run(None, &words);
    assert!(ended.success(), "{ended}");
    std::thread::scope(|scope| {
        for writer in 0..32 {
            let home = place.join(format!("writer-{writer}"));
            scope.spawn(move || {
                fs::create_dir(&home).unwrap();
                assert_eq!(use_it(&home), 60);
            });
        }
    });
    assert_eq!(fs::read_dir(&place).unwrap().count(), 32);
    site.umount(None, &place);
    assert!(site.run(None, &["fsck".as_ref(), store.as_os_str()]).success());
}
