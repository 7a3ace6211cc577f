//! A mounted volume that grows: what an operation costs among ten thousand files, and among ten million.
//!
//! * [`options`]: what is asked for. [`volume`]: the mounted volume, and mounting it anew.
//! * [`forest`]: the files, and how they are made quickly. [`step`]: what is measured at one size.
//! * [`large`]: single files of great size. [`cost`]: what one operation takes.
//! * [`print`]: the tables, the pictures and the bars.

mod cost;
mod forest;
mod large;
mod options;
mod print;
mod step;
mod volume;

use crate::cpu::Cpus;
use crate::error::{Error, Result};
use crate::programs::Programs;
use crate::scratch::Scratch;
use cli::bench::Stop;
use forest::{Forest, Shape};
use options::{Options, Section};
use std::path::Path;
use step::Step;
use volume::Volume;

/// What all parts of a run share.
struct Run<'a> {
    options: &'a Options,
    programs: &'a Programs,
    cpus: &'a Cpus,
    stop: &'a Stop,
}

/// Runs what the command line asks for.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new("bench grow mounts, and drops the kernel's caches: run it as root"));
    }
    let stop = Stop::on_signals()?;
    let programs = Programs::find(false)?;
    let cpus = Cpus::here()?;
    let scratch = Scratch::new(options.dir.as_deref())?;
    if let Some(dir) = &options.svg_dir {
        std::fs::create_dir_all(dir)?;
    }
    let run = Run { options: &options, programs: &programs, cpus: &cpus, stop: &stop };
    let mut verdicts = Vec::new();
    for shape in [Shape::Spread, Shape::Single] {
        if !options.sections.contains(&Section::Growth(shape)) {
            continue;
        }
        let dir = scratch.path().join(shape.name());
        let steps = run.grow(&dir, shape).map_err(|error| error.during(shape.name()))?;
        std::fs::remove_dir_all(&dir)?;
        print::growth(shape, &steps);
        verdicts.extend(print::judge_growth(shape, &steps));
        if let Some(dir) = &options.svg_dir {
            let picture = cli::bench::plot(&print::picture(shape, &steps));
            std::fs::write(dir.join(format!("grow-{}.svg", shape.name())), picture)?;
        }
    }
    if options.sections.contains(&Section::Large) {
        let rows = run.large(&scratch.path().join("large"))?;
        print::large(&rows);
        verdicts.extend(print::judge_large(&rows));
    }
    print::bars(&verdicts);
    Ok(())
}

impl Run<'_> {
    /// One volume, larger from step to step.
    fn grow(&self, dir: &Path, shape: Shape) -> Result<Vec<Step>> {
        let mut volume = Volume::mount(dir, self.programs, self.cpus)?;
        let mut forest = Forest::plant(volume.root(), shape)?;
        let mut steps = Vec::new();
        for size in self.options.sizes() {
            volume.pin(false)?;
            forest.fill(volume.root(), size, self.options.threads, self.stop)?;
            let step = step::measure(self, &mut volume, &forest)
                .map_err(|error| error.during(format!("{size} files")))?;
            steps.push(step);
        }
        volume.stop()?;
        Ok(steps)
    }

    fn large(&self, dir: &Path) -> Result<Vec<large::Row>> {
        let volume = Volume::mount(dir, self.programs, self.cpus)?;
        let rows = large::measure(self, &volume);
        self.cpus.own(false)?;
        let rows = rows.map_err(|error| error.during("large files"))?;
        volume.stop()?;
        Ok(rows)
    }
}
