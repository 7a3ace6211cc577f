//! A repair that dies between any two of its transactions.

use crate::audit::dump;
use crate::cases;
use crate::lab::Lab;
use crate::probe::Probe;
use crate::repair_fully;
use base::block_on;
use fs::schema::{Entry, Parsed};
use fs::*;
use std::sync::Arc;

/// Entries that name nothing: a repair brings none about.
async fn dangling(volume: &Volume) -> usize {
    let found = dump(volume).await;
    let keys = volume.keys();
    let names_nothing = |(key, value): &(&Vec<u8>, &bytes::Bytes)| {
        matches!(keys.parse(key), Some(Parsed::Entry { .. }))
            && Entry::decode(key, value).is_some_and(|entry| {
                !found.contains_key(&keys.unparse(&Parsed::Inode { ino: entry.ino })[..])
            })
    };
    found.iter().filter(names_nothing).count()
}

#[test]
fn wherever_a_repair_is_cut_the_next_one_ends_it() {
    let all = [cases::NAMES, cases::RECORDS, cases::DATA].concat();
    block_on(async {
        // Everything at once, a third of it each time: most fixes meet others.
        for third in 0..3 {
            let mut cut = 0;
            loop {
                let lab = Lab::new(0).await;
                let spoilt: Vec<_> =
                    all.iter().skip(third).step_by(3).flat_map(|case| (case.2)(&lab)).collect();
                let world = lab.volume.world();
                let probe = Probe::new(Arc::clone(world.store.engine()));
                let store = kv::Store::new(
                    Arc::new(probe.clone()),
                    world.clock.clone(),
                    world.random.clone(),
                );
                let world = World { store, ..world.clone() };
                let through = Volume::open(&world, "test").await.unwrap();
                lab.spoil(spoilt).await;
                let before = dangling(&lab.volume).await;
                probe.cut_after(cut);
                let ended = Repair::new(&through).run(&NoProgress).await;
                assert!(dangling(&lab.volume).await <= before, "third {third}, cut {cut}");
                repair_fully(&lab.volume, &format!("third {third}, cut {cut}")).await;
                if ended.is_ok() {
                    break;
                }
                cut += 1;
            }
            println!("third {third}: cut at each of {cut} transactions");
            assert!(cut > 3);
        }
    });
}
