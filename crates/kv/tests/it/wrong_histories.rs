//! A checker that cannot fail is worth nothing: histories made by hand, right ones that it must
//! accept and, for each way to be wrong, one that it must reject for that reason.

use bytes::Bytes;
use kv::history::{History, Outcome, Record, Rules, Step, Wrong, check};
use kv::{AtomicOp, ErrorKind, Key, KeyRange, Op, Query, Read, Version};

const HONEST: Rules = Rules { spurious_conflicts: false };

fn key(text: &str) -> Key {
    Key::new(text.as_bytes())
}

fn value(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(at: &str, to: &str) -> Step {
    Step::Op(Op::Put(key(at), value(to)))
}

fn delete(at: &str) -> Step {
    Step::Op(Op::Delete(key(at)))
}

fn get_as(at: &str, found: Option<&str>, read: Read) -> Step {
    Step::Get { key: key(at), read, value: found.map(value) }
}

fn get(at: &str, found: Option<&str>) -> Step {
    get_as(at, found, Read::Serializable)
}

fn entries(list: &[(&str, &str)]) -> Vec<(Key, Bytes)> {
    list.iter().map(|(at, to)| (key(at), value(to))).collect()
}

fn range(query: Query, found: &[(&str, &str)], more: bool) -> Step {
    Step::Range { query, read: Read::Serializable, entries: entries(found), more }
}

fn all() -> Query {
    Query::new(KeyRange::all())
}

/// Adds transactions one after the other or, between `together`, all at once.
#[derive(Default)]
struct Story {
    history: History,
    now: u64,
}

impl Story {
    fn at(&mut self, begin: u64, end: u64, snapshot: Version, steps: Vec<Step>, outcome: Outcome) {
        self.now = self.now.max(end + 1);
        self.history.records.push(Record {
            task: self.history.records.len() as u32,
            begin,
            end,
            snapshot: Some(snapshot),
            steps,
            outcome,
            marker: None,
        });
    }

    /// Begins and ends before the next one.
    fn then(mut self, snapshot: Version, steps: Vec<Step>, outcome: Outcome) -> Self {
        let now = self.now;
        self.at(now, now + 1, snapshot, steps, outcome);
        self
    }

    /// All of these overlap in time.
    fn together<const N: usize>(mut self, each: [(Version, Vec<Step>, Outcome); N]) -> Self {
        let (now, count) = (self.now, N as u64);
        for (index, (snapshot, steps, outcome)) in each.into_iter().enumerate() {
            let index = index as u64;
            self.at(now + index, now + count + index, snapshot, steps, outcome);
        }
        self
    }

    /// The last one wrote this marker.
    fn marked(mut self, marker: &str) -> Self {
        let last = self.history.records.last_mut().unwrap();
        last.marker = Some(key(marker));
        last.steps.push(put(marker, ""));
        self
    }

    fn secretly(mut self, ops: Vec<Op>, version: Version) -> Self {
        self.history.secret.push((ops, version));
        self
    }

    fn ends(mut self, end: &[(&str, &str)]) -> History {
        self.history.end = entries(end);
        self.history
    }
}

fn story() -> Story {
    Story::default()
}

#[track_caller]
fn accept(history: &History) {
    if let Err(violation) = check(history, HONEST) {
        panic!("{violation}");
    }
}

#[track_caller]
fn reject(history: &History, wrong: Wrong) {
    match check(history, HONEST) {
        Ok(summary) => panic!("accepted, must be {wrong:?}: {summary}"),
        Err(violation) => assert_eq!(violation.wrong, wrong, "{violation}"),
    }
}

use Outcome::{Abandoned, Committed, Conflict, Unknown};

#[test]
fn right_histories_are_accepted() {
    accept(&story().ends(&[]));
    accept(
        &story()
            .then(0, vec![get("k", None), put("k", "1"), get("k", Some("1"))], Committed(1))
            .then(1, vec![get("k", Some("1"))], Committed(1))
            .then(
                1,
                vec![Step::Op(Op::Atomic(key("n"), AtomicOp::Add(2))), delete("k")],
                Committed(5),
            )
            .then(5, vec![range(all(), &[("n", "\x02\0\0\0\0\0\0\0")], false)], Abandoned)
            .ends(&[("n", "\x02\0\0\0\0\0\0\0")]),
    );
    // A conflict that is one.
    accept(
        &story()
            .together([
                (0, vec![get("k", None), put("k", "1")], Committed(1)),
                (0, vec![get("k", None), put("k", "2")], Conflict),
            ])
            .ends(&[("k", "1")]),
    );
    // Write skew that was asked for.
    let skew = |at: &str, other: &str| vec![get_as(other, None, Read::Snapshot), put(at, "1")];
    accept(
        &story()
            .together([(0, skew("x", "y"), Committed(1)), (0, skew("y", "x"), Committed(2))])
            .ends(&[("x", "1"), ("y", "1")]),
    );
    // A write behind the last entry that a limited page showed.
    accept(
        &story()
            .then(0, vec![put("a", "1"), put("c", "1")], Committed(1))
            .together([
                (1, vec![put("b", "1"), delete("c")], Committed(2)),
                (1, vec![range(all().limit(1), &[("a", "1")], true), put("z", "")], Committed(3)),
            ])
            .ends(&[("a", "1"), ("b", "1"), ("z", "")]),
    );
    // Blind writes and own writes that were read back.
    accept(
        &story()
            .together([
                (0, vec![put("k", "1")], Committed(1)),
                (0, vec![put("k", "2"), get("k", Some("2"))], Committed(2)),
            ])
            .ends(&[("k", "2")]),
    );
}

#[test]
fn a_lost_update_is_rejected() {
    let update = |to: &str| vec![get("k", None), put("k", to)];
    reject(
        &story()
            .together([(0, update("1"), Committed(1)), (0, update("2"), Committed(2))])
            .ends(&[("k", "2")]),
        Wrong::NotSerializable,
    );
    // In vain or not, it had to conflict: nobody can tell by the values.
    let same = || vec![get("k", None), delete("k")];
    reject(
        &story().together([(0, same(), Committed(1)), (0, same(), Committed(2))]).ends(&[]),
        Wrong::MissedConflict,
    );
}

#[test]
fn write_skew_is_rejected() {
    let skew = |at: &str| vec![get("x", None), get("y", None), put(at, "1")];
    reject(
        &story()
            .together([(0, skew("x"), Committed(1)), (0, skew("y"), Committed(2))])
            .ends(&[("x", "1"), ("y", "1")]),
        Wrong::NotSerializable,
    );
}

#[test]
fn phantoms_are_rejected() {
    for reverse in [false, true] {
        let mut query = all();
        query.reverse = reverse;
        // One that appears.
        reject(
            &story()
                .together([
                    (0, vec![put("k", "1")], Committed(1)),
                    (0, vec![range(query.clone(), &[], false), put("z", "")], Committed(2)),
                ])
                .ends(&[("k", "1"), ("z", "")]),
            Wrong::NotSerializable,
        );
        // One that goes.
        reject(
            &story()
                .then(0, vec![put("k", "1")], Committed(1))
                .together([
                    (1, vec![Step::Op(Op::DeleteRange(KeyRange::all()))], Committed(2)),
                    (1, vec![range(query, &[("k", "1")], false), put("z", "")], Committed(3)),
                ])
                .ends(&[("z", "")]),
            Wrong::NotSerializable,
        );
    }
    // One that appears before the last entry of a limited page.
    reject(
        &story()
            .then(0, vec![put("b", "1"), put("c", "1")], Committed(1))
            .together([
                (1, vec![put("a", "1")], Committed(2)),
                (1, vec![range(all().limit(1), &[("b", "1")], true), put("z", "")], Committed(3)),
            ])
            .ends(&[("a", "1"), ("b", "1"), ("c", "1"), ("z", "")]),
        Wrong::NotSerializable,
    );
}

#[test]
fn a_stale_read_is_rejected() {
    for read in [Read::Serializable, Read::Snapshot] {
        // It says that it reads version 2 and shows version 1.
        reject(
            &story()
                .then(0, vec![put("k", "1")], Committed(1))
                .then(1, vec![put("k", "2")], Committed(2))
                .then(2, vec![get_as("k", Some("1"), read)], Committed(2))
                .ends(&[("k", "2")]),
            Wrong::SnapshotRead,
        );
    }
}

#[test]
fn a_read_of_the_future_is_rejected() {
    reject(
        &story()
            .together([
                (0, vec![put("k", "1")], Committed(1)),
                (0, vec![get_as("k", Some("1"), Read::Snapshot)], Abandoned),
            ])
            .ends(&[("k", "1")]),
        Wrong::SnapshotRead,
    );
}

#[test]
fn a_dirty_read_is_rejected() {
    for outcome in [Abandoned, Outcome::Failed(ErrorKind::Unavailable), Unknown] {
        reject(
            &story()
                .together([
                    (0, vec![put("k", "dirty")], outcome),
                    (0, vec![get("k", Some("dirty")), put("z", "")], Committed(1)),
                ])
                .ends(&[("z", "")]),
            Wrong::SnapshotRead,
        );
    }
    // Half of a transaction is dirty too.
    reject(
        &story()
            .then(0, vec![put("a", "1"), put("b", "1")], Committed(1))
            .then(1, vec![range(all(), &[("a", "1")], false)], Committed(1))
            .ends(&[("a", "1"), ("b", "1")]),
        Wrong::SnapshotRead,
    );
}

#[test]
fn real_time_is_kept() {
    // It began after the commit had returned, and reads what was before.
    reject(
        &story()
            .then(0, vec![put("k", "1")], Committed(1))
            .then(0, vec![get("k", None)], Committed(0))
            .ends(&[("k", "1")]),
        Wrong::RealTime,
    );
    // Another had already seen it, although the commit has not returned.
    let mut seen = story();
    seen.at(0, 9, 0, vec![put("k", "1")], Committed(1));
    seen.at(1, 2, 1, vec![get("k", Some("1"))], Committed(1));
    seen.at(3, 4, 0, vec![get("k", None)], Committed(0));
    reject(&seen.ends(&[("k", "1")]), Wrong::RealTime);
    // An unknown outcome is settled when it is told.
    reject(
        &story()
            .then(0, vec![], Unknown)
            .marked("m")
            .secretly(vec![Op::Put(key("m"), value(""))], 1)
            .then(0, vec![], Committed(0))
            .ends(&[("m", "")]),
        Wrong::RealTime,
    );
}

#[test]
fn versions_must_make_sense() {
    let blind = |at: &str| vec![put(at, "1")];
    reject(
        &story()
            .together([(0, blind("a"), Committed(1)), (0, blind("b"), Committed(1))])
            .ends(&[("a", "1"), ("b", "1")]),
        Wrong::VersionTwice,
    );
    reject(&story().then(3, blind("a"), Committed(3)).ends(&[("a", "1")]), Wrong::VersionOrder);
    reject(&story().then(3, vec![get("a", None)], Committed(4)).ends(&[]), Wrong::VersionOrder);
}

#[test]
fn own_writes_must_be_seen() {
    reject(
        &story().then(0, vec![put("k", "1"), get("k", None)], Abandoned).ends(&[]),
        Wrong::SnapshotRead,
    );
    reject(
        &story()
            .then(0, vec![put("k", "1")], Committed(1))
            .then(1, vec![delete("k"), range(all(), &[("k", "1")], false)], Abandoned)
            .ends(&[("k", "1")]),
        Wrong::SnapshotRead,
    );
}

/// What was asked, what came back, and whether there was said to be more.
type Answer<'a> = (Query, &'a [(&'a str, &'a str)], bool);

