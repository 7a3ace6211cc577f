//! FUSE over io_uring: requests come into buffers that this process has given, one queue for each CPU, and a
//! reply goes back with the same system call that waits for the next request.
//!
//! The kernel sends forgotten inodes and interrupts by `/dev/fuse` as before, and takes notifications there.

mod entry;
mod ring;

pub(crate) use entry::Entry;
pub(crate) use ring::Ring;

use crate::device::Device;
use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;

/// The CPUs that this machine may ever have: the kernel has a queue for each.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// The most queues that are served. Each has a thread and buffers.
const QUEUES_MAX: usize = 256;

/// A ring for every queue of a connection. Nothing is given to the kernel yet.
pub(crate) fn rings(device: &Arc<Device>) -> io::Result<Vec<Ring>> {
    let list = std::fs::read_to_string(POSSIBLE)?;
    let queues =
        count(&list).filter(|count| (1..=QUEUES_MAX).contains(count)).ok_or_else(|| {
            let text = format!("{POSSIBLE} has no list of at most {QUEUES_MAX} CPUs");
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
    (0..queues).map(|queue| Ring::new(queue as u16, Arc::clone(device))).collect()
}

/// How many "0-3,8" are.
fn count(list: &str) -> Option<usize> {
    list.trim().split(',').try_fold(0_usize, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Keeps this thread on a CPU, where those are whose requests it answers. Where the user allows the process
/// other CPUs only, it stays on those.
pub(crate) fn stay_on(cpu: usize) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
        return;
    };
    if cpu < CpuSet::MAX_CPU && allowed.is_set(cpu) {
        let mut one = CpuSet::new();
        one.set(cpu);
        // It is only faster so: no failure matters.
        let _ = rustix::thread::sched_setaffinity(None, &one);
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn cpus_are_counted() {
        assert_eq!(count("0-3,8\n"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-1"), None);
        assert_eq!(count(""), None);
    }
}
