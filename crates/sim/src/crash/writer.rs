//! A writer: random calls, one after the other, each noted when it was acknowledged; the one that was under
//! way when the daemon died may have happened or not, but wholly.

use super::calls::{About, Seat};
use super::choice::{Bounds, choose};
use super::model::{Call, Model};
use super::verify::differences;
use super::{Journal, PAGE, Round, SHARED};
use base::{Random, SeededRandom};
use std::path::Path;

/// A writer and what it has made.
#[derive(Debug)]
pub(super) struct Writer {
    number: usize,
    home: String,
    shared: String,
    model: Model,
    random: SeededRandom,
    bounds: Bounds,
    journal: Journal,
    under_way: Option<Call>,
    /// Records of the shared log that were acknowledged.
    records: u64,
}

impl Writer {
    /// One that has made nothing.
    pub(super) fn new(number: usize, seed: u64, bounds: Bounds, journal: Journal) -> Self {
        Self {
            number,
            home: format!("w{number}"),
            shared: format!("{SHARED}/w{number}-"),
            model: Model::default(),
            random: SeededRandom::new(seed),
            bounds,
            journal,
            under_way: None,
            records: 0,
        }
    }

    /// Its own directory.
    pub(super) fn home(&self) -> &str {
        &self.home
    }

    /// Makes calls until the daemon is gone. An error is a call that failed while it lived.
    pub(super) fn work(&mut self, mountpoint: &Path, round: &Round) -> Result<(), String> {
        let mut seat = match Seat::take(mountpoint) {
            Ok(seat) => seat,
            Err(error) => return round.gone(&error, "taking hold of the mount"),
        };
        while round.goes_on() {
            let mut call = choose(&self.model, &self.random, self.bounds, &self.home, &self.shared);
            if let Call::Record { number } = &mut call {
                *number = self.records;
            }
            let done = self.make(&mut seat, &call);
            match done {
                Ok(()) => {
                    self.journal.note(round.number, &call)?;
                    if matches!(call, Call::Record { .. }) {
                        self.records += 1;
                    }
                    self.model.apply(&call);
                    round.acknowledge();
                }
                Err(error) => {
                    let words = format!("{call:?}");
                    self.under_way = Some(call);
                    return round.gone(&error, &words);
                }
            }
        }
        Ok(())
    }

    fn make(&self, seat: &mut Seat, call: &Call) -> std::io::Result<()> {
        let path = match call {
            Call::Write { path, .. }
            | Call::Append { path, .. }
            | Call::Sync { path }
            | Call::Truncate { path, .. }
            | Call::Punch { path, .. }
            | Call::Unlink { path }
            | Call::Times { path, .. } => path,
            _ => "",
        };
        // A file that is made gets the next number; it is open under none until then.
        let number = self.model.names.get(path).copied();
        let record = record(self.number, self.records);
        let about = About {
            number: number.unwrap_or_else(|| self.model.next_number()),
            end: self.model.bytes(path).map_or(0, <[u8]>::len),
            only_name: number.is_some_and(|number| self.model.links(number) == 1),
            record: &record,
        };
        seat.call(call, about)
    }

    /// Checks that everything acknowledged is there, and finds out about the call that was under way.
    pub(super) fn verify(&mut self, mountpoint: &Path) -> Result<(), String> {
        let seat = Seat::take(mountpoint).map_err(|error| format!("cannot look: {error}"))?;
        let without = differences(&seat, &self.model, &self.home, &self.shared);
        let call = self.under_way.take();
        if without.is_empty() {
            return Ok(());
        }
        let Some(mut call) = call else { return Err(self.told(&without)) };
        self.cut_short(&seat, &mut call);
        let mut model = self.model.clone();
        model.apply(&call);
        let with = differences(&seat, &model, &self.home, &self.shared);
        if with.is_empty() {
            self.model = model;
            return Ok(());
        }
        Err(format!(
            "{}\nor, had the call that was under way ({call:?}) happened:\n{}",
            self.told(&without),
            self.told(&with)
        ))
    }

    /// A write that was under way may have got as far as the end of a page: the kernel makes several requests
    /// of one that begins inside a page that it does not know, and each of them happens or not.
    fn cut_short(&self, seat: &Seat, call: &mut Call) {
        let (path, at, len) = match call {
            Call::Write { path, at, len, .. } => (path, *at, len),
            Call::Append { path, len, .. } => {
                let end = self.model.bytes(path).map_or(0, <[u8]>::len);
                (path, end, len)
            }
            _ => return,
        };
        let mut model = self.model.clone();
        let path = path.clone();
        let Ok(found) = std::fs::read(seat.at(&path)) else { return };
        let whole = *len;
        model.apply(call);
        let Some(wanted) = model.bytes(&path) else { return };
        if found == wanted {
            return;
        }
        let same = found.iter().zip(wanted).take_while(|(one, other)| one == other).count();
        let cut = same / PAGE * PAGE;
        if (at + 1..at + whole).contains(&cut) {
            match call {
                Call::Write { len, .. } | Call::Append { len, .. } => *len = cut - at,
                _ => {}
            }
        }
    }

    fn told(&self, found: &[String]) -> String {
        format!("writer {}: {}", self.number, found.join("\n  "))
    }

    /// How many records must be in the shared log, and whether one more may.
    pub(super) fn records(&self) -> (u64, bool) {
        (self.records, matches!(self.under_way, Some(Call::Record { .. })))
    }

    /// The record that was under way.
    pub(super) fn next_record(&self) -> Option<String> {
        let (number, one_more) = self.records();
        one_more.then(|| record(self.number, number))
    }

    /// The shared log has so many of its records: 0 when it was begun anew.
    pub(super) fn set_records(&mut self, records: u64) {
        self.records = records;
    }

    /// Bytes that it has.
    pub(super) fn total_bytes(&self) -> usize {
        self.model.total_bytes()
    }
}

/// A record of the shared log.
pub(super) fn record(writer: usize, number: u64) -> String {
    let random = SeededRandom::new(number * 64 + writer as u64);
    let more = "abcdefghij".repeat(random.below(20) as usize);
    format!("{writer} {number} {more}\n")
}
