//! Names of directory entries.

use crate::error::{Result, invalid, not_found, too_long};
use crate::types::NAME_BYTES_MAX;

/// Refuses what cannot be a name. `.` and `..` can; what they mean is the operation's business.
pub(crate) fn check(name: &[u8]) -> Result<()> {
    if name.is_empty() {
        return Err(not_found("a name has at least one byte"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(too_long("a name has at most 255 bytes"));
    }
    if name.iter().any(|&byte| byte == b'/' || byte == 0) {
        return Err(invalid("a name has no / and no zero byte"));
    }
    Ok(())
}

/// Whether the name is `.` or `..`.
pub(crate) fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}
