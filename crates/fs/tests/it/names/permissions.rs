//! Who may do what, and what new inodes get.

use super::*;

#[test]
fn a_sticky_directory_protects_names_from_others() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"tmp").await;
        set(&session, ino, chmod(0o1777)).await;
        set(&session, ino, chown(50, 50)).await;
        let (owner, other) = (Caller::user(7, 7), Caller::user(8, 8));
        session.mknod(&owner, ino, b"f", mode::FILE | 0o666, 0).await.unwrap();
        session.mkdir(&owner, ino, b"d", 0o777).await.unwrap();
        session.mknod(&other, ino, b"mine", mode::FILE | 0o666, 0).await.unwrap();
        assert_eq!(kind(session.unlink(&other, ino, b"f").await), Kind::NotPermitted);
        assert_eq!(kind(session.rmdir(&other, ino, b"d").await), Kind::NotPermitted);
        let rename = |caller: &Caller, from: &'static [u8], to: &'static [u8], flags| {
            let (session, caller) = (session.clone(), caller.clone());
            async move { session.rename(&caller, ino, from, ino, to, flags).await }
        };
        assert_eq!(kind(rename(&other, b"f", b"g", PLAIN).await), Kind::NotPermitted);
        assert_eq!(kind(rename(&other, b"mine", b"f", PLAIN).await), Kind::NotPermitted);
        assert_eq!(kind(rename(&other, b"mine", b"f", EXCHANGE).await), Kind::NotPermitted);
        // The owner of the name, of the directory, and the superuser.
        rename(&owner, b"f", b"g", PLAIN).await.unwrap();
        rename(&Caller::user(50, 1), b"g", b"h", PLAIN).await.unwrap();
        session.unlink(&root(), ino, b"h").await.unwrap();
        session.rmdir(&owner, ino, b"d").await.unwrap();
        set(&session, ino, chmod(0o777)).await;
        session.unlink(&owner, ino, b"mine").await.unwrap();
    });
}

#[test]
fn a_set_group_directory_gives_its_group_to_what_is_made_in_it() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"team").await;
        set(&session, ino, chown(50, 60)).await;
        set(&session, ino, chmod(0o2777)).await;
        let caller = Caller::user(7, 7);
        let made = session.mknod(&caller, ino, b"f", mode::FILE | 0o644, 0).await.unwrap();
        assert_eq!((made.uid, made.gid, made.mode & 0o7777), (7, 60, 0o644));
        let under = session.mkdir(&caller, ino, b"d", 0o755).await.unwrap();
        assert_eq!((under.gid, under.mode & 0o7777), (60, 0o2755));
        let link = session.symlink(&caller, ino, b"l", b"x").await.unwrap();
        assert_eq!(link.gid, 60);
        // A program of a group that its maker is not in does not run as that group.
        let program = mode::FILE | 0o2755;
        let made = session.mknod(&caller, ino, b"p", program, 0).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o755);
        let member = Caller { groups: vec![60], ..caller.clone() };
        let made = session.mknod(&member, ino, b"q", program, 0).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o2755);
        set(&session, ino, chmod(0o777)).await;
        let made = session.mkdir(&caller, ino, b"e", 0o755).await.unwrap();
        assert_eq!((made.gid, made.mode & 0o7777), (7, 0o755));
    });
}

#[test]
fn the_umask_is_taken_from_the_mode_of_what_is_made() {
    block_on(async {
        let (_, session) = session().await;
        let caller = Caller { umask: 0o027, ..Caller::root() };
        let made = session.mkdir(&caller, ROOT, b"d", 0o1777).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o1750);
        let made = session.mknod(&caller, ROOT, b"p", mode::FIFO | 0o666, 0).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o640);
        let flags = OpenFlags::READ;
        let (made, _) = session.create(&caller, ROOT, b"f", 0o4777, flags).await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o4750);
        let made = session.symlink(&caller, ROOT, b"l", b"x").await.unwrap();
        assert_eq!(made.mode & 0o7777, 0o777);
    });
}

#[test]
fn who_may_change_the_mode() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, chown(7, 60)).await;
        let owner = Caller::user(7, 7);
        let told = session.setattr(&Caller::user(8, 60), ino, &chmod(0o666), None).await;
        assert_eq!(kind(told), Kind::NotPermitted);
        let told = session.setattr(&owner, ino, &chmod(0o4711), None).await.unwrap();
        assert_eq!(told.mode, mode::FILE | 0o4711);
        // The set-group bit only of a group of one's own.
        let told = session.setattr(&owner, ino, &chmod(0o2755), None).await.unwrap();
        assert_eq!(told.mode & 0o7777, 0o755);
        let member = Caller { groups: vec![60], ..owner };
        let told = session.setattr(&member, ino, &chmod(0o2755), None).await.unwrap();
        assert_eq!(told.mode & 0o7777, 0o2755);
        // Type bits are no business of chmod.
        let told = session.setattr(&member, ino, &chmod(mode::DIRECTORY | 0o600), None).await;
        assert_eq!(told.unwrap().mode, mode::FILE | 0o600);
    });
}

