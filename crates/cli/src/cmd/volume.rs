//! `seamount format` and `seamount destroy`: volumes come and go. What holds data is removed only after
//! its name was typed, or `--yes`.

use super::Context;
use crate::args::{DestroyArgs, FormatArgs};
use crate::control::protocol::{FormatRequest, Request};
use crate::error::{CliError, Failure, Result};
use crate::progress::Unit;
use crate::reach::{Person, perform};
use crate::store::Found;
use crate::target::Target;
use crate::units;
use crate::work::{OptionsReport, StatusReport, VolumeChange};
use std::io::{BufRead, IsTerminal, Write};

/// Makes a volume.
pub fn format(args: &FormatArgs, context: &Context) -> Result<()> {
    let target =
        Target::of_store(args.store.as_deref(), args.volume.as_deref(), &context.settings)?;
    let small = |key: &str, size: Option<u64>| {
        size.map(u32::try_from)
            .transpose()
            .map_err(|_| CliError::usage(format!("--{key} is at most a few MiB")))
    };
    let options = FormatRequest {
        chunk_bytes: small("chunk", args.chunk)?,
        block_bytes: small("block", args.block)?,
        inline_bytes_max: small("inline", args.inline)?,
        codec: args.codec.clone(),
        parity_group: args.parity,
        capacity_bytes: args.capacity,
        inodes_max: args.inodes,
        uid: args.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        gid: args.gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        mode: args.mode,
        replace: args.force,
    };
    // Words that make no sense must not leave a store behind.
    crate::work::format_options(&options)?;
    let is_there = target.store.inspect()? == Found::Store;
    if args.force && is_there && has_volume(&target, context)? && !args.yes {
        confirm(&target, "everything in it is lost, and a new, empty volume takes its name")?;
    }
    let person =
        Person::new("removing the old volume", Unit::Things, context.output.json).ready()?;
    let request = Request::Format { volume: target.volume().to_owned(), options };
    let made: OptionsReport =
        perform(&target.store, context.settings.memory, true, &request, &person)?;
    context.output.print(&made, |made| {
        format!(
            "made volume \"{}\" in {} ({} chunks, {} blocks, {}{})\nmount it with: {} mount {} MOUNTPOINT",
            made.volume,
            target.store.dir().display(),
            units::exact_size(made.chunk.into()),
            units::exact_size(made.block.into()),
            made.codec,
            if made.parity == 0 { String::new() } else { format!(", parity of {}", made.parity) },
            context.program,
            super::mount::quoted(&name_of(&target)),
        )
    })
}

fn name_of(target: &Target) -> String {
    let dir = target.store.dir().to_string_lossy().into_owned();
    match target.volume() {
        crate::store::DEFAULT_VOLUME if !dir.contains('#') => dir,
        volume => target.store.with_volume(volume),
    }
}

/// Removes a volume.
pub fn destroy(args: &DestroyArgs, context: &Context) -> Result<()> {
    let target =
        Target::of_store(args.store.as_deref(), args.volume.as_deref(), &context.settings)?;
    if !args.yes {
        if !has_volume(&target, context)? {
            return Err(no_volume(&target));
        }
        confirm(&target, "everything in it is lost")?;
    }
    let person = Person::new("destroying", Unit::Things, context.output.json).ready()?;
    let request = Request::Destroy { volume: target.volume().to_owned() };
    let gone: VolumeChange =
        perform(&target.store, context.settings.memory, false, &request, &person)?;
    context.output.print(&gone, |gone| {
        format!(
            "destroyed volume \"{}\" of {} ({} keys)",
            gone.volume,
            target.store.dir().display(),
            units::count(gone.keys_removed.unwrap_or(0))
        )
    })
}

fn has_volume(target: &Target, context: &Context) -> Result<bool> {
    let person = Person::new("looking", Unit::Things, context.output.json).ready()?;
    let status: StatusReport =
        perform(&target.store, context.settings.memory, false, &Request::Status, &person)?;
    let found = status.volumes.iter().find(|volume| volume.name == target.volume());
    if let Some(mount) = found.and_then(|volume| volume.mount.as_ref()) {
        let words = format!("volume \"{}\" is mounted at {}", target.volume(), mount.mountpoint);
        return Err(CliError::in_use(words)
            .hint(format!("unmount it first: seamount umount {}", mount.mountpoint)));
    }
    Ok(found.is_some())
}

fn no_volume(target: &Target) -> CliError {
    let place = target.store.dir().display();
    CliError::not_found(format!("there is no volume \"{}\" in {place}", target.volume()))
        .hint(format!("see which volumes there are with `seamount status {place}`"))
}

/// Asks for the volume's name to be typed.
fn confirm(target: &Target, what: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() {
        let words =
            format!("volume \"{}\" of {}: {what}", target.volume(), target.store.dir().display());
        return Err(
            CliError::usage(words).hint("nobody can be asked here: say --yes if you are sure")
        );
    }
    let failed = |error| CliError::io("cannot ask", &error);
    let mut err = std::io::stderr().lock();
    write!(
        err,
        "Volume \"{}\" of {}: {what}.\nType the volume's name to go on: ",
        target.volume(),
        target.store.dir().display()
    )
    .and_then(|()| err.flush())
    .map_err(failed)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(failed)?;
    if line.trim_end_matches(['\n', '\r']) == target.volume() {
        return Ok(());
    }
    Err(CliError::new(Failure::Failed, "that is not its name: nothing was done"))
}
