//! The kinds of work, and what is hoped of each.

use crate::error::{Error, Result};
use std::str::FromStr;

/// Bytes of an inline file, and of a small write or read.
pub(crate) const SMALL_BYTES: usize = 4 << 10;
const MEDIUM_BYTES: usize = 64 << 10;
const LARGE_BYTES: usize = 1 << 20;

/// On whose behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The superuser, after somebody else has checked permissions.
    Root,
    /// A user whose permissions the core checks.
    User,
}

/// The kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Mknod,
    Create,
    Mkdir,
    Lookup,
    Missing,
    Getattr,
    Rename,
    Unlink,
    List,
    WriteInline,
    ReadInline,
    WriteRandom,
    ReadRandom,
    WriteMedium,
    ReadMedium,
    WriteLarge,
    ReadLarge,
}

/// What one operation counts as.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unit {
    Operations,
    Entries(u64),
    Mebibytes(f64),
}

impl Unit {
    pub(crate) fn each(self) -> f64 {
        match self {
            Unit::Operations => 1.0,
            Unit::Entries(entries) => entries as f64,
            Unit::Mebibytes(mebibytes) => mebibytes,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Operations => "ops/s",
            Unit::Entries(_) => "entries/s",
            Unit::Mebibytes(_) => "MiB/s",
        }
    }
}

/// What a work should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    None,
    /// A part of what raw transactions do.
    OfRaw(f64),
    /// A rate of the core.
    Rate(f64),
}

impl Work {
    pub(crate) const ALL: [Work; 17] = [
        Work::Mknod,
        Work::Create,
        Work::Mkdir,
        Work::Lookup,
        Work::Missing,
        Work::Getattr,
        Work::Rename,
        Work::Unlink,
        Work::List,
        Work::WriteInline,
        Work::ReadInline,
        Work::WriteRandom,
        Work::ReadRandom,
        Work::WriteMedium,
        Work::ReadMedium,
        Work::WriteLarge,
        Work::ReadLarge,
    ];

    /// The word for it on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Work::Mknod => "mknod",
            Work::Create => "create",
            Work::Mkdir => "mkdir",
            Work::Lookup => "lookup",
            Work::Missing => "missing",
            Work::Getattr => "getattr",
            Work::Rename => "rename",
            Work::Unlink => "unlink",
            Work::List => "readdirplus",
            Work::WriteInline => "write-inline",
            Work::ReadInline => "read-inline",
            Work::WriteRandom => "write-4k",
            Work::ReadRandom => "read-4k",
            Work::WriteMedium => "write-64k",
            Work::ReadMedium => "read-64k",
            Work::WriteLarge => "write-1m",
            Work::ReadLarge => "read-1m",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Create => "create and release",
            Work::Missing => "lookup of a missing name",
            Work::Rename => "rename in its directory",
            Work::List => "readdirplus of 1,000",
            Work::WriteInline => "write 4 KiB, inline",
            Work::ReadInline => "read 4 KiB, inline",
            Work::WriteRandom => "write 4 KiB at random, mapped",
            Work::ReadRandom => "read 4 KiB at random, mapped",
            Work::WriteMedium => "write 64 KiB in sequence",
            Work::ReadMedium => "read 64 KiB in sequence",
            Work::WriteLarge => "write 1 MiB in sequence",
            Work::ReadLarge => "read 1 MiB in sequence",
            other => other.word(),
        }
    }

    /// On whose behalf it is measured: where the core checks permissions it is done both ways.
    pub(crate) fn callers(self) -> &'static [Who] {
        match self {
            Work::Mknod
            | Work::Create
            | Work::Mkdir
            | Work::Lookup
            | Work::Missing
            | Work::Rename
            | Work::Unlink => &[Who::Root, Who::User],
            _ => &[Who::Root],
        }
    }

    /// Whether it needs the files with bytes in them.
    pub(crate) fn is_data(self) -> bool {
        self.bytes().is_some()
    }

    /// Bytes of one operation.
    pub(crate) fn bytes(self) -> Option<usize> {
        match self {
            Work::WriteInline | Work::ReadInline | Work::WriteRandom | Work::ReadRandom => {
                Some(SMALL_BYTES)
            }
            Work::WriteMedium | Work::ReadMedium => Some(MEDIUM_BYTES),
            Work::WriteLarge | Work::ReadLarge => Some(LARGE_BYTES),
            _ => None,
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Work::List => Unit::Entries(super::action::DIRECTORY_FILES),
            Work::WriteMedium | Work::ReadMedium => Unit::Mebibytes(1.0 / 16.0),
            Work::WriteLarge | Work::ReadLarge => Unit::Mebibytes(1.0),
            _ => Unit::Operations,
        }
    }

    pub(crate) fn goal(self) -> Goal {
        match self {
            Work::Mknod
            | Work::Create
            | Work::Lookup
            | Work::Getattr
            | Work::Rename
            | Work::Unlink => Goal::OfRaw(0.6),
            Work::List => Goal::Rate(1e6),
            _ => Goal::None,
        }
    }

    /// Operations of a pass when there are so many files: enough that a pass takes some tenths of a
    /// second.
    pub(crate) fn operations(self, files: u64) -> u64 {
        let operations = match self {
            Work::Mknod | Work::Create | Work::Rename | Work::Unlink => files / 4,
            Work::Mkdir | Work::WriteInline => files / 8,
            Work::Lookup | Work::Missing | Work::Getattr | Work::ReadInline => files,
            // Each directory some times.
            Work::List => files / 200,
            Work::ReadRandom => files / 2,
            Work::WriteRandom | Work::WriteMedium => files / 100,
            Work::ReadMedium => files / 10,
            Work::WriteLarge => files / 1000,
            Work::ReadLarge => files / 100,
        };
        operations.max(1)
    }
}

impl FromStr for Work {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        let known = Work::ALL.into_iter().find(|work| work.word() == word);
        known.ok_or_else(|| {
            let words = Work::ALL.map(Work::word).join(", ");
            Error::new(format!("there is no work \"{word}\", but: {words}"))
        })
    }
}
