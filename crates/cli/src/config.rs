//! Settings: what can be set, and where from. A flag wins over an environment variable, that over the
//! config file, that over the default. One table of keys serves all of them.

use crate::error::{CliError, Failure, Result, nearest};
use crate::units;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What can be set: its name in the config file and in `-o`, what it takes, what it does. The
/// environment variable is `SEAMOUNT_` and the name in capitals, the flag has dashes.
pub const KEYS: [(&str, &str, &str); 21] = [
    ("store", "STORE", "the store, when none is given"),
    ("volume", "NAME", "the volume in the store [default]"),
    ("memory", "SIZE", "memory that the embedded engine may use [256MiB]"),
    ("atime", "strict|relative|off", "when reading changes access times [relative]"),
    ("threads", "N", "threads that answer the kernel; 0: by the machine [0]"),
    (
        "transport",
        "auto|device|uring",
        "by what requests come; auto: io_uring where the kernel offers it and none takes over [auto]",
    ),
    ("attr_ttl", "TIME|ever", "how long the kernel keeps attributes [ever on a private store]"),
    ("entry_ttl", "TIME|ever", "how long it keeps names [ever on a private store]"),
    ("negative_ttl", "TIME|ever", "how long it keeps missing names [ever on a private store]"),
    ("read_only", "BOOL", "mount so that nothing can be changed [false]"),
    ("allow_other", "BOOL", "let other users in, by their permissions [true for root]"),
    ("suid", "BOOL", "honour set-user bits [true for root]"),
    ("dev", "BOOL", "honour device files [true for root]"),
    ("exec", "BOOL", "let programs run [true]"),
    (
        "local",
        "BOOL",
        "keep whole files in the store's directory, where the kernel uses them by itself [true]",
    ),
    (
        "passthrough",
        "BOOL",
        "let the kernel read and write such files by itself, where it can [true]",
    ),
    (
        "supervise",
        "BOOL",
        "when the daemon dies, have another one take the mount over [true in the background]",
    ),
    ("nonempty", "BOOL", "mount over a directory that is not empty [false]"),
    (
        "log_level",
        "error|warn|info|debug|trace",
        "how much is logged [info for a daemon, else warn]",
    ),
    ("log_format", "text|json", "the form of the log [text]"),
    ("log_file", "PATH", "where the log goes [standard error]"),
];

const ENV_PREFIX: &str = "SEAMOUNT_";
/// The largest config file that is read.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// How the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What was set. `None` is the default of whoever uses it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The store.
    pub store: Option<OsString>,
    /// The volume.
    pub volume: Option<String>,
    /// Memory of the engine.
    pub memory: Option<u64>,
    /// Access times.
    pub atime: Option<fs::Atime>,
    /// Threads of the mount.
    pub threads: Option<usize>,
    /// By what requests come; `None` within for whatever is there.
    pub transport: Option<Option<fuse::Transport>>,
    /// How long the kernel keeps attributes.
    pub attr_ttl: Option<Duration>,
    /// How long it keeps names.
    pub entry_ttl: Option<Duration>,
    /// How long it keeps missing names.
    pub negative_ttl: Option<Duration>,
    /// Nothing can be changed.
    pub read_only: Option<bool>,
    /// Others may use the mount.
    pub allow_other: Option<bool>,
    /// Set-user bits count.
    pub suid: Option<bool>,
    /// Device files count.
    pub dev: Option<bool>,
    /// Programs run.
    pub exec: Option<bool>,
    /// Whole files are kept beside the store.
    pub local: Option<bool>,
    /// The kernel reads and writes them by itself.
    pub passthrough: Option<bool>,
    /// Another daemon takes over when this one dies.
    pub supervise: Option<bool>,
    /// The mountpoint may have entries.
    pub nonempty: Option<bool>,
    /// How much is logged.
    pub log_level: Option<tracing::Level>,
    /// How the log looks.
    pub log_format: Option<LogFormat>,
    /// Where it goes.
    pub log_file: Option<PathBuf>,
}

/// A kernel that keeps something for ever is told this: longer than machines run.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

