//! Damage of a file of the home, which has no checksum: what may be wrong then is what is in that file alone.
//! Names, attributes and all other files stay right, and another size, or a file that is lost, is told.

use crate::life::Story;
use crate::life::machine::Machine;
use crate::life::picture::Picture;
use crate::life::stack::Stack;
use std::collections::BTreeMap;

/// What became of the damages.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) damages: u64,
    pub(super) free: u64,
    pub(super) found: u64,
    pub(super) errors: u64,
    pub(super) silent: u64,
}

/// Who has a file of the home.
#[derive(Debug)]
pub(super) struct Owner {
    /// All of its names.
    names: Vec<String>,
    /// It is open, or was: nobody but the file knows its size.
    lent: bool,
}

/// Who has which file.
pub(super) fn owners(machine: &Machine, story: &Story) -> Result<BTreeMap<u64, Owner>, String> {
    let words = |error: fs::Error| error.to_string();
    let owners = Stack::owners(&machine.next_process(), story).map_err(words)?;
    let stack = Stack::open(&machine.next_process(), story).map_err(words)?;
    let picture = stack.picture()?;
    let names = |ino| {
        let files = picture.files.iter().filter(|(_, file)| file.ino == ino);
        files.map(|(name, _)| name.clone()).collect()
    };
    let owner = |(blob, (ino, lent))| (blob, Owner { names: names(ino), lent });
    Ok(owners.into_iter().map(owner).collect())
}

/// A file that was damaged.
pub(super) struct Hit<'a> {
    pub(super) name: &'a str,
    /// What is in it now; `None` when it is lost.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) owners: &'a BTreeMap<u64, Owner>,
}

impl Hit<'_> {
    /// Mounts the volume, reads everything, repairs it, and reads everything again.
    pub(super) fn is_contained(
        &self,
        machine: &Machine,
        story: &Story,
        right: &Picture,
        tally: &mut Tally,
    ) -> Result<(), String> {
        tally.damages += 1;
        let words = |error: fs::Error| error.to_string();
        let number = self.name.split_once('-').and_then(|(_, number)| number.parse().ok());
        let number: u64 = number.ok_or("its name is no number")?;
        let owner = self.owners.get(&number);
        let found = Stack::check_disk(machine, story).map_err(words)?;
        let named = |found: &String| {
            found.starts_with("local-") && found.contains(&format!("file {number} "))
        };
        if let Some(other) = found.iter().find(|found| !named(found)) {
            return Err(format!("a check finds {other}"));
        }
        let stack = Stack::open(machine, story).map_err(|error| format!("no session: {error}"))?;
        let wrong = self.look(&stack.picture()?, right, owner, number)?;
        // Another length shows.
        let told = match (owner, &self.bytes) {
            (Some(owner), bytes) if !owner.lent => {
                let size = owner.names.first().and_then(|name| right.files.get(name));
                let size = size.map(|file| file.bytes.len());
                if bytes.as_ref().map(Vec::len) != size && found.is_empty() {
                    return Err("it has another length, and a check finds nothing".to_owned());
                }
                !found.is_empty()
            }
            _ => !found.is_empty(),
        };
        match (owner, told, wrong) {
            (None, _, _) => tally.free += 1,
            (_, true, _) => tally.found += 1,
            (_, _, Wrong::Error) => tally.errors += 1,
            (_, _, Wrong::Silent) => tally.silent += 1,
        }
        let tidy = |error: fs::Error| format!("it does not go on: {error}");
        stack.probe().map_err(tidy)?;
        stack.settle().map_err(tidy)?;
        stack.stop().map_err(tidy)?;
        drop(stack);
        let left = Stack::repair_disk(machine, story).map_err(|error| error.to_string())?;
        if let Some(left) = left.iter().find(|left| !left.starts_with("local-missing")) {
            return Err(format!("a repair leaves {left}"));
        }
        let stack = Stack::open(machine, story).map_err(|error| format!("repaired: {error}"))?;
        self.look(&stack.picture()?, right, owner, number)
            .map(drop)
            .map_err(|error| format!("repaired: {error}"))
    }

    /// Whether all but what is in the file is as it was.
    fn look(
        &self,
        picture: &Picture,
        right: &Picture,
        owner: Option<&Owner>,
        number: u64,
    ) -> Result<Wrong, String> {
        let mut wrong = Wrong::Silent;
        let (mut now, mut then) = (picture.clone(), right.clone());
        for name in owner.iter().flat_map(|owner| &owner.names) {
            let (is, was) = (now.names.remove(name), then.names.remove(name));
            match (is, was) {
                (Some(Err(error)), _) if error.contains(&format!("file {number} ")) => {
                    wrong = Wrong::Error;
                }
                (Some(Ok(is)), Some(Ok(was))) if is.hollow() == was.hollow() => {
                    let shown = picture.files.get(name).map_or(&[][..], |file| &file.bytes[..]);
                    if !self.has(shown) && owner.is_some_and(|owner| !owner.lent) {
                        return Err(format!("{name} has other bytes than its file"));
                    }
                }
                (is, was) => return Err(format!("{name} is {is:?}, not {was:?}")),
            }
        }
        match now.differs(&then) {
            Some(differs) => Err(differs),
            None => Ok(wrong),
        }
    }

    /// Whether these are the bytes of the file, as far as it goes.
    fn has(&self, shown: &[u8]) -> bool {
        self.bytes.as_ref().is_some_and(|bytes| bytes.starts_with(shown))
    }
}

/// How damage shows to who reads.
enum Wrong {
    /// As an error.
    Error,
    /// As other bytes, if at all.
    Silent,
}
