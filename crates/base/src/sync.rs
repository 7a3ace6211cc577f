//! Locks that know no poison and spin a little before they sleep.

use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A mutex. A panic while it is held does not poison it: the code above never leaves a value that
/// it guards half changed across a call that can panic, and a second panic would hide the first.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// How long [`Mutex::lock_soon`] spins before it sleeps. Waking a sleeper on another CPU costs
/// tens of microseconds; the sections that use this hold for a few.
const SPINS: u32 = 2_000;

impl<T> Mutex<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Locks.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks if nobody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks, spinning first, for sections that are held for microseconds.
    pub fn lock_soon(&self) -> MutexGuard<'_, T> {
        for _ in 0..SPINS {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            std::hint::spin_loop();
        }
        self.lock()
    }

    /// The value, when nobody shares the lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// A condition nobody waits for yet.
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// Releases the guard, waits for a notification, and locks again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everybody who waits.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
