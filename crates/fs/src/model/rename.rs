//! The model's rename, in the order in which Linux finds what is wrong.

use super::tree::{Answered, Model, WRITE, check_name, is_dots};
use crate::Kind;
use crate::types::{Caller, FileType, Ino, RenameFlags, Time};

/// One end of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory.
    pub parent: Ino,
    /// The name in it.
    pub name: &'a [u8],
}

impl Model {
    /// `rename` of the core.
    pub fn rename(
        &mut self,
        caller: &Caller,
        old: Place<'_>,
        new: Place<'_>,
        flags: RenameFlags,
        now: Time,
    ) -> Answered<()> {
        let Some((source, target)) = self.may_rename(caller, old, new, flags)? else {
            return Ok(());
        };
        self.remove(old.parent, old.name, now)?;
        if let Some(target) = target {
            self.remove(new.parent, new.name, now)?;
            if flags.exchange {
                self.add(old.parent, old.name, target, now)?;
                self.inode_mut(target)?.ctime = now;
            } else {
                self.drop_link(target, now)?;
            }
        }
        self.add(new.parent, new.name, source, now)?;
        self.inode_mut(source)?.ctime = now;
        if flags.whiteout {
            // Its mode is nothing, whatever the umask.
            let ino = self.make(caller, old.parent, FileType::Character, 0, now)?;
            self.add(old.parent, old.name, ino, now)?;
        }
        Ok(())
    }

    /// What is renamed and what is in its way; none when there is nothing to do.
    fn may_rename(
        &self,
        caller: &Caller,
        old: Place<'_>,
        new: Place<'_>,
        flags: RenameFlags,
    ) -> Answered<Option<(Ino, Option<Ino>)>> {
        if flags.exchange && (flags.no_replace || flags.whiteout) {
            return Err(Kind::Invalid);
        }
        self.step_into(caller, old.parent)?;
        self.step_into(caller, new.parent)?;
        if is_dots(old.name) {
            return Err(Kind::Busy);
        }
        if is_dots(new.name) {
            return Err(if flags.no_replace { Kind::Exists } else { Kind::Busy });
        }
        check_name(old.name)?;
        let source = self.child(old.parent, old.name).ok_or(Kind::NotFound)?;
        check_name(new.name)?;
        let target = self.child(new.parent, new.name);
        if flags.no_replace && target.is_some() {
            return Err(Kind::Exists);
        }
        if flags.exchange && target.is_none() {
            return Err(Kind::NotFound);
        }
        if self.is_at_or_above(source, new.parent) {
            return Err(Kind::Invalid);
        }
        if target.is_some_and(|target| self.is_at_or_above(target, old.parent)) {
            return Err(if flags.exchange { Kind::Invalid } else { Kind::NotEmpty });
        }
        if target == Some(source) {
            return Ok(None);
        }
        self.may_remove(caller, old.parent, source)?;
        let moves_directory = self.is_directory(source);
        match target {
            None => self.may_change(caller, new.parent)?,
            Some(target) => {
                self.may_remove(caller, new.parent, target)?;
                match (moves_directory, self.is_directory(target)) {
                    _ if flags.exchange => {}
                    (true, false) => return Err(Kind::NotDirectory),
                    (false, true) => return Err(Kind::IsDirectory),
                    _ => {}
                }
            }
        }
        // A directory that changes its parent changes itself: what `..` names.
        if old.parent != new.parent {
            if moves_directory {
                self.may(caller, source, WRITE)?;
            }
            if let Some(target) = target
                && flags.exchange
                && self.is_directory(target)
            {
                self.may(caller, target, WRITE)?;
            }
        }
        if let Some(target) = target
            && !flags.exchange
            && self.names(target).is_ok_and(|names| !names.is_empty())
        {
            return Err(Kind::NotEmpty);
        }
        Ok(Some((source, target)))
    }
}
