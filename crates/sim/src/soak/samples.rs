//! What a daemon takes while it works, looked at every few seconds, and whether that grows.

use std::fmt;
use std::time::Duration;

/// What a process takes at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sample {
    /// Since the beginning.
    pub(crate) at: Duration,
    /// Memory.
    pub(crate) resident_bytes: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
}

impl Sample {
    /// Looks at a process.
    pub(crate) fn take(pid: u32, at: Duration) -> Result<Self, String> {
        let failed = |error| format!("cannot look at process {pid}: {error}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(failed)?;
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(failed)?.count();
        Ok(Self {
            at,
            resident_bytes: number("VmRSS:") << 10,
            threads: number("Threads:"),
            descriptors: descriptors as u64,
        })
    }

    /// The most memory that a process has had so far.
    pub(crate) fn peak_bytes(pid: u32) -> Result<u64, String> {
        let failed = |error| format!("cannot look at process {pid}: {error}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(failed)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number
            .map(|kib| kib << 10)
            .ok_or_else(|| format!("process {pid} says nothing of its memory"))
    }
}

/// Growth of memory that is none: its most in the last third may be so much over that in the first one.
const MEMORY_PERCENT: u64 = 8;
const MEMORY_BYTES: u64 = 16 << 20;
/// The same of threads and of descriptors, which come and go with what is open.
const THREADS: u64 = 8;
const DESCRIPTORS: u64 = 32;

/// The thirds of a run after its warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    /// The most in the first third.
    pub(crate) first: Sample,
    /// The most in the last one.
    pub(crate) last: Sample,
}

impl Growth {
    /// Compares the thirds of what comes after `warm_up`; `None` when there is too little of it.
    pub(crate) fn of(samples: &[Sample], warm_up: Duration) -> Option<Self> {
        let rest: Vec<Sample> = samples.iter().copied().filter(|one| one.at >= warm_up).collect();
        let third = rest.len() / 3;
        if third == 0 {
            return None;
        }
        Some(Self { first: most(&rest[..third]), last: most(&rest[rest.len() - third..]) })
    }

    /// What has grown, if something has.
    pub(crate) fn complaint(&self) -> Option<String> {
        let (first, last) = (self.first, self.last);
        let memory =
            first.resident_bytes + first.resident_bytes * MEMORY_PERCENT / 100 + MEMORY_BYTES;
        let mut found = Vec::new();
        if last.resident_bytes > memory {
            found.push("memory");
        }
        if last.threads > first.threads + THREADS {
            found.push("threads");
        }
        if last.descriptors > first.descriptors + DESCRIPTORS {
            found.push("descriptors");
        }
        (!found.is_empty()).then(|| format!("growth in {}: {self}", found.join(", ")))
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first, self.last);
        write!(
            f,
            "memory {} -> {} MiB, threads {} -> {}, descriptors {} -> {} (most of the first and of the last third)",
            first.resident_bytes >> 20,
            last.resident_bytes >> 20,
            first.threads,
            last.threads,
            first.descriptors,
            last.descriptors
        )
    }
}

fn most(samples: &[Sample]) -> Sample {
    samples.iter().fold(Sample::default(), |most, one| Sample {
        at: one.at,
        resident_bytes: most.resident_bytes.max(one.resident_bytes),
        threads: most.threads.max(one.threads),
        descriptors: most.descriptors.max(one.descriptors),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(memory_mib: impl Fn(u64) -> u64) -> Vec<Sample> {
        let one = |second| Sample {
            at: Duration::from_secs(second),
            resident_bytes: memory_mib(second) << 20,
            threads: 10,
            descriptors: 20,
        };
        (0..1000).map(one).collect()
    }

    #[test]
    fn growth_is_told_from_waves() {
        let warm_up = Duration::from_secs(100);
        let waves = samples(|second| 200 + second % 40);
        assert_eq!(Growth::of(&waves, warm_up).unwrap().complaint(), None);
        let filling = samples(|second| if second < 100 { second } else { 200 });
        assert_eq!(Growth::of(&filling, warm_up).unwrap().complaint(), None);
        let leaking = samples(|second| 100 + second / 10);
        let told = Growth::of(&leaking, warm_up).unwrap().complaint().unwrap();
        assert!(told.starts_with("growth in memory: memory 139 -> 199 MiB"), "{told}");
        assert_eq!(Growth::of(&waves[..50], warm_up), None);
    }
}
