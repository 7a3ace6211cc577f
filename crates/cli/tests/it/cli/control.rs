//! The control socket: what strangers and broken clients get, and that the daemon goes on.

use super::Home;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn connect(home: &Home) -> UnixStream {
    let stream = UnixStream::connect(home.at("s/control")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends bytes, and gives the text of the answer's only frame.
fn answer(home: &Home, bytes: &[u8]) -> String {
    let mut stream = connect(home);
    // The daemon may close before everything is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(reply.get(5..).unwrap_or_default()).into_owned()
}

#[test]
fn nonsense_gets_words_back_and_harms_nobody() {
    let Some(home) = Home::to_mount("nonsense on the control socket") else { return };
    home.mount("s", "m");
    fs::write(home.at("m/file"), "x").unwrap();
    for (sent, said) in [
        (b"hello\n".to_vec(), "not JSON"),
        (b"{\"seamount\":1,\"verb\":\"explode\"}\n".to_vec(), "does not know"),
        (b"{\"seamount\":99,\"verb\":\"status\"}\n".to_vec(), "protocol"),
        (b"{\"seamount\":1,\"verb\":\"info\",\"volume\":\"default\"}\n".to_vec(), "does not know"),
        (b"no newline".to_vec(), "newline"),
        (vec![0xff; 100], "newline"),
    ] {
        let reply = answer(&home, &sent);
        assert!(reply.contains(said), "{said}: {reply}");
    }
    answer(&home, &vec![b'x'; 1 << 20]);
    // A load whose bytes never come.
    answer(&home, b"{\"seamount\":1,\"verb\":\"load\",\"volume\":\"new\"}\nD\xff\xff\xff\xff");
    answer(&home, b"{\"seamount\":1,\"verb\":\"dump\",\"volume\":\"default\"}\n");
    assert_eq!(fs::read(home.at("m/file")).unwrap(), b"x");
    assert_eq!(
        home.json(&["status", &home.word("s")])["stores"][0]["volumes"][0]["name"],
        "default"
    );
    home.umount("m");
}

#[test]
fn clients_are_bounded_and_a_place_comes_free() {
    let Some(home) = Home::to_mount("many clients") else { return };
    home.mount("s", "m");
    let silent: Vec<UnixStream> = (0..64).map(|_| connect(&home)).collect();
    let mut reply = Vec::new();
    connect(&home).read_to_end(&mut reply).unwrap();
    assert!(String::from_utf8_lossy(&reply).contains("64 clients"), "{reply:?}");
    drop(silent);
    crate::ground::wait("a place is free", || home.run(["status", &home.word("s")]).success());
    home.umount("m");
}

#[test]
fn a_second_volume_is_taken_on_by_the_daemon_that_is_there() {
    let Some(home) = Home::to_mount("a second volume") else { return };
    home.mount("s", "m");
    let second = format!("{}#two", home.word("s"));
    let reply = home.json(&["mount", &second, &home.word("m2")]);
    let pid = home.json(&["status", &home.word("s")])["stores"][0]["daemon_pid"].clone();
    assert_eq!((&reply["joined"], &reply["pid"]), (&true.into(), &pid));
    fs::write(home.at("m2/file"), "two").unwrap();
    assert!(!home.at("m/file").exists());
    home.umount("m");
    assert_eq!(fs::read(home.at("m2/file")).unwrap(), b"two", "the daemon stays for the other");
    home.umount("m2");
    let engine = kv_local::Local::open_dir(&home.at("s"), kv_local::Options::default());
    engine.expect("umount waits until the store is free").close().unwrap();
}

#[test]
fn a_socket_in_a_very_deep_directory() {
    let Some(home) = Home::to_mount("a long path") else { return };
    let deep = format!("{}/s", "deep-directory-name/".repeat(15));
    fs::create_dir_all(home.at(&deep).parent().unwrap()).unwrap();
    home.mount(&deep, "m");
    assert!(home.say(&["status", &home.word("m")]).contains("served"));
    home.umount("m");
}
