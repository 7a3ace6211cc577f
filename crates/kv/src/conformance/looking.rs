//! Looking at the store itself, and committing what was done so: only for engines that offer it.

use super::bench::{Bench, assert_conflict, begin, everything, number, peek, put, write};
use crate::{AtomicOp, Commit, Durability, Engine, ErrorKind, Key, KeyRange, Op, Store, Version};
use base::block_on;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A store whose engine can be looked at; `None`, and said so, when it cannot.
fn looking(bench: &Bench<'_>) -> Option<Store> {
    let store = bench.store();
    if store.engine().newest().is_none() {
        bench.skip("newest is none: all transactions need a snapshot");
        return None;
    }
    Some(store)
}

fn newest(store: &Store) -> Version {
    store.engine().newest().expect("it can be looked at")
}

fn key(key: &[u8]) -> Key {
    Key::new(key)
}

fn set(name: &[u8], value: &[u8]) -> Op {
    Op::Put(key(name), Bytes::copy_from_slice(value))
}

fn commit_of(ops: Vec<Op>) -> Commit {
    let (reads, writes) = (Vec::new(), Vec::new());
    Commit { reads, writes, ops, durability: Durability::Process, frees: false }
}

fn alone(store: &Store, at: Version, ops: Vec<Op>) -> crate::Result<Version> {
    block_on(store.engine().commit_alone(at, commit_of(ops)))
}

fn at(store: &Store, version: Version, commit: Commit) -> crate::Result<Version> {
    block_on(store.engine().commit_at(version, commit))
}

/// It is the version of the last commit, and moves with each; reading moves nothing.
pub(super) fn newest_is_the_last_commit(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    assert_eq!(newest(&store), begin(&store).version());
    for round in 0..50u8 {
        let version = write(&store, |txn| put(txn, b"k", &[round]));
        assert_eq!(newest(&store), version);
        assert_eq!(begin(&store).version(), version);
        assert_eq!(
            store.engine().look(version, b"k").expect("a look").as_deref(),
            Some(&[round][..])
        );
        assert_eq!(newest(&store), version, "a look is no commit");
    }
}

/// Everything that a snapshot of that version shows, whatever was done to it, and wherever the engine has it by now.
pub(super) fn a_look_is_what_a_snapshot_shows(bench: &Bench<'_>) {
    const COUNT: u32 = 3_000;
    let Some(store) = looking(bench) else { return };
    let name = |index: u32| format!("key {index:05}").into_bytes();
    for index in 0..COUNT {
        write(&store, |txn| match index % 7 {
            5 => txn.delete(&name(index / 2)).expect("a delete is taken"),
            6 => {
                let range = KeyRange::new(&name(index / 3), &name(index / 3 + 2));
                txn.delete_range(&range).expect("a delete is taken");
            }
            _ => put(txn, &name(index), &index.to_le_bytes().repeat(20)),
        });
    }
    let now = newest(&store);
    let all = everything(&store);
    let mut there = all.iter().peekable();
    for index in 0..COUNT {
        let end = name(index + 1 + index % 5);
        let name = name(index);
        let shown = there.next_if(|(key, _)| **key == name[..]).map(|(_, value)| value.clone());
        let seen = store.engine().look(now, &name).expect("a look");
        assert_eq!(seen.as_deref(), shown.as_deref(), "{index}");
        let wide = KeyRange::new(&name, &end);
        let any = all.iter().any(|(key, _)| wide.contains(key));
        assert_eq!(store.engine().look_any(now, &wide).expect("a look"), any, "{index}");
    }
}

/// Also when what is looked at is not what has changed.
pub(super) fn a_look_at_a_version_that_is_over_conflicts(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    let first = write(&store, |txn| put(txn, b"k", b"v"));
    write(&store, |txn| put(txn, b"other", b"v"));
    for version in [first, first - 1, newest(&store) + 1] {
        let seen = store.engine().look(version, b"k");
        assert_eq!(seen.expect_err("it is over").kind(), ErrorKind::Conflict, "{version}");
        let any = store.engine().look_any(version, &KeyRange::all());
        assert_eq!(any.expect_err("it is over").kind(), ErrorKind::Conflict, "{version}");
    }
}

/// It conflicts with what it says that it has read, and with nothing else.
pub(super) fn commits_of_what_was_looked_at_conflict_by_their_reads(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    write(&store, |txn| put(txn, b"k", b"v"));
    let before = newest(&store);
    write(&store, |txn| put(txn, b"k", b"w"));
    let reading = |name: &[u8], value: &[u8]| Commit {
        reads: vec![KeyRange::point(name)],
        ..commit_of(vec![set(b"mine", value)])
    };
    assert_conflict(at(&store, before, reading(b"k", b"1")), "it changed");
    assert_eq!(peek(&store, b"mine"), None);
    let done = at(&store, before, reading(b"another", b"2")).expect("nothing changed there");
    assert_eq!(done, newest(&store));
    assert_eq!(peek(&store, b"mine").as_deref(), Some(&b"2"[..]));
}

