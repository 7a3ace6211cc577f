//! What a volume looks like: every name, what it names, and every byte.

use base::checksum::hash64;
use fs::{Caller, FileType, Ino, Kind, OpenFlags, ROOT, Session, Time};
use std::collections::BTreeMap;

/// Names of one page of a listing.
const PAGE: usize = 100;
/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// All names of a volume. What could not be read is an error of that name alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture(pub BTreeMap<String, Result<Look, String>>);

/// What one name names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    file_type: FileType,
    mode: u32,
    nlink: u32,
    size: u64,
    mtime: Time,
    /// The bytes of a file, or the target of a link, in one number.
    bytes: u64,
    xattrs: Vec<(Vec<u8>, u64)>,
}

impl Picture {
    /// Looks at everything. Only damage of the root makes it fail.
    pub async fn take(session: &Session) -> fs::Result<Self> {
        let mut picture = Picture::default();
        let mut places = vec![(String::new(), ROOT)];
        while let Some((place, ino)) = places.pop() {
            let listed = match list(session, ino).await {
                Ok(listed) => listed,
                Err(error) if ino != ROOT && is_damage(&error) => {
                    picture.0.insert(place, Err(error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (name, ino, file_type) in listed {
                let path = format!("{place}/{name}");
                let look = match look(session, ino).await {
                    Err(error) if !is_damage(&error) => return Err(error),
                    look => look.map_err(|error| error.to_string()),
                };
                picture.0.insert(path.clone(), look);
                if file_type == FileType::Directory {
                    places.push((path, ino));
                }
            }
        }
        Ok(picture)
    }

    /// The same without times, which depend on how often something was tried.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        for look in self.0.values_mut().flatten() {
            look.mtime = Time::default();
        }
        self
    }

    /// Where two differ first, in words.
    pub fn differs(&self, other: &Picture) -> Option<String> {
        let names = self.0.keys().chain(other.0.keys());
        let name = names.into_iter().find(|name| self.0.get(*name) != other.0.get(*name))?;
        Some(format!("{name} is {:?}, not {:?}", self.0.get(name), other.0.get(name)))
    }

    /// What is wrong beside another, where names of this one may be damaged: a name that is not right
    /// and not an error. And how many names could not be read.
    pub fn wrong(&self, right: &Picture) -> Result<usize, String> {
        let mut hidden: Vec<&str> = Vec::new();
        for (name, look) in &self.0 {
            match look {
                Err(_) => hidden.push(name),
                Ok(_) if right.0.get(name) == Some(look) => {}
                Ok(look) => return Err(format!("{name} is {look:?}, not {:?}", right.0.get(name))),
            }
        }
        // What is below a directory that cannot be listed is not seen.
        let covered = |name: &str| {
            hidden
                .iter()
                .any(|dir| name.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/')))
        };
        match right.0.keys().find(|name| !self.0.contains_key(*name) && !covered(name)) {
            Some(name) => Err(format!("{name} is missing, and nobody says so")),
            None => Ok(hidden.len()),
        }
    }

    /// The errors in it.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.0.values().filter_map(|look| look.as_ref().err().map(String::as_str))
    }
}

fn is_damage(error: &fs::Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::Io)
}

async fn list(session: &Session, ino: Ino) -> fs::Result<Vec<(String, Ino, FileType)>> {
    let caller = Caller::root();
    let handle = session.opendir(&caller, ino).await?;
    let mut all = Vec::new();
    let mut cookie = 0;
    let outcome = loop {
        match session.readdir(handle, cookie, PAGE).await {
            Ok(entries) if entries.is_empty() => break Ok(()),
            Ok(entries) => {
                for entry in entries {
                    cookie = entry.cookie;
                    if &entry.name[..] != b"." && &entry.name[..] != b".." {
                        let name = String::from_utf8_lossy(&entry.name).into_owned();
                        all.push((name, entry.ino, entry.file_type));
                    }
                }
            }
            Err(error) => break Err(error),
        }
    };
    session.releasedir(handle).await?;
    outcome.map(|()| all)
}

async fn look(session: &Session, ino: Ino) -> fs::Result<Look> {
    let caller = Caller::root();
    let attr = session.getattr(ino).await?;
    let file_type = attr.file_type();
    let bytes = match file_type {
        FileType::File => contents(session, ino, attr.size).await?,
        FileType::Symlink => hash64(1, &session.readlink(ino).await?),
        _ => 0,
    };
    let mut xattrs = Vec::new();
    for name in session.listxattr(&caller, ino).await? {
        let value = session.getxattr(&caller, ino, &name).await?;
        xattrs.push((name.to_vec(), hash64(2, &value)));
    }
    xattrs.sort();
    Ok(Look {
        file_type,
        mode: attr.mode,
        nlink: attr.nlink,
        size: attr.size,
        mtime: attr.mtime,
        bytes,
        xattrs,
    })
}

async fn contents(session: &Session, ino: Ino, size: u64) -> fs::Result<u64> {
    let handle = session.open(&Caller::root(), ino, OpenFlags::READ).await?;
    let (mut hash, mut at) = (0, 0);
    let outcome = loop {
        if at >= size {
            break Ok(hash);
        }
        match session.read(handle, at, READ_BYTES).await {
            Ok(bytes) if bytes.is_empty() => break Ok(hash),
            Ok(bytes) => {
                at += bytes.len() as u64;
                hash = hash64(hash, &bytes);
            }
            Err(error) => break Err(error),
        }
    };
    session.release(handle).await?;
    outcome
}