impl Settings {
    /// Sets one key from words. The error says what the key takes.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let row = KEYS.iter().find(|row| row.0 == key);
        let Some((_, takes, _)) = row else {
            return Err(unknown(key, ""));
        };
        let bad = || format!("{key}={value}: {key} takes {takes}");
        match key {
            "store" => self.store = Some(some_words(value).ok_or_else(bad)?.into()),
            "volume" => self.volume = Some(some_words(value).ok_or_else(bad)?.to_owned()),
            "memory" => {
                let bytes = units::parse_size(value).map_err(|why| format!("{key}: {why}"))?;
                if !(MEMORY_MIN..=MEMORY_MAX).contains(&bytes) {
                    return Err(format!("{key}={value}: memory is from 1MiB to 1TiB"));
                }
                self.memory = Some(bytes);
            }
            "atime" => {
                self.atime = Some(match value {
                    "strict" => fs::Atime::Strict,
                    "relative" => fs::Atime::Relative,
                    "off" => fs::Atime::Off,
                    _ => return Err(bad()),
                });
            }
            "threads" => {
                let threads = value.parse().ok().filter(|threads| *threads <= THREADS_MAX);
                self.threads =
                    Some(threads.ok_or_else(|| format!("{}, at most {THREADS_MAX}", bad()))?);
            }
            "transport" => {
                self.transport = Some(match value {
                    "auto" => None,
                    "device" => Some(fuse::Transport::Device),
                    "uring" => Some(fuse::Transport::Uring),
                    _ => return Err(bad()),
                });
            }
            "attr_ttl" => self.attr_ttl = Some(ttl(key, value)?),
            "entry_ttl" => self.entry_ttl = Some(ttl(key, value)?),
            "negative_ttl" => self.negative_ttl = Some(ttl(key, value)?),
            "read_only" => self.read_only = Some(yes_or_no(value).ok_or_else(bad)?),
            "allow_other" => self.allow_other = Some(yes_or_no(value).ok_or_else(bad)?),
            "suid" => self.suid = Some(yes_or_no(value).ok_or_else(bad)?),
            "dev" => self.dev = Some(yes_or_no(value).ok_or_else(bad)?),
            "exec" => self.exec = Some(yes_or_no(value).ok_or_else(bad)?),
            "local" => self.local = Some(yes_or_no(value).ok_or_else(bad)?),
            "passthrough" => self.passthrough = Some(yes_or_no(value).ok_or_else(bad)?),
            "supervise" => self.supervise = Some(yes_or_no(value).ok_or_else(bad)?),
            "nonempty" => self.nonempty = Some(yes_or_no(value).ok_or_else(bad)?),
            "log_level" => self.log_level = Some(value.parse().map_err(|_| bad())?),
            "log_format" => {
                self.log_format = Some(match value {
                    "text" => LogFormat::Text,
                    "json" => LogFormat::Json,
                    _ => return Err(bad()),
                });
            }
            _ => self.log_file = Some(some_words(value).ok_or_else(bad)?.into()),
        }
        Ok(())
    }

    /// Takes over whatever `over` has set.
    pub fn overlay(&mut self, over: Settings) {
        macro_rules! take {
            ($($field:ident)*) => { $( if over.$field.is_some() { self.$field = over.$field; } )* };
        }
        take!(store volume memory atime threads transport attr_ttl entry_ttl negative_ttl read_only allow_other
            suid dev exec local passthrough supervise nonempty log_level log_format log_file);
    }

    /// What a config file says.
    pub fn from_file(path: &Path) -> Result<Self> {
        let failed =
            |error| CliError::io(format!("cannot read the config file {}", path.display()), &error);
        let meta = std::fs::metadata(path).map_err(failed)?;
        if !meta.is_file() || meta.len() > CONFIG_BYTES_MAX {
            let words =
                format!("the config file {} is not a file of at most 1 MiB", path.display());
            return Err(CliError::usage(words));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::from_toml(&text)
            .map_err(|why| CliError::usage(format!("the config file {}: {why}", path.display())))
    }

    /// What the text of one says.
    pub(crate) fn from_toml(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            // In bytes: a fault can begin inside a character.
            let before = |start: usize| text.as_bytes().iter().take(start);
            let line = error
                .span()
                .map(|span| before(span.start).filter(|byte| **byte == b'\n').count() + 1);
            match line {
                Some(line) => format!("line {line}: {}", error.message()),
                None => error.message().to_owned(),
            }
        })?;
        let mut settings = Self::default();
        for (key, value) in &table {
            let words = match value {
                toml::Value::String(words) => words.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(truth) => truth.to_string(),
                toml::Value::Float(number) => number.to_string(),
                _ if KEYS.iter().any(|row| row.0 == key) => {
                    return Err(format!(
                        "{key} takes one value, a text, a number or true or false"
                    ));
                }
                _ => return Err(unknown(key, "")),
            };
            settings.set(key, &words)?;
        }
        Ok(settings)
    }

    /// What the environment says. Variables with our prefix that nobody knows are given back, to be
    /// warned of.
    pub fn from_env(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(Self, Vec<String>)> {
        let mut settings = Self::default();
        let mut strangers = Vec::new();
        for (name, value) in vars {
            let Some(name) = name.to_str().filter(|name| name.starts_with(ENV_PREFIX)) else {
                continue;
            };
            let key = name[ENV_PREFIX.len()..].to_ascii_lowercase();
            if key == "config" {
                continue;
            }
            if !KEYS.iter().any(|row| row.0 == key) {
                strangers.push(format!("{name} in the environment: {}", unknown(&key, ENV_PREFIX)));
                continue;
            }
            if key == "store" {
                settings.store = Some(value).filter(|value| !value.is_empty());
                continue;
            }
            let Some(value) = value.to_str() else {
                return Err(CliError::usage(format!("{name} in the environment is not UTF-8")));
            };
            settings
                .set(&key, value)
                .map_err(|why| CliError::usage(format!("{name} in the environment: {why}")))?;
        }
        Ok((settings, strangers))
    }

    /// The file, the environment and then `flags`, each over the one before. Also gives what is to be
    /// warned of.
    pub fn gather(config: Option<&Path>, flags: Settings) -> Result<(Self, Vec<String>)> {
        let named = config.map(Path::to_owned).or_else(|| {
            std::env::var_os("SEAMOUNT_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
        });
        let mut settings = match named {
            Some(path) => Self::from_file(&path)?,
            None => match default_file() {
                Some(path) => match Self::from_file(&path) {
                    Err(error) if error.kind == Failure::NotFound => Self::default(),
                    other => other?,
                },
                None => Self::default(),
            },
        };
        let (env, strangers) = Self::from_env(std::env::vars_os())?;
        settings.overlay(env);
        settings.overlay(flags);
        Ok((settings, strangers))
    }
}

const MEMORY_MIN: u64 = 1 << 20;
const MEMORY_MAX: u64 = 1 << 40;
const THREADS_MAX: usize = 1024;

/// The config file that is read when none is named.
pub fn default_file() -> Option<PathBuf> {
    Some(home_of("XDG_CONFIG_HOME", ".config")?.join("seamount/config.toml"))
}

/// A directory of the user, as the XDG rules have it: a relative one does not count.
pub fn home_of(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    std::env::var_os(variable)
        .and_then(absolute)
        .or_else(|| Some(std::env::var_os("HOME").and_then(absolute)?.join(below_home)))
}

fn some_words(value: &str) -> Option<&str> {
    Some(value).filter(|value| !value.is_empty() && !value.contains('\0'))
}

fn yes_or_no(value: &str) -> Option<bool> {
    match value {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn ttl(key: &str, value: &str) -> Result<Duration, String> {
    if value == "ever" {
        return Ok(FOR_EVER);
    }
    Ok(units::parse_time(value).map_err(|why| format!("{key}: {why}, or \"ever\""))?.min(FOR_EVER))
}

/// The words for a key that nobody knows.
pub fn unknown(key: &str, prefix: &str) -> String {
    match nearest(key, KEYS.iter().map(|row| row.0)) {
        Some(near) if prefix.is_empty() => {
            format!("there is no key \"{key}\"; is \"{near}\" meant?")
        }
        Some(near) => {
            format!("there is no such setting; is {prefix}{} meant?", near.to_ascii_uppercase())
        }
        None => {
            let names: Vec<&str> = KEYS.iter().map(|row| row.0).collect();
            format!("there is no key \"{key}\"; there are {}", names.join(", "))
        }
    }
}

/// The settings and their precedence, for `--help` and the manual.
pub fn help() -> String {
    let mut text = String::from(
        "Settings come from a flag (--memory 1G, or -o memory=1G), else from the environment \
         (SEAMOUNT_MEMORY=1G), else from the config file (memory = \"1G\"; named by --config, -o config= \
         or SEAMOUNT_CONFIG, else $XDG_CONFIG_HOME/seamount/config.toml if it is there), else from the \
         default. An unknown key in the file or in -o is an error.\n\nKeys:\n",
    );
    for (key, takes, what) in KEYS {
        text.push_str(&format!("  {key} = {takes}\n          {what}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_file() {
        let text = "store = \"/srv/sea\"\nmemory = \"1GiB\"\nthreads = 4\nread_only = true\n\
                    attr_ttl = 30\natime = \"off\"\nlog_level = \"debug\"";
        let settings = Settings::from_toml(text).unwrap();
        assert_eq!(settings.store, Some("/srv/sea".into()));
        assert_eq!(settings.memory, Some(1 << 30));
        assert_eq!(settings.threads, Some(4));
        assert_eq!(settings.read_only, Some(true));
        assert_eq!(settings.attr_ttl, Some(Duration::from_secs(30)));
        assert_eq!(settings.atime, Some(fs::Atime::Off));
        assert_eq!(settings.log_level, Some(tracing::Level::DEBUG));
    }

    #[test]
    fn unknown_keys_are_errors_that_suggest_the_nearest() {
        let error = Settings::from_toml("memroy = 1").unwrap_err();
        assert_eq!(error, "there is no key \"memroy\"; is \"memory\" meant?");
        let error = Settings::from_toml("[mount]\nthreads = 1").unwrap_err();
        assert!(error.contains("there is no key \"mount\""), "{error}");
        let error = Settings::from_toml("a = 1\nb = = 2").unwrap_err();
        assert!(error.starts_with("line 2"), "{error}");
        let error = Settings::from_toml("atime = \"maybe\"").unwrap_err();
        assert_eq!(error, "atime=maybe: atime takes strict|relative|off");
        let error = Settings::from_toml("threads = [1]").unwrap_err();
        assert!(error.starts_with("threads takes one value"), "{error}");
    }

    #[test]
    fn every_key_of_the_table_can_be_set() {
        for (key, takes, _) in KEYS {
            let value = match takes {
                "SIZE" => "8MiB",
                "N" => "2",
                "BOOL" => "true",
                "TIME|ever" => "ever",
                words => words.split('|').next().unwrap(),
            };
            let mut settings = Settings::default();
            settings.set(key, value).unwrap();
            assert_ne!(settings, Settings::default(), "{key}");
            let mut under = Settings::default();
            under.overlay(settings.clone());
            assert_eq!(under, settings, "{key} is lost on its way");
        }
    }

    #[test]
    fn the_environment_is_read_and_strangers_are_named() {
        let vars = [("SEAMOUNT_MEMORY", "2MiB"), ("SEAMOUNT_THREDS", "1"), ("HOME", "/x")];
        let vars = vars.map(|(name, value)| (name.into(), value.into()));
        let (settings, strangers) = Settings::from_env(vars).unwrap();
        assert_eq!(settings.memory, Some(2 << 20));
        assert_eq!(strangers.len(), 1);
        assert!(strangers[0].contains("SEAMOUNT_THREADS meant?"), "{strangers:?}");
        let bad = [("SEAMOUNT_MEMORY".into(), "lots".into())];
        let error = Settings::from_env(bad).unwrap_err();
        assert!(
            error.message.starts_with("SEAMOUNT_MEMORY in the environment: memory:"),
            "{error}"
        );
    }

    #[test]
    fn what_comes_later_wins() {
        let mut file = Settings::from_toml("memory = \"1MiB\"\nthreads = 1").unwrap();
        let mut env = Settings::default();
        env.set("memory", "2MiB").unwrap();
        file.overlay(env);
        let mut flag = Settings::default();
        flag.set("memory", "3MiB").unwrap();
        file.overlay(flag);
        assert_eq!((file.memory, file.threads), (Some(3 << 20), Some(1)));
    }
}
