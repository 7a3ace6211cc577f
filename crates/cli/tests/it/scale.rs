//! Large, deep, many and hostile: what a filesystem meets sooner or later.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, unlinkat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::draw::Draw;
use crate::ground::Ground;
use crate::tool::shell;

fn large_directory(entries: u64) {
    let Some(mut ground) = Ground::new("large directory") else { return };
    let place = ground.directory("large");
    let name = |number: u64| format!("{:016x}-entry", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    std::thread::scope(|scope| {
        for half in 0..2 {
            let place = &place;
            scope.spawn(move || {
                for number in (half..entries).step_by(2) {
                    File::create(place.join(name(number))).unwrap();
                }
            });
        }
    });
    ground.remount();
    let listed = || fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<_> = listed().collect();
    assert_eq!(names.len() as u64, entries);
    assert_eq!(listed().count() as u64, entries, "each once");
    let mut draw = Draw::new(5);
    for _ in 0..1000 {
        assert!(place.join(name(draw.below(entries))).exists());
        assert!(!place.join(name(entries + draw.below(entries))).exists());
    }
    std::thread::scope(|scope| {
        for half in 0..2 {
            let place = &place;
            scope.spawn(move || {
                for number in (half..entries).step_by(2) {
                    fs::remove_file(place.join(name(number))).unwrap();
                }
            });
        }
    });
    fs::remove_dir(&place).unwrap();
}

#[test]
fn a_directory_of_fifty_thousand_entries() {
    large_directory(50_000);
}

#[test]
#[ignore = "minutes: cargo test --release -p cli --test it -- --ignored a_directory_of_a_million"]
fn a_directory_of_a_million_entries() {
    large_directory(1_000_000);
}

#[test]
fn a_path_of_4096_directories() {
    let Some(mut ground) = Ground::new("deep path") else { return };
    let directory = OFlags::RDONLY | OFlags::DIRECTORY;
    let top = ground.root().metadata().unwrap().ino();
    let mut place = open(ground.root(), directory, Mode::empty()).unwrap();
    for _ in 0..4096 {
        mkdirat(&place, "d", Mode::RWXU).unwrap();
        place = openat(&place, "d", directory, Mode::empty()).unwrap();
    }
    let file = openat(&place, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    File::from(file).write_all_at(b"found", 0).unwrap();
    drop(place);
    ground.remount();
    let mut place = open(ground.root(), directory, Mode::empty()).unwrap();
    for _ in 0..4096 {
        place = openat(&place, "d", directory, Mode::empty()).unwrap();
    }
    let file = File::from(openat(&place, "bottom", OFlags::RDONLY, Mode::empty()).unwrap());
    assert_eq!(std::io::read_to_string(file).unwrap(), "found");
    for _ in 0..4096 {
        place = openat(&place, "..", directory, Mode::empty()).unwrap();
    }
    assert_eq!(rustix::fs::fstat(&place).unwrap().st_ino, top, "as many steps up as down");
    drop(place);
    assert_eq!(
        shell(ground.root(), "find . -name bottom -printf '%d\\n'; find . | wc -l").trim(),
        "4097\n4098"
    );
    shell(ground.root(), "rm -r d");
    assert_eq!(fs::read_dir(ground.root()).unwrap().count(), 0);
}

#[test]
fn twenty_thousand_links_of_one_file() {
    const LINKS: u64 = 20_000;
    let Some(mut ground) = Ground::new("many links") else { return };
    let path = ground.file("file", b"one");
    let place = ground.directory("links");
    for number in 1..LINKS {
        fs::hard_link(&path, place.join(number.to_string())).unwrap();
    }
    ground.remount();
    assert_eq!(fs::metadata(&path).unwrap().nlink(), LINKS);
    shell(ground.root(), "rm -r links");
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
    assert_eq!(fs::read(&path).unwrap(), b"one");
}

#[test]
fn names_of_any_bytes() {
    let Some(mut ground) = Ground::new("hostile names") else { return };
    let mut names: Vec<Vec<u8>> = [
        "-rf",
        "--help",
        "new\nline",
        "tab\tand\rreturn",
        " ",
        " leading",
        "trailing ",
        "...",
        "..x",
        ".hidden",
        "'",
        "\"",
        "`id`",
        "$(id)",
        "a\\b",
        "*",
        "?",
        "[a]",
        "~",
        "#",
        "%s%n",
        "\u{1b}[31m",
        "\u{202e}desrever",
        "é",
        "e\u{301}",
        "日本語",
        "con",
        "nul.txt",
        "a:b",
        "|",
        "&&",
        ";",
        "<>",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(vec![0xff, 0xfe, 0x80]);
    names.push(b"cut\xc3".to_vec());
    names.push(vec![1]);
    names.push(vec![b'n'; 255]);
    names.push(vec![0xff; 255]);
    names.extend(
        (1..=255).filter(|byte| *byte != b'/' && *byte != b'.').map(|byte: u8| vec![b'x', byte]),
    );
    let want: BTreeSet<_> = names.iter().cloned().collect();
    for name in &want {
        ground.file(OsStr::from_bytes(name), name);
    }
    ground.remount();
    let listed = fs::read_dir(ground.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec());
    let found: BTreeSet<_> = listed.collect();
    assert_eq!(found, want);
    for name in &want {
        assert_eq!(fs::read(ground.at(OsStr::from_bytes(name))).unwrap(), *name);
    }
    // Two spellings of one letter are two names, and upper is not lower.
    assert!(want.contains("é".as_bytes()) && want.contains("e\u{301}".as_bytes()));
    ground.file("Upper", b"U");
    assert!(!ground.at("upper").exists());
    assert_eq!(
        shell(ground.root(), "find . -mindepth 1 -print0 | tr -dc '\\0' | wc -c").trim(),
        (want.len() + 1).to_string()
    );
    shell(ground.root(), "find . -mindepth 1 -delete");
    assert_eq!(fs::read_dir(ground.root()).unwrap().count(), 0);
}

#[test]
fn ten_thousand_open_files() {
    const FILES: usize = 10_000;
    let Some(ground) = Ground::new("10,000 open files") else { return };
    let limit = getrlimit(Resource::Nofile);
    let wanted = FILES as u64 + 2000;
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
    let open = |number: usize| {
        let path = ground.at(format!("open-{number}"));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        if number.is_multiple_of(2) {
            fs::remove_file(path).unwrap();
        }
        file
    };
    let files: Vec<_> = (0..FILES).map(open).collect();
    for (number, file) in files.iter().enumerate() {
        file.write_all_at(number.to_string().repeat(50).as_bytes(), 0).unwrap();
    }
    for (number, file) in files.iter().enumerate() {
        let mut bytes = vec![0; number.to_string().len() * 50];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, number.to_string().repeat(50).as_bytes());
        assert_eq!(file.metadata().unwrap().nlink(), (number % 2) as u64);
    }
    drop(files);
    assert_eq!(fs::read_dir(ground.root()).unwrap().count(), FILES / 2);
}

#[test]
fn a_removed_tree_is_gone_and_a_held_directory_harmless() {
    let Some(ground) = Ground::new("rm -r with a process inside") else { return };
    ground.directory("a");
    ground.directory("a/b");
    let inside = open(ground.at("a/b"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    shell(ground.root(), "rm -r a");
    assert!(
        openat(&inside, "..", OFlags::RDONLY, Mode::empty()).is_err() || !ground.at("a").exists()
    );
    assert!(unlinkat(&inside, "x", AtFlags::empty()).is_err());
}
