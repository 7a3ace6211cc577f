//! What went wrong, to what, and what to do; and the one table of exit codes.

use std::fmt;
use std::io;

/// The result of a command.
pub type Result<T, E = CliError> = std::result::Result<T, E>;

/// Why a command failed. Each has one exit code: see [`Failure::TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// None of those below.
    Failed,
    /// The words on the command line, or a setting, make no sense.
    Usage,
    /// There is no such store, volume, mount or file.
    NotFound,
    /// Something else uses it, or it is there already.
    InUse,
    /// Stored bytes are not what was written.
    Damaged,
    /// The caller may not do that.
    NoPermission,
    /// Not done by this program, or made by a newer one.
    Unsupported,
    /// Something that the machine must have is not there.
    Unavailable,
    /// Nothing failed: something was damaged, and all of it was repaired.
    Repaired,
}

impl Failure {
    /// Every failure: its exit code, its name in JSON, and what it means.
    pub const TABLE: [(Failure, u8, &'static str, &'static str); 9] = [
        (Self::Failed, 1, "failed", "the command failed"),
        (Self::Usage, 2, "usage", "the command line or a setting makes no sense"),
        (Self::NotFound, 3, "not_found", "there is no such store, volume, mount or file"),
        (Self::InUse, 4, "in_use", "it is in use, busy, not empty, or there already"),
        (Self::Damaged, 5, "damaged", "stored data is damaged, or fsck found something"),
        (Self::NoPermission, 6, "no_permission", "the caller may not do that"),
        (Self::Unsupported, 7, "unsupported", "not supported, or made by a newer program"),
        (Self::Unavailable, 8, "unavailable", "the machine lacks something: FUSE, a disk, room"),
        (Self::Repaired, 9, "repaired", "fsck found something, and repaired all of it"),
    ];

    /// The exit code.
    pub fn code(self) -> u8 {
        Self::TABLE.iter().find(|row| row.0 == self).map_or(1, |row| row.1)
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|row| row.0 == self).map_or("failed", |row| row.2)
    }
}

/// The exit codes, for `--help` and the manual.
pub fn exit_codes() -> String {
    let mut text = String::from("Exit codes:\n   0  done\n");
    for (_, code, _, meaning) in Failure::TABLE {
        text.push_str(&format!("  {code:>2}  {meaning}\n"));
    }
    text
}

/// An error for people: what happened to what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CliError {
    /// What it is, for programs.
    pub kind: Failure,
    /// What happened, and to what.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl CliError {
    /// An error of a kind.
    pub fn new(kind: Failure, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Failure::Usage, message)
    }

    /// Something is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Failure::NotFound, message)
    }

    /// Something is in use.
    pub fn in_use(message: impl Into<String>) -> Self {
        Self::new(Failure::InUse, message)
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, after words that say to what it happened.
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// From an error of the operating system, met while doing `what`.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        use io::ErrorKind as E;
        let kind = match error.kind() {
            E::NotFound => Failure::NotFound,
            E::PermissionDenied | E::ReadOnlyFilesystem => Failure::NoPermission,
            E::AlreadyExists | E::ResourceBusy | E::DirectoryNotEmpty => Failure::InUse,
            E::StorageFull | E::QuotaExceeded => Failure::Unavailable,
            E::Unsupported => Failure::Unsupported,
            _ => Failure::Failed,
        };
        let made = Self::new(kind, format!("{what}: {}", words_of(&error)));
        match error.kind() {
            E::StorageFull => made.hint("the disk is full: make room on it, then try again"),
            E::QuotaExceeded => made.hint("the disk quota is used up: make room, then try again"),
            _ => made,
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.kind.code()
    }
}

