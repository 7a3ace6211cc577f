//! This program in another role: as `seamount`, so that nothing has to be built beforehand, or as a
//! process that maps files or has them open.

use std::path::Path;
use std::process::Command;

/// The variable that says which role. Children inherit it: the daemon starts its own program again, as its
/// supervisor.
const ROLE: &str = "SIM_ROLE";

/// What this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The program of simulations.
    Sim,
    /// The program `seamount`.
    Seamount,
    /// Maps files for another process.
    Mapper,
    /// Has files open for another process.
    Holder,
}

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Seamount => "seamount",
            Self::Mapper => "mapper",
            Self::Holder => "holder",
        }
    }

    /// This program in that role.
    pub(crate) fn command(self) -> Result<Command, String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot tell where this program is: {error}"))?;
        let mut command = Command::new(program);
        command.env(ROLE, self.word());
        Ok(command)
    }
}

/// The role of this process.
pub fn role() -> Role {
    let word = std::env::var(ROLE).unwrap_or_default();
    let other =
        [Role::Seamount, Role::Mapper, Role::Holder].into_iter().find(|role| role.word() == word);
    other.unwrap_or(Role::Sim)
}

/// The program `seamount`, without settings of whoever runs this; what it keeps of its own goes to `scratch`.
pub fn seamount(scratch: &Path) -> Result<Command, String> {
    let mut command = Role::Seamount.command()?;
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"SEAMOUNT_") {
            command.env_remove(name);
        }
    }
    for place in ["CONFIG", "DATA", "STATE", "CACHE"] {
        command.env(format!("XDG_{place}_HOME"), scratch.join("home"));
    }
    Ok(command)
}

/// Why nothing can be mounted here, if so.
pub fn why_not() -> Option<&'static str> {
    if rustix::fs::access("/dev/fuse", rustix::fs::Access::WRITE_OK).is_err() {
        return Some("/dev/fuse cannot be opened here, so nothing can be mounted");
    }
    (!rustix::process::geteuid().is_root()).then_some("mounting for this needs root")
}
