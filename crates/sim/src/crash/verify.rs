//! Compares what is on a mount with what a writer has made.

use super::calls::{Seat, key_name};
use super::model::{Kind, Model};
use rustix::fs::{getxattr, listxattr};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Differences that are told; more are counted.
const TOLD_MAX: usize = 12;

/// Everything that differs between a writer's model and the mount, in words.
pub(super) fn differences(seat: &Seat, model: &Model, home: &str, shared: &str) -> Vec<String> {
    let mut found = Vec::new();
    match names(seat, home, shared) {
        Ok(there) => {
            let wanted: BTreeSet<&String> = model.names.keys().collect();
            found.extend(
                there
                    .iter()
                    .filter(|name| !wanted.contains(name))
                    .map(|name| format!("{name} is there and should not be")),
            );
            found.extend(
                wanted
                    .iter()
                    .filter(|name| !there.contains(**name))
                    .map(|name| format!("{name} is missing")),
            );
        }
        Err(error) => found.push(format!("cannot list {home}: {error}")),
    }
    let mut inodes = BTreeMap::new();
    for (name, number) in &model.names {
        let Some(node) = model.nodes.get(number) else { continue };
        match one(seat, model, name, *number) {
            Ok((inode, differs)) => {
                found.extend(differs.into_iter().map(|what| format!("{name}: {what}")));
                let first = inodes.entry(*number).or_insert(inode);
                if *first != inode && node.kind != Kind::Directory {
                    found.push(format!("{name}: no longer one file with its other names"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => found.push(format!("{name}: {error}")),
        }
    }
    let count = found.len();
    if count > TOLD_MAX {
        found.truncate(TOLD_MAX);
        found.push(format!("and {} more", count - TOLD_MAX));
    }
    found
}

/// All names of a writer.
fn names(seat: &Seat, home: &str, shared: &str) -> io::Result<BTreeSet<String>> {
    let mut there = BTreeSet::new();
    let mut waiting = vec![home.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(seat.at(&directory))? {
            let entry = entry?;
            let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                waiting.push(name.clone());
            }
            there.insert(name);
        }
    }
    let (directory, prefix) = shared.split_once('/').unwrap_or((shared, ""));
    for entry in fs::read_dir(seat.at(directory))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            there.insert(format!("{directory}/{name}"));
        }
    }
    Ok(there)
}

fn one(seat: &Seat, model: &Model, name: &str, number: u64) -> io::Result<(u64, Vec<String>)> {
    let path = seat.at(name);
    let meta = fs::symlink_metadata(&path)?;
    let mut found = Vec::new();
    let Some(node) = model.nodes.get(&number) else { return Ok((meta.ino(), found)) };
    let kind = meta.file_type();
    match &node.kind {
        Kind::File(bytes) if kind.is_file() => {
            let there = fs::read(&path)?;
            if meta.len() != bytes.len() as u64 {
                found.push(format!("{} bytes, not {}", meta.len(), bytes.len()));
            }
            if there != *bytes {
                let at = there.iter().zip(bytes).position(|(one, other)| one != other);
                let wrong = there.iter().zip(bytes).filter(|(one, other)| one != other).count();
                found.push(match at {
                    Some(at) => format!("{wrong} other bytes, the first at {at}"),
                    None => format!("{} bytes read, not {}", there.len(), bytes.len()),
                });
            }
            if meta.nlink() != model.links(number) as u64 {
                found.push(format!("{} names, not {}", meta.nlink(), model.links(number)));
            }
            found.extend(attributes(&path, node)?);
        }
        Kind::Directory if kind.is_dir() => {}
        Kind::Symlink(target) if kind.is_symlink() => {
            let there = fs::read_link(&path)?;
            if there.as_os_str() != target.as_str() {
                found.push(format!("leads to {}, not {target}", there.display()));
            }
        }
        _ => found.push("of another kind".to_owned()),
    }
    if !kind.is_symlink() && meta.mode() & 0o7777 != node.mode {
        found.push(format!("mode {:o}, not {:o}", meta.mode() & 0o7777, node.mode));
    }
    if let Some(secs) = node.mtime
        && meta.mtime() != secs
    {
        found.push(format!("changed at {}, not {secs}", meta.mtime()));
    }
    Ok((meta.ino(), found))
}

fn attributes(path: &std::path::Path, node: &super::model::Node) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut buffer = vec![0; 65_536];
    let len = listxattr(path, &mut buffer)?;
    let mut there: BTreeSet<String> = buffer[..len]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    for (key, wanted) in &node.xattrs {
        let name = key_name(*key);
        if !there.remove(&name) {
            found.push(format!("{name} is missing"));
            continue;
        }
        let len = getxattr(path, &*name, &mut buffer)?;
        if buffer[..len] != wanted[..] {
            found.push(format!("{name} has another value"));
        }
    }
    found.extend(there.into_iter().map(|name| format!("{name} should not be there")));
    Ok(found)
}
