//! Draws the next action: few names and few sizes, the odd ones among them, so that actions meet.

use super::action::Action;
use super::compare::Plan;
use super::data::Data;
use super::draw::{Draw, Mix};
use super::files::Side;
use super::tree::{Body, Model};
use crate::types::{
    Caller, DirHandle, FILE_BYTES_MAX, Fallocate, Handle, Ino, OpenFlags, ROOT, RenameFlags, Seek,
    SetAttr, SetTime, Time, XATTR_BYTES_MAX, XattrMode, mode,
};
use base::Random;
use bytes::Bytes;

/// Inodes above which more is removed than made.
const INODES_ENOUGH: usize = 60;
/// Handles above which some are released first.
const HANDLES_ENOUGH: usize = 14;
impl Action {
    /// An action on what the model has.
    pub fn random(random: &dyn Random, model: &Model, plan: &Plan) -> Self {
        let Plan { sizes, mix, callers, .. } = plan;
        Draw { random, model, sizes, mix: *mix, callers: *callers }.action()
    }
}

impl Draw<'_> {
    fn action(&self) -> Action {
        if self.model.files.len() + self.model.dirs.len() > HANDLES_ENOUGH {
            return self.release();
        }
        if self.mix == Mix::Bytes {
            return match self.random.below(40) {
                0 if self.model.files.len() < 3 => self.create(),
                1 if self.model.files.len() < 4 => self.open(),
                2 => self.release(),
                3 => Action::Maintain,
                4..=6 => self.resize(),
                _ => self.bytes(),
            };
        }
        let crowded = self.model.inodes.len() > INODES_ENOUGH;
        match self.random.below(135) {
            0..=5 if !crowded => self.make_file(),
            6..=12 if !crowded => self.mkdir(),
            0..=5 | 13..=16 => self.unlink(),
            6..=12 | 17..=20 => self.rmdir(),
            21..=33 => self.rename(),
            34..=37 => self.link(),
            38..=39 => self.symlink(),
            40..=45 => self.create(),
            46 => self.tmpfile(),
            47..=51 => self.open(),
            52..=56 => self.lookup_like(),
            57..=65 => self.setattr(),
            66..=73 => self.xattr(),
            74..=79 => self.directory(),
            80 => self.release(),
            81 => Action::StatFs,
            82..=84 => Action::Maintain,
            _ => self.bytes(),
        }
    }

    fn make_file(&self) -> Action {
        let (parent, name, caller) = self.place();
        let (file_type, rdev) = match self.random.below(12) {
            0 => (mode::FIFO, 0),
            1 => (mode::SOCKET, 0),
            2 => (mode::CHARACTER, 0),
            3 => (mode::CHARACTER, 0x0103),
            4 => (mode::BLOCK, 0x0800),
            5 => (0, 0),
            6 if self.random.one_in(4) => (mode::DIRECTORY, 0),
            _ => (mode::FILE, 0),
        };
        Action::Mknod { caller, parent, name, mode: file_type | self.mode(), rdev }
    }

    fn mkdir(&self) -> Action {
        let (parent, name, caller) = self.place();
        let mode = self.pick(&[0o777, 0o777, 0o1777, 0o755, 0o775, 0o700, 0o555, 0o311]);
        Action::Mkdir { caller, parent, name, mode }
    }

    fn symlink(&self) -> Action {
        let (parent, name, caller) = self.place();
        let target = match self.random.below(10) {
            0 => Bytes::new(),
            1 => Bytes::from(vec![b't'; 4095]),
            2 => Bytes::from(vec![b't'; 4096]),
            3 => Bytes::from_static(b"\xff/../\x01"),
            _ => Bytes::from_static(b"a/b"),
        };
        Action::Symlink { caller, parent, name, target }
    }

    fn link(&self) -> Action {
        let (parent, name, caller) = self.place();
        Action::Link { caller, ino: self.any_ino(), parent, name }
    }

    fn unlink(&self) -> Action {
        let (parent, name, caller) = self.old_place();
        Action::Unlink { caller, parent, name }
    }

    fn rmdir(&self) -> Action {
        let empty = |&(parent, ref name): &(Ino, Bytes)| {
            let child = self.model.child(parent, name);
            child.is_some_and(|ino| self.model.names(ino).is_ok_and(|names| names.is_empty()))
        };
        let found: Vec<(Ino, Bytes)> = self.all_names().into_iter().filter(empty).collect();
        if !found.is_empty() && !self.random.one_in(4) {
            let (parent, name) = self.pick(&found);
            return Action::Rmdir { caller: self.caller(), parent, name };
        }
        let (parent, name, caller) = self.old_place();
        Action::Rmdir { caller, parent, name }
    }

    fn rename(&self) -> Action {
        let (parent, name, caller) = self.old_place();
        let (new_parent, new_name, _) = match self.random.below(3) {
            0 => self.old_place(),
            _ => self.place(),
        };
        let mut flags = RenameFlags::default();
        match self.random.below(10) {
            0 => flags.no_replace = true,
            1 | 2 => flags.exchange = true,
            3 => flags.whiteout = true,
            4 if self.random.one_in(3) => {
                flags.no_replace = true;
                flags.whiteout = true;
            }
            5 if self.random.one_in(4) => {
                flags.exchange = true;
                flags.no_replace = true;
            }
            _ => {}
        }
        Action::Rename { caller, parent, name, new_parent, new_name, flags }
    }

    fn create(&self) -> Action {
        let (parent, name, caller) = self.place();
        let mut flags = self.open_flags();
        flags.exclusive = self.random.one_in(4);
        // What opening a device or a pipe means is none of the core's business.
        if let Some(ino) = self.model.child(parent, &name)
            && self.model.inode(ino).is_ok_and(|inode| inode.body == Body::Special)
        {
            flags.exclusive = true;
        }
        Action::Create { caller, parent, name, mode: self.mode(), flags }
    }

    fn tmpfile(&self) -> Action {
        let mut flags = OpenFlags::READ_WRITE;
        flags.exclusive = self.random.one_in(3);
        // Whether there can be one in a directory that is removed is not settled.
        let parent = self.dir();
        let dead = self.model.inode(parent).is_ok_and(|inode| inode.nlink == 0);
        let parent = if dead { ROOT } else { parent };
        Action::Tmpfile { caller: self.caller(), parent, mode: self.mode(), flags }
    }

    fn open(&self) -> Action {
        let is_special = |ino| self.model.inode(ino).is_ok_and(|it| it.body == Body::Special);
        let mut ino = if self.random.one_in(8) { self.any_ino() } else { self.file() };
        if is_special(ino) {
            ino = self.file();
        }
        Action::Open { caller: self.caller(), ino, flags: self.open_flags() }
    }

    fn open_flags(&self) -> OpenFlags {
        let (read, write) = self.pick(&[(true, true), (true, true), (true, false), (false, true)]);
        let append = write && self.random.one_in(5);
        let truncate = self.random.one_in(8);
        OpenFlags { read, write, append, truncate, exclusive: false }
    }

    fn lookup_like(&self) -> Action {
        match self.random.below(6) {
            0 => Action::GetAttr { ino: self.any_ino() },
            1 => {
                let is_link = |ino: &Ino| self.model.readlink(*ino).is_ok();
                let links: Vec<Ino> = self.model.inodes.keys().copied().filter(is_link).collect();
                let ino = match links.is_empty() || self.random.one_in(4) {
                    true => self.any_ino(),
                    false => self.pick(&links),
                };
                Action::Readlink { ino }
            }
            2 => {
                let want = self.random.below(8) as u32;
                // Who asks whether it may is never one who was asked already.
                let caller = Caller { checked_here: true, ..self.caller() };
                Action::Access { caller, ino: self.any_ino(), want }
            }
            _ => {
                let (parent, name, caller) = match self.random.one_in(2) {
                    true => self.old_place(),
                    false => self.place(),
                };
                // What `..` is in a directory that has lost its own name is not settled.
                let dead = self.model.inode(parent).is_ok_and(|inode| inode.nlink == 0);
                let name = if dead { Bytes::from_static(b".") } else { name };
                Action::Lookup { caller, parent, name }
            }
        }
    }

    fn setattr(&self) -> Action {
        let mut set = SetAttr::default();
        let (mut caller, mut ino) = (self.caller(), self.any_ino());
        let mut handle = None;
        match self.random.below(10) {
            0..=2 => {
                // The mode of a symbolic link cannot be changed.
                let is_link = |ino| self.model.readlink(ino).is_ok();
                ino = if is_link(ino) { ROOT } else { ino };
                set.mode = Some(if ino == ROOT { 0o777 } else { self.mode() });
            }
            3 | 4 => {
                set.uid = self.maybe(&[0, 1000, 1001]);
                set.gid = self.maybe(&[0, 1000, 1001]);
                if set == SetAttr::default() {
                    set.gid = Some(1000);
                }
            }
            5 | 6 => {
                set.atime = self.maybe(&self.times());
                set.mtime = self.maybe(&self.times());
                if set == SetAttr::default() {
                    set.mtime = Some(SetTime::Now);
                }
            }
            7 if self.random.one_in(3) => {
                // All at once, by one who may.
                caller = Caller::root();
                ino = self.file();
                set.size = Some(self.size_for(ino));
                set.atime = self.maybe(&self.times());
                set.mtime = Some(self.pick(&self.times()));
            }
            _ => {
                ino = if self.random.one_in(8) { ino } else { self.file() };
                set.size = Some(self.size_for(ino));
                handle = self.handle(|file| file.ino == ino && file.write);
                handle = handle.filter(|_| self.random.one_in(2));
            }
        }
        Action::SetAttr { caller, ino, set, handle }
    }

    fn resize(&self) -> Action {
        let ino = self.file();
        let set = SetAttr { size: Some(self.size_for(ino)), ..SetAttr::default() };
        Action::SetAttr { caller: Caller::root(), ino, set, handle: None }
    }

    fn times(&self) -> [SetTime; 6] {
        [
            SetTime::Now,
            SetTime::Now,
            SetTime::To(Time { secs: 0, nanos: 0 }),
            SetTime::To(Time { secs: -2, nanos: 999_999_999 }),
            SetTime::To(Time { secs: 1 << 33, nanos: 1 }),
            SetTime::To(Time { secs: self.random.below(1 << 31) as i64, nanos: 123_456_789 }),
        ]
    }

    fn xattr(&self) -> Action {
        let (caller, mut ino) = (self.caller(), self.any_ino());
        let mut name = match self.random.below(14) {
            0 => Bytes::from_static(b"trusted.t"),
            1 => Bytes::from_static(b"security.s"),
            2 => Bytes::from_static(b"user."),
            3 => Bytes::from([&b"user."[..], &[b'n'; 250]].concat()),
            4 => Bytes::from([&b"user."[..], &[b'n'; 251]].concat()),
            5 => Bytes::from_static(b"user.\xff\x01 x"),
            6 if caller.is_privileged() => Bytes::from_static(b"other.o"),
            7..=10 => Bytes::from_static(b"user.a"),
            _ => Bytes::from_static(b"user.ab"),
        };
        // Often one that is there.
        let mut there = Vec::new();
        for (&ino, inode) in &self.model.inodes {
            there.extend(inode.xattrs.keys().map(|name| (ino, name.clone())));
        }
        if !there.is_empty() && self.random.one_in(2) {
            (ino, name) = self.pick(&there);
        }
        match self.random.below(8) {
            0 | 1 => Action::GetXattr { caller, ino, name },
            2 => Action::ListXattr { caller, ino },
            3 => Action::RemoveXattr { caller, ino, name },
            _ => {
                let len = match self.random.below(12) {
                    0 => 0,
                    1 => self.sizes.xattr_bytes,
                    2 => XATTR_BYTES_MAX + 1,
                    3 => self.random.below(8000).min(self.sizes.xattr_bytes as u64) as usize,
                    _ => self.random.below(100) as usize,
                };
                let how = self.pick(&[
                    XattrMode::Any,
                    XattrMode::Any,
                    XattrMode::Create,
                    XattrMode::Replace,
                ]);
                Action::SetXattr { caller, ino, name, value: Data::random(self.random, len), how }
            }
        }
    }

    fn directory(&self) -> Action {
        let handles: Vec<u64> = self.model.dirs.keys().copied().collect();
        if handles.is_empty() || self.random.one_in(4) {
            let ino = if self.random.one_in(6) { self.any_ino() } else { self.dir() };
            return Action::Opendir { caller: self.caller(), ino };
        }
        // Mostly the same one, so that a walk comes to its end.
        let handle = if self.random.one_in(3) { self.pick(&handles) } else { handles[0] };
        let handle = DirHandle(handle);
        let limit = self.pick(&[1, 2, 3, 5, 100]);
        match self.random.below(10) {
            0 => Action::Fsyncdir { handle },
            1 => Action::Releasedir { handle },
            2 | 3 => Action::Readdir { handle, limit, plus: false },
            4 => Action::Readdir { handle, limit, plus: true },
            _ => Action::ReaddirPage { handle, cookie: 0, limit },
        }
    }

    fn release(&self) -> Action {
        let dirs: Vec<u64> = self.model.dirs.keys().copied().collect();
        if let Some(handle) = self.handle(|_| true)
            && (dirs.is_empty() || self.random.one_in(2))
        {
            return Action::Release { handle };
        }
        match dirs.is_empty() {
            true => self.open(),
            false => Action::Releasedir { handle: DirHandle(self.pick(&dirs)) },
        }
    }

    fn bytes(&self) -> Action {
        let writable = self.handle(|file| file.write || self.random.one_in(8));
        let (Some(mut handle), Some(mut writable)) = (self.handle(|_| true), writable) else {
            return self.create();
        };
        // Mostly the same one, so that what was written is written over, cut and written again.
        if let Some((&first, _)) = self.model.files.iter().find(|(_, file)| file.write)
            && !self.random.one_in(3)
        {
            (handle, writable) = (Handle(first), Handle(first));
        }
        let caller = self.caller();
        match self.random.below(24) {
            0..=6 => Action::Read { handle, offset: self.offset(handle), len: self.len() },
            7..=15 => {
                let data = Data::random(self.random, self.len());
                Action::Write { caller, handle: writable, offset: self.offset(writable), data }
            }
            16 | 17 => {
                let keep_size = self.random.one_in(2);
                let what = self.pick(&[
                    Fallocate::Allocate { keep_size },
                    Fallocate::PunchHole,
                    Fallocate::PunchHole,
                    Fallocate::ZeroRange { keep_size },
                ]);
                let offset = self.offset(writable);
                let mut len = self.len() as u64;
                // A hole may be of any size, at no cost.
                if what == Fallocate::PunchHole && self.random.one_in(6) {
                    len = FILE_BYTES_MAX.saturating_sub(offset);
                }
                Action::Fallocate { caller, handle: writable, what, offset, len }
            }
            18 | 19 => {
                let whence = self.pick(&[Seek::Data, Seek::Hole]);
                Action::Seek { handle, offset: self.offset(handle), whence }
            }
            20 | 21 => {
                let from = Side { handle, offset: self.offset(handle) };
                let far = FILE_BYTES_MAX / 2;
                let to = Side { handle: writable, offset: self.offset(writable) };
                let to = if to.offset > far { Side { offset: 0, ..to } } else { to };
                Action::CopyRange { caller, from, to, len: self.len() as u64 }
            }
            22 => Action::Flush { handle },
            _ => self.pick(&[Action::Fsync { handle }, Action::Datasync { handle }]),
        }
    }
}
