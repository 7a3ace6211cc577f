//! Small numbers for requests that are under way: none has the number of another before that is
//! answered.

use base::sync::Mutex;

/// The numbers.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl Slots {
    /// A number that nobody has.
    pub(crate) fn take(&self) -> u32 {
        let mut numbers = self.0.lock();
        numbers.free.pop().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next
        })
    }

    /// It is used no more.
    pub(crate) fn give_back(&self, slot: u32) {
        self.0.lock().free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_the_number_of_another() {
        let slots = Slots::default();
        let (first, second) = (slots.take(), slots.take());
        assert_ne!(first, second);
        slots.give_back(first);
        assert_eq!(slots.take(), first);
        assert_ne!(slots.take(), second);
    }
}
