//! `seamount mount`: looks at both places, then mounts, or has the store's daemon do it.

use super::{Context, take_over};
use crate::args::MountArgs;
use crate::background;
use crate::config::Settings;
use crate::control::client::{Asked, Link};
use crate::control::protocol::{MountRequest, Request};
use crate::daemon::{Daemon, MountReply};
use crate::error::{CliError, Failure, Result};
use crate::mount_words::MountWords;
use crate::opened::{OpenStore, Opening};
use crate::output::{Output, pairs, shown};
use crate::progress::Unit;
use crate::reach::Person;
use crate::store::{StoreUrl, escape};
use crate::target::{Target, mounts};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a daemon that starts or ends is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(30);

/// What `-o` and the flags of `mount` set; also the config file, if `-o` named one.
pub fn words(args: &MountArgs) -> Result<(Settings, Option<PathBuf>, Vec<String>)> {
    let words = MountWords::read(args.options.iter().map(String::as_str), args.sloppy)
        .map_err(CliError::usage)?;
    let mut settings = words.settings;
    settings.overlay(args.settings()?);
    Ok((settings, words.config, words.skipped))
}

/// Mounts. `child` is for the process that goes to the background; `argv` are the words for it.
pub fn run(args: &MountArgs, context: &Context, child: bool, argv: &[OsString]) -> Result<()> {
    if args.background && !child {
        let reply = background::start(argv)?;
        return print(&reply, args, context, true);
    }
    let plan = Plan::make(args, context)?;
    if child {
        background::detach()?;
    }
    let done = plan.carry_out(args, context, child);
    if done.is_err() && plan.made_place {
        // Only what is empty and no mountpoint goes.
        let _ = std::fs::remove_dir(&plan.mountpoint);
    }
    done
}

/// What is to be mounted where.
struct Plan {
    target: Target,
    mountpoint: PathBuf,
    /// The mountpoint was made just now.
    made_place: bool,
    request: MountRequest,
}

