//! What a benchmark found, as data.

use super::samples::{Samples, median, ratio};
use super::target::Target;
use super::work::Work;
use serde::{Deserialize, Serialize};

/// All that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The directories: first the measured one, then those that it is compared with.
    pub targets: Vec<TargetInfo>,
    /// How much was done.
    pub settings: Settings,
    /// One for each workload, in the order of the table.
    pub rows: Vec<Row>,
    /// Workloads that could not be done here.
    pub skipped: Vec<Skipped>,
    /// What a reader of the numbers should know.
    pub warnings: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// One directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Its name in the table.
    pub label: String,
    /// Its full path.
    pub path: String,
    /// Its filesystem.
    pub filesystem: String,
}

/// Sizes and numbers behind the rates.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// Files of each metadata workload.
    pub files: u64,
    /// Passes over everything.
    pub passes: u32,
    /// Threads of the threaded workloads.
    pub threads: usize,
    /// Size of the large file.
    pub stream_bytes: u64,
    /// The CPUs that the benchmark could run on.
    pub cpus: Vec<usize>,
}

/// One workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub workload: String,
    /// What is counted, a second.
    pub unit: String,
    /// One for each target, in their order.
    pub values: Vec<Value>,
    /// The first target's rate as a multiple of each other's, in their order: the median of each pass's own
    /// multiple, as what the machine does meanwhile changes from pass to pass.
    pub ratios: Vec<Option<f64>>,
}

/// One workload on one target.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Value {
    /// The median of the passes.
    pub median: Option<f64>,
    /// Each pass.
    pub samples: Vec<f64>,
}

impl Value {
    /// The median of these passes, and they.
    pub fn of(samples: Vec<f64>) -> Self {
        Self { median: median(&samples), samples }
    }

    /// As a multiple of another.
    fn by(&self, other: &Self) -> Option<f64> {
        if self.samples.len() != other.samples.len() {
            return ratio(self.median, other.median);
        }
        let pairs = self.samples.iter().zip(&other.samples);
        let ratios: Option<Vec<f64>> =
            pairs.map(|(own, other)| ratio(Some(*own), Some(*other))).collect();
        median(&ratios?)
    }
}

/// A workload that was not done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub workload: String,
    /// Why not.
    pub reason: String,
}

impl From<&Target> for TargetInfo {
    fn from(target: &Target) -> Self {
        let path = target.path.display().to_string();
        Self { label: target.label.clone(), path, filesystem: target.kind.clone() }
    }
}

impl Row {
    pub(crate) fn new(work: Work, threads: usize, targets: usize, samples: &Samples) -> Self {
        let values: Vec<Value> =
            (0..targets).map(|target| Value::of(samples.of(work, target).to_vec())).collect();
        Self::of(work.name(threads), work.unit().label(), values)
    }

    /// A workload that was measured elsewhere, with a value for each target.
    pub fn of(workload: impl Into<String>, unit: impl Into<String>, values: Vec<Value>) -> Self {
        let ratios = match values.split_first() {
            Some((own, others)) => others.iter().map(|other| own.by(other)).collect(),
            None => Vec::new(),
        };
        Self { workload: workload.into(), unit: unit.into(), values, ratios }
    }
}
