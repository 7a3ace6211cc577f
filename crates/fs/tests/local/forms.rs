//! In which form bytes are, and that they are the same whatever it is.

use crate::world::*;
use fs::schema::Form;
use fs::*;

#[test]
fn a_new_file_is_lent_and_settles_by_its_size() {
    on_bench(|bench| async move {
        for (name, len, form) in [
            ("none", 0, Form::Inline),
            ("small", 100, Form::Inline),
            ("full", INLINE, Form::Inline),
            ("large", INLINE + 1, Form::Local),
            ("huge", 3_000_000, Form::Local),
        ] {
            let bytes = pattern(1, len);
            let (ino, handle) = bench.make(name, &bytes).await;
            assert!(bench.session.backing_id(handle).is_some(), "the kernel has it");
            assert!(bench.is_lent(ino).await);
            assert_eq!(read(&bench.session, handle).await, bytes);
            assert_eq!(bench.session.getattr(ino).await.unwrap().size, len as u64);
            bench.session.release(handle).await.unwrap();
            assert_eq!(bench.contents(ino).await, bytes);
            bench.settle().await;
            assert!(!bench.is_lent(ino).await);
            let record = bench.record(ino).await;
            assert_eq!((record.form, record.size), (form, len as u64), "{name}");
            assert_eq!(bench.contents(ino).await, bytes);
        }
        bench.audit().await;
    });
}

#[test]
fn a_file_that_outgrows_its_record_is_served_from_its_file() {
    on_bench(|mut bench| async move {
        for append in [false, true] {
            let name = format!("grows {append}");
            let ino = bench.file(&name, &pattern(1, 3000)).await;
            let flags = OpenFlags { append, ..OpenFlags::READ_WRITE };
            let handle = bench.session.open(&root(), ino, flags).await.unwrap();
            assert_eq!(bench.session.backing_id(handle), None, "served here");
            assert!(!bench.is_lent(ino).await);
            write(&bench.session, handle, 3000, &pattern(2, 2000)).await;
            assert!(bench.is_lent(ino).await);
            let whole = [pattern(1, 3000), pattern(2, 2000)].concat();
            assert_eq!(read(&bench.session, handle).await, whole);
            bench.session.release(handle).await.unwrap();
            bench.settle().await;
            assert_eq!(bench.form(ino).await, Form::Local);
            assert_eq!(bench.contents(ino).await, whole);
            // And back.
            let handle = bench.open(ino).await;
            let set = SetAttr { size: Some(10), ..SetAttr::default() };
            bench.session.setattr(&root(), ino, &set, Some(handle)).await.unwrap();
            bench.session.release(handle).await.unwrap();
            bench.settle().await;
            assert_eq!(bench.form(ino).await, Form::Inline);
            assert_eq!(bench.contents(ino).await, whole[..10]);
            bench.audit().await;
            bench.restart().await;
            assert_eq!(bench.contents(ino).await, whole[..10]);
        }
    });
}

#[test]
fn sizes_are_set_on_every_form() {
    on_bench(|bench| async move {
        for (at, len) in [0, 100, INLINE, INLINE + 1, 50_000].into_iter().enumerate() {
            for (to, size) in [0, 50, INLINE, INLINE + 1, 200_000].into_iter().enumerate() {
                for open in [false, true] {
                    let bytes = pattern(at as u8, len);
                    let name = format!("{at} {to} {open}");
                    let ino = bench.file(&name, &bytes).await;
                    let handle = if open { Some(bench.open(ino).await) } else { None };
                    let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
                    let attr = bench.session.setattr(&root(), ino, &set, handle).await.unwrap();
                    assert_eq!(attr.size, size as u64, "{name}");
                    assert_eq!(bench.session.getattr(ino).await.unwrap().size, size as u64);
                    let mut right = bytes.clone();
                    right.resize(size, 0);
                    assert_eq!(bench.contents(ino).await, right, "{name}");
                    if let Some(handle) = handle {
                        bench.session.release(handle).await.unwrap();
                    }
                    bench.settle().await;
                    assert_eq!(bench.contents(ino).await, right, "{name}");
                    assert_eq!(bench.record(ino).await.size, size as u64, "{name}");
                }
            }
        }
        bench.audit().await;
    });
}

#[test]
fn ranges_are_allocated_zeroed_and_punched_on_every_form() {
    on_bench(|bench| async move {
        let kinds = [
            Fallocate::Allocate { keep_size: false },
            Fallocate::Allocate { keep_size: true },
            Fallocate::ZeroRange { keep_size: false },
            Fallocate::ZeroRange { keep_size: true },
            Fallocate::PunchHole,
        ];
        for (number, kind) in kinds.into_iter().enumerate() {
            for len in [0, 1000, 9000] {
                for (offset, range) in [(100, 200), (500, 2000), (3000, 5000), (8000, 4000)] {
                    let bytes = pattern(3, len);
                    let name = format!("{number} {len} {offset}");
                    let ino = bench.file(&name, &bytes).await;
                    let handle = bench.open(ino).await;
                    bench.session.fallocate(&root(), handle, kind, offset, range).await.unwrap();
                    let (from, end) = (offset as usize, (offset + range) as usize);
                    let mut right = bytes.clone();
                    let grows = matches!(
                        kind,
                        Fallocate::Allocate { keep_size: false }
                            | Fallocate::ZeroRange { keep_size: false }
                    );
                    if grows && right.len() < end {
                        right.resize(end, 0);
                    }
                    if !matches!(kind, Fallocate::Allocate { .. }) {
                        let end = end.min(right.len());
                        right[from.min(end)..end].fill(0);
                    }
                    assert_eq!(read(&bench.session, handle).await, right, "{name}");
                    let end = bench.session.seek(handle, 0, Seek::Hole).await;
                    assert_eq!(end.is_ok(), !right.is_empty(), "{name}");
                    bench.session.release(handle).await.unwrap();
                    bench.settle().await;
                    assert_eq!(bench.contents(ino).await, right, "{name}");
                }
            }
        }
        bench.audit().await;
    });
}

