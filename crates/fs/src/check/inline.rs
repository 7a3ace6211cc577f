//! Inline bytes.

use super::finding::{INLINE_DAMAGED, INLINE_LENGTH, INLINE_MISSING, INLINE_UNOWNED};
use super::scan::Scan;
use super::table::flag;
use crate::blob::block;
use crate::error::Result;
use crate::schema::{Family, Parsed};
use bytes::Bytes;

/// Looks at all inline bytes, then for those that are missing.
pub(super) async fn inline(scan: &mut Scan<'_>) -> Result<()> {
    let bound = scan.volume.record().block_bytes as usize;
    let mut cursor = scan.family(Family::Inline);
    while cursor.fill(scan).await? {
        let Some((key, value)) = cursor.head() else { break };
        let Some(Parsed::Inline { blob }) = scan.keys.parse(key) else {
            scan.unknown(key);
            cursor.advance();
            continue;
        };
        let owner = scan.table.owner(blob);
        let row = owner.and_then(|at| scan.table.row(at)).copied();
        match (owner, row) {
            (Some(_), Some(row)) if row.has(flag::DAMAGED) => {}
            (Some(at), Some(row)) if row.has(flag::INLINE) => {
                scan.table.change(at, |row| row.flags &= !flag::INLINE);
                if scan.deep {
                    match block::decode(&Bytes::copy_from_slice(value), key, bound) {
                        Ok(bytes) if bytes.len() as u64 == row.value => {}
                        Ok(bytes) => {
                            let (len, said, ino) = (bytes.len(), row.value, row.ino);
                            let what = format!("has {len} bytes, and inode {ino} says {said}");
                            scan.found(INLINE_LENGTH, key, what);
                        }
                        Err(damage) => scan.found(INLINE_DAMAGED, key, damage.to_string()),
                    }
                }
            }
            _ => scan.found(INLINE_UNOWNED, key, "no inode has such bytes"),
        }
        cursor.advance();
    }
    for at in 0..scan.table.rows.len() {
        if let Some(row) = scan.table.row(at).copied()
            && row.has(flag::INLINE)
        {
            let key = scan.keys.inode(row.ino);
            scan.found(INLINE_MISSING, &key, format!("its {} bytes are missing", row.value));
        }
    }
    Ok(())
}
