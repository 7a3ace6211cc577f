//! Names of stores: URLs and plain paths, with a volume behind `#`; and what a directory is before
//! anything is opened in it.

use crate::config::home_of;
use crate::error::{CliError, Failure, Result, nearest};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// The volume that is meant when none is named.
pub const DEFAULT_VOLUME: &str = "default";
/// The kinds of store that this program knows.
const SCHEMES: [&str; 1] = ["local"];

/// Where a store is. Shown as its URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreUrl {
    dir: PathBuf,
}

/// A store, and the volume in it if one was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreName {
    /// The store.
    pub store: StoreUrl,
    /// The volume behind `#`.
    pub volume: Option<String>,
}

impl StoreUrl {
    /// The store of the embedded engine in a directory, which need not exist.
    pub fn local(dir: &Path) -> Result<Self> {
        Ok(Self { dir: settled(dir)? })
    }

    /// The store that is used when none is named.
    pub fn default_store() -> Result<Self> {
        let home = home_of("XDG_DATA_HOME", ".local/share").ok_or_else(|| {
            CliError::usage("no store is named, and there is no home directory for the default one")
                .hint("set HOME, or name a store: local:///path")
        })?;
        Self::local(&home.join("seamount/default"))
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The URL with a volume behind it, as /proc/mounts shows it.
    pub fn with_volume(&self, volume: &str) -> String {
        format!("{self}#{}", escape(volume.as_bytes()))
    }

    /// What is there now.
    pub fn inspect(&self) -> Result<Found> {
        inspect(&self.dir).map_err(|error| {
            CliError::io(format!("cannot look into {}", self.dir.display()), &error)
        })
    }

    /// What is in its directory, which is open.
    pub fn inspect_open(&self, dir: &OwnedFd) -> Result<Found> {
        inspect(Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd()))).map_err(|error| {
            CliError::io(format!("cannot look into {}", self.dir.display()), &error)
        })
    }

    /// An error when there is no store.
    pub fn must_exist(&self) -> Result<()> {
        match self.inspect()? {
            Found::Store => Ok(()),
            Found::Missing | Found::Empty => {
                Err(CliError::not_found(format!("there is no store at {}", self.dir.display()))
                    .hint(format!(
                        "make one with `seamount format {}`, or by mounting it",
                        self.dir.display()
                    )))
            }
            Found::SomethingElse(what) => Err(self.something_else(&what)),
        }
    }

    /// The error for a directory that is no store.
    pub fn something_else(&self, what: &str) -> CliError {
        let words = format!("{} is not a store: {what}", self.dir.display());
        CliError::new(Failure::InUse, words)
            .hint("name a directory that is empty or does not exist, and it becomes a store")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local://{}", escape(self.dir.as_os_str().as_bytes()))
    }
}

impl StoreName {
    /// From the source of a mount, which is always a URL.
    pub fn of_source(source: &str) -> Result<Self> {
        if !source.contains("://") {
            let words = format!("the mount's source \"{source}\" is no store's URL");
            return Err(CliError::not_found(words).hint("it was not mounted by this program"));
        }
        Self::parse(OsStr::new(source))
    }

