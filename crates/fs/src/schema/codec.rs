//! Bytes of records: numbers, lengths, and the seal that every record carries.

use base::checksum::hash64;

/// Bytes of the seal at the end of a record.
const SEAL_BYTES: usize = 4;

/// Builds a record.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(crate) fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Seven bits a byte, the lowest first; the high bit says that more follow.
    #[inline]
    pub(crate) fn number(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.raw(bytes)
    }

    /// The record with its seal. The key is part of what is sealed: a record that stands under
    /// another key is damaged.
    pub(crate) fn seal(mut self, key: &[u8]) -> Vec<u8> {
        let seal = seal_of(key, &self.0);
        self.0.extend_from_slice(&seal);
        self.0
    }
}

fn seal_of(key: &[u8], body: &[u8]) -> [u8; SEAL_BYTES] {
    (hash64(hash64(0, key), body) as u32).to_le_bytes()
}

/// The body of a record whose seal is right.
#[inline]
pub(crate) fn unseal<'a>(key: &[u8], record: &'a [u8]) -> Option<Reader<'a>> {
    let (body, seal) = record.split_last_chunk::<SEAL_BYTES>()?;
    (*seal == seal_of(key, body)).then_some(Reader(body))
}

/// Takes a record apart. Whatever the bytes are, it answers `None` rather than failing otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // One form for each number: no empty byte at the end.
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }

    pub(crate) fn number_u32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(crate) fn raw(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.raw(count)
    }

    /// Nothing may be left over.
    pub(crate) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut writer = Writer::default();
            writer.number(value);
            let bytes = writer.0;
            let mut reader = Reader(&bytes);
            assert_eq!(reader.number(), Some(value));
            assert!(reader.end().is_some());
        }
        assert_eq!(Reader(&[0x80, 0]).number(), None);
        assert_eq!(Reader(&[0xff; 10]).number(), None);
        assert_eq!(Reader(&[0x80]).number(), None);
    }

    #[test]
    fn a_record_under_another_key_is_damaged() {
        let mut writer = Writer::default();
        writer.bytes(b"hello");
        let record = writer.seal(b"key");
        assert!(unseal(b"key", &record).is_some());
        assert!(unseal(b"kez", &record).is_none());
        for at in 0..record.len() {
            let mut bad = record.clone();
            bad[at] ^= 1;
            assert!(unseal(b"key", &bad).is_none());
        }
        assert!(unseal(b"key", &record[..3]).is_none());
    }
}
