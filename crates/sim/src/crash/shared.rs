//! The log that all writers append to, checked as a whole: every acknowledged record is there once, whole,
//! in its writer's order.

use super::PAGE;
use super::writer::{Writer, record};
use std::fs::File;
use std::path::Path;

/// A log that is longer is begun anew.
const BYTES_MAX: usize = 256 << 10;

/// Checks the log, and tells the writers how many of their records it has.
pub(super) fn verify(path: &Path, writers: &mut [Writer]) -> Result<(), String> {
    let failed = |error| format!("the shared log cannot be read: {error}");
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let mut seen = vec![0_u64; writers.len()];
    let mut whole = text.len();
    for line in text.split_inclusive('\n') {
        if !line.ends_with('\n') && text.len() % PAGE == 0 {
            // The one record that was under way, as far as the kernel got with it: see `Writer::verify`.
            let is_begun =
                |writer: &Writer| writer.next_record().is_some_and(|r| r.starts_with(line));
            if !writers.iter().any(is_begun) {
                return Err(format!("the shared log ends with what nobody wrote: {line:?}"));
            }
            whole -= line.len();
            break;
        }
        let writer = line.split(' ').next().and_then(|word| word.parse::<usize>().ok());
        let Some((writer, count)) = writer.and_then(|w| Some((w, seen.get_mut(w)?))) else {
            return Err(format!("the shared log has a line that nobody wrote: {line:?}"));
        };
        if line != record(writer, *count) {
            return Err(format!(
                "the shared log has {line:?} where record {count} of writer {writer} must be"
            ));
        }
        *count += 1;
    }
    for (number, (writer, seen)) in writers.iter_mut().zip(seen).enumerate() {
        let (wanted, one_more) = writer.records();
        if seen != wanted && !(one_more && seen == wanted + 1) {
            return Err(format!(
                "the shared log has {seen} records of writer {number}, of which {wanted} were acknowledged"
            ));
        }
        writer.set_records(seen);
    }
    if text.len() > BYTES_MAX {
        whole = 0;
        writers.iter_mut().for_each(|writer| writer.set_records(0));
    }
    if whole != text.len() {
        let cut = File::options().write(true).open(path).and_then(|log| log.set_len(whole as u64));
        cut.map_err(|error| format!("the shared log cannot be cut: {error}"))?;
    }
    Ok(())
}
