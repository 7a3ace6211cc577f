//! Access control lists, as callers meet them: set, enforced, inherited, changed by chmod.

use crate::world::*;
use base::block_on;
use fs::*;

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;
const NOBODY: u32 = u32::MAX;

/// The value of the attribute, as setfacl writes it.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&bits.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// Owner rwx, user 7 rw, the group nothing, group 9 r, all but the owner at most `mask`, others none.
fn named(mask: u16) -> Vec<u8> {
    list(&[
        (USER_OBJ, 7, NOBODY),
        (USER, 6, 7),
        (GROUP_OBJ, 0, NOBODY),
        (GROUP, 4, 9),
        (MASK, mask, NOBODY),
        (OTHER, 0, NOBODY),
    ])
}

async fn session() -> Session {
    let volume = Bench::mem().volume().await;
    private_session(&volume).await
}

async fn set(session: &Session, ino: Ino, name: &[u8], value: &[u8]) -> Result<()> {
    session.setxattr(&root(), ino, name, value, XattrMode::Any).await
}

async fn may(session: &Session, caller: &Caller, ino: Ino) -> u32 {
    let mut may = 0;
    for want in [4, 2, 1] {
        if session.access(caller, ino, want).await.is_ok() {
            may |= want;
        }
    }
    may
}

async fn mode_of(session: &Session, ino: Ino) -> u32 {
    session.getattr(ino).await.unwrap().mode & 0o7777
}

#[test]
fn a_list_is_told_as_it_was_set_and_the_mode_shows_its_mask() {
    block_on(async {
        let session = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        let none = session.getxattr(&root(), ino, ACCESS).await.unwrap_err();
        assert_eq!(none.kind(), Kind::NoAttribute);
        set(&session, ino, ACCESS, &named(6)).await.unwrap();
        assert_eq!(session.getxattr(&root(), ino, ACCESS).await.unwrap(), named(6));
        assert_eq!(session.listxattr(&root(), ino).await.unwrap(), [ACCESS]);
        assert_eq!(mode_of(&session, ino).await, 0o760);
        session.removexattr(&root(), ino, ACCESS).await.unwrap();
        assert_eq!(session.listxattr(&root(), ino).await.unwrap().len(), 0);
        // What the mode says stays: it is no wider than the list was.
        assert_eq!(mode_of(&session, ino).await, 0o760);
    });
}

#[test]
fn a_list_that_says_no_more_than_a_mode_is_the_mode() {
    block_on(async {
        let session = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, ACCESS, &named(6)).await.unwrap();
        let plain = [(USER_OBJ, 6, NOBODY), (GROUP_OBJ, 4, NOBODY), (OTHER, 1, NOBODY)];
        set(&session, ino, ACCESS, &list(&plain)).await.unwrap();
        assert_eq!(mode_of(&session, ino).await, 0o641);
        assert_eq!(session.listxattr(&root(), ino).await.unwrap().len(), 0);
        set(&session, ino, ACCESS, &named(6)).await.unwrap();
        // An empty list is none.
        set(&session, ino, ACCESS, &list(&[])).await.unwrap();
        assert_eq!(session.listxattr(&root(), ino).await.unwrap().len(), 0);
    });
}

#[test]
fn who_may_set_a_list_and_on_what() {
    block_on(async {
        let session = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        let dir = dir(&session, b"d").await;
        let link = session.symlink(&root(), ROOT, b"l", b"f").await.unwrap().ino;
        let kind = |result: Result<()>| result.unwrap_err().kind();
        let stranger = Caller::user(5, 5);
        let told = session.setxattr(&stranger, ino, ACCESS, &named(7), XattrMode::Any).await;
        assert_eq!(kind(told), Kind::NotPermitted);
        let told = session.removexattr(&stranger, dir, DEFAULT).await;
        assert_eq!(kind(told), Kind::NotPermitted);
        assert_eq!(kind(set(&session, ino, DEFAULT, &named(7)).await), Kind::AccessDenied);
        assert_eq!(kind(set(&session, link, ACCESS, &named(7)).await), Kind::Unsupported);
        let unsorted = list(&[(OTHER, 0, NOBODY), (USER_OBJ, 7, NOBODY), (GROUP_OBJ, 0, NOBODY)]);
        for bad in [&unsorted[..], &named(7)[..20], b"x", &list(&[(USER, 7, 7)])] {
            assert_eq!(kind(set(&session, ino, ACCESS, bad).await), Kind::Invalid);
            assert_eq!(kind(set(&session, dir, DEFAULT, bad).await), Kind::Invalid);
        }
        assert_eq!(kind(set(&session, ino, ACCESS, &[3, 0, 0, 0]).await), Kind::Unsupported);
        assert_eq!(mode_of(&session, ino).await, 0o644);
    });
}

