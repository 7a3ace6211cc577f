//! One operation in the midst of another, at every point where the other waits.

use super::*;

type Work = std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// What two sessions do to one another, in a volume with a file, its twin, and two directories.
#[derive(Clone, Copy)]
struct Things {
    file: Ino,
    open: Handle,
    one: Ino,
    two: Ino,
}

/// An operation by its name, and how to begin it.
type Clash = (&'static str, fn(Session, Things) -> Work);

const CLASHES: &[Clash] = &[
    ("create", |it, _| {
        Box::pin(async move {
            let flags = OpenFlags { truncate: true, ..OpenFlags::READ_WRITE };
            let (_, handle) = it.create(&root(), ROOT, b"file", 0o644, flags).await?;
            it.write(&root(), handle, 0, b"new").await?;
            it.release(handle).await
        })
    }),
    ("open", |it, things| {
        Box::pin(async move {
            let handle = it.open(&root(), things.file, OpenFlags::READ).await?;
            it.read(handle, 0, 100_000).await?;
            it.release(handle).await
        })
    }),
    ("release", |it, things| Box::pin(async move { it.release(things.open).await })),
    ("write", |it, things| {
        Box::pin(async move { it.write(&root(), things.open, 60_000, b"xyz").await.map(|_| ()) })
    }),
    ("cut", |it, things| {
        Box::pin(async move {
            let set = SetAttr { size: Some(5), ..SetAttr::default() };
            it.setattr(&root(), things.file, &set, None).await.map(|_| ())
        })
    }),
    ("unlink", |it, _| Box::pin(async move { it.unlink(&root(), ROOT, b"file").await })),
    ("unlink both", |it, things| {
        Box::pin(async move {
            it.unlink(&root(), ROOT, b"file").await?;
            it.unlink(&root(), things.one, b"twin").await
        })
    }),
    ("link", |it, things| {
        Box::pin(async move { it.link(&root(), things.file, things.two, b"n").await.map(|_| ()) })
    }),
    ("mkdir", |it, things| {
        Box::pin(async move { it.mkdir(&root(), things.two, b"n", 0o755).await.map(|_| ()) })
    }),
    ("rmdir", |it, _| Box::pin(async move { it.rmdir(&root(), ROOT, b"two").await })),
    ("rename over", |it, things| {
        Box::pin(async move {
            let flags = RenameFlags::default();
            it.rename(&root(), things.one, b"twin", ROOT, b"other", flags).await
        })
    }),
    ("rename into", |it, things| {
        Box::pin(async move {
            let flags = RenameFlags::default();
            it.rename(&root(), ROOT, b"two", things.one, b"two", flags).await
        })
    }),
    ("rename back into", |it, things| {
        Box::pin(async move {
            let flags = RenameFlags::default();
            it.rename(&root(), ROOT, b"one", things.two, b"one", flags).await
        })
    }),
    ("exchange", |it, _| {
        Box::pin(async move {
            let flags = RenameFlags { exchange: true, ..RenameFlags::default() };
            it.rename(&root(), ROOT, b"file", ROOT, b"two", flags).await
        })
    }),
    ("setxattr", |it, things| {
        Box::pin(
            async move { it.setxattr(&root(), things.file, b"user.x", b"y", XattrMode::Any).await },
        )
    }),
    ("lock", |it, things| {
        Box::pin(async move { it.flock(things.open, it.id(), LockKind::Write, false).await })
    }),
    ("maintain", |it, _| Box::pin(async move { it.maintain().await.map(|_| ()) })),
];

async fn things(session: &Session) -> Things {
    let one = dir(session, b"one").await;
    let two = dir(session, b"two").await;
    let file = file(session, ROOT, b"file", &pattern(1, 70_000)).await;
    crate::world::file(session, ROOT, b"other", b"other").await;
    session.link(&root(), file, one, b"twin").await.unwrap();
    let open = session.open(&root(), file, OpenFlags::READ_WRITE).await.unwrap();
    Things { file, open, one, two }
}

#[test]
fn anything_in_the_midst_of_anything_leaves_a_whole_tree() {
    for (outer_name, outer) in CLASHES {
        for (inner_name, inner) in CLASHES {
            for polls in 1.. {
                let bench = Bench::sim(1, unbounded);
                let (volume, a, b, of_a, of_b) = block_on(async {
                    let volume = bench.volume().await;
                    let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
                    let of_a = things(&a).await;
                    let open = b.open(&root(), of_a.file, OpenFlags::READ_WRITE).await.unwrap();
                    (volume, a, b, of_a, Things { open, ..of_a })
                });
                let told = in_the_midst_of(&bench, polls, outer(a.clone(), of_a), || {
                    // What it is told is another matter: it may come too late.
                    let _ = run(&bench.clock, inner(b.clone(), of_b));
                });
                if told.is_none() {
                    break;
                }
                println!("{inner_name}, {polls} steps into {outer_name}: {told:?}");
                block_on(async {
                    audit(&volume, false).await;
                    // The handles still work, or were closed.
                    for (session, handle) in [(&a, of_a.open), (&b, of_b.open)] {
                        match session.read(handle, 0, 5).await {
                            Ok(read) => assert!(!read.is_empty()),
                            Err(error) => assert_eq!(error.kind(), Kind::BadHandle),
                        }
                        let _ = session.release(handle).await;
                    }
                    settle(&a).await;
                    settle(&b).await;
                    audit(&volume, true).await;
                });
            }
        }
    }
}

#[test]
fn the_last_of_name_and_handle_takes_the_file_along_at_once() {
    for order in [false, true] {
        for polls in 1.. {
            let bench = Bench::sim(1, unbounded);
            let (a, b, ino, handle) = block_on(async {
                let volume = bench.volume().await;
                let (a, b) = (shared_session(&volume).await, shared_session(&volume).await);
                let ino = file(&a, ROOT, b"f", &pattern(1, 1000)).await;
                let handle = a.open(&root(), ino, OpenFlags::READ).await.unwrap();
                (a, b, ino, handle)
            });
            let (closing, removing) = (a.clone(), b.clone());
            let close = async move { closing.release(handle).await };
            let remove = async move { removing.unlink(&root(), ROOT, b"f").await };
            let told = match order {
                false => in_the_midst_of(&bench, polls, close, || block_on(remove).unwrap()),
                true => in_the_midst_of(&bench, polls, remove, || block_on(close).unwrap()),
            };
            let Some(told) = told else { break };
            told.unwrap();
            // Nobody has to come and look for it.
            let gone = block_on(b.getattr(ino)).unwrap_err();
            assert_eq!(gone.kind(), Kind::NotFound, "{order} {polls}");
            assert_eq!(block_on(b.usage()).unwrap(), (0, 1));
        }
    }
}