    /// Reads `local:///path#volume`, `path#volume` or either without a volume.
    pub fn parse(word: &OsStr) -> Result<Self> {
        let bytes = word.as_bytes();
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(CliError::usage("a store's name is a path or a URL, not nothing"));
        }
        let (place, volume) = match bytes.iter().rposition(|byte| *byte == b'#') {
            Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
            None => (bytes, None),
        };
        let shown = word.to_string_lossy();
        let scheme_end = place.windows(3).position(|window| window == b"://");
        let (store, volume) = match scheme_end {
            Some(end) => {
                let scheme = String::from_utf8_lossy(&place[..end]).into_owned();
                if scheme != "local" {
                    return Err(unknown_scheme(&scheme));
                }
                let path = unescape(&place[end + 3..]).ok_or_else(|| {
                    CliError::usage(format!("{shown}: a % begins two hexadecimal digits"))
                })?;
                if path.first() != Some(&b'/') {
                    let words = format!("{shown}: a local store has an absolute path and no host");
                    return Err(
                        CliError::usage(words).hint("write local:///path, with three slashes")
                    );
                }
                let volume =
                    volume.map(|volume| unescape(volume).unwrap_or_else(|| volume.to_vec()));
                (StoreUrl::local(Path::new(OsStr::from_bytes(&path)))?, volume)
            }
            None if place.starts_with(b"local:") => {
                let words = format!("{shown}: this is neither a path nor a URL");
                return Err(CliError::usage(words).hint("write local:///path, with three slashes"));
            }
            None if place.is_empty() => (StoreUrl::default_store()?, volume.map(<[u8]>::to_vec)),
            None => {
                (StoreUrl::local(Path::new(OsStr::from_bytes(place)))?, volume.map(<[u8]>::to_vec))
            }
        };
        let volume = match volume {
            None => None,
            Some(name) => {
                Some(String::from_utf8(name).ok().filter(|name| !name.is_empty()).ok_or_else(
                    || CliError::usage(format!("{shown}: behind # comes a volume's name")),
                )?)
            }
        };
        Ok(Self { store, volume })
    }
}

fn unknown_scheme(scheme: &str) -> CliError {
    let known: Vec<String> = SCHEMES.iter().map(|scheme| format!("{scheme}:///path")).collect();
    let words = format!("\"{scheme}://\" is no kind of store that this program knows");
    let near = match nearest(scheme, SCHEMES) {
        Some(near) => format!("; is {near}:// meant?"),
        None => String::new(),
    };
    CliError::new(Failure::Unsupported, words)
        .hint(format!("known are: {}, or a plain path{near}", known.join(", ")))
}

/// What is at a store's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Missing,
    /// An empty directory, or one where making a store was interrupted.
    Empty,
    /// A store.
    Store,
    /// Something that is not to be touched; why.
    SomethingElse(String),
}

/// What an interrupted beginning leaves behind.
const BEGUN: [&str; 5] = ["lock", "format.new", "manifest", "manifest.new", "manifest.copy"];
const MAGIC: &[u8] = b"SEAMOUNT";

fn inspect(dir: &Path) -> io::Result<Found> {
    match std::fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(error),
        Ok(meta) if !meta.is_dir() => {
            return Ok(Found::SomethingElse("it is not a directory".to_owned()));
        }
        Ok(_) => {}
    }
    let mut stranger = None;
    let (mut format, mut manifest) = (false, false);
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        format |= name == "format";
        manifest |= name == "manifest";
        if name != "format" && !BEGUN.iter().any(|known| name == *known) {
            stranger.get_or_insert(name);
        }
    }
    if format {
        // Somebody else's file may have this name. A damaged one of ours is told by the engine.
        let mut head = Vec::new();
        std::fs::File::open(dir.join("format"))?.take(128).read_to_end(&mut head)?;
        let ours = head.windows(MAGIC.len()).any(|window| window == MAGIC);
        if !ours && !manifest {
            return Ok(Found::SomethingElse(
                "its file \"format\" is not that of a store".to_owned(),
            ));
        }
        return Ok(Found::Store);
    }
    Ok(match stranger {
        None => Found::Empty,
        // A store that lost its first file: the engine says what is to be said.
        Some(_) if manifest => Found::Store,
        Some(name) => {
            Found::SomethingElse(format!("it is not empty, it has {:?}", name.to_string_lossy()))
        }
    })
}