impl Plan {
    fn make(args: &MountArgs, context: &Context) -> Result<Self> {
        let (store, place) = match args.places.as_slice() {
            [place] => (None, place),
            [store, place] => (Some(store.as_os_str()), place),
            _ => return Err(CliError::usage("mount takes a store, if any, and a directory")),
        };
        let settings = &context.settings;
        let target = Target::of_store(store, args.volume.as_deref(), settings)?;
        if !fuse::has_device() {
            let words = "there is no /dev/fuse on this machine";
            return Err(CliError::new(Failure::Unavailable, words).hint(
                "load the kernel's module (modprobe fuse), or give the container the device",
            ));
        }
        let (mountpoint, made_place) = mountpoint(Path::new(place), context.output)?;
        check(&mountpoint, &target, settings.nonempty.unwrap_or(false))?;
        let millis = |time: Option<Duration>| {
            time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        };
        let request = MountRequest {
            volume: target.volume().to_owned(),
            mountpoint: escape(mountpoint.as_os_str().as_bytes()),
            atime: match settings.atime.unwrap_or(fs::Atime::Relative) {
                fs::Atime::Strict => "strict",
                fs::Atime::Relative => "relative",
                fs::Atime::Off => "off",
            }
            .to_owned(),
            read_only: args.recover || settings.read_only.unwrap_or(false),
            allow_other: settings.allow_other,
            suid: settings.suid,
            dev: settings.dev,
            exec: settings.exec,
            threads: settings.threads.unwrap_or(0),
            local: settings.local.unwrap_or(true),
            passthrough: settings.passthrough.unwrap_or(true),
            transport: settings.transport.flatten().map(|transport| transport.to_string()),
            // Who takes over opens the store as it should be.
            supervised: !args.recover && settings.supervise.unwrap_or(args.background),
            attr_ttl_ms: millis(settings.attr_ttl),
            entry_ttl_ms: millis(settings.entry_ttl),
            negative_ttl_ms: millis(settings.negative_ttl),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        Ok(Self { target, mountpoint, made_place, request })
    }

    fn carry_out(&self, args: &MountArgs, context: &Context, child: bool) -> Result<()> {
        let store = &self.target.store;
        if args.recover {
            let opened = self.recover(context, child)?;
            return self.serve(opened, args, context, child);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(reply) = self.join(store)? {
                if child {
                    return background::say_ready(&reply);
                }
                return print(&reply, args, context, true);
            }
            match OpenStore::open(store, context.settings.memory, true)? {
                Opening::Opened(opened) => return self.serve(opened, args, context, child),
                Opening::InUse(error) if Instant::now() > deadline => {
                    return Err(error.hint("end that process, or wait until it is done"));
                }
                Opening::InUse(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Serves the mount until it ends.
    fn serve(
        &self,
        opened: Arc<OpenStore>,
        args: &MountArgs,
        context: &Context,
        child: bool,
    ) -> Result<()> {
        let log = opened.dir().try_clone();
        let log = log.map_err(|error| CliError::io("cannot open the store", &error))?;
        let served = take_over::served(&self.target.store, &context.settings);
        Daemon::run(opened, &served, &self.request, |reply| {
            if !child {
                return print(reply, args, context, false);
            }
            let log_file = context.settings.log_file.as_deref();
            let leaving = background::prepare_to_leave(&log, log_file)?;
            background::say_ready(reply)?;
            leaving.leave()
        })
    }

    /// Opens what is left of the store, and says what is not.
    fn recover(&self, context: &Context, child: bool) -> Result<Arc<OpenStore>> {
        let (opened, notes) = OpenStore::recover(&self.target.store, context.settings.memory)?;
        for note in &notes {
            tracing::warn!(store = %self.target.store, "{note}");
            if !child {
                context.output.note(note);
            }
        }
        Ok(opened)
    }

    /// Has a daemon that serves the store already mount this volume too.
    fn join(&self, store: &StoreUrl) -> Result<Option<MountReply>> {
        let Some(link) = Link::connect(store)? else { return Ok(None) };
        let person = Person::new("mounting", Unit::Things, true).without_signals();
        match link.ask(&Request::Mount(self.request.clone()), &person)? {
            Asked::Gone => Ok(None),
            Asked::Answer(value) => {
                let reply = serde_json::from_value(value).map_err(|error| {
                    let words = format!("the daemon's answer is not understood: {error}");
                    CliError::new(Failure::Unsupported, words).hint(format!(
                        "it is of another version: unmount {} first",
                        self.mountpoint.display()
                    ))
                })?;
                Ok(Some(reply))
            }
        }
    }
}

/// The directory to mount on, without links. Clears a dead mount away, and makes the directory when
/// only that is missing; says whether it did.
fn mountpoint(place: &Path, output: Output) -> Result<(PathBuf, bool)> {
    let failed =
        |error: &io::Error| CliError::io(format!("cannot mount on {}", place.display()), error);
    if place.as_os_str().is_empty() {
        return Err(CliError::usage("the mountpoint has no name"));
    }
    if fuse::is_stale(place) {
        fuse::unmount(place, true).map_err(|error| {
            CliError::from(error).about(format!("{} has a dead mount", place.display()))
        })?;
        output.note(&format!("{} had a dead mount, which is cleared away", place.display()));
    }
    let mut made = false;
    match std::fs::metadata(place) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => {
            let words = format!("cannot mount on {}: it is not a directory", place.display());
            return Err(CliError::usage(words).hint("give a directory, or a name for a new one"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let whole = std::path::absolute(place).map_err(|error| failed(&error))?;
            if !whole.parent().is_some_and(Path::is_dir) {
                return Err(
                    failed(&error).hint("its parent is not there either: make it with mkdir -p")
                );
            }
            std::fs::create_dir(&whole).map_err(|error| failed(&error))?;
            made = true;
            output.note(&format!("made the directory {}", place.display()));
        }
        Err(error) => return Err(failed(&error)),
    }
    let real = place.canonicalize().map_err(|error| failed(&error))?;
    Ok((real, made))
}

/// Whether a mount there hides nothing and harms nothing.
fn check(mountpoint: &Path, target: &Target, nonempty: bool) -> Result<()> {
    let place = mountpoint.display();
    if target.store.dir().starts_with(mountpoint) {
        let words = format!("the store {} is inside {place}", target.store.dir().display());
        return Err(
            CliError::usage(words).hint("mount somewhere else: the mount would hide its own store")
        );
    }
    if let Some(entry) = mounts()?.iter().rev().find(|entry| entry.mountpoint == mountpoint) {
        let words = format!("{place} is a mountpoint already, of {}", entry.source);
        return Err(
            CliError::in_use(words).hint(format!("unmount it first: seamount umount {place}"))
        );
    }
    if nonempty {
        return Ok(());
    }
    let mut entries = std::fs::read_dir(mountpoint)
        .map_err(|error| CliError::io(format!("cannot look into {place}"), &error))?;
    match entries.next() {
        None => Ok(()),
        Some(Ok(entry)) => {
            let name = shown(entry.file_name().as_bytes());
            Err(CliError::in_use(format!("{place} is not empty: it has \"{name}\""))
                .hint("mount on an empty directory, or hide what is there with -o nonempty"))
        }
        Some(Err(error)) => Err(CliError::io(format!("cannot look into {place}"), &error)),
    }
}

/// Says in three lines where things are and how to stop.
fn print(reply: &MountReply, args: &MountArgs, context: &Context, returns: bool) -> Result<()> {
    if args.quiet && !context.output.json {
        return Ok(());
    }
    context.output.print(reply, |reply| {
        let volume = match (reply.volume_is_new, reply.joined) {
            (true, true) => format!(
                "volume \"{}\", made just now, by the daemon that serves its store",
                reply.volume
            ),
            (true, false) => format!("volume \"{}\", made just now", reply.volume),
            (false, true) => {
                format!("volume \"{}\", by the daemon that serves its store", reply.volume)
            }
            (false, false) => format!("volume \"{}\"", reply.volume),
        };
        let made = if reply.store_is_new { ", made just now" } else { "" };
        let stop = format!("{} umount {}", context.program, quoted(&reply.mountpoint));
        let stop = if returns { stop } else { format!("Ctrl-C, or {stop}") };
        pairs(&[
            ("mounted", format!("{} ({volume})", shown(reply.mountpoint.as_bytes()))),
            ("store", format!("{}{made}", shown(reply.store_path.as_bytes()))),
            ("to stop", stop),
        ])
    })
}

/// A word that a shell reads back as it is.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:=~%,#".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dir: &Path) -> Target {
        Target { store: StoreUrl::local(dir).unwrap(), named: None }
    }

    #[test]
    fn a_mount_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let place = dir.join("m");
        std::fs::create_dir(&place).unwrap();
        check(&place, &target(&dir.join("s")), false).unwrap();
        std::fs::write(place.join("file"), "x").unwrap();
        let error = check(&place, &target(&dir.join("s")), false).unwrap_err();
        assert_eq!(error.kind, Failure::InUse);
        assert!(error.to_string().contains("nonempty"), "{error}");
        check(&place, &target(&dir.join("s")), true).unwrap();
        let error = check(&place, &target(&place.join("s")), true).unwrap_err();
        assert_eq!(error.kind, Failure::Usage, "its own store");
    }

    #[test]
    fn a_missing_mountpoint_is_made_when_its_parent_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let output = Output { json: true };
        let made = mountpoint(&dir.path().join("new"), output).unwrap();
        assert!(made.0.is_dir() && made.1);
        assert!(!mountpoint(&made.0, output).unwrap().1);
        let error = mountpoint(&dir.path().join("a/b"), output).unwrap_err();
        assert_eq!(error.kind, Failure::NotFound);
        std::fs::write(dir.path().join("file"), "x").unwrap();
        assert_eq!(mountpoint(&dir.path().join("file"), output).unwrap_err().kind, Failure::Usage);
    }

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted("/a/b"), "/a/b");
        assert_eq!(quoted("/a b"), "'/a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