#[test]
fn ranges_are_copied_between_all_forms() {
    on_bench(|mut bench| async move {
        // A mapped file is one from a session that lends nothing.
        let plain = SessionOptions { local: false, ..options() };
        bench.session = begin(&bench.volume, plain).await;
        let mut mapped = Vec::new();
        for name in ["mapped 1", "mapped 2"] {
            mapped.push(bench.file(name, &pattern(9, 20_000)).await);
            assert_eq!(bench.form(mapped[mapped.len() - 1]).await, Form::Mapped);
        }
        bench.die().await;
        for to_len in [0, 100, 9000, 20_000] {
            for from_len in [100, 9000, 20_000] {
                for known in [false, true] {
                    for len in [50, 5000, 20_000] {
                        let name = format!("{from_len} to {to_len}, {len}, {known}");
                        let from = match from_len {
                            20_000 => mapped[0],
                            _ => bench.file(&format!("f {name}"), &pattern(4, from_len)).await,
                        };
                        let to = match to_len {
                            20_000 => mapped[1],
                            _ => bench.file(&format!("t {name}"), &pattern(5, to_len)).await,
                        };
                        if !known {
                            bench.restart().await;
                        }
                        let source = bench.contents(from).await;
                        let mut right = bench.contents(to).await;
                        let (reader, writer) = (bench.open(from).await, bench.open(to).await);
                        let mut done = 0;
                        loop {
                            let (at, rest) = (10 + done, len - done);
                            let copied = bench
                                .session
                                .copy_range(&root(), reader, at, writer, 7 + done, rest)
                                .await
                                .unwrap();
                            if copied == 0 {
                                break;
                            }
                            done += copied;
                        }
                        let wanted = (len as usize).min(source.len() - 10);
                        assert_eq!(done as usize, wanted, "{name}");
                        if right.len() < 7 + wanted {
                            right.resize(7 + wanted, 0);
                        }
                        right[7..7 + wanted].copy_from_slice(&source[10..10 + wanted]);
                        assert_eq!(read(&bench.session, writer).await, right, "{name}");
                        bench.session.release(reader).await.unwrap();
                        bench.session.release(writer).await.unwrap();
                        bench.settle().await;
                        assert_eq!(bench.contents(to).await, right, "{name}");
                        assert_eq!(bench.contents(from).await, source, "{name}");
                    }
                }
            }
        }
        bench.audit().await;
    });
}

#[test]
fn a_volume_with_a_bound_or_parity_lends_nothing() {
    for bounded in [
        FormatOptions { capacity_bytes: 1 << 30, ..format() },
        FormatOptions { parity_group: 4, ..format() },
    ] {
        on_format(bounded, |bench| async move {
            let (ino, handle) = bench.make("f", &pattern(1, 100_000)).await;
            assert_eq!(bench.session.backing_id(handle), None);
            assert!(bench.backings().await.is_empty());
            bench.session.release(handle).await.unwrap();
            bench.settle().await;
            assert_eq!(bench.form(ino).await, Form::Mapped);
            bench.audit().await;
        });
    }
}

#[test]
fn a_file_that_is_written_anew_has_nothing_of_before() {
    on_bench(|bench| async move {
        for before in [0, 100, 9000] {
            for after in [0, 60, 7000] {
                for old_time in [false, true] {
                    let name = format!("{before} {after} {old_time}");
                    let ino = bench.file(&name, &pattern(1, before)).await;
                    let flags = OpenFlags { truncate: true, ..OpenFlags::READ_WRITE };
                    let handle = bench.session.open(&root(), ino, flags).await.unwrap();
                    assert_eq!(bench.session.getattr(ino).await.unwrap().size, 0);
                    write(&bench.session, handle, 0, &pattern(2, after)).await;
                    if old_time {
                        // The time that a file has which nobody has written to.
                        let set = SetAttr {
                            mtime: Some(SetTime::To(Time { secs: 1, nanos: 0 })),
                            ..SetAttr::default()
                        };
                        bench.session.setattr(&root(), ino, &set, None).await.unwrap();
                    }
                    bench.session.release(handle).await.unwrap();
                    bench.settle().await;
                    assert_eq!(bench.contents(ino).await, pattern(2, after), "{name}");
                    let attr = bench.session.getattr(ino).await.unwrap();
                    assert_eq!(attr.mtime.secs == 1, old_time, "{name}");
                }
            }
        }
        bench.audit().await;
    });
}
