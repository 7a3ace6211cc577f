//! Much data: large files in odd pieces, and many writers of one file at once.

use std::fs::{self, File};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;

use crate::draw::Draw;
use crate::ground::Ground;
use crate::tool::{number, shell};

#[test]
fn a_large_file_in_odd_pieces() {
    let Some(mut ground) = Ground::new("large file") else { return };
    let bytes = number("PROOF_LARGE_FILE_MIB", 96) << 20;
    let path = ground.at("large");
    let (mut draw, mut sizes, mut left) = (Draw::new(21), Draw::new(22), bytes);
    let mut file = File::create(&path).unwrap();
    while left > 0 {
        let piece = (1 + sizes.below(3 << 20)).next_multiple_of(8).min(left);
        file.write_all(&draw.bytes(piece as usize)).unwrap();
        left -= piece;
    }
    drop(file);
    shell(
        ground.root(),
        "cp large copy; dd if=copy of=again bs=777777 status=none; cmp large again",
    );
    ground.remount();
    for name in ["large", "again"] {
        let mut reader = BufReader::with_capacity(1_000_003, File::open(ground.at(name)).unwrap());
        let (mut draw, mut piece, mut left) = (Draw::new(21), vec![0; 8 << 10], bytes);
        while left > 0 {
            reader.read_exact(&mut piece).unwrap();
            assert!(piece == draw.bytes(piece.len()), "{name} differs near {}", bytes - left);
            left -= piece.len() as u64;
        }
        assert_eq!(reader.read(&mut piece).unwrap(), 0, "{name} ends where it must");
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn many_writers_of_one_file() {
    const WRITERS: u64 = 4;
    const PIECE: u64 = 3000;
    const PIECES: u64 = 1000;
    let Some(mut ground) = Ground::new("many writers") else { return };
    let path = ground.file("shared", b"");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = &path;
            scope.spawn(move || {
                let file = File::options().read(true).write(true).open(path).unwrap();
                // Neighbours write neighbouring pieces, so that every page and block is shared.
                for piece in 0..PIECES {
                    let at = (piece * WRITERS + writer) * PIECE;
                    file.write_all_at(&[writer as u8 + 1; PIECE as usize], at).unwrap();
                    let mut back = [0; PIECE as usize];
                    file.read_exact_at(&mut back, at).unwrap();
                    assert!(back.iter().all(|byte| *byte == writer as u8 + 1), "own write is read");
                }
            });
        }
    });
    let check = || {
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, WRITERS * PIECES * PIECE);
        for (number, piece) in bytes.chunks(PIECE as usize).enumerate() {
            let writer = (number as u64 % WRITERS) as u8 + 1;
            assert!(piece.iter().all(|byte| *byte == writer), "piece {number}");
        }
    };
    check();
    ground.remount();
    check();
}

#[test]
fn a_reader_follows_a_writer() {
    let Some(ground) = Ground::new("following a writer") else { return };
    let path = ground.file("growing", b"");
    const LINES: u64 = 3000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            (0..LINES).for_each(|line| writeln!(file, "line {line}").unwrap());
        });
        let (mut file, mut text) = (File::open(&path).unwrap(), String::new());
        crate::ground::wait("the reader has read all that was written", || {
            file.read_to_string(&mut text).unwrap();
            text.ends_with(&format!("line {}\n", LINES - 1))
        });
        assert!(text.lines().enumerate().all(|(number, line)| line == format!("line {number}")));
    });
}
