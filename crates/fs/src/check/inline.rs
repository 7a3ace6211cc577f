//! Inline bytes.

use super::crew::Part;
use super::finding::{INLINE_DAMAGED, INLINE_LENGTH, INLINE_MISSING, INLINE_UNOWNED};
use super::scan::{Cursor, Scan};
use super::table::{Row, flag};
use crate::blob::block;
use crate::error::Result;
use crate::repair::Fix;
use crate::schema::Parsed;
use crate::types::FileType;
use kv::Key;
use std::sync::Arc;

/// Looks at the inline bytes of a part.
pub(super) async fn inline(scan: &mut Scan<'_>, part: Part) -> Result<()> {
    let bound = scan.volume().record().block_bytes as usize;
    let mut cursor = Cursor::new(part.inline(&scan.keys));
    let mut hint = 0;
    let ground = Arc::clone(&scan.ground);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let Some(Parsed::Inline { blob }) = scan.keys.parse(key) else {
            scan.unknown(key);
            cursor.advance();
            continue;
        };
        let owner = ground.table.owner_near(blob, hint);
        hint = owner.unwrap_or(hint);
        let row = owner.and_then(|at| ground.table.row(at));
        match (owner, row) {
            (Some(_), Some(row)) if row.has(flag::DAMAGED) => {}
            (Some(at), Some(row)) if row.has(flag::INLINE) => {
                ground.table.clear(at, flag::INLINE);
                if scan.deep {
                    match block::verify(value, key, bound) {
                        Ok(len) if len as u64 == row.value => {}
                        Ok(len) => {
                            let (said, ino) = (row.value, row.ino);
                            let what = format!("has {len} bytes, and inode {ino} says {said}");
                            scan.found(INLINE_LENGTH, key, what);
                            scan.mend(INLINE_LENGTH, |_| Fix::Inline(ino));
                        }
                        // Nobody can invent them. Reading them is an error, as it should be.
                        Err(damage) => scan.found(INLINE_DAMAGED, key, damage.to_string()),
                    }
                }
            }
            _ => {
                scan.found(INLINE_UNOWNED, key, "no inode has such bytes");
                let whole = block::verify(value, key, bound).is_ok();
                let fix = unowned(scan, key, blob, row, whole);
                scan.mend(INLINE_UNOWNED, |_| fix);
            }
        }
        cursor.advance();
    }
    Ok(())
}

/// Bytes that nobody names are those of an inode that is gone, or of a file that says it has none.
fn unowned(scan: &Scan<'_>, key: &[u8], blob: u64, row: Option<Row>, whole: bool) -> Fix {
    let inline = |row: &Row| row.file_type() == Some(FileType::File) && !row.has(flag::MAPPED);
    match row {
        Some(row) if whole && inline(&row) => Fix::Inline(row.ino),
        None if whole && !scan.ground.is_taken(blob) => Fix::Rescue(blob),
        _ => Fix::Remove(Key::new(key)),
    }
}

/// Looks for inline bytes that were not met.
pub(super) fn missing(scan: &mut Scan<'_>) {
    let ground = Arc::clone(&scan.ground);
    for row in (0..ground.table.len()).filter_map(|at| ground.table.row(at)) {
        if row.has(flag::INLINE) {
            let key = scan.keys.inode(row.ino);
            scan.found(INLINE_MISSING, &key, format!("its {} bytes are missing", row.value));
        }
    }
}
