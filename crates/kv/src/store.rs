//! The handle that the layers above hold, and the one retry loop.

use crate::retry::gave_up;
use crate::{
    Attempt, Capabilities, Durability, Engine, ErrorKind, Failure, Fut, Result, Retry, Txn, Version,
};
use base::{Clock, Random};
use std::sync::Arc;
use std::time::Duration;

/// A store: an engine, and what the retry loop needs. Clones share the engine.
#[derive(Debug, Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    retry: Retry,
}

/// What a transaction returned and when it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed<T> {
    /// What the body returned.
    pub value: T,
    /// The version of the commit.
    pub version: Version,
}

impl Store {
    /// A store on `engine`.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self { engine, clock, random, retry: Retry::default() }
    }

    /// The same store with other bounds for retries.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// What the engine can do.
    pub fn capabilities(&self) -> &Capabilities {
        self.engine.capabilities()
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Starts a transaction that sees every commit that has returned.
    pub fn begin(&self) -> Fut<'static, Result<Txn>> {
        let engine = Arc::clone(&self.engine);
        self.engine.snapshot().map(move |snapshot| Ok(Txn::new(engine, snapshot?)))
    }

    /// The first try of a transaction looks at the store itself, where the engine lets it: most are over
    /// before anybody else commits. Later ones have a snapshot, which others cannot take away.
    fn begin_try(&self, attempt: Attempt) -> Fut<'static, Result<Txn>> {
        match self.look() {
            Some(txn) if attempt.number == 1 => Fut::ready(Ok(txn)),
            _ => self.begin(),
        }
    }

    /// Starts a transaction that looks at the store itself, if the engine lets it. It sees every commit
    /// that has returned, and fails with a conflict when there is another one while it reads.
    pub fn look(&self) -> Option<Txn> {
        let at = self.engine.newest()?;
        Some(Txn::looking(Arc::clone(&self.engine), at))
    }

    /// Makes every commit that has returned survive the loss of power.
    pub fn sync(&self) -> Fut<'static, Result<()>> {
        self.engine.sync()
    }

    /// Runs `body` in a transaction and commits it; again, on a new snapshot, while the error is one
    /// that passes by itself and the bounds of [`Retry`] allow. `body` may run many times and must
    /// have no effect but through its transaction. When it returns an error of its own nothing is
    /// written.
    ///
    /// After an unknown outcome the body is told so, and must find out what happened from what it
    /// reads. When the loop gives up after one, the error is [`ErrorKind::Unknown`].
    ///
    /// The future can move between threads when the body owns what it uses (`async move`). A body
    /// that borrows keeps it on one thread: see [`transact_send`](Self::transact_send).
    pub async fn transact<T, E: Failure>(
        &self,
        durability: Durability,
        mut body: impl AsyncFnMut(&mut Txn, Attempt) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        let mut tries = Tries::new(self);
        loop {
            match self.attempt(durability, tries.attempt, &mut body).await {
                Ok(committed) => return Ok(committed),
                Err(failure) => tries.again(failure)?,
            }
            tries.pause().await;
        }
    }

    /// The same as [`transact`](Self::transact) with a body that takes the transaction and gives it
    /// back, so that the future can move between threads although the body borrows.
    ///
    /// It exists because the compiler cannot yet prove that of an async closure with borrowed
    /// captures: the closure's future is of another type for each lifetime of its argument.
    pub async fn transact_send<T, E: Failure, F: Future<Output = Result<(Txn, T), E>>>(
        &self,
        durability: Durability,
        mut body: impl FnMut(Txn, Attempt) -> F,
    ) -> Result<Committed<T>, E> {
        let mut tries = Tries::new(self);
        loop {
            match self.attempt_send(durability, tries.attempt, &mut body).await {
                Ok(committed) => return Ok(committed),
                Err(failure) => tries.again(failure)?,
            }
            tries.pause().await;
        }
    }

    async fn attempt<T, E: Failure>(
        &self,
        durability: Durability,
        attempt: Attempt,
        body: &mut impl AsyncFnMut(&mut Txn, Attempt) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        let mut txn = self.begin_try(attempt).await?;
        let value = body(&mut txn, attempt).await?;
        let version = txn.commit(durability).await?;
        Ok(Committed { value, version })
    }

    async fn attempt_send<T, E: Failure, F: Future<Output = Result<(Txn, T), E>>>(
        &self,
        durability: Durability,
        attempt: Attempt,
        body: &mut impl FnMut(Txn, Attempt) -> F,
    ) -> Result<Committed<T>, E> {
        let txn = self.begin_try(attempt).await?;
        let (txn, value) = body(txn, attempt).await?;
        let version = txn.commit(durability).await?;
        Ok(Committed { value, version })
    }
}

/// Where the retry loop is.
struct Tries<'a> {
    store: &'a Store,
    /// When the first try failed: most do not, and need no clock.
    start: Option<Duration>,
    attempt: Attempt,
    pause: Duration,
}

impl<'a> Tries<'a> {
    fn new(store: &'a Store) -> Self {
        Self {
            store,
            start: None,
            attempt: Attempt { number: 1, maybe_committed: false },
            pause: Duration::ZERO,
        }
    }

    /// Takes note of a failed try. Ok when there is to be another, after the pause.
    fn again<E: Failure>(&mut self, failure: E) -> Result<(), E> {
        let Self { store, attempt, .. } = self;
        let Some(error) = failure.store_error() else {
            return Err(failure);
        };
        if !error.kind().is_retryable() {
            if attempt.maybe_committed {
                return Err(gave_up(error.clone(), attempt.number, true).into());
            }
            return Err(failure);
        }
        attempt.maybe_committed |= error.kind() == ErrorKind::Unknown;
        let pause = store.retry.backoff(attempt.number, &*store.random);
        let now = store.clock.now();
        let deadline = self.start.get_or_insert(now).saturating_add(store.retry.deadline);
        let late = now.saturating_add(pause) > deadline;
        if attempt.number >= store.retry.attempts_max || late {
            return Err(gave_up(error.clone(), attempt.number, attempt.maybe_committed).into());
        }
        // A first conflict is usually over by now: only waits that matter are worth a timer.
        let at_once = attempt.number == 1 && error.kind() == ErrorKind::Conflict;
        self.pause = if at_once { Duration::ZERO } else { pause };
        attempt.number += 1;
        Ok(())
    }

    async fn pause(&self) {
        if !self.pause.is_zero() {
            self.store.clock.sleep(self.pause).await;
        }
    }
}
