//! Which new files are lent, and how those are served that are not.

use crate::world::*;
use fs::schema::Form;
use fs::*;

const WRITE_ONLY: OpenFlags =
    OpenFlags { read: false, write: true, append: false, truncate: false, exclusive: false };

async fn make_in(bench: &Bench, dir: Ino, name: &str, flags: OpenFlags) -> (Ino, Handle) {
    let made = bench.session.create(&root(), dir, name.as_bytes(), 0o644, flags).await;
    let (attr, handle) = made.unwrap();
    (attr.ino, handle)
}

async fn dir_in(bench: &Bench, parent: Ino, name: &str) -> Ino {
    bench.session.mkdir(&root(), parent, name.as_bytes(), 0o755).await.unwrap().ino
}

/// Files with so many bytes, made and closed one after the other. Tells which of them the kernel had.
async fn several(bench: &Bench, dir: Ino, tag: &str, count: usize, len: usize) -> Vec<bool> {
    let mut lent = Vec::new();
    for number in 0..count {
        let name = format!("{tag} {number}");
        let (ino, handle) = make_in(bench, dir, &name, OpenFlags::READ_WRITE).await;
        lent.push(bench.session.backing_id(handle).is_some());
        write(&bench.session, handle, 0, &pattern(9, len)).await;
        bench.session.release(handle).await.unwrap();
        assert_eq!(bench.contents(ino).await, pattern(9, len));
    }
    lent
}

#[test]
fn files_of_a_directory_of_small_files_are_not_lent_until_one_grows() {
    on_bench(|bench| async move {
        let dir = dir_in(&bench, ROOT, "dir").await;
        for (tag, len) in [("none", 0), ("some", 100)] {
            let dir = dir_in(&bench, ROOT, tag).await;
            let lent = several(&bench, dir, tag, 10, len).await;
            assert_eq!(lent.iter().filter(|lent| **lent).count(), 4, "{tag}: {lent:?}");
            assert!(lent[..4].iter().all(|lent| *lent));
        }
        // What is made there is lent no more; but one grows.
        let small = several(&bench, dir, "small", 5, 10).await;
        assert!(!small[4]);
        let (grows, handle) = make_in(&bench, dir, "grows", OpenFlags::READ_WRITE).await;
        assert_eq!(bench.session.backing_id(handle), None);
        write(&bench.session, handle, 0, &pattern(3, INLINE)).await;
        assert!(!bench.is_lent(grows).await);
        write(&bench.session, handle, INLINE as u64, &pattern(4, 9000)).await;
        assert!(bench.is_lent(grows).await);
        // While it is still open, others are lent already, and for longer than at first.
        let lent = several(&bench, dir, "beside", 9, 10).await;
        assert_eq!(lent.iter().filter(|lent| **lent).count(), 8, "{lent:?}");
        bench.session.release(handle).await.unwrap();
        bench.settle().await;
        let whole = [pattern(3, INLINE), pattern(4, 9000)].concat();
        assert_eq!(bench.contents(grows).await, whole);
        assert_eq!(bench.form(grows).await, Form::Local);
        // Large ones are lent always.
        let large = dir_in(&bench, ROOT, "large").await;
        assert!(several(&bench, large, "large", 12, INLINE + 1).await.iter().all(|lent| *lent));
        bench.settle().await;
        bench.audit().await;
    });
}

#[test]
fn a_new_directory_does_as_its_neighbours_and_a_new_tree_lends() {
    on_bench(|bench| async move {
        let tree = dir_in(&bench, ROOT, "tree").await;
        let first = dir_in(&bench, tree, "first").await;
        several(&bench, first, "f", 16, 100).await;
        let second = dir_in(&bench, tree, "second").await;
        assert_eq!(several(&bench, second, "f", 3, 100).await, [false; 3]);
        for name in ["other", "another"] {
            let other = dir_in(&bench, ROOT, name).await;
            assert_eq!(several(&bench, other, "f", 3, 100).await, [true; 3]);
        }
        bench.settle().await;
        bench.audit().await;
    });
}

#[test]
fn what_is_only_written_needs_no_cache_and_whoever_opens_it_beside_that_has_the_file() {
    on_bench(|bench| async move {
        let session = &bench.session;
        let dir = dir_in(&bench, ROOT, "dir").await;
        several(&bench, dir, "f", 4, 10).await;
        let (_, cached) = make_in(&bench, dir, "cached", OpenFlags::READ_WRITE).await;
        assert!(!session.is_direct(cached));
        for append in [false, true] {
            for outgrown in [false, true] {
                for truncate in [false, true] {
                    let name = format!("direct {append} {outgrown} {truncate}");
                    let flags = OpenFlags { append, ..WRITE_ONLY };
                    let dir = dir_in(&bench, dir, &name).await;
                    several(&bench, dir, "f", 4, 10).await;
                    let (ino, writer) = make_in(&bench, dir, &name, flags).await;
                    assert!(session.is_direct(writer), "{name}");
                    let mut right = pattern(1, if outgrown { INLINE + 1 } else { 300 });
                    write(session, writer, 0, &right).await;
                    let beside = OpenFlags { truncate, ..OpenFlags::READ_WRITE };
                    let reader = session.open(&root(), ino, beside).await.unwrap();
                    assert!(session.backing_id(reader).is_some(), "{name}");
                    assert!(!session.is_direct(reader));
                    if truncate {
                        right.clear();
                    }
                    assert_eq!(read(session, reader).await, right, "{name}");
                    write(session, writer, right.len() as u64, b"more").await;
                    right.extend_from_slice(b"more");
                    assert_eq!(read(session, reader).await, right, "{name}");
                    write(session, reader, 0, b"else").await;
                    right[..4].copy_from_slice(b"else");
                    session.release(reader).await.unwrap();
                    // The same file again, as long as it is open at all.
                    let again = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
                    assert!(session.backing_id(again).is_some(), "{name}");
                    session.release(writer).await.unwrap();
                    assert_eq!(read(session, again).await, right, "{name}");
                    session.release(again).await.unwrap();
                    bench.settle().await;
                    assert_eq!(bench.contents(ino).await, right, "{name}");
                }
            }
        }
        session.release(cached).await.unwrap();
        bench.settle().await;
        bench.audit().await;
    });
}

#[test]
fn whoever_writes_takes_capabilities() {
    on_bench(|bench| async move {
        let session = &bench.session;
        let name = b"security.capability";
        for flags in [OpenFlags::READ_WRITE, WRITE_ONLY] {
            let (ino, handle) =
                make_in(&bench, ROOT, &format!("program {}", flags.read), flags).await;
            let caller = root();
            let set = session.setxattr(&caller, ino, name, b"all", XattrMode::Any);
            set.await.unwrap();
            session.write(&root(), handle, 0, b"code").await.unwrap();
            let found = session.getxattr(&root(), ino, name).await;
            assert_eq!(found.unwrap_err().kind(), Kind::NoAttribute);
            session.release(handle).await.unwrap();
        }
    });
}
