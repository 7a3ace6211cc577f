//! The workloads by name: what each counts, and what it needs.

use super::error::Error;

/// What a workload counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Op,
    Entry,
    File,
    Run,
    Commit,
    /// Counted in bytes, shown in MiB.
    Mib,
}

impl Unit {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Op => "op/s",
            Self::Entry => "entry/s",
            Self::File => "file/s",
            Self::Run => "run/s",
            Self::Commit => "commit/s",
            Self::Mib => "MiB/s",
        }
    }

    pub(crate) fn rate(self, amount: u64, seconds: f64) -> f64 {
        // The clock may stand still over one very short call.
        let rate = amount as f64 / seconds.max(1e-9);
        if self == Self::Mib { rate / f64::from(1 << 20) } else { rate }
    }
}

/// What a workload cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// Drops the kernel's caches, which only root may.
    Cold,
    Git,
    Sqlite,
    Tar,
    Cargo,
}

/// How many threads do it, which is also the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crew {
    One,
    Given,
    Sixteen,
}

macro_rules! works {
    ($($variant:ident $stem:literal $unit:ident $crew:ident $need:ident;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Work { $($variant,)* }

        impl Work {
            /// All of them, in the order in which they are shown.
            pub(crate) const ALL: &[Work] = &[$(Work::$variant,)*];

            fn facts(self) -> (&'static str, Unit, Crew, Need) {
                match self { $(Self::$variant => ($stem, Unit::$unit, Crew::$crew, Need::$need),)* }
            }
        }
    };
}

works! {
    SeqWriteNew "seq-write-new" Mib One Nothing;
    SeqWriteOver "seq-write-over" Mib One Nothing;
    SeqReadCold "seq-read-cold" Mib One Cold;
    SeqReadWarm "seq-read-warm" Mib One Nothing;
    RandReadCold "rand-read-4k-cold" Op One Cold;
    RandRead "rand-read-4k" Op One Nothing;
    RandReadMany "rand-read-4k" Op Given Nothing;
    RandWrite "rand-write-4k" Op One Nothing;
    RandWriteSync "rand-write-4k-fsync" Op One Nothing;
    Append "append-1k" Op One Nothing;
    CreateEmpty "create-empty" Op One Nothing;
    StatCold "stat-cold" Op One Cold;
    StatWarm "stat-warm" Op One Nothing;
    LookupMissing "lookup-missing" Op One Nothing;
    OpenClose "open-close" Op One Nothing;
    Rename "rename" Op One Nothing;
    Unlink "unlink" Op One Nothing;
    CreateEmptyMany "create-empty" Op Given Nothing;
    RenameMany "rename" Op Given Nothing;
    UnlinkMany "unlink" Op Given Nothing;
    ReaddirCold "readdir-cold" Entry One Cold;
    ReaddirPlain "readdir-plain" Entry One Nothing;
    ReaddirStatCold "readdir-stat-cold" Entry One Cold;
    Symlink "symlink" Op One Nothing;
    SymlinkMany "symlink" Op Given Nothing;
    Readlink "readlink" Op One Nothing;
    Mkdir "mkdir" Op One Nothing;
    MkdirMany "mkdir" Op Given Nothing;
    Rmdir "rmdir" Op One Nothing;
    CreateSmall "create-4k" Op One Nothing;
    ReadSmallCold "read-4k-cold" Op One Cold;
    ReadSmallWarm "read-4k-warm" Op One Nothing;
    CreateSmallMany "create-4k" Op Given Nothing;
    CreateMedium "create-64k" Op One Nothing;
    ReadMediumCold "read-64k-cold" Op One Cold;
    ReadMediumWarm "read-64k-warm" Op One Nothing;
    CreateSmallSync "create-4k-fsync" Op One Nothing;
    CreateSmallSyncMany "create-4k-fsync" Op Sixteen Nothing;
    TreeWrite "tree-write" File One Nothing;
    TreeReadWarm "tree-read-warm" File One Nothing;
    TreeRemove "tree-remove" File One Nothing;
    Untar "untar" File One Tar;
    GitAddCommit "git-add-commit" File One Git;
    GitStatus "git-status" Run One Git;
    SqliteCommit "sqlite-commit" Commit One Sqlite;
    SqliteCommitWal "sqlite-commit-wal" Commit One Sqlite;
    CargoBuild "cargo-build" Run One Cargo;
}

impl Work {
    pub(crate) fn name(self, threads: usize) -> String {
        let (stem, _, crew, _) = self.facts();
        match crew {
            Crew::One => stem.to_owned(),
            Crew::Given => format!("{stem}-x{threads}"),
            Crew::Sixteen => format!("{stem}-x16"),
        }
    }

    pub(crate) fn unit(self) -> Unit {
        self.facts().1
    }

    pub(crate) fn need(self) -> Need {
        self.facts().3
    }
}

/// The names that `--only` takes, when the threaded workloads run on `threads` threads.
pub fn names(threads: usize) -> Vec<String> {
    Work::ALL.iter().map(|work| work.name(threads)).collect()
}

/// The workloads of these names; all of them if there are none.
pub(crate) fn chosen(only: &[String], threads: usize) -> Result<Vec<Work>, Error> {
    if only.is_empty() {
        return Ok(Work::ALL.to_vec());
    }
    let mut works = Vec::new();
    for wanted in only {
        let wanted = wanted.trim();
        let mut found = Work::ALL.iter().filter(|work| work.name(threads) == wanted).peekable();
        if found.peek().is_none() {
            return Err(unknown(wanted, threads));
        }
        works.extend(found.copied());
    }
    works.sort_unstable();
    works.dedup();
    Ok(works)
}

/// A name with more letters wrong than this was not meant.
const NEAR: usize = 3;

fn unknown(wanted: &str, threads: usize) -> Error {
    let names = names(threads);
    let distance = |name: &&String| strsim::levenshtein(name, wanted);
    let near = names.iter().min_by_key(distance).filter(|name| distance(name) <= NEAR);
    let near = near.map_or(".".to_owned(), |name| format!("; did you mean {name}?"));
    Error::Asked(format!(
        "--only: no workload is called {wanted:?}{near} There are: {}",
        names.join(", ")
    ))
}
