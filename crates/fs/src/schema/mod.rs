//! Every key and every record, in one place. docs/format.md says the same in prose.

mod backing;
pub(crate) mod codec;
mod family;
mod inode;
mod job;
mod key;
mod map;
mod record;
mod scrub;

pub use backing::BackingRecord;
pub use family::Family;
pub(crate) use inode::hour_of;
pub use inode::{Form, Inode};
pub use job::Job;
pub use key::{BlockPlace, Counter, Keys, PARITY_BLOCK, Parsed, Part, VOLUMES_MAX};
pub(crate) use key::{Side, volume_name, volume_names};
pub use map::{Bits, Data, MapEntry};
pub use record::{
    Entry, FORMAT, SessionRecord, VolumeDamage, VolumeRecord, decode_locks, encode_locks,
};
pub use scrub::{ScrubFinding, ScrubRecord, ScrubState};
