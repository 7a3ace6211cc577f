//! POSIX access control lists: their form in `system.posix_acl_*`, and what they allow.
//!
//! The rules are those of acl(5) and of Linux. An [`Acl`] is valid by construction.

use crate::types::{Caller, XATTR_BYTES_MAX};
use std::collections::BTreeSet;
use std::fmt;

/// The most entries of a list: what fits an extended attribute.
pub const ENTRIES_MAX: usize = (XATTR_BYTES_MAX - HEADER_BYTES) / ENTRY_BYTES;

const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const VERSION: u32 = 2;

/// The tags of entries. Entries come in the order of these numbers.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The id of entries that name nobody, and of nobody who can be named.
const NO_ID: u32 = u32::MAX;

const READ_WRITE_EXECUTE: u32 = 0o7;
const ALL_CLASSES: u32 = 0o777;

/// Why bytes are not an access control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// The length is not that of a header and whole entries.
    Length,
    /// A version that is not 2. Linux calls this not supported, all else not valid.
    Version(u32),
    /// More than [`ENTRIES_MAX`].
    TooMany,
    /// An entry of a kind that does not exist.
    Tag(u16),
    /// Permissions beyond reading, writing and executing.
    Permissions(u16),
    /// An entry is out of order, or is there twice.
    Order(u16),
    /// An entry names the id that is nobody's, or one that an entry has named already.
    Id(u32),
    /// The entry of the owner, of the group or of others is not there.
    Incomplete,
    /// Users or groups are named and there is no mask.
    NoMask,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("the list's length is not that of whole entries"),
            Self::Version(version) => write!(f, "unknown version {version} of a list"),
            Self::TooMany => write!(f, "more than {ENTRIES_MAX} entries"),
            Self::Tag(tag) => write!(f, "unknown tag {tag:#x} of an entry"),
            Self::Permissions(bits) => write!(f, "unknown permissions {bits:#o} of an entry"),
            Self::Order(tag) => write!(f, "the entry with tag {tag:#x} is out of order or twice"),
            Self::Id(id) => write!(f, "the id {id} is named twice, or cannot be named"),
            Self::Incomplete => f.write_str("the owner's, group's or others' entry is missing"),
            Self::NoMask => f.write_str("users or groups are named and there is no mask"),
        }
    }
}

impl std::error::Error for Invalid {}

/// Somebody who is named, and what they get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    id: u32,
    bits: u32,
}

/// An access control list. All permissions are three bits, as in the last digit of a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    owner: u32,
    users: Vec<Named>,
    group: u32,
    groups: Vec<Named>,
    /// There when anybody is named; bounds all but the owner and others.
    mask: Option<u32>,
    other: u32,
}

/// What a new inode gets from its directory's default list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// Its mode; the umask plays no part in it.
    pub mode: u32,
    /// Its access list, unless the mode says it all.
    pub access: Option<Acl>,
    /// Its default list, if it is a directory.
    pub default: Option<Acl>,
}

impl Acl {
    /// The list that says what a mode says.
    pub fn from_mode(mode: u32) -> Self {
        Self {
            owner: class(mode, 6),
            users: Vec::new(),
            group: class(mode, 3),
            groups: Vec::new(),
            mask: None,
            other: class(mode, 0),
        }
    }

