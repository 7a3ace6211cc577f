//! The bytes of a file of any size: only pages that hold something else than zeros are kept.

use std::collections::BTreeMap;

const PAGE_BYTES: u64 = 4096;

/// A file's contents. Equal contents are equal values: a page of zeros is never kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Sparse {
    size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Sparse {
    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Up to `len` bytes from `offset`; fewer at the end, none behind it.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(len as u64));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        if bytes.is_empty() {
            return bytes;
        }
        for (&page, data) in self.pages.range(offset / PAGE_BYTES..=(end - 1) / PAGE_BYTES) {
            let start = page * PAGE_BYTES;
            let from = offset.max(start);
            let to = end.min(start + PAGE_BYTES);
            bytes[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&data[(from - start) as usize..(to - start) as usize]);
        }
        bytes
    }

    /// Puts bytes at `offset`, and grows when they end behind the end.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let mut at = offset;
        while at < end {
            let page = at / PAGE_BYTES;
            let start = page * PAGE_BYTES;
            let to = end.min(start + PAGE_BYTES);
            let part = &bytes[(at - offset) as usize..(to - offset) as usize];
            self.change(page, |data| {
                data[(at - start) as usize..(to - start) as usize].copy_from_slice(part);
            });
            at = to;
        }
        if !bytes.is_empty() {
            self.size = self.size.max(end);
        }
    }

    /// Sets the size: cuts, or grows by zeros.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size);
        }
        self.size = size;
    }

    /// Makes `start..end` zeros. The size stays.
    pub fn zero(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (first, last) = (start / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let touched: Vec<u64> = self.pages.range(first..=last).map(|(&page, _)| page).collect();
        for page in touched {
            let base = page * PAGE_BYTES;
            let from = start.max(base) - base;
            let to = end.min(base + PAGE_BYTES) - base;
            self.change(page, |data| data[from as usize..to as usize].fill(0));
        }
    }

    /// Whether all of `start..end` are zeros, or behind the end.
    pub fn is_zero(&self, start: u64, end: u64) -> bool {
        if start >= end {
            return true;
        }
        let (first, last) = (start / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        self.pages.range(first..=last).all(|(&page, data)| {
            let base = page * PAGE_BYTES;
            let from = start.max(base) - base;
            let to = end.min(base + PAGE_BYTES) - base;
            data[from as usize..to as usize].iter().all(|&byte| byte == 0)
        })
    }

    /// Where something else than zeros is, as ranges of whole pages, cut at the end.
    pub fn extents(&self) -> Vec<(u64, u64)> {
        let mut extents: Vec<(u64, u64)> = Vec::new();
        for &page in self.pages.keys() {
            let start = page * PAGE_BYTES;
            let end = (start + PAGE_BYTES).min(self.size);
            match extents.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => extents.push((start, end)),
            }
        }
        extents
    }

    fn change(&mut self, page: u64, change: impl FnOnce(&mut [u8])) {
        let data = self.pages.entry(page).or_insert_with(|| vec![0; PAGE_BYTES as usize]);
        change(data);
        if data.iter().all(|&byte| byte == 0) {
            self.pages.remove(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::FILE_BYTES_MAX;

    #[test]
    fn the_last_byte_of_the_largest_file() {
        let mut sparse = Sparse::default();
        sparse.write(FILE_BYTES_MAX - 1, b"x");
        assert_eq!(sparse.size(), FILE_BYTES_MAX);
        assert_eq!(sparse.read(FILE_BYTES_MAX - 2, 10), b"\0x");
        assert_eq!(sparse.read(FILE_BYTES_MAX, 10), b"");
        assert_eq!(sparse.extents().len(), 1);
        sparse.resize(5);
        assert_eq!(sparse.read(0, 10), [0; 5]);
    }

    #[test]
    fn what_was_cut_does_not_come_back() {
        let mut sparse = Sparse::default();
        sparse.write(4090, b"0123456789");
        sparse.resize(4092);
        sparse.resize(8192);
        assert_eq!(sparse.read(4088, 8), b"\0\x0001\0\0\0\0");
        assert!(sparse.is_zero(4092, 9000));
        assert!(!sparse.is_zero(0, 4091));
    }

    #[test]
    fn equal_contents_are_equal_values() {
        let mut one = Sparse::default();
        one.write(0, &[7; 10_000]);
        one.zero(0, 10_000);
        let mut other = Sparse::default();
        other.resize(10_000);
        assert_eq!(one, other);
        assert_eq!(one.extents(), []);
    }
}