#[test]
fn who_may_change_the_owner_and_what_that_takes_away() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, chown(7, 60)).await;
        let owner = Caller { groups: vec![61], ..Caller::user(7, 7) };
        let to = |uid: Option<u32>, gid: Option<u32>| SetAttr { uid, gid, ..SetAttr::default() };
        for (caller, set) in [
            (&owner, to(Some(8), None)),
            (&owner, to(None, Some(99))),
            (&Caller::user(8, 61), to(None, Some(61))),
        ] {
            let told = session.setattr(caller, ino, &set, None).await;
            assert_eq!(kind(told), Kind::NotPermitted);
        }
        set(&session, ino, chmod(0o6755)).await;
        let told = session.setattr(&owner, ino, &to(Some(7), Some(61)), None).await.unwrap();
        assert_eq!((told.uid, told.gid, told.mode & 0o7777), (7, 61, 0o755));
        // Without the group's execute bit the set-group bit means locking, and stays.
        set(&session, ino, chmod(0o6705)).await;
        let told = set(&session, ino, chown(8, 8)).await;
        assert_eq!((told.uid, told.gid, told.mode & 0o7777), (8, 8, 0o2705));
        let ino = dir(&session, b"d").await;
        set(&session, ino, chmod(0o6755)).await;
        assert_eq!(set(&session, ino, chown(8, 8)).await.mode & 0o7777, 0o6755);
    });
}

#[test]
fn writing_takes_the_set_id_bits_away_unless_the_superuser_writes() {
    block_on(async {
        let (_, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        let write = |caller: Caller| {
            let session = session.clone();
            async move {
                set(&session, ino, chmod(0o6777)).await;
                let handle = session.open(&caller, ino, OpenFlags::READ_WRITE).await.unwrap();
                session.write(&caller, handle, 0, b"y").await.unwrap();
                session.release(handle).await.unwrap();
                session.getattr(ino).await.unwrap().mode & 0o7777
            }
        };
        assert_eq!(write(Caller::user(7, 7)).await, 0o777);
        assert_eq!(write(Caller::root()).await, 0o6777);
        let size = SetAttr { size: Some(0), ..SetAttr::default() };
        let told = session.setattr(&Caller::user(7, 7), ino, &size, None).await.unwrap();
        assert_eq!(told.mode & 0o7777, 0o777);
    });
}

#[test]
fn who_may_set_times() {
    block_on(async {
        let (bench, session) = session().await;
        let ino = file(&session, ROOT, b"f", b"x").await;
        set(&session, ino, chown(7, 60)).await;
        set(&session, ino, chmod(0o660)).await;
        let (owner, writer, other) = (Caller::user(7, 7), Caller::user(8, 60), Caller::user(9, 9));
        let long_ago = Some(SetTime::To(Time { secs: -5, nanos: 7 }));
        let times = |atime, mtime| SetAttr { atime, mtime, ..SetAttr::default() };
        let both_now = times(Some(SetTime::Now), Some(SetTime::Now));
        for (caller, set, wanted) in [
            (&other, both_now, Kind::AccessDenied),
            (&other, times(long_ago, None), Kind::NotPermitted),
            (&writer, times(long_ago, long_ago), Kind::NotPermitted),
            (&writer, times(Some(SetTime::Now), None), Kind::NotPermitted),
        ] {
            assert_eq!(kind(session.setattr(caller, ino, &set, None).await), wanted);
        }
        bench.clock.advance(Duration::from_secs(9));
        let told = session.setattr(&writer, ino, &both_now, None).await.unwrap();
        assert_eq!((told.atime, told.mtime), (told.ctime, told.ctime));
        bench.clock.advance(Duration::from_secs(9));
        let now = told.ctime;
        let told = session.setattr(&owner, ino, &times(long_ago, long_ago), None).await.unwrap();
        let wanted = Time { secs: -5, nanos: 7 };
        assert_eq!((told.atime, told.mtime), (wanted, wanted));
        assert_eq!(told.ctime.secs, now.secs + 9);
        assert_eq!(session.getattr(ino).await.unwrap(), told);
        let bad = Some(SetTime::To(Time { secs: 0, nanos: 1_000_000_000 }));
        assert_eq!(
            kind(session.setattr(&owner, ino, &times(bad, None), None).await),
            Kind::Invalid
        );
        // Of a directory: what is set holds until its names change.
        let ino = dir(&session, b"d").await;
        file(&session, ino, b"n", b"").await;
        assert_eq!(set(&session, ino, times(None, long_ago)).await.mtime, wanted);
        assert_eq!(session.getattr(ino).await.unwrap().mtime, wanted);
        file(&session, ino, b"m", b"").await;
        assert_eq!(session.getattr(ino).await.unwrap().mtime.secs, now.secs + 9);
    });
}
