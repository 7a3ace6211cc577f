//! A process that writes to files through shared mappings: one of its own, because a mapping whose
//! filesystem dies takes its process with it.
#![allow(
    unsafe_code,
    reason = "mapping a file is unsafe to name: nothing else changes these while they are mapped"
)]

use super::bytes::fill;
use super::program::Role;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::ptr::{copy_nonoverlapping, null_mut};

/// The process, seen from who asks it.
#[derive(Debug)]
pub struct Mapper {
    child: Child,
    line: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mapper {
    /// Starts one.
    pub fn start() -> Result<Self, String> {
        let failed = |error| format!("cannot start the process that maps: {error}");
        let mut command = Role::Mapper.command()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(line), Some(out)) => Ok(Self { child, line, answers: BufReader::new(out) }),
            _ => Err("a process without pipes".to_owned()),
        }
    }

    /// Writes the bytes of that number through a mapping and syncs it. An error when it could not, or has
    /// died of it.
    pub fn write(&mut self, path: &Path, at: usize, len: usize, seed: u64) -> io::Result<()> {
        writeln!(self.line, "{at} {len} {seed} {}", path.display())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end() {
            "ok" => Ok(()),
            "" => Err(io::ErrorKind::BrokenPipe.into()),
            words => Err(io::Error::other(words.to_owned())),
        }
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The life of that process: a line for each write, an answer for each.
pub fn serve(lines: impl BufRead, mut out: impl Write) -> io::Result<()> {
    for line in lines.lines() {
        match one(&line?) {
            Ok(()) => writeln!(out, "ok")?,
            Err(error) => writeln!(out, "{error}")?,
        }
        out.flush()?;
    }
    Ok(())
}

fn one(line: &str) -> io::Result<()> {
    let mut words = line.splitn(4, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let (Some(at), Some(len), Some(seed)) = (number(), number(), number()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let path = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let (at, len) = (at as usize, len as usize);
    let file = File::options().read(true).write(true).open(path)?;
    let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if at.checked_add(len).is_none_or(|end| end > size) || len == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = fill(seed, len);
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of the kernel's choice, whose `size` bytes are in the file; it is used in this
    // function only, and the range that is written was checked above.
    unsafe {
        let map = mmap(null_mut(), size, rights, MapFlags::SHARED, &file, 0)?;
        copy_nonoverlapping(bytes.as_ptr(), map.cast::<u8>().add(at), len);
        let synced = msync(map, size, MsyncFlags::SYNC);
        munmap(map, size)?;
        synced?;
    }
    Ok(())
}
