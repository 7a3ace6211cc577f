//! What logs and answers have in them: nothing of what files hold, nothing of the environment.

use crate::site::Site;
use rustix::fs::{XattrFlags, setxattr};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;

/// Things that nobody but their owner should read.
const CONTENT: &str = "content-8fd3";
const ATTRIBUTE: &str = "attribute-1b77";
const TARGET: &str = "target-c2e0";
const ENVIRONMENT: &str = "environment-55a1";
const NAME: &str = "name-9d4e";

#[test]
fn logs_and_answers_tell_nothing_of_what_files_hold() {
    let Some(site) = Site::new("logs and answers") else { return };
    let (store, place) = (site.at("store"), site.at("place"));
    let words = [
        "mount".as_ref(),
        "--background".as_ref(),
        "--log-level=trace".as_ref(),
        store.as_os_str(),
        place.as_os_str(),
    ];
    let mut command = site.command(None, &words);
    command.env("A_PASSWORD", ENVIRONMENT);
    let mounted = crate::tool::finish(&mut command, crate::ground::PATIENCE);
    assert!(mounted.success(), "{mounted}");
    let file = place.join(NAME);
    fs::write(&file, CONTENT.repeat(3)).unwrap();
    fs::write(place.join("large"), CONTENT.repeat(100_000)).unwrap();
    setxattr(&file, "user.attribute", ATTRIBUTE.as_bytes(), XattrFlags::empty()).unwrap();
    symlink(TARGET, place.join("link")).unwrap();
    // Errors are logged, too.
    assert!(fs::read(place.join("not-there")).is_err());
    assert!(fs::remove_dir(&file).is_err());
    let mut said = mounted.all();
    let target = place.as_os_str();
    let all: [&[&OsStr]; 8] = [
        &["status".as_ref(), target],
        &["status".as_ref(), "--json".as_ref(), target],
        &["stats".as_ref(), "--once".as_ref(), "--json".as_ref(), target],
        &["fsck".as_ref(), "--json".as_ref(), target],
        &["gc".as_ref(), "--json".as_ref(), target],
        &["summary".as_ref(), "--json".as_ref(), target],
        &["config".as_ref(), "list".as_ref(), "--json".as_ref(), target],
        &["info".as_ref(), "--json".as_ref(), target],
    ];
    for words in all {
        let ended = site.run(None, words);
        assert!(ended.success(), "{ended}");
        said += &ended.all();
    }
    // Where nobody has asked for a file, its name is not told either.
    assert!(!said.contains(NAME), "{said}");
    said += &site.run(None, &["info".as_ref(), "--json".as_ref(), file.as_os_str()]).all();
    site.umount(None, &place);
    let log = fs::read_to_string(store.join("daemon.log")).unwrap();
    assert!(log.contains("mounted"), "{log}");
    said += &log;
    for secret in [CONTENT, ATTRIBUTE, ENVIRONMENT] {
        assert!(!said.contains(secret), "{secret} is told: {said}");
    }
    assert!(!log.contains(TARGET) && !log.contains("not-there"), "{log}");
}
