//! A clock on which waiting takes no time: a sleep moves it on and is over. It writes down what it
//! was asked for.

use base::Clock;
use base::clock::Sleep;
use base::sync::Mutex;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Leap {
    sleeps: Mutex<Vec<Duration>>,
    idle: Mutex<Duration>,
}

impl Leap {
    /// Every sleep so far.
    pub(super) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.lock().clone()
    }

    /// Lets time pass that nobody slept.
    pub(super) fn pass(&self, duration: Duration) {
        *self.idle.lock() += duration;
    }
}

impl Clock for Leap {
    fn wall(&self) -> (i64, u32) {
        let now = self.now();
        (now.as_secs() as i64, now.subsec_nanos())
    }

    fn now(&self) -> Duration {
        *self.idle.lock() + self.sleeps.lock().iter().sum::<Duration>()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.sleeps.lock().push(duration);
        Box::pin(std::future::ready(()))
    }
}
