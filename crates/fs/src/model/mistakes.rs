//! Whether the comparisons find planted mistakes, and whether what is drawn is worth comparing.

use super::action::{Action, Answer};
use super::target::{Stand, Wrong};
use super::{Callers, Mix, Model, Sizes, compare, race};
use crate::types::{Time, mode};
use crate::{Error, Kind, Result};
use base::{Random, SeededRandom, SimClock};

const NOW: Time = Time { secs: 100, nanos: 0 };

fn right(_: &mut Model, _: &Action, answer: Result<Answer>) -> Result<Answer> {
    answer
}

fn plan(steps: usize, mix: Mix) -> compare::Plan {
    let (sizes, callers) = (Sizes::default(), Callers::Checked);
    compare::Plan { steps, whole_every: 40, sizes, mix, callers }
}

fn compare_with(seed: u64, wrong: Wrong) -> Result<(), String> {
    let clock = SimClock::new();
    let mix = Mix::draw(&SeededRandom::new(seed));
    let plan = plan(400, mix);
    compare::simulate(&Stand::new(clock.clone(), wrong), &clock, seed, &plan).1
}

fn race_with(seed: u64, wrong: Wrong) -> Result<(), String> {
    let clock = SimClock::new();
    let stand = Stand::new(clock.clone(), wrong);
    let plan = race::Plan::draw(&SeededRandom::new(seed));
    race::run(&[stand.clone(), stand.clone(), stand], &clock, seed, &plan).1
}

#[test]
fn a_model_agrees_with_a_model() {
    for seed in 0..20 {
        compare_with(seed, right).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn an_atomic_tree_is_serial() {
    for seed in 0..300 {
        race_with(seed, right).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Mistakes that a core could make.
const MISTAKES: &[(&str, Wrong)] = &[
    ("an error of another kind", |_, action, answer| match (action, answer) {
        (Action::Rename { .. }, Err(error)) if error.kind() == Kind::NotEmpty => {
            Err(Error::new(Kind::Exists, ""))
        }
        (_, answer) => answer,
    }),
    ("a forgotten ctime", |model, action, answer| {
        if let (Action::Link { ino, .. }, Ok(_)) = (action, &answer) {
            model.inode_mut(*ino).unwrap().ctime = NOW;
        }
        answer
    }),
    ("a lost byte", |model, action, answer| {
        if let (Action::Write { handle, .. }, Ok(Answer::Count(1000..))) = (action, &answer) {
            let ino = model.open_file(handle.0).unwrap().ino;
            let size = model.getattr(ino).unwrap().size;
            model.sparse_mut(ino).unwrap().zero(size - 1, size);
        }
        answer
    }),
    ("a link too many", |model, action, answer| {
        if let (Action::Rmdir { parent, .. }, Ok(_)) = (action, &answer) {
            model.inode_mut(*parent).unwrap().nlink += 1;
        }
        answer
    }),
    ("an entry that is not listed", |_, action, answer| match (action, answer) {
        (Action::Readdir { .. }, Ok(Answer::Entries(mut entries))) if entries.len() > 4 => {
            entries.pop();
            Ok(Answer::Entries(entries))
        }
        (_, answer) => answer,
    }),
    ("a walk that skips", |_, action, answer| match (action, answer) {
        (Action::ReaddirPage { .. }, Ok(Answer::Entries(mut entries))) if entries.len() > 1 => {
            entries.remove(0);
            Ok(Answer::Entries(entries))
        }
        (_, answer) => answer,
    }),
    ("a setuid bit that stays", |model, action, answer| {
        if let (Action::SetAttr { ino, set, .. }, Ok(_)) = (action, &answer)
            && set.uid.is_some()
        {
            model.inode_mut(*ino).unwrap().mode |= mode::SETUID;
        }
        answer
    }),
    ("an attribute that changes", |model, action, answer| {
        if let (Action::SetXattr { ino, name, .. }, Ok(_)) = (action, &answer) {
            model.inode_mut(*ino).unwrap().xattrs.insert(name.clone(), "x".into());
        }
        answer
    }),
    ("a failing store", |_, action, answer| match action {
        Action::Tmpfile { .. } => Err(Error::new(Kind::Io, "gone")),
        _ => answer,
    }),
];

#[test]
fn every_mistake_is_found() {
    for (name, wrong) in MISTAKES {
        let found = (0..8).any(|seed| compare_with(seed, *wrong).is_err());
        assert!(found, "{name}");
    }
}

#[test]
fn answers_that_no_order_explains_are_found() {
    let mistakes: [(&str, Wrong); 3] = [
        ("an exclusive name made twice", |model, action, answer| match (action, answer) {
            (Action::Mkdir { caller, parent, name, .. }, Err(error))
                if error.kind() == Kind::Exists =>
            {
                model.lookup(caller, *parent, name).map(Answer::Attr).map_err(|_| error)
            }
            (_, answer) => answer,
        }),
        ("a rename that leaves the old name", |model, action, answer| {
            if let (Action::Rename { parent, name, new_parent, new_name, flags, .. }, Ok(_)) =
                (action, &answer)
                && !flags.exchange
                && let Some(ino) = model.child(*new_parent, new_name)
                && let Ok(names) = model.names_mut(*parent)
            {
                names.insert(name.clone(), ino);
            }
            answer
        }),
        ("a link that is not counted", |model, action, answer| {
            if let (Action::Link { ino, .. }, Ok(_)) = (action, &answer) {
                model.inode_mut(*ino).unwrap().nlink -= 1;
            }
            answer
        }),
    ];
    for (name, wrong) in mistakes {
        let found = (0..200).any(|seed| race_with(seed, wrong).is_err());
        assert!(found, "{name}");
    }
}

/// The draw is worth something only if all kinds of actions come, and many succeed.
#[test]
fn actions_succeed_often_enough() {
    use std::collections::BTreeMap;
    let mut counts: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for seed in 0..20 {
        let random = SeededRandom::new(seed);
        let mut model = Model::empty();
        for step in 0..500 {
            let action = Action::random(&random, &model, &plan(500, Mix::Everything));
            let now = Time { secs: step, nanos: random.below(1000) as u32 };
            let answer = action.apply(&mut model, &Err(Kind::Io), now);
            let text = format!("{action:?}");
            let name = text.split([' ', '{']).next().unwrap().to_owned();
            let (good, all) = counts.entry(name).or_default();
            *good += u32::from(answer.is_ok());
            *all += 1;
        }
    }
    assert_eq!(counts.len(), 35, "{counts:?}");
    for (name, (good, all)) in &counts {
        assert!(*good >= 15 && all / 12 <= *good, "{name}: {counts:?}");
    }
}
