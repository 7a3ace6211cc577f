//! Each verb on a volume that is mounted, and on one that is not: the same answers.

use super::Home;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

/// A store with one of everything, not mounted.
fn filled(home: &Home) {
    home.mount("s", "m");
    let m = home.at("m");
    fs::write(m.join("small"), "hello").unwrap();
    fs::create_dir(m.join("dir")).unwrap();
    fs::write(m.join("dir/large"), vec![7; 3 << 20]).unwrap();
    std::os::unix::fs::symlink("small", m.join("link")).unwrap();
    fs::hard_link(m.join("small"), m.join("dir/again")).unwrap();
    home.umount("m");
}

#[test]
fn the_first_command_makes_mounts_and_says_where_things_are() {
    let Some(home) = Home::to_mount("the first command") else { return };
    let text = home.say(&["mount", "--background", &home.word("sea")]);
    assert_eq!(text.lines().count(), 3, "{text}");
    let store = home.at(".local/share/seamount/default");
    for word in [home.word("sea"), store.to_str().unwrap().to_owned(), "umount".to_owned()] {
        assert!(text.contains(&word), "{word}: {text}");
    }
    assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(store.join("control")).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(home.at("sea/file"), "x").unwrap();
    home.umount("sea");
    assert!(!store.join("control").exists(), "the socket goes with the daemon");
    let reply = home.json(&["mount", "--background", &home.word("sea")]);
    assert_eq!((&reply["volume_is_new"], &reply["joined"]), (&false.into(), &false.into()));
    assert_eq!(fs::read(home.at("sea/file")).unwrap(), b"x");
    home.umount("sea");
}

#[test]
fn status_tells_of_volumes_mounted_and_not() {
    let Some(home) = Home::to_mount("status") else { return };
    filled(&home);
    let store = home.word("s");
    let at_rest = home.json(&["status", &store]);
    let volume = &at_rest["stores"][0]["volumes"][0];
    assert_eq!(volume["name"], "default");
    assert_eq!(volume["inodes"], 5);
    assert_eq!(volume["mount"], serde_json::Value::Null);
    home.mount("s", "m");
    for target in [store.as_str(), &home.word("m"), &home.word("m/dir")] {
        let status = home.json(&["status", target]);
        let mounted = &status["stores"][0]["volumes"][0];
        assert_eq!(mounted["mount"]["mountpoint"], home.word("m"), "{target}");
        assert_eq!(mounted["used_bytes"], volume["used_bytes"]);
        assert_eq!(mounted["sessions"][0]["own"], true);
        assert!(status["stores"][0]["daemon_pid"].is_u64());
    }
    assert!(home.say(&["status"]).contains(&home.word("m")));
    home.umount("m");
    assert!(home.say(&["status", &store]).contains("not mounted"));
}

#[test]
fn info_and_summary_agree_mounted_or_not() {
    let Some(home) = Home::to_mount("info and summary") else { return };
    filled(&home);
    let store = home.word("s");
    let names = ["small", "dir/large", "link", "dir"];
    let at_rest: Vec<_> =
        names.iter().map(|name| home.json(&["info", "--store", &store, name])).collect();
    home.mount("s", "m");
    for (name, at_rest) in names.iter().zip(&at_rest) {
        let path = home.at("m").join(name);
        let info = home.json(&["info", path.to_str().unwrap()]);
        let (info, at_rest) = (&info[0], &at_rest[0]);
        assert_eq!(info["inode"], fs::symlink_metadata(&path).unwrap().ino());
        for key in ["inode", "kind", "form", "bytes", "chunks", "stored_bytes", "target"] {
            assert_eq!(info[key], at_rest[key], "{name}: {key}");
        }
    }
    let info = |name: &str| home.json(&["info", &home.word(name)])[0].clone();
    assert_eq!(info("m/small")["form"], "inline");
    assert_eq!(info("m/dir/large")["form"], "local");
    assert_eq!(info("m/link")["target"], "small");
    let held = File::open(home.at("m/dir/large")).unwrap();
    assert!(home.say(&["info", &home.word("m/dir/large")]).contains("local"));
    drop(held);
    let mounted = home.json(&["summary", &home.word("m"), &home.word("m/dir")]);
    home.umount("m");
    let at_rest = home.json(&["summary", "--store", &store, "/", "/dir"]);
    for (mounted, at_rest) in mounted.as_array().unwrap().iter().zip(at_rest.as_array().unwrap()) {
        for key in ["files", "directories", "symlinks", "others", "entries", "bytes", "taken_bytes"]
        {
            assert_eq!(mounted[key], at_rest[key], "{key}");
        }
    }
    assert_eq!(mounted[0]["directories"], 2);
    assert_eq!(mounted[0]["symlinks"], 1);
    home.refuses(3, &["info", "--store", &store, "none"], &["there is no none"]);
    home.refuses(3, &["info", &store], &["not in a mount", "--store"]);
}

