//! The verbs, a file for each or for a few of a kind.

pub mod bench;
pub mod config;
pub mod files;
pub mod fsck;
pub mod mount;
pub mod mount_helper;
pub mod scrub;
pub mod shell;
pub mod stats;
pub mod status;
pub mod stream;
pub mod take_over;
pub mod umount;
pub mod volume;

use crate::config::Settings;
use crate::output::Output;

/// What every verb is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// What was set.
    pub settings: Settings,
    /// How to answer.
    pub output: Output,
    /// What this program is called by, for hints.
    pub program: String,
}
