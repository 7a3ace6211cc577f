//! One file that grows by small records.

use super::Scene;
use crate::bench::error::Error;
use crate::bench::pages::{self, Care, PAGE};
use crate::bench::stage::Stage;
use crate::bench::work::Work;
use std::fs::OpenOptions;
use std::io::Write;

pub(super) const SCENE: Scene = Scene { name: "append", works: &[Work::Append], play };

const RECORD: usize = 1024;
const RECORDS_A_PAGE: u64 = (PAGE / RECORD) as u64;

fn play(stage: &mut Stage<'_>) -> Result<(), Error> {
    let path = stage.dir.join("log");
    let most = stage.scale.stream_bytes / 2 / RECORD as u64;
    let done = stage.timed(Work::Append, |step| {
        let mut file = step.ok(OpenOptions::new().append(true).create_new(true).open(&path))?;
        let mut page = [0; PAGE];
        step.each(most, |index| {
            let part = (index % RECORDS_A_PAGE) as usize * RECORD;
            if part == 0 {
                pages::fill_page(&mut page, index / RECORDS_A_PAGE, 0);
            }
            step.ok(file.write_all(&page[part..part + RECORD]))
        })
    })?;
    stage.untimed("checking the appended file", |step| {
        let bytes = step.ok(std::fs::read(&path))?;
        if bytes.len() as u64 != done * RECORD as u64 {
            let what = format!(
                "{done} records of {RECORD} bytes were appended, {} bytes are there",
                bytes.len()
            );
            return Err(Error::wrong(&path, what));
        }
        let whole = bytes.len() / PAGE * PAGE;
        pages::check(&path, &bytes[..whole], 0, |_| 0, Care::Whole)?;
        step.ok(std::fs::remove_file(&path))
    })
}
