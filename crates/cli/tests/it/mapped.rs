//! Shared mappings: what one process stores another sees, through a mapping and through read and
//! write.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use rustix::fs::OFlags;

use crate::ground::Ground;
use crate::peer::Peer;

#[test]
fn mapped_writes_are_seen_by_others_and_kept() {
    let proof = "shared mapping";
    let Some(mut ground) = Ground::new(proof) else { return };
    let (Some(mut one), Some(mut other)) = (Peer::start(proof), Peer::start(proof)) else { return };
    let path = ground.file("mapped", vec![b'.'; 20_000]);
    for peer in [&mut one, &mut other] {
        peer.open(0, OFlags::RDWR, &path).unwrap();
        peer.ask("map 0 20000").unwrap();
    }
    one.ask("poke 0 5000 from one").unwrap();
    assert_eq!(other.ask("peek 0 5000 8").unwrap(), "from one", "a mapping sees a mapping at once");
    let mut bytes = [0; 8];
    File::open(&path).unwrap().read_exact_at(&mut bytes, 5000).unwrap();
    assert_eq!(&bytes, b"from one", "a read sees a mapping");
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"from us", 9000).unwrap();
    assert_eq!(one.ask("peek 0 9000 7").unwrap(), "from us", "a mapping sees a write");

    other.ask("poke 0 12000 synced").unwrap();
    other.ask("msync 0").unwrap();
    one.ask("poke 0 16000 unmapped").unwrap();
    for peer in [&mut one, &mut other] {
        peer.ask("unmap 0").unwrap();
        peer.ask("close 0").unwrap();
    }
    drop(file);
    ground.remount();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 20_000);
    for (at, text) in
        [(5000, "from one"), (9000, "from us"), (12_000, "synced"), (16_000, "unmapped")]
    {
        assert_eq!(&bytes[at..at + text.len()], text.as_bytes());
    }
}

#[test]
fn a_mapping_outlives_the_name_and_the_descriptor() {
    let proof = "mapping of an unlinked file";
    let Some(ground) = Ground::new(proof) else { return };
    let Some(mut peer) = Peer::start(proof) else { return };
    let path = ground.file("mapped", vec![b'.'; 8192]);
    peer.open(0, OFlags::RDWR, &path).unwrap();
    peer.ask("map 0 8192").unwrap();
    peer.ask("close 0").unwrap();
    fs::remove_file(&path).unwrap();
    peer.ask("poke 0 4000 still here").unwrap();
    peer.ask("msync 0").unwrap();
    assert_eq!(peer.ask("peek 0 4000 10").unwrap(), "still here");
    peer.ask("unmap 0").unwrap();
}

#[test]
fn mapped_writes_change_the_time() {
    let proof = "times of mapped writes";
    let Some(ground) = Ground::new(proof) else { return };
    let Some(mut peer) = Peer::start(proof) else { return };
    let path = ground.file("mapped", vec![b'.'; 8192]);
    let old = std::time::SystemTime::UNIX_EPOCH;
    File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    peer.open(0, OFlags::RDWR, &path).unwrap();
    peer.ask("map 0 8192").unwrap();
    peer.ask("poke 0 100 x").unwrap();
    peer.ask("msync 0").unwrap();
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > old);
}
