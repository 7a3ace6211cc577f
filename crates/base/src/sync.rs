//! Locks that know no poison and spin a little before they sleep.

use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A mutex. A panic while it is held does not poison it: the code above never leaves a value that
/// it guards half changed across a call that can panic, and a second panic would hide the first.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// Waiting for something that takes microseconds. Waking a sleeper on another CPU costs tens of
/// them, so it spins first; then whoever is waited for may have lost its CPU, so it gives way.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    const SPINS: u32 = 800;
    const YIELDS: u32 = 16;

    /// Waits a little. False when it is time to sleep instead.
    pub fn wait(&mut self) -> bool {
        self.0 += 1;
        if self.0 <= Self::SPINS {
            std::hint::spin_loop();
            return true;
        }
        if self.0 <= Self::SPINS + Self::YIELDS {
            std::thread::yield_now();
            return true;
        }
        false
    }
}

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
        let mut backoff = Backoff::default();
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            if !backoff.wait() {
                return self.lock();
            }
        }
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

    /// The same, but not for longer than a time.
    pub fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        most: std::time::Duration,
    ) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one who waits, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes everybody who waits.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
