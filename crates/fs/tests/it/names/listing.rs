//! Listings while names come and go.

use super::*;
use fs::op::FIRST_ENTRIES;

/// All entries of a directory in pages of `limit`, with `between` done after each page.
async fn list(
    session: &Session,
    handle: DirHandle,
    limit: usize,
    mut between: impl AsyncFnMut(usize),
) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = Vec::new();
    for page in 0.. {
        let cookie = entries.last().map_or(0, |entry| entry.cookie);
        let more = session.readdir(handle, cookie, limit).await.unwrap();
        if more.is_empty() {
            break;
        }
        assert!(more.len() <= limit);
        entries.extend(more);
        between(page).await;
    }
    entries
}

#[test]
fn a_listing_of_a_small_directory_is_one_snapshot() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"d").await;
        for number in 0..100 {
            session.mknod(&root(), ino, &name(number), mode::FIFO, 0).await.unwrap();
        }
        let handle = session.opendir(&root(), ino).await.unwrap();
        let entries = list(&session, handle, 7, async |page| {
            session.unlink(&root(), ino, &name(99 - page)).await.unwrap();
            session.mknod(&root(), ino, &name(200 + page), mode::FIFO, 0).await.unwrap();
            session
                .rename(&root(), ino, &name(50 + page), ino, &name(300 + page), PLAIN)
                .await
                .unwrap();
        })
        .await;
        let listed: Vec<Vec<u8>> =
            entries.iter().skip(2).map(|entry| entry.name.to_vec()).collect();
        assert_eq!(listed, (0..100).map(name).collect::<Vec<_>>());
        // A cookie can be used again, and zero begins anew.
        let again = session.readdir(handle, entries[30].cookie, 5).await.unwrap();
        assert_eq!(again, entries[31..36]);
        let anew = list(&session, handle, 1000, async |_| {}).await;
        assert_eq!(anew.len(), 102);
        assert_ne!(anew[90].name, entries[90].name);
        // What was removed meanwhile has no attributes to tell, and is left out.
        session.unlink(&root(), ino, &name(3)).await.unwrap();
        let plus = session.readdirplus(handle, anew[3].cookie, 3).await.unwrap();
        let names: Vec<_> = plus.iter().map(|(entry, _)| entry.name.to_vec()).collect();
        assert_eq!(names, [name(2), name(4)]);
        session.releasedir(handle).await.unwrap();
    });
}

#[test]
fn a_listing_of_a_large_directory_has_what_stays_exactly_once() {
    const COUNT: usize = 70_000;
    const { assert!(COUNT > fs::op::LISTING_ENTRIES) };
    block_on(async {
        let (_, session) = session().await;
        let ino = dir(&session, b"d").await;
        for number in 0..COUNT {
            session.mknod(&root(), ino, &name(number * 2), mode::FIFO, 0).await.unwrap();
        }
        let handle = session.opendir(&root(), ino).await.unwrap();
        let mut gone = BTreeSet::new();
        let mut new = BTreeSet::new();
        let entries = list(&session, handle, 3000, async |page| {
            // Before, behind and around where the listing is.
            for number in [page * 10, page * 3000 + 5, COUNT - 1 - page * 7] {
                if number < COUNT && gone.insert(name(number * 2)) {
                    session.unlink(&root(), ino, &name(number * 2)).await.unwrap();
                }
                let odd = name(number * 2 + 1);
                if new.insert(odd.clone()) {
                    session.mknod(&root(), ino, &odd, mode::FIFO, 0).await.unwrap();
                }
            }
        })
        .await;
        let listed: Vec<&[u8]> = entries.iter().skip(2).map(|entry| &entry.name[..]).collect();
        assert!(listed.windows(2).all(|pair| pair[0] < pair[1]), "a name twice, or out of order");
        let seen: BTreeSet<&[u8]> = listed.into_iter().collect();
        for number in 0..COUNT {
            let name = name(number * 2);
            assert!(gone.contains(&name) || seen.contains(&name[..]), "{number} is missing");
        }
        let known = |name: &&&[u8]| {
            new.contains(**name)
                || std::str::from_utf8(name).unwrap().parse::<usize>().unwrap() % 2 == 0
        };
        assert_eq!(seen.iter().filter(known).count(), seen.len());
        let cookies: BTreeSet<u64> = entries.iter().map(|entry| entry.cookie).collect();
        assert_eq!(cookies.len(), entries.len());
        // Back to an earlier cookie, in a part that is no longer in memory.
        let again = session.readdir(handle, entries[100].cookie, 1).await.unwrap();
        assert!(again[0].name > entries[100].name && again[0].name <= entries[102].name);
        session.releasedir(handle).await.unwrap();
    });
}

/// A directory with these names, of which nothing else matters.
async fn dir_of(session: &Session, numbers: impl Iterator<Item = usize>) -> Ino {
    let ino = dir(session, b"d").await;
    for number in numbers {
        session.mknod(&root(), ino, &name(number), mode::FIFO, 0).await.unwrap();
    }
    ino
}

