//! Settings: from the file, the environment and flags, in that order.

use super::Home;
use std::fs;

use crate::ground::PATIENCE;
use crate::tool::finish;

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let home = Home::new();
    for name in ["one", "two", "three"] {
        home.say(&["format", &home.word(name)]);
    }
    let file = home.word("config.toml");
    fs::write(&file, format!("store = \"{}\"\n", home.word("one"))).unwrap();
    let store_of =
        |text: String| text.lines().next().unwrap().rsplit('/').next().unwrap().to_owned();
    let options = |env: Option<&str>, words: &[&str]| {
        let mut command = home.command(["--config", &file, "config", "list"]);
        command.args(words);
        if let Some(store) = env {
            command.env("SEAMOUNT_STORE", store);
        }
        let ended = finish(&mut command, PATIENCE);
        assert!(ended.success(), "{ended}");
        store_of(ended.text().split(',').next().unwrap().to_owned())
    };
    assert_eq!(options(None, &[]), "one");
    assert_eq!(options(Some(&home.word("two")), &[]), "two");
    assert_eq!(options(Some(&home.word("two")), &[&home.word("three")]), "three");
}

#[test]
fn the_usual_file_is_read_when_it_is_there() {
    let home = Home::new();
    home.say(&["format", &home.word("s")]);
    fs::create_dir_all(home.at(".config/seamount")).unwrap();
    let text = format!("store = \"{}\"\nlog_level = \"error\"\n", home.word("s"));
    fs::write(home.at(".config/seamount/config.toml"), text).unwrap();
    assert!(home.say(&["config", "list"]).contains(&home.word("s")));
    fs::write(home.at(".config/seamount/config.toml"), "stroe = 1\n").unwrap();
    home.refuses(2, &["status"], &["config.toml", "stroe", "store"]);
}

#[test]
fn mistakes_in_files_are_told() {
    let home = Home::new();
    home.refuses(3, &["status", "--config", &home.word("none")], &["config file", "none"]);
    fs::write(home.at("bad"), "memory = \n").unwrap();
    home.refuses(2, &["status", "--config", &home.word("bad")], &["bad", "line 1"]);
    let mut command = home.command(["status"]);
    let ended = finish(command.env("SEAMOUNT_THREDS", "1"), PATIENCE);
    assert!(ended.success() && ended.all().contains("SEAMOUNT_THREADS meant"), "{ended}");
}

#[test]
fn a_mount_can_be_read_only_and_logs_where_it_is_told() {
    let Some(home) = Home::to_mount("mount options") else { return };
    home.mount("s", "m");
    fs::write(home.at("m/file"), "x").unwrap();
    home.umount("m");
    let (store, place, log) = (home.word("s"), home.word("m"), home.word("log"));
    let words = ["mount", "--background", "-o", "ro,noatime", "--log-format", "json", "--log-file"];
    let mut words = words.to_vec();
    words.extend([log.as_str(), &store, &place]);
    home.say(&words);
    let denied = fs::write(home.at("m/other"), "x").unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read(home.at("m/file")).unwrap(), b"x");
    home.umount("m");
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "mounted"), "{text}");
    assert!(lines.iter().any(|line| line["message"] == "unmounted"), "{text}");
}
