//! A part of a file in memory: what is written there is in the file, as far as a dying process is concerned,
//! and no call is needed for it.
#![allow(unsafe_code, reason = "a mapping is unsafe to make and to write to; all of it is here")]

#[cfg(test)]
mod tests;

use super::Window;
use rustix::fs::FallocateFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::ptr::NonNull;

/// Hosts that overwrite in place: behind room that was taken, and pages that are there, a store to memory needs
/// nothing that could be missing. On others it might, and then the process would be killed for it.
const IN_PLACE: [u64; 3] = [EXT4, XFS, TMPFS];
const EXT4: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
const TMPFS: u64 = 0x0102_1994;

/// Takes room for a part of a file in memory (a memfd), and gives that part. `offset` is a multiple of a page; the file must
/// not be cut there while the window lasts.
pub fn memory_window(file: &File, offset: u64, len: usize) -> Option<Box<dyn Window>> {
    let taken = FallocateFlags::empty();
    rustix::fs::fallocate(file, taken, offset, len as u64).ok()?;
    Some(Box::new(Mapped::new(file, offset, len)?))
}

/// A mapping that is shared with the file. Gone when it is dropped.
#[derive(Debug)]
pub(super) struct Mapped {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, and is written only through `&mut`.
unsafe impl Send for Mapped {}
// SAFETY: as above; nothing can be done with it through `&`.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps bytes of a file that room was taken for. `offset` is a multiple of a page. `None` where that cannot
    /// be had.
    pub(super) fn new(file: &File, offset: u64, len: usize) -> Option<Self> {
        let host = rustix::fs::fstatfs(file).ok()?;
        if !IN_PLACE.contains(&(host.f_type as u64)) || len == 0 {
            return None;
        }
        // SAFETY: no address is asked for, so the mapping lies on nothing that is there.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset,
            )
        };
        let mapped = Self { start: NonNull::new(start.ok()?)?, len };
        // Every page is made writable now: what the disk has to say against it, it says here.
        // SAFETY: the range is the mapping that was just made.
        let there = unsafe {
            rustix::mm::madvise(mapped.start.as_ptr(), mapped.len, Advice::LinuxPopulateWrite)
        };
        there.ok().map(|()| mapped)
    }
}

impl Window for Mapped {
    fn len(&self) -> usize {
        self.len
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: the range is inside of the mapping, which nobody else has, and `bytes` is elsewhere.
            unsafe {
                let to = self.start.as_ptr().cast::<u8>().add(at);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            }
        }
        fits
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing points there any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.len) };
    }
}
