//! Keys and ranges of keys.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Keys up to this length live in the [`Key`] itself. Inode and directory-entry keys with names of
/// usual length fit, so a tree of keys is searched without following a pointer for each.
const INLINE_BYTES: usize = 38;

/// An owned key, cheap to copy.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Inline(u8, [u8; INLINE_BYTES]),
    Shared(Arc<[u8]>),
}

impl Key {
    /// A key of these bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_BYTES {
            let mut inline = [0; INLINE_BYTES];
            inline[..bytes.len()].copy_from_slice(bytes);
            Key(Repr::Inline(bytes.len() as u8, inline))
        } else {
            Key(Repr::Shared(bytes.into()))
        }
    }

    /// The least key above this one.
    #[inline]
    pub fn successor(&self) -> Self {
        match &self.0 {
            // Unused bytes are zero, so one more of them is the successor.
            Repr::Inline(len, bytes) if usize::from(*len) < INLINE_BYTES => {
                Key(Repr::Inline(len + 1, *bytes))
            }
            _ => {
                let mut bytes = Vec::with_capacity(self.len() + 1);
                bytes.extend_from_slice(self);
                bytes.push(0);
                Self::new(&bytes)
            }
        }
    }

    /// Eight bytes behind the first `skipped`, as a number that orders as they do; zeros where the key ends.
    #[inline]
    pub fn head(&self, skipped: usize) -> u64 {
        let bytes: &[u8] = match &self.0 {
            // Unused bytes are zero.
            Repr::Inline(_, bytes) => bytes,
            Repr::Shared(bytes) => bytes,
        };
        let rest = bytes.get(skipped..).unwrap_or_default();
        if let Some(head) = rest.first_chunk::<8>() {
            return u64::from_be_bytes(*head);
        }
        let mut head = [0; 8];
        head[..rest.len()].copy_from_slice(rest);
        u64::from_be_bytes(head)
    }

    /// Whether it begins with the first `len` bytes of another key, which has as many.
    #[inline]
    pub fn starts_like(&self, other: &Self, len: usize) -> bool {
        match (&self.0, &other.0) {
            (Repr::Inline(own, a), Repr::Inline(_, b)) if len <= 32 => {
                /// Ones for the first so many bytes of sixteen.
                #[inline(always)]
                fn first(bytes: usize) -> u128 {
                    if bytes >= 16 { u128::MAX } else { (1 << (8 * bytes)) - 1 }
                }
                let low = (half::<0>(a) ^ half::<0>(b)) & first(len);
                let high = (half::<16>(a) ^ half::<16>(b)) & first(len.saturating_sub(16));
                usize::from(*own) >= len && low | high == 0
            }
            _ => other.get(..len).is_some_and(|start| self.starts_with(start)),
        }
    }

    /// Bytes on the heap that belong to this key.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Inline(..) => 0,
            Repr::Shared(bytes) => bytes.len() + 16,
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Key {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }
}

impl<const N: usize> From<&[u8; N]> for Key {
    fn from(bytes: &[u8; N]) -> Self {
        Self::new(bytes)
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Inline(len, bytes), Repr::Inline(other_len, other)) => {
                len == other_len && bytes == other
            }
            _ => **self == **other,
        }
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Inline(len, bytes), Repr::Inline(other_len, other)) => {
                // Unused bytes are zero: where all are equal, the shorter key is the start of the other.
                compare(bytes, other).then(len.cmp(other_len))
            }
            _ => (**self).cmp(&**other),
        }
    }
}

/// Sixteen bytes of a key in place, the first of them lowest.
#[inline(always)]
fn half<const AT: usize>(bytes: &[u8; INLINE_BYTES]) -> u128 {
    match bytes.split_at(AT).1.first_chunk::<16>() {
        Some(half) => u128::from_le_bytes(*half),
        None => 0,
    }
}