#[test]
fn wrong_pages_are_rejected() {
    let wrong: [Answer<'_>; 8] = [
        (all(), &[("a", "1"), ("c", "1")], false),
        (all(), &[("a", "1"), ("b", "1")], false),
        (all(), &[], true),
        (all(), &[("b", "1"), ("a", "1"), ("c", "1")], false),
        (all(), &[("a", "1"), ("a", "1")], true),
        (all().reverse(), &[("a", "1")], true),
        (all().limit(1), &[("a", "1"), ("b", "1")], true),
        (Query::new(KeyRange::new(b"b", b"c")), &[("b", "1"), ("c", "1")], false),
    ];
    for (query, found, more) in wrong {
        reject(
            &story()
                .then(0, vec![put("a", "1"), put("b", "1"), put("c", "1")], Committed(1))
                .then(1, vec![range(query, found, more)], Abandoned)
                .ends(&[("a", "1"), ("b", "1"), ("c", "1")]),
            Wrong::SnapshotRead,
        );
    }
}

#[test]
fn explicit_conflicts_count() {
    let range = || KeyRange::new(b"a", b"l");
    reject(
        &story()
            .together([
                (0, vec![put("k", "1")], Committed(1)),
                (0, vec![Step::ReadConflict(range()), put("z", "")], Committed(2)),
            ])
            .ends(&[("k", "1"), ("z", "")]),
        Wrong::MissedConflict,
    );
    reject(
        &story()
            .together([
                (0, vec![Step::WriteConflict(range())], Committed(1)),
                (0, vec![get("k", None), put("z", "")], Committed(2)),
            ])
            .ends(&[("z", "")]),
        Wrong::MissedConflict,
    );
}

