//! The words of the command line.

use crate::cmd::bench::BenchArgs;
use crate::config::Settings;
use crate::error::{CliError, Result};
use crate::units::parse_size;
use clap::{Args, Parser, Subcommand, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// A filesystem that rises from a key-value store.
#[derive(Debug, Parser)]
#[command(
    name = "seamount",
    version,
    about = "A filesystem that rises from a key-value store",
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Begin with `seamount mount ~/sea`: it makes a store for you and mounts it.\n\
                  Settings, their precedence and exit codes: `seamount help mount`, `seamount --help`.",
    after_long_help = after_help()
)]
pub struct Cli {
    /// Options of every verb.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Answer with one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Read settings from this file
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// How much to log: error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// How the log looks: text or json
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Log to this file instead of standard error
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log_file: Option<PathBuf>,
    /// This process is the daemon of a mount in the background.
    #[arg(long, hide = true)]
    pub daemon_child: bool,
}

impl Global {
    /// What they set.
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        for (key, value) in [("log_level", &self.log_level), ("log_format", &self.log_format)] {
            if let Some(value) = value {
                settings.set(key, value).map_err(|why| flag_error(key, &why))?;
            }
        }
        settings.log_file.clone_from(&self.log_file);
        Ok(settings)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Mount a volume
    Mount(Box<MountArgs>),
    /// Unmount a volume, and wait until its store is let go
    #[command(visible_alias = "unmount")]
    Umount(UmountArgs),
    /// Make a volume, and its store if there is none
    Format(FormatArgs),
    /// Show mounts and stores
    Status(StatusArgs),
    /// Show how files are kept: inode, form, chunks, home, leases
    Info(FilesArgs),
    /// Count what is in directories, in parallel
    Summary(FilesArgs),
    /// Show and change a volume's options
    Config(ConfigArgs),
    /// Check a volume, and repair it if asked to
    Fsck(FsckArgs),
    /// Read and verify every byte of a volume, which may be mounted
    Scrub(ScrubArgs),
    /// Collect garbage now instead of in the background
    Gc(TargetArgs),
    /// Write a whole volume to a file or to standard output
    Dump(DumpArgs),
    /// Make a new volume of a dump
    Load(LoadArgs),
    /// Remove a volume with all that is in it
    Destroy(DestroyArgs),
    /// Show counts and latencies of a mount's operations, live
    Stats(StatsArgs),
    /// Measure data and metadata workloads in a directory, beside others
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
    /// Print the manual, or write its pages to a directory
    Man(ManArgs),
    /// Print the versions of the program and of the formats it knows
    Version,
    /// Keeps the mounts of a daemon that dies.
    #[command(hide = true)]
    Supervisor {
        /// Whose, for people.
        store: OsString,
    },
    /// Serves them again.
    #[command(hide = true)]
    TakeOver {
        /// Whose, for people.
        store: OsString,
    },
}

/// `seamount mount`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "seamount mount [OPTIONS] [STORE] MOUNTPOINT",
    after_long_help = crate::config::help()
)]
pub struct MountArgs {
    /// The store, as a URL or a path, with #VOLUME behind it if need be; then the directory. A store that
    /// does not exist is made
    #[arg(value_names = ["STORE", "MOUNTPOINT"], num_args = 1..=2, required = true, value_hint = ValueHint::DirPath)]
    pub places: Vec<OsString>,
    /// Return when the mount is ready; it is served by a daemon
    #[arg(long, short)]
    pub background: bool,
    /// Mount what is left of a damaged store, to copy it away: read-only, and nothing is written to the
    /// store
    #[arg(long)]
    pub recover: bool,
    /// The volume in the store
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Settings, and the options of mount(8)
    #[arg(short, value_name = "KEY=VALUE,...", id = "options")]
    pub options: Vec<String>,
    /// Pass over unknown options.
    #[arg(long, hide = true)]
    pub sloppy: bool,
    /// Say nothing when all is well.
    #[arg(long, hide = true)]
    pub quiet: bool,
    /// Memory that the engine may use
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// When reading changes access times: strict, relative or off
    #[arg(long, value_name = "WHEN")]
    pub atime: Option<String>,
    /// Threads that answer the kernel
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,
    /// By what requests come: auto, device or uring
    #[arg(long, value_name = "HOW")]
    pub transport: Option<String>,
    /// How long the kernel keeps attributes
    #[arg(long, value_name = "TIME")]
    pub attr_ttl: Option<String>,
    /// How long the kernel keeps names
    #[arg(long, value_name = "TIME")]
    pub entry_ttl: Option<String>,
    /// How long the kernel keeps missing names
    #[arg(long, value_name = "TIME")]
    pub negative_ttl: Option<String>,
    /// Mount so that nothing can be changed
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub read_only: Option<String>,
    /// Let other users in, by their permissions
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allow_other: Option<String>,
    /// Honour set-user bits
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub suid: Option<String>,
    /// Honour device files
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub dev: Option<String>,
    /// Let programs run
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub exec: Option<String>,
    /// Keep whole files in the store's directory, where the kernel can read and write them by itself
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub local: Option<String>,
    /// Let the kernel read and write such files by itself, where it can
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub passthrough: Option<String>,
    /// When the daemon dies, have another one take the mount over
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub supervise: Option<String>,
    /// Mount over a directory that is not empty
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub nonempty: Option<String>,
}

