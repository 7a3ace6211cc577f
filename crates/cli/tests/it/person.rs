//! Other users: a closure run with another user's credentials, on a thread of its own.

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Who does something: a user, its group, and further groups. Names are not needed: the kernel
/// knows numbers.
#[derive(Clone, Copy)]
pub(crate) struct Person {
    /// The user.
    pub(crate) uid: u32,
    /// The group.
    pub(crate) gid: u32,
    /// Further groups.
    pub(crate) groups: &'static [u32],
}

/// One user.
pub(crate) const ANN: Person = Person { uid: 61_001, gid: 62_001, groups: &[] };
/// Another, who shares no group with the first.
pub(crate) const BOB: Person = Person { uid: 61_002, gid: 62_002, groups: &[] };

impl Person {
    /// The same with further groups.
    pub(crate) const fn in_groups(self, groups: &'static [u32]) -> Self {
        Self { groups, ..self }
    }

    /// Runs a closure as this user. Credentials belong to a thread in Linux, so the others keep
    /// theirs.
    pub(crate) fn does<T: Send>(self, what: impl FnOnce() -> T + Send) -> T {
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let groups: Vec<Gid> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
                let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
                set_thread_groups(&groups).unwrap();
                set_thread_res_gid(gid, gid, gid).unwrap();
                set_thread_res_uid(uid, uid, uid).unwrap();
                what()
            });
            thread.join()
        });
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
