//! Listings while names come and go.

use super::*;

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
        assert!(again[0].name >= entries[100].name);
        session.releasedir(handle).await.unwrap();
    });
}
