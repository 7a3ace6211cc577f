//! What a volume looks like: every name, what it names, and every byte.

use base::checksum::hash64;
use fs::{Caller, FileType, Handle, Ino, Kind, OpenFlags, ROOT, Session, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of one page of a listing.
const PAGE: usize = 100;
/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// All names of a volume. What could not be read is an error of that name alone.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// What the names name.
    pub names: BTreeMap<String, Result<Look, String>>,
    /// Of those that are files, what is in them.
    pub files: BTreeMap<String, Contents>,
}

/// What one name names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    file_type: FileType,
    mode: u32,
    nlink: u32,
    pub(super) size: u64,
    pub(super) mtime: Time,
    /// The bytes of a file, or the target of a link, in one number.
    bytes: u64,
    xattrs: Vec<(Vec<u8>, u64)>,
}

/// What is in a file.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The inode, which is another one on another engine.
    pub ino: Ino,
    /// The bytes.
    pub bytes: Arc<Vec<u8>>,
}

impl Look {
    /// The same but for what is in it, where it is a file.
    #[must_use]
    pub fn hollow(&self) -> Self {
        match self.file_type {
            FileType::File => Self { size: 0, mtime: Time::default(), bytes: 0, ..self.clone() },
            _ => self.clone(),
        }
    }
}

impl PartialEq for Picture {
    /// Numbers of inodes are not looked at.
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
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
                    picture.names.insert(place, Err(error.to_string()));
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
                let look = look.map(|(look, bytes)| {
                    if let Some(bytes) = bytes {
                        let bytes = Arc::new(bytes);
                        picture.files.insert(path.clone(), Contents { ino, bytes });
                    }
                    look
                });
                picture.names.insert(path.clone(), look);
                if file_type == FileType::Directory {
                    places.push((path, ino));
                }
            }
        }
        Ok(picture)
    }

    /// Bytes that are those of an earlier picture are kept once.
    pub fn share(&mut self, before: &Picture) {
        for (name, contents) in &mut self.files {
            if let Some(old) = before.files.get(name).filter(|old| old.bytes == contents.bytes) {
                contents.bytes = Arc::clone(&old.bytes);
            }
        }
    }

    /// The same but for what is in files.
    #[must_use]
    pub fn hollow(&self) -> Self {
        let look =
            |look: &Result<Look, String>| look.as_ref().map(Look::hollow).map_err(Clone::clone);
        let names = self.names.iter().map(|(name, it)| (name.clone(), look(it)));
        Self { names: names.collect(), files: BTreeMap::new() }
    }

    /// The same without times, which depend on how often something was tried.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        for look in self.names.values_mut().flatten() {
            look.mtime = Time::default();
        }
        self
    }

    /// Where two differ first, in words.
    pub fn differs(&self, other: &Picture) -> Option<String> {
        let names = self.names.keys().chain(other.names.keys());
        let name =
            names.into_iter().find(|name| self.names.get(*name) != other.names.get(*name))?;
        Some(format!("{name} is {:?}, not {:?}", self.names.get(name), other.names.get(name)))
    }

    /// What is wrong beside another, where names of this one may be damaged: a name that is not right
    /// and not an error. And how many names could not be read.
    pub fn wrong(&self, right: &Picture) -> Result<usize, String> {
        let mut hidden: Vec<&str> = Vec::new();
        for (name, look) in &self.names {
            match look {
                Err(_) => hidden.push(name),
                Ok(_) if right.names.get(name) == Some(look) => {}
                Ok(look) => {
                    return Err(format!("{name} is {look:?}, not {:?}", right.names.get(name)));
                }
            }
        }
        // What is below a directory that cannot be listed is not seen.
        let covered = |name: &str| {
            hidden
                .iter()
                .any(|dir| name.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/')))
        };
        match right.names.keys().find(|name| !self.names.contains_key(*name) && !covered(name)) {
            Some(name) => Err(format!("{name} is missing, and nobody says so")),
            None => Ok(hidden.len()),
        }
    }

    /// The errors in it.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.names.values().filter_map(|look| look.as_ref().err().map(String::as_str))
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

async fn look(session: &Session, ino: Ino) -> fs::Result<(Look, Option<Vec<u8>>)> {
    let caller = Caller::root();
    let attr = session.getattr(ino).await?;
    let file_type = attr.file_type();
    let contents = match file_type {
        FileType::File => Some(contents(session, ino, attr.size).await?),
        _ => None,
    };
    let bytes = match (file_type, &contents) {
        (_, Some(contents)) => hash64(0, contents),
        (FileType::Symlink, _) => hash64(1, &session.readlink(ino).await?),
        _ => 0,
    };
    let mut xattrs = Vec::new();
    for name in session.listxattr(&caller, ino).await? {
        let value = session.getxattr(&caller, ino, &name).await?;
        xattrs.push((name.to_vec(), hash64(2, &value)));
    }
    xattrs.sort();
    let look = Look {
        file_type,
        mode: attr.mode,
        nlink: attr.nlink,
        size: attr.size,
        mtime: attr.mtime,
        bytes,
        xattrs,
    };
    Ok((look, contents))
}

async fn contents(session: &Session, ino: Ino, size: u64) -> fs::Result<Vec<u8>> {
    let handle = session.open(&Caller::root(), ino, OpenFlags::READ).await?;
    let outcome = read(session, handle, size).await;
    session.release(handle).await?;
    outcome
}

/// All bytes of an open file.
pub(super) async fn read(session: &Session, handle: Handle, size: u64) -> fs::Result<Vec<u8>> {
    let mut all = Vec::new();
    while (all.len() as u64) < size {
        let bytes = session.read(handle, all.len() as u64, READ_BYTES).await?;
        if bytes.is_empty() {
            break;
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}
