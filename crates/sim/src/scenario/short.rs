//! The core on the embedded engine itself, where changes are made without a transaction: asked as a mount asks,
//! compared with the reference model, and raced by callers and by the background of one session.

use super::files::start;
use super::setup::Inner;
use crate::seeds::Trial;
use base::exec::yield_now;
use base::{Random, SeededRandom, SimClock};
use fs::model::{Jostled, Mix, Mounted, compare, race};
use fs::{Caller, OpenFlags, ROOT, Session, Sharing};
use std::fmt::Write;
use std::sync::Arc;

/// What tells the seeds apart, whatever else they are drawn from.
const TELLS: u64 = 0x0073_686f_7274;

/// Whether a seed is run here: one in three.
pub fn is_for(seed: u64) -> bool {
    SeededRandom::new(seed ^ TELLS).one_in(3)
}

/// Runs one seed.
pub fn run(seed: u64) -> Trial {
    let random = SeededRandom::new(seed);
    let mut trace = format!("seed {seed}: the embedded engine itself\n");
    let failure = match random.below(3) {
        0 => raced(&random, &mut trace),
        _ => compared(&random, &mut trace),
    };
    Trial { trace, failure: failure.err() }
}

struct Bench {
    clock: SimClock,
    crowd: Jostled,
    session: Session,
}

fn bench(random: &SeededRandom, trace: &mut String) -> Result<Bench, String> {
    let clock = SimClock::new();
    let crowd = Jostled::new(Inner::Local.open(random.next_u64())?, random.next_u64());
    let engine = Arc::new(crowd.clone());
    let sessions = start(engine, random, &clock, Sharing::Private, 1, trace)?;
    let session = sessions.into_iter().next().ok_or("no session")?;
    Ok(Bench { clock, crowd, session })
}

fn compared(random: &SeededRandom, trace: &mut String) -> Result<(), String> {
    let Bench { clock, crowd, session } = bench(random, trace)?;
    let steps = 30 + random.below(120) as usize;
    let plan = compare::Plan::of(&session, steps, Mix::draw(random)).mounted();
    // Half of them are left alone.
    let one_in = [0, 0, 0, 8, 25, 70][random.below(6) as usize];
    let _ = writeln!(trace, "{plan:?}, jostled once in {one_in}");
    crowd.jostle(one_in);
    let mounted = Mounted::new(session);
    let (told, outcome) = compare::simulate(&mounted, &clock, random.next_u64(), &plan);
    crowd.jostle(0);
    trace.push_str(&told);
    let _ = writeln!(trace, "{:?}, {} tries not alone", mounted.ways(), crowd.lost());
    outcome
}

fn raced(random: &SeededRandom, trace: &mut String) -> Result<(), String> {
    let Bench { clock, crowd, session } = bench(random, trace)?;
    let count = 2 + random.below(2) as usize;
    let sessions = vec![Mounted::new(session.clone()); count];
    // Long enough that something is known, and so can be done the short way.
    let plan =
        race::Plan { ops: 4 + random.below(3) as usize, names: 2 + random.below(2) as usize };
    let one_in = 2 + random.below(30);
    let _ = writeln!(trace, "{plan:?} {count} callers, jostled once in {one_in}");
    let beside = Box::pin(beside(session.clone()));
    let seed = random.next_u64();
    let (told, outcome) = race::run_jostled(&sessions, &clock, seed, &plan, &crowd, one_in, beside);
    trace.push_str(&told);
    let short = session.counts().short_changes;
    let _ = writeln!(trace, "{short} the short way, {} tries not alone", crowd.lost());
    outcome
}

/// What a session does by itself meanwhile: files without a name come and go, so that there are jobs and garbage. What
/// is wrong with it is seen by those who race.
async fn beside(session: Session) {
    let root = Caller::root();
    for round in 0..4_usize {
        if let Ok((_, handle)) = session.tmpfile(&root, ROOT, 0o600, OpenFlags::READ_WRITE).await {
            let _ = session.write(&root, handle, 0, &vec![7; 1 + round * 40_000]).await;
            yield_now().await;
            let _ = session.release(handle).await;
        }
        let _ = session.settle(round % 2 == 0).await;
        yield_now().await;
        let _ = session.maintain().await;
    }
}