/// The words of an error without the numbers that Rust puts behind those of the system.
fn words_of(error: &impl fmt::Display) -> String {
    let mut text = error.to_string();
    while let Some(start) = text.find(" (os error ") {
        let Some(len) = text[start..].find(')') else { break };
        text.replace_range(start..=start + len, "");
    }
    text
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CliError {}

impl From<fs::Error> for CliError {
    fn from(error: fs::Error) -> Self {
        use fs::Kind as K;
        let kind = match error.kind() {
            K::NotFound | K::NoAttribute => Failure::NotFound,
            K::Exists | K::Busy | K::NotEmpty | K::WouldBlock => Failure::InUse,
            K::Corrupt => Failure::Damaged,
            K::AccessDenied | K::NotPermitted | K::ReadOnly => Failure::NoPermission,
            K::Format | K::Unsupported => Failure::Unsupported,
            K::Invalid | K::NameTooLong => Failure::Usage,
            K::NoSpace => Failure::Unavailable,
            _ => Failure::Failed,
        };
        let made = Self::new(kind, words_of(&error));
        match error.kind() {
            K::Corrupt => {
                made.hint("look closer with `seamount fsck`; restore from a dump if need be")
            }
            K::NoSpace => made.hint("make room on the disk or in the volume, then try again"),
            _ => made,
        }
    }
}

impl From<kv::Error> for CliError {
    fn from(error: kv::Error) -> Self {
        use kv::ErrorKind as K;
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
        let kind = match (error.kind(), cause.map(io::Error::kind)) {
            (_, Some(io::ErrorKind::WouldBlock)) => Failure::InUse,
            (_, Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)) => {
                Failure::NoPermission
            }
            (K::Corrupt, _) => Failure::Damaged,
            (K::Unsupported, _) => Failure::Unsupported,
            (K::Full | K::Unavailable, _) => Failure::Unavailable,
            _ => Failure::Failed,
        };
        let made = Self::new(kind, words_of(&error));
        match error.kind() {
            K::Full => made.hint("the disk is full: make room on it, then try again"),
            K::Corrupt => made.hint(
                "see what is left with `seamount mount --recover`; restore the rest from a dump or a copy",
            ),
            _ => made,
        }
    }
}

impl From<fuse::MountError> for CliError {
    fn from(error: fuse::MountError) -> Self {
        use fuse::MountErrorKind as K;
        let kind = match error.kind() {
            K::NoDevice | K::NoHelper => Failure::Unavailable,
            K::NoPermission => Failure::NoPermission,
            K::NotFound | K::NotMounted => Failure::NotFound,
            K::NotDirectory => Failure::Usage,
            K::Busy | K::Stale => Failure::InUse,
            K::TooOld => Failure::Unsupported,
            K::Other => Failure::Failed,
        };
        Self::new(kind, words_of(&error))
    }
}

/// The one of `known` that is nearest to `word`, if any is near enough to have been meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|name| (strsim::jaro_winkler(word, name), name));
    scored
        .filter(|(score, _)| *score > 0.7)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_code_and_a_name_of_its_own() {
        let codes: std::collections::BTreeSet<u8> =
            Failure::TABLE.iter().map(|row| row.1).collect();
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
        for (failure, code, name, _) in Failure::TABLE {
            assert_eq!(failure.code(), code);
            assert_eq!(serde_json::to_value(failure).unwrap(), name);
        }
        assert!(exit_codes().contains("5  stored data is damaged"));
    }

    #[test]
    fn suggests_what_was_meant_and_nothing_else() {
        let known = ["memory", "threads", "attr_ttl"];
        assert_eq!(nearest("memroy", known), Some("memory"));
        assert_eq!(nearest("attr-ttl", known), Some("attr_ttl"));
        assert_eq!(nearest("zzz", known), None);
    }

    #[test]
    fn errors_of_the_system_lose_their_numbers() {
        let error = io::Error::from_raw_os_error(2);
        let made = CliError::io("cannot open /x", &error);
        assert_eq!(made.message, "cannot open /x: No such file or directory");
        assert_eq!(made.code(), 3);
    }
}