    /// The list in the value of an extended attribute. A value without entries is `None`: to set it
    /// is to remove the list.
    pub fn parse(value: &[u8]) -> Result<Option<Self>, Invalid> {
        if value.is_empty() {
            return Ok(None);
        }
        let (version, entries) =
            value.split_first_chunk::<HEADER_BYTES>().ok_or(Invalid::Length)?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(Invalid::Version(version));
        }
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(Invalid::Length);
        }
        if entries.len() > ENTRIES_MAX {
            return Err(Invalid::TooMany);
        }
        if entries.is_empty() { Ok(None) } else { Self::from_entries(entries).map(Some) }
    }

    fn from_entries(entries: &[[u8; ENTRY_BYTES]]) -> Result<Self, Invalid> {
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        let (mut owner, mut group, mut mask, mut other) = (None, None, None, None);
        let mut last = 0;
        for &[t0, t1, p0, p1, i0, i1, i2, i3] in entries {
            let tag = u16::from_le_bytes([t0, t1]);
            let permissions = u16::from_le_bytes([p0, p1]);
            let bits = u32::from(permissions);
            if bits & !READ_WRITE_EXECUTE != 0 {
                return Err(Invalid::Permissions(permissions));
            }
            // The id of entries that name nobody is anything.
            let named = Named { id: u32::from_le_bytes([i0, i1, i2, i3]), bits };
            match tag {
                USER_OBJ => owner = Some(bits),
                USER => users.push(named),
                GROUP_OBJ => group = Some(bits),
                GROUP => groups.push(named),
                MASK => mask = Some(bits),
                OTHER => other = Some(bits),
                _ => return Err(Invalid::Tag(tag)),
            }
            if tag < last || (tag == last && tag != USER && tag != GROUP) {
                return Err(Invalid::Order(tag));
            }
            last = tag;
        }
        check_names(&users)?;
        check_names(&groups)?;
        if mask.is_none() && !(users.is_empty() && groups.is_empty()) {
            return Err(Invalid::NoMask);
        }
        let (Some(owner), Some(group), Some(other)) = (owner, group, other) else {
            return Err(Invalid::Incomplete);
        };
        Ok(Self { owner, users, group, groups, mask, other })
    }

    /// The value of the extended attribute.
    pub fn encode(&self) -> Vec<u8> {
        let entries = 4 + self.users.len() + self.groups.len();
        let mut value = Vec::with_capacity(HEADER_BYTES + entries * ENTRY_BYTES);
        value.extend_from_slice(&VERSION.to_le_bytes());
        let mut put = |tag: u16, id: u32, bits: u32| {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&(bits as u16).to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        };
        put(USER_OBJ, NO_ID, self.owner);
        self.users.iter().for_each(|user| put(USER, user.id, user.bits));
        put(GROUP_OBJ, NO_ID, self.group);
        self.groups.iter().for_each(|group| put(GROUP, group.id, group.bits));
        self.mask.iter().for_each(|mask| put(MASK, NO_ID, *mask));
        put(OTHER, NO_ID, self.other);
        value
    }

    /// Whether a mode says it all, so that as an access list it need not be stored. A default list is
    /// stored even so: having one is what sets the umask aside.
    pub fn is_minimal(&self) -> bool {
        self.mask.is_none()
    }

    /// The mode that an inode of this `mode` has once this is its access list: its group bits are the
    /// mask. Whether the set-group-id bit stays is for the caller to judge, as for chmod.
    pub fn to_mode(&self, mode: u32) -> u32 {
        mode & !ALL_CLASSES | self.owner << 6 | self.group_class() << 3 | self.other
    }

    /// Follows a change of the mode: the reverse of [`Acl::to_mode`].
    pub fn chmod(&mut self, mode: u32) {
        self.owner = class(mode, 6);
        *self.group_class_mut() = class(mode, 3);
        self.other = class(mode, 0);
    }

    /// What an inode that is made with `mode` gets in a directory of which this is the default list:
    /// what both the list and the mode allow. Not for symbolic links, which have no lists.
    pub fn inherit(&self, mode: u32, is_dir: bool) -> Inherited {
        let mut access = self.clone();
        access.owner &= class(mode, 6);
        *access.group_class_mut() &= class(mode, 3);
        access.other &= class(mode, 0);
        Inherited {
            mode: access.to_mode(mode),
            access: (!access.is_minimal()).then_some(access),
            default: is_dir.then(|| self.clone()),
        }
    }

    /// Whether a caller gets all of `want` (three bits) from an inode of this owner and group. The
    /// superuser is nobody special here.
    ///
    /// A kernel that checks for itself does not look at a list when the group bits of the mode are
    /// all zero: to it, a named user is then one of the others ([`mode_allows`]).
    pub fn allows(&self, uid_owner: u32, gid_owner: u32, caller: &Caller, want: u32) -> bool {
        if caller.uid == uid_owner {
            return grants(self.owner, want);
        }
        let mask = self.mask.unwrap_or(READ_WRITE_EXECUTE);
        if let Some(user) = self.users.iter().find(|user| user.id == caller.uid) {
            return grants(user.bits & mask, want);
        }
        // One entry must grant all; two that grant a half each do not. Who is in any of the groups
        // is not one of the others, even if they are better off.
        let named = self.groups.iter().filter(|group| caller.is_in_group(group.id));
        let own = caller.is_in_group(gid_owner).then_some(self.group);
        let mut matching = own.into_iter().chain(named.map(|group| group.bits)).peekable();
        if matching.peek().is_none() {
            return grants(self.other, want);
        }
        matching.any(|bits| grants(bits & mask, want))
    }

    /// What the group bits of the mode stand for.
    fn group_class(&self) -> u32 {
        self.mask.unwrap_or(self.group)
    }

    fn group_class_mut(&mut self) -> &mut u32 {
        self.mask.as_mut().unwrap_or(&mut self.group)
    }
}

