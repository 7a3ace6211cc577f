//! Single operations, as both sides are told to do them. Names are made before the clock starts.

/// Files of one directory.
pub(crate) const DIRECTORY_FILES: u64 = 1000;

pub(crate) const NAME_BYTES: usize = 20;
/// A generation that no file's name ever has.
const NEVER: u64 = 999;

/// A name within a directory.
pub(crate) type Name = [u8; NAME_BYTES];

/// A file by its number, which tells its directory, under the name that it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    pub(crate) number: u64,
    pub(crate) name: Name,
}

impl File {
    /// A file that was renamed so many times.
    pub(crate) fn new(number: u64, generation: u8) -> Self {
        Self { number, name: name(number, generation.into()) }
    }

    /// The same, under a name that is not there.
    pub(crate) fn missing(number: u64) -> Self {
        Self { number, name: name(number, NEVER) }
    }

    /// The directory's number.
    pub(crate) fn directory(&self) -> u64 {
        self.number / DIRECTORY_FILES
    }
}

/// Names sort as the files were made and differ after a common beginning, as a camera's do.
fn name(number: u64, generation: u64) -> Name {
    let mut name = *b"document-0000000.000";
    write_decimal(&mut name[9..16], number);
    write_decimal(&mut name[17..], generation);
    name
}

/// The name of a directory.
pub(crate) fn directory_name(number: u64) -> Name {
    let mut name = *b"directory-0000000000";
    write_decimal(&mut name[10..], number);
    name
}

fn write_decimal(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// Makes a directory for files, and remembers where it is. Not measured.
    Directory(u64),
    Mknod(File),
    /// Creates, opens and closes.
    Create(File),
    Mkdir(File),
    Lookup(File),
    /// Looks a name up that is not there.
    Missing(File),
    /// By the number of a file that was loaded.
    Getattr(u64),
    Unlink(File),
    Rename(File, Name),
    /// Opens a directory, reads all of it with attributes, and closes it.
    List(u64),
    /// Writes all of an inline file; by its index.
    WriteInline(u64),
    ReadInline(u64),
    /// A range of the mapped file.
    Write {
        offset: u64,
        len: usize,
    },
    Read {
        offset: u64,
        len: usize,
    },
}