/// It needs no reads to conflict: any commit between is one, whatever it was about, and whoever made it. Then nothing
/// of it is there.
pub(super) fn who_commits_alone_conflicts_with_everybody(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    type Between = fn(&Store) -> Version;
    let others: [(&str, Between); 5] = [
        ("a write elsewhere", |store| write(store, |txn| put(txn, b"far", b"v"))),
        ("a counter", |store| write(store, |txn| txn.add(b"n", 1).expect("an add"))),
        ("a deletion of nothing", |store| {
            write(store, |txn| txn.delete(b"nothing").expect("a delete"))
        }),
        ("a conflict range", |store| {
            write(store, |txn| txn.write_conflict(&KeyRange::point(b"far")).expect("a range"))
        }),
        ("another alone", |store| {
            alone(store, newest(store), vec![set(b"far", b"w")]).expect("it is alone")
        }),
    ];
    for (name, other) in others {
        let before = newest(&store);
        other(&store);
        let after = everything(&store);
        let ops =
            vec![set(b"k", b"v"), Op::Delete(key(b"far")), Op::Atomic(key(b"n"), AtomicOp::Add(5))];
        assert_conflict(alone(&store, before, ops), name);
        assert_eq!(everything(&store), after, "{name}");
    }
    // A version that is not there yet is not the newest either.
    assert_conflict(alone(&store, newest(&store) + 1, vec![set(b"k", b"v")]), "the future");
}

/// It is there, at the next version, and a conflict between takes none.
pub(super) fn who_commits_alone_and_is_alone_commits(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    let old = begin(&store);
    for round in 0..100u8 {
        let before = newest(&store);
        let version = alone(&store, before, vec![set(&[b'k', round], &[round])]).expect("alone");
        assert!(version > before && version == newest(&store), "round {round}");
        assert_conflict(alone(&store, before, vec![set(b"late", b"")]), round);
        assert_eq!(newest(&store), version, "a conflict is no commit");
        assert_eq!(peek(&store, &[b'k', round]).as_deref(), Some(&[round][..]));
    }
    let mut old = old;
    let seen = super::bench::get(&mut old, b"k\0", crate::Read::Snapshot);
    assert_eq!(seen, None, "who looked before sees nothing of it");
}

/// Transactions that have read what it wrote conflict, and others do not.
pub(super) fn transactions_conflict_with_who_was_alone(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    for (read, conflicts) in [(&b"k"[..], true), (b"gone", true), (b"n", true), (b"other", false)] {
        write(&store, |txn| put(txn, b"gone", b"v"));
        let mut txn = begin(&store);
        super::bench::get(&mut txn, read, crate::Read::Serializable);
        put(&mut txn, b"mine", b"v");
        let count = Op::Atomic(key(b"n"), AtomicOp::Add(1));
        let ops = vec![set(b"k", b"w"), Op::Delete(key(b"gone")), count];
        alone(&store, newest(&store), ops).expect("nobody else commits");
        let outcome = super::bench::commit(txn);
        if conflicts {
            assert_conflict(outcome, read);
        } else {
            super::bench::assert_commits(outcome, read);
        }
    }
}

/// Operations count in their order, also on one key and with others between, and what an atomic one meets is what
/// those before it left.
pub(super) fn who_commits_alone_is_applied_in_order(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    let add = |name: &[u8], by| Op::Atomic(key(name), AtomicOp::Add(by));
    let max = |name: &[u8], by| Op::Atomic(key(name), AtomicOp::Max(by));
    let clear = |name: &[u8], value: u64| {
        Op::Atomic(
            key(name),
            AtomicOp::CompareAndClear(Bytes::copy_from_slice(&value.to_le_bytes())),
        )
    };
    let ten = 10u64.to_le_bytes();
    let number_of = |store: &Store| peek(store, b"n").map(|_| number(store, b"n"));
    let cases: Vec<(&str, Vec<Op>, Option<u64>)> = vec![
        ("an add to what is there", vec![add(b"n", 5)], Some(15)),
        ("adds in a row", vec![add(b"n", 1), add(b"n", 2), max(b"n", 7)], Some(13)),
        ("an add behind a put", vec![set(b"n", &[1]), add(b"n", 2)], Some(3)),
        (
            "an add behind a put and another",
            vec![set(b"n", &[1]), set(b"x", b""), add(b"n", 2)],
            Some(3),
        ),
        ("adds with others between", vec![add(b"n", 1), add(b"m", 9), add(b"n", 2)], Some(13)),
        (
            "an add behind a deletion",
            vec![Op::Delete(key(b"n")), set(b"x", b""), add(b"n", 2)],
            Some(2),
        ),
        (
            "an add behind a deletion of a range",
            vec![Op::DeleteRange(KeyRange::new(b"a", b"z")), add(b"n", 2)],
            Some(2),
        ),
        ("a put behind an add", vec![add(b"n", 1), set(b"n", &ten)], Some(10)),
        ("a deletion behind an add", vec![add(b"n", 1), Op::Delete(key(b"n"))], None),
        ("the greater", vec![max(b"n", 7)], Some(10)),
        ("what is compared and cleared", vec![clear(b"n", 10)], None),
        ("what is compared and not cleared", vec![clear(b"n", 11)], Some(10)),
        ("what was added is compared", vec![add(b"n", 1), set(b"x", b""), clear(b"n", 11)], None),
    ];
    for (name, ops, right) in cases {
        write(&store, |txn| put(txn, b"n", &ten));
        alone(&store, newest(&store), ops).expect("nobody else commits");
        assert_eq!(number_of(&store), right, "{name}");
    }
}

