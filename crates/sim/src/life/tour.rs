//! Everything that can happen to a file of the home, once, at the beginning of each life that has one. What
//! follows it is drawn at random, and meets what the tour has left.

use super::script::{Step, pick};
use base::{Random, SeededRandom};

/// Lengths that do not stay inline.
const LARGE: [usize; 3] = [1_500, 9_000, 30_000];
/// Files that come and go at the end, so that those of the home are used again.
const TURNOVER: usize = 4;

/// The tour, with lengths and bytes of the seed.
pub(super) fn all(random: &SeededRandom) -> Vec<Step> {
    let write = |slot: usize, offset: u64, len: usize| Step::WriteHeld {
        slot,
        offset,
        len,
        fill: random.below(256) as u8,
    };
    let large = || pick(random, &LARGE);
    let make = |slot: usize, path: &str| Step::HoldNew { slot, path: path.to_owned() };
    let hold = |slot: usize, path: &str| Step::Hold { slot, path: path.to_owned() };
    let anew = |slot: usize, path: &str| Step::HoldAnew { slot, path: path.to_owned() };
    let settle = || Step::Settle { all: false };
    let settle_all = || Step::Settle { all: true };
    let path = |path: &str| path.to_owned();
    let mut steps = vec![
        // Lent, written past the inline limit, synced, grown while it is open, settled.
        make(0, "a"),
        write(0, 0, large()),
        Step::FsyncHeld(0),
        write(0, 1_000, large()),
        Step::LetGo(0),
        settle(),
        // A small one, which goes inline; one that is synced while it is small and open.
        make(1, "one/b"),
        write(1, 0, 90),
        Step::LetGo(1),
        make(2, "one/c"),
        write(2, 0, 200),
        Step::FsyncHeld(2),
        settle_all(),
        write(2, 100, 500),
        Step::LetGo(2),
        settle(),
        // One that outgrows its record while it is open.
        Step::Create(path("two/d")),
        hold(0, "two/d"),
        write(0, 0, 200),
        write(0, 150, large()),
        Step::FsyncHeld(0),
        write(0, 0, 300),
        Step::LetGo(0),
        settle(),
        // A settled one is cut to nothing, and written again by who opens it, twice.
        Step::Truncate { path: path("a"), size: 0 },
        settle_all(),
        Step::SyncDir(path("")),
        hold(0, "a"),
        write(0, 0, large()),
        Step::LetGo(0),
        settle(),
        anew(0, "a"),
        write(0, 0, large()),
        Step::FsyncHeld(0),
        Step::LetGo(0),
        settle(),
        // A settled one is opened to be written to again, with holes and room.
        Step::Write { path: path("a"), offset: 700, len: large(), fill: 9 },
        Step::Punch { path: path("a"), offset: 500, len: 3_000 },
        Step::Zero { path: path("a"), offset: 100, len: 2_000, keep_size: false },
        Step::Allocate { path: path("a"), offset: 0, len: 40_000, keep_size: false },
        Step::Fsync(path("a")),
        settle(),
        // A settled one that is synced while it is small goes inline: its file counts until that is durable.
        Step::Truncate { path: path("two/d"), size: 300 },
        Step::Fsync(path("two/d")),
        settle_all(),
        make(1, "two/b"),
        write(1, 0, large()),
        Step::Chmod { path: path("two/d"), mode: 0o600 },
        Step::LetGo(1),
        // A new one takes the place of an old one.
        make(1, "e"),
        write(1, 0, large()),
        Step::LetGo(1),
        Step::Rename { path: path("e"), to: path("a"), no_replace: false, exchange: false },
        Step::SyncDir(path("")),
        settle(),
        // One goes while it is open, and is written to after that.
        hold(2, "a"),
        Step::Unlink(path("a")),
        write(2, 0, large()),
        settle_all(),
        Step::LetGo(2),
        settle(),
        // What is open when everything is synced, and when the session ends.
        make(0, "f"),
        write(0, 0, large()),
        Step::SyncAll,
        write(0, 200, large()),
        Step::Restart,
    ];
    for number in 0..TURNOVER {
        let name = ["b", "c", "d", "e"][number % 4];
        steps.extend([make(0, name), write(0, 0, large()), Step::LetGo(0)]);
        if number % 2 == 0 {
            steps.extend([settle(), Step::Unlink(path(name))]);
        }
    }
    steps.extend([settle(), settle(), settle_all(), Step::Maintain]);
    steps
}