#[test]
fn a_first_answer_does_not_wait_for_all_of_a_large_directory() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir_of(&session, 0..FIRST_ENTRIES + 100).await;
        let handle = session.opendir(&root(), ino).await.unwrap();
        let first = session.readdir(handle, 0, 10).await.unwrap();
        assert_eq!(first.len(), 10);
        // Up to there it is one snapshot, behind it what is there when it is read.
        session.unlink(&root(), ino, &name(20)).await.unwrap();
        session.unlink(&root(), ino, &name(FIRST_ENTRIES + 20)).await.unwrap();
        let mut seen: Vec<_> = first.iter().skip(2).map(|entry| entry.name.to_vec()).collect();
        let mut cookie = first[9].cookie;
        loop {
            let more = session.readdir(handle, cookie, 700).await.unwrap();
            let Some(last) = more.last() else { break };
            cookie = last.cookie;
            seen.extend(more.iter().map(|entry| entry.name.to_vec()));
        }
        let stays = |number: &usize| *number != FIRST_ENTRIES + 20;
        let wanted: Vec<_> = (0..FIRST_ENTRIES + 100).filter(stays).map(name).collect();
        assert_eq!(seen, wanted);
    });
}

/// The kernel has one listing for all handles, and goes on with any of them.
#[test]
fn a_cookie_of_one_handle_is_good_for_another() {
    const COUNT: usize = 6000;
    block_on(async {
        for limit in [1000, 37, 2500] {
            let (_, session) = session().await;
            let ino = dir_of(&session, (0..COUNT).map(|number| number * 2)).await;
            let mut handles = Vec::new();
            for _ in 0..3 {
                let handle = session.opendir(&root(), ino).await.unwrap();
                // Each has a listing of its own, of another time.
                session.readdir(handle, 0, 50).await.unwrap();
                session.unlink(&root(), ino, &name(handles.len() * 2)).await.unwrap();
                let odd = name(handles.len() * 2 + 1);
                session.mknod(&root(), ino, &odd, mode::FIFO, 0).await.unwrap();
                handles.push(handle);
            }
            let mut gone: BTreeSet<Vec<u8>> = (0..3).map(|number| name(number * 2)).collect();
            let (mut seen, mut cookie) = (Vec::new(), 0);
            for page in 0.. {
                let handle = handles[page % handles.len()];
                let more = session.readdir(handle, cookie, limit).await.unwrap();
                let Some(last) = more.last() else { break };
                cookie = last.cookie;
                // The one whose cookie it is, one before it and one behind it.
                let at = parsed(&last.name).unwrap_or(100);
                for number in [at, at.saturating_sub(30), at + 40] {
                    if session.unlink(&root(), ino, &name(number)).await.is_ok() {
                        gone.insert(name(number));
                    }
                    let odd = name(number | 1);
                    let made = session.mknod(&root(), ino, &odd, mode::FIFO, 0).await;
                    assert!(made.is_ok() || kind(made) == Kind::Exists);
                }
                let names = more.iter().filter(|entry| parsed(&entry.name).is_some());
                seen.extend(names.map(|entry| entry.name.to_vec()));
            }
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "twice, or out of order");
            let seen: BTreeSet<Vec<u8>> = seen.into_iter().collect();
            for number in 0..COUNT {
                let name = name(number * 2);
                assert!(gone.contains(&name) || seen.contains(&name), "{number} is missing");
            }
        }
    });
}

/// The number that a name is, if it is one.
fn parsed(name: &[u8]) -> Option<usize> {
    std::str::from_utf8(name).unwrap().parse().ok()
}

#[test]
fn a_reader_that_removes_as_it_goes_leaves_nothing() {
    const COUNT: usize = 2 * FIRST_ENTRIES * 8;
    block_on(async {
        for reopens in [false, true] {
            let (_, session) = session().await;
            let ino = dir_of(&session, 0..COUNT).await;
            let mut handle = session.opendir(&root(), ino).await.unwrap();
            let (mut cookie, mut removed) = (0, 0);
            loop {
                let more = session.readdir(handle, cookie, 800).await.unwrap();
                let Some(last) = more.last() else { break };
                cookie = last.cookie;
                for entry in more.iter().filter(|entry| parsed(&entry.name).is_some()) {
                    session.unlink(&root(), ino, &entry.name).await.unwrap();
                    removed += 1;
                }
                // As one does who has no handles, or has lost them.
                if reopens {
                    session.releasedir(handle).await.unwrap();
                    handle = session.opendir(&root(), ino).await.unwrap();
                }
            }
            assert_eq!(removed, COUNT);
            session.releasedir(handle).await.unwrap();
            session.rmdir(&root(), ROOT, b"d").await.unwrap();
        }
    });
}

