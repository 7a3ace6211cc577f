//! `sim outlive`: the same writers on a mount whose supervisor starts another daemon whenever one is killed.
//! No call may fail, none may be done twice, and everything is checked on the same mount.

use super::{Cast, FSCK_EVERY, MEMORY, Options, TOLD_EVERY, Tally, fsck};
use crate::crash::round::Round;
use crate::real::{Daemon, Place, is_mounted, wait_until};
use base::{Clock, Random, SeededRandom, SystemClock};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

/// Calls that are acknowledged between two kills at most.
const CALLS_MAX: u64 = 600;
/// Kills of one round at most.
const KILLS_MAX: u64 = 3;
/// So many kills within so long at most: the supervisor takes forty deaths in ten seconds for a daemon that cannot live.
const KILLS_WITHIN: (usize, Duration) = (30, Duration::from_secs(10));

/// Waits where kills would follow too soon upon each other.
struct Pace {
    clock: SystemClock,
    last: VecDeque<Duration>,
}

impl Pace {
    fn wait(&mut self) {
        let (most, within) = KILLS_WITHIN;
        if self.last.len() == most
            && let Some(first) = self.last.pop_front()
        {
            let since = self.clock.now().saturating_sub(first);
            base::block_on(self.clock.sleep(within.saturating_sub(since)));
        }
        self.last.push_back(self.clock.now());
    }
}

pub(super) fn rounds(
    options: &Options,
    place: &Place,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<(), String> {
    place.make()?;
    let random = SeededRandom::new(options.seed);
    let memory = MEMORY[random.below(MEMORY.len() as u64) as usize];
    let mut first = Daemon::start(place, &["--supervise", memory])?;
    let mut serving = first.pid();
    let mut cast = Cast::new(place, &random)?;
    let mut pace = Pace { clock: SystemClock::new(), last: VecDeque::new() };
    for number in 1..=options.rounds {
        let told = |words| format!("round {number}: {words}");
        let round = Round::outliving(number);
        // The first kill may come at any time.
        round.strike();
        cast.work(&place.mountpoint(), &round, || {
            let mut calls = 0;
            for _ in 0..1 + random.below(KILLS_MAX) {
                calls += 1 + random.below(CALLS_MAX);
                round.wait_for(calls, || false)?;
                pace.wait();
                serving = replace(place, serving)?;
                let _ = first.has_ended();
                tally.kills += 1;
                // The next kill may come before anything has gone on.
                calls = if random.one_in(4) { 0 } else { round.acknowledged() };
            }
            round.wait_for(calls + CALLS_MAX, || false)
        })
        .map_err(told)?;
        tally.acknowledged += round.acknowledged();
        tally.cut += round.cut();
        cast.verify(&place.mountpoint()).map_err(told)?;
        if number % FSCK_EVERY == 0 {
            fsck(place, &place.mountpoint()).map_err(told)?;
            tally.fscks += 1;
        }
        if number % TOLD_EVERY == 0 {
            let calls = tally.acknowledged;
            writeln!(out, "outlive: round {number}: {calls} calls acknowledged")
                .map_err(|error| error.to_string())?;
        }
    }
    drop(cast);
    let ended = place.verb(&["umount".as_ref(), place.mountpoint().as_os_str()])?;
    if ended.code != Some(0) || is_mounted(&place.mountpoint()) {
        return Err(format!("cannot unmount: {}", ended.all));
    }
    fsck(place, &place.store())
}

/// Kills the daemon that serves, and waits for the next one. Returns its process.
fn replace(place: &Place, serving: u32) -> Result<u32, String> {
    let pid = i32::try_from(serving).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or("a daemon without a number")?;
    kill_process(pid, Signal::KILL).map_err(|error| format!("cannot kill the daemon: {error}"))?;
    let mut next = None;
    wait_until("another daemon is there", || {
        next = successor(place).filter(|pid| *pid != serving);
        next.is_some()
    })?;
    next.ok_or_else(|| "no other daemon".to_owned())
}

/// The process that took over last.
fn successor(place: &Place) -> Option<u32> {
    let store = place.store();
    let store = store.as_os_str().as_encoded_bytes();
    let entries = std::fs::read_dir("/proc").ok()?;
    entries.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = words.split(|byte| *byte == 0).skip(1);
        (words.next() == Some(b"take-over") && words.next() == Some(store)).then_some(pid)
    })
}
