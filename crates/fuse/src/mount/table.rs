//! The kernel's table of mounts.

use super::FS_TYPE;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A mount of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The kernel's number for it.
    pub id: u64,
    /// Its device, as `major:minor`.
    pub device: String,
    /// Where it is.
    pub mountpoint: PathBuf,
    /// What was mounted.
    pub source: String,
}

/// The mounts of ours that this process sees.
pub fn mounted() -> io::Result<Vec<MountEntry>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// One line of mountinfo, when it is a mount of ours.
pub(crate) fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut words = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let device = String::from_utf8(words.nth(1)?.to_vec()).ok()?;
    let mountpoint = PathBuf::from(OsString::from_vec(unescape(words.nth(1)?)));
    // Behind a dash come the type and the source.
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    if rest.next()? != FS_TYPE.as_bytes() {
        return None;
    }
    let source = String::from_utf8_lossy(&unescape(rest.next()?)).into_owned();
    Some(MountEntry { id, device, mountpoint, source })
}

/// Undoes the kernel's `\ooo`, which it writes for blanks and backslashes.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut at = 0;
    while let Some(&byte) = word.get(at) {
        let octal = word.get(at + 1..at + 4).filter(|_| byte == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        out.push(octal.unwrap_or(byte));
        at += if octal.is_some() { 4 } else { 1 };
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::parse;
    use std::path::Path;

    #[test]
    fn lines_are_understood() {
        let line = br"45 28 0:52 / /mnt/a\040b\134 rw,relatime shared:1 - fuse.seamount local:///s#v rw,user_id=0";
        let entry = parse(line).unwrap();
        assert_eq!((entry.id, entry.device.as_str()), (45, "0:52"));
        assert_eq!(entry.mountpoint, Path::new("/mnt/a b\\"));
        assert_eq!(entry.source, "local:///s#v");
        // No optional fields; another type; broken lines.
        assert!(parse(b"1 2 0:3 / /x rw - fuse.seamount s rw").is_some());
        assert!(parse(b"1 2 0:3 / /x rw - ext4 s rw").is_none());
        assert!(parse(b"1 2 0:3 / /x rw").is_none());
        assert!(parse(b"").is_none());
    }
}
