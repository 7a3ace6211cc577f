//! A request that waits for its answer while its thread hears others.

use crate::channel::{Answer, Parcel};
use crate::reply::Errno;
use crate::seat::Seat;
use crate::server::{Asked, Server};
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
            let spare = self.server.answer(&self.seat, false, parcel, &self.asked, answer);
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