/// The order of two keys in place, eight bytes at a time: searching a tree is mostly this. Written out, since the
/// places are then known when it is compiled and a word is one load.
#[inline(always)]
fn compare(a: &[u8; INLINE_BYTES], b: &[u8; INLINE_BYTES]) -> Ordering {
    #[inline(always)]
    fn word<const AT: usize>(bytes: &[u8; INLINE_BYTES]) -> u64 {
        match bytes.split_at(AT).1.first_chunk::<8>() {
            Some(word) => u64::from_be_bytes(*word),
            None => 0,
        }
    }
    let (x, y) = (word::<0>(a), word::<0>(b));
    if x != y {
        return x.cmp(&y);
    }
    let (x, y) = (word::<8>(a), word::<8>(b));
    if x != y {
        return x.cmp(&y);
    }
    let (x, y) = (word::<16>(a), word::<16>(b));
    if x != y {
        return x.cmp(&y);
    }
    let (x, y) = (word::<24>(a), word::<24>(b));
    if x != y {
        return x.cmp(&y);
    }
    // The last one overlaps the one before it.
    word::<{ INLINE_BYTES - 8 }>(a).cmp(&word::<{ INLINE_BYTES - 8 }>(b))
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// The keys from `start` up to, and without, `end`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyRange {
    /// The first key that can be in the range.
    pub start: Key,
    /// The first key behind it.
    pub end: Key,
}

impl KeyRange {
    /// The keys in `start..end`; none when `end` is not above `start`.
    pub fn new(start: &[u8], end: &[u8]) -> Self {
        Self { start: Key::new(start), end: Key::new(end) }
    }

    /// One key.
    #[inline]
    pub fn point(key: &[u8]) -> Self {
        let start = Key::new(key);
        Self { end: start.successor(), start }
    }

    /// All keys that begin with `prefix`. A prefix of nothing but 0xff bytes has no successor; its
    /// range, like that of the empty prefix, ends where keys do.
    pub fn prefix(prefix: &[u8]) -> Self {
        let kept = prefix.iter().rposition(|&byte| byte != 0xff);
        let end = match kept {
            Some(last) => {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                end
            }
            None => vec![0xff],
        };
        Self::new(prefix, &end)
    }

    /// Every key that a store can hold.
    pub fn all() -> Self {
        Self::new(&[], &[0xff])
    }

    /// Whether no key is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether `key` is in it.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && *key < *self.end
    }

    /// Whether some key is in both.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.start < other.end && other.start < self.end && !self.is_empty() && !other.is_empty()
    }

    /// The one key in the range, when it is the range of a point.
    pub fn as_point(&self) -> Option<&Key> {
        let one = self.end.len() == self.start.len() + 1
            && self.end.last() == Some(&0)
            && self.end.starts_with(&self.start);
        one.then_some(&self.start)
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..{:?}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_their_bytes_whatever_their_length() {
        let long = [7u8; 100];
        let mut keys = [
            Key::new(&long),
            Key::new(&long[..38]),
            Key::new(&long[..39]),
            Key::new(b""),
            Key::new(&[0]),
            Key::new(&[0xfe, 0]),
            Key::new(&[8]),
        ];
        keys.sort();
        assert!(keys.windows(2).all(|pair| *pair[0] < *pair[1]));
    }

    #[test]
    fn keys_compare_as_their_bytes_do() {
        use base::Random;
        let random = base::SeededRandom::new(7);
        let draw = || {
            let len = random.below(42) as usize;
            // Few different bytes, and long common starts.
            let mut bytes: Vec<u8> = (0..len).map(|_| 0).collect();
            for _ in 0..random.below(3) {
                if len > 0 {
                    bytes[random.below(len as u64) as usize] = random.below(256) as u8;
                }
            }
            bytes
        };
        for _ in 0..100_000 {
            let (a, b) = (draw(), draw());
            let (left, right) = (Key::new(&a), Key::new(&b));
            assert_eq!(left.cmp(&right), a.cmp(&b), "{a:?} {b:?}");
            assert_eq!(left == right, a == b, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_prefix_range_ends_at_the_next_prefix() {
        assert_eq!(*KeyRange::prefix(b"ab").end, *b"ac");
        assert_eq!(*KeyRange::prefix(b"a\xff").end, *b"b");
        assert_eq!(KeyRange::prefix(b"\xfe\xff").end, Key::new(b"\xff"));
        assert_eq!(KeyRange::prefix(b""), KeyRange::all());
    }

    #[test]
    fn a_point_is_known_as_one() {
        assert_eq!(KeyRange::point(b"k").as_point(), Some(&Key::new(b"k")));
        assert_eq!(KeyRange::new(b"k", b"k\x01").as_point(), None);
        assert_eq!(KeyRange::new(b"a", b"b").as_point(), None);
    }
}
