//! What becomes of what has lost its name, its record or its directory.

use crate::audit::dump;
use crate::lab::Lab;
use crate::repair_fully;
use crate::world::*;
use base::block_on;
use fs::schema::*;
use fs::*;

fn entry(parent: Ino, name: &[u8]) -> Parsed {
    Parsed::Entry { parent, name: name.to_vec() }
}

async fn lost(session: &Session) -> Ino {
    let attr = session.lookup(&root(), ROOT, LOST_AND_FOUND.as_bytes()).await.unwrap();
    assert_eq!(attr.mode & 0o7777, 0o700);
    attr.ino
}

async fn lost_names(session: &Session) -> Vec<String> {
    let names = names_of(session, lost(session).await).await;
    names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
}

#[test]
fn what_lost_its_name_is_found_by_its_number() {
    block_on(async {
        let lab = Lab::new(0).await;
        let gone = vec![(entry(ROOT, b"small"), None), (entry(ROOT, b"dir"), None)];
        lab.check(gone).await;
        repair_fully(&lab.volume, "names are gone").await;
        let session = private_session(&lab.volume).await;
        let mut wanted = [format!("#{}", lab.dir), format!("#{}", lab.small)];
        wanted.sort();
        assert_eq!(lost_names(&session).await, wanted);
        assert_eq!(contents(&session, lab.small).await, pattern(1, 100));
        assert_eq!(session.getattr(lab.small).await.unwrap().nlink, 1);
        // All that was in the directory still is.
        assert_eq!(names_of(&session, lab.dir).await, [&b"empty"[..], b"sub"]);
        // People can take it from there.
        let from = lost(&session).await;
        let name = format!("#{}", lab.small);
        let flags = RenameFlags::default();
        session.rename(&root(), from, name.as_bytes(), ROOT, b"small", flags).await.unwrap();
        session.stop().await.unwrap();
        repair_fully(&lab.volume, "all is well").await;
    });
}

#[test]
fn a_directory_whose_record_is_lost_keeps_its_names() {
    block_on(async {
        for damaged in [false, true] {
            let lab = Lab::new(0).await;
            let at = Parsed::Inode { ino: lab.dir };
            lab.check(vec![(at, damaged.then(|| b"rubbish".to_vec()))]).await;
            repair_fully(&lab.volume, "a directory's record").await;
            let session = private_session(&lab.volume).await;
            let attr = match damaged {
                // The entry says what it was.
                true => session.lookup(&root(), ROOT, b"dir").await.unwrap(),
                false => {
                    let name = format!("#{}", lab.dir);
                    let from = lost(&session).await;
                    session.lookup(&root(), from, name.as_bytes()).await.unwrap()
                }
            };
            assert_eq!((attr.ino, attr.mode & 0o7777), (lab.dir, 0o700));
            assert_eq!(names_of(&session, lab.dir).await, [&b"empty"[..], b"sub"]);
            assert_eq!(names_of(&session, lab.sub).await, [&b"link"[..], b"other"]);
        }
    });
}

#[test]
fn bytes_whose_record_is_lost_are_kept() {
    block_on(async {
        for damaged in [false, true] {
            for parity in [0, 4] {
                let lab = Lab::new(parity).await;
                let rubbish = || damaged.then(|| b"rubbish".to_vec());
                lab.check(vec![
                    (Parsed::Inode { ino: lab.small }, rubbish()),
                    (Parsed::Inode { ino: lab.large }, rubbish()),
                ])
                .await;
                repair_fully(&lab.volume, "records of files").await;
                let session = private_session(&lab.volume).await;
                let names = lost_names(&session).await;
                assert!(names.contains(&format!("#{}", lab.small)), "{names:?}");
                assert!(names.contains(&format!("#{}", lab.large)), "{names:?}");
                assert_eq!(contents(&session, lab.small).await, pattern(1, 100));
                let large = contents(&session, lab.large).await;
                let at = (crate::lab::MIB - 3 * crate::lab::BLOCK) as usize;
                assert!(large[..at].iter().all(|byte| *byte == 0));
                assert!(large[at..] == pattern(2, 6 * crate::lab::BLOCK as usize - 5));
                // What is rebuilt is not passed off as what it was.
                let error = session.lookup(&root(), ROOT, b"small").await.unwrap_err();
                assert_eq!(error.kind(), Kind::NotFound);
            }
        }
    });
}

#[test]
fn a_map_entry_is_made_again_from_its_blocks() {
    block_on(async {
        for damaged in [false, true] {
            let lab = Lab::new(0).await;
            let sound = dump(&lab.volume).await;
            let at = Parsed::Map { blob: lab.large, chunk: 0 };
            lab.check(vec![(at, damaged.then(|| b"rubbish".to_vec()))]).await;
            repair_fully(&lab.volume, "a map entry").await;
            assert!(dump(&lab.volume).await == sound, "it is what it was");
        }
    });
}

#[test]
fn a_taken_name_does_not_stop_a_repair() {
    block_on(async {
        let lab = Lab::new(0).await;
        let session = private_session(&lab.volume).await;
        file(&session, ROOT, LOST_AND_FOUND.as_bytes(), b"mine").await;
        session.stop().await.unwrap();
        lab.check(vec![(entry(ROOT, b"small"), None)]).await;
        repair_fully(&lab.volume, "a file has the name").await;
        let session = private_session(&lab.volume).await;
        let other = session.lookup(&root(), ROOT, b"lost+found.1").await.unwrap().ino;
        let name = format!("#{}", lab.small).into_bytes();
        assert_eq!(names_of(&session, other).await, [name]);
    });
}

#[test]
fn a_lost_access_list_opens_nothing() {
    block_on(async {
        let lab = Lab::new(0).await;
        let session = private_session(&lab.volume).await;
        let name = b"system.posix_acl_access";
        // The group may do nothing; somebody else may read.
        let mut list = fs::acl::Acl::from_mode(0o600).encode();
        let somebody = [2, 0, 4, 0, 0xe8, 3, 0, 0];
        let mask = [0x10, 0, 4, 0, 0xff, 0xff, 0xff, 0xff];
        list.splice(12..12, somebody);
        list.splice(28..28, mask);
        session.setxattr(&root(), lab.small, name, &list, XattrMode::Any).await.unwrap();
        assert_eq!(session.getattr(lab.small).await.unwrap().mode & 0o070, 0o040);
        session.stop().await.unwrap();
        let at = Parsed::Xattr { ino: lab.small, name: name.to_vec() };
        lab.check(vec![(at, Some(b"rubbish".to_vec()))]).await;
        repair_fully(&lab.volume, "a list").await;
        let session = private_session(&lab.volume).await;
        assert_eq!(session.getattr(lab.small).await.unwrap().mode & 0o777, 0o600);
    });
}
