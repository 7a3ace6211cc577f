//! The embedded engine: one process, one directory, the whole contract.
//!
//! A commit is checked, appended to a log and applied to a layer in memory. A full layer is frozen
//! and folded into a table on disk, and tables are merged downwards in the background. The rooms:
//!
//! * [`Local`], the engine (`engine`), and how it is put together from a directory (`open`).
//! * `commit`: check, log, apply. `log`: the log itself, group commit, and reading it back.
//! * `overlay`: the layers in memory. `view`: what a reader sees of layers and tables.
//! * `table`: sorted files with a checksum in every block. `levels`: which tables there are.
//! * `fold`, `work`: from memory to tables, in the background.
//! * `reserve`, `reclaim`: room that is kept for a full disk, and getting it back.
//! * `format`: the first file, by which a store from the future is refused.

mod codec;
mod commit;
mod engine;
mod error;
mod fold;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod latched;
mod levels;
mod log;
mod merge;
mod open;
mod options;
mod overlay;
mod reclaim;
mod recover;
mod reserve;
mod shared;
mod snapshots;
mod table;
mod view;
mod work;

pub use engine::{Local, Stats};
pub use options::Options;
