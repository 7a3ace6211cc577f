//! A file's bytes, written once more to another file: not as the host copies best, which may share what it believes
//! to be on the disk.

use crate::{Backing, Wanted};
use std::io;

/// Bytes that are copied at once.
const COPIED_AT_ONCE: usize = 1 << 20;

/// Writes all bytes of a file to an empty one. Holes stay holes, and the time of change is the same.
pub fn write_anew(from: &dyn Backing, to: &dyn Backing) -> io::Result<()> {
    let stat = from.stat()?;
    let mut buffer = vec![0; COPIED_AT_ONCE];
    let mut at = 0;
    while let Some(data) = from.seek(at, Wanted::Data)?.filter(|data| *data < stat.len) {
        let end = from.seek(data, Wanted::Hole)?.unwrap_or(stat.len).min(stat.len);
        at = data;
        while at < end {
            let len = (end - at).min(COPIED_AT_ONCE as u64) as usize;
            let space = buffer.get_mut(..len).unwrap_or_default();
            let read = from.read_at(space, at)?;
            if read != len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            to.write_at(space, at)?;
            at += len as u64;
        }
    }
    to.truncate(stat.len)?;
    to.set_changed(stat.changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Home, LocalHome, Place};
    use std::os::fd::AsFd;
    use std::path::Path;

    #[test]
    fn bytes_holes_and_the_time_are_those_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(dir.path()).unwrap();
        let home = LocalHome::within(parent.as_fd(), "files", Path::new("/shown")).unwrap();
        let [from, to] = [1, 2].map(|blob| home.make(Place { volume: 1, blob }).unwrap());
        let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        from.write_at(&data, 8 << 20).unwrap();
        from.write_at(b"end", 40 << 20).unwrap();
        from.truncate(64 << 20).unwrap();
        from.set_changed((1_000, 5)).unwrap();
        write_anew(&*from, &*to).unwrap();
        let (one, other) = (from.stat().unwrap(), to.stat().unwrap());
        assert_eq!((one.len, one.changed), (other.len, other.changed));
        // Where the host keeps holes, both have them.
        assert!(other.taken <= one.taken + (1 << 20), "{} and {}", one.taken, other.taken);
        let mut bytes = [vec![0; 64 << 20], vec![0; 64 << 20]];
        from.read_at(&mut bytes[0], 0).unwrap();
        to.read_at(&mut bytes[1], 0).unwrap();
        assert!(bytes[0] == bytes[1]);
    }

    #[test]
    fn names_are_made_durable_by_who_does_not_trust_them_too() {
        let dir = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(dir.path()).unwrap();
        let home = LocalHome::within(parent.as_fd(), "files", Path::new("/shown")).unwrap();
        home.distrust_names();
        let places: Vec<Place> = (1000..1200).map(|blob| Place { volume: 1, blob }).collect();
        for place in &places {
            home.make(*place).unwrap().sync_name().unwrap();
        }
        assert_eq!(home.numbers(1).unwrap().len(), places.len());
        for place in &places {
            home.remove(*place).unwrap();
        }
        home.sync_names(&places).unwrap();
        // What was made to change directories is gone.
        assert_eq!(home.numbers(1).unwrap(), []);
        let left = std::fs::read_dir(dir.path().join("files/1/1000/1100/1190")).unwrap();
        assert_eq!(left.count(), 0);
    }
}
