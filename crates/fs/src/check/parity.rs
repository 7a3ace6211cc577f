//! Parity of the groups of one chunk, which a deep check makes again from the blocks.

use super::finding::{PARITY_MISSING, PARITY_UNNEEDED, PARITY_WRONG};
use super::scan::Scan;
use crate::blob::parity::{Member, Parity};
use crate::repair::Fix;
use crate::schema::{Bits, BlockPlace, Data, PARITY_BLOCK, VolumeRecord};
use std::collections::{BTreeMap, BTreeSet};

/// What a chunk's parity says, and what its blocks are.
pub(super) struct Groups {
    /// Blocks in a group; 0 where there is no parity.
    size: u32,
    /// By group. `None` for a damaged one.
    stored: BTreeMap<u32, Option<Parity>>,
    /// By group, of the blocks that were read and are whole.
    made: BTreeMap<u32, Parity>,
}

impl Groups {
    pub(super) fn new(record: &VolumeRecord) -> Self {
        let size = record.parity_group.into();
        Self { size, stored: BTreeMap::new(), made: BTreeMap::new() }
    }

    /// A stored parity.
    pub(super) fn add(&mut self, scan: &mut Scan<'_>, key: &[u8], value: &[u8], group: u16) {
        let parity = match Parity::decode(value, key) {
            Ok(parity) => Some(parity),
            Err(damage) => {
                scan.found(PARITY_WRONG, key, damage.to_string());
                None
            }
        };
        self.stored.insert(group.into(), parity);
    }

    /// A block that is whole.
    pub(super) fn member(&mut self, block: u32, generation: u64, value: &[u8]) {
        if let Some(group) = block.checked_div(self.size) {
            // It is met once, and a group holds no more than fit.
            let made = self.made.entry(group).or_default();
            let _ = made.replace(block, None, Some((generation, value)));
        }
    }

    /// Compares the two. `found` are the blocks that are stored, whole or not.
    pub(super) fn finish(
        &self,
        scan: &mut Scan<'_>,
        (slot, blob, chunk): (u64, u64, u64),
        data: &Data,
        found: &Bits,
    ) {
        let blocks = || data.layers.iter().flat_map(|(_, bits)| bits.iter());
        let needed: BTreeSet<u32> =
            blocks().filter_map(|block| block.checked_div(self.size)).collect();
        let stored: BTreeSet<u32> = self.stored.keys().copied().collect();
        for group in needed.union(&stored) {
            let block = PARITY_BLOCK | *group as u16;
            let place = BlockPlace { slot, blob, chunk, block, generation: 0 };
            let key = scan.keys.block(place);
            let kind = match self.stored.get(group) {
                None => {
                    scan.found(PARITY_MISSING, &key, "its group has blocks");
                    PARITY_MISSING
                }
                Some(_) if !needed.contains(group) => {
                    scan.found(PARITY_UNNEEDED, &key, "its group has no blocks");
                    PARITY_UNNEEDED
                }
                // The damage is noted already.
                Some(None) => PARITY_WRONG,
                Some(Some(parity)) => {
                    let range = group * self.size..(group + 1) * self.size;
                    let wanted: BTreeMap<u32, u64> = blocks()
                        .filter(|block| range.contains(block))
                        .filter_map(|block| Some((block, data.generation_of(block)?)))
                        .collect();
                    let made = self.made.get(group);
                    let wrong = differs(scan.deep, parity, made, &wanted, found);
                    let Some(wrong) = wrong else { continue };
                    scan.found(PARITY_WRONG, &key, wrong);
                    PARITY_WRONG
                }
            };
            scan.mend(kind, |_| Fix::Parity(place));
        }
    }
}

/// How parity is not that of its blocks. A block that is missing or damaged is not compared.
fn differs(
    deep: bool,
    parity: &Parity,
    made: Option<&Parity>,
    wanted: &BTreeMap<u32, u64>,
    found: &Bits,
) -> Option<String> {
    let does_not_know = |block| Some(format!("does not know block {block} as it is"));
    let whole: BTreeMap<u32, &Member> =
        made.iter().flat_map(|made| made.members()).map(|member| (member.block, member)).collect();
    for member in parity.members() {
        match (wanted.get(&member.block), whole.get(&member.block)) {
            (None, _) => return does_not_know(member.block),
            (Some(generation), _) if *generation != member.generation => {
                return does_not_know(member.block);
            }
            (Some(_), Some(is)) if *is != member => return does_not_know(member.block),
            _ => {}
        }
    }
    let known = |block: &u32| parity.members().iter().any(|member| member.block == *block);
    // A block that is lost has no part in parity that was made after that.
    let is_whole = |block: &u32| match deep {
        true => whole.contains_key(block),
        false => found.has(*block),
    };
    if let Some(block) = wanted.keys().find(|block| is_whole(block) && !known(block)) {
        return does_not_know(*block);
    }
    // With every member at hand it can be made again: there is one right one.
    let complete = deep && whole.len() == parity.members().len();
    (complete && made.is_some_and(|made| made != parity))
        .then(|| "is not the sum of its blocks".to_owned())
}