#[test]
fn a_conflict_needs_a_reason() {
    let history = story()
        .together([
            (0, vec![put("j", "1")], Committed(1)),
            (0, vec![get("k", None), put("z", "")], Conflict),
        ])
        .ends(&[("j", "1")]);
    reject(&history, Wrong::SpuriousConflict);
    let faulty = Rules { spurious_conflicts: true };
    assert_eq!(check(&history, faulty).map(|summary| summary.conflicts), Ok(1));
}

#[test]
fn ghosts_and_losses_are_rejected() {
    for outcome in [Conflict, Abandoned, Outcome::Failed(ErrorKind::TooOld), Unknown] {
        let rules = Rules { spurious_conflicts: true };
        let ghost = story().then(0, vec![], outcome).marked("m").ends(&[("m", "")]);
        let found = check(&ghost, rules).map_err(|violation| violation.wrong);
        assert_eq!(found.err(), Some(Wrong::Ghost), "{outcome:?}");
    }
    let secret = || vec![Op::Put(key("m"), value(""))];
    reject(
        &story().then(0, vec![], Conflict).marked("m").secretly(secret(), 1).ends(&[("m", "")]),
        Wrong::Ghost,
    );
    reject(&story().then(0, vec![], Committed(1)).marked("m").ends(&[]), Wrong::Lost);
    reject(
        &story().then(0, vec![], Unknown).marked("m").secretly(secret(), 1).ends(&[]),
        Wrong::Lost,
    );
    // And the two that are right.
    accept(&story().then(0, vec![], Unknown).marked("m").ends(&[]));
    accept(&story().then(0, vec![], Unknown).marked("m").secretly(secret(), 1).ends(&[("m", "")]));
}

#[test]
fn the_end_must_add_up() {
    let add = || vec![Step::Op(Op::Atomic(key("n"), AtomicOp::Add(1)))];
    let both = || story().together([(0, add(), Committed(1)), (0, add(), Committed(2))]);
    accept(&both().ends(&[("n", "\x02\0\0\0\0\0\0\0")]));
    reject(&both().ends(&[("n", "\x01\0\0\0\0\0\0\0")]), Wrong::End);
    reject(&both().ends(&[]), Wrong::End);
    reject(&story().ends(&[("k", "from nowhere")]), Wrong::End);
}
