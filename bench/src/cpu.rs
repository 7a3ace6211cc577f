//! Which CPUs a thread may run on, here and in servers: where they run outweighs most of what is measured.

use crate::error::{Error, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process had at its start.
#[derive(Debug, Clone)]
pub(crate) struct Cpus {
    all: CpuSet,
    first: usize,
}

impl Cpus {
    pub(crate) fn here() -> Result<Self> {
        let all = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu));
        let first = first.ok_or_else(|| Error::new("the system names no CPU for this process"))?;
        Ok(Self { all, first })
    }

    pub(crate) fn first(&self) -> usize {
        self.first
    }

    pub(crate) fn count(&self) -> u32 {
        self.all.count()
    }

    fn set(&self, pinned: bool) -> CpuSet {
        if !pinned {
            return self.all;
        }
        let mut one = CpuSet::new();
        one.set(self.first);
        one
    }

    /// This thread, and all threads and programs that it starts from now on.
    pub(crate) fn own(&self, pinned: bool) -> Result<()> {
        Ok(sched_setaffinity(None, &self.set(pinned))?)
    }

    /// All threads of another process; those that they start follow them.
    pub(crate) fn other(&self, process: u32, pinned: bool) -> Result<()> {
        for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
            let name = task?.file_name();
            let task = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            // No number would mean this thread.
            let Some(task) = task else { continue };
            match sched_setaffinity(Some(task), &self.set(pinned)) {
                // A thread may have ended meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
