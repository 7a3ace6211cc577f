//! What must be there when a life has ended, wherever it ended.
//!
//! Names and attributes, and bytes that are in the store, are those of one moment. Files of the home have their
//! own: one that was not written to since it was made durable is as it was then, and of any other every byte is
//! one that was written there since, or, where power was lost, zero. So no byte is another file's.

use super::picture::{Look, Picture};
use super::{Lived, Reference};
use fs::{Ino, Time};
use std::sync::Arc;

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process died, or a call failed.
    Process,
    /// Power was lost.
    Power,
}

impl Reference {
    /// Whether a picture is what a life that ended so may leave. Without `times` those of files are not compared,
    /// as they depend on how often something was tried.
    pub fn explains(
        &self,
        picture: &Picture,
        lived: &Lived,
        end: End,
        times: bool,
    ) -> Result<(), String> {
        let promised = match end {
            End::Process => lived.answered,
            End::Power => lived.synced,
        };
        let last = self.pictures.len().min(lived.answered + 2);
        let mut picture = picture.clone();
        // What a probe that failed half way has left is none of the script's.
        picture.names.remove("/.probe");
        let mut first = None;
        // Later ones first: what was answered is there most often.
        for right in self.pictures[promised..last].iter().rev() {
            match self.is_like(&picture, right, lived, end, times) {
                Ok(()) => return Ok(()),
                Err(error) => first = Some(error),
            }
        }
        Err(format!("{promised} steps were promised, but {}", first.unwrap_or_default()))
    }

    fn is_like(
        &self,
        picture: &Picture,
        right: &Picture,
        lived: &Lived,
        end: End,
        times: bool,
    ) -> Result<(), String> {
        if !self.story.home {
            let (one, other) = match times {
                true => (picture.clone(), right.clone()),
                false => (picture.clone().without_times(), right.clone().without_times()),
            };
            return one.differs(&other).map_or(Ok(()), Err);
        }
        let outside = |picture: &Picture| {
            let picture = picture.hollow();
            if times { picture } else { picture.without_times() }
        };
        if let Some(differs) = outside(picture).differs(&outside(right)) {
            return Err(differs);
        }
        for (name, contents) in &picture.files {
            let (Some(file), Some(Ok(look))) = (right.files.get(name), picture.names.get(name))
            else {
                continue;
            };
            let from = match end {
                End::Process => lived.answered,
                End::Power => lived.synced_of(file.ino),
            };
            if look.size != contents.bytes.len() as u64 {
                let len = contents.bytes.len();
                return Err(format!("{name} has {len} bytes, and says that it has {}", look.size));
            }
            let versions = self.versions(file.ino, from, lived.answered + 2);
            fits(look, &contents.bytes, &versions, end, times)
                .map_err(|error| format!("{name}, from step {from} on: {error}"))?;
        }
        Ok(())
    }

    /// What was in a file after each of some steps, each once.
    fn versions(&self, ino: Ino, from: usize, end: usize) -> Vec<(Time, Arc<Vec<u8>>)> {
        let mut versions: Vec<(Time, Arc<Vec<u8>>)> = Vec::new();
        for at in from..end.min(self.pictures.len()) {
            let picture = &self.pictures[at];
            let named = picture.files.iter().find(|(_, file)| file.ino == ino);
            let named = named.and_then(|(name, file)| match picture.names.get(name) {
                Some(Ok(look)) => Some((look.mtime, file)),
                _ => None,
            });
            // A name that is gone may come back.
            let held = self.held[at].iter().find(|(_, file)| file.ino == ino);
            let Some((time, file)) = named.or(held.map(|(time, file)| (*time, file))) else {
                continue;
            };
            let last = versions.last();
            if last.is_none_or(|(last, bytes)| *last != time || *bytes != file.bytes) {
                versions.push((time, Arc::clone(&file.bytes)));
            }
        }
        versions
    }
}

/// Whether a file is what one of its versions is, or where there are several a mixture of them.
fn fits(
    look: &Look,
    bytes: &[u8],
    versions: &[(Time, Arc<Vec<u8>>)],
    end: End,
    times: bool,
) -> Result<(), String> {
    if let [(time, right)] = versions {
        if **right != bytes {
            let at = right.iter().zip(bytes).position(|(right, byte)| right != byte);
            let (is, was) = (bytes.len(), right.len());
            return Err(format!("it has {is} bytes, not {was}, and differs at {at:?}"));
        }
        if times && look.mtime != *time {
            return Err(format!("it changed at {:?}, not at {time:?}", look.mtime));
        }
        return Ok(());
    }
    if versions.iter().any(|(_, right)| **right == bytes) {
        return Ok(());
    }
    let lengths = || versions.iter().map(|(_, right)| right.len());
    let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    if !(least..=most).contains(&bytes.len()) {
        return Err(format!("it has {} bytes, not from {least} to {most}", bytes.len()));
    }
    let known = |at: usize, byte: u8| {
        (byte == 0 && end == End::Power)
            || versions.iter().any(|(_, right)| right.get(at) == Some(&byte))
    };
    match bytes.iter().enumerate().find(|(at, byte)| !known(*at, **byte)) {
        Some((at, byte)) => Err(format!("byte {at} is {byte}, which was never written there")),
        None => Ok(()),
    }
}
