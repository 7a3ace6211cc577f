//! Parity over a group of stored blocks: one that is lost or damaged is rebuilt from the others.
//!
//! ```text
//! version u8 | members u16 | parity length u32 | hash64 u64             (little-endian)
//! members, by block: block u32 | generation u64 | length u32 | hash64 u64
//! parity bytes
//! ```
//! The hash is chained over the parity's key, the fields before the hash and all behind it.

use super::Damage;
use base::checksum::hash64;
use bytes::Bytes;

/// The most members of a group.
pub const MEMBERS_MAX: usize = 1024;

const VERSION: u8 = 1;
const FIELD_BYTES: usize = 7;
const SUM_BYTES: usize = 8;
const MEMBER_BYTES: usize = 24;

/// What the stored form of the parity of so many blocks adds to the longest of them.
pub const fn overhead_bytes(members: usize) -> usize {
    FIELD_BYTES + SUM_BYTES + members * MEMBER_BYTES
}

/// One block of a group, as it was when the parity was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Which block of the file.
    pub block: u32,
    /// Which writing of that block.
    pub generation: u64,
    /// How many bytes its stored form has.
    pub len: u32,
    /// The [`hash64`] of its stored form.
    pub hash: u64,
}

impl Member {
    fn of(block: u32, generation: u64, stored: &[u8]) -> Self {
        debug_assert!(u32::try_from(stored.len()).is_ok(), "a block is far smaller than 4 GiB");
        Self { block, generation, len: stored.len() as u32, hash: hash64(0, stored) }
    }