/// The absolute path without links, as far as it exists. `..` behind what does not exist has no meaning.
fn settled(path: &Path) -> Result<PathBuf> {
    let failed =
        |error: &io::Error| CliError::io(format!("cannot follow {}", path.display()), error);
    let path = std::path::absolute(path).map_err(|error| failed(&error))?;
    let mut missing: Vec<OsString> = Vec::new();
    let mut there = path.as_path();
    loop {
        match there.canonicalize() {
            Ok(mut found) => {
                found.extend(missing.iter().rev());
                return Ok(found);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A link to nowhere is there, but what it names is not.
                if std::fs::symlink_metadata(there).is_ok() {
                    let words = format!(
                        "{} is a symbolic link to something that is not there",
                        there.display()
                    );
                    return Err(
                        CliError::usage(words).hint("remove the link, or make what it names")
                    );
                }
                let last = there.components().next_back();
                let (Some(Component::Normal(name)), Some(parent)) = (last, there.parent()) else {
                    let words =
                        format!("{}: .. behind something that does not exist", path.display());
                    return Err(CliError::usage(words));
                };
                missing.push(name.to_owned());
                there = parent;
            }
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// Bytes as the text of a URL.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'/'
            | b'.'
            | b'_'
            | b'-'
            | b'~'
            | b'+'
            | b'@' => {
                text.push(char::from(*byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The bytes of a URL's text; `None` when a `%` has no digits behind it.
pub fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &behind[2..];
    }
    Some(bytes)
}

/// A path from a URL's text.
pub fn unescape_path(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(OsString::from_vec(unescape(text.as_bytes())?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(word: &str) -> Result<StoreName> {
        StoreName::parse(OsStr::new(word))
    }

    #[test]
    fn reads_urls_and_paths() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let plain = format!("{}/new", dir.display());
        let name = parse(&plain).unwrap();
        assert_eq!(name.store.dir(), dir.join("new"));
        assert_eq!(name.volume, None);
        let name = parse(&format!("local://{plain}#home")).unwrap();
        assert_eq!(name.store.dir(), dir.join("new"));
        assert_eq!(name.volume.as_deref(), Some("home"));
        let name = parse(&format!("{plain}#home")).unwrap();
        assert_eq!(name.volume.as_deref(), Some("home"));
    }

    #[test]
    fn a_url_reads_back_as_the_same_store_whatever_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().canonicalize().unwrap().join(OsStr::from_bytes(b"a #,%\\\xff\n b"));
        let url = StoreUrl::local(&odd).unwrap();
        let text = url.with_volume("my volume#1");
        assert!(text.is_ascii() && !text.contains([' ', ',', '\\', '\n']), "{text}");
        let name = parse(&text).unwrap();
        assert_eq!(name.store, url);
        assert_eq!(name.volume.as_deref(), Some("my volume#1"));
    }

    #[test]
    fn refuses_what_makes_no_sense_and_says_so() {
        for (word, said) in [
            ("", "not nothing"),
            ("local://host/path", "three slashes"),
            ("local:/path", "three slashes"),
            ("local:///a%2", "hexadecimal"),
            ("/a#", "volume's name"),
            ("/nowhere/at-all/../x", ".."),
        ] {
            let error = parse(word).unwrap_err();
            assert_eq!(error.kind, Failure::Usage, "{word}");
            assert!(error.to_string().contains(said), "{word}: {error}");
        }
        let error = parse("fdb:///etc/fdb.cluster").unwrap_err();
        assert_eq!(error.kind, Failure::Unsupported);
        assert!(error.to_string().contains("local:///path"), "{error}");
    }

    #[test]
    fn tells_stores_from_other_things() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| StoreUrl::local(&dir.path().join(name)).unwrap();
        assert_eq!(at("none").inspect().unwrap(), Found::Missing);
        assert_eq!(at("none").must_exist().unwrap_err().kind, Failure::NotFound);
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        assert_eq!(at("empty").inspect().unwrap(), Found::Empty);
        std::fs::create_dir(dir.path().join("photos")).unwrap();
        std::fs::write(dir.path().join("photos/a.jpg"), "x").unwrap();
        assert!(
            matches!(at("photos").inspect().unwrap(), Found::SomethingElse(what) if what.contains("a.jpg"))
        );
        std::fs::write(dir.path().join("file"), "x").unwrap();
        assert!(matches!(at("file").inspect().unwrap(), Found::SomethingElse(_)));
        std::fs::create_dir(dir.path().join("disk")).unwrap();
        std::fs::write(dir.path().join("disk/format"), "x").unwrap();
        assert!(matches!(at("disk").inspect().unwrap(), Found::SomethingElse(_)));
        let store =
            kv_local::Local::open_dir(&dir.path().join("store"), kv_local::Options::default());
        store.unwrap().close().unwrap();
        assert_eq!(at("store").inspect().unwrap(), Found::Store);
    }
}