/// Both levels are taken.
pub(super) fn who_commits_alone_may_be_synced(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    for (round, durability) in [Durability::Process, Durability::Synced].into_iter().enumerate() {
        for frees in [false, true] {
            let ops = vec![set(b"k", &[round as u8])];
            let commit = Commit { durability, frees, ..commit_of(ops) };
            let at = newest(&store);
            let version = block_on(store.engine().commit_alone(at, commit)).expect("alone");
            assert_eq!(version, newest(&store));
            assert_eq!(peek(&store, b"k").as_deref(), Some(&[round as u8][..]));
        }
    }
}

/// Of every kind of change; and not before it is there.
pub(super) fn who_commits_alone_wakes_watchers(bench: &Bench<'_>) {
    let Some(store) = looking(bench) else { return };
    let changes: [(&str, Op); 4] = [
        ("put", set(b"k", b"w")),
        ("delete", Op::Delete(key(b"k"))),
        ("delete range", Op::DeleteRange(KeyRange::new(b"j", b"l"))),
        ("add", Op::Atomic(key(b"k"), AtomicOp::Add(1))),
    ];
    for (name, change) in changes {
        write(&store, |txn| put(txn, b"k", b"v"));
        let since = newest(&store);
        let watch = block_on(store.engine().watch(&key(b"k"), since)).expect("a watch");
        alone(&store, since, vec![set(b"before", name.as_bytes()), change]).expect("alone");
        block_on(watch).expect("it is woken");
        assert_eq!(peek(&store, b"before").as_deref(), Some(name.as_bytes()), "{name}");
    }
}

/// Many threads, each of which looks and commits alone, and transactions beside them: every unit is counted once, and
/// nobody sees a part of a commit.
pub(super) fn who_commits_alone_is_seen_whole_by_many_threads(bench: &Bench<'_>) {
    const THREADS: usize = 4;
    const EACH: u64 = 300;
    let Some(_) = looking(bench) else { return };
    let store = bench.store_in_real_time();
    let (lost, own) = (Arc::new(AtomicU64::new(0)), store.clone());
    let tally = Arc::clone(&lost);
    bench.on_threads(THREADS, move |thread| {
        for _ in 0..EACH {
            match thread {
                0 => by_transaction(&own),
                1 => assert_pair(&own),
                _ => {
                    tally.fetch_add(by_looking(&**own.engine()), Ordering::Relaxed);
                }
            }
        }
    });
    assert_eq!(number(&store, b"one"), THREADS as u64 * EACH);
    assert_eq!(number(&store, b"one"), number(&store, b"two"));
    println!("{} tries were not alone", lost.load(Ordering::Relaxed));
}

/// Raises both numbers by what was looked at; how often somebody else came between.
fn by_looking(engine: &dyn Engine) -> u64 {
    let read = |value: Option<Bytes>| {
        value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("eight bytes")))
    };
    let mut lost = 0;
    loop {
        let at = engine.newest().expect("it can be looked at");
        let both =
            engine.look(at, b"one").and_then(|one| Ok((read(one), read(engine.look(at, b"two")?))));
        let outcome = both.and_then(|(one, two)| {
            assert_eq!(one, two, "half of a commit");
            let ops =
                vec![set(b"one", &(one + 1).to_le_bytes()), set(b"two", &(two + 1).to_le_bytes())];
            block_on(engine.commit_alone(at, commit_of(ops)))
        });
        match outcome {
            Ok(_) => return lost,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
        }
        lost += 1;
    }
}

fn by_transaction(store: &Store) {
    let done = block_on(store.transact(Durability::Process, async |txn, _| {
        txn.add(b"one", 1)?;
        txn.add(b"two", 1)
    }));
    done.expect("it commits in the end");
}

fn assert_pair(store: &Store) {
    let mut txn = begin(store);
    let one = super::bench::get(&mut txn, b"one", crate::Read::Snapshot);
    let two = super::bench::get(&mut txn, b"two", crate::Read::Snapshot);
    assert_eq!(one, two, "half of a commit");
    by_transaction(store);
}