#[test]
fn a_list_is_enforced() {
    block_on(async {
        let session = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        let owner = SetAttr { uid: Some(100), gid: Some(200), ..SetAttr::default() };
        session.setattr(&root(), ino, &owner, None).await.unwrap();
        set(&session, ino, ACCESS, &named(7)).await.unwrap();
        let (named_user, stranger) = (Caller::user(7, 7), Caller::user(8, 8));
        let in_group = Caller { groups: vec![9], ..Caller::user(8, 8) };
        assert_eq!(may(&session, &Caller::user(100, 1), ino).await, 7);
        assert_eq!(may(&session, &named_user, ino).await, 6);
        assert_eq!(may(&session, &in_group, ino).await, 4);
        assert_eq!(may(&session, &Caller::user(8, 200), ino).await, 0);
        assert_eq!(may(&session, &stranger, ino).await, 0);
        let handle = session.open(&named_user, ino, OpenFlags::READ_WRITE).await.unwrap();
        session.release(handle).await.unwrap();
        let refused = session.open(&in_group, ino, OpenFlags::READ_WRITE).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::AccessDenied);
        // The mask takes away what the entry gives.
        set(&session, ino, ACCESS, &named(4)).await.unwrap();
        assert_eq!(may(&session, &named_user, ino).await, 4);
        // Whose permissions were checked elsewhere is not kept out here.
        let trusted = Caller { checked_here: false, ..stranger };
        assert_eq!(may(&session, &trusted, ino).await, 7);
    });
}

#[test]
fn a_list_of_a_directory_says_who_makes_names_in_it() {
    block_on(async {
        let session = session().await;
        let ino = dir(&session, b"d").await;
        let user = Caller::user(7, 7);
        let made = session.mkdir(&user, ino, b"n", 0o755).await.unwrap_err();
        assert_eq!(made.kind(), Kind::AccessDenied);
        let open = list(&[
            (USER_OBJ, 7, NOBODY),
            (USER, 7, 7),
            (GROUP_OBJ, 0, NOBODY),
            (MASK, 7, NOBODY),
            (OTHER, 0, NOBODY),
        ]);
        set(&session, ino, ACCESS, &open).await.unwrap();
        session.mkdir(&user, ino, b"n", 0o755).await.unwrap();
        session.rmdir(&user, ino, b"n").await.unwrap();
        let kept_out = session.lookup(&Caller::user(8, 8), ino, b"n").await.unwrap_err();
        assert_eq!(kept_out.kind(), Kind::AccessDenied);
    });
}

#[test]
fn chmod_changes_the_mask_and_leaves_the_entries() {
    block_on(async {
        let session = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, ACCESS, &named(7)).await.unwrap();
        let chmod = |bits| SetAttr { mode: Some(bits), ..SetAttr::default() };
        session.setattr(&root(), ino, &chmod(0o740), None).await.unwrap();
        assert_eq!(session.getxattr(&root(), ino, ACCESS).await.unwrap(), named(4));
        assert_eq!(may(&session, &Caller::user(7, 7), ino).await, 4);
        session.setattr(&root(), ino, &chmod(0o771), None).await.unwrap();
        let mut wanted = named(7);
        let other = wanted.len() - 6;
        wanted[other] = 1;
        assert_eq!(session.getxattr(&root(), ino, ACCESS).await.unwrap(), wanted);
        assert_eq!(may(&session, &Caller::user(7, 7), ino).await, 6);
        // Without any group bits the list counts for nobody, and comes back with them.
        session.setattr(&root(), ino, &chmod(0o700), None).await.unwrap();
        assert_eq!(may(&session, &Caller::user(7, 7), ino).await, 0);
        session.setattr(&root(), ino, &chmod(0o770), None).await.unwrap();
        assert_eq!(may(&session, &Caller::user(7, 7), ino).await, 6);
    });
}