impl MountArgs {
    /// What the flags set, without `-o`.
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        for (key, value) in [
            ("memory", &self.memory),
            ("atime", &self.atime),
            ("threads", &self.threads),
            ("transport", &self.transport),
            ("attr_ttl", &self.attr_ttl),
            ("entry_ttl", &self.entry_ttl),
            ("negative_ttl", &self.negative_ttl),
            ("read_only", &self.read_only),
            ("allow_other", &self.allow_other),
            ("suid", &self.suid),
            ("dev", &self.dev),
            ("exec", &self.exec),
            ("local", &self.local),
            ("passthrough", &self.passthrough),
            ("supervise", &self.supervise),
            ("nonempty", &self.nonempty),
        ] {
            if let Some(value) = value {
                settings.set(key, value).map_err(|why| flag_error(key, &why))?;
            }
        }
        Ok(settings)
    }
}

fn flag_error(key: &str, why: &str) -> CliError {
    CliError::usage(format!("--{}: {why}", key.replace('_', "-")))
}

/// `seamount umount`
#[derive(Debug, Clone, Args)]
pub struct UmountArgs {
    /// Where the volume is mounted
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: PathBuf,
    /// Take it out of the tree at once, also when it is in use; programs that use it may finish
    #[arg(long, short)]
    pub lazy: bool,
}

/// `seamount format`
#[derive(Debug, Clone, Args)]
pub struct FormatArgs {
    /// The store, with #VOLUME behind it if need be
    #[arg(value_hint = ValueHint::DirPath)]
    pub store: Option<OsString>,
    /// The volume in the store
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Size of a chunk: 1, 2, 4 or 8 MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub chunk: Option<u64>,
    /// Size of a block: a power of two from 1 KiB to 1 MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub block: Option<u64>,
    /// The largest file that is kept in its inode
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub inline: Option<u64>,
    /// How blocks are compressed: none, lz4 or zstd
    #[arg(long, value_name = "CODEC")]
    pub codec: Option<String>,
    /// Blocks that share a block of parity, at most 64; 0 for no parity
    #[arg(long, value_name = "N")]
    pub parity: Option<u8>,
    /// Bytes that data may take; 0 for no bound
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub capacity: Option<u64>,
    /// Inodes that there may be; 0 for no bound
    #[arg(long, value_name = "N")]
    pub inodes: Option<u64>,
    /// The owner of the root directory, as a number
    #[arg(long, value_name = "UID")]
    pub uid: Option<u32>,
    /// Its group, as a number
    #[arg(long, value_name = "GID")]
    pub gid: Option<u32>,
    /// Its permission bits, in octal
    #[arg(long, value_name = "MODE", default_value = "0755", value_parser = parse_mode)]
    pub mode: u32,
    /// Remove a volume of the same name first. Asks for its name to be typed, unless --yes
    #[arg(long)]
    pub force: bool,
    /// With --force: do not ask
    #[arg(long, requires = "force")]
    pub yes: bool,
}

fn parse_mode(word: &str) -> Result<u32, String> {
    let bits = u32::from_str_radix(word, 8).ok().filter(|bits| *bits <= 0o7777);
    bits.ok_or_else(|| format!("\"{word}\" is no mode: write octal digits, as in 0755"))
}

/// `seamount status`
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// A store or a mountpoint; everything that is mounted when absent, or else the default store
    pub target: Option<OsString>,
}

/// `seamount info`, `seamount summary`
#[derive(Debug, Clone, Args)]
pub struct FilesArgs {
    /// Paths in a mounted volume; with --store, paths in the store's volume
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Look into this store, mounted or not
    #[arg(long, value_name = "STORE")]
    pub store: Option<OsString>,
    /// The volume in the store
    #[arg(long, value_name = "NAME", requires = "store")]
    pub volume: Option<String>,
}

/// A store or a mount.
#[derive(Debug, Clone, Args)]
pub struct TargetArgs {
    /// A mountpoint, or a store with #VOLUME behind it if need be; the default store when absent
    #[arg(value_hint = ValueHint::DirPath)]
    pub target: Option<OsString>,
    /// The volume in the store
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
}

