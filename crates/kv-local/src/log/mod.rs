//! The write-ahead log: every commit is here before it returns.

pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod spare;
mod sync;
mod writer;

pub(crate) use spare::Spare;
pub(crate) use sync::Syncs;
pub(crate) use writer::{AppendError, Log};

const PREFIX: &str = "log-";

/// The name of log number `number`.
pub(crate) fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}

/// The number of a log by its name; `None` when it is not one.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (name_of(number) == name).then_some(number)
}
