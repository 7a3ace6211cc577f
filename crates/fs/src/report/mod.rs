//! What is known of files, of sessions and of the volume, for people; and collecting garbage on demand.

mod gc;
mod info;
mod resolve;
mod sessions;
mod stored;
mod walk;

pub use gc::Collected;
pub use info::{DataForm, Extent, Info, LeaseInfo};
pub use sessions::SessionInfo;
pub use walk::{Summary, Walk};
