//! The words of `-o`: ours are settings, those of mount(8) and the kernel are translated, and what
//! nobody knows is an error.

use crate::config::{KEYS, Settings, unknown};
use std::path::PathBuf;

/// What `-o` said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountWords {
    /// Settings.
    pub settings: Settings,
    /// The config file.
    pub config: Option<PathBuf>,
    /// Words that were passed over; only when asked to.
    pub skipped: Vec<String>,
}

/// Words of mount(8), fstab and libfuse that need nothing done: about when and by whom things are
/// mounted, or what is so in any case.
const NOTHING_TO_DO: [&str; 25] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "async",
    "default_permissions",
    "auto_unmount",
    "diratime",
    "nodiratime",
    "nolazytime",
    "nomand",
    "norelatime",
    "loud",
    "silent",
    "noiversion",
    "nostrictatime",
    "symfollow",
    "private",
    "big_writes",
];

/// Words that are settings under another name.
const OTHER_NAMES: [(&str, &str, &str); 13] = [
    ("ro", "read_only", "true"),
    ("rw", "read_only", "false"),
    ("relatime", "atime", "relative"),
    ("strictatime", "atime", "strict"),
    ("atime", "atime", "relative"),
    ("noatime", "atime", "off"),
    ("suid", "suid", "true"),
    ("nosuid", "suid", "false"),
    ("dev", "dev", "true"),
    ("nodev", "dev", "false"),
    ("exec", "exec", "true"),
    ("noexec", "exec", "false"),
    ("noallow_other", "allow_other", "false"),
];

impl MountWords {
    /// Reads all of the words, in their order; a later one wins. When `sloppy`, unknown ones are passed
    /// over, as mount(8) asks with `-s`.
    pub fn read<'a>(
        lists: impl IntoIterator<Item = &'a str>,
        sloppy: bool,
    ) -> Result<Self, String> {
        let mut words = Self::default();
        for list in lists {
            for word in split(list) {
                words.take(&word, sloppy)?;
            }
        }
        Ok(words)
    }

    fn take(&mut self, word: &str, sloppy: bool) -> Result<(), String> {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word, None),
        };
        if key.starts_with("x-") || key.starts_with("X-") || key == "comment" || word.is_empty() {
            return Ok(());
        }
        match (key, value) {
            ("config", Some(path)) if !path.is_empty() => self.config = Some(path.into()),
            (_, None) if NOTHING_TO_DO.contains(&key) => {}
            (_, None) => {
                if let Some((_, key, value)) = OTHER_NAMES.iter().find(|row| row.0 == word) {
                    self.settings.set(key, value)?;
                } else if let Some((_, takes, _)) = KEYS.iter().find(|row| row.0 == key) {
                    if *takes != "BOOL" {
                        return Err(format!("-o {key}: {key} needs a value, {key}={takes}"));
                    }
                    self.settings.set(key, "true")?;
                } else if sloppy {
                    self.skipped.push(word.to_owned());
                } else {
                    return Err(format!("-o {word}: {}", unknown(key, "")));
                }
            }
            (_, Some(value)) if KEYS.iter().any(|row| row.0 == key) => {
                self.settings.set(key, value).map_err(|why| format!("-o {why}"))?;
            }
            _ if sloppy => self.skipped.push(word.to_owned()),
            _ => return Err(format!("-o {word}: {}", unknown(key, ""))),
        }
        Ok(())
    }
}

/// Parts between commas; a backslash takes the next character as it is, so that paths can have commas.
fn split(list: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = list.chars();
    while let Some(next) = chars.next() {
        match next {
            ',' => parts.push(String::new()),
            '\\' => {
                if let (Some(next), Some(part)) = (chars.next(), parts.last_mut()) {
                    part.push(next);
                }
            }
            next => {
                if let Some(part) = parts.last_mut() {
                    part.push(next);
                }
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_fstab_and_mount_say() {
        let list =
            "rw,nosuid,nodev,noatime,_netdev,x-systemd.automount,nofail,memory=1G,volume=home";
        let words = MountWords::read([list], false).unwrap();
        assert_eq!(words.settings.read_only, Some(false));
        assert_eq!(words.settings.suid, Some(false));
        assert_eq!(words.settings.dev, Some(false));
        assert_eq!(words.settings.atime, Some(fs::Atime::Off));
        assert_eq!(words.settings.memory, Some(1 << 30));
        assert_eq!(words.settings.volume.as_deref(), Some("home"));
    }

    #[test]
    fn later_words_win_and_commas_can_be_escaped() {
        let words = MountWords::read(["ro,rw", r"config=/a\,b,ro"], false).unwrap();
        assert_eq!(words.settings.read_only, Some(true));
        assert_eq!(words.config, Some("/a,b".into()));
    }

    #[test]
    fn unknown_words_are_errors_unless_sloppy() {
        let error = MountWords::read(["memroy=1G"], false).unwrap_err();
        assert!(error.contains("is \"memory\" meant?"), "{error}");
        assert!(MountWords::read(["sync"], false).is_err(), "sync is not done, so it is not taken");
        assert!(MountWords::read(["memory"], false).unwrap_err().contains("needs a value"));
        assert_eq!(MountWords::read(["memroy=1G,ro"], true).unwrap().skipped, ["memroy=1G"]);
    }

    #[test]
    fn booleans_need_no_value() {
        let words = MountWords::read(["allow_other,nonempty,exec=no"], false).unwrap();
        assert_eq!(words.settings.allow_other, Some(true));
        assert_eq!(words.settings.nonempty, Some(true));
        assert_eq!(words.settings.exec, Some(false));
    }
}
