//! Links where files, directories and mountpoints are expected: what they lead to is not touched.

use crate::ground::is_mounted;
use crate::person::ANN;
use crate::site::Site;
use crate::tool::shell;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn a_log_that_is_a_link_is_not_written_through() {
    let Some(site) = Site::new("a log that is a link") else { return };
    let anns = site.directory("anns", Some(ANN), 0o755);
    let (store, place, victim) = (anns.join("store"), site.at("place"), site.at("victim"));
    assert!(site.run(Some(ANN), &["format".as_ref(), store.as_os_str()]).success());
    fs::write(&victim, "as it was").unwrap();
    for name in ["daemon.log", "control.new", "control"] {
        ANN.does(|| symlink(&victim, store.join(name)).unwrap());
        let words =
            ["mount".as_ref(), "--background".as_ref(), store.as_os_str(), place.as_os_str()];
        let ended = site.run(None, &words);
        // It may refuse, or do without; then it is there to be unmounted, or goes by itself.
        crate::ground::wait("it is not mounted", || {
            site.run(None, &["umount".as_ref(), place.as_os_str()]);
            !is_mounted(&place)
        });
        assert_eq!(fs::read(&victim).unwrap(), b"as it was", "{name}: {ended}");
        assert!(!ended.all().contains("panicked"), "{ended}");
        let _ = fs::remove_file(store.join(name));
    }
}

#[test]
fn files_of_a_store_that_are_links_are_refused() {
    let Some(site) = Site::new("store files that are links") else { return };
    let anns = site.directory("anns", Some(ANN), 0o755);
    let (store, victim) = (anns.join("store"), site.at("victim"));
    assert!(site.run(Some(ANN), &["format".as_ref(), store.as_os_str()]).success());
    let names: Vec<_> =
        fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        let (path, aside) = (store.join(&name), anns.join("aside"));
        if path.is_dir() {
            fs::rename(&path, &aside).unwrap();
            symlink(&aside, &path).unwrap();
            let ended = site.run(None, &["fsck".as_ref(), store.as_os_str()]);
            assert!(!ended.success(), "{name:?}: {ended}");
            fs::remove_file(&path).unwrap();
            fs::rename(&aside, &path).unwrap();
            continue;
        }
        // Its own bytes behind the link: only the link is wrong with it.
        fs::copy(&path, &victim).unwrap();
        let before = fs::read(&victim).unwrap();
        fs::rename(&path, &aside).unwrap();
        symlink(&victim, &path).unwrap();
        let ended = site.run(None, &["fsck".as_ref(), store.as_os_str()]);
        assert_eq!(fs::read(&victim).unwrap(), before, "{name:?}: {ended}");
        // Copies are for recovery and the reserve is room: a check reads neither.
        let is_read = !name.to_string_lossy().ends_with(".copy") && name != "reserve";
        assert!(!is_read || !ended.success(), "{name:?}: {ended}");
        assert!(!ended.all().contains("panicked"), "{name:?}: {ended}");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    assert!(site.run(None, &["fsck".as_ref(), store.as_os_str()]).success());
}

#[test]
fn a_store_stays_where_it_was_opened() {
    let Some(site) = Site::new("a store's path that leads elsewhere") else { return };
    let (store, moved, decoy) = (site.at("store"), site.at("moved"), site.at("decoy"));
    let place = site.at("place");
    fs::create_dir(&decoy).unwrap();
    let words = [
        "mount".as_ref(),
        "--background".as_ref(),
        "--memory=1MiB".as_ref(),
        store.as_os_str(),
        place.as_os_str(),
    ];
    let ended = site.run(None, &words);
    assert!(ended.success(), "{ended}");
    fs::rename(&store, &moved).unwrap();
    symlink(&decoy, &store).unwrap();
    // Enough for new logs and tables.
    shell(
        &place,
        "for i in 1 2 3 4 5 6 7 8; do head -c 1500000 /dev/urandom > file-$i; done; sync -f .; md5sum file-* > sums",
    );
    assert_eq!(
        fs::read_dir(&decoy).unwrap().count(),
        0,
        "nothing goes to where the path leads now"
    );
    let _ = site.run(None, &["umount".as_ref(), place.as_os_str()]);
    crate::ground::wait("it is unmounted", || !is_mounted(&place));
    assert_eq!(fs::read_dir(&decoy).unwrap().count(), 0);
    crate::ground::wait("the store is let go", || {
        site.run(None, &["fsck".as_ref(), moved.as_os_str()]).success()
    });
    site.mount(None, &moved, &place);
    shell(&place, "md5sum --quiet -c sums");
    site.umount(None, &place);
}

#[test]
fn a_mountpoint_that_is_a_link_means_what_it_leads_to() {
    let Some(site) = Site::new("a mountpoint that is a link") else { return };
    let (store, real, other) = (site.at("store"), site.at("real"), site.at("other"));
    let link = site.at("link");
    fs::create_dir(&real).unwrap();
    fs::create_dir(&other).unwrap();
    symlink(&real, &link).unwrap();
    site.mount(None, &store, &link);
    assert!(is_mounted(&real) && !is_mounted(&link));
    fs::write(link.join("file"), "x").unwrap();
    // The link is turned round while it is mounted: what it leads to now is none of ours.
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    let ended = site.run(None, &["umount".as_ref(), link.as_os_str()]);
    assert_eq!(ended.status.unwrap().code(), Some(3), "{ended}");
    assert_eq!(fs::read(real.join("file")).unwrap(), b"x");
    site.umount(None, &real);
    let dangling = site.at("dangling");
    symlink(site.at("nowhere"), &dangling).unwrap();
    let ended = site.run(None, &["mount".as_ref(), store.as_os_str(), dangling.as_os_str()]);
    assert!(!ended.success() && !site.at("nowhere").exists(), "{ended}");
}
