//! One cell of the table: one kind of work, on one engine, by some threads, for a while.

use super::files::{Created, Files};
use super::records::{DIRECTORY_FILES, File};
use super::subject::Subject;
use super::work::{Work, Worker};
use crate::error::{Error, Result};
use base::SeededRandom;
use base::sync::Mutex;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the starting thread looks whether the others have ended before their time.
const LOOK: Duration = Duration::from_millis(20);

/// When a cell ends; whatever comes first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    pub(crate) time: Duration,
    pub(crate) ops: u64,
}

/// What a cell did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) ops: u64,
    pub(crate) seconds: f64,
    /// Transactions that ran again after a conflict.
    pub(crate) retries: u64,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }
}

/// Runs `work` on `threads` threads. The seed decides which files it meets.
pub(crate) fn run(
    subject: &mut dyn Subject,
    files: &Files,
    work: Work,
    threads: u64,
    until: Until,
    seed: u64,
) -> Result<Outcome> {
    subject.set_durability(work.durability())?;
    let subject = &*subject;
    let stop = AtomicBool::new(false);
    let barrier = Barrier::new(threads as usize + 1);
    let random = SeededRandom::new(seed);
    let together = Mutex::new(None);
    let outcome = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for number in 0..threads {
            let random = random.fork();
            let (stop, barrier, together) = (&stop, &barrier, &together);
            handles.push(scope.spawn(move || {
                let mut thread = Thread {
                    subject,
                    files,
                    random,
                    number,
                    threads,
                    worker: Worker::default(),
                    together,
                    stop,
                    left: until.ops / threads + u64::from(number < until.ops % threads),
                    done: 0,
                };
                let ended = thread.run(work, barrier);
                if ended.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                ended.map(|start| (start..Instant::now(), thread.done, thread.worker.retries))
            }));
        }
        barrier.wait();
        let start = Instant::now();
        while handles.iter().any(|handle| !handle.is_finished()) {
            let left = until.time.saturating_sub(start.elapsed());
            if left.is_zero() {
                stop.store(true, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
        // From the first thread's start to the last one's end, by their own clocks: this thread may
        // have come late to the processor.
        let mut spans = Vec::new();
        let mut outcome = Outcome { ops: 0, seconds: 0.0, retries: 0 };
        for handle in handles {
            let ended = handle.join().map_err(|_| Error::new("a thread panicked"))?;
            let (span, done, retries) = ended?;
            spans.push(span);
            outcome.ops += done;
            outcome.retries += retries;
        }
        let start = spans.iter().map(|span| span.start).min().unwrap_or(start);
        let end = spans.iter().map(|span| span.end).max().unwrap_or(start);
        outcome.seconds = end.duration_since(start).as_secs_f64();
        Ok(outcome)
    });
    let last = together.lock().take();
    if let Some(last) = last {
        files.note_created(last);
    }
    outcome
}

/// One thread of a cell.
struct Thread<'a> {
    subject: &'a dyn Subject,
    files: &'a Files,
    random: SeededRandom,
    number: u64,
    threads: u64,
    worker: Worker,
    /// The directory in which all threads create, and the files that were handed out.
    together: &'a Mutex<Option<Created>>,
    stop: &'a AtomicBool,
    left: u64,
    done: u64,
}

impl Thread<'_> {
    fn ended(&self) -> bool {
        self.left == 0 || self.stop.load(Ordering::Relaxed)
    }

    /// Whether to do one more operation, which then counts.
    fn more(&mut self) -> bool {
        if self.ended() {
            return false;
        }
        self.left -= 1;
        self.done += 1;
        true
    }

    /// Does the work and returns when it began.
    fn run(&mut self, work: Work, barrier: &Barrier) -> Result<Instant> {
        // The first directory is made before the clock starts. A failure must not keep the others
        // waiting at the barrier.
        let first = match work {
            Work::Create | Work::CreateSynced => self.mkdir().map(Some),
            _ => Ok(None),
        };
        barrier.wait();
        let start = Instant::now();
        match work {
            Work::Create | Work::CreateSynced => self.create(first?),
            Work::CreateTogether => self.create_together(),
            Work::Lookup => self.lookup(),
            Work::Readdir => self.readdir(),
            Work::Rename => self.rename(),
            Work::Unlink => self.unlink(),
        }?;
        Ok(start)
    }

    fn mkdir(&mut self) -> Result<u64> {
        let directory = self.files.new_directory();
        self.worker.mkdir(self.subject, directory)?;
        Ok(directory)
    }

    fn create(&mut self, mut directory: Option<u64>) -> Result<()> {
        loop {
            let directory = match directory.take() {
                Some(made) => made,
                None => self.mkdir()?,
            };
            let mut index = 0;
            while index < DIRECTORY_FILES && self.more() {
                self.worker.create(self.subject, File::new(directory, index))?;
                index += 1;
            }
            self.files.note_created(Created { directory, files: 0..index });
            // A directory is not made for nothing: who counts on full ones finds no empty one.
            if index < DIRECTORY_FILES || self.ended() {
                return Ok(());
            }
        }
    }

    fn create_together(&mut self) -> Result<()> {
        while self.more() {
            let file = self.next_together()?;
            self.worker.create(self.subject, file)?;
        }
        Ok(())
    }

    /// The next file of the common directory; of the next one, when it is full.
    fn next_together(&mut self) -> Result<File> {
        let together = self.together;
        let mut created = together.lock();
        let full = created.take_if(|created| created.files.end == DIRECTORY_FILES);
        if let Some(full) = full {
            self.files.note_created(full);
        }
        if created.is_none() {
            *created = Some(Created { directory: self.mkdir()?, files: 0..0 });
        }
        let Some(created) = &mut *created else {
            return Err(Error::new("there is no directory to create in"));
        };
        created.files.end += 1;
        Ok(File::new(created.directory, created.files.end - 1))
    }

    fn lookup(&mut self) -> Result<()> {
        while self.more() {
            let file = self.files.any_file(&self.random);
            self.worker.lookup(self.subject, file)?;
        }
        Ok(())
    }

    fn readdir(&mut self) -> Result<()> {
        while self.more() {
            let directory = self.files.any_directory(&self.random);
            self.worker.readdir(self.subject, directory)?;
        }
        Ok(())
    }

    fn rename(&mut self) -> Result<()> {
        while self.more() {
            let files = self.files;
            let file = files.any_to_rename(&self.random, self.number, self.threads);
            let renamed = self.worker.rename(self.subject, file)?;
            files.note_renamed(renamed);
        }
        Ok(())
    }

    fn unlink(&mut self) -> Result<()> {
        while let Some(mut created) = self.files.take_created() {
            while !created.files.is_empty() && self.more() {
                let file = File::new(created.directory, created.files.start);
                self.worker.unlink(self.subject, file)?;
                created.files.start += 1;
            }
            if !created.files.is_empty() {
                self.files.note_created(created);
                break;
            }
        }
        Ok(())
    }
}
