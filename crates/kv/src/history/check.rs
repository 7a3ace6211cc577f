//! The checker: replays a history in the order of its versions and compares every answer.

use super::model::{self, Entry};
use super::timeline::Timeline;
use super::verdict::{Summary, Violation, Wrong};
use super::{History, Outcome, Record, Step};
use crate::{Key, KeyRange, Op, Query, Read, Version};
use std::collections::{BTreeMap, BTreeSet};

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A conflict may come for no reason, as under fault injection.
    pub spurious_conflicts: bool,
}

type Checked<T = ()> = Result<T, Violation>;

/// A record and the version at which it took effect, if it did.
struct Placed<'a> {
    record: &'a Record,
    version: Option<Version>,
    snapshot: Version,
    reads: Vec<KeyRange>,
    writes: Vec<KeyRange>,
}

/// Whether the history is strictly serializable and keeps the contract. The summary tells how much
/// was seen: a history in which nothing happened is right too.
pub fn check(history: &History, rules: Rules) -> Checked<Summary> {
    let placed = place(history)?;
    check_versions(&placed)?;
    check_real_time(&placed)?;

    let mut order: Vec<&Placed<'_>> = placed.iter().filter(|it| it.version.is_some()).collect();
    order.sort_by_key(|it| it.version);
    let mut timeline = Timeline::default();
    for it in &order {
        timeline.commit(it.version.unwrap_or_default(), it.record.ops());
    }

    let mut summary = Summary::default();
    for it in &placed {
        count(&mut summary, it);
        check_reads(&timeline, it, &mut summary)?;
        check_conflicts(it, &order, &placed, rules)?;
    }
    check_end(history, &placed, &timeline)?;
    Ok(summary)
}

/// Finds the version of every transaction that took effect.
fn place(history: &History) -> Checked<Vec<Placed<'_>>> {
    let mut placed = Vec::new();
    for record in &history.records {
        let Some(snapshot) = record.snapshot else {
            continue;
        };
        let secret = record.marker.as_ref().and_then(|marker| {
            let wrote = |op: &Op| matches!(op, Op::Put(key, _) if key == marker);
            let mut found = history.secret.iter().filter(|(ops, _)| ops.iter().any(wrote));
            found.next().map(|(_, version)| *version)
        });
        let version = match record.outcome {
            Outcome::Committed(version) if record.is_read_only() => {
                if version != snapshot {
                    return Err(violation(
                        Wrong::VersionOrder,
                        record,
                        format!("wrote nothing, read {snapshot} and says it was at {version}"),
                    ));
                }
                None
            }
            Outcome::Committed(version) => Some(version),
            Outcome::Unknown => secret,
            _ if secret.is_some() => {
                let text = "did commit although it was told otherwise".to_owned();
                return Err(violation(Wrong::Ghost, record, text));
            }
            _ => None,
        };
        placed.push(Placed {
            record,
            version,
            snapshot,
            reads: record.read_set(),
            writes: record.write_set(),
        });
    }
    Ok(placed)
}

