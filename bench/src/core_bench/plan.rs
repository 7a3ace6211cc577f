//! Which files there are, and which operation comes next: one list for both sides.

use super::action::{Action, DIRECTORY_FILES, File};
use super::options::Options;
use super::side::{INLINE_FILES, MAPPED_BYTES};
use super::work::{SMALL_BYTES, Work};
use base::{Random, SeededRandom};

/// Steps of this length through the files meet each once before any twice, in an order that has
/// nothing to do with where they are. A prime that divides no number of files that is allowed.
const STEP: u64 = 7_368_787;

/// What the files are like.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Files that were loaded, by how often each was renamed.
    generations: Vec<u8>,
    /// The first number that no file has had.
    next: u64,
    /// How far the walks have come.
    walk: u64,
    /// Where sequential reading and writing is.
    offset: u64,
    random: SeededRandom,
}

/// Operations to be measured, after some that are not.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) before: Vec<Action>,
    pub(crate) measured: Vec<Action>,
}

impl Plan {
    pub(crate) fn new(files: u64) -> Self {
        Self {
            generations: vec![0; files as usize],
            next: 0,
            walk: 0,
            offset: 0,
            random: SeededRandom::new(1),
        }
    }

    fn loaded(&self) -> u64 {
        self.generations.len() as u64
    }

    /// A bound of the directories that a run makes.
    pub(crate) fn directories_max(&self, options: &Options) -> u64 {
        let rows = options.works.iter().map(|work| {
            let files = work.operations(options.files) * work.callers().len() as u64;
            // Each batch begins a directory.
            files * (options.passes as u64 + 1) / DIRECTORY_FILES
                + (options.passes as u64 + 2) * 2 * super::interleave::SLICES
        });
        self.loaded() / DIRECTORY_FILES + rows.sum::<u64>() + 64
    }

    /// Makes the files that are there from the beginning.
    pub(crate) fn load(&mut self) -> impl Iterator<Item = Action> + use<> {
        let files = self.loaded();
        self.next = files;
        (0..files).flat_map(|number| {
            let first = number % DIRECTORY_FILES == 0;
            let directory = first.then_some(Action::Directory(number / DIRECTORY_FILES));
            directory.into_iter().chain([Action::Mknod(File::new(number, 0))])
        })
    }

    /// The next `count` operations of a kind of work.
    pub(crate) fn batch(&mut self, work: Work, count: u64) -> Batch {
        let mut batch = Batch::default();
        match work {
            Work::Mknod => self.fresh(&mut batch, count, Action::Mknod),
            Work::Create => self.fresh(&mut batch, count, Action::Create),
            Work::Mkdir => self.fresh(&mut batch, count, Action::Mkdir),
            Work::Unlink => {
                let mut stock = Batch::default();
                self.fresh(&mut stock, count, Action::Mknod);
                for action in &stock.measured {
                    if let Action::Mknod(file) = action {
                        batch.measured.push(Action::Unlink(*file));
                    }
                }
                self.shuffle(&mut batch.measured);
                batch.before = stock.before;
                batch.before.extend(stock.measured);
            }
            _ => batch.measured.extend((0..count).map(|_| self.one(work))),
        }
        batch
    }

    /// Files that were not there before, in directories of their own.
    fn fresh(&mut self, batch: &mut Batch, count: u64, action: fn(File) -> Action) {
        self.next = self.next.next_multiple_of(DIRECTORY_FILES);
        for _ in 0..count {
            if self.next.is_multiple_of(DIRECTORY_FILES) {
                batch.before.push(Action::Directory(self.next / DIRECTORY_FILES));
            }
            batch.measured.push(action(File::new(self.next, 0)));
            self.next += 1;
        }
    }

    /// One operation on what was loaded.
    fn one(&mut self, work: Work) -> Action {
        let bytes = work.bytes().unwrap_or(SMALL_BYTES);
        match work {
            Work::Lookup => Action::Lookup(self.file()),
            Work::Missing => Action::Missing(File::missing(self.walk_on(self.loaded()))),
            Work::Getattr => Action::Getattr(self.walk_on(self.loaded())),
            Work::Rename => {
                let from = self.file();
                let generation = &mut self.generations[from.number as usize];
                *generation = generation.wrapping_add(1);
                Action::Rename(from, File::new(from.number, *generation).name)
            }
            Work::WriteInline => Action::WriteInline(self.walk_on(INLINE_FILES)),
            Work::ReadInline => Action::ReadInline(self.walk_on(INLINE_FILES)),
            Work::WriteRandom => Action::Write { offset: self.somewhere(bytes), len: bytes },
            Work::ReadRandom => Action::Read { offset: self.somewhere(bytes), len: bytes },
            Work::WriteMedium | Work::WriteLarge => {
                Action::Write { offset: self.onward(bytes), len: bytes }
            }
            Work::ReadMedium | Work::ReadLarge => {
                Action::Read { offset: self.onward(bytes), len: bytes }
            }
            Work::List | Work::Mknod | Work::Create | Work::Mkdir | Work::Unlink => {
                Action::List(self.walk_on(self.loaded() / DIRECTORY_FILES))
            }
        }
    }

    fn file(&mut self) -> File {
        let number = self.walk_on(self.loaded());
        File::new(number, self.generations[number as usize])
    }

    fn walk_on(&mut self, bound: u64) -> u64 {
        self.walk += 1;
        (self.walk * STEP) % bound
    }

    fn somewhere(&mut self, bytes: usize) -> u64 {
        self.random.below(MAPPED_BYTES / bytes as u64) * bytes as u64
    }

    fn onward(&mut self, bytes: usize) -> u64 {
        let at = self.offset.next_multiple_of(bytes as u64) % MAPPED_BYTES;
        self.offset = at + bytes as u64;
        at
    }

    fn shuffle(&self, actions: &mut [Action]) {
        for index in (1..actions.len()).rev() {
            let other = self.random.below(index as u64 + 1) as usize;
            actions.swap(index, other);
        }
    }
}
