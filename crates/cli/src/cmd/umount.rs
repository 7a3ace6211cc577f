//! `seamount umount`: unmounts, and waits until the daemon has let go.

use super::Context;
use super::mount::quoted;
use crate::args::UmountArgs;
use crate::control::client::{Asked, Link};
use crate::control::protocol::Request;
use crate::error::{CliError, Result};
use crate::output::shown;
use crate::progress::Unit;
use crate::reach::Person;
use crate::store::{DEFAULT_VOLUME, StoreName};
use crate::target::{mounts, real};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::thread::JoinHandle;

#[derive(Debug, Serialize)]
struct Unmounted {
    mountpoint: String,
    source: String,
    lazy: bool,
}

/// Unmounts.
pub fn run(args: &UmountArgs, context: &Context) -> Result<()> {
    let place = real(&args.mountpoint)?;
    let mounts = mounts()?;
    let Some(entry) = mounts.iter().rev().find(|entry| entry.mountpoint == place) else {
        let words = format!("nothing of Seamount is mounted at {}", args.mountpoint.display());
        return Err(CliError::not_found(words).hint("see what is with `seamount status`"));
    };
    // Asked before, so that the daemon's end is seen; answered when the volume is free. A dead daemon
    // does not answer, and a lazy unmount does not wait.
    let is_alive = !args.lazy && !fuse::is_stale(&place);
    let name = StoreName::of_source(&entry.source).ok().filter(|_| is_alive);
    let waiting = match name {
        Some(name) => match Link::connect(&name.store) {
            Ok(Some(link)) => Some(wait(link, name.volume)?),
            _ => None,
        },
        None => None,
    };
    fuse::unmount(&place, args.lazy).map_err(|error| {
        let busy = error.kind() == fuse::MountErrorKind::Busy;
        let made = CliError::from(error);
        if busy {
            let place = quoted(&shown(place.as_os_str().as_bytes()));
            made.hint(format!("see who uses it with `fuser -vm {place}`; or use --lazy"))
        } else {
            made
        }
    })?;
    if let Some(waiting) = waiting {
        // The end of the daemon is as good an answer as any.
        match waiting.join() {
            Ok(Err(error)) => {
                return Err(error.about("it is unmounted, but its daemon is still at work"));
            }
            Ok(Ok(Asked::Answer(_) | Asked::Gone)) | Err(_) => {}
        }
    }
    let done = Unmounted {
        mountpoint: place.to_string_lossy().into_owned(),
        source: entry.source.clone(),
        lazy: args.lazy,
    };
    context.output.print(&done, |done| format!("unmounted {}", shown(done.mountpoint.as_bytes())))
}

fn wait(link: Link, volume: Option<String>) -> Result<JoinHandle<Result<Asked>>> {
    let volume = volume.unwrap_or_else(|| DEFAULT_VOLUME.to_owned());
    let person = Person::new("unmounting", Unit::Things, true).ready()?;
    std::thread::Builder::new()
        .name("wait".to_owned())
        .spawn(move || link.ask(&Request::Wait { volume }, &person))
        .map_err(|error| CliError::io("cannot start a thread", &error))
}
