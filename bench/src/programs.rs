//! The programs that are measured: built anew under cargo, else found beside this one.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where they are.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) seamount: PathBuf,
    pub(crate) mem: PathBuf,
    pub(crate) pass: PathBuf,
}

impl Programs {
    /// With the servers to compare with, or the program alone.
    pub(crate) fn find(servers: bool) -> Result<Self> {
        let own = std::env::current_exe()?;
        let beside = own.parent().ok_or_else(|| Error::new("this program has no directory"))?;
        let programs = Self {
            seamount: beside.join("seamount"),
            mem: beside.join("examples/mem"),
            pass: beside.join("examples/pass"),
        };
        // Set by `cargo run`: what is there may be older than the sources.
        if let Some(cargo) = std::env::var_os("CARGO") {
            build(&cargo, beside)?;
        }
        for program in [&programs.seamount, &programs.mem, &programs.pass] {
            let needed = servers || *program == programs.seamount;
            if needed && !program.is_file() {
                return Err(Error::new(format!(
                    "{} is missing: run this with `cargo run --release -p bench`, or build it with \
                     `cargo build --release -p cli -p fuse --bin seamount --example mem --example pass`",
                    program.display()
                )));
            }
        }
        Ok(programs)
    }
}

/// With the same profile as this program, which its directory is named after.
fn build(cargo: &OsString, beside: &Path) -> Result<()> {
    eprintln!("bench: building what is measured ...");
    // In one call: apart they would be compiled twice, with different features of what they share.
    let words = "build --quiet -p cli -p fuse --bin seamount --example mem --example pass";
    let mut command = Command::new(cargo);
    command.args(words.split(' ')).stdin(Stdio::null()).stdout(Stdio::null());
    match beside.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    let ended = command.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    if !ended.success() {
        return Err(Error::new(format!("cargo {words}: {ended}")));
    }
    Ok(())
}
