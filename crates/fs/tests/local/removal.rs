//! What becomes of a file of the home whose inode goes.

use crate::world::*;
use fs::schema::Form;
use fs::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Open,
    Closed,
    Settled,
    Reopened,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Unlink,
    RenameOver,
    Crash,
}

#[test]
fn a_file_that_goes_gives_its_file_back_and_the_next_one_is_empty() {
    on_bench(|mut bench| async move {
        for len in [0, 100, 20_000] {
            for when in [When::Open, When::Closed, When::Settled, When::Reopened] {
                for how in [How::Unlink, How::RenameOver, How::Crash] {
                    let name = format!("{len} {when:?} {how:?}");
                    let (ino, mut handle) = bench.make(&name, &pattern(1, len)).await;
                    let mut open = true;
                    if when != When::Open {
                        bench.session.release(handle).await.unwrap();
                        open = false;
                    }
                    if matches!(when, When::Settled | When::Reopened) {
                        bench.settle().await;
                    }
                    if when == When::Reopened {
                        handle = bench.open(ino).await;
                        open = true;
                        write(&bench.session, handle, 0, &pattern(2, len)).await;
                    }
                    match how {
                        How::Unlink | How::Crash => {
                            bench.session.unlink(&root(), ROOT, name.as_bytes()).await.unwrap();
                        }
                        How::RenameOver => {
                            let (other, handle) = bench.make("other", b"other").await;
                            bench.session.release(handle).await.unwrap();
                            let flags = RenameFlags::default();
                            let (from, to) = (b"other", name.as_bytes());
                            let renamed =
                                bench.session.rename(&root(), ROOT, from, ROOT, to, flags).await;
                            renamed.unwrap();
                            assert_eq!(bench.contents(other).await, b"other");
                        }
                    }
                    if how == How::Crash {
                        bench.die().await;
                        bench.session.maintain().await.unwrap();
                        open = false;
                    }
                    if open {
                        let tag = if when == When::Reopened { 2 } else { 1 };
                        assert_eq!(read(&bench.session, handle).await, pattern(tag, len), "{name}");
                        write(&bench.session, handle, 0, b"still here").await;
                        let size = bench.session.getattr(ino).await.unwrap().size;
                        assert_eq!(size, (len as u64).max(10), "{name}");
                        // Nobody takes it away from who has it.
                        bench.settle().await;
                        let bytes = read(&bench.session, handle).await;
                        assert!(bytes.starts_with(b"still here"), "{name}");
                        bench.session.release(handle).await.unwrap();
                    }
                    let gone = bench.session.getattr(ino).await.unwrap_err();
                    assert_eq!(gone.kind(), Kind::NotFound, "{name}");
                    bench.settle().await;
                    assert!(!bench.is_lent(ino).await, "{name}");
                    bench.audit().await;
                    // Whoever gets its file next sees nothing of it.
                    let (next, handle) = bench.make("next", b"").await;
                    assert_eq!(bench.session.getattr(next).await.unwrap().size, 0, "{name}");
                    write(&bench.session, handle, 30_000, b"end").await;
                    let bytes = read(&bench.session, handle).await;
                    assert!(bytes[..30_000].iter().all(|byte| *byte == 0), "{name}");
                    bench.session.release(handle).await.unwrap();
                    bench.session.unlink(&root(), ROOT, b"next").await.unwrap();
                }
            }
        }
    });
}

#[test]
fn a_file_without_a_name_goes_with_its_last_handle_or_stays_with_a_name() {
    on_bench(|mut bench| async move {
        for len in [100, 20_000] {
            for linked in [false, true] {
                for crash in [false, true] {
                    let flags = OpenFlags::READ_WRITE;
                    let made = bench.session.tmpfile(&root(), ROOT, 0o600, flags).await;
                    let (attr, handle) = made.unwrap();
                    assert!(bench.session.backing_id(handle).is_some());
                    write(&bench.session, handle, 0, &pattern(1, len)).await;
                    let name = format!("{len} {crash}");
                    if linked {
                        let name = name.as_bytes();
                        bench.session.link(&root(), attr.ino, ROOT, name).await.unwrap();
                    }
                    match crash {
                        true => bench.die().await,
                        false => bench.session.release(handle).await.unwrap(),
                    }
                    bench.session.maintain().await.unwrap();
                    bench.settle().await;
                    match linked {
                        true => assert_eq!(bench.contents(attr.ino).await, pattern(1, len)),
                        false => assert!(bench.session.getattr(attr.ino).await.is_err()),
                    }
                    bench.audit().await;
                }
            }
        }
    });
}

#[test]
fn a_session_without_the_home_removes_what_it_cannot_read() {
    on_bench(|mut bench| async move {
        let kept = bench.file("kept", &pattern(2, 20_000)).await;
        let ino = bench.file("large", &pattern(1, 20_000)).await;
        bench.session.stop().await.unwrap();
        let world = World { home: None, ..bench.world.clone() };
        let volume = Volume::open(&world, "test").await.unwrap();
        let session = Session::start(&volume, options()).await.unwrap();
        let handle = session.open(&root(), ino, OpenFlags::READ).await.unwrap();
        let error = session.read(handle, 0, 10).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        session.release(handle).await.unwrap();
        session.unlink(&root(), ROOT, b"large").await.unwrap();
        session.stop().await.unwrap();
        bench.audit().await;
        bench.die().await;
        bench.settle().await;
        bench.audit().await;
        assert_eq!(bench.contents(kept).await, pattern(2, 20_000));
        assert_eq!(bench.form(kept).await, Form::Local);
    });
}

#[test]
fn a_volume_that_is_destroyed_leaves_no_file() {
    on_bench(|bench| async move {
        use base::Disk as _;
        bench.file("large", &pattern(1, 20_000)).await;
        bench.session.stop().await.unwrap();
        assert!(!bench.disk.list().unwrap().is_empty());
        Volume::destroy(&bench.world, "test", &NoProgress).await.unwrap();
        assert_eq!(bench.disk.list().unwrap(), Vec::<String>::new());
    });
}
