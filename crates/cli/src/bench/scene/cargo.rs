//! cargo: a small crate that depends on nothing is built, the compiler's files beside its own.

use super::{Scene, program};
use crate::bench::error::Error;
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const SCENE: Scene = Scene { name: "cargo", works: &[Work::CargoBuild], play };

const MANIFEST: &str = "\
[package]
name = \"tiny\"
version = \"0.1.0\"
edition = \"2021\"

[workspace]
";
/// Each is a file of its own.
const MODULES: u64 = 20;

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let (first, timed) = (stage.dir.join("first"), stage.dir.join("tiny"));
    stage.untimed("building a crate for the first time", |step| {
        // Whoever builds first after caches were dropped would wait for the compiler to be read.
        write(step, &first)?;
        build(step, &first)?;
        write(step, &timed)
    })?;
    stage.timed(Work::CargoBuild, |step| build(step, &timed).map(|()| 1))?;
    stage.untimed("running what was built", |step| {
        let built = target(&timed).join("debug").join("tiny");
        let said = program::run(step, &mut Command::new(&built), "")?;
        let sum = MODULES * (MODULES - 1) / 2;
        if said.trim() == sum.to_string() {
            return Ok(());
        }
        Err(Error::wrong(&built, format!("it should print {sum}, and printed {:?}", said.trim())))
    })
}

/// Writes the crate.
fn write(step: &Step<'_>, crate_dir: &Path) -> Result<(), Error> {
    let source = crate_dir.join("src");
    step.ok(std::fs::create_dir_all(&source))?;
    step.ok(std::fs::write(crate_dir.join("Cargo.toml"), MANIFEST))?;
    let mut main = String::new();
    for module in 0..MODULES {
        main.push_str(&format!("mod part{module};\n"));
        let part = format!("pub fn number() -> u64 {{\n    {module}\n}}\n");
        step.ok(std::fs::write(source.join(format!("part{module}.rs")), part))?;
    }
    let sum: Vec<String> = (0..MODULES).map(|part| format!("part{part}::number()")).collect();
    main.push_str(&format!("fn main() {{\n    println!(\"{{}}\", {});\n}}\n", sum.join(" + ")));
    step.ok(std::fs::write(source.join("main.rs"), main))
}

fn target(crate_dir: &Path) -> PathBuf {
    crate_dir.join("target")
}

/// Builds it.
fn build(step: &Step<'_>, crate_dir: &Path) -> Result<(), Error> {
    let mut cargo = Command::new("cargo");
    // What the user sets for other crates would make two machines differ.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_INCREMENTAL"]
    {
        cargo.env_remove(name);
    }
    cargo
        .args(["build", "--quiet", "--offline"])
        .env("CARGO_TARGET_DIR", target(crate_dir))
        .current_dir(crate_dir);
    program::run(step, &mut cargo, "").map(drop)
}
