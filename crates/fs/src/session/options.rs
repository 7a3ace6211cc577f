//! What a session can be told.

use super::Way;
use crate::types::Ino;
use std::time::Duration;

/// Who else uses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// What the engine says.
    Auto,
    /// Nobody: sessions found in the store are those of processes that died.
    Private,
    /// Others may.
    Shared,
}

/// When reading changes the access time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atime {
    /// Always.
    Strict,
    /// When it is not after the last change, or a day old.
    Relative,
    /// Never.
    Off,
}

/// What a session can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    /// Who else uses the store.
    pub sharing: Sharing,
    /// When reading changes the access time.
    pub atime: Atime,
    /// How often the heartbeat is written.
    pub heartbeat: Duration,
    /// How long others may see no progress before the session counts as dead.
    pub dead_after: Duration,
    /// The most files and directories that may be open at once.
    pub handles_max: usize,
    /// Handles are numbered from here on.
    pub handles_from: u64,
    /// The client asks again what was not answered when this process dies: the replies of its requests
    /// are kept in the store. See [`Session::asked`](crate::Session::asked).
    pub survives: bool,
    /// The client was served by a process that died. It may ask again, and it may have any inode open
    /// until it says that it has forgotten it.
    pub takes_over: bool,
    /// Which files the client has open since before this session, one for each of its handles, and how they are served.
    /// It tells of the end of each: see [`Session::release_before`](crate::Session::release_before).
    pub open_before: Vec<(Ino, Way)>,
    /// New bytes go to the local home, where there is one and the volume has neither parity nor a bound of bytes.
    pub local: bool,
    /// The machine's name, for people.
    pub host: String,
    /// The process there, for people.
    pub pid: u32,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            sharing: Sharing::Auto,
            atime: Atime::Relative,
            heartbeat: Duration::from_secs(10),
            dead_after: Duration::from_secs(60),
            handles_max: 1 << 20,
            handles_from: 0,
            survives: false,
            takes_over: false,
            open_before: Vec::new(),
            local: true,
            host: String::new(),
            pid: 0,
        }
    }
}