#[test]
fn new_files_and_directories_inherit_and_the_umask_is_set_aside() {
    block_on(async {
        let session = session().await;
        let ino = dir(&session, b"d").await;
        set(&session, ino, DEFAULT, &named(7)).await.unwrap();
        // The directory itself is not changed by it.
        assert_eq!(mode_of(&session, ino).await, 0o755);
        let caller = Caller { umask: 0o077, ..Caller::root() };
        let (made, handle) =
            session.create(&caller, ino, b"f", 0o664, OpenFlags::READ).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o660);
        session.release(handle).await.unwrap();
        let access = session.getxattr(&root(), made.ino, ACCESS).await.unwrap();
        let wanted = list(&[
            (USER_OBJ, 6, NOBODY),
            (USER, 6, 7),
            (GROUP_OBJ, 0, NOBODY),
            (GROUP, 4, 9),
            (MASK, 6, NOBODY),
            (OTHER, 0, NOBODY),
        ]);
        assert_eq!(access, wanted);
        assert_eq!(session.listxattr(&root(), made.ino).await.unwrap(), [ACCESS]);
        assert_eq!(may(&session, &Caller::user(7, 7), made.ino).await, 6);

        let under = session.mkdir(&caller, ino, b"under", 0o777).await.unwrap();
        assert_eq!(under.mode & 0o7777, 0o770);
        assert_eq!(session.getxattr(&root(), under.ino, DEFAULT).await.unwrap(), named(7));
        assert_eq!(session.getxattr(&root(), under.ino, ACCESS).await.unwrap(), named(7));
        // And what is made in that.
        let deep = session.mknod(&caller, under.ino, b"p", mode::FIFO | 0o666, 0).await.unwrap();
        assert_eq!(deep.mode & 0o7777, 0o660);
        let (unnamed, handle) =
            session.tmpfile(&caller, under.ino, 0o600, OpenFlags::READ).await.unwrap();
        assert_eq!(unnamed.mode & 0o7777, 0o600);
        assert!(session.getxattr(&root(), unnamed.ino, ACCESS).await.is_ok());
        session.release(handle).await.unwrap();
        // Links have no lists.
        let link = session.symlink(&caller, ino, b"l", b"f").await.unwrap();
        assert_eq!(link.mode & 0o7777, 0o777);
        assert_eq!(session.listxattr(&root(), link.ino).await.unwrap().len(), 0);

        session.removexattr(&root(), ino, DEFAULT).await.unwrap();
        let plain = session.mkdir(&caller, ino, b"plain", 0o777).await.unwrap();
        assert_eq!(plain.mode & 0o7777, 0o700, "the umask counts again");
    });
}

#[test]
fn a_default_list_that_says_no_more_than_a_mode_sets_the_umask_aside() {
    block_on(async {
        let session = session().await;
        let ino = dir(&session, b"d").await;
        let plain = list(&[(USER_OBJ, 7, NOBODY), (GROUP_OBJ, 5, NOBODY), (OTHER, 4, NOBODY)]);
        set(&session, ino, DEFAULT, &plain).await.unwrap();
        assert_eq!(session.getxattr(&root(), ino, DEFAULT).await.unwrap(), plain);
        let caller = Caller { umask: 0o777, ..Caller::root() };
        let made = session.mkdir(&caller, ino, b"n", 0o777).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o754);
        assert_eq!(session.getxattr(&root(), made.ino, DEFAULT).await.unwrap(), plain);
        let none = session.getxattr(&root(), made.ino, ACCESS).await.unwrap_err();
        assert_eq!(none.kind(), Kind::NoAttribute);
    });
}

#[test]
fn setting_a_list_drops_the_set_group_bit_of_a_foreign_group() {
    block_on(async {
        let session = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        let set = SetAttr { uid: Some(7), gid: Some(50), ..SetAttr::default() };
        session.setattr(&root(), ino, &set, None).await.unwrap();
        let set = SetAttr { mode: Some(0o2755), ..SetAttr::default() };
        session.setattr(&root(), ino, &set, None).await.unwrap();
        let owner = Caller { groups: vec![50], ..Caller::user(7, 7) };
        session.setxattr(&owner, ino, ACCESS, &named(5), XattrMode::Any).await.unwrap();
        assert_eq!(mode_of(&session, ino).await, 0o2750);
        let owner = Caller::user(7, 7);
        session.setxattr(&owner, ino, ACCESS, &named(5), XattrMode::Any).await.unwrap();
        assert_eq!(mode_of(&session, ino).await, 0o750);
    });
}

#[test]
fn a_list_that_is_not_there_is_removed_already() {
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let session = private_session(&volume).await;
        let root = Caller::root();
        let file = session.mknod(&root, ROOT, b"f", mode::FILE | 0o600, 0).await.unwrap();
        for name in [ACCESS, DEFAULT] {
            session.removexattr(&root, file.ino, name).await.unwrap();
        }
        let other = session.removexattr(&root, file.ino, b"user.none").await.unwrap_err();
        assert_eq!(other.kind(), Kind::NoAttribute);
        assert_eq!(session.getattr(file.ino).await.unwrap(), file);
    });
}