    /// The length first: it is free, and tells most strangers.
    fn is(&self, stored: &[u8]) -> bool {
        self.len as usize == stored.len() && self.hash == hash64(0, stored)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.block.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.hash.to_le_bytes());
    }

    fn read(mut bytes: &[u8]) -> Option<Self> {
        Some(Self {
            block: u32::from_le_bytes(take(&mut bytes)?),
            generation: u64::from_le_bytes(take(&mut bytes)?),
            len: u32::from_le_bytes(take(&mut bytes)?),
            hash: u64::from_le_bytes(take(&mut bytes)?),
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk()?;
    *bytes = tail;
    Some(*head)
}

/// The parity of a group: the exclusive or of its blocks' stored forms, each as if followed by
/// zeros. It is as long as the longest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parity {
    /// By block, each once.
    members: Vec<Member>,
    xor: Vec<u8>,
}

impl Parity {
    /// The parity of these blocks: number, generation and stored form of each.
    pub fn of<'a>(blocks: impl IntoIterator<Item = (u32, u64, &'a [u8])>) -> Result<Self, Damage> {
        let mut parity = Self::default();
        for (block, generation, stored) in blocks {
            parity.replace(block, None, Some((generation, stored)))?;
        }
        Ok(parity)
    }

    /// The members, by block.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Exchanges a block's old stored form for a new one; `None` is a block that is not there. On an
    /// error nothing has changed: what was to go is not what had come in, or too many would be in.
    pub fn replace(
        &mut self,
        block: u32,
        old: Option<(u64, &[u8])>,
        new: Option<(u64, &[u8])>,
    ) -> Result<(), Damage> {
        let place = self.members.binary_search_by_key(&block, |member| member.block);
        // A wrong old form would spoil the parity of all the others.
        let known = place.ok().and_then(|at| self.members.get(at));
        match (known, old) {
            (None, None) => {}
            (Some(member), Some((generation, stored)))
                if member.generation == generation && member.is(stored) => {}
            _ => return Err(Damage::Member(block)),
        }
        let new_member = new.map(|(generation, stored)| Member::of(block, generation, stored));
        match (place, new_member) {
            (Ok(at), Some(member)) => self.members[at] = member,
            (Ok(at), None) => drop(self.members.remove(at)),
            (Err(_), Some(_)) if self.members.len() == MEMBERS_MAX => return Err(Damage::Members),
            (Err(at), Some(member)) => self.members.insert(at, member),
            (Err(_), None) => {}
        }
        if let Some((_, stored)) = old {
            xor_into(&mut self.xor, stored);
        }
        // Behind the longest member there are zeros only, so cutting them loses nothing.
        self.xor.resize(longest(&self.members), 0);
        if let Some((_, stored)) = new {
            xor_into(&mut self.xor, stored);
        }
        Ok(())
    }

    /// The stored form of a block from those of all the others, which are asked for by block and
    /// generation and checked, as is the result.
    pub fn rebuild(
        &self,
        missing: u32,
        mut others: impl FnMut(u32, u64) -> Option<Bytes>,
    ) -> Result<Bytes, Damage> {
        let member = self
            .members
            .iter()
            .find(|member| member.block == missing)
            .ok_or(Damage::Member(missing))?;
        let mut rebuilt = self.xor.clone();
        for other in self.members.iter().filter(|other| other.block != missing) {
            let stored = others(other.block, other.generation)
                .filter(|stored| other.is(stored))
                .ok_or(Damage::Other(other.block))?;
            xor_into(&mut rebuilt, &stored);
        }
        rebuilt.truncate(member.len as usize);
        if member.is(&rebuilt) { Ok(rebuilt.into()) } else { Err(Damage::Rebuilt(missing)) }
    }

    /// The stored form, for the key `place`.
    pub fn encode(&self, place: &[u8]) -> Vec<u8> {
        let mut stored = Vec::with_capacity(overhead_bytes(self.members.len()) + self.xor.len());
        stored.push(VERSION);
        stored.extend_from_slice(&(self.members.len() as u16).to_le_bytes());
        stored.extend_from_slice(&(self.xor.len() as u32).to_le_bytes());
        stored.extend_from_slice(&[0; SUM_BYTES]);
        for member in &self.members {
            member.write(&mut stored);
        }
        stored.extend_from_slice(&self.xor);
        let (fields, rest) = stored.split_at_mut(FIELD_BYTES);
        let (stored_sum, rest) = rest.split_at_mut(SUM_BYTES);
        stored_sum.copy_from_slice(&sum(place, fields, rest).to_le_bytes());
        stored
    }

    /// The parity that is stored at the key `place`. Allocates no more than `stored` has.
    pub fn decode(stored: &[u8], place: &[u8]) -> Result<Self, Damage> {
        let (header, rest) =
            stored.split_first_chunk::<{ FIELD_BYTES + SUM_BYTES }>().ok_or(Damage::TooShort)?;
        let [version, m0, m1, l0, l1, l2, l3, stored_sum @ ..] = *header;
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        let fields = [version, m0, m1, l0, l1, l2, l3];
        if sum(place, &fields, rest) != u64::from_le_bytes(stored_sum) {
            return Err(Damage::Checksum);
        }
        let count = usize::from(u16::from_le_bytes([m0, m1]));
        let xor_len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let (members, xor) = rest.split_at_checked(count * MEMBER_BYTES).ok_or(Damage::TooShort)?;
        if xor.len() != xor_len {
            return Err(Damage::Length { found: xor.len() as u64, wanted: xor_len as u64 });
        }
        let members: Vec<Member> =
            members.chunks_exact(MEMBER_BYTES).filter_map(Member::read).collect();
        let in_order = members.is_sorted_by(|a, b| a.block < b.block);
        if members.len() > MEMBERS_MAX || !in_order || longest(&members) != xor_len {
            return Err(Damage::Members);
        }
        Ok(Self { members, xor: xor.to_vec() })
    }
}

fn longest(members: &[Member]) -> usize {
    members.iter().map(|member| member.len as usize).max().unwrap_or(0)
}

/// Of the longer one, what is behind the other's end stays as it is.
fn xor_into(into: &mut [u8], bytes: &[u8]) {
    for (into, byte) in into.iter_mut().zip(bytes) {
        *into ^= byte;
    }
}

