//! Engines side by side under a filesystem's metadata.
//!
//! * [`records`], [`files`], [`work`]: the work, the same for all.
//! * [`subject`], [`engine`]: what it runs on.
//! * [`cell`], [`interleave`]: how its speed is measured.
//! * [`child`], [`aftermath`]: what is measured in processes of their own: bytes written, reopening
//!   after a kill, memory.

mod aftermath;
mod cell;
mod child;
mod engine;
mod files;
mod interleave;
mod options;
mod records;
mod subject;
mod work;

pub(crate) use child::{CHILD, run_child};

use crate::error::Result;
use crate::process;
use crate::scratch::{self, Scratch};
use crate::table::{Table, count, mebibytes};
use files::Files;
use kv::Durability;
use options::{Options, Section};
use records::{DIRECTORY_FILES, FILE_RECORDS};
use std::path::{Path, PathBuf};
use std::time::Instant;
use subject::{Kind, Subject};
use work::Worker;

/// Where one engine's store is and what is in it.
struct Place {
    kind: Kind,
    directory: PathBuf,
    files: Files,
}

/// The same, open in this process.
struct Runner {
    place: Place,
    subject: Box<dyn Subject>,
}

/// Runs what the command line asks for.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let scratch = Scratch::new(options.dir.as_deref())?;
    print_conditions(&options);
    if options.grow {
        for &kind in &options.engines {
            aftermath::grow(kind, &scratch.path().join(kind.name()), &options)?;
        }
        return Ok(());
    }
    let mut runners = load(scratch.path(), &options)?;
    let wanted = |section| options.sections.contains(&section);
    if wanted(Section::Work) {
        interleave::run(&mut runners, &options)?;
    }
    let mut places = Vec::new();
    for Runner { place, subject } in runners {
        subject.close()?;
        places.push(place);
    }
    if wanted(Section::Writes) {
        aftermath::writes(&places, &options)?;
    }
    if wanted(Section::Memory) {
        aftermath::memory(&places, &options)?;
    }
    if wanted(Section::Crash) {
        aftermath::crash(&places, &options)?;
    }
    Ok(())
}

fn print_conditions(options: &Options) {
    let files = options.directories * DIRECTORY_FILES;
    println!(
        "{} files in directories of {DIRECTORY_FILES}, {} records to a file; seed {}",
        count(files as f64),
        FILE_RECORDS,
        options.seed
    );
    for kind in &options.engines {
        println!("\n{}: {}", kind.name(), kind.legend());
    }
}

/// Opens every engine and fills it.
fn load(scratch: &Path, options: &Options) -> Result<Vec<Runner>> {
    let mut runners = Vec::new();
    let mut seconds = Vec::new();
    let mut sizes = Vec::new();
    for &kind in &options.engines {
        eprintln!("bench: loading {} ...", kind.name());
        let directory = scratch.join(kind.name());
        let mut subject = kind.open(&directory)?;
        subject.set_durability(Durability::Synced)?;
        let start = Instant::now();
        let mut worker = Worker::default();
        for number in 0..options.directories {
            worker
                .load(&*subject, number, DIRECTORY_FILES)
                .map_err(|error| error.during(format!("loading {}", kind.name())))?;
        }
        seconds.push(format!("{:.1} s", start.elapsed().as_secs_f64()));
        process::settle()?;
        sizes.push(mebibytes(scratch::size(&directory)?));
        let files = Files::new(options.directories);
        let place = Place { kind, directory, files };
        runners.push(Runner { place, subject });
    }
    let mut table = Table::new("load", Kind::names(&options.engines));
    table.row("a directory per synced commit", seconds);
    table.row("on disk", sizes);
    table.print("Loading");
    Ok(runners)
}
