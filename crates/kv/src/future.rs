//! A future that costs nothing when the answer is there already.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Ready with a value, or a boxed future. An embedded engine returns the first kind: no allocation,
/// no thread hop, no system call.
pub struct Fut<'a, T>(State<'a, T>);

enum State<'a, T> {
    Ready(Option<T>),
    Pending(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> Fut<'a, T> {
    /// The answer is `value`.
    pub fn ready(value: T) -> Self {
        Fut(State::Ready(Some(value)))
    }

    /// The answer comes later.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Fut(State::Pending(Box::pin(future)))
    }

    /// The answer, when it is there without waiting; otherwise the future again.
    pub fn now(self) -> Result<T, Self> {
        match self.0 {
            State::Ready(Some(value)) => Ok(value),
            other => Err(Fut(other)),
        }
    }
}

impl<'a, T: Send + 'a> Fut<'a, T> {
    /// Applies `change` to the answer.
    pub fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'a) -> Fut<'a, U> {
        match self.now() {
            Ok(value) => Fut::ready(change(value)),
            Err(pending) => Fut::later(async move { change(pending.await) }),
        }
    }
}

// Nothing is pinned in place: a ready value is moved out, a pending future has its own box.
impl<T> Unpin for Fut<'_, T> {}

impl<T> Future for Fut<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Pending(future) => future.as_mut().poll(context),
            State::Ready(value) => match value.take() {
                Some(value) => Poll::Ready(value),
                // Polled again after it was ready, which the contract of `Future` forbids.
                None => Poll::Pending,
            },
        }
    }
}

impl<T> fmt::Debug for Fut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "Fut(ready)",
            State::Pending(_) => "Fut(pending)",
        })
    }
}
