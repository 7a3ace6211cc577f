//! The filesystem's core alone, beside raw transactions of the same keys on the same engine.
//!
//! * [`work`], [`action`], [`plan`]: what is done, the same for both sides.
//! * [`core_side`], [`raw`]: the two sides.
//! * [`interleave`]: how their speed is measured. [`footprint`]: that they do the same.
//! * [`memory`]: what open files and sessions take.

mod action;
mod core_side;
mod footprint;
mod interleave;
mod memory;
mod options;
mod plan;
mod raw;
mod side;
mod work;

use crate::error::Result;
use crate::process;
use crate::scratch::Scratch;
use crate::table::count;
use action::DIRECTORY_FILES;
use core_side::Core;
use options::{Options, Section};
use plan::Plan;
use raw::Raw;
use side::{Extent, Side};
use std::path::Path;
use std::sync::Arc;

/// Runs what the command line asks for.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let scratch = Scratch::new(options.dir.as_deref())?;
    println!(
        "{} files in directories of {DIRECTORY_FILES}, names of {} bytes; {} thread(s); kv-local with \
         its default of 256 MiB,\ncommits that survive the process; codec {:?} on bytes that do not \
         compress",
        count(options.files as f64),
        action::NAME_BYTES,
        options.threads,
        options.codec,
    );
    footprint::run(&scratch.path().join("footprint"), &options)?;
    let mut plan = Plan::new(options.files);
    let extent = Extent { files: options.files, directories: plan.directories_max(&options) };
    let core = Core::open(open(&scratch.path().join("core"))?, extent, &options)?;
    let raw = Raw::open(open(&scratch.path().join("raw"))?, extent)?;
    let sides: [&dyn Side; 2] = [&core, &raw];
    eprintln!("bench: loading ...");
    for action in plan.load() {
        for side in sides {
            side.run(work::Who::Root, &action)?;
        }
    }
    if options.works.iter().any(|work| work.is_data()) {
        for side in sides {
            side.prepare_data()?;
        }
    }
    process::settle()?;
    if options.sections.contains(&Section::Work) {
        interleave::run(sides, &mut plan, &options)?;
    }
    if options.sections.contains(&Section::Memory) {
        memory::run(&core, options.files)?;
    }
    Ok(())
}

/// A store of its own for each side, set alike.
fn open(directory: &Path) -> Result<Arc<dyn kv::Engine>> {
    Ok(Arc::new(kv_local::Local::open_dir(directory, kv_local::Options::default())?))
}