/// Whether a caller gets all of `want` (three bits) from an inode that has no list. The superuser
/// is nobody special here.
pub fn mode_allows(mode: u32, uid: u32, gid: u32, caller: &Caller, want: u32) -> bool {
    let bits = if caller.uid == uid {
        class(mode, 6)
    } else if caller.is_in_group(gid) {
        class(mode, 3)
    } else {
        class(mode, 0)
    };
    grants(bits, want)
}

fn class(mode: u32, shift: u32) -> u32 {
    mode >> shift & READ_WRITE_EXECUTE
}

fn grants(bits: u32, want: u32) -> bool {
    want & READ_WRITE_EXECUTE & !bits == 0
}

fn check_names(named: &[Named]) -> Result<(), Invalid> {
    let mut seen = BTreeSet::from([NO_ID]);
    named.iter().try_for_each(|named| match seen.insert(named.id) {
        true => Ok(()),
        false => Err(Invalid::Id(named.id)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};

    type Entry = (u16, u16, u32);

    fn value(entries: &[Entry]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&bits.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }

    fn acl(entries: &[Entry]) -> Acl {
        Acl::parse(&value(entries)).unwrap().unwrap()
    }

    const OWNER: u32 = 100;
    const TEAM: u32 = 200;

    /// u::rwx u:7:rw- u:8:r-x g::r-x g:9:-w- m::rwx o::--x
    const FULL: [Entry; 7] = [
        (USER_OBJ, 7, NO_ID),
        (USER, 6, 7),
        (USER, 5, 8),
        (GROUP_OBJ, 5, NO_ID),
        (GROUP, 2, 9),
        (MASK, 7, NO_ID),
        (OTHER, 1, NO_ID),
    ];

    fn some_entries(random: &SeededRandom) -> Vec<Entry> {
        let bits = || random.below(8) as u16;
        let named = |tag| (0..4).filter(|_| random.one_in(3)).map(move |id| (tag, bits(), id));
        let mut entries = vec![(USER_OBJ, bits(), NO_ID)];
        entries.extend(named(USER));
        entries.push((GROUP_OBJ, bits(), NO_ID));
        entries.extend(named(GROUP));
        if entries.len() > 2 || random.one_in(4) {
            entries.push((MASK, bits(), NO_ID));
        }
        entries.push((OTHER, bits(), NO_ID));
        entries
    }

    fn some_caller(random: &SeededRandom) -> Caller {
        let mut caller = Caller::user(random.below(6) as u32, random.below(6) as u32);
        caller.groups = (0..random.below(3)).map(|_| random.below(6) as u32).collect();
        caller
    }

    #[test]
    fn what_is_not_a_list_is_refused() {
        let refused = |value: &[u8]| Acl::parse(value).unwrap_err();
        let with = |at: usize, entry: Entry| {
            let mut entries = FULL;
            entries[at] = entry;
            refused(&value(&entries))
        };
        let without = |at: usize| {
            let mut entries = FULL.to_vec();
            entries.remove(at);
            refused(&value(&entries))
        };
        let swapped = |a: usize, b: usize| {
            let mut entries = FULL;
            entries.swap(a, b);
            refused(&value(&entries))
        };
        let full = value(&FULL);
        for len in (1..full.len()).filter(|len| len % ENTRY_BYTES != HEADER_BYTES) {
            assert_eq!(refused(&full[..len]), Invalid::Length, "{len}");
        }
        assert_eq!(refused(&[1, 0, 0, 0]), Invalid::Version(1));
        assert_eq!(refused(&value(&vec![(USER, 7, 1); ENTRIES_MAX + 1])), Invalid::TooMany);
        assert_eq!(with(1, (0x40, 6, 7)), Invalid::Tag(0x40));
        assert_eq!(with(1, (0, 6, 7)), Invalid::Tag(0));
        assert_eq!(with(1, (USER | GROUP, 6, 7)), Invalid::Tag(USER | GROUP));
        assert_eq!(with(1, (USER, 8, 7)), Invalid::Permissions(8));
        assert_eq!(with(1, (USER, 6, 8)), Invalid::Id(8));
        assert_eq!(with(4, (GROUP, 6, NO_ID)), Invalid::Id(NO_ID));
        assert_eq!(with(1, (USER_OBJ, 7, NO_ID)), Invalid::Order(USER_OBJ));
        assert_eq!(with(5, (OTHER, 7, NO_ID)), Invalid::Order(OTHER));
        assert_eq!(swapped(2, 3), Invalid::Order(USER));
        assert_eq!(swapped(5, 6), Invalid::Order(MASK));
        assert_eq!(without(5), Invalid::NoMask);
        for at in [0, 3, 6] {
            assert_eq!(without(at), Invalid::Incomplete, "{at}");
        }
    }

    #[test]
    fn a_value_without_entries_is_no_list() {
        assert_eq!(Acl::parse(&[]), Ok(None));
        assert_eq!(Acl::parse(&value(&[])), Ok(None));
    }

    #[test]
    fn ids_that_name_nobody_do_not_matter_and_ids_need_no_order() {
        let mut entries = FULL;
        entries.swap(1, 2);
        let wanted = value(&entries);
        entries[0].2 = 0;
        entries[5].2 = 77;
        assert_eq!(acl(&entries).encode(), wanted);
    }

    #[test]
    fn the_mode_follows_the_list_and_the_list_the_mode() {
        let mut list = acl(&FULL);
        assert_eq!(list.to_mode(0o104_640), 0o104_771);
        list.chmod(0o100_640);
        // The mask has become r--, the group's own entry has stayed.
        assert_eq!((list.owner, list.mask, list.group, list.other), (6, Some(4), 5, 0));
        let mut plain = Acl::from_mode(0o750);
        assert!(plain.is_minimal() && !list.is_minimal());
        plain.chmod(0o604);
        assert_eq!(plain, Acl::from_mode(0o604));
        // A mask makes a list more than a mode, even when it bounds nobody but the group.
        let masked = [(USER_OBJ, 6, 0), (GROUP_OBJ, 6, 0), (MASK, 4, 0), (OTHER, 0, 0)];
        assert!(!acl(&masked).is_minimal());
        assert_eq!(acl(&masked).to_mode(0), 0o640);
    }

    #[test]
    fn a_new_inode_gets_what_both_the_default_list_and_its_mode_allow() {
        let default = acl(&FULL);
        let file = default.inherit(0o100_644, false);
        assert_eq!(file.mode, 0o100_640);
        assert_eq!(file.default, None);
        let mut wanted = default.clone();
        wanted.chmod(0o640);
        assert_eq!(file.access, Some(wanted));

        let directory = default.inherit(0o042_777, true);
        assert_eq!(directory.mode, 0o042_771);
        assert_eq!(directory.access, Some(default.clone()));
        assert_eq!(directory.default, Some(default));

        let plain = Acl::from_mode(0o755);
        let wanted = Inherited { mode: 0o711, access: None, default: Some(plain.clone()) };
        assert_eq!(plain.inherit(0o731, true), wanted);
    }

    #[test]
    fn who_gets_what() {
        let mut list = acl(&FULL);
        let in_groups = |groups: &[u32]| {
            let mut caller = Caller::user(1, 1);
            caller.groups = groups.to_vec();
            caller
        };
        let gets = |list: &Acl, caller: &Caller| {
            (0..8).filter(|want| list.allows(OWNER, TEAM, caller, *want)).collect::<Vec<_>>()
        };
        assert_eq!(gets(&list, &Caller::user(OWNER, 9)).len(), 8);
        // A named user is that before it is of any group.
        assert_eq!(gets(&list, &Caller::user(7, TEAM)), [0, 2, 4, 6]);
        assert_eq!(gets(&list, &Caller::user(1, TEAM)), [0, 1, 4, 5]);
        assert_eq!(gets(&list, &in_groups(&[9])), [0, 2]);
        // Each of two groups grants a part; nobody grants both parts at once.
        assert_eq!(gets(&list, &in_groups(&[9, TEAM])), [0, 1, 2, 4, 5]);
        assert_eq!(gets(&list, &in_groups(&[])), [0, 1]);
        list.chmod(0o047);
        // The mask bounds all but the owner and others, and groups do not fall back to others.
        assert_eq!(gets(&list, &Caller::user(OWNER, 9)), [0]);
        assert_eq!(gets(&list, &Caller::user(7, 7)), [0, 4]);
        assert_eq!(gets(&list, &Caller::user(1, TEAM)), [0, 4]);
        assert_eq!(gets(&list, &in_groups(&[9])), [0]);
        assert_eq!(gets(&list, &in_groups(&[])).len(), 8);
    }

    /// The words of acl(5), over entries as they are written down.
    fn allows_by_the_book(entries: &[Entry], caller: &Caller, want: u16) -> bool {
        let with = |tag| entries.iter().filter(move |entry| entry.0 == tag);
        let grants = |entry: &Entry| entry.1 & want == want;
        let mask_grants = with(MASK).all(grants);
        if caller.uid == 0 {
            return with(USER_OBJ).all(grants);
        }
        if let Some(user) = with(USER).find(|entry| entry.2 == caller.uid) {
            return grants(user) && mask_grants;
        }
        let of_caller = |entry: &&Entry| match entry.0 {
            GROUP_OBJ => caller.is_in_group(0),
            GROUP => caller.is_in_group(entry.2),
            _ => false,
        };
        let mut groups = entries.iter().filter(of_caller).peekable();
        if groups.peek().is_some() {
            return groups.any(grants) && mask_grants;
        }
        with(OTHER).all(grants)
    }

    #[test]
    fn random_lists_do_what_the_book_says() {
        for seed in 0..3000 {
            println!("seed {seed}");
            let random = SeededRandom::new(seed);
            let entries = some_entries(&random);
            let list = acl(&entries);
            assert_eq!(list.encode(), value(&entries));
            assert_eq!(list.is_minimal(), entries.len() == 3);
            let caller = some_caller(&random);
            let mode = random.below(0o20_0000) as u32;
            for want in 0..8 {
                let wanted = allows_by_the_book(&entries, &caller, want);
                let want = u32::from(want);
                assert_eq!(list.allows(0, 0, &caller, want), wanted, "{caller:?} {want}");
                let plain = Acl::from_mode(mode).allows(0, 0, &caller, want);
                assert_eq!(mode_allows(mode, 0, 0, &caller, want), plain, "{caller:?} {want}");
            }
            let mut changed = list.clone();
            changed.chmod(mode);
            assert_eq!(changed.to_mode(mode), mode);
            let made = list.inherit(mode, true);
            assert_eq!(made.mode, mode & (list.to_mode(0) | !ALL_CLASSES));
            assert!(made.access.is_none_or(|access| access.to_mode(mode) == made.mode));
            assert_eq!(made.default, Some(list));
        }
    }

    #[test]
    fn no_bytes_make_parsing_fail_otherwise_than_by_saying_so() {
        for seed in 0..3000 {
            println!("seed {seed}");
            let random = SeededRandom::new(seed);
            let mut bytes = value(&some_entries(&random));
            for _ in 0..random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(40) as u8;
            }
            if random.one_in(4) {
                bytes.truncate(random.below(bytes.len() as u64) as usize);
            }
            if let Ok(Some(list)) = Acl::parse(&bytes) {
                assert_eq!(Acl::parse(&list.encode()), Ok(Some(list)));
            }
        }
    }
}