#[test]
fn a_cookie_outlives_its_handle_and_its_session() {
    const COUNT: usize = 9000;
    block_on(async {
        let bench = Bench::mem();
        let volume = bench.volume().await;
        let session = private_session(&volume).await;
        let ino = dir_of(&session, 0..COUNT).await;
        let handle = session.opendir(&root(), ino).await.unwrap();
        let entries = list(&session, handle, 1000, async |_| {}).await;
        session.releasedir(handle).await.unwrap();
        session.stop().await.unwrap();
        let session = private_session(&volume).await;
        let handle = session.opendir(&root(), ino).await.unwrap();
        for at in [8500, 0, 1, 2, 5000, entries.len() - 1] {
            let more = session.readdir(handle, entries[at].cookie, 3).await.unwrap();
            let upto = (at + 4).min(entries.len());
            assert_eq!(more, entries[at + 1..upto], "behind entry {at}");
        }
        session.releasedir(handle).await.unwrap();
        session.stop().await.unwrap();
        // A name that is gone, and of which nobody knows any more: all that is there comes again, and then
        // the end.
        let session = private_session(&volume).await;
        session.unlink(&root(), ino, &name(4000)).await.unwrap();
        let handle = session.opendir(&root(), ino).await.unwrap();
        let lost = entries[4002].clone();
        assert_eq!(lost.name, name(4000));
        let (mut cookie, mut seen) = (lost.cookie, Vec::new());
        loop {
            let more = session.readdir(handle, cookie, 800).await.unwrap();
            let Some(last) = more.last() else { break };
            cookie = last.cookie;
            seen.extend(more.iter().map(|entry| entry.name.to_vec()));
        }
        let wanted: Vec<_> = (0..COUNT).filter(|number| *number != 4000).map(name).collect();
        assert_eq!(seen, wanted);
    });
}

/// Who begins to list is told what is there then, also by those who began before: the kernel makes one listing
/// of what it hears from all.
#[test]
fn no_handle_goes_on_with_less_than_another_began_with() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir_of(&session, 0..1000).await;
        let slow = session.opendir(&root(), ino).await.unwrap();
        let first = session.readdir(slow, 0, 100).await.unwrap();
        session.mknod(&root(), ino, b"x", mode::FIFO, 0).await.unwrap();
        session.unlink(&root(), ino, &name(500)).await.unwrap();
        // As of when it began, so that one who makes names as it reads comes to an end.
        let alone = session.readdir(slow, first[99].cookie, 2000).await.unwrap();
        assert_eq!((alone.len(), &alone[0].name[..]), (902, &name(98)[..]));
        assert_eq!(alone[901].name, name(999));
        let new = session.opendir(&root(), ino).await.unwrap();
        let again = session.readdir(new, 0, 100).await.unwrap();
        assert_eq!(again, first);
        let rest = session.readdir(slow, first[99].cookie, 2000).await.unwrap();
        assert_eq!(rest.len(), 902);
        assert_eq!(rest[901].name, &b"x"[..]);
        assert_eq!(rest, session.readdir(new, first[99].cookie, 2000).await.unwrap());
    });
}

#[test]
fn a_listing_with_attributes_tells_what_names_stand_for_now() {
    block_on(async {
        let (_, session) = session().await;
        let ino = dir_of(&session, 0..100).await;
        let handle = session.opendir(&root(), ino).await.unwrap();
        let first = session.readdirplus(handle, 0, 12).await.unwrap();
        let rename = async |from, to| {
            session.rename(&root(), ino, &name(from), ino, &name(to), PLAIN).await.unwrap();
        };
        rename(50, 200).await;
        rename(60, 61).await;
        session.unlink(&root(), ino, &name(70)).await.unwrap();
        let anew = session.mkdir(&root(), ino, &name(70), 0o755).await.unwrap();
        let linked = session.lookup(&root(), ino, &name(80)).await.unwrap();
        session.link(&root(), linked.ino, ino, &name(201)).await.unwrap();
        session.unlink(&root(), ino, &name(80)).await.unwrap();
        let mut rest = Vec::new();
        let mut cookie = first[11].0.cookie;
        loop {
            let more = session.readdirplus(handle, cookie, 9).await.unwrap();
            let Some((last, _)) = more.last() else { break };
            cookie = last.cookie;
            rest.extend(more);
        }
        let names: Vec<_> = rest.iter().map(|(entry, _)| entry.name.to_vec()).collect();
        let wanted: Vec<_> =
            (10..100).filter(|number| ![50, 60, 80].contains(number)).map(name).collect();
        assert_eq!(names, wanted);
        for (entry, attr) in &rest {
            let now = session.lookup(&root(), ino, &entry.name).await.unwrap();
            assert_eq!((entry.ino, attr), (now.ino, &now), "{:?}", entry.name);
            assert_eq!(entry.file_type, now.file_type());
        }
        assert!(rest.iter().any(|(entry, _)| entry.ino == anew.ino));
    });
}
