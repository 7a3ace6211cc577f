//! A request that waits for its answer while its thread hears others.

use crate::channel::{Answer, Parcel};
use crate::reply::Errno;
use crate::seat::Seat;
use crate::server::{Asked, Server};
use base::sync::{Condvar, Mutex};
use std::sync::Arc;

/// Dropped without an answer, it is answered with EIO.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) server: Arc<Server>,
    pub(crate) seat: Arc<Seat>,
    pub(crate) asked: Asked,
    pub(crate) parcel: Option<Parcel>,
}

impl Ticket {
    pub(crate) fn answer(mut self, answer: &Answer) {
        self.send(answer);
    }

    fn send(&mut self, answer: &Answer) {
        if let Some(parcel) = self.parcel.take() {
            let spare = self.server.answer(&self.seat, parcel, &self.asked, answer);
            self.server.put_back(spare);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.parcel.is_some() {
            tracing::error!(opcode = ?self.asked.opcode, "a request was given up: answered with EIO");
            self.send(&Err(Errno::EIO));
        }
    }
}

/// How many are with somebody who tells nobody when it has answered them.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// And whether somebody waits for the last of them.
    state: Mutex<(usize, bool)>,
    ended: Condvar,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct OneUnderWay(Arc<UnderWay>);

impl UnderWay {
    pub(crate) fn begin(self: &Arc<Self>) -> OneUnderWay {
        self.state.lock().0 += 1;
        OneUnderWay(Arc::clone(self))
    }

    /// Waits until there is none.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock();
        while state.0 > 0 {
            state.1 = true;
            state = self.ended.wait(state);
        }
    }
}

impl Drop for OneUnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.0 -= 1;
        if state.0 == 0 && state.1 {
            self.0.ended.notify_all();
        }
    }
}
