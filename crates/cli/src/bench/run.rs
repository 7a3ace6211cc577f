//! The order of things: every scene on each target in turn, pass after pass.

use super::caches;
use super::error::Error;
use super::options::{Options, Scale};
use super::pin::allowed_cpus;
use super::report::{Report, Row, Settings, Skipped, TargetInfo};
use super::samples::Samples;
use super::scene::{self, Scene, program};
use super::scratch::Scratch;
use super::stage::Stage;
use super::stop::Stop;
use super::target::{self, Target};
use super::work::{self, Need, Work};
use std::time::Instant;

/// How far a benchmark is.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Scenes done, over all passes and targets.
    pub done: u64,
    /// Scenes in all.
    pub total: u64,
    /// What comes next.
    pub scene: &'a str,
    /// Where.
    pub target: &'a str,
}

/// Measures. `progress` is called before each scene and once at the end.
///
/// From here on SIGINT, SIGTERM and SIGHUP end the benchmark in order, with what it made removed; a
/// second one ends the process at once.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report, Error> {
    let plan = Plan::make(options)?;
    let stop = Stop::on_signals()
        .map_err(|error| Error::Asked(format!("signals cannot be caught: {error}")))?;
    plan.run(scene::ALL, &stop, progress)
}

/// A benchmark that passed its checks.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    pub(crate) targets: Vec<Target>,
    pub(crate) works: Vec<Work>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    pub(crate) fn make(options: &Options) -> Result<Self, Error> {
        let scale = options.scale()?;
        let chosen = work::chosen(&options.only, scale.threads)?;
        let (works, skipped) = possible(chosen, scale.threads);
        if works.is_empty() {
            let reasons: Vec<_> = skipped
                .iter()
                .map(|skipped| format!("{} {}", skipped.workload, skipped.reason))
                .collect();
            return Err(Error::Asked(format!("nothing to measure: {}", reasons.join(", "))));
        }
        let mut targets = Vec::new();
        for path in std::iter::once(&options.path).chain(&options.against) {
            targets.push(Target::check(path, scale.bytes_needed())?);
        }
        target::tell_apart(&mut targets);
        let warnings = target::oddities(&targets);
        Ok(Self { scale, targets, works, skipped, warnings })
    }

    pub(crate) fn run(
        self,
        scenes: &[Scene],
        stop: &Stop,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Report, Error> {
        let start = Instant::now();
        let scenes: Vec<&Scene> = scenes
            .iter()
            .filter(|scene| scene.works.iter().any(|work| self.works.contains(work)))
            .collect();
        let mut scratches = Vec::new();
        for target in &self.targets {
            scratches.push(Scratch::make(&target.path)?);
        }
        let count = self.targets.len();
        let mut samples = Samples::new(count);
        let total = scenes.len() as u64 * count as u64 * u64::from(self.scale.passes);
        let mut done = 0;
        for pass in 0..self.scale.passes as usize {
            for scene in &scenes {
                for turn in 0..count {
                    // The first after a pause is often the slower one, so it is not always the same.
                    let target = (turn + pass) % count;
                    let label = &self.targets[target].label;
                    progress(Progress { done, total, scene: scene.name, target: label });
                    let dir = scratches[target].fresh(scene.name)?;
                    // What another target left to be written must not be paid for here.
                    rustix::fs::sync();
                    let mut stage = Stage {
                        dir,
                        scale: &self.scale,
                        wanted: &self.works,
                        stop,
                        samples: &mut samples,
                        target,
                    };
                    (scene.play)(&mut stage)?;
                    done += 1;
                }
            }
        }
        progress(Progress { done, total, scene: "removing", target: "all" });
        for scratch in scratches {
            scratch.remove()?;
        }
        Ok(self.report(&samples, start.elapsed().as_secs_f64()))
    }

    fn report(self, samples: &Samples, seconds: f64) -> Report {
        let row = |work: &Work| Row::new(*work, self.scale.threads, self.targets.len(), samples);
        Report {
            targets: self.targets.iter().map(TargetInfo::from).collect(),
            settings: Settings {
                files: self.scale.files,
                passes: self.scale.passes,
                threads: self.scale.threads,
                stream_bytes: self.scale.stream_bytes,
                cpus: allowed_cpus(),
            },
            rows: self.works.iter().map(row).collect(),
            skipped: self.skipped,
            warnings: self.warnings,
            seconds,
        }
    }
}

/// What can be done here, and what not for which reason.
fn possible(works: Vec<Work>, threads: usize) -> (Vec<Work>, Vec<Skipped>) {
    let needed = |need: Need| works.iter().any(|work| work.need() == need);
    let cold = !needed(Need::Cold) || caches::can_drop();
    let git = !needed(Need::Git) || program::exists("git");
    let sqlite = !needed(Need::Sqlite) || program::exists("sqlite3");
    let tar = !needed(Need::Tar) || program::exists("tar");
    let cargo = !needed(Need::Cargo) || program::exists("cargo");
    let mut skipped = Vec::new();
    let works = works
        .into_iter()
        .filter(|work| {
            let reason = match work.need() {
                Need::Cold if !cold => "only root may drop the kernel's caches",
                Need::Git if !git => "git is not installed",
                Need::Sqlite if !sqlite => "sqlite3 is not installed",
                Need::Tar if !tar => "tar is not installed",
                Need::Cargo if !cargo => "cargo is not installed",
                _ => return true,
            };
            skipped.push(Skipped { workload: work.name(threads), reason: reason.into() });
            false
        })
        .collect();
    (works, skipped)
}