fn check_versions(placed: &[Placed<'_>]) -> Checked {
    let mut seen: BTreeMap<Version, &Record> = BTreeMap::new();
    for it in placed {
        let Some(version) = it.version else { continue };
        if version <= it.snapshot {
            let text = format!("committed at {version}, but had read {}", it.snapshot);
            return Err(violation(Wrong::VersionOrder, it.record, text));
        }
        if let Some(other) = seen.insert(version, it.record) {
            let text = format!("has version {version}, which is also that of\n{other}");
            return Err(violation(Wrong::VersionTwice, it.record, text));
        }
    }
    Ok(())
}

/// Who begins after another's end must see what that one did and what it saw. That holds for an
/// unknown outcome too: it is settled when it is told.
fn check_real_time(placed: &[Placed<'_>]) -> Checked {
    let mut moments: BTreeMap<u64, (&Placed<'_>, bool)> = BTreeMap::new();
    for it in placed {
        moments.insert(it.record.begin, (it, true));
        moments.insert(it.record.end, (it, false));
    }
    let mut over: Option<(Version, &Record)> = None;
    for (it, begins) in moments.into_values() {
        if begins {
            if let Some((version, other)) = over
                && it.snapshot < version
            {
                let text = format!(
                    "began when version {version} was over, and reads {}; that was\n{other}",
                    it.snapshot
                );
                return Err(violation(Wrong::RealTime, it.record, text));
            }
        } else {
            let reached = it.version.unwrap_or_default().max(it.snapshot);
            if over.is_none_or(|(version, _)| version < reached) {
                over = Some((reached, it.record));
            }
        }
    }
    Ok(())
}

/// Every read shows the snapshot under the own writes; a serializable one of a transaction that took
/// effect shows as well what was there right before it did.
fn check_reads(timeline: &Timeline, it: &Placed<'_>, summary: &mut Summary) -> Checked {
    let mut own: Vec<&Op> = Vec::new();
    for step in &it.record.steps {
        let (query, read, page, more) = match step {
            Step::Op(op) => {
                own.push(op);
                continue;
            }
            Step::ReadConflict(_) | Step::WriteConflict(_) => continue,
            Step::Get { key, read, value } => {
                let query = Query::new(KeyRange::point(key));
                let found = value.iter().map(|value| (key.clone(), value.clone()));
                (query, *read, found.collect::<Vec<_>>(), false)
            }
            Step::Range { query, read, entries, more } => {
                (query.clone(), *read, entries.clone(), *more)
            }
        };
        summary.reads += 1;
        let truth = view(timeline, it.snapshot, &own, &query);
        if !model::is_page_of(&truth, &query, &page, more) {
            let text = format!("{step:?}, where the snapshot {} has {truth:?}", it.snapshot);
            return Err(violation(Wrong::SnapshotRead, it.record, text));
        }
        let (Some(version), Read::Serializable) = (it.version, read) else {
            continue;
        };
        let truth = view(timeline, version - 1, &own, &query);
        if !model::is_page_of(&truth, &query, &page, more) {
            let text = format!("{step:?}, where right before {version} there was {truth:?}");
            return Err(violation(Wrong::NotSerializable, it.record, text));
        }
    }
    Ok(())
}

fn view(timeline: &Timeline, at: Version, own: &[&Op], query: &Query) -> Vec<Entry> {
    let mut map = timeline.at(at, &query.range);
    for op in own {
        model::apply(&mut map, op);
    }
    model::select(&map, query)
}

/// Whoever committed had no reason to conflict; whoever conflicted had one.
fn check_conflicts(
    it: &Placed<'_>,
    order: &[&Placed<'_>],
    placed: &[Placed<'_>],
    rules: Rules,
) -> Checked {
    let hit = |other: &Placed<'_>| {
        let overlaps = |write: &KeyRange| it.reads.iter().any(|read| read.overlaps(write));
        other.writes.iter().any(overlaps)
    };
    let first = order.partition_point(|other| other.version <= Some(it.snapshot));
    let mut later = order[first..].iter();
    if let Some(version) = it.version {
        let mut between = later.take_while(|other| other.version < Some(version));
        if let Some(other) = between.find(|other| hit(other)) {
            let text =
                format!("committed although it had read what was written by\n{}", other.record);
            return Err(violation(Wrong::MissedConflict, it.record, text));
        }
        return Ok(());
    }
    if it.record.outcome != Outcome::Conflict || rules.spurious_conflicts {
        return Ok(());
    }
    // One that changed nothing and was not told its outcome has left no trace by which to place it.
    let mut untold = placed
        .iter()
        .filter(|other| other.record.outcome == Outcome::Unknown && other.record.marker.is_none());
    let before = |other: &Placed<'_>| other.record.begin < it.record.end;
    if later.any(|other| hit(other) && before(other))
        || untold.any(|other| hit(other) && before(other))
    {
        return Ok(());
    }
    let text = "conflicts with nothing that was written after its snapshot".to_owned();
    Err(violation(Wrong::SpuriousConflict, it.record, text))
}

fn check_end(history: &History, placed: &[Placed<'_>], timeline: &Timeline) -> Checked {
    let there: BTreeSet<&Key> = history.end.iter().map(|(key, _)| key).collect();
    for it in placed {
        let Some(marker) = &it.record.marker else {
            continue;
        };
        let found = there.contains(marker);
        match (found, it.version) {
            (true, None) => {
                let text = format!("is not known to have committed, and {marker:?} is there");
                return Err(violation(Wrong::Ghost, it.record, text));
            }
            (false, Some(version)) => {
                let text = format!("committed at {version}, and {marker:?} is gone");
                return Err(violation(Wrong::Lost, it.record, text));
            }
            _ => {}
        }
    }
    let wanted: Vec<Entry> =
        timeline.latest().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    if wanted != history.end {
        let odd = |these: &[Entry], those: &[Entry]| -> Vec<Entry> {
            let odd = these.iter().filter(|entry| !those.contains(entry));
            odd.cloned().collect()
        };
        let text = format!(
            "the end lacks {:?} and has {:?} instead",
            odd(&wanted, &history.end),
            odd(&history.end, &wanted)
        );
        return Err(Violation::new(Wrong::End, text));
    }
    Ok(())
}

fn count(summary: &mut Summary, it: &Placed<'_>) {
    match it.record.outcome {
        Outcome::Committed(_) if it.version.is_none() => summary.read_only += 1,
        Outcome::Committed(_) => summary.committed += 1,
        Outcome::Conflict => summary.conflicts += 1,
        Outcome::Failed(_) | Outcome::Abandoned => summary.failed += 1,
        Outcome::Unknown if it.version.is_some() => summary.unknown_committed += 1,
        Outcome::Unknown => summary.unknown_lost += 1,
    }
}

fn violation(wrong: Wrong, record: &Record, text: String) -> Violation {
    Violation::new(wrong, format!("{text}\nin\n{record}"))
}
