//! Parity of the groups of one chunk.

use super::finding::{PARITY_MISSING, PARITY_UNNEEDED, PARITY_WRONG};
use super::scan::Scan;
use crate::blob::parity::{Member, Parity};
use crate::schema::{Bits, BlockPlace, Data, PARITY_BLOCK, VolumeRecord};
use base::checksum::hash64;
use std::collections::{BTreeMap, BTreeSet};

/// What a chunk's parity says, and what its blocks are.
pub(super) struct Groups {
    /// Blocks in a group; 0 where there is no parity.
    size: u32,
    /// By group, without the parity itself. `None` for a damaged one.
    stored: BTreeMap<u32, Option<Vec<Member>>>,
    /// Blocks that were read and are whole.
    members: BTreeMap<u32, Member>,
}

impl Groups {
    pub(super) fn new(record: &VolumeRecord) -> Self {
        let size = record.parity_group.into();
        Self { size, stored: BTreeMap::new(), members: BTreeMap::new() }
    }

    /// A stored parity.
    pub(super) fn add(&mut self, scan: &mut Scan<'_>, key: &[u8], value: &[u8], group: u16) {
        let members = match Parity::decode(value, key) {
            Ok(parity) => Some(parity.members().to_vec()),
            Err(damage) => {
                scan.found(PARITY_WRONG, key, damage.to_string());
                None
            }
        };
        self.stored.insert(group.into(), members);
    }

    /// A block that is whole.
    pub(super) fn member(&mut self, block: u32, generation: u64, value: &[u8]) {
        if self.size > 0 {
            let member =
                Member { block, generation, len: value.len() as u32, hash: hash64(0, value) };
            self.members.insert(block, member);
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
            let key = scan.keys.block(BlockPlace { slot, blob, chunk, block, generation: 0 });
            match self.stored.get(group) {
                None => scan.found(PARITY_MISSING, &key, "its group has blocks"),
                Some(_) if !needed.contains(group) => {
                    scan.found(PARITY_UNNEEDED, &key, "its group has no blocks");
                }
                // The damage is noted already.
                Some(None) => {}
                Some(Some(members)) => {
                    let range = group * self.size..(group + 1) * self.size;
                    let of_group = |block: &u32| range.contains(block);
                    let wanted: BTreeMap<u32, u64> = blocks()
                        .filter(of_group)
                        .filter_map(|block| Some((block, data.generation_of(block)?)))
                        .collect();
                    if let Some(wrong) = self.differs(members, &wanted, found) {
                        let what = format!("does not know block {wrong} as it is");
                        scan.found(PARITY_WRONG, &key, what);
                    }
                }
            }
        }
    }

    /// A block that parity knows otherwise than it is. One that is missing or damaged is not compared.
    fn differs(
        &self,
        members: &[Member],
        wanted: &BTreeMap<u32, u64>,
        found: &Bits,
    ) -> Option<u32> {
        for member in members {
            match (wanted.get(&member.block), self.members.get(&member.block)) {
                (None, _) => return Some(member.block),
                (Some(generation), _) if *generation != member.generation => {
                    return Some(member.block);
                }
                (Some(_), Some(is)) if is != member => return Some(member.block),
                _ => {}
            }
        }
        let known = |block: &u32| members.iter().any(|member| member.block == *block);
        // A block that is lost has no part in parity that was made after that.
        let whole = |block: &u32| match self.members.is_empty() {
            true => found.has(*block),
            false => self.members.contains_key(block),
        };
        wanted.keys().copied().find(|block| whole(block) && !known(block))
    }
}
