//! A mounted volume beside the limits of its machine: the native filesystem, a server that answers from
//! memory, and one that passes data through to a directory; all on one CPU, and left to the scheduler.
//!
//! * [`options`]: what is asked for. [`sides`]: the directories, and who serves them.
//! * [`mapped`]: the one workload that the program's own benchmark does not have.
//! * [`bars`]: what should be reached. [`print`]: what is printed.

mod bars;
mod mapped;
mod options;
mod print;
mod sides;

use crate::cpu::Cpus;
use crate::error::{Error, Result};
use crate::programs::Programs;
use crate::scratch::Scratch;
use cli::bench::{Report, Settings, Stop, TargetInfo};
use options::Options;
use rustix::process::{Pid, Signal, kill_process};
use sides::Sides;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often the benchmark's process is looked at. Rarely: looking takes time on its CPU.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs what the command line asks for.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::new("bench fs mounts, and drops the kernel's caches: run it as root"));
    }
    let stop = Stop::on_signals()?;
    let programs = Programs::find(true)?;
    let cpus = Cpus::here()?;
    let scratch = Scratch::new(options.dir.as_deref())?;
    if let Some(dir) = &options.svg_dir {
        std::fs::create_dir_all(dir)?;
    }
    let mut pinned_report = None;
    for pinned in [true, false] {
        if !options.runs.contains(&pinned) {
            continue;
        }
        let name = if pinned { "pinned" } else { "free" };
        eprintln!("bench: {name} ...");
        cpus.own(pinned)?;
        let report = measure(&options, &programs, &scratch.path().join(name), &stop)
            .map_err(|error| error.during(name));
        cpus.own(false)?;
        let report = report?;
        let title = match pinned {
            true => format!("All on CPU {}:", cpus.first()),
            false => format!("Wherever the scheduler puts them, on {} CPUs:", cpus.count()),
        };
        print::table(&title, &report, &options);
        if let Some(dir) = &options.svg_dir {
            std::fs::write(dir.join(format!("{name}.svg")), cli::bench::chart(&report))?;
        }
        if pinned {
            pinned_report = Some(report);
        }
    }
    if let Some(report) = pinned_report {
        print::bars(&bars::judge(&report));
    }
    Ok(())
}

/// Bytes that are written once before anything is measured.
const WARM_UP_BYTES: u64 = 2 << 30;

/// A virtual machine gets memory when it first touches it, which whoever writes first would pay for.
fn warm_up(dir: &Path, stop: &Stop) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join("warm-up");
    let mut file = File::create(&path)?;
    let block = vec![1; 1 << 20];
    for _ in 0..WARM_UP_BYTES / block.len() as u64 {
        stop.check()?;
        file.write_all(&block)?;
    }
    Ok(std::fs::remove_file(&path)?)
}

/// One interleaved run over all sides, which are made for it and gone afterwards.
fn measure(options: &Options, programs: &Programs, dir: &Path, stop: &Stop) -> Result<Report> {
    warm_up(dir, stop)?;
    let sides = Sides::start(programs, dir, &options.also)?;
    let mut report = if options.only_mapped() {
        nothing_measured(&sides, options)
    } else {
        by_seamount(options, programs, dir, &sides, stop)?
    };
    if options.wants(mapped::NAME) {
        report.rows.push(mapped::measure(&sides, options, stop)?);
    }
    // The benchmark names a directory by its last part, which is ours only for ours.
    for (target, name) in report.targets.iter_mut().zip(sides.names()) {
        target.label = name.to_owned();
    }
    sides.stop()?;
    Ok(report)
}

/// Runs `seamount bench` over them.
fn by_seamount(
    options: &Options,
    programs: &Programs,
    dir: &Path,
    sides: &Sides,
    stop: &Stop,
) -> Result<Report> {
    let output = dir.join("report.json");
    let mut command = Command::new(&programs.seamount);
    command.arg("--json").arg("bench").args(options.words());
    let mut places = sides.places();
    command.args(places.next());
    for place in places {
        command.arg("--against").arg(place);
    }
    // In a group of its own: it gets one signal, from us, and removes what it made.
    let mut child =
        command.stdin(Stdio::null()).stdout(File::create(&output)?).process_group(0).spawn()?;
    let mut asked = false;
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        if !asked && stop.check().is_err() {
            asked = true;
            if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                kill_process(id, Signal::TERM)?;
            }
        }
        std::thread::sleep(LOOK_EVERY);
    };
    stop.check()?;
    if !ended.success() {
        return Err(Error::new(format!("seamount bench: {ended}")));
    }
    Ok(serde_json::from_slice(&std::fs::read(&output)?)?)
}

/// The frame of a report without rows.
fn nothing_measured(sides: &Sides, options: &Options) -> Report {
    let target = |(name, place): (&str, &Path)| TargetInfo {
        label: name.to_owned(),
        path: place.display().to_string(),
        filesystem: String::new(),
    };
    Report {
        targets: sides.names().zip(sides.places()).map(target).collect(),
        settings: Settings {
            files: 0,
            passes: options.passes(),
            threads: 1,
            stream_bytes: 0,
            cpus: cli::bench::allowed_cpus(),
        },
        rows: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
        seconds: 0.0,
    }
}
