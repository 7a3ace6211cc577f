//! One large file, written and read in a row and at random places.

use super::Scene;
use crate::bench::error::Error;
use crate::bench::pages::{self, BLOCK, Care, Draw, PAGE, PAGES_A_BLOCK};
use crate::bench::stage::{Stage, Step};
use crate::bench::work::Work;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

pub(super) const SCENE: Scene = Scene {
    name: "stream",
    works: &[
        Work::SeqWriteNew,
        Work::SeqWriteOver,
        Work::SeqReadCold,
        Work::SeqReadWarm,
        Work::RandReadCold,
        Work::RandRead,
        Work::RandReadMany,
        Work::RandWrite,
        Work::RandWriteSync,
    ],
    play,
};

/// The file, and how often each of its pages was written.
struct Stream {
    path: PathBuf,
    versions: Vec<u32>,
}

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let mut stream = Stream { path: stage.dir.join("stream"), versions: Vec::new() };
    let blocks = stage.scale.stream_bytes.div_ceil(BLOCK as u64);
    stage.timed(Work::SeqWriteNew, |step| {
        let file = step.ok(OpenOptions::new().write(true).create_new(true).open(&stream.path))?;
        let blocks = write(step, &file, blocks, 0)?;
        stream.versions = vec![0; blocks as usize * PAGES_A_BLOCK];
        Ok(blocks * BLOCK as u64)
    })?;
    if stage.wants(Work::SeqWriteOver) {
        stage.timed(Work::SeqWriteOver, |step| {
            let file = step.ok(OpenOptions::new().write(true).open(&stream.path))?;
            let blocks = write(step, &file, stream.blocks(), 1)?;
            stream.versions[..blocks as usize * PAGES_A_BLOCK].fill(1);
            Ok(blocks * BLOCK as u64)
        })?;
    }
    reads(stage, &stream)?;
    random_writes(stage, &mut stream)?;
    stage.untimed("checking the large file", |step| {
        let file = step.ok(File::open(&stream.path))?;
        stream.read(step, &file, Care::Whole)
    })?;
    // It is the one thing that takes much room.
    stage.untimed("removing the large file", |step| step.ok(std::fs::remove_file(&stream.path)))
}

fn write(step: &Step<'_>, file: &File, blocks: u64, version: u32) -> Result<u64, Error> {
    let mut block = pages::block();
    step.each(blocks, |index| {
        pages::stamp_block(&mut block, index * PAGES_A_BLOCK as u64, version);
        step.ok(file.write_all_at(&block, index * BLOCK as u64))
    })
}

fn reads(stage: &mut Stage<'_>, stream: &Stream) -> Result<(), Error> {
    let open = |step: &Step<'_>| step.ok(File::open(&stream.path));
    let once = |stage: &Stage<'_>| {
        stage
            .untimed("reading the large file", |step| stream.read(step, &open(step)?, Care::Stamps))
    };
    if stage.wants(Work::SeqReadCold) {
        stage.chill(|| once(stage).map(drop))?;
        stage.timed(Work::SeqReadCold, |step| {
            let blocks = stream.read(step, &open(step)?, Care::Stamps)?;
            Ok(blocks * BLOCK as u64)
        })?;
    }
    if stage.wants(Work::RandReadCold) {
        stage.chill(|| once(stage).map(drop))?;
        stage.timed(Work::RandReadCold, |step| stream.read_pages(step, &open(step)?, 1))?;
    }
    once(stage)?;
    if stage.wants(Work::SeqReadWarm) {
        stage.timed(Work::SeqReadWarm, |step| {
            let file = open(step)?;
            let mut block = vec![0; BLOCK];
            let blocks = step
                .repeat(|index| stream.read_block(step, &file, &mut block, index, Care::Stamps))?;
            Ok(blocks * BLOCK as u64)
        })?;
    }
    if stage.wants(Work::RandRead) {
        stage.timed(Work::RandRead, |step| stream.read_pages(step, &open(step)?, 2))?;
    }
    if stage.wants(Work::RandReadMany) {
        stage.timed_crew(Work::RandReadMany, stage.scale.threads, |thread, step| {
            stream.read_pages(step, &open(step)?, 3 + thread as u64)
        })?;
    }
    Ok(())
}

fn random_writes(stage: &mut Stage<'_>, stream: &mut Stream) -> Result<(), Error> {
    for (work, synced) in [(Work::RandWrite, false), (Work::RandWriteSync, true)] {
        if !stage.wants(work) {
            continue;
        }
        // Else the first of the synced writes would pay for all that came before them.
        stage.untimed("syncing the large file", |step| {
            step.ok(OpenOptions::new()
                .write(true)
                .open(&stream.path)
                .and_then(|file| file.sync_all()))
        })?;
        stage.timed(work, |step| {
            let file = step.ok(OpenOptions::new().write(true).open(&stream.path))?;
            let mut draw = Draw::new(7);
            let mut bytes = [0; PAGE];
            step.repeat(|_| {
                let page = draw.below(stream.versions.len() as u64);
                let version = &mut stream.versions[page as usize];
                *version += 1;
                pages::fill_page(&mut bytes, page, *version);
                step.ok(file.write_all_at(&bytes, page * PAGE as u64))?;
                if synced { step.ok(file.sync_all()) } else { Ok(()) }
            })
        })?;
    }
    Ok(())
}

impl Stream {
    fn blocks(&self) -> u64 {
        (self.versions.len() / PAGES_A_BLOCK) as u64
    }

    /// Reads it from its start; says how many blocks time allowed.
    fn read(&self, step: &Step<'_>, file: &File, care: Care) -> Result<u64, Error> {
        let mut block = vec![0; BLOCK];
        step.each(self.blocks(), |index| self.read_block(step, file, &mut block, index, care))
    }

    fn read_block(
        &self,
        step: &Step<'_>,
        file: &File,
        block: &mut [u8],
        index: u64,
        care: Care,
    ) -> Result<(), Error> {
        let index = index % self.blocks();
        step.ok(file.read_exact_at(block, index * BLOCK as u64))?;
        let version = |page: u64| self.versions[page as usize];
        pages::check(&self.path, block, index * PAGES_A_BLOCK as u64, version, care)
    }

    /// Reads single pages at random for a slice of time.
    fn read_pages(&self, step: &Step<'_>, file: &File, seed: u64) -> Result<u64, Error> {
        let mut draw = Draw::new(seed);
        let mut bytes = [0; PAGE];
        step.repeat(|_| {
            let page = draw.below(self.versions.len() as u64);
            step.ok(file.read_exact_at(&mut bytes, page * PAGE as u64))?;
            pages::check(
                &self.path,
                &bytes,
                page,
                |page| self.versions[page as usize],
                Care::Stamps,
            )
        })
    }
}