#[test]
fn options_are_shown_changed_and_kept() {
    let home = Home::new();
    let store = home.word("s");
    home.say(&["format", &store, "--chunk", "1MiB", "--codec", "zstd", "--capacity", "1G"]);
    assert_eq!(home.say(&["config", "get", "capacity", &store]), "1GiB\n");
    assert_eq!(home.say(&["config", "get", "chunk", &store]), "1MiB\n");
    home.say(&["config", "set", "capacity=2G", "codec=none", "inodes=1000", "--of", &store]);
    let list = home.json(&["config", "list", &store]);
    assert_eq!(list["capacity"], 2_u64 << 30);
    assert_eq!(list["codec"], "none");
    assert_eq!(list["inodes"], 1000);
    assert_eq!(list["chunk"], 1 << 20);
    home.refuses(
        7,
        &["config", "set", "chunk=2MiB", "--of", &store],
        &["cannot be changed", "capacity"],
    );
    home.refuses(2, &["config", "get", "capcity", &store], &["capacity"]);
}

#[test]
fn options_can_be_changed_while_it_is_mounted() {
    let Some(home) = Home::to_mount("config of a mounted volume") else { return };
    home.mount("s", "m");
    let text = home.say(&["config", "set", "capacity=1M", "--of", &home.word("m")]);
    assert!(text.contains("next mount"), "{text}");
    home.umount("m");
    home.mount("s", "m");
    let full = fs::write(home.at("m/big"), vec![1; 4 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    home.umount("m");
}

#[test]
fn fsck_and_gc_run_mounted_and_not() {
    let Some(home) = Home::to_mount("fsck and gc") else { return };
    filled(&home);
    for target in ["s", "m"] {
        if target == "m" {
            home.mount("s", "m");
        }
        let word = home.word(target);
        let report = home.json(&["fsck", &word]);
        assert_eq!((&report["inodes"], &report["findings_total"]), (&5.into(), &0.into()));
        assert!(home.say(&["fsck", &word]).contains("all is well"));
        assert_eq!(home.json(&["gc", &word])["jobs_left"], 0);
        home.say(&["gc", &word]);
    }
    home.umount("m");
}

#[test]
fn a_volume_goes_from_store_to_store_as_a_stream() {
    let Some(home) = Home::to_mount("dump and load") else { return };
    filled(&home);
    let (store, file) = (home.word("s"), home.word("dump"));
    let at_rest = home.json(&["dump", &store, "--to", &file]);
    assert_eq!(at_rest["inodes"], 5);
    home.refuses(4, &["dump", &store, "--to", &file], &["exists"]);
    home.mount("s", "m");
    home.json(&["dump", &home.word("m"), "--to", &home.word("dump2")]);
    // The same but for the numbers that the mount has taken for files to come.
    home.say(&["load", &store, "--volume", "copy2", "--from", &home.word("dump2")]);
    // Into the store of the running daemon, and into one that is made for it.
    home.say(&["load", &store, "--volume", "copy", "--from", &file]);
    home.refuses(4, &["load", &store, "--volume", "copy", "--from", &file], &["copy"]);
    let mut dump = home.command(["dump", &store]).stdout(Stdio::piped()).spawn().unwrap();
    let mut load = home.command(["load", &home.word("s3")]);
    load.stdin(dump.stdout.take().unwrap());
    let loaded = load.output().unwrap();
    assert!(dump.wait().unwrap().success() && loaded.status.success(), "{loaded:?}");
    let copies = [
        (format!("{store}#copy"), "m1"),
        (format!("{store}#copy2"), "m2"),
        (home.word("s3"), "m3"),
    ];
    for (source, place) in copies {
        home.say(&["mount", "--background", &source, &home.word(place)]);
        let same = Command::new("diff").args(["-r", &home.word("m"), &home.word(place)]).status();
        assert!(same.unwrap().success(), "{place}");
        home.umount(place);
    }
    home.umount("m");
}

#[test]
fn half_a_dump_makes_no_volume() {
    let Some(home) = Home::to_mount("half a dump") else { return };
    filled(&home);
    let (store, file) = (home.word("s"), home.word("dump"));
    home.say(&["dump", &store, "--to", &file]);
    let whole = fs::read(&file).unwrap();
    fs::write(home.at("half"), &whole[..whole.len() / 2]).unwrap();
    let mut wrong = whole.clone();
    wrong[whole.len() / 2] ^= 1;
    fs::write(home.at("wrong"), wrong).unwrap();
    for mounted in [false, true] {
        if mounted {
            home.mount("s", "m");
        }
        for name in ["half", "wrong"] {
            let words = ["load", &store, "--volume", "new", "--from", &home.word(name)];
            let ended = home.run(words);
            assert!(!ended.success(), "{ended}");
            assert!(!home.say(&["status", &store]).contains("new "), "{name}");
        }
    }
    // A later, whole one takes the name.
    home.say(&["load", &store, "--volume", "new", "--from", &file]);
    home.umount("m");
}

#[test]
fn destroying_needs_a_yes_and_an_unmounted_volume() {
    let Some(home) = Home::to_mount("destroy") else { return };
    filled(&home);
    let store = home.word("s");
    home.refuses(2, &["destroy", &store], &["--yes"]);
    home.mount("s", "m");
    home.refuses(4, &["destroy", &store, "--yes"], &["mounted at", "umount"]);
    assert_eq!(fs::read(home.at("m/small")).unwrap(), b"hello");
    home.refuses(4, &["format", &store], &["mounted at"]);
    home.umount("m");
    home.refuses(4, &["format", &store], &["already", "--force"]);
    home.refuses(2, &["format", &store, "--force"], &["--yes"]);
    assert!(home.json(&["destroy", &store, "--yes"])["keys_removed"].as_u64() > Some(0));
    home.refuses(3, &["destroy", &store, "--yes"], &["default"]);
    home.say(&["format", &store]);
    home.say(&["format", &store, "--force", "--yes"]);
}

#[test]
fn stats_count_what_programs_do() {
    let Some(home) = Home::to_mount("stats") else { return };
    home.mount("s", "m");
    fs::write(home.at("m/file"), "it goes inline when it is closed").unwrap();
    let inline = || home.json(&["info", &home.word("m/file")])[0]["form"] == "inline";
    crate::ground::wait("it is settled", inline);
    // What the kernel writes by itself nobody counts.
    let mut file = File::options().append(true).open(home.at("m/file")).unwrap();
    for _ in 0..10 {
        file.write_all(&[1; 100]).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let stats = home.json(&["stats", &home.word("m")]);
    let operations = stats[0]["volumes"][0]["operations"].as_array().unwrap().clone();
    let of = |name: &str| operations.iter().find(|op| op["name"] == name).cloned();
    let write = of("write").expect("writes");
    assert_eq!(write["bytes"], 1000);
    assert!(of("create").is_some() && of("fsync").is_some(), "{operations:?}");
    assert!(home.say(&["stats", &home.word("s"), "--once"]).contains("write"));
    home.umount("m");
    home.refuses(3, &["stats", &home.word("s")], &["not mounted"]);
}

#[test]
fn completions_manuals_and_versions_are_printed() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.say(&["completion", shell]).contains("seamount"), "{shell}");
    }
    home.refuses(2, &["completion", "cmd.exe"], &["bash"]);
    assert!(home.say(&["man"]).contains(".TH"));
    home.say(&["man", "--to", &home.word("pages")]);
    assert!(home.at("pages/seamount-mount.1").is_file());
    assert_eq!(home.json(&["version"])["seamount"], env!("CARGO_PKG_VERSION"));
    assert!(home.say(&["--help"]).contains("Exit codes"));
}