pub(crate) fn sum(place: &[u8], fields: &[u8], rest: &[u8]) -> u64 {
    hash64(hash64(hash64(0, place), fields), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Random, SeededRandom};
    use std::collections::BTreeMap;

    type Group = BTreeMap<u32, (u64, Bytes)>;

    fn noise(random: &SeededRandom) -> Bytes {
        (0..random.below(200)).map(|_| random.next_u64() as u8).collect()
    }

    fn some_group(random: &SeededRandom) -> Group {
        (0..1 + random.below(9))
            .map(|_| (random.below(50) as u32, (random.next_u64(), noise(random))))
            .collect()
    }

    fn parity_of(group: &Group) -> Parity {
        Parity::of(
            group
                .iter()
                .rev()
                .map(|(block, (generation, stored))| (*block, *generation, stored.as_ref())),
        )
        .unwrap()
    }

    fn ask(group: &Group) -> impl FnMut(u32, u64) -> Option<Bytes> + '_ {
        |block, generation| group.get(&block).filter(|at| at.0 == generation).map(|at| at.1.clone())
    }

    fn sealed(fields: [u8; FIELD_BYTES], rest: &[u8], place: &[u8]) -> Vec<u8> {
        [&fields, &sum(place, &fields, rest).to_le_bytes()[..], rest].concat()
    }

    #[test]
    fn any_one_block_is_rebuilt_and_no_two_are() {
        for seed in 0..300 {
            println!("seed {seed}");
            let random = SeededRandom::new(seed);
            let group = some_group(&random);
            let parity = parity_of(&group);
            for (missing, (_, stored)) in &group {
                let mut left = group.clone();
                left.remove(missing);
                assert_eq!(parity.rebuild(*missing, ask(&left)).as_ref(), Ok(stored));
                let Some((second, _)) = left.pop_first() else { continue };
                assert_eq!(parity.rebuild(*missing, ask(&left)), Err(Damage::Other(second)));
            }
            assert_eq!(parity.rebuild(99, ask(&group)), Err(Damage::Member(99)));
        }
    }

    #[test]
    fn a_damaged_other_is_noticed_and_so_is_a_damaged_parity() {
        let group: Group = (0..3).map(|i| (i, (7, Bytes::from(vec![i as u8; 20])))).collect();
        let mut parity = parity_of(&group);
        let mut bad = group.clone();
        bad.insert(1, (7, Bytes::from(vec![9; 20])));
        assert_eq!(parity.rebuild(0, ask(&bad)), Err(Damage::Other(1)));
        assert_eq!(parity.rebuild(1, ask(&bad)).unwrap(), group[&1].1);
        parity.xor[3] ^= 1;
        assert_eq!(parity.rebuild(0, ask(&group)), Err(Damage::Rebuilt(0)));
    }

    #[test]
    fn changing_a_group_step_by_step_is_making_it_anew() {
        for seed in 0..200 {
            println!("seed {seed}");
            let random = SeededRandom::new(seed);
            let mut group = some_group(&random);
            let mut parity = parity_of(&group);
            for _ in 0..30 {
                let block = random.below(12) as u32;
                let new = (!random.one_in(3)).then(|| (random.next_u64(), noise(&random)));
                let old = group.remove(&block);
                let old_ref = old.as_ref().map(|at| (at.0, at.1.as_ref()));
                let new_ref = new.as_ref().map(|at| (at.0, at.1.as_ref()));
                parity.replace(block, old_ref, new_ref).unwrap();
                group.extend(new.map(|new| (block, new)));
                assert_eq!(parity, parity_of(&group));
            }
        }
    }

    #[test]
    fn a_wrong_old_form_is_refused_and_changes_nothing() {
        let mut parity = Parity::of([(1, 5, &b"one"[..]), (2, 6, b"second")]).unwrap();
        let before = parity.clone();
        let new = Some((9, &b"new"[..]));
        let wrong: [Option<(u64, &[u8])>; 4] =
            [None, Some((6, b"one")), Some((5, b"eno")), Some((5, b"one\0"))];
        for old in wrong {
            assert_eq!(parity.replace(1, old, new), Err(Damage::Member(1)), "{old:?}");
        }
        assert_eq!(parity.replace(3, Some((5, b"one")), new), Err(Damage::Member(3)));
        assert_eq!(parity, before);
        assert_eq!(parity.replace(3, None, None), Ok(()));
        assert_eq!(parity, before);
    }

    #[test]
    fn a_group_has_a_bound() {
        let members = MEMBERS_MAX as u32;
        let mut parity = Parity::of((0..members).map(|block| (block, 0, &b"x"[..]))).unwrap();
        assert_eq!(parity.replace(members, None, Some((0, b"x"))), Err(Damage::Members));
        assert_eq!(parity.replace(0, Some((0, b"x")), Some((1, b"y"))), Ok(()));
        assert_eq!(Parity::decode(&parity.encode(b"k"), b"k"), Ok(parity));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        println!("seed 3");
        let random = SeededRandom::new(3);
        let parity = parity_of(&some_group(&random));
        let good = parity.encode(b"k");
        assert_eq!(good.len(), overhead_bytes(parity.members.len()) + parity.xor.len());
        assert_eq!(Parity::decode(&good, b"k"), Ok(parity));
        assert_eq!(Parity::decode(&good, b"l"), Err(Damage::Checksum));
        for len in 0..good.len() {
            assert!(Parity::decode(&good[..len], b"k").is_err(), "{len}");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Parity::decode(&bad, b"k").is_err(), "{bit}");
        }
    }

    #[test]
    fn headers_that_lie_under_a_right_checksum_are_damage() {
        let parity = Parity::of([(1, 5, &b"one"[..]), (2, 6, b"second")]).unwrap();
        let good = parity.encode(b"k");
        let rest = &good[FIELD_BYTES + SUM_BYTES..];
        let found = |fields, rest: &[u8]| Parity::decode(&sealed(fields, rest, b"k"), b"k");
        assert_eq!(found([1, 2, 0, 6, 0, 0, 0], rest), Ok(parity));
        assert_eq!(found([2, 2, 0, 6, 0, 0, 0], rest), Err(Damage::Version(2)));
        assert_eq!(found([1, 3, 0, 6, 0, 0, 0], rest), Err(Damage::TooShort));
        assert_eq!(found([1, 255, 255, 6, 0, 0, 0], rest), Err(Damage::TooShort));
        let lie = Damage::Length { found: 6, wanted: 0xffff_ffff };
        assert_eq!(found([1, 2, 0, 255, 255, 255, 255], rest), Err(lie));
        let (first, others) = rest.split_at(MEMBER_BYTES);
        let (second, xor) = others.split_at(MEMBER_BYTES);
        let swapped = [second, first, xor].concat();
        assert_eq!(found([1, 2, 0, 6, 0, 0, 0], &swapped), Err(Damage::Members));
        let longer = [rest, b"x"].concat();
        assert_eq!(found([1, 2, 0, 7, 0, 0, 0], &longer), Err(Damage::Members));
    }

    #[test]
    fn no_bytes_make_decoding_fail_otherwise_than_by_saying_so() {
        for seed in 0..2000 {
            println!("seed {seed}");
            let random = SeededRandom::new(seed);
            let rest: Vec<u8> = (0..random.below(120)).map(|_| random.next_u64() as u8).collect();
            assert!(Parity::decode(&rest, b"k").is_err());
            let fields = [VERSION, random.below(5) as u8, 0, random.below(99) as u8, 0, 0, 0];
            // Only the empty group is made of so little.
            let found = Parity::decode(&sealed(fields, &rest, b"k"), b"k");
            assert!(found.is_err() || found == Ok(Parity::default()));
        }
    }
}