/// `seamount fsck`
#[derive(Debug, Clone, Args)]
pub struct FsckArgs {
    /// What to check.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Mend what is found; what has lost its name goes to lost+found. The volume must not be mounted
    #[arg(long)]
    pub repair: bool,
    /// Only say what --repair would do first
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Repair without asking
    #[arg(long, requires = "repair")]
    pub yes: bool,
    /// How many threads check; as many as the machine has when absent
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
}

/// `seamount scrub`
#[derive(Debug, Clone, Args)]
pub struct ScrubArgs {
    /// What to scrub.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Read no more than this, like 50MiB/s
    #[arg(long, value_name = "SIZE/s", value_parser = parse_rate)]
    pub rate: Option<u64>,
    /// Leave it to the daemon of the mount, and return at once
    #[arg(long)]
    pub background: bool,
    /// Begin anew instead of where the last one was stopped
    #[arg(long)]
    pub restart: bool,
    /// Show how far it is, or what the last one found
    #[arg(long, conflicts_with_all = ["stop", "rate", "background", "restart"])]
    pub status: bool,
    /// Stop it; the next one goes on from there
    #[arg(long, conflicts_with_all = ["rate", "background", "restart"])]
    pub stop: bool,
}

fn parse_rate(word: &str) -> Result<u64, String> {
    match parse_size(word.strip_suffix("/s").unwrap_or(word))? {
        0 => Err("at a rate of 0 nothing is ever read".to_owned()),
        rate => Ok(rate),
    }
}

/// `seamount config`
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// What to do with options.
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// What to do with a volume's options.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigVerb {
    /// Print one option
    Get {
        /// The option
        key: String,
        /// The volume
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Change options
    Set {
        /// Options: capacity=SIZE, inodes=N, codec=NAME
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
        /// A mountpoint or a store; the default store when absent
        #[arg(long = "of", value_name = "TARGET")]
        of: Option<OsString>,
        /// The volume in the store
        #[arg(long, value_name = "NAME")]
        volume: Option<String>,
    },
    /// Print all options
    List {
        /// The volume
        #[command(flatten)]
        target: TargetArgs,
    },
}

/// `seamount dump`
#[derive(Debug, Clone, Args)]
pub struct DumpArgs {
    /// The volume
    #[command(flatten)]
    pub target: TargetArgs,
    /// Write to this new file; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub to: PathBuf,
}

/// `seamount load`
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// The store, with #VOLUME behind it if need be; the volume must be new, the store may be
    #[arg(value_hint = ValueHint::DirPath)]
    pub store: Option<OsString>,
    /// The volume in the store
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Read from this file; - is standard input
    #[arg(long, value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub from: PathBuf,
}

/// `seamount destroy`
#[derive(Debug, Clone, Args)]
pub struct DestroyArgs {
    /// The store, with #VOLUME behind it if need be
    pub store: Option<OsString>,
    /// The volume in the store
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `seamount stats`
#[derive(Debug, Clone, Args)]
pub struct StatsArgs {
    /// A mountpoint or a store; everything that is mounted when absent
    pub target: Option<OsString>,
    /// Print once and end
    #[arg(long)]
    pub once: bool,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = crate::units::parse_time)]
    pub interval: std::time::Duration,
}

/// `seamount completion`
#[derive(Debug, Clone, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `seamount man`
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// Write a page for each verb into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub to: Option<PathBuf>,
}

fn after_help() -> String {
    format!(
        "Stores are named by a URL, local:///path, or by a plain path; a volume in a store by \
         STORE#VOLUME or --volume. Without a name it is the store ~/.local/share/seamount/default and \
         the volume \"default\". Verbs work while a volume is mounted too, through its daemon.\n\n{}\n{}",
        crate::config::help(),
        crate::error::exit_codes()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_words_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn mount_takes_one_or_two_places() {
        let parse = |words: &[&str]| Cli::try_parse_from(words).map(|cli| cli.verb);
        assert!(matches!(
            parse(&["seamount", "mount", "/m"]).unwrap(),
            Verb::Mount(args) if args.places.len() == 1
        ));
        assert!(matches!(
            parse(&["seamount", "mount", "-o", "ro,memory=1G", "/s", "/m", "-o", "noatime"]).unwrap(),
            Verb::Mount(args) if args.places.len() == 2 && args.options.len() == 2
        ));
        assert!(parse(&["seamount", "mount"]).is_err());
        assert!(parse(&["seamount", "mount", "a", "b", "c"]).is_err());
    }

    #[test]
    fn help_names_the_precedence_and_the_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        for word in ["SEAMOUNT_MEMORY", "Exit codes", "negative_ttl", "config.toml"] {
            assert!(help.contains(word), "{word}");
        }
    }
}
