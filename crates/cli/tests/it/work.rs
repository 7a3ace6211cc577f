//! Everyday work: building a program, running it, removing it while it runs, watching a directory,
//! a file server's load.

use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::inotify;

use crate::ground::{Ground, wait};
use crate::tool::{find, finish, has, run, shell};

#[test]
fn cargo_builds_and_knows_what_is_fresh() {
    let proof = "cargo build";
    let Some(mut ground) = Ground::new(proof) else { return };
    if !has(proof, &["cargo"]) {
        return;
    }
    let place = ground.directory("hello");
    fs::create_dir(place.join("src")).unwrap();
    fs::write(
        place.join("Cargo.toml"),
        "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(
        place.join("src/lib.rs"),
        "//! A part.\npub fn word() -> &'static str { \"built\" }\n",
    )
    .unwrap();
    fs::write(place.join("src/main.rs"), "fn main() { println!(\"{} here\", hello::word()) }\n")
        .unwrap();
    let build = || {
        let mut command = Command::new(find("cargo").unwrap());
        command
            .args(["build", "--offline", "-v"])
            .current_dir(&place)
            .env("CARGO_TARGET_DIR", place.join("target"));
        // Not what the test's own cargo was told.
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
        ] {
            command.env_remove(name);
        }
        run(&mut command).all()
    };
    let says = |text: &str, word: &str| text.lines().any(|line| line.trim().starts_with(word));
    assert!(says(&build(), "Compiling hello"));
    assert_eq!(run(&mut Command::new(place.join("target/debug/hello"))).text(), "built here\n");
    assert!(says(&build(), "Fresh hello"), "nothing is built twice");
    ground.remount();
    assert!(says(&build(), "Fresh hello"), "times and contents are the same after a new mount");
    fs::write(
        place.join("src/lib.rs"),
        "//! A part.\npub fn word() -> &'static str { \"rebuilt\" }\n",
    )
    .unwrap();
    assert!(says(&build(), "Dirty hello"), "a change is seen");
    assert_eq!(run(&mut Command::new(place.join("target/debug/hello"))).text(), "rebuilt here\n");
}

#[test]
fn a_running_program_outlives_its_file() {
    let Some(ground) = Ground::new("running executable") else { return };
    // Copied by another process: no thread here has it open for writing when it is run.
    shell(ground.root(), &format!("cp '{}' sleeper", find("sleep").unwrap().display()));
    let path = ground.at("sleeper");
    let mut child = Command::new(&path).arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let exe = format!("/proc/{}/exe", child.id());
    wait("it runs", || fs::read_link(&exe).is_ok_and(|target| target == path));
    fs::remove_file(&path).unwrap();
    shell(ground.root(), "cp /bin/true sleeper; ./sleeper");
    let target = fs::read_link(&exe).unwrap();
    assert!(target.to_string_lossy().ends_with("(deleted)"), "{}", target.display());
    assert!(
        crate::tree::same_bytes(Path::new(&exe), &find("sleep").unwrap()),
        "its pages are still there"
    );
    assert!(child.try_wait().unwrap().is_none(), "it still runs");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_watched_directory_tells() {
    let Some(ground) = Ground::new("inotify") else { return };
    let watch =
        inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, ground.root(), inotify::WatchFlags::ALL_EVENTS).unwrap();
    shell(ground.root(), "echo x > a; mv a b; chmod 600 b; rm b; mkdir d");
    let want = [
        ("CREATE", "a"),
        ("MODIFY", "a"),
        ("CLOSE_WRITE", "a"),
        ("MOVED_FROM", "a"),
        ("MOVED_TO", "b"),
        ("ATTRIB", "b"),
        ("DELETE", "b"),
        ("CREATE", "d"),
    ];
    let mut seen = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watch, &mut buffer);
    wait("every event is told", || {
        while let Ok(event) = reader.next() {
            let name = event
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            seen.extend(
                event.events().iter_names().map(|(flag, _)| (flag.to_owned(), name.clone())),
            );
        }
        let mut rest = seen.iter();
        want.iter().all(|(flag, name)| rest.any(|event| event.0 == *flag && event.1 == *name))
    });
}

#[test]
fn a_file_servers_load() {
    let proof = "dbench";
    let Some(ground) = Ground::new(proof) else { return };
    if !has(proof, &["dbench"]) {
        return;
    }
    let loads = ["/usr/share/dbench/client.txt", "/usr/local/share/client.txt"];
    let Some(load) = loads.iter().find(|path| Path::new(path).exists()) else {
        return crate::tool::skip(proof, "its load file client.txt is not where it should be");
    };
    let mut command = Command::new(find(proof).unwrap());
    command.args(["-t", "5", "-c", load, "-D"]).arg(ground.root()).arg("4");
    let ended = finish(&mut command, Duration::from_secs(120));
    assert!(ended.success() && ended.text().contains("Throughput"), "{ended}");
    // Its own barrier is no business of the filesystem.
    let failed =
        ended.all().lines().any(|line| line.contains("failed") && !line.contains("semaphore"));
    assert!(!failed, "{ended}");
    println!(
        "{}",
        ended.text().lines().find(|line| line.starts_with("Throughput")).unwrap_or_default()
    );
}
